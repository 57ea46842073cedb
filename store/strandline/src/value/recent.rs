//! The header and the checked blocks of the vector that the last operation of a transaction used.
//!
//! They hold only if the next operation is on the same vector. Every operation takes a number, savepoints and roll-backs included, so after any other
//! operation the numbers have a gap, and the header is read again. So a loop over a vector reads and checks it only once.

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Abort;

/// A block of a collection.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub at: PersistentAddress,
    /// The block's number in its collection.
    pub number: u64,
    /// True if it was checked that the block may be written to.
    pub is_checked: bool,
}

impl Block {
    /// No block.
    const NONE: Self = Self { at: PersistentAddress::NULL, number: 0, is_checked: false };
}

/// A collection's header, and some of its blocks.
pub(crate) struct Recent {
    /// The number of the operation that has found this.
    operation: u64,
    /// The address and the tag of the collection.
    collection: (PersistentAddress, u64),
    /// The words behind the tag.
    pub header: [u64; 3],
    pub blocks: [Block; 4],
}

impl Recent {
    /// Begins operation number `operation` of the transaction, on this collection. Calls `read` for the header's words, unless the operation before it
    /// was on the same collection. An operation that writes the header also changes it in the result.
    pub fn begin(
        recent: &mut Option<Self>,
        operation: u64,
        collection: (PersistentAddress, u64),
        read: impl FnOnce() -> Result<[u64; 3], Abort>,
    ) -> Result<&mut Self, Abort> {
        match recent {
            Some(last) if last.operation + 1 == operation && last.collection == collection => {}
            _ => *recent = Some(Self { operation, collection, header: read()?, blocks: [Block::NONE; 4] }),
        }
        let recent = recent.as_mut().expect("it has just been made, if there was none");
        recent.operation = operation;
        Ok(recent)
    }
}
