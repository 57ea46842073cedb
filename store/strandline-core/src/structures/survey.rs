//! What a structure that is looked over for damage needs of whoever looks: see `value/check.rs` of `strandline`.

use crate::error::Result;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read};

/// Collects damage, and knows which blocks were reached.
pub trait Survey {
    /// Notes that `what` of `words` words is in a block of its own at `at`; whether that is so.
    fn block(&mut self, at: PersistentAddress, words: u64, what: &'static str) -> Result<bool>;

    /// What `body` reads; what it fails with is damage, and then there is nothing.
    fn read<R>(&mut self, body: impl FnMut(&mut &mut dyn Read) -> Result<R, Abort>) -> Result<Option<R>>;

    /// Notes damage.
    fn damaged(&mut self, what: String);
}
