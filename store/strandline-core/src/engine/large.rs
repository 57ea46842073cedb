//! Transactions that do not fit a log: they run alone and store home immediately.
//!
//! # The protocol
//!
//! If a transaction does not fit the log although no other transaction uses the log, it ends, and its closure runs again as a *large* one:
//!
//! 1. It keeps all others from running. With the serial token it takes every lock (STM), or it has the writer's lock and makes the sequence
//!    odd (single writer). While it waits for locks, read-only transactions still run: they take no locks, and read locked lines at a
//!    snapshot. Then it registers a snapshot of the state before it, so that versions of lines are kept before they change. Snapshots that
//!    begin from now on see that state (`versions.rs`), and read-only transactions that would have to wait read at such a snapshot. If
//!    there is no room for more versions, transactions and snapshots that begin wait until the large one has ended. Then everything that
//!    has committed is made durable at home: by bulk persistence or, under `Sync`, by a checkpoint. So recovery needs nothing from the logs
//!    while the transaction runs.
//! 2. It publishes `in_commit` and takes its TxID T.
//! 3. It stores home. Before a granule of 512 bytes changes for the first time, its contents are saved durably in an undo journal in the
//!    pool (`log/journal.rs`). A chunk that was free when the transaction began needs no such copy: it will be free again after a rollback,
//!    and only older snapshots rely on the contents of a free chunk. For those, versions are kept of the words that the transaction and its
//!    journal overwrite there (`free_memory.rs`).
//! 4. Commit: the changed pages are written back and fenced; then one word ends the journal, durably. Abort: the journal is first copied
//!    back.
//!
//! Recovery copies a journal back that has not ended. To do so twice makes no difference.
//!
//! Under `Sync` home is a private mapping, and nothing stored there is durable by itself. So the journal must be durable only before pages
//! are written to the heap file, which happens when many are dirty, and at the end (`sync/large_transactions.rs`).
//!
//! It runs alone because it is rare. The alternative, logs that grow with the transaction, would write all data twice and keep all of it in
//! memory until the commit. Of the tests in `lab/strandline-scheme-check/tests/all/`, `large.rs` interrupts it at every step, and
//! `beside_large.rs` reads while it runs.
//!
//! A large transaction takes a few bytes of memory outside the pool for each page that it changes, and the versions that it keeps take memory up to
//! their bound. Under `Sync` it writes its dirty pages at intervals, and then releases clean pages beyond the bound of the pool's copies.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::heap::{self, Access};
use crate::layout::SharedLayout;
use crate::log::{GRANULE_BYTES, Journal};
use crate::memory::{Event, LINE_BYTES, Memory, PAGE_BYTES, PersistentAddress, Step, WORD_BYTES, latch};
use crate::scheme::persist_in_bulk;
use crate::transaction::{Abort, Concurrency};

use super::versions::{self, Registration};
use super::{Control, Engine, State};

/// The granules that an allocation of chunks changes at most, besides those that lie completely within the chunks' words of the table: the
/// first and the last ones of these words, and the one with the number of chunks.
const GRANULES_OF_TAKING: u64 = 3;
/// Up to this number of words, the size of the log is not checked in advance.
const SURELY_FITS: u64 = 1 << 12;
/// The mask of a page with no granule left to save.
const ALL_SAVED: u8 = u8::MAX;
const _: () = assert!(PAGE_BYTES / GRANULE_BYTES == u8::BITS as u64);
const _: () = assert!(PAGE_BYTES / LINE_BYTES == u64::BITS as u64);

/// The number of neighbouring pages that get a place in the list of changed pages when one of them changes. It keeps the table of places small enough
/// for a processor's cache.
const PAGES_TOGETHER: u64 = 16;

/// The parts of a changed page that need no further undo record or version.
#[derive(Clone, Copy, Default)]
struct ChangedPage {
    /// A bit for each granule that is in the journal or need not be.
    saved: u8,
    /// A bit for each line of which a version exists or is not needed.
    kept: u64,
}

impl ChangedPage {
    /// Returns a bit for each part of `part` bytes that overlaps the `bytes` bytes at `at`.
    fn parts(at: PersistentAddress, bytes: u64, part: u64) -> u64 {
        let (first, last) = (at.offset() % PAGE_BYTES / part, (at.offset() + bytes - 1) % PAGE_BYTES / part);
        u64::MAX >> (63 - (last - first)) << first
    }
}

/// A running large transaction.
pub(super) struct Large {
    transaction: u64,
    /// The snapshot that keeps the state before the transaction.
    pin: Option<Registration>,
    journal: Journal,
    /// `Sync`: the number of the journal's granules that are durable.
    durable: u64,
    /// The pages that may have changed, in groups of [`PAGES_TOGETHER`] neighbours.
    pages: Vec<ChangedPage>,
    /// For each group, by the number of its first page divided by [`PAGES_TOGETHER`]: its first index in `pages`.
    places: HashMap<u64, usize>,
    /// The page that changed last, and its index in `pages`.
    last_page: (u64, usize),
    /// For each chunk whose word in the table has changed, whether the chunk was free before.
    chunks: HashMap<u64, bool>,
    /// The chunks that were not free before, and in which the transaction has freed blocks.
    freed_in: HashSet<u64>,
    /// True while the journal gets another chunk.
    is_extending: bool,
    /// The chunk at which the search for the journal's next chunk begins.
    looked_up_to: u64,
}

impl Large {
    /// Returns the snapshot of the state before the transaction.
    pub fn pin(&self) -> Option<Registration> {
        self.pin
    }

    /// Returns the addresses of the changed pages.
    fn changed_pages(&self) -> impl Iterator<Item = PersistentAddress> {
        self.places.iter().flat_map(|(&neighbours, &first)| {
            let pages = &self.pages[first..][..PAGES_TOGETHER as usize];
            let changed = (neighbours * PAGES_TOGETHER..).zip(pages).filter(|(_, page)| page.saved != 0);
            changed.map(|(page, _)| PersistentAddress::new(page * PAGE_BYTES))
        })
    }

    /// Returns whether `chunk` was not free before this transaction, which has freed blocks in it.
    pub fn has_freed_in(&self, chunk: u64) -> bool {
        self.freed_in.contains(&chunk)
    }

    /// Returns whether `chunk`, which is free now, was free before this transaction.
    pub fn was_free(&self, chunk: u64) -> bool {
        self.chunks.get(&chunk) != Some(&false)
    }
}

impl<C: Control> Engine<C> {
    /// After an error for a transaction that is too large, has it run again as a large one, if this pool has large ones. Returns other
    /// errors.
    #[cold]
    pub(super) fn grow_large(&mut self, error: Error) -> Result<()> {
        match error {
            Error::TransactionTooLarge { .. } if self.takes_any_size => {
                self.wants_large = true;
                self.last_records = 1;
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Returns whether `words` consecutive words certainly do not fit the log, so that the attempt can be skipped.
    pub(super) fn is_too_large_for_log(&self, words: u64) -> bool {
        words > SURELY_FITS
            && self.takes_any_size
            && self.shared_log.is_some_and(|log| !log.may_fit(&self.view.memory, words))
    }

    /// Prepares an attempt as a large transaction: takes the lock that comes before the serial token and the writer's lock in the order of
    /// locks.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if the holder of the lock waits for this thread; the lock is not held then.
    #[cold]
    pub(super) fn prepare_large(&mut self) -> Result<()> {
        // A thread with the lock of bulk persistence may wait for the queue, so a thread with the queue must not wait for that lock.
        self.leave_queue();
        match self.shared_log {
            Some(_) => Ok(()),
            None => self.view.memory.lock_unless_deadlocked(SharedLayout::BULK),
        }
    }

    /// Releases the lock that [`Engine::prepare_large`] took, if the token or the writer's lock could not be taken.
    #[cold]
    pub(super) fn give_up_large(&mut self) {
        if self.shared_log.is_none() {
            self.view.memory.unlock(SharedLayout::BULK);
        }
    }

    /// Begins a large transaction in an attempt that has the serial token or the writer's lock.
    ///
    /// # Errors
    /// Returns an error if the device failed, or [`Error::Deadlock`]. The token has then been released.
    #[cold]
    pub(super) fn begin_large(&mut self) -> Result<()> {
        let pin = match self.keep_others_out() {
            Ok(pin) => pin,
            Err(error) => {
                self.view.memory.event(Event::Abort);
                // The locks' previous versions are not known any more. A newer one makes readers validate again.
                self.release_owned_locks(self.view.memory.load(SharedLayout::CLOCK));
                self.give_up_large();
                self.release_token();
                return Err(error);
            }
        };
        let begun = match self.shared_log {
            Some(log) => log.begin_alone(&self.view),
            None => {
                let persisted = self.view.memory.check_file().and_then(|()| persist_in_bulk(&self.view));
                self.view.memory.unlock(SharedLayout::BULK);
                persisted
            }
        };
        if let Err(error) = begun {
            self.view.memory.event(Event::Abort);
            versions::withdraw(&self.view.memory);
            self.let_others_in(self.view.memory.load(SharedLayout::CLOCK));
            self.unpin(pin);
            return Err(error);
        }
        let (memory, state) = (&self.view.memory, self.slot.commit_state());
        memory.fetch_add(state, 1);
        let transaction = memory.fetch_add(SharedLayout::CLOCK, 1) + 1;
        memory.store(state, transaction + 2);
        // The transaction holds all locks. Its reads check one lock word instead of one for each line.
        self.view.shared = self.guards.without_locks();
        self.large = Some(Box::new(Large {
            transaction,
            pin,
            journal: Journal::new(),
            durable: 0,
            pages: Vec::new(),
            places: HashMap::new(),
            last_page: (u64::MAX, 0),
            chunks: HashMap::new(),
            freed_in: HashSet::new(),
            is_extending: false,
            looked_up_to: 0,
        }));
        self.state = State::Large;
        Ok(())
    }

    /// Waits until no other transaction runs or reads home except at a snapshot. Returns the registration that keeps the present state for
    /// snapshots, if there is room for versions.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if another transaction that it must wait for waits for this thread; the transaction may hold locks then.
    fn keep_others_out(&self) -> Result<Option<Registration>> {
        let memory = &self.view.memory;
        // Called when no other thread can take a TxID any more.
        let pin = || versions::pin(&self.view, memory.load(SharedLayout::CLOCK) + 1);
        Ok(match self.concurrency() {
            Concurrency::Stm => {
                self.take_all_locks()?;
                pin()
            }
            Concurrency::SingleWriter => {
                // The snapshot comes before the odd sequence, so that readers that see the latter know that it lasts.
                let pin = pin();
                memory.store(SharedLayout::SEQUENCE, memory.load(SharedLayout::SEQUENCE) + 1);
                pin
            }
            Concurrency::Locks => None,
        })
    }

    /// Undoes [`keep_others_out`](Self::keep_others_out). The lines that may have changed get version `version`.
    fn let_others_in(&mut self, version: u64) {
        let memory = &self.view.memory;
        match self.concurrency() {
            Concurrency::Stm => self.release_all_locks(version),
            Concurrency::SingleWriter => {
                memory.store(SharedLayout::SEQUENCE, memory.load(SharedLayout::SEQUENCE) + 1);
            }
            Concurrency::Locks => {}
        }
        self.leave_commit();
        self.release_token();
    }

    /// Writes words in a large transaction.
    pub(super) fn write_large(&mut self, mut at: PersistentAddress, mut from: &[u64]) -> Result<(), Abort> {
        self.begin_tolerating()?;
        if !self.may_have(at, from.len() as u64) {
            self.look(at, from.len() as u64)?;
        }
        while !from.is_empty() {
            let room = (PAGE_BYTES - at.offset() % PAGE_BYTES) / WORD_BYTES;
            let (now, rest) = from.split_at(from.len().min(room as usize));
            self.change(at, now)?;
            at = at.word_inside(now.len() as u64);
            from = rest;
        }
        Ok(())
    }

    /// Notes that blocks of `chunk` are freed. Returns whether the transaction avoids the chunk, because it would have to save what is there.
    #[cold]
    pub(super) fn note_freed_large(&mut self, chunk: u64) -> bool {
        let Some(large) = self.large.as_mut().filter(|large| large.chunks.get(&chunk) != Some(&true)) else {
            return false;
        };
        large.freed_in.insert(chunk);
        true
    }

    /// Extends the journal, if it has no room for the words that an allocation of `chunks` chunks will change. Otherwise the journal would
    /// take chunks in the middle of the allocation.
    #[cold]
    pub(super) fn begin_taking_large(&mut self, chunks: u64) -> Result<(), Abort> {
        let words = GRANULE_BYTES / WORD_BYTES;
        while let Some(large) = &mut self.large {
            if !large.journal.is_short(chunks / words + GRANULES_OF_TAKING) {
                break;
            }
            self.extend_journal()?;
        }
        Ok(())
    }

    /// Stores words of one page home, after it has saved the old ones.
    fn change(&mut self, at: PersistentAddress, values: &[u64]) -> Result<(), Abort> {
        let bytes = WORD_BYTES * values.len() as u64;
        self.take_lacking_space_at(at)?;
        self.save(at, bytes)?;
        let Some(large) = &mut self.large else { return Ok(()) };
        if heap::chunk_at(&self.view.layout, at).is_none() {
            for word in 0..values.len() as u64 {
                let at = at.word_inside(word);
                let Some(chunk) = heap::chunk_of_word(&self.view.layout, at) else { break };
                let memory = &self.view.memory;
                large.chunks.entry(chunk).or_insert_with(|| memory.load(at) == 0);
            }
        }
        self.keep_versions_large(at, bytes);
        if let Some(log) = self.shared_log
            && heap::may_vacate(&self.view.layout, at)
            && versions::are_wanted(&self.view)
        {
            (0..)
                .zip(values)
                .for_each(|(word, &value)| self.unsettle_vacated(log, at.word_inside(word), value));
        }
        self.mark(at);
        self.view.memory.store_range(at, values);
        self.write_if_dirty()
    }

    /// Returns the index in the list of changed pages of the page at `at`, which is about to change.
    fn changed_page(&mut self, at: PersistentAddress) -> Option<usize> {
        let page = at.offset() / PAGE_BYTES;
        let large = self.large.as_mut()?;
        if large.last_page.0 != page {
            let end = large.pages.len();
            let first = *large.places.entry(page / PAGES_TOGETHER).or_insert(end);
            if first == end {
                large.pages.resize(end + PAGES_TOGETHER as usize, ChangedPage::default());
            }
            large.last_page = (page, first + (page % PAGES_TOGETHER) as usize);
        }
        Some(large.last_page.1)
    }

    /// Returns whether the page of `at` is in a chunk that was free when the transaction began.
    fn is_in_free_chunk(&self, at: PersistentAddress) -> bool {
        let chunk = heap::chunk_at(&self.view.layout, at);
        let was_free = |large: &Large| chunk.is_some_and(|chunk| large.chunks.get(&chunk) == Some(&true));
        self.large.as_deref().is_some_and(was_free)
    }

    /// Keeps versions of the lines that are about to change, once for each line: one version with this TxID serves all snapshots.
    fn keep_versions_large(&mut self, at: PersistentAddress, bytes: u64) {
        let wanted = ChangedPage::parts(at, bytes, LINE_BYTES);
        let Some(place) = self.changed_page(at) else { return };
        let Some(large) = &mut self.large else { return };
        let (page, transaction) = (&mut large.pages[place], large.transaction);
        let missing = wanted & !page.kept;
        if missing == 0 {
            return;
        }
        page.kept |= missing;
        // The transaction's own snapshot, and snapshots that began later, read no memory that was free when it began.
        if !versions::are_wanted(&self.view) || self.is_in_free_chunk(at) && !self.is_older_read(transaction)
        {
            return;
        }
        let start = PersistentAddress::new(at.offset() / PAGE_BYTES * PAGE_BYTES);
        let lines = (0..u64::from(u64::BITS)).filter(|line| missing >> line & 1 == 1);
        versions::keep(&self.view, transaction, lines.map(|line| start.byte(LINE_BYTES * line)));
    }

    /// Returns whether there may be a snapshot of an earlier state than the one in which large transaction `transaction` began.
    pub(super) fn is_older_read(&self, transaction: u64) -> bool {
        self.view.has_snapshot_before(transaction - 1)
    }

    /// Under `Sync`, marks the page of `at` as dirty; it is about to change.
    fn mark(&self, at: PersistentAddress) {
        if let Some(log) = self.shared_log {
            log.mark_dirty(&self.view, std::iter::once(at));
        }
    }

    /// Under `Sync`, writes the dirty pages if there are many.
    fn write_if_dirty(&mut self) -> Result<(), Abort> {
        let (Some(log), Some(large)) = (self.shared_log, &mut self.large) else { return Ok(()) };
        // While the journal is extended, it does not contain its new chunk yet.
        if large.is_extending || !log.is_dirty_enough(&self.view) {
            return Ok(());
        }
        if let Err(error) = log.write_alone(&self.view, &large.journal, &mut large.durable) {
            return Err(self.fail(error));
        }
        log.give_back_clean_alone(&self.view);
        Ok(())
    }

    /// Saves the contents of these bytes of one page in the journal, unless that was done or is not necessary.
    fn save(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        let wanted = ChangedPage::parts(at, bytes, GRANULE_BYTES) as u8;
        loop {
            let Some(place) = self.changed_page(at) else { return Ok(()) };
            let is_saved = |large: &Large| wanted & !large.pages[place].saved == 0;
            if self.large.as_deref().is_none_or(is_saved) {
                return Ok(());
            }
            let is_free = self.is_in_free_chunk(at);
            let Some(large) = &mut self.large else { return Ok(()) };
            if is_free {
                large.pages[place].saved = ALL_SAVED;
                return Ok(());
            }
            let missing = wanted & !large.pages[place].saved;
            if !large.is_extending && large.journal.is_short(missing.count_ones().into()) {
                // The extension may save some of these granules itself, so they are checked again.
                self.extend_journal()?;
                continue;
            }
            large.pages[place].saved |= missing;
            let start = PersistentAddress::new(at.offset() / PAGE_BYTES * PAGE_BYTES);
            let granules: Vec<_> = (0..u64::from(u8::BITS))
                .filter(|granule| missing >> granule & 1 == 1)
                .map(|granule| start.byte(GRANULE_BYTES * granule))
                .collect();
            let transaction = large.transaction;
            let places = large.journal.places(granules.len() as u64);
            for &(place, _) in &places {
                self.mark(place);
            }
            let lines = places.iter().flat_map(|&(place, bytes)| {
                (place.line().offset()..place.byte(bytes).offset()).step_by(LINE_BYTES as usize)
            });
            self.overwrite_free(transaction, lines.map(PersistentAddress::new));
            if let Some(large) = &mut self.large {
                large.journal.save(&self.view.memory, &granules);
            }
            return Ok(());
        }
    }

    /// Returns whether the present writes turn a chunk of the heap into one of the journal.
    pub(super) fn is_extending_journal(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.is_extending)
    }

    /// Allocates another chunk for the journal.
    fn extend_journal(&mut self) -> Result<(), Abort> {
        let Some(large) = &mut self.large else { return Ok(()) };
        large.is_extending = true;
        let mut from = large.looked_up_to;
        let taken = heap::take_chunk(self, &mut from, |engine, chunk| {
            engine.mark(chunk);
            let Some(large) = &engine.large else { return };
            let before = large.journal.last_chunk();
            engine.overwrite_free(large.transaction, before.into_iter().chain([chunk]));
            let Some(large) = &mut engine.large else { return };
            let bytes = engine.view.layout.geometry.chunk_bytes;
            large.journal.extend(&engine.view.memory, chunk, bytes);
            if let Some(before) = before {
                engine.mark(before);
            }
        });
        if let Some(large) = &mut self.large {
            large.is_extending = false;
            large.looked_up_to = from;
        }
        taken.map(drop)
    }

    /// Commits a large transaction.
    #[cold]
    pub(super) fn commit_large(&mut self) -> Result<(), Abort> {
        let Some(large) = &self.large else { return Ok(()) };
        let (transaction, chunks) = (large.transaction, large.journal.chunks().collect::<Vec<_>>());
        for chunk in chunks {
            heap::give_chunk_back(self, chunk)?;
        }
        self.view.memory.event(Event::Executed(transaction));
        self.view.memory.event(Event::Commit(transaction));
        if let Some(log) = self.shared_log {
            self.note_vacating(log, transaction);
        }
        let ended = self.end_large();
        // In memory the transaction has happened and cannot be undone.
        let acknowledged = ended.map_err(|error| self.fail(error));
        self.tally.commits.add(u64::from(acknowledged.is_ok()));
        self.statistics.acknowledged += u64::from(acknowledged.is_ok());
        acknowledged?;
        self.view.memory.event(Event::Acknowledged(transaction));
        self.durable_at = 0;
        Ok(())
    }

    /// Makes the changes of a large transaction durable, and lets others run.
    fn end_large(&mut self) -> Result<()> {
        let Some(mut large) = self.large.take() else { return Ok(()) };
        self.state = State::Writing;
        let memory = &self.view.memory;
        let ended = match self.shared_log {
            Some(log) => log.end_alone(&self.view, large.transaction, &large.journal, &mut large.durable),
            None => {
                for page in large.changed_pages() {
                    memory.write_back_range(page, PAGE_BYTES, Step::LargeWriteBack);
                }
                memory.fence(Step::LargeFence);
                large.journal.end(memory);
                Ok(())
            }
        };
        self.view.shared = self.guards;
        versions::withdraw(&self.view.memory);
        self.let_others_in(large.transaction);
        self.unpin(large.pin);
        ended
    }

    /// Ends the snapshot of a large transaction.
    pub(super) fn unpin(&self, pin: Option<Registration>) {
        if let Some(pin) = pin {
            versions::end(&self.view, pin);
        }
    }

    /// Rolls a large transaction back.
    #[cold]
    pub(super) fn roll_back_large(&mut self, why: Abort) {
        let Some(large) = self.large.take() else { return };
        large.journal.roll_back(&self.view.memory, |granule| self.mark(granule));
        let transaction = large.transaction;
        self.large = Some(large);
        self.view.memory.event(Event::Abort);
        if self.shared_log.is_some() {
            // TxIDs in the log have no gaps, so this counts as a transaction that changed nothing.
            self.view.memory.event(Event::Commit(transaction));
        }
        // If this fails, the pool is poisoned, and later operations report that.
        let _ = self.end_large();
        match why {
            Abort::Conflict => self.tally.conflicts.add(1),
            _ => self.tally.user_aborts.add(1),
        }
    }

    /// Takes every lock, and waits for those that others hold.
    fn take_all_locks(&self) -> Result<()> {
        let memory = &self.view.memory;
        for word in self.guards.locks() {
            loop {
                let now = memory.load(word);
                if super::stm::is_locked(now) {
                    latch::wait_while_unless_deadlocked(memory, word, now)?;
                } else if memory.compare_exchange(word, now, super::stm::locked_by(self.slot_index)).is_ok() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn release_all_locks(&self, version: u64) {
        for word in self.guards.locks() {
            self.view.memory.store(word, version << 1);
        }
    }
}
