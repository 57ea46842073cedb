//! `Database`, and the operations on it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use strandline::control::Request;
use strandline::{Domain, DynamicTable, ErrorKind, Geometry, OldFiles, Options, Store, Tables, Types};

use crate::errors::{database_error, of_database, python_type, raised};
use crate::kinds::Kind;
use crate::patience;
use crate::rows::Rows;
use crate::snapshot::{Moment, Open, Snapshot};
use crate::streams;
use crate::table::Table;
use crate::tables::Control;
use crate::transaction::{Ticket, Transaction};
use crate::turns::Turns;

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Database>()?;
    module.add_class::<Table>()?;
    module.add_class::<Transaction>()?;
    module.add_class::<Snapshot>()?;
    module.add_class::<Rows>()?;
    module.add_class::<Ticket>()
}

pub(crate) type Db = strandline::Database<Control>;

/// The store as which a database is opened.
type Catalogue = Store<Tables<'static>, Control>;

/// The options with which a program opens a database.
#[derive(Default)]
struct Opening<'o> {
    domain: Option<&'o str>,
    size: Option<u64>,
    address_space: Option<u64>,
    memory: Option<u64>,
    layout_name: &'o str,
}

/// # Errors
/// Returns a `UsageError` if there is no such domain.
fn options(opening: &Opening<'_>) -> PyResult<Options> {
    let domain = match opening.domain {
        None | Some("sync") => Domain::Sync,
        Some("flush") => Domain::Flush,
        Some("flush-on-fail") => Domain::FlushOnFail,
        Some("process") => Domain::Process,
        Some(other) => {
            let text = format!("there is no domain {other:?}: choose sync, flush, flush-on-fail or process");
            return Err(usage(&text));
        }
    };
    let mut options = Options {
        domain,
        address_space: opening.address_space,
        memory: opening.memory,
        layout_name: opening.layout_name.into(),
        ..Options::default()
    };
    if let Some(size) = opening.size {
        options.geometry = Geometry::of_size(size);
    }
    Ok(options)
}

pub(crate) fn usage(text: &str) -> PyErr {
    raised("UsageError", text.into())
}

/// An open database.
pub(crate) struct Inner {
    /// `None` after the database was closed.
    db: Mutex<Option<Arc<Db>>>,
    /// Every running operation holds a clone, even one whose caller a signal has interrupted. `close` waits until there are no clones.
    operations: Arc<()>,
    /// The file's path, for `repr`.
    path: PathBuf,
    /// Each write takes a turn. A thread in the block of a transaction must not take another one, since it would wait for itself. It must not read
    /// outside of the transaction either, nor wait for a flush or a checkpoint, because these wait for a large transaction. The database cannot
    /// detect this, since the transaction runs on a worker thread.
    pub(crate) turns: Arc<Turns>,
}

impl Inner {
    /// Returns the file's path as `repr` shows it.
    pub(crate) fn shown(&self) -> String {
        format!("{:?}", self.path)
    }

    pub(crate) fn db(&self) -> PyResult<Arc<Db>> {
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        db.clone().ok_or_else(|| database_error(ErrorKind::Closed, "the database is closed".into()))
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

    /// Runs work that writes. A signal ends the wait for other writers.
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

    /// Runs work that reads. It waits only for a large transaction if there is no memory for its old versions, and a signal ends that wait.
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

    /// Runs work that may take long on a thread of its own. After a signal the thread continues without the caller.
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

    /// Returns a snapshot of the database. A signal ends the wait until it is durable.
    pub(crate) fn snapshot(&self, py: Python<'_>) -> PyResult<Arc<Open>> {
        self.work(py, Moment::now).map(Open::new)
    }
}

/// Named tables in a file, with transactions over all of them: `Database.open(path)`, or `Database.in_memory()` for tests.
///
/// A database is closed at the end of a `with` block. Threads can share it.
#[pyclass(frozen, module = "strandline")]
struct Database(Arc<Inner>);

#[pymethods]
impl Database {
    /// Opens the database in the file at `path`, and creates it if there is no such file. The database keeps its log in a second file, `path.log`.
    ///
    /// `domain` is the kind of storage: `"sync"` (any file system; the default), `"flush"`, `"flush-on-fail"` (persistent memory) or `"process"`
    /// (survives kills, but not power failures). With `read_only` the database is only read; other processes may read it at the same time, but not
    /// write it. `address_space` is the number of bytes of address space to reserve, a multiple of 4096, for systems that limit it; the file then
    /// cannot grow beyond that. `memory` is the number of bytes of memory for copies of the file's pages and for old versions, at least 4 MB; the
    /// default is half of the memory of the machine or the container, but at most 4 GB. `size` is the number of bytes to which a new database can
    /// grow, a multiple of 4096; the default is 1 TB. `layout_name` is the name of the program's format, of at most 32 bytes; a database that was
    /// created with another name is refused, with the kind `"wrong-layout"`.
    #[staticmethod]
    #[pyo3(signature = (path, *, domain = None, read_only = false, address_space = None, memory = None, size = None, layout_name = ""))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        domain: Option<&str>,
        read_only: bool,
        address_space: Option<u64>,
        memory: Option<u64>,
        size: Option<u64>,
        layout_name: &str,
    ) -> PyResult<Self> {
        let options = options(&Opening { domain, size, address_space, memory, layout_name })?;
        let opened = py.detach(|| match read_only {
            true => Catalogue::open_read_only(&path, &options),
            false => Catalogue::open(&path, &options, |tx| Tables::new(tx)),
        });
        opened.map(Self::over).map_err(of_database)
    }

    /// Like `open`, but the database must exist: a mistake in the path is an error and does not create a file.
    #[staticmethod]
    #[pyo3(signature = (path, *, domain = None, address_space = None, memory = None, layout_name = ""))]
    fn open_existing(
        py: Python<'_>,
        path: PathBuf,
        domain: Option<&str>,
        address_space: Option<u64>,
        memory: Option<u64>,
        layout_name: &str,
    ) -> PyResult<Self> {
        let options = options(&Opening { domain, address_space, memory, layout_name, ..Opening::default() })?;
        let opened = py.detach(|| Catalogue::open_filled(&path, &options, |tx| Tables::new(tx)));
        opened.map(Self::over).map_err(of_database)
    }

    /// Creates a database in a new file at `path`. If the file exists, this fails and changes nothing.
    #[staticmethod]
    #[pyo3(signature = (path, *, domain = None, address_space = None, memory = None, size = None, layout_name = ""))]
    fn create_new(
        py: Python<'_>,
        path: PathBuf,
        domain: Option<&str>,
        address_space: Option<u64>,
        memory: Option<u64>,
        size: Option<u64>,
        layout_name: &str,
    ) -> PyResult<Self> {
        let options = options(&Opening { domain, size, address_space, memory, layout_name })?;
        let created = py.detach(|| Catalogue::create_new(&path, &options, |tx| Tables::new(tx)));
        created.map(Self::over).map_err(of_database)
    }

    /// Replaces the database at `path` with a copy of the database at `backup`, or creates it. Neither may be open. The backup is checked first. With
    /// `keep` the old database is kept in a file with `.replaced` appended to its name; if there is such a file already, nothing changes and the call
    /// raises a `UsageError`. Returns the paths of the kept files.
    #[staticmethod]
    #[pyo3(signature = (backup, path, *, keep = true))]
    fn restore(py: Python<'_>, backup: PathBuf, path: PathBuf, keep: bool) -> PyResult<Vec<PathBuf>> {
        let old_files = if keep { OldFiles::Keep } else { OldFiles::Remove };
        let restored = py.detach(|| strandline::Database::restore(backup, path, old_files));
        restored.map(|report| report.kept).map_err(of_database)
    }

    /// Creates an empty database in memory, for tests. It is lost when it is closed.
    #[staticmethod]
    fn in_memory(py: Python<'_>) -> PyResult<Self> {
        let made = py.detach(|| Catalogue::in_memory(&Options::default(), |tx| Tables::new(tx)));
        made.map(Self::over).map_err(of_database)
    }

    /// Opens the table `name`, which maps keys in order to values, and creates it if it does not exist.
    ///
    /// Keys are `bytes`, `str`, `int` (signed, 64 bits), `float`, `bool`, `date`, `datetime`, `UUID`, and tuples of these, `tuple[str, int]`. Values
    /// can also be `list[…]`, `Optional[…]`, data classes, enumerations and `dict`, which is stored as JSON. Types without a class of their own have
    /// a name: `"u64"` and the other sizes of integers, `"timestamp"` (a `datetime` with a time zone), and `"json"` (everything that `json.dumps`
    /// accepts). The types are compared with those in the file.
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Table> {
        let described = py.import("strandline._kinds")?.call_method1("kinds", (key, value))?;
        let (of_key, of_value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = described.extract()?;
        let kinds = (Kind::of(&of_key)?, Kind::of(&of_value)?);
        kinds.0.check_key()?;
        let mut types = Types::default();
        let names = (kinds.0.stored_name(&mut types)?, kinds.1.stored_name(&mut types)?);
        let owned = name.to_owned();
        let is_there = self.0.read(py, move |db| Ok(db.list()?.iter().any(|table| table.name == owned)))?;
        let owned = name.to_owned();
        let open = move |db: &Db| -> strandline::Result<DynamicTable> {
            db.dynamic_table(&owned, &names.0, &names.1, &types)
        };
        let table = match is_there {
            true => self.0.read(py, open)?,
            false => self.0.write(py, open)?,
        };
        Ok(Table::new(self.0.clone(), table, kinds, described.unbind()))
    }

    /// Returns all tables with their name, kind, and types of keys and values.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let list = self.0.read(py, |db| db.list())?;
        let describe = |table: strandline::TableDescription| {
            let dict = PyDict::new(py);
            dict.set_item("name", table.name)?;
            dict.set_item("kind", table.kind.to_string())?;
            dict.set_item("key", python_type(&table.key))?;
            dict.set_item("value", python_type(&table.value))?;
            Ok(dict)
        };
        list.into_iter().map(describe).collect()
    }

    /// Deletes a table with its content, and returns whether it existed.
    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.0.write(py, |db| db.delete(name))
    }

    /// Begins a transaction in a `with` block. At the end of the block all writes to its tables, `tx[table]`, are in the database and survive a power
    /// failure. If an exception leaves the block, none of them is. One transaction writes at a time.
    ///
    /// With `later`, the end of the block does not wait for the disk; `tx.ticket` waits for it.
    #[pyo3(signature = (*, later = false))]
    fn write(&self, later: bool) -> Transaction {
        Transaction::new(self.0.clone(), later)
    }

    /// Returns a snapshot: the database as it is now, for as long as the snapshot is open. Its tables are `snapshot[table]`. Writers continue
    /// meanwhile.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        Ok(Snapshot::new(self.0.snapshot(py)?, self.0.clone()))
    }

    /// Checks the whole database for damage, and returns a list of problems. The list is empty if there are none.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.0.work(py, |db| db.check())
    }

    /// Copies the database as it is now to a new file, while transactions run.
    fn backup(&self, py: Python<'_>, to: PathBuf) -> PyResult<()> {
        self.0.work(py, move |db| db.backup(to)).map(drop)
    }

    /// Returns the statistics since this program opened the database: numbers of transactions, conflicts, writes and flushes, and their durations in
    /// seconds.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer(py, Request::Statistics)
    }

    /// Returns how full the database is (`heap`), the disk space that it takes (`space`), and its `snapshots`. `replayed` is the number of
    /// transactions that opening the database replayed from the log: 0 unless the previous program had crashed.
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let usage = self.answer(py, Request::Usage)?;
        usage.set_item("replayed", self.0.db()?.recovery().replayed())?;
        Ok(usage)
    }

    /// Answers requests of the command from now on, until the database is closed: `strandline pool list`, `get`, `range`, `dump`, `backup`,
    /// `statistics` and `checkpoint` work while this program has the database open. Only processes of the same user can send requests.
    fn serve_control(&self, py: Python<'_>) -> PyResult<()> {
        self.0.work(py, |db| db.serve_control())
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
                "the database is in use: first end its transactions and snapshots, and close iterators, open values and memory views of values",
            )
        };
        if self.0.turns.has_block() {
            return Err(under_way());
        }
        // A transaction that is being rolled back must end first.
        let turn = self.0.turns.take(py, None)?;
        while Arc::strong_count(&self.0.operations) > 1 {
            py.detach(|| std::thread::sleep(patience::PAUSE));
            py.check_signals()?;
        }
        let Some(db) = self.0.db.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        let keep_open = |db: Arc<Db>| {
            *self.0.db.lock().unwrap_or_else(PoisonError::into_inner) = Some(db);
            Err(under_way())
        };
        match Arc::try_unwrap(db) {
            Ok(db) => {
                let close = move || {
                    let closed = db.close();
                    drop(turn);
                    (db, closed)
                };
                match patience::wait_for(py, || {}, close)? {
                    (db, Err(strandline::Error::InUse { .. })) => keep_open(Arc::new(db)),
                    (_, closed) => closed.map_err(of_database),
                }
            }
            Err(db) => keep_open(db),
        }
    }

    /// Runs `work(tx)` as a transaction on a thread of its own: `await db.async_write(work)` returns the result of `work` when the transaction is
    /// durable. If `work` raises an exception, the transaction is rolled back and the exception is raised here. If the task is cancelled, the
    /// transaction still continues to its end.
    fn async_write<'py>(this: Bound<'py, Self>, work: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("strandline._asyncio")?.call_method1("write", (this, work))
    }

    /// Runs `work(snapshot)` on a thread of its own: `await db.async_read(work)` returns the result of `work`.
    fn async_read<'py>(this: Bound<'py, Self>, work: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("strandline._asyncio")?.call_method1("read", (this, work))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.0.db().is_ok() { "open" } else { "closed" };
        format!("<Database {}: {state}>", self.0.shown())
    }
}

impl Database {
    /// Answers a request that has a single object as its answer.
    fn answer<'py>(&self, py: Python<'py>, request: Request) -> PyResult<Bound<'py, PyAny>> {
        let text = self.0.work(py, move |db| {
            let mut text = String::new();
            db.answer(&request, |line| {
                text = line.to_string();
                Ok(())
            })?;
            Ok(text)
        })?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn over(store: Catalogue) -> Self {
        let db = Db::from(store);
        Self(Arc::new(Inner {
            path: db.path().to_owned(),
            db: Mutex::new(Some(Arc::new(db))),
            operations: Arc::default(),
            turns: Arc::default(),
        }))
    }
}
