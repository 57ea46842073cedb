//! Lets the crash checker observe a database's transactions.

use std::sync::Arc;

use super::Database;
use crate::store::observed::Observer;
use crate::value::transaction::Control;
use strandline_core::file::Pool;
use strandline_core::memory::Native;

/// Calls `observer` for the transactions of `database` from now on. The database must be in memory, and none of its transactions may be larger than
/// its log.
pub fn observe<C: Control<Memory = Native>>(database: &mut Database<C>, observer: &'static dyn Observer) {
    database.store_mut().observer = Some(observer);
}

/// Returns the pool of `database`. The pool stays open as long as the result exists.
///
/// # Panics
/// Panics if the database was closed.
pub fn pool<C: Control<Memory = Native>>(database: &Database<C>) -> Arc<Pool<C>> {
    database.store().pool()
}
