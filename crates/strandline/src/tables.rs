//! Named collections: a catalogue of ordered maps and queues, each with the types of what it holds.

use super::dynamic::Codec;
use super::key::KeyBytes;
use super::ordered_map::OrderedMap;
use super::pointer::{Ptr, check_block};
use super::queue::Queue;
use super::schema::{Types, differences};
use super::table::Value;
use super::transaction::{Control, Tx, View};
use super::values::{Any, Raw, RawKey};
use crate::{Key, Persist};
use std::marker::PhantomData;
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Read, Transaction};

/// Named tables: ordered maps, multimaps and queues of any types, which are made as they are asked for. The root of a
/// [`Database`](super::Database), and a field of a root of one's own.
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
/// let shop = Store::<Shop>::create(&path, &options, |tx| {
///     Ok(Shop { sold: 0, tables: Tables::new(tx)? })
/// })?;
/// shop.update(|tx, root| {
///     let stock = root.get(tx)?.tables.table::<String, u64>(tx, "stock")?;
///     stock.insert(tx, &"apples".to_string(), &40)
/// })?;
/// let apples = shop.view(|tx, root| match root.get(tx)?.tables.find_table::<String, u64>(tx, "stock")? {
///     Some(stock) => stock.get(tx, "apples"),
///     None => Ok(None),
/// })?;
/// assert_eq!(apples, Some(40));
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Copy, Persist)]
#[persist(name = "strandline::Tables")]
pub struct Tables<'p> {
    named: OrderedMap<'p, String, Described<'p>>,
    /// The number of the newest. None is used twice, so that a table that was deleted is not taken for another.
    last: Ptr<'p, u64>,
}

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// A key has one value.
    Table,
    /// A key has any number of values.
    Multimap,
    /// First in, first out.
    Queue,
}

impl std::fmt::Display for TableKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Table => "table",
            Self::Multimap => "multimap",
            Self::Queue => "queue",
        })
    }
}

/// A table as the pool describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescription {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// The type of its keys; of a queue `()`.
    pub key: String,
    /// The type of its values or items.
    pub value: String,
    /// The structures and enumerations among these.
    pub types: Types,
    /// The hashes of the layouts of keys and values, which a program compares with those of its own types.
    pub layouts: (u64, u64),
}

/// Where a table is, without its types.
#[derive(Clone, Copy, Persist)]
#[persist(name = "strandline::Structure")]
pub(crate) enum Structure<'p> {
    Table(OrderedMap<'p, RawKey<false>, Any<false>>),
    /// Keys and values are words.
    WordTable(OrderedMap<'p, RawKey<true>, Any<true>>),
    Multimap(OrderedMap<'p, RawKey<false>, Any<false>>),
    Queue(Queue<'p, Any<false>>),
}

impl<'p> Structure<'p> {
    fn kind(&self) -> TableKind {
        match self {
            Self::Table(_) | Self::WordTable(_) => TableKind::Table,
            Self::Multimap(_) => TableKind::Multimap,
            Self::Queue(_) => TableKind::Queue,
        }
    }

    /// Where the structure is, and where its number.
    fn places(&self) -> (PersistentAddress, PersistentAddress) {
        match self {
            Self::Table(map) | Self::Multimap(map) => (map.address(), map.number()),
            Self::WordTable(map) => (map.address(), map.number()),
            Self::Queue(queue) => (queue.address(), queue.number()),
        }
    }

    /// A new table.
    fn table<K: Key, V: Persist<'p>>(tx: &Tx<'p, impl Control>) -> Result<Self> {
        let at = OrderedMap::<K, V>::new(tx)?.address();
        Ok(if OrderedMap::<K, V>::INLINE {
            Self::WordTable(OrderedMap::of(at))
        } else {
            Self::Table(OrderedMap::of(at))
        })
    }

    /// A new multimap.
    fn multimap<K: Key, V: Key>(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Ok(Self::Multimap(OrderedMap::of(OrderedMap::<(K, V), ()>::new(tx)?.address())))
    }

    /// A new queue.
    fn queue<T: Persist<'p>>(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Ok(Self::Queue(Queue::of(Queue::<T>::new(tx)?.address())))
    }

    fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        // A handle that is kept somewhere finds no number.
        Tables::number(&self, tx, 0)?;
        match self {
            Self::Table(map) | Self::Multimap(map) => map.destroy(tx),
            Self::WordTable(map) => map.destroy(tx),
            Self::Queue(queue) => queue.destroy(tx),
        }
    }
}

/// A structure and the types of what it holds.
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
    /// While a migration is under way.
    moving: Option<Moving<'p>>,
}

/// A migration that is under way.
#[derive(Persist)]
#[persist(name = "strandline::Moving")]
struct Moving<'p> {
    /// Where the keys are moved to.
    to: Held<'p>,
    /// How many keys or items were.
    moved: u64,
    /// Whether a function of the program's makes them what they become.
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

/// Words that the header of every kind of table has.
const TABLE_WORDS: usize = 8;

impl<'p> Held<'p> {
    /// Fails unless the structure is there, is of the types that are said, and has this number: before anything is done with it by what
    /// is said alone.
    fn check(&self, tx: &View<'p, impl Control>, name: &str, number: u64) -> Result<()> {
        let (at, number_at) = self.structure.places();
        let expected = (tags(self.structure.kind(), self.layouts).0, number);
        let found = tx.words(|tx| {
            Ok(if tx.is_allocated(at)? { Some((tx.read(at)?, tx.read(number_at)?)) } else { None })
        })?;
        let are_words = matches!(self.structure, Structure::WordTable(_));
        if found == Some(expected) && are_words == self.are_words() {
            return Ok(());
        }
        Err(Error::Damaged(format!("the table `{name}` is not where the catalogue says")))
    }

    /// Whether keys and values are words, by what is said of them.
    fn are_words(&self) -> bool {
        // Of types that are not known here, the catalogue alone can say.
        match (
            self.structure.kind(),
            word_type(&self.key, &self.types, true),
            word_type(&self.value, &self.types, false),
        ) {
            (TableKind::Table, Some(key), Some(value)) => key && value,
            (TableKind::Table, ..) => matches!(self.structure, Structure::WordTable(_)),
            _ => false,
        }
    }
}

/// Whether the keys or values of this type are all one word; `None`: it is not known.
fn word_type(name: &str, types: &Types, is_key: bool) -> Option<bool> {
    let codec = Codec::new(name, types)?;
    Some(if is_key { codec.is_word_key() } else { codec.is_one_word() })
}

/// What a table has to be.
pub(crate) struct Wanted {
    kind: TableKind,
    key: String,
    pub value: String,
    pub layouts: (u64, u64),
    pub types: Types,
}

/// A kind of table with its types.
pub(crate) trait Form {
    /// What it is.
    fn wanted() -> Wanted;
    /// Makes an empty one.
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>>;
}

/// A table.
pub(crate) struct TableOf<K, V>(PhantomData<fn() -> (K, V)>);
/// A multimap.
pub(crate) struct MultimapOf<K, V>(PhantomData<fn() -> (K, V)>);
/// A queue.
pub(crate) struct QueueOf<T>(PhantomData<fn() -> T>);

impl<K: Key, V: Value> Form for TableOf<K, V> {
    fn wanted() -> Wanted {
        Wanted::table::<K, V>()
    }
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        Structure::table::<K, V>(tx)
    }
}

impl<K: Key, V: Key> Form for MultimapOf<K, V> {
    fn wanted() -> Wanted {
        Wanted::multimap::<K, V>()
    }
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        Structure::multimap::<K, V>(tx)
    }
}

impl<T: Value> Form for QueueOf<T> {
    fn wanted() -> Wanted {
        Wanted::queue::<T>()
    }
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        Structure::queue::<T>(tx)
    }
}

impl Wanted {
    pub fn table<'p, K: Key, V: Persist<'p>>() -> Self {
        const {
            assert!(
                !V::OWNS,
                "tables know nothing of collections in their values, and could not destroy them"
            )
        };
        let mut types = Types::default();
        let (key, value) = (K::describe(&mut types), V::describe(&mut types));
        Self { kind: TableKind::Table, key, value, layouts: (K::LAYOUT, V::LAYOUT), types }
    }

    fn multimap<K: Key, V: Key>() -> Self {
        let mut types = Types::default();
        let (key, value) = (K::describe(&mut types), V::describe(&mut types));
        Self { kind: TableKind::Multimap, key, value, layouts: (K::LAYOUT, V::LAYOUT), types }
    }

    fn queue<'p, T: Persist<'p>>() -> Self {
        const {
            assert!(!T::OWNS, "tables know nothing of collections in their items, and could not destroy them")
        };
        let mut types = Types::default();
        let (key, value) = (<() as Key>::describe(&mut types), T::describe(&mut types));
        let layouts = (<() as Key>::LAYOUT, T::LAYOUT);
        Self { kind: TableKind::Queue, key, value, layouts, types }
    }

    /// Fails unless it is what was found.
    fn check(&self, name: &str, found: &Described<'_>) -> Result<()> {
        let mut said = self.differences(&found.held);
        if let Some(Moving { to, moved, .. }) = &found.moving {
            let (to, what) = match self.kind {
                TableKind::Queue => (to.value.clone(), "items"),
                TableKind::Table | TableKind::Multimap => (format!("{} by {}", to.value, to.key), "keys"),
            };
            said += &format!(
                "\n  a migration to {to} is under way, {moved} {what} so far: open it with these types to go on"
            );
        }
        if said.is_empty() { Ok(()) } else { Err(self.refuse(name, said)) }
    }

    fn refuse(&self, name: &str, differences: String) -> Error {
        Error::TableTypes { table: name.to_owned(), differences }
    }

    /// What differs between what is there and this; nothing if it is the same.
    fn differences(&self, found: &Held<'_>) -> String {
        let mut said = String::new();
        let mut differ = |what: &str, found: &str, wanted: &str| {
            if found != wanted {
                said += &format!("\n  {what}: {found} is expected to be {wanted}");
            }
        };
        differ("kind", &found.structure.kind().to_string(), &self.kind.to_string());
        differ("key", &found.key, &self.key);
        differ("value", &found.value, &self.value);
        if !said.is_empty() || found.layouts != self.layouts {
            said += &differences(&found.types, &self.types);
        }
        if said.is_empty() && found.layouts != self.layouts {
            said += "\n  the variants of a type are in another order, or it is of another kind";
        }
        said
    }

    fn hold(self, structure: Structure<'_>) -> Held<'_> {
        let Self { key, value, layouts, types, .. } = self;
        Held { structure, key, value, layouts, types }
    }
}

/// An open table: where it is, and its number.
pub(crate) type Place = (PersistentAddress, u64);

impl<'p> Tables<'p> {
    /// A catalogue without tables.
    ///
    /// # Errors
    /// The pool is full; a conflict.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Ok(Self { named: OrderedMap::new(tx)?, last: Ptr::new(tx, &0)? })
    }

    fn find(self, tx: &View<'p, impl Control>, name: &str, wanted: &Wanted) -> Result<Option<Place>> {
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

    /// Finds a table, or makes it.
    fn open<C: Control>(
        self,
        tx: &Tx<'p, C>,
        name: &str,
        wanted: Wanted,
        make: impl FnOnce(&Tx<'p, C>) -> Result<Structure<'p>>,
    ) -> Result<Place> {
        if let Some(place) = self.find(tx, name, &wanted)? {
            return Ok(place);
        }
        let structure = make(tx)?;
        let place = self.add(tx, name, wanted.hold(structure))?;
        Ok((structure.places().0, place))
    }

    /// Puts a new structure into the catalogue; its number.
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
        self.open(tx, name, Wanted::table::<K, V>(), Structure::table::<K, V>)
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
        self.open(tx, name, Wanted::multimap::<K, V>(), Structure::multimap::<K, V>)
    }

    pub(crate) fn find_multimap<K: Key, V: Key>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Place>> {
        self.find(tx, name, &Wanted::multimap::<K, V>())
    }

    pub(crate) fn open_queue<T: Persist<'p>>(self, tx: &Tx<'p, impl Control>, name: &str) -> Result<Place> {
        self.open(tx, name, Wanted::queue::<T>(), Structure::queue::<T>)
    }

    pub(crate) fn find_queue_place<T: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Place>> {
        self.find(tx, name, &Wanted::queue::<T>())
    }

    /// The table `name`, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::TableTypes`]: it is of other types; the pool is full; a conflict.
    pub fn table<K: Key, V: Persist<'p>>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
    ) -> Result<OrderedMap<'p, K, V>> {
        self.open_table::<K, V>(tx, name).map(|(at, _)| OrderedMap::of(at))
    }

    /// The table `name`, if it is there.
    ///
    /// # Errors
    /// As [`Tables::table`].
    pub fn find_table<K: Key, V: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<OrderedMap<'p, K, V>>> {
        Ok(self.find_place::<K, V>(tx, name)?.map(|(at, _)| OrderedMap::of(at)))
    }

    /// The multimap `name`, which is made if it is not there: a map of keys with their values.
    ///
    /// # Errors
    /// As [`Tables::table`].
    pub fn multimap<K: Key, V: Key>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
    ) -> Result<OrderedMap<'p, (K, V), ()>> {
        self.open_multimap::<K, V>(tx, name).map(|(at, _)| OrderedMap::of(at))
    }

    /// The queue `name`, which is made if it is not there.
    ///
    /// # Errors
    /// As [`Tables::table`].
    pub fn queue<T: Persist<'p>>(self, tx: &Tx<'p, impl Control>, name: &str) -> Result<Queue<'p, T>> {
        self.open_queue::<T>(tx, name).map(|(at, _)| Queue::of(at))
    }

    /// The queue `name`, if it is there.
    ///
    /// # Errors
    /// As [`Tables::table`].
    pub fn find_queue<T: Persist<'p>>(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<Option<Queue<'p, T>>> {
        Ok(self.find_queue_place::<T>(tx, name)?.map(|(at, _)| Queue::of(at)))
    }

    /// All tables, by name.
    ///
    /// # Errors
    /// A conflict; the catalogue is damaged.
    pub fn list(self, tx: &View<'p, impl Control>) -> Result<Vec<TableDescription>> {
        let described = |pair: Result<(String, Described<'p>)>| {
            let (name, Described { held, .. }) = pair?;
            let Held { structure, key, value, types, layouts } = held;
            Ok(TableDescription { name, kind: structure.kind(), key, value, types, layouts })
        };
        self.named.iter(tx).map(described).collect()
    }

    /// Deletes the table `name` with all that is in it; whether it was there. It is not there any more for who has it open.
    ///
    /// # Errors
    /// As [`Tables::table`].
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

    /// Gives the table `name` another name. Who has it open goes on with it.
    ///
    /// # Errors
    /// [`Error::NoTable`]: there is none; [`Error::Parameter`]: there is one of the new name; a conflict.
    pub fn rename(self, tx: &Tx<'p, impl Control>, name: &str, to: &str) -> Result<()> {
        if name == to && self.named.contains_key(tx, name)? {
            return Ok(());
        }
        if self.named.contains_key(tx, to)? {
            return Err(Error::Parameter(format!("there is a table `{to}` already")));
        }
        let found = self.named.take(tx, name)?.ok_or_else(|| Error::NoTable(name.to_owned()))?;
        self.named.insert(tx, &to.to_owned(), &found).map(drop)
    }

    /// Gives the catalogue's memory back, with all tables.
    ///
    /// # Errors
    /// As [`Tables::table`].
    pub fn destroy(self, tx: &Tx<'p, impl Control>) -> Result<()> {
        for table in self.list(tx)? {
            self.delete(tx, &table.name)?;
        }
        self.named.destroy(tx)?;
        self.last.free(tx).map(drop)
    }
}

/// What moves some of a table's keys with their values, or of a queue's items, in one transaction: from `from` (whether its values are words is said) to `to`. It
/// returns how many, which are none when none are left.
pub(crate) trait MoveSome {
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        from: (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<u64>;
}

/// A table before or in the midst of a migration.
pub(crate) struct Movable {
    /// The types of its values.
    pub value: String,
    pub types: Types,
    pub layouts: (u64, u64),
    /// Those that it is being moved to, if it is, and whether by a function.
    pub moving_to: Option<((u64, u64), bool)>,
    /// Why it cannot be opened as it is.
    pub refused: Error,
}

/// Migration of a table: its keys are moved to another one, some in each transaction, so that neither a transaction nor the pool becomes
/// larger with the table. Each key is at any time in one of the two.
impl<'p> Tables<'p> {
    /// The table `name`, which is not of the types that are wanted, if it is of their kind.
    pub(crate) fn movable(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
        wanted: &Wanted,
    ) -> Result<Option<Movable>> {
        let Some(found) = self.named.get(tx, name)? else { return Ok(None) };
        let Err(refused) = wanted.check(name, &found) else { return Ok(None) };
        let Described { held, moving, .. } = found;
        if held.structure.kind() != wanted.kind {
            return Err(refused);
        }
        let Held { value, layouts, types, .. } = held;
        let moving_to = moving.map(|moving| (moving.to.layouts, moving.by_function));
        Ok(Some(Movable { value, types, layouts, moving_to, refused }))
    }

    /// One transaction of a migration: begins it, moves some keys, or ends it. How many were moved in all; whether it is done.
    pub(crate) fn migrate_some<F: Form>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
        by_function: bool,
        step: &mut impl MoveSome,
    ) -> Result<(u64, bool)> {
        let found = self.named.get(tx, name)?.ok_or_else(|| Error::NoTable(name.to_owned()))?;
        let wanted = F::wanted();
        if wanted.check(name, &found).is_ok() {
            return Ok((0, true));
        }
        found.check(tx, name)?;
        let Described { held, number, moving } = found;
        let (to, before) = match moving {
            Some(moving) if moving.to.layouts != wanted.layouts || moving.by_function != by_function => {
                return Err(wanted.refuse(name, wanted.differences(&moving.to)));
            }
            Some(moving) => (moving.to, moving.moved),
            None => {
                // Whoever has it open finds it gone.
                Self::number(&held.structure, tx, 0)?;
                (wanted.hold(F::make(tx)?), 0)
            }
        };
        let from = (held.structure.places().0, matches!(held.structure, Structure::WordTable(_)));
        let moved = step.move_some(tx, from, to.structure.places().0)?;
        let described = if moved == 0 {
            // What it was moved from, which is empty, goes with the entry that is replaced.
            let number = self.next_number(tx)?;
            Self::number(&to.structure, tx, number)?;
            Described { held: to, number, moving: None }
        } else {
            Described { held, number, moving: Some(Moving { to, moved: before + moved, by_function }) }
        };
        self.named.insert(tx, &name.to_owned(), &described)?;
        Ok((before + moved, moved == 0))
    }
}

/// The rows of a table whose types the program does not know.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'p> {
    Map(OrderedMap<'p, RawKey<false>, Raw<false>>),
    Words(OrderedMap<'p, RawKey<true>, Raw<true>>),
    Queue(Queue<'p, Raw<false>>),
}

/// Tags of the collections that hold keys and values of these layouts.
fn tags(kind: TableKind, (key, value): (u64, u64)) -> (u64, u64) {
    use strandline_core::structures::type_layout::{begin, field, tag};
    let map = |key, value| tag(field(field(begin("OrderedMap", 1), "", key), "", value));
    match kind {
        TableKind::Table => (map(key, value), 0),
        TableKind::Multimap => {
            let pair = field(field(begin("tuple", 0), "", key), "", value);
            (map(pair, <() as Persist<'_>>::LAYOUT), 0)
        }
        TableKind::Queue => {
            (tag(field(begin("Queue", 1), "", value)), tag(field(begin("Queue node", 1), "", value)))
        }
    }
}

impl<'p> Rows<'p> {
    fn of(structure: &Structure<'p>) -> Self {
        match structure {
            Structure::Table(map) | Structure::Multimap(map) => Self::Map(OrderedMap::of(map.address())),
            Structure::WordTable(map) => Self::Words(OrderedMap::of(map.address())),
            Structure::Queue(queue) => Self::Queue(Queue::of(queue.address())),
        }
    }

    /// Shows the bytes of each key, none for an item of a queue, and the words of its value.
    pub fn for_each(
        self,
        tx: &View<'p, impl Control>,
        mut row: impl FnMut(&[u8], &[u64], u64) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Map(map) => map.iter(tx).try_for_each(|pair| {
                let (key, Raw { words, bytes }) = pair?;
                row(&key.0, &words, bytes)
            }),
            Self::Words(map) => map.iter(tx).try_for_each(|pair| {
                let (key, Raw { words, bytes }) = pair?;
                row(&key.0, &words, bytes)
            }),
            Self::Queue(queue) => queue.iter(tx)?.try_for_each(|item| {
                let Raw { words, bytes } = item?;
                row(&[], &words, bytes)
            }),
        }
    }

    /// Stores a row: what takes the place of one with the same key, or is behind all others in a queue.
    pub fn store(
        self,
        tx: &Tx<'p, impl Control>,
        about: &TableDescription,
        key: &KeyBytes,
        (words, bytes): (&[u64], u64),
    ) -> Result<()> {
        let copy = |into: &mut [u64]| into.copy_from_slice(words);
        match self {
            Self::Map(map) => map.insert_encoded(tx, key, bytes, copy).map(drop),
            Self::Words(map) => map.insert_encoded(tx, key, bytes, copy).map(drop),
            Self::Queue(queue) => queue.push_encoded(tx, tags(about.kind, about.layouts).1, bytes, copy),
        }
    }
}

impl<'p> Tables<'p> {
    /// The table `name` as it is described, and its rows.
    pub(crate) fn rows(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
    ) -> Result<(TableDescription, Rows<'p>)> {
        let found = self.named.get(tx, name)?.ok_or_else(|| Error::NoTable(name.to_owned()))?;
        if found.moving.is_some() {
            let said = "\n  a migration of it is under way: its program has to end it first".to_owned();
            return Err(Error::TableTypes { table: name.to_owned(), differences: said });
        }
        found.check(tx, name)?;
        let Held { structure, key, value, types, layouts } = found.held;
        let rows = Rows::of(&structure);
        Ok((
            TableDescription { name: name.to_owned(), kind: structure.kind(), key, value, types, layouts },
            rows,
        ))
    }

    /// The rows of a table that is as described; it is made if it is not there. `are_words`: its keys and values are words.
    pub(crate) fn open_described(
        self,
        tx: &Tx<'p, impl Control>,
        about: &TableDescription,
        are_words: bool,
    ) -> Result<Rows<'p>> {
        let TableDescription { name, kind, key, value, types, layouts } = about.clone();
        let wanted = Wanted { kind, key, value, layouts, types };
        if self.find(tx, &name, &wanted)?.is_some() {
            return Ok(self.rows(tx, &name)?.1);
        }
        let (tag, _) = tags(kind, layouts);
        let structure = match kind {
            TableKind::Table if are_words => Structure::WordTable(OrderedMap::with_tag(tx, tag)?),
            TableKind::Table => Structure::Table(OrderedMap::with_tag(tx, tag)?),
            TableKind::Multimap => Structure::Multimap(OrderedMap::with_tag(tx, tag)?),
            TableKind::Queue => Structure::Queue(Queue::with_tag(tx, tag)?),
        };
        self.add(tx, &name, wanted.hold(structure))?;
        Ok(Rows::of(&structure))
    }
}
