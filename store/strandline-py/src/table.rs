//! `Table`.

use std::ops::Bound as End;
use std::sync::Arc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView, PyType};
use strandline::{Dynamic, DynamicTable};

use crate::database::{Inner, usage};
use crate::errors::of_database;
use crate::kinds::Kind;
use crate::patience;
use crate::rows::{Rows, What};
use crate::snapshot::Open;
use crate::streams::Source;
use crate::tables::{Answer, Operation};
use crate::workers::{self, Line};

/// The place where a table is read and written.
#[derive(Clone)]
pub(crate) enum Place {
    /// The database itself: each operation is a transaction.
    Itself,
    Transaction(Line),
    Snapshot(Arc<Open>),
}

/// A table: a mapping in the order of its keys.
///
/// On the table itself, each operation is a transaction, which is durable when it returns. `tx[table]` is the table in a transaction, and
/// `snapshot[table]` in a snapshot.
#[pyclass(frozen, mapping, module = "strandline")]
pub struct Table {
    inner: Arc<Inner>,
    table: DynamicTable,
    kinds: Arc<(Kind, Kind)>,
    /// The kinds, as `_kinds.kinds` describes them.
    described: Arc<Py<PyAny>>,
    place: Place,
}

impl Table {
    /// Creates the table whose operations are transactions.
    pub(crate) fn new(
        inner: Arc<Inner>,
        table: DynamicTable,
        kinds: (Kind, Kind),
        described: Py<PyAny>,
    ) -> Self {
        Self { inner, table, kinds: Arc::new(kinds), described: Arc::new(described), place: Place::Itself }
    }

    /// Returns the name as `repr` shows it. A long one is cut.
    pub(crate) fn shown_name(&self) -> String {
        let name = self.table.name();
        match name.char_indices().nth(40) {
            Some((end, _)) => format!("{:?}", format!("{}…", &name[..end])),
            None => format!("{name:?}"),
        }
    }

    /// Returns the kinds of keys and values.
    pub(crate) fn kinds(&self) -> &(Kind, Kind) {
        &self.kinds
    }

    /// Returns the table's database.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) fn call(&self, py: Python<'_>, operation: Operation) -> PyResult<Answer> {
        let table = &self.table;
        match &self.place {
            Place::Itself if operation.writes() => {
                self.inner.write(py, |db| db.write(|tx| operation.apply(table, tx)))
            }
            Place::Itself => {
                let table = table.clone();
                self.inner.read(py, move |db| db.read(|tx| operation.read(&table, tx)))
            }
            Place::Snapshot(open) => open.read(py, table, &operation),
            Place::Transaction(line) => {
                let answered = line.ask(table, operation).map_err(of_database)?;
                let answer = patience::receive(py, answered)?.unwrap_or_else(|| Err(workers::gone()));
                answer.map_err(of_database)
            }
        }
    }

    fn value<'py>(&self, py: Python<'py>, answer: Answer) -> PyResult<Option<Bound<'py, PyAny>>> {
        match answer {
            Answer::Value(Some(value)) => self.kinds.1.object(py, value).map(Some),
            _ => Ok(None),
        }
    }

    fn demand_bytes(&self) -> PyResult<()> {
        match self.kinds.1 {
            Kind::Bytes => Ok(()),
            _ => Err(usage("only values of a table of bytes are read and stored piece by piece")),
        }
    }

    fn pair(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<(Dynamic, Dynamic)> {
        Ok((self.kinds.0.key(key)?, self.kinds.1.dynamic(value)?))
    }

    pub(crate) fn at(&self, place: Place) -> Self {
        let Self { inner, table, kinds, described, .. } = self;
        let (inner, table, kinds) = (inner.clone(), table.clone(), kinds.clone());
        Self { inner, table, kinds, described: described.clone(), place }
    }

    /// Returns the table in one state of the database.
    fn of_one_state(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(match &self.place {
            Place::Itself => self.at(Place::Snapshot(self.inner.snapshot(py)?)),
            place => self.at(place.clone()),
        })
    }

    fn rows(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        backwards: bool,
        what: What,
    ) -> PyResult<Rows> {
        let bound = |given: Option<&Bound<'_, PyAny>>| given.map(|key| self.kinds.0.key(key)).transpose();
        let from = bound(start)?.map_or(End::Unbounded, End::Included);
        let to = bound(stop)?.map_or(End::Unbounded, End::Excluded);
        // All rows are of one state.
        Ok(Rows::new(self.of_one_state(py)?, what, (from, to), backwards))
    }
}

#[pymethods]
impl Table {
    /// The table's name in the database.
    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }

    /// Returns the value of `key`, or `default`.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.call(py, Operation::Get(self.kinds.0.key(key)?))?;
        Ok(self.value(py, found)?.or(default))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.call(py, Operation::Get(self.kinds.0.key(key)?))?;
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
        let found = self.call(py, Operation::Contains(self.kinds.0.key(key)?))?;
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

    /// Returns the keys from `start` up to but not including `stop`, in order, or in reverse order if `reverse`. All are of one state of the
    /// database.
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

    /// Returns the values of the keys from `start` up to but not including `stop`, in order, or in reverse order if `reverse`. All are of one state
    /// of the database.
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

    /// Returns pairs of keys and values, from the key `start` up to but not including `stop`, in order, or in reverse order if `reverse`. All are of
    /// one state of the database.
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

    /// Sets the value of `key` to `value`, and returns the previous value or None.
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

    /// Sets the value of `key` to the bytes of `file` from its present position on: `size` bytes, or all. They are read and stored piece by piece, so
    /// that they need not fit into memory. For tables of bytes.
    ///
    /// Inside the block of a transaction, and if the file cannot seek, the bytes go through a temporary file, since the transaction may have to begin
    /// again. If the file raises an exception, it is raised here, and `key` keeps its previous value.
    #[pyo3(signature = (key, file, size = None))]
    fn insert_from(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        file: &Bound<'_, PyAny>,
        size: Option<u64>,
    ) -> PyResult<()> {
        self.demand_bytes()?;
        let key = self.kinds.0.key(key)?;
        let (source, size) = Source::new(file, size, !matches!(self.place, Place::Itself))?;
        match self.call(py, Operation::SetFrom(key, size, source.clone())) {
            Err(error) => Err(source.failure().unwrap_or(error)),
            Ok(_) => Ok(()),
        }
    }

    /// Returns the value of `key` as a file that is open for reading, an `io.BufferedReader`, which can seek. The value need not fit into memory. For
    /// tables of bytes. The file reads one state of the database, whatever others write meanwhile. It keeps that state, and the database, open until
    /// it is closed, for example at the end of a `with` block.
    fn open<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.demand_bytes()?;
        py.import("strandline._streams")?.call_method1("opened", (self.of_one_state(py)?, key))
    }

    /// Returns the value of `key` as memory views of its pieces, in order. A piece has up to 252 KB. A value of more than 16 KB is not copied. For
    /// tables of bytes, and not inside a transaction.
    ///
    /// A view, and everything made from it (`numpy.frombuffer`), does not change for as long as it exists, whatever is written meanwhile. Until then
    /// the database cannot be closed.
    fn pieces<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyMemoryView>>> {
        self.demand_bytes()?;
        let stored = self.kinds.0.key(key)?;
        match &self.of_one_state(key.py())?.place {
            Place::Snapshot(open) => open.pieces(key, &self.table, &stored),
            _ => Err(usage(
                "values cannot be lent inside a transaction: read the value with table[key] or table.open(key), or use a snapshot",
            )),
        }
    }

    /// Writes the value of `key` to `file`, by calling `file.write` with memory views, and returns the number of bytes. A large value is not copied,
    /// except inside a transaction. For tables of bytes.
    fn write_to<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        file: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.demand_bytes()?;
        let is_lent = !matches!(self.place, Place::Transaction(_));
        let table = self.of_one_state(py)?;
        py.import("strandline._streams")?.call_method1("write_to", (table, key, file, is_lent))
    }

    /// Returns the rows from the key `start` up to but not including `stop` as a `pyarrow.Table`, of one state of the database. Needs pyarrow. Parts
    /// of a tuple, fields of a data class and keys of dictionaries have a column each.
    #[pyo3(signature = (start = None, stop = None))]
    fn to_arrow<'py>(
        this: Bound<'py, Self>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("strandline._frames")?.call_method1("to_arrow", (this, start, stop))
    }

    /// Returns the rows from the key `start` up to but not including `stop` as a `pandas.DataFrame`, of one state of the database. Needs pandas. It
    /// has the columns of `to_arrow`.
    #[pyo3(signature = (start = None, stop = None))]
    fn to_pandas<'py>(
        this: Bound<'py, Self>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("strandline._frames")?.call_method1("to_pandas", (this, start, stop))
    }

    /// Returns all rows as an Arrow stream, which polars, DuckDB and others accept. Needs pyarrow.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        this: Bound<'py, Self>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = Self::to_arrow(this, None, None)?;
        table.call_method1("__arrow_c_stream__", (requested_schema,))
    }

    /// Returns the types of keys and values, as `_kinds.kinds` describes them.
    #[getter]
    fn _kinds(&self, py: Python<'_>) -> Py<PyAny> {
        self.described.clone_ref(py)
    }

    /// Returns the number of bytes in the value of `key`.
    fn _size(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        match self.call(py, Operation::Size(self.kinds.0.key(key)?))? {
            Answer::Count(bytes) => Ok(bytes),
            _ => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Returns `length` bytes of the value of `key` from the offset `at` on, or fewer if the value ends before.
    fn _read_at<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        at: u64,
        length: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let read = self.call(py, Operation::ReadAt(self.kinds.0.key(key)?, at, length))?;
        self.value(py, read)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Inserts all items of a dictionary, or all pairs of key and value, in one transaction. It takes the least time and space if the keys are in
    /// order and greater than those in the table.
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

    /// Removes `key` and returns its value, or None if the table does not have the key.
    fn remove<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let before = self.call(py, Operation::Remove(self.kinds.0.key(key)?))?;
        self.value(py, before)
    }

    /// Removes all rows.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, Operation::Clear).map(drop)
    }

    /// Supports `Table[str, int]` in annotations.
    #[classmethod]
    fn __class_getitem__<'py>(cls: &Bound<'py, PyType>, _types: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        cls.clone()
    }

    fn __repr__(&self) -> String {
        let place = match &self.place {
            Place::Itself => "",
            Place::Transaction(_) => " in a transaction",
            Place::Snapshot(_) => " in a snapshot",
        };
        let (key, value) = &*self.kinds;
        format!("<Table {}{place}: {} to {}>", self.shown_name(), key.name(), value.name())
    }
}
