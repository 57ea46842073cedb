//! Fast, durable transactions on data in an ordinary file, or in persistent memory: without a server, and without a database's language.
//!
//! A [`Database`] has named tables. When a transaction returns, either all its writes are in the database and survive a power failure, or none are.
//!
//! ```
//! use strandline::{Database, Persist};
//!
//! #[derive(Debug, PartialEq, Persist)]
//! struct Book {
//!     title: String,
//!     pages: u32,
//!     tags: Vec<String>,
//! }
//!
//! # let path = strandline::example::path();
//! let db = Database::open(&path)?; // makes the file if there is none
//! let books = db.table::<u64, Book>("books")?; // ordered by its keys
//! let book = Book { title: "Persistence".into(), pages: 320, tags: vec!["systems".into()] };
//! db.write(|tx| books.insert(tx, &4711, &book))?;
//! assert_eq!(db.read(|tx| books.get(tx, &4711))?, Some(book));
//! # Ok::<(), strandline::Error>(())
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `tracing` | no | spans and events for the crate `tracing`: opening, recovery, checkpoints, compaction, backup, slow writes |
//! | `metrics` | no | `PoolStatistics::publish`, for the crate `metrics` |
//! | `json` | no | values, keys and descriptions of tables as JSON: `Dynamic::to_json` |
//! | `control` | no | `Database::serve_control`, so that the command `strandline pool` works on a database that the program has open |
//! | `serde` | no | `Serde`, which stores types that have serde's derives |
//! | `uuid`, `chrono`, `chrono-clock`, `time`, `jiff`, `bytes` | no | types of the crate with this name as values, and most of them as keys |
//!
//! `example` and `observed` are for the tests of this documentation and for `strandline-check`.
//!
//! # Types
//!
//! | of | values: [`Persist`] | keys: [`Key`] |
//! |---|---|---|
//! | the language | numbers, `bool`, `char`, `()`, arrays, tuples of up to twelve | the same, floating-point numbers by `total_cmp` |
//! | text and bytes | `String`, `Vec<u8>`, `Box<str>`, `Rc<str>`, `Arc<str>`, `Cow<str>`, `PathBuf` | the same, without `PathBuf` |
//! | lists | `Vec`, `VecDeque`, `Box<[T]>`, `Rc<[T]>`, `Arc<[T]>`, `Cow<[T]>` | |
//! | sets and maps | `BTreeSet`, `HashSet`, `BTreeMap`, `HashMap` | |
//! | wrappers of a value | `Option`, `Box`, `Rc`, `Arc`, `Reverse`, `Wrapping`, `Saturating` | the same; `Reverse` in the reverse order |
//! | other values | `NonZero`, `Ordering`, `PhantomData`, `Result`, `Range`, `RangeInclusive` | `NonZero`, `Ordering`, `PhantomData` |
//! | times and addresses | `Duration`, `SystemTime`, `IpAddr`, `Ipv4Addr`, `Ipv6Addr`, `SocketAddr`, `SocketAddrV4`, `SocketAddrV6` | the same |
//! | yours | `#[derive(Persist)]` | `#[derive(Key)]` |
//! | `uuid`, `bytes` | `Uuid`; `Bytes` | `Uuid` |
//! | `chrono` | `NaiveDate`, `NaiveTime`, `NaiveDateTime`, `DateTime<Utc>`, `DateTime<FixedOffset>`, `TimeDelta` | the same, without the offset |
//! | `chrono-clock` | `DateTime<Local>` | the same |
//! | `time` | `Date`, `Time`, `PrimitiveDateTime`, `UtcDateTime`, `OffsetDateTime`, `Duration` | the same, without the offset |
//! | `jiff` | `civil::Date`, `civil::Time`, `civil::DateTime`, `Timestamp`, `SignedDuration`, `ZonedDateTime` | the same, without `ZonedDateTime` |
//!
//! Keys are in the order of `#[derive(Ord)]`, even if a type implements `Ord` differently: numbers by value, strings by their bytes, tuples and
//! structures field by field, `None` first, and enumerations by the order of their variants, whatever discriminants these have. An encoded key has at
//! most 4,096 bytes in a table and 65,536 in a [`HashMap`]. Elements of arrays and vectors are stored side by side if they are numbers, or small
//! tuples or structures of numbers; the total is rounded up to eight bytes. `[u8; 16]` takes sixteen bytes.
//!
//! A `DateTime<Local>` is stored as its moment, and loaded in the time zone of the machine that reads it. A `ZonedDateTime` is stored as its moment,
//! its offset and the name of its zone. If the zone has no name, or the program that reads it does not know the name, it is loaded with the offset
//! only. It cannot be a key, since equal values may have different zones; use its `Timestamp` instead.
//!
//! Types with the same meaning are stored in the same way, so that a table of one can be opened as a table of the other. Identifiers, addresses,
//! dates and times are shown in their common notation by [`Database::dump`].
//!
//! # Guides
//!
//! The repository's `docs` folder has a guide that follows an application's first week (`guide.md`), and pages on durability, operation, asynchronous
//! code, structures of your own, and the choice between this and other stores.
//!
//! # Structures of your own
//!
//! A [`Store`] has a root of your own type instead of tables. The root refers to collections ([`OrderedMap`], [`HashMap`], [`Vector`], [`Queue`]) and
//! to other values ([`Ptr`]), which may refer to further ones.
//!
//! ```
//! use strandline::{Options, HashMap, OrderedMap, Persist, Store, Vector};
//!
//! #[derive(Persist)]
//! struct Library<'p> {
//!     titles: OrderedMap<'p, u64, String>,
//!     shelves: HashMap<'p, String, Vector<'p, u64>>,
//! }
//!
//! # let path = strandline::example::path();
//! let library = Store::<Library>::open(&path, &Options::default(), |tx| {
//!     Ok(Library { titles: OrderedMap::new(tx)?, shelves: HashMap::new(tx)? })
//! })?;
//! library.write(|tx, root| {
//!     let Library { titles, shelves } = root.get(tx)?;
//!     titles.insert(tx, &4711, &"Persistence".to_string())?;
//!     let shelf = shelves.entry(tx, "systems".to_string())?.or_insert_with(|| Vector::new(tx))?;
//!     shelf.push(tx, &4711)
//! })?;
//! let first = library.read(|tx, root| {
//!     let Library { titles, shelves } = root.get(tx)?;
//!     let shelf = shelves.get(tx, "systems")?.unwrap();
//!     titles.get(tx, &shelf.get(tx, 0)?.unwrap())
//! })?;
//! assert_eq!(first.as_deref(), Some("Persistence"));
//! # Ok::<(), strandline::Error>(())
//! ```
//!
//! # What cannot go wrong
//!
//! - Only values with a known layout, and pointers and collections of the same pool, can be stored. Storing a reference or an ordinary pointer does
//!   not compile, and neither does a write outside a transaction or in a [`View`].
//! - Pointers and collections carry their pool and transaction in their type. They cannot be used in another transaction, nor kept beyond its end.
//! - There are no references into the pool. Values are checked when they are read: words that are not a valid value of the type are an error,
//!   whatever a damaged pool holds.
//! - Walks end even in a damaged pool: lengths are compared with blocks, and cycles are detected. [`Store::check`] and the collections' `check`
//!   report the damage.
//! - The root's type, version and layout are checked when the pool is opened, and every value's and collection's layout when it is used.
//!
//! # Why safe code cannot damage a pool
//!
//! Values are words, and a handle ([`Ptr`], a collection, a [`Text`]) is the address of other words. Three rules prevent a handle from referring to
//! the wrong words.
//!
//! 1. *Safe code cannot make a handle from words of its own choice.* It gets handles from the functions that allocate, and from values that are
//!    loaded. [`Persist::load`] needs a [`Stored`], which only this crate can create, for words that it has just read. A type's layout says what its
//!    words mean: [`Persist`], [`Fixed`] and [`Key`] are unsafe to implement, and the derives, which are safe to use, compute the layout from name,
//!    version and fields.
//! 2. *A handle cannot be used with another type, pool or transaction.* The brand `'p` is invariant, and each transaction has its own. (The brand of
//!    a [`Snapshot`] is its borrow, which two snapshots may share, since both only read.) A block begins with a tag that contains its type's layout,
//!    and a different tag is an error.
//! 3. *A write goes only into a block of the right kind.* The pool may be damaged, so that a handle or a link that was read from it may be any
//!    number. Before anything is written or freed through it, the heap is asked whether a block begins there and is large enough, and the tag must be
//!    that of the type. The same holds for the inner blocks of collections: a vector's directory and segments, a queue's items and the content of
//!    bytes have tags, and the nodes of an ordered map have a magic number. The buckets, tables and entries of hash maps have no tags; there the
//!    block's size is checked, and the entry must have the key that is looked for.
//!
//! A damaged link that passes all these checks can do no more harm than a wrong value: a write through it changes data of the same type or, where
//! there are no tags, another block of the heap that is large enough. It does not reach the heap's own tables, the logs or the roots.
//! [`Store::check`] finds it.
//!
//! # Who frees what
//!
//! Tables and values own their content: strings, vectors, and also collections, which are destroyed with the value in which they are stored. The
//! program frees the target of a [`Ptr`], a [`Text`] or a [`Bytes`] explicitly; [`Store::lost_memory`] finds those that it forgot. A pointer to a
//! freed value cannot harm the pool, but may come to refer to another value of the same type; see [`Ptr`].
#![cfg_attr(docsrs, feature(doc_cfg))]

// The derives name this crate from outside, and its own tests use them.
extern crate self as strandline;

// The modules. Each uses only those above it (`tests/all/directions.rs`):
//
// - `value`: the values that a pool holds word by word, keys, pointers, their layouts and descriptions; the types of transactions
// - `collections`: ordered map, hash map, vector and queue, with ranges, cursors and entries
// - `store`: a pool with a typed root: how its transactions run, migrations of the root, savepoints, snapshots
// - `described`: values whose types only the file describes, and the walk over them. It knows catalogues of tables through the trait
//   `described::Catalogue`, which `database` implements, because that module comes later
// - `database`: named tables, their migrations, values that are lent, dump and load; `DynamicStore`, `DynamicTable`
// - `control`: requests of other processes to an open database
mod collections;
#[cfg(feature = "control")]
pub mod control;
mod database;
mod described;
#[cfg(feature = "example")]
#[doc(hidden)]
pub mod example;
mod store;
mod value;

pub use collections::cursor::Cursor;
pub use collections::drain::ExtractIf;
pub use collections::entry::{Entry, Map};
pub use collections::hash_map::{HashMap, HashMapIter};
pub use collections::ordered_map::OrderedMap;
pub use collections::queue::{Iter as QueueIter, Queue};
pub use collections::range::Range;
pub use collections::stream::ValueReader;
pub use collections::vector::{Iter as VectorIter, Vector};
pub use database::dynamic_store::DynamicStore;
pub use database::dynamic_table::{DynamicRange, DynamicTable};
pub use database::export::Loaded;
pub use database::lent::LentValue;
pub use database::multimap::{MultimapTable, Values};
pub use database::queue::QueueTable;
pub use database::table::Table;
pub use database::tables::Tables;
pub use database::value_ref::{Value, ValueRef};
pub use database::{Database, DatabaseSnapshot, SnapshotRows};
pub use described::dynamic::Dynamic;
pub use described::shown::{Shown, TableDescription, TableKind};
pub use store::root::Migrations;
pub use store::savepoint::Savepoint;
pub use store::snapshot::{Snapshot, SnapshotView};
pub use store::{Later, Session, Store};
pub use strandline_core::Domain;
pub use strandline_core::engine::{SingleWriter, SnapshotUsage, Stm};
pub use strandline_core::error::{Error, ErrorKind, Result};
pub use strandline_core::file::{
    BackupReport, CompactReport, Durations, OldFiles, Options, PoolStatistics, Recovery, RestoreReport,
    SpaceUsage, Ticket,
};
pub use strandline_core::heap::HeapUsage;
pub use strandline_core::layout::Geometry;
pub use strandline_core::memory::WriteBackInstruction;
pub use strandline_core::scheme::RecoveryReport;
pub use strandline_core::sync::{DeviceCounters, SyncParameters, SyncRecoveryReport};
pub use strandline_core::transaction::Statistics;
pub use strandline_derive::{Key, Persist};
pub use value::bytes::{Bytes, Text};
pub use value::check::{Checker, LostMemory};
pub use value::key::{Key, KeyBytes, KeyRef, Prefix};
pub use value::persist::{Fixed, Invalid, Persist, Readable, Root, Stored};
pub use value::pointer::Ptr;
pub use value::schema::{FieldDescription, Schema, TypeDescription, Types, VariantDescription, stored_words};
#[cfg(feature = "serde")]
pub use value::serde::Serde;
pub use value::transaction::{Control, Tx, View};

/// The items to which derived code refers.
#[doc(hidden)]
pub mod layout {
    pub use crate::value::derived::{
        Field, KeyField, KeyFields, Missing, MissingKey, PersistFields, is_key, is_persist,
    };
    pub use strandline_core::memory::PersistentAddress;
    pub use strandline_core::structures::type_layout::*;
}

/// Typed code on memories without a file, as the crash checker uses, or together with words that the caller lays out.
#[doc(hidden)]
pub mod hosted {
    #[cfg(feature = "observed")]
    pub use crate::database::observe::{observe, pool};
    #[cfg(feature = "observed")]
    pub use crate::store::observed::{Observed, Observer};
    pub use crate::store::root::{initialise, with_root};
}

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

/// Compiles and runs the examples of the page about structures of your own.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/structures.md")]
struct Structures;

/// Compiles and runs the example of the page about operation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operation.md")]
struct Operation;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
