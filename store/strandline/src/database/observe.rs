//! Has a database's transactions observed, for the crash checker.

use std::sync::Arc;

use super::Database;
use crate::store::observed::Observer;
use crate::value::transaction::Control;
use strandline_core::file::Pool;
use strandline_core::memory::Native;

/// From now on `observer` is told of the transactions of `database`, which is in memory. None of them is larger than its log.
pub fn observe<C: Control<Memory = Native>>(database: &mut Database<C>, observer: &'static dyn Observer) {
    database.store_mut().observer = Some(observer);
}

/// The pool of `database`, which stays open as long as what is returned exists.
///
/// # Panics
/// Panics if the database was closed.
pub fn pool<C: Control<Memory = Native>>(database: &Database<C>) -> Arc<Pool<C>> {
    database.store().pool()
}
