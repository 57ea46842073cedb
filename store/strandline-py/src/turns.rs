//! Turns to write. The database itself lets only one transaction write at a time, but a signal cannot end the wait for its lock. So each write from
//! Python first waits here for its turn, and a signal ends this wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use pyo3::prelude::*;

use crate::patience::PAUSE;

/// The turns of one database.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    ended: Condvar,
}

/// The present turn.
#[derive(Default)]
struct State {
    is_taken: bool,
    /// The thread that is in the block of a transaction.
    thread: Option<ThreadId>,
    /// True if reads wait for the transaction.
    is_large: bool,
}

/// A turn, which ends when it is dropped.
pub struct Turn(Arc<Turns>);

impl Turns {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn as soon as no other is taken. `thread` is the thread whose block the transaction belongs to, if there is one.
    ///
    /// # Errors
    /// Returns a signal's exception if one arrives first.
    pub fn take(self: &Arc<Self>, py: Python<'_>, thread: Option<ThreadId>) -> PyResult<Turn> {
        let take = |mut state: MutexGuard<'_, State>| {
            let is_free = !state.is_taken;
            if is_free {
                *state = State { is_taken: true, thread, is_large: false };
            }
            is_free
        };
        if take(self.state()) {
            return Ok(Turn(self.clone()));
        }
        let wait = || {
            let waited = self.ended.wait_timeout_while(self.state(), PAUSE, |state| state.is_taken);
            take(waited.unwrap_or_else(PoisonError::into_inner).0)
        };
        while !py.detach(wait) {
            py.check_signals()?;
        }
        Ok(Turn(self.clone()))
    }

    /// Returns whether a thread is in the block of a transaction.
    pub fn has_block(&self) -> bool {
        self.state().thread.is_some()
    }

    /// Returns whether this thread is in the block of a transaction.
    pub fn is_own(&self) -> bool {
        self.state().thread == Some(std::thread::current().id())
    }

    /// Returns whether the running transaction is a large one, for which reads wait.
    pub fn is_large(&self) -> bool {
        self.state().is_large
    }
}

impl Turn {
    /// Notes that the block has ended, so that its thread may wait for the rest of the turn.
    pub fn leave_block(&self) {
        self.0.state().thread = None;
    }

    /// Notes that the transaction is about to become a large one.
    pub fn become_large(&self) {
        self.0.state().is_large = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.state() = State::default();
        self.0.ended.notify_one();
    }
}
