//! Fast, durable transactions on data in an ordinary file, or in persistent memory: without a server, and without a database's
//! language.
//!
//! A [`Database`] has named tables. What a transaction writes is there when it returns, after a power failure too, or nothing of it is.
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
//! | `tracing` | no | spans and events for the crate of this name: opening, recovery, checkpoints, compaction, backup, slow writes |
//! | `metrics` | no | `PoolStatistics::publish`, for the crate of this name |
//! | `json` | no | values, keys and descriptions of tables as JSON: `Dynamic::to_json` |
//! | `control` | no | `Database::serve_control`: the command `strandline pool` works on a database that the program has open |
//! | `serde` | no | `Serde`, which stores a type with serde's derives |
//! | `uuid`, `chrono`, `chrono-clock`, `time`, `jiff`, `bytes` | no | types of the crate of this name as values, and most of them as keys |
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
//! | what holds a value | `Option`, `Box`, `Rc`, `Arc`, `Reverse`, `Wrapping`, `Saturating` | the same; `Reverse` in the reverse order |
//! | other values | `NonZero`, `Ordering`, `PhantomData`, `Result`, `Range`, `RangeInclusive` | `NonZero`, `Ordering`, `PhantomData` |
//! | times and addresses | `Duration`, `SystemTime`, `IpAddr`, `Ipv4Addr`, `Ipv6Addr`, `SocketAddr`, `SocketAddrV4`, `SocketAddrV6` | the same |
//! | yours | `#[derive(Persist)]` | `#[derive(Key)]` |
//! | `uuid`, `bytes` | `Uuid`; `Bytes` | `Uuid` |
//! | `chrono` | `NaiveDate`, `NaiveTime`, `NaiveDateTime`, `DateTime<Utc>`, `DateTime<FixedOffset>`, `TimeDelta` | the same, without the offset |
//! | `chrono-clock` | `DateTime<Local>` | the same |
//! | `time` | `Date`, `Time`, `PrimitiveDateTime`, `UtcDateTime`, `OffsetDateTime`, `Duration` | the same, without the offset |
//! | `jiff` | `civil::Date`, `civil::Time`, `civil::DateTime`, `Timestamp`, `SignedDuration`, `ZonedDateTime` | the same, without `ZonedDateTime` |
//!
//! Keys are ordered as `#[derive(Ord)]` would order them, whatever `Ord` a type implements: numbers by value, strings by their bytes, tuples and
//! structures field by field, `None` first, enumerations by the order of their variants, whatever numbers these have. An encoded key has at most
//! 4,096 bytes in a table and 65,536 in a [`HashMap`]. Elements of arrays and vectors that are numbers, or small tuples or structures of them, are
//! stored side by side, rounded up to eight bytes in all: `[u8; 16]` takes sixteen bytes.
//!
//! A `DateTime<Local>` is stored as its moment, and comes back in the time zone of the machine that reads it. A `ZonedDateTime` is stored as its moment, its offset and the
//! name of its zone. If the zone has no name, or the program that reads it does not know the name, it comes back with the offset alone. It is no key, since
//! equal ones may have different zones: take its `Timestamp`.
//!
//! Types that mean the same are stored as the same: a table of one can be opened as a table of the other. Identifiers, addresses, dates and times are shown in
//! their common notation by [`Database::dump`].
//!
//! # Guides
//!
//! The repository's `docs` folder has a guide that follows an application's first week (`guide.md`), and pages on durability, operation, asynchronous
//! code, structures of your own, and the choice between this and other stores.
//!
//! # Structures of your own
//!
//! A [`Store`] has a root of a type of your own in place of tables. It leads to collections ([`OrderedMap`], [`HashMap`], [`Vector`], [`Queue`]),
//! to values elsewhere ([`Ptr`]), and to others that hold such.
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
//!    are loaded. [`Persist::load`] asks for a [`Stored`], which only this module can make, for words that it has just read. What a type's
//!    words mean is said by its layout: [`Persist`], [`Fixed`] and [`Key`] are unsafe to implement, and the derives, which are
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
//! # Who frees what
//!
//! Tables and values own what they hold: strings, vectors, and collections too, which are destroyed with the value in which they are
//! stored. What a [`Ptr`], a [`Text`] or a [`Bytes`] leads to is given back by hand; [`Store::lost_memory`] finds what was
//! forgotten. See [`Ptr`] for what a pointer can do after a free: no harm to the pool, but it may come to mean another value of the
//! same type.
#![cfg_attr(docsrs, feature(doc_cfg))]

// The derives name this crate from outside, and its own tests use them.
extern crate self as strandline;

// The parts; each uses only those above it (`tests/all/directions.rs`):
//
// value        what a pool holds word by word: values, keys, pointers, their layouts and descriptions; the types of transactions
// collections  ordered map, hash map, vector, queue; ranges, cursors, entries
// store        a pool with a typed root: how its transactions run, migrations of the root, savepoints, snapshots
// described    values whose types only the file describes, and the walk over them. It meets catalogues of tables as `described::Catalogue`, a trait
//              that `database` implements, because that comes later
// database     named tables, their migrations, values that are lent, dump and load; `DynamicStore`, `DynamicTable`
// control      requests of other processes to an open database
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

/// What the derives name.
#[doc(hidden)]
pub mod layout {
    pub use crate::value::derived::{
        Field, KeyField, KeyFields, Missing, MissingKey, PersistFields, is_key, is_persist,
    };
    pub use strandline_core::memory::PersistentAddress;
    pub use strandline_core::structures::type_layout::*;
}

/// Typed code on memories in which there is no file to open, as in the crash checker, and beside words of one's own.
#[doc(hidden)]
pub mod hosted {
    #[cfg(feature = "observed")]
    pub use crate::database::observe::{observe, pool};
    #[cfg(feature = "observed")]
    pub use crate::store::observed::{Observed, Observer};
    pub use crate::store::root::{initialise, with_root};
}

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

/// The examples of the page about structures of one's own.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/structures.md")]
struct Structures;

/// The example of the page about operation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operation.md")]
struct Operation;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
