//! The catalogue of a database: named ordered maps and queues, each with the types of its content.

mod forms;
mod moving;
pub(super) mod rows;
mod walk;

use crate::collections::ordered_map::OrderedMap;
use crate::collections::queue::Queue;
use crate::described::shown::{TableDescription, TableKind};
use crate::value::pointer::{Ptr, check_block};
use crate::value::raw::{Any, RawKey};
use crate::value::schema::Types;
use crate::value::transaction::{Control, Tx, View};
use crate::{Checker, Fixed, Invalid, Key, Persist, Stored};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Read, Transaction};

pub(crate) use forms::{EncodedRow, Form, MultimapOf, QueueOf, TableOf, Wanted};
pub(crate) use moving::{AreValid, ConvertRow, Movable};
use rows::Rows;
use walk::reach;
pub(crate) use walk::walker;

/// Named tables: ordered maps, multimaps and queues of any types, which are created when they are first opened. This is the root of a
/// [`Database`](crate::Database), and can be a field of a root of your own.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Shop<'p> {
///     sold: u64,
///     tables: Tables<'p>,
/// }
///
/// let shop = Store::<Shop>::create_new(&path, &options, |tx| {
///     Ok(Shop { sold: 0, tables: Tables::new(tx)? })
/// })?;
/// shop.write(|tx, root| {
///     let stock = root.get(tx)?.tables.table::<String, u64>(tx, "stock")?;
///     stock.insert(tx, &"apples".to_string(), &40)
/// })?;
/// let apples = shop.read(|tx, root| match root.get(tx)?.tables.find_table::<String, u64>(tx, "stock")? {
///     Some(stock) => stock.get(tx, "apples"),
///     None => Ok(None),
/// })?;
/// assert_eq!(apples, Some(40));
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Tables<'p> {
    named: OrderedMap<'p, String, Described<'p>>,
    /// The number of the newest table. No number is used twice, so that a deleted table is not mistaken for another.
    last: Ptr<'p, u64>,
}

/// The catalogue as it is stored.
#[derive(Persist)]
#[persist(name = "strandline::Tables")]
struct Stores<'p> {
    named: OrderedMap<'p, String, Described<'p>>,
    last: Ptr<'p, u64>,
}

impl<'p> Tables<'p> {
    fn stored(self) -> Stores<'p> {
        Stores { named: self.named, last: self.last }
    }
}

// SAFETY: a catalogue is stored and loaded as `Stores`, whose implementation is derived.
unsafe impl<'p> Persist<'p> for Tables<'p> {
    const NAME: &'static str = <Stores<'p> as Persist<'p>>::NAME;
    const LAYOUT: u64 = <Stores<'p> as Persist<'p>>::LAYOUT;
    const SIZE: Option<usize> = <Stores<'p> as Persist<'p>>::SIZE;
    fn describe(types: &mut Types) -> String {
        Stores::describe(types)
    }
    fn words(&self) -> usize {
        self.stored().words()
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.stored().store(into)
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        Stores::load(from, stored).map(|Stores { named, last }| Self { named, last })
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> Result<()> {
        reach(checker, self.named.address(), None)?;
        self.last.visit(checker)
    }
    // The catalogue also owns the number of the newest table, and its tables are destroyed only with it.
    const OWNS: bool = true;
    fn collections(&self, found: &mut Vec<PersistentAddress>) {
        found.push(self.named.address());
    }
    fn destroy_collections(
        &self,
        tx: &Tx<'p, impl Control>,
        kept: &mut Vec<PersistentAddress>,
    ) -> Result<()> {
        if kept.contains(&self.named.address()) {
            return Ok(());
        }
        kept.push(self.named.address());
        self.destroy(tx)
    }
}

// SAFETY: a catalogue always has two words.
unsafe impl<'p> Fixed<'p> for Tables<'p> {}

impl crate::Root for Tables<'_> {
    type At<'p> = Tables<'p>;
}

/// The handle of a table, without its types.
#[derive(Clone, Copy, Persist)]
#[persist(name = "strandline::Structure")]
pub(crate) enum Structure<'p> {
    Table(OrderedMap<'p, RawKey, Any>),
    Multimap(OrderedMap<'p, RawKey, Any>),
    Queue(Queue<'p, Any>),
}

impl<'p> Structure<'p> {
    fn kind(&self) -> TableKind {
        match self {
            Self::Table(_) => TableKind::Table,
            Self::Multimap(_) => TableKind::Multimap,
            Self::Queue(_) => TableKind::Queue,
        }
    }

    /// Returns the address of the structure, and that of its number.
    fn places(&self) -> (PersistentAddress, PersistentAddress) {
        match self {
            Self::Table(map) | Self::Multimap(map) => (map.address(), map.number()),
            Self::Queue(queue) => (queue.address(), queue.number()),
        }
    }

    fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        // Handles that the program keeps then find another number and fail.
        Tables::number(&self, tx, 0)?;
        match self {
            Self::Table(map) | Self::Multimap(map) => map.destroy(tx),
            Self::Queue(queue) => queue.destroy(tx),
        }
    }
}

/// A structure and the types of its content.
#[derive(Persist)]
#[persist(name = "strandline::Held")]
struct Held<'p> {
    structure: Structure<'p>,
    key: String,
    value: String,
    layouts: (u64, u64),
    types: Types,
}

/// An entry of the catalogue.
#[derive(Persist)]
#[persist(name = "strandline::Table")]
struct Described<'p> {
    held: Held<'p>,
    number: u64,
    /// Set while a migration is under way.
    moving: Option<Moving<'p>>,
}

/// A migration that is under way.
#[derive(Persist)]
#[persist(name = "strandline::Moving")]
struct Moving<'p> {
    /// The structure to which the rows are moved.
    to: Held<'p>,
    /// Number of rows or items that were moved.
    moved: u64,
    /// True if the migration calls a function of the program. False if it only converts values to a new version of their type.
    by_function: bool,
}

impl<'p> Described<'p> {
    fn check(&self, tx: &View<'p, impl Control>, name: &str) -> Result<()> {
        match &self.moving {
            None => self.held.check(tx, name, self.number),
            Some(moving) => {
                self.held.check(tx, name, 0)?;
                moving.to.check(tx, name, 0)
            }
        }
    }
}

/// Number of words that the header of every kind of table has.
const TABLE_WORDS: usize = 8;

impl<'p> Held<'p> {
    fn rows(&self) -> Rows<'p> {
        Rows::of(&self.structure, self.layouts)
    }

    /// Checks that the structure exists, and that it has the types of the catalogue and this number. Callers check this before they use the structure
    /// as the catalogue describes it.
    fn check(&self, tx: &View<'p, impl Control>, name: &str, number: u64) -> Result<()> {
        let (at, number_at) = self.structure.places();
        let expected = (rows::tags(self.structure.kind(), self.layouts).0, number);
        let found = tx.words(|tx| {
            Ok(if tx.is_allocated(at)? { Some((tx.read(at)?, tx.read(number_at)?)) } else { None })
        })?;
        if found == Some(expected) {
            return Ok(());
        }
        Err(Error::damaged(misplaced(name)))
    }
}

/// Returns the message about a table that is not at its address in the catalogue.
fn misplaced(name: &str) -> String {
    format!("the table `{name}` is not where the catalogue says")
}

/// An open table: its address and its number.
pub(crate) type Place = (PersistentAddress, u64);

impl<'p> Tables<'p> {
    /// Creates a catalogue without tables.
    ///
    /// # Errors
    /// Returns an error if the pool is full or after a conflict.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Ok(Self { named: OrderedMap::new(tx)?, last: Ptr::new(tx, &0)? })
    }

    /// Returns the table `name`, or `None` if there is none.
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if the table has another kind or other types, and an error after a conflict.
    pub(crate) fn find(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
        wanted: &Wanted,
    ) -> Result<Option<Place>> {
        let Some(found) = self.named.get(tx, name)? else { return Ok(None) };
        wanted.check(name, &found)?;
        Ok(Some((found.held.structure.places().0, found.number)))
    }

    fn next_number(self, tx: &Tx<'p, impl Control>) -> Result<u64> {
        self.last.update(tx, |last| {
            *last += 1;
            *last
        })
    }

    fn number(structure: &Structure<'p>, tx: &Tx<'p, impl Control>, number: u64) -> Result<()> {
        let (at, number_at) = structure.places();
        tx.words(|tx| {
            check_block(tx, at, TABLE_WORDS, "table")?;
            tx.write(number_at, number)
        })
    }

    /// Finds a table, or creates it.
    pub(crate) fn open(self, tx: &Tx<'p, impl Control>, name: &str, wanted: Wanted) -> Result<Place> {
        if let Some(place) = self.find(tx, name, &wanted)? {
            return Ok(place);
        }
        let structure = wanted.make(tx)?;
        let place = self.add(tx, name, wanted.hold(structure))?;
        Ok((structure.places().0, place))
    }

    /// Adds a new structure to the catalogue, and returns its number.
    fn add(self, tx: &Tx<'p, impl Control>, name: &str, held: Held<'p>) -> Result<u64> {
        let number = self.next_number(tx)?;
        Self::number(&held.structure, tx, number)?;
        self.named.insert(tx, &name.to_owned(), &Described { held, number, moving: None })?;
        Ok(number)
    }

    pub(crate) fn open_table<K: Key, V: Persist<'p>>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
    ) -> Result<Place> {
        self.open(tx, name, Wanted::table::<K, V>())
    }

    pub(crate) fn find_place<K: Key, V: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Place>> {
        self.find(tx, name, &Wanted::table::<K, V>())
    }

    pub(crate) fn open_multimap<K: Key, V: Key>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
    ) -> Result<Place> {
        self.open(tx, name, Wanted::multimap::<K, V>())
    }

    pub(crate) fn find_multimap<K: Key, V: Key>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Place>> {
        self.find(tx, name, &Wanted::multimap::<K, V>())
    }

    pub(crate) fn open_queue<T: Persist<'p>>(self, tx: &Tx<'p, impl Control>, name: &str) -> Result<Place> {
        self.open(tx, name, Wanted::queue::<T>())
    }

    pub(crate) fn find_queue_place<T: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Place>> {
        self.find(tx, name, &Wanted::queue::<T>())
    }

    /// Returns the table `name`, and creates it if it does not exist.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.write(|tx| {
    ///     let ages = db.catalogue(tx)?.table::<String, u32>(tx, "ages")?;
    ///     ages.insert(tx, &"ann".to_string(), &41)
    /// })?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::TableTypes`] if the table has other types, and an error if the pool is full or after a conflict.
    pub fn table<K: Key, V: Persist<'p>>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
    ) -> Result<OrderedMap<'p, K, V>> {
        self.open_table::<K, V>(tx, name).map(|(at, _)| OrderedMap::of(at))
    }

    /// Returns the table `name`, or `None` if it does not exist.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let found = db.read(|tx| Ok(db.catalogue(tx)?.find_table::<String, u32>(tx, "ages")?.is_some()))?;
    /// assert!(!found);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tables::table`].
    pub fn find_table<K: Key, V: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<OrderedMap<'p, K, V>>> {
        Ok(self.find_place::<K, V>(tx, name)?.map(|(at, _)| OrderedMap::of(at)))
    }

    /// Returns the multimap `name`, a map of keys with their values, and creates it if it does not exist.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.write(|tx| {
    ///     let tags = db.catalogue(tx)?.multimap::<String, u64>(tx, "tags")?;
    ///     tags.insert(tx, &("sea".to_string(), 3), &())
    /// })?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tables::table`].
    pub fn multimap<K: Key, V: Key>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
    ) -> Result<OrderedMap<'p, (K, V), ()>> {
        self.open_multimap::<K, V>(tx, name).map(|(at, _)| OrderedMap::of(at))
    }

    /// Returns the queue `name`, and creates it if it does not exist.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.write(|tx| {
    ///     let jobs = db.catalogue(tx)?.queue::<String>(tx, "jobs")?;
    ///     jobs.push(tx, &"report".to_string())
    /// })?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tables::table`].
    pub fn queue<T: Persist<'p>>(self, tx: &Tx<'p, impl Control>, name: &str) -> Result<Queue<'p, T>> {
        self.open_queue::<T>(tx, name).map(|(at, _)| Queue::of(at))
    }

    /// Returns the queue `name`, or `None` if it does not exist.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let found = db.read(|tx| Ok(db.catalogue(tx)?.find_queue::<String>(tx, "jobs")?.is_some()))?;
    /// assert!(!found);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tables::table`].
    pub fn find_queue<T: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Queue<'p, T>>> {
        Ok(self.find_queue_place::<T>(tx, name)?.map(|(at, _)| Queue::of(at)))
    }

    /// Returns the descriptions of all tables, ordered by name.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.table::<String, u32>("ages")?;
    /// let tables = db.read(|tx| db.catalogue(tx)?.list(tx))?;
    /// assert_eq!(tables[0].name, "ages");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict or if the catalogue is damaged.
    pub fn list(self, tx: &View<'p, impl Control>) -> Result<Vec<TableDescription>> {
        let described = |pair: Result<(String, Described<'p>)>| {
            let (name, Described { held, .. }) = pair?;
            Ok(held.describe(&name))
        };
        self.named.iter(tx).map(described).collect()
    }

    /// Deletes the table `name` with its content, and returns whether it existed. Handles to it return [`Error::NoTable`] afterwards.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.table::<String, u32>("ages")?;
    /// assert!(db.write(|tx| db.catalogue(tx)?.delete(tx, "ages"))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Tables::table`].
    pub fn delete(self, tx: &Tx<'p, impl Control>, name: &str) -> Result<bool> {
        let Some(found) = self.named.get(tx, name)? else { return Ok(false) };
        found.check(tx, name)?;
        self.named.take(tx, name)?;
        found.held.structure.destroy(tx)?;
        if let Some(Moving { to, .. }) = found.moving {
            to.structure.destroy(tx)?;
        }
        Ok(true)
    }

    /// Renames the table `name`. Handles to it stay valid.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// db.table::<String, u32>("ages")?;
    /// db.write(|tx| db.catalogue(tx)?.rename(tx, "ages", "years"))?;
    /// assert_eq!(db.list()?[0].name, "years");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NoTable`] if there is no table `name`, [`Error::Parameter`] if there is already a table with the new name, and an error after
    /// a conflict.
    pub fn rename(self, tx: &Tx<'p, impl Control>, name: &str, to: &str) -> Result<()> {
        if name == to && self.named.contains_key(tx, name)? {
            return Ok(());
        }
        if self.named.contains_key(tx, to)? {
            return Err(Error::Parameter(format!("there is a table `{to}` already")));
        }
        let found = self.named.take(tx, name)?.ok_or_else(|| Error::NoTable { name: name.to_owned() })?;
        self.named.insert(tx, &to.to_owned(), &found).map(drop)
    }

    /// Destroys all tables, and frees the memory of the catalogue.
    ///
    /// # Errors
    /// Returns the same errors as [`Tables::table`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        for table in self.list(tx)? {
            self.delete(tx, &table.name)?;
        }
        self.named.destroy(tx)?;
        self.last.free(tx).map(drop)
    }
}
