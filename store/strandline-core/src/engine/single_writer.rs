//! Single-writer mode: one writer at a time, so its writes need no locks and its reads no validation.
//!
//! The writer holds one lock from beginning to end. Its reads check the filter and index of its write set, and otherwise load home. Readers
//! validate against a global sequence, which is odd only while a writer stores home, never during a flush. After some failed attempts a
//! reader takes the writer's lock.

use crate::error::Result;
use crate::layout::{SharedLayout, Slot};
use crate::memory::{LINE_WORDS, Memory, PersistentAddress, Step, biased, latch};
use crate::scheme::SchemeObject;

use super::optimistic::Guard;
use super::{Control, Engine, READER_LOCKS_AFTER, State};
use crate::transaction::Abort;

impl<C: Control> Engine<C> {
    /// The fast path: begins if this worker is the bias owner of the writer's lock, or only reads while no writer stores home.
    #[inline(always)]
    pub(super) fn begin_single_writer_at_once(&mut self) -> bool {
        let memory = &self.view.memory;
        if self.holds_lock || self.scheme.in_place() {
            return false;
        }
        if self.only_reads() {
            return self.begin_single_reader_at_once();
        }
        if !biased::lock_at_once(memory, SharedLayout::WRITER, self.slot.present(), self.store_present()) {
            return false;
        }
        (self.holds_lock, self.is_bias_owner) = (true, true);
        self.newest_seen = memory.load(SharedLayout::CLOCK);
        true
    }

    /// The fast path of a reader: begins if no writer stores home.
    #[inline]
    pub(super) fn begin_single_reader_at_once(&mut self) -> bool {
        let memory = &self.view.memory;
        let sequence = memory.load(SharedLayout::SEQUENCE);
        if sequence & 1 != 0 {
            return false;
        }
        self.horizon = sequence;
        self.newest_seen = memory.load(SharedLayout::CLOCK);
        true
    }

    /// Returns a function that stores to the word by which this worker, as the bias owner, holds the writer's lock.
    #[inline]
    fn store_present(&self) -> impl Fn(u64) {
        |value| self.view.memory.store_own(self.slot.line(), Slot::PRESENT, value)
    }

    #[inline]
    pub(super) fn unlock_single_writer(&mut self) {
        if self.is_bias_owner {
            self.is_bias_owner = false;
            biased::unlock_at_once(self.store_present());
        } else {
            biased::unlock(&self.view.memory, SharedLayout::WRITER, Some(self.slot.present()));
        }
    }

    /// Begins an attempt, and takes the writer's lock unless this is a reader.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`](crate::Error::Deadlock) if the holder of the lock waits for this thread.
    pub(super) fn begin_single_writer(&mut self, attempt: u32) -> Result<()> {
        let memory = &self.view.memory;
        if !self.holds_lock && (!self.only_reads() || self.scheme.in_place() || attempt >= READER_LOCKS_AFTER)
        {
            biased::lock(memory, SharedLayout::WRITER, Some(self.slot.present()))?;
            self.holds_lock = true;
        }
        if self.scheme.in_place() {
            // With such a scheme readers take the lock too, so no other transaction runs.
            return Ok(());
        }
        if !self.holds_lock && !self.wait_for_home(attempt)? {
            return Ok(());
        }
        // The TxIDs of single words are not known here, so this is the newest that can be read.
        self.newest_seen = self.view.memory.load(SharedLayout::CLOCK);
        Ok(())
    }

    /// Waits until no writer stores home, to begin a reader. Returns false if a large transaction runs, and the reader has begun at a
    /// snapshot instead.
    fn wait_for_home(&mut self, attempt: u32) -> Result<bool> {
        loop {
            let sequence = self.view.memory.load(SharedLayout::SEQUENCE);
            if sequence & 1 == 0 {
                self.horizon = sequence;
                return Ok(true);
            }
            if self.view.memory.load(SharedLayout::LARGE) != 0 && self.look_back(attempt) {
                return Ok(false);
            }
            latch::wait_while_unless_deadlocked(&self.view.memory, SharedLayout::SEQUENCE, sequence)?;
        }
    }

    /// Returns words that this transaction has not written, if no writer has stored home since it began.
    #[inline(always)]
    pub(super) fn read_free_single_writer<const N: usize>(&self, at: PersistentAddress) -> Option<[u64; N]> {
        let words = self.view.memory.data_words()?.load(at)?;
        let is_current =
            if self.holds_lock { !self.writes.may_have(at, N) } else { self.is_sequence_unchanged() };
        is_current.then_some(words)
    }

    /// Returns how an optimistic search may use the line of `at`. For readers the sequence guards everything.
    pub(super) fn guard_single_writer(&self, at: PersistentAddress) -> Guard {
        match self.holds_lock {
            true if self.writes.may_have(at.line(), LINE_WORDS as usize) => Guard::Own,
            true => Guard::Home,
            false if self.is_sequence_unchanged() => Guard::Home,
            false => Guard::None,
        }
    }

    /// Reads words of one line; of several lines only if the transaction does not read at a snapshot.
    pub(super) fn read_single_writer(
        &mut self,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        if self.holds_lock {
            self.own_or_home(at, into);
            return Ok(());
        }
        self.view.memory.load_range(at, into);
        self.check_sequence(at, into)
    }

    /// Returns whether no writer has stored home since this reader began.
    pub(super) fn is_sequence_unchanged(&self) -> bool {
        self.view.memory.load(SharedLayout::SEQUENCE) == self.horizon
    }

    /// Checks that no writer has stored home since this reader began, so that the values it has read are valid. At a snapshot this always
    /// fails, and the words are read again through the versions.
    #[inline]
    fn check_sequence(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if !self.is_sequence_unchanged() {
            return match self.state {
                State::LookingBack(past) => self.read_past(past, at, into),
                _ => Err(self.doom(Abort::Conflict)),
            };
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn commit_single_writer(&mut self) -> u64 {
        let counted = self.count_snapshots_early();
        let is_published = self.scheme.is_awaited() || self.view.shared.versions().any();
        let transaction =
            if is_published { self.publish_commit() } else { self.scheme.next_transaction(&self.view) };
        let log_records = self.make_durable(transaction);
        self.keep_versions(transaction, counted);
        if !self.scheme.in_place() {
            self.store_home_in_sequence();
        }
        self.keep_versions_late(transaction);
        self.scheme.stored_home(&self.view, &self.writes, self.concurrency());
        if is_published {
            self.view.memory.store_own(self.slot.line(), Slot::COMMIT_STATE, 0);
        }
        self.release_token();
        log_records
    }

    /// Takes a TxID so that bulk persistence, and snapshots that begin meanwhile, wait for the transaction, as under the STM. No other
    /// thread takes TxIDs, so this one is known in advance and is published at once.
    #[inline]
    fn publish_commit(&mut self) -> u64 {
        let memory = &self.view.memory;
        let transaction = memory.load(SharedLayout::CLOCK) + 1;
        if !memory.omitted(Step::SnapshotInCommit) {
            memory.store_own(self.slot.line(), Slot::COMMIT_STATE, transaction + 2);
        }
        // The number of snapshots must be loaded after this.
        memory.fetch_add(SharedLayout::CLOCK, 1);
        transaction
    }

    /// Stores home while the sequence is odd.
    #[inline]
    pub(super) fn store_home_in_sequence(&mut self) {
        let memory = &self.view.memory;
        let sequence = memory.load(SharedLayout::SEQUENCE);
        memory.store(SharedLayout::SEQUENCE, sequence + 1);
        self.store_home();
        memory.store(SharedLayout::SEQUENCE, sequence + 2);
    }
}
