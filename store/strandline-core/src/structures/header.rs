//! The tag, which the headers of all structures begin with, and the lookup of a structure by its root.
//!
//! ```text
//! tag   bits 48..64 magic · 40..48 structure · 32..40 type of keys · 24..32 type of values · 0..24 parameter
//! ```
//!
//! The meaning of the parameter depends on the structure: words in a value, or pairs in a node.

use crate::error::Error;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Transaction};

const MAGIC: u64 = 0x5c1d;
/// The parameter's largest value, which is also its mask in a tag.
pub const PARAMETER_MASK: u64 = (1 << 24) - 1;

/// The kinds of structures. The numbers are part of the pool format. Do not reuse 2, 4, 8 and 10: earlier versions used them for trees with
/// other nodes (4, 8, 10) and for a hash table with other buckets (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fixed number of words.
    Array = 1,
    /// A hash table with a fixed number of buckets, each a chain.
    HashTable = 13,
    /// A balanced binary tree.
    RedBlackTree = 3,
    /// A tree whose pairs are in linked leaves.
    BPlusTree = 9,
    /// A hash table from byte strings to byte strings. A long chain becomes a table.
    KeyValueStore = 5,
    /// A graph with a fixed number of vertices, each with a chain of edges.
    Graph = 6,
    /// A ring of entries.
    Queue = 7,
    /// A tree that has pairs in all its nodes.
    BTree = 11,
    /// A tree whose nodes are sorted arrays.
    SortedTree = 12,
    /// A tree whose pairs of byte strings are in its leaves.
    PageTree = 14,
}

impl Kind {
    /// The name of the structure in reports and errors.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Array => "array",
            Kind::HashTable => "hash table",
            Kind::RedBlackTree => "red-black tree",
            Kind::BPlusTree => "B+ tree",
            Kind::KeyValueStore => KEY_VALUE_STORE,
            Kind::Graph => "graph",
            Kind::Queue => "queue",
            Kind::BTree => "B-tree",
            Kind::SortedTree => "tree of sorted arrays",
            Kind::PageTree => "tree of pages",
        }
    }

    const ALL: [Self; 10] = [
        Self::Array,
        Self::HashTable,
        Self::RedBlackTree,
        Self::BPlusTree,
        Self::KeyValueStore,
        Self::Graph,
        Self::Queue,
        Self::BTree,
        Self::SortedTree,
        Self::PageTree,
    ];

    /// Returns the tag of a structure of this kind with parameter 0.
    pub fn tag(self, key_type: u8, value_type: u8) -> u64 {
        MAGIC << 48 | (self as u64) << 40 | u64::from(key_type) << 32 | u64::from(value_type) << 24
    }

    /// Returns the error for opening the structure at a root that is 0.
    pub fn missing(self, root: PersistentAddress) -> Error {
        Error::Missing { what: self.name(), root: root.offset() }
    }

    /// Returns the error for opening the structure at a root with another tag.
    pub fn wrong(self, root: PersistentAddress) -> Error {
        Error::WrongStructure { what: self.name(), root: root.offset() }
    }

    /// Returns the error for opening a structure whose creation, in several transactions, was interrupted.
    pub fn incomplete(self, root: PersistentAddress) -> Error {
        Error::Incomplete { what: self.name(), root: root.offset() }
    }

    /// Fails unless a block of the heap with room for `words` words begins at `at`, so that a write cannot follow a damaged link to any
    /// other place. The caller may check before or after the write, if a failure ends the transaction.
    pub fn check_block(
        self,
        tx: &mut impl Transaction,
        at: PersistentAddress,
        words: u64,
    ) -> Result<(), Abort> {
        if tx.has_room(at, words.saturating_mul(8))? {
            Ok(())
        } else {
            Err(self.damaged(tx, at, "a block that is too small"))
        }
    }

    /// Fails the transaction with [`Error::Damaged`]: the structure at `at` has `how`.
    #[cold]
    pub fn damaged(self, tx: &mut impl Read, at: PersistentAddress, how: &str) -> Abort {
        tx.fail(Error::damaged(format!("the {} has {how} at {:#x}", self.name(), at.offset())))
    }
}

/// The name of a key-value store in reports and errors.
pub const KEY_VALUE_STORE: &str = "key-value store";

/// Returns the name of the structure with this tag; `None` if it is not a tag.
pub fn describe(tag: u64) -> Option<&'static str> {
    let kind = tag >> 40 & 0xff;
    let is_kind = |known: &Kind| tag >> 48 == MAGIC && *known as u64 == kind;
    Kind::ALL.into_iter().find(is_kind).map(Kind::name)
}

/// Returns the address and the words of the header that `root` refers to; `None` if the root word is 0.
///
/// # Errors
/// Returns [`Error::WrongStructure`] if the header's tag, apart from the parameter, is not `tag`.
pub fn find<const WORDS: usize>(
    tx: &mut impl Read,
    kind: Kind,
    root: PersistentAddress,
    tag: u64,
) -> Result<Option<(PersistentAddress, [u64; WORDS])>, Abort> {
    let at = PersistentAddress::new(tx.read(root)?);
    if at.is_null() {
        return Ok(None);
    }
    let words: [u64; WORDS] = tx.read_array(at)?;
    if words[0] & !PARAMETER_MASK != tag {
        return Err(tx.fail(kind.wrong(root)));
    }
    Ok(Some((at, words)))
}

/// Detects that a chain of nodes is a circle (Brent's algorithm: one comparison a step).
#[derive(Debug)]
pub struct CircleGuard {
    mark: PersistentAddress,
    steps: u32,
    limit: u32,
}

impl Default for CircleGuard {
    /// Returns a guard for the beginning of a chain.
    fn default() -> Self {
        Self { mark: PersistentAddress::NULL, steps: 0, limit: 16 }
    }
}

impl CircleGuard {
    /// Notes the next node. Returns whether the chain has been there before; a circle is noticed after it was gone through a few times.
    pub fn closes(&mut self, node: PersistentAddress) -> bool {
        self.steps += 1;
        if self.steps == self.limit {
            self.mark = node;
            self.steps = 0;
            self.limit = self.limit.saturating_mul(2);
            return false;
        }
        node == self.mark
    }
}
