//! `Table`, and iterators over one.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::database::{Inner, usage};
use crate::errors::of_database;
use crate::patience;
use crate::streams::Source;
use crate::tables::{Answer, Cell, Erased, Kind, Operation};
use crate::workers::{self, Line};

/// Rows that are fetched at a time.
const BATCH: usize = 256;

/// Where a table is read and written.
#[derive(Clone)]
pub(crate) enum Place {
    /// Each operation is a transaction.
    Itself,
    Transaction(Line),
    Snapshot(Line),
}

/// A table: a mapping in the order of its keys.
///
/// By itself each operation is a transaction, which is durable when it returns. `tx[table]` is in a transaction, and `snapshot[table]` in a snapshot.
#[pyclass(frozen, mapping, module = "strandline")]
pub struct Table {
    inner: Arc<Inner>,
    name: String,
    table: Arc<dyn Erased>,
    kinds: (Kind, Kind),
    place: Place,
}

impl Table {
    /// The table by itself.
    pub(crate) fn new(inner: Arc<Inner>, name: String, table: Arc<dyn Erased>, kinds: (Kind, Kind)) -> Self {
        Self { inner, name, table, kinds, place: Place::Itself }
    }

    /// The database that it is a table of.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

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

    pub(crate) fn at(&self, place: Place) -> Self {
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
    /// anew. An exception of the file is raised here, and `key` keeps the value that it had.
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

    /// The bytes of the value of `key` from byte number `at` on: `length` of them, or fewer where the value ends.
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

/// The part of a row that an iterator yields.
#[derive(Clone, Copy)]
enum What {
    Keys,
    Values,
    Items,
}

/// The rows of a range that an iterator has not yielded yet.
struct Range {
    /// The table that they are read from; `None` at the end, which ends its snapshot.
    table: Option<Table>,
    from: End<Cell>,
    to: End<Cell>,
    backwards: bool,
    fetched: VecDeque<(Cell, Cell)>,
}

/// An iterator over a table. It reads one state, whatever others write meanwhile, and fetches some rows at a time.
#[pyclass(frozen, module = "strandline")]
pub struct Rows {
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
