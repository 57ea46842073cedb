//! Checks everything that is reachable from a value for damage, by the value's type.
//!
//! A walk reaches blocks in two ways. Through a *pointer or handle*: several may refer to the same block, in circles
//! too, and the walk visits it once; but it must be of one type. And as a *part* of a collection (a node, an entry, a
//! segment): a part is reached once. Each block must begin where the heap has one, be allocated, and have
//! room for what is said to be in it. So the walk reads nothing outside, blocks bound lengths, and the walk
//! ends because there are only so many blocks; the [`Walk`] bounds those that overlap. Blocks that wait for their visit are kept in a
//! list, so that no chain of pointers is too long for the stack.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::transaction::{Control, View};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{Survey, Walk, type_layout as layout};
use strandline_core::transaction::{Abort, Read};

/// So many findings are listed; of the others only the number is told.
const LISTED: usize = 1000;

/// Checks the value at an address by its description, which it captures.
type LookDescribed<'v, 'p> = Box<dyn FnOnce(&mut Checker<'v, 'p>, PersistentAddress) -> Result<()> + 'v>;

/// What looks over what is at an address.
pub(crate) enum Look<'v, 'p> {
    /// By a type of the program's.
    Typed(fn(&mut Checker<'v, 'p>, PersistentAddress) -> Result<()>),
    /// By what the pool says of the type, which the room of described values knows.
    Described(LookDescribed<'v, 'p>),
}

/// What is given each element of a vector or item of a queue that is looked over: its place, its words, and its bytes.
pub(crate) type Element<'f, 'v, 'p> =
    &'f mut dyn FnMut(&mut Checker<'v, 'p>, PersistentAddress, &[u64], u64) -> Result<()>;

/// What is given each pair of a map that is looked over: its place, the key, the words of the value, and its bytes.
pub(crate) type Pair<'f, 'v, 'p> =
    &'f mut dyn FnMut(&mut Checker<'v, 'p>, PersistentAddress, &[u8], &[u64], u64) -> Result<()>;

/// The name of a type or of a part of a collection, as messages have it.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    Known(&'static str),
    Described(Arc<str>),
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self::Known(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Known(name) => name,
            Self::Described(name) => name,
        })
    }
}

/// The addresses that were reached, each with its tag if it was by a pointer, and the damage.
#[cfg(test)]
pub(crate) type AllReached = (std::collections::BTreeMap<u64, Option<u64>>, Vec<String>);

/// A walk over all that hangs from a value, which collects the damage that it finds.
///
/// Only [`Persist::visit`](crate::Persist::visit) meets one;
/// [`Store::check`](crate::Store::check) and the collections' `check` begin a walk.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// use strandline::{Checker, Persist, Ptr, Store};
///
/// #[derive(Persist)]
/// struct Person<'p> {
///     mother: Option<Ptr<'p, Person<'p>>>,
/// }
///
/// /// What the derive makes of it.
/// fn visit<'p>(person: &Person<'p>, checker: &mut Checker<'_, 'p>) -> strandline::Result<()> {
///     Persist::visit(&person.mother, checker)
/// }
///
/// let store = Store::<Person>::create_new(&path, &options, |tx| {
///     Ok(Person { mother: Some(Ptr::new(tx, &Person { mother: None })?) })
/// })?;
/// assert!(store.check()?.is_empty());
/// // The pointer is left where it was.
/// store.write(|tx, root| root.get(tx)?.mother.unwrap().free(tx).map(drop))?;
/// assert_eq!(store.check()?.len(), 1);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Checker<'v, 'p> {
    tx: &'v dyn Tolerate,
    brand: PhantomData<fn(&'p ()) -> &'p ()>,
    reached: HashMap<PersistentAddress, Reached>,
    waiting: Vec<(PersistentAddress, Look<'v, 'p>)>,
    /// Blocks of a damaged heap may overlap.
    walk: Walk,
    damage: Vec<String>,
    unlisted: u64,
    /// A type that only the program can read, if there is one: what hangs from its values is not looked at.
    unknown: Option<Arc<str>>,
    /// Hears how many blocks were reached, now and then.
    progress: &'v dyn Fn(u64),
}

/// Blocks between two calls of [`Checker::progress`].
const PROGRESS: usize = 1024;

/// Memory of a pool that is allocated and that nothing leads to: [`Store::lost_memory`](crate::Store::lost_memory).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostMemory {
    /// Blocks.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// The address of the first.
    pub first: Option<u64>,
}

/// [`Read::tolerate`] of a transaction of any control, on any memory: checking is compiled once for all.
trait Tolerate {
    fn tolerate(&self, body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>) -> Result<Option<Error>>;
}

impl<C: Control> Tolerate for View<'_, C> {
    fn tolerate(&self, body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>) -> Result<Option<Error>> {
        self.words(|tx| tx.tolerate(body))
    }
}

#[derive(Debug)]
struct Reached {
    what: Name,
    /// The tag, where more than one pointer may lead.
    tag: Option<u64>,
}

impl<'v, 'p> Checker<'v, 'p> {
    /// The damage of all that `begin` leads to.
    pub(crate) fn run<C: Control>(
        tx: &'v View<'p, C>,
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<String>> {
        Ok(Self::walk(tx, &|_| (), begin)?.damage)
    }

    /// Like `run`, but fails if there is no damage as far as can be seen and something that only the program can read.
    pub(crate) fn run_described<C: Control>(
        tx: &'v View<'p, C>,
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<String>> {
        let checker = Self::walk(tx, &|_| (), begin)?;
        match checker.unknown {
            Some(unknown) if checker.damage.is_empty() => Err(unreadable(&unknown)),
            _ => Ok(checker.damage),
        }
    }

    /// Returns what [`Checker::run_described`] and, unless there is damage, [`Checker::lost`] return, from one walk.
    pub(crate) fn run_all<C: Control>(
        tx: &'v View<'p, C>,
        progress: &'v dyn Fn(u64),
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<(Vec<String>, Option<LostMemory>)> {
        let checker = Self::walk(tx, progress, begin)?;
        if !checker.damage.is_empty() {
            return Ok((checker.damage, None));
        }
        Ok((Vec::new(), Some(checker.lost_memory(tx)?)))
    }

    /// Where it comes, and the damage.
    #[cfg(test)]
    pub(crate) fn reached<C: Control>(
        tx: &'v View<'p, C>,
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<AllReached> {
        let checker = Self::walk(tx, &|_| (), begin)?;
        assert!(checker.unknown.is_none(), "{:?}", checker.unknown);
        let reached = checker.reached.into_iter().map(|(at, reached)| (at.offset(), reached.tag));
        Ok((reached.collect(), checker.damage))
    }

    /// What is allocated, and nothing that `begin` leads to.
    pub(crate) fn lost<C: Control>(
        tx: &'v View<'p, C>,
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<LostMemory> {
        let mut checker = Self::walk(tx, &|_| (), begin)?;
        if !checker.damage.is_empty() {
            return Err(Error::damaged(checker.damage.swap_remove(0)));
        }
        checker.lost_memory(tx)
    }

    /// What is allocated and was not reached by a walk that found no damage.
    fn lost_memory<C: Control>(&self, tx: &View<'p, C>) -> Result<LostMemory> {
        if let Some(unknown) = &self.unknown {
            return Err(unreadable(unknown));
        }
        let mut lost = LostMemory::default();
        let mut from = PersistentAddress::NULL;
        while let Some((at, bytes)) = tx.words(|tx| tx.next_allocated(from))? {
            if !self.reached.contains_key(&at) {
                lost.first = lost.first.or(Some(at.offset()));
                lost.blocks += 1;
                lost.bytes += bytes;
            }
            from = at.word(1);
        }
        Ok(lost)
    }

    fn walk<C: Control>(
        tx: &'v View<'p, C>,
        progress: &'v dyn Fn(u64),
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let mut checker = Self {
            tx,
            brand: PhantomData,
            reached: HashMap::new(),
            waiting: Vec::new(),
            walk: Walk::default(),
            damage: Vec::new(),
            unlisted: 0,
            unknown: None,
            progress,
        };
        let hint = |begins| {
            tx.words(|tx| {
                Read::walk(tx, begins);
                Ok(())
            })
        };
        hint(true)?;
        let walked = begin(&mut checker).and_then(|()| checker.look_at_all());
        let ended = hint(false);
        walked.and(ended)?;
        if checker.unlisted > 0 {
            checker.damage.push(format!("{} further findings", checker.unlisted));
        }
        Ok(checker)
    }

    /// Looks at what was met, and at what is met there.
    fn look_at_all(&mut self) -> Result<()> {
        self.waiting.reverse();
        while let Some((at, look)) = self.waiting.pop() {
            let before = self.waiting.len();
            match look {
                Look::Typed(look) => look(self, at)?,
                Look::Described(look) => look(self, at)?,
            }
            // What was met first is looked at first.
            self.waiting[before..].reverse();
        }
        Ok(())
    }

    /// How much damage was noted so far.
    pub(crate) fn noted(&self) -> u64 {
        self.damage.len() as u64 + self.unlisted
    }

    /// Notes that a pointer or handle leads to a value of type `name`, with `tag` in the first of its `words` words;
    /// `look` looks it over, once.
    pub(crate) fn pointer(
        &mut self,
        at: PersistentAddress,
        tag: u64,
        words: u64,
        name: impl Into<Name>,
        look: Look<'v, 'p>,
    ) -> Result<()> {
        let name = name.into();
        if self.reached.get(&at).is_some_and(|known| known.tag == Some(tag)) {
            return Ok(());
        }
        if !self.reach(at, words, name.clone(), Some(tag))? {
            return Ok(());
        }
        match self.read(|tx| tx.read(at))? {
            Some(found) if layout::is_of(found, tag) => self.waiting.push((at, look)),
            Some(_) => self.damaged(dangling(at, &name)),
            None => {}
        }
        Ok(())
    }

    fn reach(&mut self, at: PersistentAddress, words: u64, what: Name, tag: Option<u64>) -> Result<bool> {
        let mut walk = std::mem::take(&mut self.walk);
        let found = self.read(|tx| {
            let room = tx.find_block(at)?;
            walk.visit(tx, &what, at, words.min(room.unwrap_or(0) / 8))?;
            Ok((room, tx.is_allocated(at)?))
        })?;
        self.walk = walk;
        let problem = match found {
            None => return Ok(false),
            Some((None, _)) => "where no block begins".to_owned(),
            Some((_, false)) => "where nothing is allocated".to_owned(),
            Some((Some(bytes), true)) if bytes / 8 < words => {
                format!("of {words} words, where there is room for {}", bytes / 8)
            }
            Some(_) => match self.reached.entry(at) {
                Entry::Vacant(entry) => {
                    entry.insert(Reached { what, tag });
                    if self.reached.len().is_multiple_of(PROGRESS) {
                        (self.progress)(self.reached.len() as u64);
                    }
                    return Ok(true);
                }
                Entry::Occupied(entry) => format!("where {} was found already", entry.get().what),
            },
        };
        self.damaged(format!("{what} is said to be at {:#x}, {problem}", at.offset()));
        Ok(false)
    }
}

/// What [`Error::Dangling`] says.
fn dangling(at: PersistentAddress, expected: &Name) -> String {
    match expected {
        Name::Known(expected) => Error::Dangling { at: at.offset(), expected }.to_string(),
        Name::Described(name) => {
            format!(
                "no value of type {name} is at {:#x}: it was freed, or another type's is there",
                at.offset()
            )
        }
    }
}

/// Why a walk by descriptions cannot be complete.
fn unreadable(type_name: &str) -> Error {
    Error::Unsupported(format!("the pool holds {type_name}, which only its program can read"))
}

impl<'v, 'p> Checker<'v, 'p> {
    /// Notes that a type is not known here, so that the walk is not complete.
    pub(crate) fn unknown(&mut self, type_name: &Arc<str>) {
        self.unknown.get_or_insert_with(|| type_name.clone());
    }

    /// Reaches a part that begins with a tag.
    pub(crate) fn tagged(
        &mut self,
        at: PersistentAddress,
        words: u64,
        tag: u64,
        what: &'static str,
    ) -> Result<bool> {
        if !self.block(at, words, what)? {
            return Ok(false);
        }
        match self.read(|tx| tx.read(at))? {
            Some(found) if found == tag => return Ok(true),
            Some(_) => {
                self.damaged(format!("{what} is said to be at {:#x}, which has another tag", at.offset()))
            }
            None => {}
        }
        Ok(false)
    }
}

impl Survey for Checker<'_, '_> {
    fn block(&mut self, at: PersistentAddress, words: u64, what: &'static str) -> Result<bool> {
        self.reach(at, words, what.into(), None)
    }

    fn read<R>(&mut self, mut body: impl FnMut(&mut &mut dyn Read) -> Result<R, Abort>) -> Result<Option<R>> {
        let mut result = None;
        let failed = self.tx.tolerate(&mut |mut tx| {
            result = Some(body(&mut tx)?);
            Ok(())
        })?;
        match failed {
            None => return Ok(result),
            Some(Error::Damaged { problem, .. }) => self.damaged(problem),
            Some(error) => self.damaged(format!("{error:#}")),
        }
        Ok(None)
    }

    fn damaged(&mut self, what: String) {
        if self.damage.len() < LISTED {
            self.damage.push(what);
        } else {
            self.unlisted += 1;
        }
    }
}
