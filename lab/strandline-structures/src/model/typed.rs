//! Typed collections with their reference models, and pools' roots that hold them.
//!
//! The collections of a root are its *parts*: an operation on one is [`Operation::Of`] its number.

use std::collections::{BTreeMap, VecDeque};

use strandline::{
    Bytes, Control, Error, HashMap, OrderedMap, Persist, Ptr, Queue, Result, Store, Text, Tx, Vector,
};

use super::{Choices, Contents, Operation, Outcome, encoding};

/// The operations of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The operations of a map.
    Map,
    /// The operations of a map with only the key 0.
    Cell,
    /// The operations of a value that is always present.
    Value,
    Queue,
    Vector,
}

impl Kind {
    fn draw(self, choices: &mut dyn Choices) -> Operation {
        match (self, choices.below(8)) {
            (Self::Map, 0) => Operation::Get(choices.key()),
            (Self::Cell | Self::Value | Self::Queue, 0) => Operation::Get(0),
            (Self::Vector, 0) => Operation::Get(choices.key()),
            (_, 1) => self.change(choices),
            (Self::Value, _) => Operation::Insert(0, choices.value()),
            (Self::Cell, _) if choices.grows() => Operation::Insert(0, choices.value()),
            (Self::Cell, _) => Operation::Remove(0),
            (Self::Map, _) if choices.grows() => Operation::Insert(choices.key(), choices.value()),
            (Self::Map, _) => Operation::Remove(choices.key()),
            (Self::Vector, 2) => Operation::Insert(choices.key(), choices.value()),
            (Self::Queue | Self::Vector, _) if choices.grows() => Operation::Push(choices.value()),
            (Self::Queue, _) => Operation::PopFirst,
            (Self::Vector, _) => Operation::PopLast,
        }
    }

    /// Returns an operation that writes, whatever is there, and that keeps a sequence at a few items.
    fn change(self, choices: &mut dyn Choices) -> Operation {
        match self {
            Self::Map | Self::Vector => Operation::Toggle(choices.key(), choices.value()),
            Self::Cell if choices.below(2) == 0 => Operation::Toggle(0, choices.value()),
            Self::Cell | Self::Value => Operation::Insert(0, choices.value()),
            Self::Queue => Operation::Rotate(choices.value()),
        }
    }

    fn empty(self) -> Contents {
        match self {
            Self::Map | Self::Cell => Contents::default(),
            Self::Value => Contents::Map(BTreeMap::from([(0, 0)])),
            Self::Queue | Self::Vector => Contents::empty_sequence(),
        }
    }
}

fn draw(
    kinds: &[Kind],
    choices: &mut dyn Choices,
    draw: impl Fn(Kind, &mut dyn Choices) -> Operation,
) -> Operation {
    let part = choices.below(kinds.len() as u64) as usize;
    Operation::Of(part, Box::new(draw(kinds[part], choices)))
}

fn empty(kinds: &[Kind]) -> Contents {
    Contents::Several(kinds.iter().map(|kind| kind.empty()).collect())
}

/// Returns the part to which `operation` applies, and the operation on the part.
fn of_part(operation: &Operation) -> Result<(usize, &Operation)> {
    match operation {
        Operation::Of(part, operation) => Ok((*part, operation)),
        _ => Err(unsupported(operation)),
    }
}

fn unsupported(operation: &Operation) -> Error {
    Error::Parameter(format!("a typed collection has no operation {operation:?}"))
}

fn mangled(what: impl std::fmt::Debug) -> Error {
    Error::damaged(format!("{what:?} stands for no number"))
}

/// A key or a value derived from a number.
trait Made: Sized {
    fn of(number: u64) -> Self;
    /// Returns the number; `None` if it is not derived from one.
    fn number(&self) -> Option<u64>;
}

impl Made for u64 {
    fn of(number: u64) -> Self {
        number
    }
    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Made for (u64, bool) {
    fn of(number: u64) -> Self {
        (number, number.is_multiple_of(3))
    }
    fn number(&self) -> Option<u64> {
        (*self == Self::of(self.0)).then_some(self.0)
    }
}

impl Made for (u64, u64) {
    fn of(number: u64) -> Self {
        (number, !number)
    }
    fn number(&self) -> Option<u64> {
        (*self == Self::of(self.0)).then_some(self.0)
    }
}

/// Returns the name for a number. All names share a prefix that is longer than the part of a key which ordered maps keep in a word.
pub fn name(number: u64) -> String {
    format!("a long common prefix {number:03}")
}

impl Made for String {
    fn of(number: u64) -> Self {
        name(number)
    }
    fn number(&self) -> Option<u64> {
        let number = self.rsplit(' ').next()?.parse().ok()?;
        (*self == Self::of(number)).then_some(number)
    }
}

impl Made for Vec<u8> {
    fn of(number: u64) -> Self {
        encoding::bytes(number)
    }
    fn number(&self) -> Option<u64> {
        encoding::of_bytes(self)
    }
}

fn number(made: impl Made + std::fmt::Debug) -> Result<u64> {
    made.number().ok_or_else(|| mangled(&made))
}

/// A collection with its reference model.
trait Part<'p> {
    fn apply(self, tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome>;
    /// Checks the collection, and returns its contents.
    fn contents(self, tx: &Tx<'p, impl Control>) -> Result<Contents>;
}

fn sound(found: Vec<String>) -> Result<()> {
    match found.into_iter().next() {
        Some(damage) => Err(Error::damaged(damage)),
        None => Ok(()),
    }
}

/// Applies the operations of a map to a type with `get`, `insert` and `remove`.
macro_rules! map_operations {
    ($operation:expr, |$key:ident, $value:ident| $get:expr, $insert:expr, $remove:expr) => {{
        let operation: &Operation = $operation;
        let (Operation::Get($key)
        | Operation::Insert($key, _)
        | Operation::Remove($key)
        | Operation::Toggle($key, _)) = *operation
        else {
            return Err(unsupported(operation));
        };
        let $value = match *operation {
            Operation::Insert(_, value) | Operation::Toggle(_, value) => value,
            _ => 0,
        };
        let found = match operation {
            Operation::Get(_) => $get,
            Operation::Insert(..) => $insert,
            Operation::Remove(_) => $remove,
            _ => match $remove {
                Some(old) => Some(old),
                None => $insert,
            },
        };
        found.map(number).transpose()
    }};
}

macro_rules! map_part {
    ($type:ty, $key:ty, $value:ty) => {
        impl<'p> Part<'p> for $type {
            fn apply(self, tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome> {
                map_operations!(
                    operation,
                    |key, value| self.get(tx, &<$key>::of(key))?,
                    self.insert(tx, &<$key>::of(key), &<$value>::of(value))?,
                    self.remove(tx, &<$key>::of(key))?
                )
            }
            fn contents(self, tx: &Tx<'p, impl Control>) -> Result<Contents> {
                sound(self.check(tx)?)?;
                let mut pairs = BTreeMap::new();
                for pair in self.iter(tx) {
                    let (key, value) = pair?;
                    if pairs.insert(number(key)?, number(value)?).is_some() {
                        return Err(Error::damaged("a map has a key twice"));
                    }
                }
                match self.len(tx)? == pairs.len() as u64 {
                    true => Ok(Contents::Map(pairs)),
                    false => Err(Error::damaged("a map counts more or fewer keys than it shows")),
                }
            }
        }
    };
}

map_part!(HashMap<'p, String, u64>, String, u64);
map_part!(OrderedMap<'p, String, Vec<u8>>, String, Vec<u8>);
map_part!(OrderedMap<'p, u64, u64>, u64, u64);

/// Returns a text that begins with the number.
fn text_of(number: u64, key: u64) -> String {
    format!("{number} at {key}")
}

fn number_of_text(text: &str, key: u64) -> Result<u64> {
    let number = text.split(' ').next().and_then(|digits| digits.parse().ok());
    number.filter(|number| text == text_of(*number, key)).ok_or_else(|| mangled(text))
}

/// The texts are destroyed together with their keys.
impl<'p> Part<'p> for OrderedMap<'p, u64, Text<'p>> {
    fn apply(self, tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome> {
        let destroyed = |text: Option<Text<'p>>, key: u64| {
            let Some(text) = text else { return Ok(None) };
            let old = number_of_text(&text.get(tx)?, key)?;
            text.destroy(tx)?;
            Ok::<_, Error>(Some(old))
        };
        map_operations!(
            operation,
            |key, value| self.get(tx, &key)?.map(|text| number_of_text(&text.get(tx)?, key)).transpose()?,
            destroyed(self.insert(tx, &key, &Text::new(tx, text_of(value, key))?)?, key)?,
            destroyed(self.remove(tx, &key)?, key)?
        )
    }
    fn contents(self, tx: &Tx<'p, impl Control>) -> Result<Contents> {
        sound(self.check(tx)?)?;
        let mut pairs = BTreeMap::new();
        for pair in self.iter(tx) {
            let (key, text) = pair?;
            pairs.insert(key, number_of_text(&text.get(tx)?, key)?);
        }
        Ok(Contents::Map(pairs))
    }
}

impl<'p> Part<'p> for Queue<'p, String> {
    fn apply(self, tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome> {
        let found = match *operation {
            Operation::Get(0) => self.front(tx)?,
            Operation::Push(value) => {
                self.push(tx, &String::of(value))?;
                None
            }
            Operation::Rotate(value) => {
                let is_long = self.iter(tx)?.nth(1).transpose()?.is_some();
                let first = if is_long { self.pop(tx)? } else { None };
                self.push(tx, &String::of(value))?;
                first
            }
            Operation::PopFirst => self.pop(tx)?,
            _ => return Err(unsupported(operation)),
        };
        found.map(number).transpose()
    }
    fn contents(self, tx: &Tx<'p, impl Control>) -> Result<Contents> {
        sound(self.check(tx)?)?;
        let items = self.iter(tx)?.map(|item| number(item?)).collect::<Result<VecDeque<u64>>>()?;
        match (self.is_empty(tx)?, self.len(tx)?) == (items.is_empty(), items.len() as u64) {
            true => Ok(Contents::Sequence { items, capacity: u64::MAX }),
            false => Err(Error::damaged("a queue counts more or fewer items than it shows")),
        }
    }
}

impl<'p> Part<'p> for Vector<'p, (u64, bool)> {
    fn apply(self, tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome> {
        let found = match *operation {
            Operation::Get(index) => self.get(tx, index)?,
            Operation::Insert(index, value) if index < self.len(tx)? => {
                Some(self.set(tx, index, &Made::of(value))?)
            }
            Operation::Insert(..) => None,
            Operation::Toggle(index, value) => {
                let length = self.len(tx)?;
                if index + 1 == length {
                    self.pop(tx)?
                } else if index < length {
                    Some(self.set(tx, index, &Made::of(value))?)
                } else {
                    self.push(tx, &Made::of(value))?;
                    None
                }
            }
            Operation::Push(value) => {
                self.push(tx, &Made::of(value))?;
                None
            }
            Operation::PopLast => self.pop(tx)?,
            _ => return Err(unsupported(operation)),
        };
        found.map(number).transpose()
    }
    fn contents(self, tx: &Tx<'p, impl Control>) -> Result<Contents> {
        sound(self.check(tx)?)?;
        let items = self.iter(tx)?.map(|item| number(item?)).collect::<Result<VecDeque<u64>>>()?;
        match self.len(tx)? == items.len() as u64 {
            true => Ok(Contents::Sequence { items, capacity: u64::MAX }),
            false => Err(Error::damaged("a vector counts more or fewer items than it shows")),
        }
    }
}

macro_rules! value_part {
    ($type:ty, |$tx:ident, $self:ident| $get:expr, |$value:ident| $set:expr) => {
        impl<'p> Part<'p> for $type {
            fn apply($self, $tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome> {
                let old = $get;
                match *operation {
                    Operation::Get(0) => {}
                    Operation::Insert(0, $value) => $set,
                    _ => return Err(unsupported(operation)),
                }
                Ok(Some(old))
            }
            fn contents($self, $tx: &Tx<'p, impl Control>) -> Result<Contents> {
                sound($self.check($tx)?)?;
                Ok(Contents::Map(BTreeMap::from([(0, $get)])))
            }
        }
    };
}

value_part!(Bytes<'p>, |tx, self| number(self.get(tx)?)?, |value| self.set(tx, Vec::of(value))?);
value_part!(Text<'p>, |tx, self| number_of_text(&self.get(tx)?, 0)?, |value| self
    .set(tx, text_of(value, 0))?);

/// A root of the collections on which all others are built, in a small pool.
#[derive(Clone, Copy, Persist)]
pub struct Everything<'p> {
    hashed: HashMap<'p, String, u64>,
    texts: OrderedMap<'p, u64, Text<'p>>,
    queue: Queue<'p, String>,
    vector: Vector<'p, (u64, bool)>,
    pointed: Option<Ptr<'p, (u64, u64)>>,
}

impl<'p> Everything<'p> {
    const KINDS: [Kind; 5] = [Kind::Map, Kind::Map, Kind::Queue, Kind::Vector, Kind::Cell];

    /// Creates empty collections.
    ///
    /// # Errors
    /// Returns an error if the pool is full or after a conflict, or if the log is full.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        Ok(Self {
            hashed: HashMap::with_capacity(tx, 4)?,
            texts: OrderedMap::new(tx)?,
            queue: Queue::new(tx)?,
            vector: Vector::new(tx)?,
            pointed: None,
        })
    }

    /// Returns their initial contents.
    pub fn empty() -> Contents {
        empty(&Self::KINDS)
    }

    /// Returns an operation that writes, whatever they hold.
    pub fn change(choices: &mut dyn Choices) -> Operation {
        draw(&Self::KINDS, choices, Kind::change)
    }

    /// Applies `operation`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if a collection is damaged, or has no such operation.
    pub fn apply(tx: &Tx<'p, impl Control>, root: Ptr<'p, Self>, operation: &Operation) -> Result<Outcome> {
        let all = root.get(tx)?;
        let (part, operation) = of_part(operation)?;
        match part {
            0 => all.hashed.apply(tx, operation),
            1 => all.texts.apply(tx, operation),
            2 => all.queue.apply(tx, operation),
            3 => all.vector.apply(tx, operation),
            _ => all.apply_to_pointed(tx, root, operation),
        }
    }

    fn apply_to_pointed(
        self,
        tx: &Tx<'p, impl Control>,
        root: Ptr<'p, Self>,
        operation: &Operation,
    ) -> Result<Outcome> {
        let free = |pointer: Ptr<'p, (u64, u64)>| {
            root.update(tx, |all| all.pointed = None)?;
            pointer.free(tx).map(Some)
        };
        let found = match (operation, self.pointed) {
            (&Operation::Insert(0, value), Some(pointer)) => {
                Some(pointer.update(tx, |pair| std::mem::replace(pair, Made::of(value)))?)
            }
            (&(Operation::Insert(0, value) | Operation::Toggle(0, value)), None) => {
                let pointer = Ptr::new(tx, &Made::of(value))?;
                root.update(tx, |all| all.pointed = Some(pointer))?;
                None
            }
            (Operation::Toggle(0, _) | Operation::Remove(0), Some(pointer)) => free(pointer)?,
            (Operation::Get(0), Some(pointer)) => Some(pointer.get(tx)?),
            (Operation::Get(0) | Operation::Remove(0), None) => None,
            _ => return Err(unsupported(operation)),
        };
        found.map(number).transpose()
    }

    /// Checks all collections, and returns their contents.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`], and an error after a conflict.
    pub fn contents(tx: &Tx<'p, impl Control>, root: Ptr<'p, Self>) -> Result<Contents> {
        let all = root.get(tx)?;
        let pointed = all.pointed.map(|pointer| number(pointer.get(tx)?)).transpose()?;
        Ok(Contents::Several(vec![
            all.hashed.contents(tx)?,
            all.texts.contents(tx)?,
            all.queue.contents(tx)?,
            all.vector.contents(tx)?,
            Contents::Map(pointed.map(|value| (0, value)).into_iter().collect()),
        ]))
    }
}

/// A root with every collection and every kind of pointer to them, for pools that are damaged.
#[derive(Clone, Copy, Persist)]
pub struct All<'p> {
    /// Names and numbers.
    pub hashed: HashMap<'p, String, u64>,
    /// Names with a common prefix, and bytes of many lengths.
    pub ordered: OrderedMap<'p, String, Vec<u8>>,
    /// Numbers, several of which share a word of a node.
    pub numbers: OrderedMap<'p, u64, u64>,
    /// Items of two words.
    pub vector: Vector<'p, (u64, bool)>,
    /// Items of several lengths.
    pub queue: Queue<'p, String>,
    /// A text.
    pub text: Text<'p>,
    /// Bytes.
    pub bytes: Bytes<'p>,
    /// Items of no words.
    pub units: Vector<'p, ()>,
    /// A value behind a pointer.
    pub pointer: Ptr<'p, Option<char>>,
    /// One of two persons who point to each other.
    pub graph: Ptr<'p, Person<'p>>,
    /// Collections in a collection.
    pub nested: HashMap<'p, u64, Shelf<'p>>,
    /// Keys of two fields, and pointers to the same value.
    pub by_name: OrderedMap<'p, (String, u8), Ptr<'p, Person<'p>>>,
    /// A value with two pointers to it, in an array in a tuple.
    pub pair: (Option<Text<'p>>, [Option<Ptr<'p, u64>>; 2]),
}

/// A person with a friend.
#[derive(Clone, Copy, Persist)]
pub struct Person<'p> {
    /// The friend, who may point back.
    pub friend: Option<Ptr<'p, Person<'p>>>,
    /// The name, which other persons may share.
    pub name: Text<'p>,
}

/// A place with collections of its own.
#[derive(Clone, Copy, Persist)]
pub enum Shelf<'p> {
    /// No collection.
    Empty,
    /// A collection of texts.
    Books(Vector<'p, Text<'p>>),
    /// A queue of collections.
    Waiting {
        /// The collections.
        queue: Queue<'p, Vector<'p, u64>>,
        /// The year since which they wait.
        since: u32,
    },
}

impl<'p> All<'p> {
    const KINDS: [Kind; 7] =
        [Kind::Map, Kind::Map, Kind::Map, Kind::Vector, Kind::Queue, Kind::Value, Kind::Value];

    /// Creates empty collections, a text and bytes of value 0, and the targets of the pointers.
    ///
    /// # Errors
    /// Returns an error if the pool is full or after a conflict, or if the log is full.
    pub fn new(tx: &Tx<'p, impl Control>) -> Result<Self> {
        // Two persons who point to each other, and to the same name.
        let name = Text::new(tx, "ann")?;
        let graph = Ptr::new(tx, &Person { friend: None, name })?;
        let friend = Ptr::new(tx, &Person { friend: Some(graph), name })?;
        graph.set(tx, &Person { friend: Some(friend), name })?;
        let shared = Ptr::new(tx, &5u64)?;
        Ok(All {
            hashed: HashMap::new(tx)?,
            ordered: OrderedMap::new(tx)?,
            numbers: OrderedMap::new(tx)?,
            vector: Vector::new(tx)?,
            queue: Queue::new(tx)?,
            text: Text::new(tx, text_of(0, 0))?,
            bytes: Bytes::new(tx, "")?,
            units: Vector::new(tx)?,
            pointer: Ptr::new(tx, &Some('x'))?,
            graph,
            nested: HashMap::new(tx)?,
            by_name: OrderedMap::new(tx)?,
            pair: (Some(Text::new(tx, "")?), [Some(shared), Some(shared)]),
        })
    }

    /// Fills all collections with about `count` items each, of many lengths. The keys are those for the numbers below `count`; in `numbers` the
    /// values are their squares.
    ///
    /// # Errors
    /// Returns an error if the pool is full.
    pub fn fill(store: &Store<All<'static>>, count: u64) -> Result<()> {
        for i in 0..count {
            store.write(|tx, root| {
                let all = root.get(tx)?;
                all.hashed.insert(tx, &String::of(i), &i)?;
                all.ordered.insert(tx, &String::of(i), &vec![i as u8; i as usize])?;
                all.numbers.insert(tx, &(i * i), &i)?;
                all.vector.push(tx, &Made::of(i))?;
                all.queue.push(tx, &String::of(i))?;
                all.units.push(tx, &())?;
                all.by_name.insert(tx, &(format!("a name that is long {}", i / 2), i as u8), &all.graph)?;
                let shelf = match i % 3 {
                    0 => Shelf::Empty,
                    1 => Shelf::Books(Vector::new(tx)?),
                    _ => Shelf::Waiting { queue: Queue::new(tx)?, since: 1 },
                };
                match &shelf {
                    Shelf::Books(books) => books.push(tx, &Text::new(tx, "a book")?)?,
                    Shelf::Waiting { queue, .. } => queue.push(tx, &Vector::new(tx)?)?,
                    Shelf::Empty => {}
                }
                all.nested.insert(tx, &i, &shelf).map(drop)
            })?;
        }
        store.write(|tx, root| {
            let all = root.get(tx)?;
            all.text.set(tx, "the strandline")?;
            all.bytes.set(tx, vec![7; 2000])
        })
    }

    /// Returns the initial contents of the parts of [`All::new`].
    pub fn empty() -> Contents {
        empty(&Self::KINDS)
    }

    /// Returns an operation on one of the parts: the maps without collections in them, vector, queue, text and bytes.
    pub fn draw(choices: &mut dyn Choices) -> Operation {
        draw(&Self::KINDS, choices, Kind::draw)
    }

    /// Applies `operation` to a part.
    ///
    /// # Errors
    /// Returns an error after a conflict or if the part is damaged, or has no such operation.
    pub fn apply(self, tx: &Tx<'p, impl Control>, operation: &Operation) -> Result<Outcome> {
        let (part, operation) = of_part(operation)?;
        match part {
            0 => self.hashed.apply(tx, operation),
            1 => self.ordered.apply(tx, operation),
            2 => self.numbers.apply(tx, operation),
            3 => self.vector.apply(tx, operation),
            4 => self.queue.apply(tx, operation),
            5 => self.text.apply(tx, operation),
            _ => self.bytes.apply(tx, operation),
        }
    }

    /// Checks the parts, and returns their contents.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`], and an error after a conflict.
    pub fn contents(self, tx: &Tx<'p, impl Control>) -> Result<Contents> {
        Ok(Contents::Several(vec![
            self.hashed.contents(tx)?,
            self.ordered.contents(tx)?,
            self.numbers.contents(tx)?,
            self.vector.contents(tx)?,
            self.queue.contents(tx)?,
            self.text.contents(tx)?,
            self.bytes.contents(tx)?,
        ]))
    }
}
