//! `Database` and what belongs to it.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use strandline::{Domain, Options};

use crate::errors::{of_database, raised};
use crate::patience;
use crate::streams::{self, Source};
use crate::tables::{self, Answer, Cell, Control, Erased, Kind, Operation};
use crate::turns::Turns;
use crate::workers::{self, Line};

/// Rows that are fetched at a time.
const BATCH: usize = 256;

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Database>()?;
    module.add_class::<Table>()?;
    module.add_class::<Transaction>()?;
    module.add_class::<Snapshot>()?;
    module.add_class::<Rows>()?;
    module.add_class::<Ticket>()
}

type Db = strandline::Database<Control>;

fn usage(text: &str) -> PyErr {
    raised("UsageError", text.into())
}

/// An open database.
struct Inner {
    /// None once it is closed.
    db: Mutex<Option<Arc<Db>>>,
    /// Each operation under way has a share, also one whose caller a signal has taken away; `close` waits for them.
    operations: Arc<()>,
    /// Each write takes one. A thread in the block of a transaction takes no other: it would wait for itself. It does not read outside the
    /// transaction either, nor wait for a flush or a checkpoint, which wait for a large transaction. The database cannot tell, since the
    /// transaction runs on a worker thread.
    turns: Arc<Turns>,
}

impl Inner {
    fn db(&self) -> PyResult<Arc<Db>> {
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        db.clone().ok_or_else(|| raised("DatabaseError", "the database is closed".into()))
    }

    fn demand_no_writing(&self) -> PyResult<()> {
        streams::demand_no_source()?;
        match self.turns.is_own() {
            true => Err(usage(
                "a transaction of this thread is under way: use its tables, tx[table], or end it first",
            )),
            false => Ok(()),
        }
    }

    /// Does work that writes. A signal ends the wait for other writers.
    fn write<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Db) -> strandline::Result<T> + Send,
    ) -> PyResult<T> {
        self.demand_no_writing()?;
        let _turn = self.turns.take(py, None)?;
        let _operation = self.operations.clone();
        let db = self.db()?;
        py.detach(|| work(&db)).map_err(of_database)
    }

    /// Does work that reads. It waits only for a large transaction of which there is no room for old versions, and a signal ends that.
    fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Db) -> strandline::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        if self.turns.is_large() {
            return self.work(py, work);
        }
        self.demand_no_writing()?;
        let _operation = self.operations.clone();
        let db = self.db()?;
        py.detach(|| work(&db)).map_err(of_database)
    }

    /// Does work that may take long, on a thread of its own. A signal leaves it to that.
    fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Db) -> strandline::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.demand_no_writing()?;
        let operation = self.operations.clone();
        let db = self.db()?;
        let work = move || {
            let done = work(&db);
            drop(db);
            drop(operation);
            done
        };
        patience::wait_for(py, || {}, work)?.map_err(of_database)
    }

    /// Begins a snapshot.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Line> {
        self.demand_no_writing()?;
        workers::snapshot(py, self.operations.clone(), self.db()?)
    }
}

/// Where a table is read and written.
#[derive(Clone)]
enum Place {
    /// Each operation is a transaction.
    Itself,
    Transaction(Line),
    Snapshot(Line),
}

/// Named tables in a file, with transactions over all of them: `Database.open(path)`, or `Database.in_memory()` for tests.
///
/// It closes at the end of a `with` block. Threads can share it.
#[pyclass(frozen, module = "strandline")]
struct Database(Arc<Inner>);

#[pymethods]
impl Database {
    /// Opens the database in the file at `path`; makes it if there is no such file. There is a second file beside it, `path.log`.
    ///
    /// `domain`: what it is stored on: `"sync"` (any file system; the default), `"flush"`, `"flush-on-fail"` (persistent memory) or `"process"` (survives kills, not
    /// power failures). `read_only`: beside any number of other readers, and no writer. `address_space`: bytes of address space to reserve, a
    /// multiple of 4096, where the system limits it; the file then grows no further. `memory`: bytes of memory for copies of the file's pages and
    /// old versions, at least 4 MB; by default half of what the machine or the container has, and at most 1.3 GB.
    #[staticmethod]
    #[pyo3(signature = (path, *, domain = None, read_only = false, address_space = None, memory = None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        domain: Option<&str>,
        read_only: bool,
        address_space: Option<u64>,
        memory: Option<u64>,
    ) -> PyResult<Self> {
        let domain = match domain {
            None | Some("sync") => Domain::Sync,
            Some("flush") => Domain::Flush,
            Some("flush-on-fail") => Domain::FlushOnFail,
            Some("process") => Domain::Process,
            Some(other) => {
                let text =
                    format!("there is no domain {other:?}: choose sync, flush, flush-on-fail or process");
                return Err(usage(&text));
            }
        };
        let options = Options { domain, address_space, memory, ..Options::default() };
        let opened = py.detach(|| match read_only {
            true => Db::open_read_only(&path, &options),
            false => Db::open_with(&path, &options),
        });
        opened.map(Self::over).map_err(of_database)
    }

    /// An empty database in memory, for tests: nothing of it remains.
    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Self> {
        py.detach(|| Db::in_memory_with(&Options::default())).map(Self::over).map_err(of_database)
    }

    /// The table `name`, which is made if it is not there: keys in order, each with a value.
    ///
    /// Types are `bytes`, `str`, `int` (64 bits with a sign), `"u64"`, and for values `"json"`: what `json.dumps` takes. They are checked against
    /// those in the file, which other programs see as `Vec<u8>`, `String`, `i64` and `u64`.
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Table> {
        let kinds = (Kind::of(key)?, Kind::of(value)?);
        tables::check_key(kinds.0)?;
        let owned = name.to_owned();
        let is_there = self.0.read(py, move |db| Ok(db.list()?.iter().any(|table| table.name == owned)))?;
        let owned = name.to_owned();
        let table = match is_there {
            true => self.0.read(py, move |db| tables::open(db, &owned, kinds.0, kinds.1))?,
            false => self.0.write(py, move |db| tables::open(db, &owned, kinds.0, kinds.1))?,
        };
        Ok(Table { inner: self.0.clone(), name: name.into(), table, kinds, place: Place::Itself })
    }

    /// All tables: name, kind, and the types of keys and values.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let list = self.0.read(py, |db| db.list())?;
        let describe = |table: strandline::TableDescription| {
            let dict = PyDict::new(py);
            dict.set_item("name", table.name)?;
            dict.set_item("kind", table.kind.to_string())?;
            dict.set_item("key", table.key)?;
            dict.set_item("value", table.value)?;
            Ok(dict)
        };
        list.into_iter().map(describe).collect()
    }

    /// Deletes a table with all that is in it; whether it was there.
    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.0.write(py, |db| db.delete(name))
    }

    /// A transaction, for a `with` block: all that its tables, `tx[table]`, write is there at the block's end, after a power failure too; or nothing, if
    /// an exception leaves it. One writes at a time.
    ///
    /// `later`: the end of the block waits for no disk; `tx.ticket` does.
    #[pyo3(signature = (*, later = false))]
    fn write(&self, later: bool) -> Transaction {
        Transaction { inner: self.0.clone(), later, state: Mutex::new(State::New) }
    }

    /// The database as it is now, for as long as the snapshot is open: its tables are `snapshot[table]`. Writers go on meanwhile.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let line = self.0.snapshot(py)?;
        Ok(Snapshot { line: Mutex::new(Some(line)), inner: self.0.clone() })
    }

    /// Looks everything over for damage; what is wrong.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.0.work(py, |db| db.check())
    }

    /// Copies the database as it is now to a new file, while transactions run.
    fn backup(&self, py: Python<'_>, to: PathBuf) -> PyResult<()> {
        self.0.work(py, move |db| db.backup(to)).map(drop)
    }

    /// The file's path.
    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.0.db()?.path().to_owned())
    }

    /// Makes everything durable and closes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.demand_no_writing()?;
        let under_way = || {
            usage(
                "transactions or snapshots of the database are under way: end them, iterators over it and values that are open, first",
            )
        };
        if self.0.turns.has_block() {
            return Err(under_way());
        }
        // Waits for a transaction that is being rolled back.
        let turn = self.0.turns.take(py, None)?;
        while Arc::strong_count(&self.0.operations) > 1 {
            py.detach(|| std::thread::sleep(patience::PAUSE));
            py.check_signals()?;
        }
        let Some(db) = self.0.db.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        match Arc::try_unwrap(db) {
            Ok(db) => {
                let close = move || {
                    let closed = db.close();
                    drop(turn);
                    closed
                };
                patience::wait_for(py, || {}, close)?.map_err(of_database)
            }
            Err(db) => {
                *self.0.db.lock().unwrap_or_else(PoisonError::into_inner) = Some(db);
                Err(under_way())
            }
        }
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Database {
    fn over(db: Db) -> Self {
        Self(Arc::new(Inner {
            db: Mutex::new(Some(Arc::new(db))),
            operations: Arc::default(),
            turns: Arc::default(),
        }))
    }
}

/// A table: a mapping in the order of its keys.
///
/// By itself each operation is a transaction, which is durable when it returns. `tx[table]` is in a transaction, and `snapshot[table]` in a snapshot.
#[pyclass(frozen, mapping, module = "strandline")]
struct Table {
    inner: Arc<Inner>,
    name: String,
    table: Arc<dyn Erased>,
    kinds: (Kind, Kind),
    place: Place,
}

impl Table {
    fn call(&self, py: Python<'_>, operation: Operation) -> PyResult<Answer> {
        let table = &self.table;
        match &self.place {
            Place::Itself if operation.writes() => {
                self.inner.write(py, |db| db.write(|tx| table.apply(tx, &operation)))
            }
            Place::Itself => {
                let table = table.clone();
                self.inner.read(py, move |db| db.read(|tx| table.read(tx, &operation)))
            }
            Place::Transaction(line) | Place::Snapshot(line) => {
                let answered = line.ask(table, operation).map_err(of_database)?;
                let answer = patience::receive(py, answered)?.unwrap_or_else(|| Err(workers::gone()));
                answer.map_err(of_database)
            }
        }
    }

    fn value<'py>(&self, py: Python<'py>, answer: Answer) -> PyResult<Option<Bound<'py, PyAny>>> {
        match answer {
            Answer::Cell(Some(cell)) => self.kinds.1.object(py, cell).map(Some),
            _ => Ok(None),
        }
    }

    fn demand_bytes(&self) -> PyResult<()> {
        match self.kinds.1 {
            Kind::Bytes => Ok(()),
            _ => Err(usage("only values of a table of bytes are read and stored piece by piece")),
        }
    }

    fn pair(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<(Cell, Cell)> {
        Ok((self.kinds.0.cell(key)?, self.kinds.1.cell(value)?))
    }

    fn at(&self, place: Place) -> Self {
        let Self { inner, name, table, kinds, .. } = self;
        Self { inner: inner.clone(), name: name.clone(), table: table.clone(), kinds: *kinds, place }
    }

    fn rows(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        backwards: bool,
        what: What,
    ) -> PyResult<Rows> {
        let bound = |given: Option<&Bound<'_, PyAny>>| given.map(|key| self.kinds.0.cell(key)).transpose();
        let from = bound(start)?.map_or(End::Unbounded, End::Included);
        let to = bound(stop)?.map_or(End::Unbounded, End::Excluded);
        // All rows are of one state.
        let table = match &self.place {
            Place::Itself => self.at(Place::Snapshot(self.inner.snapshot(py)?)),
            place => self.at(place.clone()),
        };
        let range = Range { table: Some(table), from, to, backwards, fetched: VecDeque::new() };
        Ok(Rows { what, range: Mutex::new(range) })
    }
}

#[pymethods]
impl Table {
    /// The name under which it is in the database.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The value of `key`, or `default`.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.call(py, Operation::Get(self.kinds.0.cell(key)?))?;
        Ok(self.value(py, found)?.or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.call(py, Operation::Get(self.kinds.0.cell(key)?))?;
        self.value(py, found)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (key, value) = self.pair(key, value)?;
        self.call(py, Operation::Set(key, value)).map(drop)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.remove(py, key)? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let found = self.call(py, Operation::Contains(self.kinds.0.cell(key)?))?;
        Ok(matches!(found, Answer::Truth(true)))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match self.call(py, Operation::Count)? {
            Answer::Count(count) => Ok(count as usize),
            _ => Ok(0),
        }
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Rows> {
        self.rows(py, None, None, false, What::Keys)
    }

    /// Keys, from the key `start` on and before `stop`, in order; the last first if `reverse`. They are of one state of the database.
    #[pyo3(signature = (start = None, stop = None, *, reverse = false))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Rows> {
        self.rows(py, start, stop, reverse, What::Keys)
    }

    /// Values, from the key `start` on and before `stop`, in order; the last first if `reverse`. They are of one state of the database.
    #[pyo3(signature = (start = None, stop = None, *, reverse = false))]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Rows> {
        self.rows(py, start, stop, reverse, What::Values)
    }

    /// Pairs of key and value, from the key `start` on and before `stop`, in order; the last first if `reverse`. They are of one state of the database.
    #[pyo3(signature = (start = None, stop = None, *, reverse = false))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
    ) -> PyResult<Rows> {
        self.rows(py, start, stop, reverse, What::Items)
    }

    /// Gives `key` the value `value`; returns the value before, or None.
    fn insert<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (key, value) = self.pair(key, value)?;
        let before = self.call(py, Operation::Insert(key, value))?;
        self.value(py, before)
    }

    /// Gives `key` the bytes of `file` as its value, from where it stands: `size` of them, or all. They are read and stored piece by piece, so
    /// that they need not fit memory. For tables of bytes.
    ///
    /// Inside the block of a transaction, and from a file that cannot seek, they go by a temporary file, since the transaction may have to begin
    /// anew. Whatever the file raises is raised here, and the value is as it was.
    #[pyo3(signature = (key, file, size = None))]
    fn insert_from(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        file: &Bound<'_, PyAny>,
        size: Option<u64>,
    ) -> PyResult<()> {
        self.demand_bytes()?;
        let key = self.kinds.0.cell(key)?;
        let (source, size) = Source::new(file, size, !matches!(self.place, Place::Itself))?;
        match self.call(py, Operation::SetFrom(key, size, source.clone())) {
            Err(error) => Err(source.failure().unwrap_or(error)),
            Ok(_) => Ok(()),
        }
    }

    /// The value of `key` as a file that is open for reading, an `io.BufferedReader`, which can seek: a value need not fit memory. For tables of bytes. It reads one
    /// state of the database, whatever others write meanwhile. It keeps that state, and the database open, until it is closed, as at the end of a `with` block.
    fn open<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.demand_bytes()?;
        let table = match &self.place {
            Place::Itself => self.at(Place::Snapshot(self.inner.snapshot(py)?)),
            place => self.at(place.clone()),
        };
        py.import("strandline._streams")?.call_method1("opened", (table, key))
    }

    /// Bytes of the value of `key`.
    fn _size(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        match self.call(py, Operation::Size(self.kinds.0.cell(key)?))? {
            Answer::Count(bytes) => Ok(bytes),
            _ => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// `length` bytes of the value of `key` from the place `at` on, or as many as there are.
    fn _read_at<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        at: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let read = self.call(py, Operation::ReadAt(self.kinds.0.cell(key)?, at, length))?;
        self.value(py, read)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Inserts all of a dictionary, or of pairs of key and value: all or none. It takes least time and space where the keys are in order, and greater than
    /// those that are there.
    fn update(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = match rows.cast::<PyDict>() {
            Ok(dict) => dict.call_method0("items")?,
            Err(_) => rows.clone(),
        };
        let mut cells = Vec::new();
        for row in rows.try_iter()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = row?.extract()?;
            cells.push(self.pair(&key, &value)?);
        }
        self.call(py, Operation::InsertAll(cells)).map(drop)
    }

    /// Removes `key`; returns its value, or None if it was not there.
    fn remove<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let before = self.call(py, Operation::Remove(self.kinds.0.cell(key)?))?;
        self.value(py, before)
    }

    /// Removes all.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, Operation::Clear).map(drop)
    }

    /// `Table[str, int]`, for annotations.
    #[classmethod]
    fn __class_getitem__<'py>(cls: &Bound<'py, PyType>, _types: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        cls.clone()
    }

    fn __repr__(&self) -> String {
        format!("<Table {:?}>", self.name)
    }
}

/// What iterating gives.
#[derive(Clone, Copy)]
enum What {
    Keys,
    Values,
    Items,
}

/// What is left of a range.
struct Range {
    /// None at the end: what it is read from is let go of.
    table: Option<Table>,
    from: End<Cell>,
    to: End<Cell>,
    backwards: bool,
    fetched: VecDeque<(Cell, Cell)>,
}

/// An iterator over a table. It reads one state, whatever others write meanwhile, and fetches some rows at a time.
#[pyclass(frozen, module = "strandline")]
struct Rows {
    what: What,
    range: Mutex<Range>,
}

#[pymethods]
impl Rows {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Nobody waits with it for the interpreter: whoever has it holds that.
        let Ok(mut range) = self.range.try_lock() else {
            return Err(usage("another thread uses the iterator"));
        };
        let range = &mut *range;
        let Some(table) = &range.table else { return Ok(None) };
        if range.fetched.is_empty() {
            let (from, to, backwards) = (range.from.clone(), range.to.clone(), range.backwards);
            let rows = table.call(py, Operation::Rows { from, to, backwards, limit: BATCH })?;
            if let Answer::Rows(rows) = rows {
                range.fetched = rows.into();
            }
            match range.fetched.back() {
                Some((last, _)) if backwards => range.to = End::Excluded(last.clone()),
                Some((last, _)) => range.from = End::Excluded(last.clone()),
                None => {}
            }
        }
        let Some((key, value)) = range.fetched.pop_front() else {
            range.table = None;
            return Ok(None);
        };
        let kinds = table.kinds;
        let key = |py| kinds.0.object(py, key);
        let value = |py| kinds.1.object(py, value);
        match self.what {
            What::Keys => key(py).map(Some),
            What::Values => value(py).map(Some),
            What::Items => Ok(Some((key(py)?, value(py)?).into_pyobject(py)?.into_any())),
        }
    }
}

/// What a transaction is at.
enum State {
    New,
    UnderWay(workers::Transaction),
    Over(Option<Py<Ticket>>),
}

/// A transaction: `with db.write() as tx`, and `tx[table]`.
#[pyclass(frozen, module = "strandline")]
struct Transaction {
    inner: Arc<Inner>,
    later: bool,
    state: Mutex<State>,
}

impl Transaction {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, py: Python<'_>, commit: bool) -> PyResult<()> {
        let before = std::mem::replace(&mut *self.state(), State::Over(None));
        let State::UnderWay(running) = before else {
            *self.state() = before;
            return Ok(());
        };
        // A signal leaves the end to the worker.
        let ended = match running.end(commit) {
            Some(ended) => patience::receive(py, ended)?.unwrap_or_else(|| Err(workers::gone())),
            None => Err(workers::gone()),
        };
        match ended {
            Ok(ticket) => {
                let ticket =
                    ticket.map(|ticket| Py::new(py, Ticket(ticket, self.inner.clone()))).transpose()?;
                *self.state() = State::Over(ticket);
                Ok(())
            }
            Err(strandline::Error::Aborted) if !commit => Ok(()),
            Err(strandline::Error::Aborted) => Err(raised(
                "DatabaseError",
                "the transaction was taken back, since an operation in it had failed".into(),
            )),
            Err(error) => Err(of_database(error)),
        }
    }
}

#[pymethods]
impl Transaction {
    fn __enter__(this: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let own = this.get();
        let again = || usage("a transaction is for one with block: db.write() makes another");
        if !matches!(*own.state(), State::New) {
            return Err(again());
        }
        own.inner.demand_no_writing()?;
        let turn = own.inner.turns.take(this.py(), Some(std::thread::current().id()))?;
        let begun = workers::Transaction::begin(own.inner.db()?, own.later, turn)?;
        let mut state = own.state();
        if !matches!(*state, State::New) {
            return Err(again());
        }
        *state = State::UnderWay(begun);
        drop(state);
        Ok(this)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let commit = exception.is_none();
        let ended = self.end(py, commit);
        // The block's own exception counts.
        if commit { ended } else { Ok(()) }
    }

    /// Ends it: nothing of it happens.
    fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, false)
    }

    fn __getitem__(&self, table: &Bound<'_, Table>) -> PyResult<Table> {
        let table = table.get();
        if !Arc::ptr_eq(&table.inner, &self.inner) {
            return Err(usage("the table is of another database than the transaction"));
        }
        match &*self.state() {
            State::UnderWay(running) => Ok(table.at(Place::Transaction(running.line()))),
            _ => Err(usage("the transaction is not under way: use it in a with block")),
        }
    }

    /// What tells when it is durable, after the block of `db.write(later=True)`.
    #[getter]
    fn ticket(&self, py: Python<'_>) -> PyResult<Py<Ticket>> {
        match &*self.state() {
            State::Over(Some(ticket)) => Ok(ticket.clone_ref(py)),
            _ => Err(usage(
                "a transaction has a ticket when it was begun by db.write(later=True) and has ended well",
            )),
        }
    }
}

/// A database as it was at one moment: `with db.snapshot() as snapshot`, and `snapshot[table]`.
#[pyclass(frozen, weakref, module = "strandline")]
struct Snapshot {
    line: Mutex<Option<Line>>,
    inner: Arc<Inner>,
}

#[pymethods]
impl Snapshot {
    fn __getitem__(&self, table: &Bound<'_, Table>) -> PyResult<Table> {
        let table = table.get();
        if !Arc::ptr_eq(&table.inner, &self.inner) {
            return Err(usage("the table is of another database than the snapshot"));
        }
        match &*self.line.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(line) => Ok(table.at(Place::Snapshot(line.clone()))),
            None => Err(usage("the snapshot is over")),
        }
    }

    /// Ends it.
    fn close(&self) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }
}

/// A transaction that will be durable: `await` it, or `wait()`.
#[pyclass(frozen, module = "strandline")]
struct Ticket(strandline::Ticket, Arc<Inner>);

#[pymethods]
impl Ticket {
    /// Whether it is durable by now.
    #[getter]
    fn is_durable(&self) -> PyResult<bool> {
        self.0.is_durable().map_err(of_database)
    }

    /// Waits until it is durable.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        self.1.demand_no_writing()?;
        let ticket = self.0.clone();
        patience::wait_for(py, || {}, move || ticket.wait())?.map_err(of_database)
    }

    fn __await__<'py>(this: Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let running = py.import("asyncio")?.call_method0("get_running_loop")?;
        let wait = this.getattr("wait")?;
        running.call_method1("run_in_executor", (py.None(), wait))?.call_method0("__await__")
    }
}
