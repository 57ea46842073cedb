//! `Database` and what belongs to it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use strandline::{Domain, Options, Store, Tables};

use crate::errors::{of_database, raised};
use crate::patience;
use crate::streams;
use crate::table::{Place, Rows, Table};
use crate::tables::{self, Control, Kind};
use crate::turns::Turns;
use crate::workers::{self, Line};

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Database>()?;
    module.add_class::<Table>()?;
    module.add_class::<Transaction>()?;
    module.add_class::<Snapshot>()?;
    module.add_class::<Rows>()?;
    module.add_class::<Ticket>()
}

pub(crate) type Db = strandline::Database<Control>;

/// As what a database is opened.
type Catalogue = Store<Tables<'static>, Control>;

/// # Errors
/// There is no such domain.
fn options(domain: Option<&str>, address_space: Option<u64>, memory: Option<u64>) -> PyResult<Options> {
    let domain = match domain {
        None | Some("sync") => Domain::Sync,
        Some("flush") => Domain::Flush,
        Some("flush-on-fail") => Domain::FlushOnFail,
        Some("process") => Domain::Process,
        Some(other) => {
            let text = format!("there is no domain {other:?}: choose sync, flush, flush-on-fail or process");
            return Err(usage(&text));
        }
    };
    Ok(Options { domain, address_space, memory, ..Options::default() })
}

pub(crate) fn usage(text: &str) -> PyErr {
    raised("UsageError", text.into())
}

/// An open database.
pub(crate) struct Inner {
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
    pub(crate) fn db(&self) -> PyResult<Arc<Db>> {
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        db.clone().ok_or_else(|| raised("DatabaseError", "the database is closed".into()))
    }

    pub(crate) fn demand_no_writing(&self) -> PyResult<()> {
        streams::demand_no_source()?;
        match self.turns.is_own() {
            true => Err(usage(
                "a transaction of this thread is under way: use its tables, tx[table], or end it first",
            )),
            false => Ok(()),
        }
    }

    /// Does work that writes. A signal ends the wait for other writers.
    pub(crate) fn write<T: Send>(
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
    pub(crate) fn read<T: Send + 'static>(
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
    pub(crate) fn snapshot(&self, py: Python<'_>) -> PyResult<Line> {
        self.demand_no_writing()?;
        workers::snapshot(py, self.operations.clone(), self.db()?)
    }
}

/// Named tables in a file, with transactions over all of them: `Database.open(path)`, or `Database.in_memory()` for tests.
///
/// It closes at the end of a `with` block. Threads can share it.
#[pyclass(frozen, module = "strandline")]
struct Database(Arc<Inner>);

#[pymethods]
impl Database {
    /// Opens the database in the file at `path`; creates it if there is no such file. It keeps its log in a second file, `path.log`.
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
        let options = options(domain, address_space, memory)?;
        let opened = py.detach(|| match read_only {
            true => Catalogue::open_read_only(&path, &options),
            false => Catalogue::open(&path, &options, |tx| Tables::new(tx)),
        });
        opened.map(Self::over).map_err(of_database)
    }

    /// As `open`, but the database has to exist: a mistake in the path is an error, and creates nothing.
    #[staticmethod]
    #[pyo3(signature = (path, *, domain = None, address_space = None, memory = None))]
    fn open_existing(
        py: Python<'_>,
        path: PathBuf,
        domain: Option<&str>,
        address_space: Option<u64>,
        memory: Option<u64>,
    ) -> PyResult<Self> {
        let options = options(domain, address_space, memory)?;
        let opened = py.detach(|| Catalogue::open_filled(&path, &options, |tx| Tables::new(tx)));
        opened.map(Self::over).map_err(of_database)
    }

    /// Creates a database in a new file at `path`. Fails and changes nothing if the file exists.
    #[staticmethod]
    #[pyo3(signature = (path, *, domain = None, address_space = None, memory = None))]
    fn create_new(
        py: Python<'_>,
        path: PathBuf,
        domain: Option<&str>,
        address_space: Option<u64>,
        memory: Option<u64>,
    ) -> PyResult<Self> {
        let options = options(domain, address_space, memory)?;
        let created = py.detach(|| Catalogue::create_new(&path, &options, |tx| Tables::new(tx)));
        created.map(Self::over).map_err(of_database)
    }

    /// An empty database in memory, for tests: nothing of it remains.
    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Self> {
        let made = py.detach(|| Catalogue::in_memory(&Options::default(), |tx| Tables::new(tx)));
        made.map(Self::over).map_err(of_database)
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
        Ok(Table::new(self.0.clone(), name.into(), table, kinds))
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
    fn over(store: Catalogue) -> Self {
        Self(Arc::new(Inner {
            db: Mutex::new(Some(Arc::new(Db::from(store)))),
            operations: Arc::default(),
            turns: Arc::default(),
        }))
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
        if !Arc::ptr_eq(table.inner(), &self.inner) {
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
        if !Arc::ptr_eq(table.inner(), &self.inner) {
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
