//! What the headers of all structures share: the tag, and how a structure is found from its root.
//!
//! ```text
//! tag   bits 48..64 magic · 40..48 structure · 32..40 type of keys · 24..32 type of values · 0..24 parameter
//! ```
//!
//! The parameter is the structure's own: words in a value, pairs in a node.

use crate::error::Error;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Transaction};

const MAGIC: u64 = 0x5c1d;
/// The parameter's largest value.
pub const PARAMETER_MASK: u64 = (1 << 24) - 1;

/// The kinds of structures; the numbers are part of the pool format. 4, 8 and 10 stand for trees with other nodes, 2 for a hash
/// table with other buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Words in a row.
    Array = 1,
    /// Chains under a fixed number of buckets.
    HashTable = 13,
    /// A balanced binary tree.
    RedBlackTree = 3,
    /// A tree whose pairs are in leaves that are linked.
    BPlusTree = 9,
    /// A hash table from bytes to bytes, whose long chains become tables.
    KeyValueStore = 5,
    /// Chains of edges under a fixed number of vertices.
    Graph = 6,
    /// A ring of entries.
    Queue = 7,
    /// A tree whose pairs are in all its nodes.
    BTree = 11,
    /// A tree whose nodes are sorted arrays.
    SortedTree = 12,
    /// A tree whose pairs of byte strings are in its leaves.
    PageTree = 14,
}

impl Kind {
    /// What reports and errors call it.
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

    /// The tag of a structure of this kind with parameter 0.
    pub fn tag(self, key_type: u8, value_type: u8) -> u64 {
        MAGIC << 48 | (self as u64) << 40 | u64::from(key_type) << 32 | u64::from(value_type) << 24
    }

    /// The error of opening it at a root that is 0.
    pub fn missing(self, root: PersistentAddress) -> Error {
        Error::Missing { what: self.name(), root: root.offset() }
    }

    /// The error of opening it at a root with another tag.
    pub fn wrong(self, root: PersistentAddress) -> Error {
        Error::WrongStructure { what: self.name(), root: root.offset() }
    }

    /// The error of opening one whose creation, in several transactions, was cut short.
    pub fn incomplete(self, root: PersistentAddress) -> Error {
        Error::Incomplete { what: self.name(), root: root.offset() }
    }

    /// Fails unless a block of the heap with room for `words` words begins at `at`, so that a damaged link does not lead a write
    /// anywhere else. Where that is asked does not matter as long as the transaction ends with the answer.
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

    /// Ends the transaction because a structure of this kind contradicts itself at `at`.
    #[cold]
    pub fn damaged(self, tx: &mut impl Read, at: PersistentAddress, how: &str) -> Abort {
        tx.fail(Error::damaged(format!("the {} has {how} at {:#x}", self.name(), at.offset())))
    }
}

/// What a key-value store is called.
pub const KEY_VALUE_STORE: &str = "key-value store";

/// What the structure with this tag is called, if it is a tag.
pub fn describe(tag: u64) -> Option<&'static str> {
    let kind = tag >> 40 & 0xff;
    let is_kind = |known: &Kind| tag >> 48 == MAGIC && *known as u64 == kind;
    Kind::ALL.into_iter().find(is_kind).map(Kind::name)
}

/// The address of the header that `root` names, `None` if the root is empty.
///
/// # Errors
/// What hangs there has another tag than `tag`, whatever the parameter: [`Error::WrongStructure`].
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

/// Notices when a chain of nodes runs in a circle (Brent's algorithm: one comparison for each step).
#[derive(Debug)]
pub struct CircleGuard {
    mark: PersistentAddress,
    steps: u32,
    limit: u32,
}

impl Default for CircleGuard {
    /// At the beginning of a chain.
    fn default() -> Self {
        Self { mark: PersistentAddress::NULL, steps: 0, limit: 16 }
    }
}

impl CircleGuard {
    /// Tells of the next node; whether the chain has been there before, which is noticed a while later.
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
