//! Has a database's transactions observed, for the crash checker.

use super::Database;
use crate::store::observed::Observer;
use crate::store::shared::OpenPool;
use crate::value::transaction::Control;
use strandline_core::memory::Native;

/// From now on `observer` is told of the transactions of `database`, which is in memory. None of them is larger than its log.
pub fn observe<C: Control<Memory = Native>>(database: &mut Database<C>, observer: &'static dyn Observer) {
    database.store_mut().observer = Some(observer);
}

/// The pool of `database`.
///
/// # Panics
/// The database was closed.
pub fn pool<C: Control<Memory = Native>>(database: &Database<C>) -> OpenPool<'_, C> {
    database.store().pool()
}
