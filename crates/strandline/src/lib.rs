//! Crash-safe data structures without a database: fast, durable, isolated transactions on an ordinary file, or on persistent
//! memory.
//!
//! A [`Store`] is a pool with a root of a type of your own, which `#[derive(Persist)]` makes storable. Transactions
//! are closures that return a `Result`; what they read is copied out, and what they write happens as a whole.
//!
//! ```
//! use strandline::{Options, HashMap, OrderedMap, Persist, Store, Text, Vector};
//!
//! #[derive(Persist)]
//! struct Library<'p> {
//!     books: OrderedMap<'p, u64, Book<'p>>,
//!     shelves: HashMap<'p, String, Vector<'p, u64>>,
//! }
//!
//! #[derive(Clone, Copy, Persist)]
//! struct Book<'p> {
//!     title: Text<'p>,
//!     pages: u32,
//! }
//!
//! # let path = strandline::example::path();
//! let library = Store::<Library>::open_or_create(&path, &Options::default(), |tx| {
//!     Ok(Library { books: OrderedMap::new(tx)?, shelves: HashMap::new(tx)? })
//! })?;
//! library.update(|tx, root| {
//!     let Library { books, shelves } = root.get(tx)?;
//!     books.insert(tx, &4711, &Book { title: Text::new(tx, "Persistence")?, pages: 320 })?;
//!     let shelf = match shelves.get(tx, "systems")? {
//!         Some(shelf) => shelf,
//!         None => {
//!             let shelf = Vector::new(tx)?;
//!             shelves.insert(tx, &"systems".to_string(), &shelf)?;
//!             shelf
//!         }
//!     };
//!     shelf.push(tx, &4711)
//! })?;
//! let title = library.view(|tx, root| {
//!     let Library { books, shelves } = root.get(tx)?;
//!     let shelf = shelves.get(tx, "systems")?.unwrap();
//!     let book = books.get(tx, &shelf.get(tx, 0)?.unwrap())?.unwrap();
//!     book.title.get(tx)
//! })?;
//! assert_eq!(title, "Persistence");
//! # Ok::<(), strandline::Error>(())
//! ```
//!
//! # What cannot go wrong
//!
//! - Nothing but values of fixed layout and pointers of the same pool can be stored: references, boxes and volatile
//!   collections do not compile. Nor does a write outside a transaction, or in a [`View`].
//! - Pointers and collections carry their pool and transaction in their type. They cannot be used in another, nor
//!   kept beyond the transaction's end.
//! - There is no reference into the pool. Values are checked when they are read: words that are no value of the type
//!   are an error, whatever a damaged pool holds.
//! - Whatever a damaged pool holds, walks end: lengths are held against blocks, circles are found. [`Store::check`] and
//!   the collections' `check` tell what is damaged.
//! - The root's type, version and layout are checked when the pool is opened, and every value's and collection's layout
//!   when it is used.
//!
//! # Why safe code cannot damage a pool
//!
//! Values are words, and a handle ([`Ptr`], a collection, a [`Text`]) is an address that leads to other words. Three rules keep a handle
//! from leading where it must not.
//!
//! 1. *No handle is made of words of a program's own.* Safe code gets handles from the functions that allocate, and from values that
//!    are loaded. [`Persist::load`] and [`Item::decode`] ask for a [`Stored`], which only this module can make, for words that it has just read. What a type's
//!    words mean is said by its layout: [`Persist`], [`Item`] and [`Key`] are unsafe to implement, and the derives, which are
//!    safe to use, hash name, version and fields into it.
//! 2. *No handle is used as of another type, pool or transaction.* The brand `'p` is invariant, and each transaction has its own. (A
//!    [`Snapshot`]'s is its borrow, which another snapshot's may be too: both only read.) A type's layout
//!    is in the tag that its block begins with, and a tag that is another is an error.
//! 3. *A write goes into a block of its own kind.* The pool may be damaged, and so a handle or a link that was read from it may be any number. Before
//!    anything is written or freed through one, the heap says that a block begins there and is large enough, and the tag that it is of the type. So it is for
//!    the blocks behind a collection's own, too: a vector's directory and segments, a queue's items and the content of bytes have tags,
//!    nodes of an ordered map have a magic number. The buckets, tables and entries of maps have none: there the block's size is asked for, and the
//!    entry's key must be the one that is looked for.
//!
//! What a damaged link that passes all this can do is what a wrong value could: it changes data of the same type; where there are no tags,
//! it may change another large enough block of the heap. It does not reach the heap's own tables, the logs or the roots. `Store::check`
//! finds it.
//!
//! # What is left to you
//!
//! Memory is given back by hand, as in C: removing a pointer or a collection from a map frees neither what it points
//! to nor the collection. [`Ptr::free`] and the collections' `destroy` do. See [`Ptr`] for what a pointer can do
//! after that: no harm to the pool, but it may come to mean another value of the same type.

// The derives name this crate from outside, and its own tests use them.
#[cfg(test)]
extern crate self as strandline;

mod bytes;
mod check;
mod entry;
#[cfg(feature = "example")]
#[doc(hidden)]
pub mod example;
mod hash_map;
mod key;
mod ordered_map;
mod persist;
mod pointer;
mod queue;
mod range;
mod root;
mod snapshot;
mod store;
mod transaction;
mod vector;

pub use bytes::{Bytes, Text};
pub use check::Checker;
pub use entry::{Entry, Map};
pub use hash_map::{HashMap, HashMapIter};
pub use key::{Key, KeyBytes, KeyRef};
pub use ordered_map::OrderedMap;
pub use persist::{Invalid, Item, Persist, Root, Stored};
pub use pointer::Ptr;
pub use queue::{Iter as QueueIter, Queue};
pub use range::Range;
pub use root::Migrations;
pub use snapshot::Snapshot;
pub use store::{Session, Store};
pub use strandline_core::Domain;
pub use strandline_core::engine::{SingleWriter, SnapshotUsage, Stm};
pub use strandline_core::error::{Error, Result};
pub use strandline_core::file::{BackupReport, CompactReport, Options, Recovery, SpaceUsage, Ticket};
pub use strandline_core::heap::HeapUsage;
pub use strandline_core::layout::Geometry;
pub use strandline_core::memory::WriteBackInstruction;
pub use strandline_core::sync::SyncParameters;
pub use strandline_core::transaction::Statistics;
pub use strandline_derive::{Key, Persist};
pub use transaction::{Control, Tx, View};
pub use vector::{Iter as VectorIter, Vector};

/// What the derives name.
#[doc(hidden)]
pub mod layout {
    pub use strandline_core::structures::type_layout::*;
}

/// Typed code on memories in which there is no file to open, as in the crash checker, and beside words of one's own.
#[doc(hidden)]
pub mod hosted {
    pub use crate::root::{initialise, with_root};
    pub use crate::transaction::Over;
}

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
