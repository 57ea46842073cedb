//! Persistent data structures, written once over waist 1.
//!
//! A structure touches pool words only through [`Read`](crate::transaction::Read) and
//! [`Transaction`](crate::transaction::Transaction), so the same source runs under every scheme, in every
//! world. A structure hangs from a *root*: any pool word, which holds the address of the structure's header,
//! 0 when there is none. A header begins with a tag that names the structure, its types and its sizes; `open`
//! checks it. What `open` returns is a handle: a few numbers, to be copied freely, that hold no pool contents.
//!
//! Three rules keep transactions small and parallel:
//! - Every written word is a log record, so a structure writes the words that change and no others.
//! - No structure keeps a total (a count of elements, say): every writer would conflict on it.
//! - What is too large for one transaction (an array, a bucket table) is created by several; a crash between
//!   them leaves something that `open` refuses and that `create` completes.
//!
//! Reading never trusts what it finds. Addresses are checked by the transaction; lengths, depths and chains
//! are checked here; a structure that contradicts itself is [`Error::Damaged`](crate::Error::Damaged).

mod array;
mod b_plus_tree;
mod b_tree;
pub(crate) mod bytes;
mod chain;
mod graph;
mod hash_table;
mod header;
mod key_value_store;
mod ordered;
mod queue;
mod red_black_tree;
mod set;
mod survey;
#[cfg(test)]
mod tests;
mod value;
mod words;

pub use array::Array;
pub use b_plus_tree::{BPlusTree, NodeShape};
pub use b_tree::BTree;
pub use graph::Graph;
pub use hash_table::HashTable;
pub(crate) use header::{CircleGuard, KEY_VALUE_STORE, describe};
pub use key_value_store::KeyValueStore;
pub(crate) use key_value_store::Position;
pub use queue::Queue;
pub use red_black_tree::RedBlackTree;
pub use set::{MultiSet, Set};
pub(crate) use survey::Survey;
pub(crate) use value::with_buffer;
pub use value::{Value, Word};
