//! Checks everything that is reachable from a value for damage, by the value's type.
//!
//! A walk reaches blocks in two ways. Through a *pointer or handle*: several may refer to the same block, even in cycles. The walk visits such a
//! block once, and all of them must expect the same type. Or as a *part* of a collection (a node, an entry, a segment), which must be reached only
//! once. Each block must be one that the heap knows, must be allocated, and must have room for its content. So the walk reads nothing outside of
//! blocks, lengths are bounded by blocks, and the walk ends because the number of blocks is finite; the [`Walk`] bounds blocks that overlap. The
//! blocks that wait for their visit are kept in a list, so that no chain of pointers is too long for the stack.

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

/// Number of problems that a check lists. Of further ones it only reports the number.
const LISTED: usize = 1000;

/// A function that checks the value at an address by the description that it captures.
type LookDescribed<'v, 'p> = Box<dyn FnOnce(&mut Checker<'v, 'p>, PersistentAddress) -> Result<()> + 'v>;

/// A function that checks the value at an address.
pub(crate) enum Look<'v, 'p> {
    /// Checks the value by a type that the program knows.
    Typed(fn(&mut Checker<'v, 'p>, PersistentAddress) -> Result<()>),
    /// Checks the value by the pool's description of its type. The `described` module makes these functions.
    Described(LookDescribed<'v, 'p>),
}

/// A function that is called for each element of a vector or item of a queue, with its address, its words, and its length in bytes.
pub(crate) type Element<'f, 'v, 'p> =
    &'f mut dyn FnMut(&mut Checker<'v, 'p>, PersistentAddress, &[u64], u64) -> Result<()>;

/// A function that is called for each pair of a map, with its address, its key, the words of its value, and the length of the value in bytes.
pub(crate) type Pair<'f, 'v, 'p> =
    &'f mut dyn FnMut(&mut Checker<'v, 'p>, PersistentAddress, &[u8], &[u64], u64) -> Result<()>;

/// The name of a type, or of a part of a collection, for messages.
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

/// The addresses that were reached, each with its tag if a pointer or handle refers to it, and the problems.
#[cfg(test)]
pub(crate) type AllReached = (std::collections::BTreeMap<u64, Option<u64>>, Vec<String>);

/// A walk over everything that is reachable from a value, which collects the problems that it finds.
///
/// Only implementations of [`Persist::visit`](crate::Persist::visit) use a checker. [`Store::check`](crate::Store::check) and the `check` methods of
/// the collections start a walk.
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
    /// Bounds the walk, since blocks of a damaged heap may overlap.
    walk: Walk,
    damage: Vec<String>,
    unlisted: u64,
    /// A type of which only the program can read the values, if there is one. The walk does not follow these values.
    unknown: Option<Arc<str>>,
    /// Is called from time to time with the number of blocks that were reached.
    progress: &'v dyn Fn(u64),
}

/// Number of blocks between two calls of [`Checker::progress`].
const PROGRESS: usize = 1024;

/// Memory of a pool that is allocated but not reachable. [`Store::lost_memory`](crate::Store::lost_memory) returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostMemory {
    /// Number of blocks.
    pub blocks: u64,
    /// Number of bytes in these blocks.
    pub bytes: u64,
    /// The address of the first of these blocks.
    pub first: Option<u64>,
}

/// [`Read::tolerate`] for a transaction with any control and on any memory. The checks are then compiled only once.
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
    /// The tag of a block to which several pointers may refer; `None` for a part.
    tag: Option<u64>,
}

impl<'v, 'p> Checker<'v, 'p> {
    /// Walks from `begin`, and returns the problems found.
    pub(crate) fn run<C: Control>(
        tx: &'v View<'p, C>,
        begin: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<String>> {
        Ok(Self::walk(tx, &|_| (), begin)?.damage)
    }

    /// Like `run`, but returns an error if the walk found no damage but met a type that only the program can read.
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

    /// Returns the results of [`Checker::run_described`] and [`Checker::lost`] from one walk. The lost memory is `None` if there is damage.
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

    /// Returns the addresses that a walk from `begin` reaches, and the problems found.
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

    /// Returns the memory that is allocated but that a walk from `begin` does not reach.
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

    /// Returns the memory that is allocated but that this walk has not reached. The walk must have found no damage.
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

    /// Checks the values that wait for their visit, and those that they refer to.
    fn look_at_all(&mut self) -> Result<()> {
        self.waiting.reverse();
        while let Some((at, look)) = self.waiting.pop() {
            let before = self.waiting.len();
            match look {
                Look::Typed(look) => look(self, at)?,
                Look::Described(look) => look(self, at)?,
            }
            // The visits are in the order in which the values were met.
            self.waiting[before..].reverse();
        }
        Ok(())
    }

    /// Returns the number of problems that were reported so far.
    pub(crate) fn noted(&self) -> u64 {
        self.damage.len() as u64 + self.unlisted
    }

    /// Reports that a pointer or handle refers to a value of type `name`, which has `words` words and begins with `tag`. The walk visits the value
    /// once, with `look`.
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
                format!("where a block has room for only {} of its {words} words", bytes / 8)
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
        self.damaged(format!("{what} should be at {:#x}, {problem}", at.offset()));
        Ok(false)
    }
}

/// Returns the message of [`Error::Dangling`].
fn dangling(at: PersistentAddress, expected: &Name) -> String {
    match expected {
        Name::Known(expected) => Error::Dangling { at: at.offset(), expected }.to_string(),
        Name::Described(name) => {
            format!(
                "no value of type {name} is at {:#x}: it was freed, or a value of another type is there",
                at.offset()
            )
        }
    }
}

/// Returns the error for a walk by descriptions that cannot be complete.
fn unreadable(type_name: &str) -> Error {
    Error::Unsupported(format!("values of type {type_name}, which only their program can read"))
}

impl<'v, 'p> Checker<'v, 'p> {
    /// Reports a type that is not known here, so that the walk is not complete.
    pub(crate) fn unknown(&mut self, type_name: &Arc<str>) {
        self.unknown.get_or_insert_with(|| type_name.clone());
    }

    /// Reaches a part that begins with a tag, and returns whether it is not damaged.
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
            Some(_) => self.damaged(format!("{what} should be at {:#x}, which has another tag", at.offset())),
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
