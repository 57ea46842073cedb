//! The typed API: structures of Rust types in a pool.
//!
//! A [`Store`] is a pool with a root of a type of your own, which `#[derive(Persist)]` makes storable. Transactions
//! are closures that return a `Result`; what they read is copied out, and what they write happens as a whole.
//!
//! ```
//! use strandline::Options;
//! use strandline::typed::{HashMap, OrderedMap, Persist, Store, Text, Vector};
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
//! # fn main() -> strandline::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("library.pool");
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
//! # Ok(())
//! # }
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
//! # What is left to you
//!
//! Memory is given back by hand, as in C: removing a pointer or a collection from a map frees neither what it points
//! to nor the collection. [`Ptr::free`] and the collections' `destroy` do. See [`Ptr`] for what a pointer can do
//! after that: no harm to the pool, but it may come to mean another value of the same type.

mod bytes;
mod check;
mod entry;
mod hash_map;
mod key;
pub mod layout;
mod ordered_map;
mod persist;
mod pointer;
mod queue;
mod range;
mod root;
mod store;
mod transaction;
mod vector;

pub use bytes::{Bytes, Text};
pub use check::Checker;
pub use entry::{Entry, Map};
pub use hash_map::{HashMap, HashMapIter};
pub use key::{Key, KeyBytes, KeyRef};
pub use ordered_map::OrderedMap;
pub use persist::{Invalid, Item, Persist, Root};
pub use pointer::Ptr;
pub use queue::{Iter as QueueIter, Queue};
pub use range::Range;
pub(crate) use root::describe_root;
pub use root::{Migrations, initialise, with_root};
pub use store::{Session, Store};
pub use strandline_derive::{Key, Persist};
pub use transaction::{Tx, View};
pub use vector::{Iter as VectorIter, Vector};
