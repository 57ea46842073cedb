//! Searches that validate a few lines instead of each line that they read: [`OptimisticSearch`].
//!
//! A guard counts as read under the control's usual rules, so that a later validation checks it too. The words that it guards are loaded
//! from home without checks. When the search has ended, each guard must be unchanged. Then no other transaction has stored meanwhile to the
//! words that the search relied on: a transaction that does so has the guard's lock, or keeps the sequence odd, from before its first store
//! to home until after the last one.
//!
//! A guard that the transaction itself has written to need not be validated, since no other transaction can have its lock. Behind such a
//! guard, reads look in the write set first.
//!
//! At a snapshot, a search can rely on a guard that no transaction has written to since: then the words that it guards are at home as the
//! snapshot sees them.

use crate::error::Error;
use crate::memory::{MappedWords, Memory, PersistentAddress, Step};
use crate::transaction::plain::{NOT_HERE, words_alone};
use crate::transaction::{Abort, Concurrency, OptimisticSearch, Read};

use super::{Control, Engine, State, versions};

/// The reader of an optimistic search.
struct Optimistic<'e, C: Control> {
    engine: &'e mut Engine<C>,
    /// True if the transaction has written to a guard, and so perhaps to the words that it guards.
    has_own: bool,
}

/// The result of a check of a guard.
pub(super) enum Guard {
    /// The search may read home as long as the line does not change. A large transaction always may, since no other transaction runs.
    Home,
    /// This transaction has written to the guard, so no other transaction can change what it guards. The transaction's own writes may not
    /// be at home yet.
    Own,
    /// The search cannot rely on the line.
    None,
}

impl<C: Control> Engine<C> {
    /// Implements [`Read::search_optimistically`].
    pub(super) fn search_optimistically<S: OptimisticSearch>(&mut self, search: &mut S) -> Option<S::Found> {
        let read_before = self.reads.len();
        let found = search.search(&mut Optimistic { engine: self, has_own: false }).ok();
        let found = found.filter(|_| self.are_guards_unchanged(read_before));
        if found.is_none() || matches!(self.state, State::LookingBack(_)) {
            self.reads.truncate(read_before);
        }
        found
    }

    fn guard(&mut self, at: PersistentAddress) -> Guard {
        match (self.concurrency(), self.state) {
            (_, State::Large) => Guard::Home,
            (Concurrency::Stm, State::LookingBack(past)) => self.guard_stm(at, past.time + 1),
            (Concurrency::Stm, _) => self.guard_stm(at, self.horizon),
            (Concurrency::SingleWriter, State::LookingBack(past)) => {
                if versions::is_newest(&self.view, past) { Guard::Home } else { Guard::None }
            }
            (Concurrency::SingleWriter, _) => self.guard_single_writer(at),
            (Concurrency::Locks, _) => Guard::None,
        }
    }

    /// Returns whether the guards are unchanged since the transaction read them. They are the entries of the read set from `read_before`
    /// on, which a search or a read of pages has added.
    pub(super) fn are_guards_unchanged(&self, read_before: usize) -> bool {
        let memory = &self.view.memory;
        if memory.omitted(Step::OptimisticGuards) {
            return true;
        }
        match (self.concurrency(), self.state) {
            (Concurrency::Stm, _) => self.are_unchanged_stm(read_before),
            (Concurrency::SingleWriter, State::LookingBack(past)) => versions::is_newest(&self.view, past),
            (Concurrency::SingleWriter, _) => self.holds_lock || self.is_sequence_unchanged(),
            (Concurrency::Locks, _) => false,
        }
    }
}

impl<C: Control> Read for Optimistic<'_, C> {
    fn guard(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        match self.engine.guard(at) {
            Guard::Home => {}
            Guard::Own => self.has_own = true,
            Guard::None => return Err(NOT_HERE),
        }
        Ok(())
    }
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.read_array(at).map(|[word]| word)
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if !self.engine.may_have(at, into.len() as u64) {
            return Err(NOT_HERE);
        }
        if self.has_own {
            self.engine.own_or_home(at, into);
        } else {
            self.engine.view.memory.load_range(at, into);
        }
        Ok(())
    }
    fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        if !self.has_own
            && let Some(words) = self.engine.view.memory.data_words()
        {
            return words.load(at).ok_or(NOT_HERE);
        }
        let mut words = [0; N];
        self.read_range(at, &mut words)?;
        Ok(words)
    }
    fn mapped_words(&self, at: PersistentAddress, count: u64) -> Option<MappedWords<'_>> {
        let words = if self.has_own { None } else { self.engine.view.memory.data_words() };
        words?.words(at, count)
    }
    fn prefetch(&self, at: PersistentAddress, words: usize) {
        self.engine.view.memory.prefetch(at, words);
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.engine.view.layout.root(index)
    }
    fn heap_words(&self) -> u64 {
        self.engine.view.layout.heap_words()
    }
    words_alone!();
}
