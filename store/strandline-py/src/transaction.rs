//! `Transaction` and `Ticket`.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;

use crate::database::{Inner, usage};
use crate::errors::{of_database, raised};
use crate::patience;
use crate::table::{Place, Table};
use crate::workers;

/// The state of a transaction.
enum State {
    New,
    UnderWay(workers::Transaction),
    Over(Option<Py<Ticket>>),
}

/// A transaction: `with db.write() as tx`, and `tx[table]`.
#[pyclass(frozen, module = "strandline")]
pub(crate) struct Transaction {
    inner: Arc<Inner>,
    later: bool,
    state: Mutex<State>,
}

impl Transaction {
    pub(crate) fn new(inner: Arc<Inner>, later: bool) -> Self {
        Self { inner, later, state: Mutex::new(State::New) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, py: Python<'_>, commit: bool) -> PyResult<()> {
        let before = std::mem::replace(&mut *self.state(), State::Over(None));
        let State::UnderWay(running) = before else {
            *self.state() = before;
            return Ok(());
        };
        // After a signal the worker ends the transaction alone.
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
        let again = || usage("a transaction can be used in only one with block: call db.write() again");
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
        // An exception of the block takes precedence.
        if commit { ended } else { Ok(()) }
    }

    /// Rolls the transaction back.
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

    /// Returns the ticket of the transaction, after the block of `db.write(later=True)`.
    #[getter]
    fn ticket(&self, py: Python<'_>) -> PyResult<Py<Ticket>> {
        match &*self.state() {
            State::Over(Some(ticket)) => Ok(ticket.clone_ref(py)),
            _ => Err(usage(
                "only a transaction of db.write(later=True) has a ticket, after it has ended without an error",
            )),
        }
    }

    fn __repr__(&self) -> String {
        let state = match &*self.state() {
            State::New => "not begun",
            State::UnderWay(_) => "under way",
            State::Over(_) => "over",
        };
        format!("<Transaction of {}: {state}>", self.inner.shown())
    }
}

/// A transaction that will be durable: `await` it, or call `wait()`.
#[pyclass(frozen, module = "strandline")]
pub(crate) struct Ticket(strandline::Ticket, Arc<Inner>);

#[pymethods]
impl Ticket {
    /// True if the transaction is already durable.
    #[getter]
    fn is_durable(&self) -> PyResult<bool> {
        self.0.is_durable().map_err(of_database)
    }

    /// Waits until the transaction is durable.
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

    fn __repr__(&self) -> &'static str {
        match self.0.is_durable() {
            Ok(true) => "<Ticket: durable>",
            Ok(false) => "<Ticket: not durable yet>",
            Err(_) => "<Ticket: the database failed>",
        }
    }
}
