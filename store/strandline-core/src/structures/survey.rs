//! The interface through which a structure reports its blocks and its damage to a check of the pool: see `value/check.rs` of `strandline`.

use crate::error::Result;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read};

/// Collects damage, and knows which blocks a structure refers to.
pub trait Survey {
    /// Notes that `what`, of `words` words, has the block at `at` for itself. Returns whether there is such a block and nothing else refers
    /// to it; otherwise that is noted as damage.
    fn block(&mut self, at: PersistentAddress, words: u64, what: &'static str) -> Result<bool>;

    /// Calls `body` and returns its result. An error of `body` is noted as damage, and the result is `None`.
    fn read<R>(&mut self, body: impl FnMut(&mut &mut dyn Read) -> Result<R, Abort>) -> Result<Option<R>>;

    /// Notes damage.
    fn damaged(&mut self, what: String);
}
