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

pub mod bytes;
pub mod header;
pub mod ordered;
pub mod root;
pub mod type_layout;
pub mod value;
pub mod words;

mod b_plus_tree;
mod counters;
mod key_value_store;
mod page_tree;
mod survey;
mod walk;

pub use b_plus_tree::{BPlusTree, NodeShape};
pub use counters::Counters;
pub use header::{CircleGuard, describe};
pub use key_value_store::{KeyValueStore, Position};
pub use page_tree::{Cell, Inside, Leaf, Load, Located, PageTree, StoredValue, ValueWriter};
pub use survey::Survey;
pub use value::{Value, Word, with_buffer};
pub use walk::{SHARE, Walk};
