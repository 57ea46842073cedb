//! `Snapshot`, and the values that it lends.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyKeyError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple};
use strandline::{DatabaseSnapshot, Dynamic, DynamicTable, Error, LentValue, Result};

use crate::database::{Db, Inner, usage};
use crate::errors::of_database;
use crate::table::{Place, Table};
use crate::tables::{Answer, Control, Operation};

/// One state of a database.
#[derive(Clone)]
pub(crate) enum Moment {
    Snapshot(DatabaseSnapshot<Control>),
    /// A database that is open for reading only has only one state.
    ReadOnly(Db),
}

impl Moment {
    /// Returns the present state of the database.
    ///
    /// # Errors
    /// Returns the errors of [`strandline::Database::snapshot`].
    pub fn now(db: &Db) -> Result<Self> {
        match db.snapshot() {
            Err(Error::Unsupported(_) | Error::ReadOnly) => Ok(Self::ReadOnly(db.clone())),
            snapshot => snapshot.map(Self::Snapshot),
        }
    }

    fn read(&self, table: &DynamicTable, operation: &Operation) -> Result<Answer> {
        match self {
            Self::Snapshot(snapshot) => operation.read(table, &snapshot.read()),
            Self::ReadOnly(db) => db.read(|tx| operation.read(table, tx)),
        }
    }

    fn lend(&self, table: &DynamicTable, key: &Dynamic) -> Result<Option<Lent>> {
        match self {
            Self::Snapshot(snapshot) => Ok(table.lend(snapshot, key)?.map(Lent::Value)),
            Self::ReadOnly(db) => match db.read(|tx| table.get(tx, key))? {
                Some(Dynamic::Bytes(bytes)) => Ok(Some(Lent::Copied(bytes))),
                _ => Ok(None),
            },
        }
    }
}

/// A snapshot's state, which its tables share. `None` after it was closed.
pub(crate) struct Open(Mutex<Option<Moment>>);

impl Open {
    pub fn new(moment: Moment) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(moment))))
    }

    fn moment(&self) -> Option<Moment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// # Errors
    /// Returns an error if the snapshot was closed, and the errors of reading.
    pub fn read(&self, py: Python<'_>, table: &DynamicTable, operation: &Operation) -> PyResult<Answer> {
        let moment = self.moment().ok_or_else(over)?;
        py.detach(move || moment.read(table, operation)).map_err(of_database)
    }

    /// Returns the pieces of a value as memory views.
    ///
    /// # Errors
    /// Returns a `KeyError` if the table does not have the key, and the errors of [`read`](Self::read).
    pub fn pieces<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        table: &DynamicTable,
        stored: &Dynamic,
    ) -> PyResult<Vec<Bound<'py, PyMemoryView>>> {
        let py = key.py();
        let moment = self.moment().ok_or_else(over)?;
        let lent = py.detach(move || moment.lend(table, stored)).map_err(of_database)?;
        let lent = Arc::new(lent.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?);
        let count = match &*lent {
            Lent::Value(value) => value.pieces().len(),
            Lent::Copied(bytes) => usize::from(!bytes.is_empty()),
        };
        let view = |number| {
            let piece = Bound::new(py, Piece { value: lent.clone(), number })?;
            PyMemoryView::from(&piece)
        };
        (0..count).map(view).collect()
    }

    fn close(&self) {
        // Dropping the last reader ends the snapshot. That takes a while, so the lock is released first.
        let moment = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(moment);
    }
}

fn over() -> PyErr {
    crate::errors::raised("DatabaseError", "the snapshot is over".into())
}

/// A value whose bytes Python reads in place.
enum Lent {
    Value(LentValue<Control>),
    Copied(Vec<u8>),
}

/// A piece of a value. It exists as long as a memory view of it.
#[pyclass(frozen, module = "strandline")]
struct Piece {
    value: Arc<Lent>,
    number: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match &*self.value {
            Lent::Value(value) => value.piece(self.number).unwrap_or_default(),
            Lent::Copied(bytes) => bytes,
        }
    }
}

#[pymethods]
#[allow(unsafe_code)] // The buffer protocol uses pointers.
impl Piece {
    /// # Safety
    /// Python calls this with a `view` that it wants to be filled.
    unsafe fn __getbuffer__(this: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = this.get().bytes();
        let (first, count) = (bytes.as_ptr().cast_mut().cast::<c_void>(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: the bytes do not change while the piece exists: it is frozen, and holds a share of the value, which lends the bytes until its last
        // share is dropped. From here on the view holds a reference to the piece until Python releases it. The view is read-only (the 1): if the
        // caller wants to write, the function fails with a `BufferError`.
        match unsafe { ffi::PyBuffer_FillInfo(view, this.as_ptr(), first, count, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(this.py())),
        }
    }

    fn __repr__(&self) -> String {
        format!("<piece of a value: {} bytes>", self.bytes().len())
    }
}

/// A database as it was at one moment: `with db.snapshot() as snapshot`, and `snapshot[table]`.
#[pyclass(frozen, weakref, module = "strandline")]
pub(crate) struct Snapshot {
    open: Arc<Open>,
    inner: Arc<Inner>,
}

impl Snapshot {
    pub fn new(open: Arc<Open>, inner: Arc<Inner>) -> Self {
        Self { open, inner }
    }
}

#[pymethods]
impl Snapshot {
    fn __getitem__(&self, table: &Bound<'_, Table>) -> PyResult<Table> {
        let table = table.get();
        if !Arc::ptr_eq(table.inner(), &self.inner) {
            return Err(usage("the table is of another database than the snapshot"));
        }
        match self.open.moment() {
            Some(_) => Ok(table.at(Place::Snapshot(self.open.clone()))),
            None => Err(usage("the snapshot is over")),
        }
    }

    /// Ends the snapshot. Memory views of its values stay valid, and keep what they need.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.open.close());
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        let state = if self.open.moment().is_some() { "open" } else { "closed" };
        format!("<Snapshot of {}: {state}>", self.inner.shown())
    }
}
