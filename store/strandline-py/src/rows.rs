//! Iterators over a table.

use std::collections::VecDeque;
use std::ops::Bound as End;
use std::sync::{Mutex, MutexGuard};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use strandline::Dynamic;

use crate::database::usage;
use crate::table::Table;
use crate::tables::{Answer, Operation};

/// Number of rows that are fetched first, for a program that needs only one, and at most at a time later.
const FIRST_BATCH: usize = 16;
const MOST_BATCH: usize = 256;

/// The part of a row that an iterator yields.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Keys,
    Values,
    Items,
}

/// The rows of a range that an iterator has not yielded yet.
struct Range {
    /// The table to read from. `None` at the end, which ends its snapshot.
    table: Option<Table>,
    from: End<Dynamic>,
    to: End<Dynamic>,
    backwards: bool,
    fetched: VecDeque<(Dynamic, Dynamic)>,
    /// Number of rows to fetch next.
    batch: usize,
}

/// An iterator over a table. It reads one state, whatever others write meanwhile, and fetches some rows at a time.
#[pyclass(frozen, module = "strandline")]
pub(crate) struct Rows {
    what: What,
    range: Mutex<Range>,
}

impl Rows {
    /// Creates an iterator over the rows between two keys of a table in one state.
    pub(crate) fn new(
        table: Table,
        what: What,
        (from, to): (End<Dynamic>, End<Dynamic>),
        backwards: bool,
    ) -> Self {
        let range =
            Range { table: Some(table), from, to, backwards, fetched: VecDeque::new(), batch: FIRST_BATCH };
        Self { what, range: Mutex::new(range) }
    }

    /// Returns the range, locked for this thread, or a `UsageError` if another thread has it. A thread that holds this lock also holds the
    /// interpreter, and does not wait for it.
    fn range(&self) -> PyResult<MutexGuard<'_, Range>> {
        self.range.try_lock().map_err(|_| usage("another thread uses the iterator"))
    }
}

#[pymethods]
impl Rows {
    /// Ends the iterator, and the state of the database that it reads.
    fn close(&self) -> PyResult<()> {
        let mut range = self.range()?;
        range.table = None;
        range.fetched.clear();
        Ok(())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    fn __repr__(&self) -> String {
        let what = match self.what {
            What::Keys => "keys",
            What::Values => "values",
            What::Items => "items",
        };
        match self.range().ok().and_then(|range| range.table.as_ref().map(Table::shown_name)) {
            Some(name) => format!("<iterator over the {what} of {name}>"),
            None => format!("<iterator over {what}>"),
        }
    }

    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut range = self.range()?;
        let range = &mut *range;
        let Some(table) = &range.table else { return Ok(None) };
        if range.fetched.is_empty() {
            let (from, to, backwards) = (range.from.clone(), range.to.clone(), range.backwards);
            let rows = table.call(py, Operation::Rows { from, to, backwards, limit: range.batch })?;
            range.batch = MOST_BATCH;
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
        let kinds = table.kinds();
        let key = |py| kinds.0.object(py, key);
        let value = |py| kinds.1.object(py, value);
        match self.what {
            What::Keys => key(py).map(Some),
            What::Values => value(py).map(Some),
            What::Items => Ok(Some((key(py)?, value(py)?).into_pyobject(py)?.into_any())),
        }
    }
}
