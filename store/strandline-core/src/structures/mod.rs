//! Persistent data structures. They are functions over waist 1, the traits of transactions.
//!
//! A structure accesses pool words only through [`Read`](crate::transaction::Read) and [`Transaction`](crate::transaction::Transaction), so
//! the same source runs under every scheme and on every memory. A structure is reached from a *root*: any pool word, which has the address
//! of the structure's header, or 0 if there is no structure. A header begins with a tag that names the structure, its types and its sizes;
//! `open` checks it. `open` returns a handle: a few numbers that are free to copy and hold no pool contents.
//!
//! Three rules keep transactions small and parallel:
//! - Every written word is a log record, so a structure writes the words that change and no others.
//! - No structure has a single word with a total, such as the number of its keys: every two writers would conflict on it. A page tree
//!   spreads its count over lines ([`Counters`]).
//! - A structure that is too large for one transaction (an array, a table of buckets) is created by several. After a crash between them,
//!   `open` refuses the structure and `create` completes it.
//!
//! Readers never trust the pool's contents. The transaction checks addresses; the structures check lengths, depths and chains. A structure
//! that contradicts itself is [`Error::Damaged`](crate::Error::Damaged).

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
pub use page_tree::{Batch, Cell, Inside, Leaf, Load, Located, PageTree, StoredValue, ValueWriter};
pub use survey::Survey;
pub use value::{Value, Word, with_buffer};
pub use walk::{SHARE, Walk};
