//! The commit, in the order that the table in [`engine`](super) says, and what it waits for.

use std::collections::BTreeSet;

use crate::heap::Access;
use crate::layout::SharedLayout;
use crate::log::{RECORD_BLOCKS, Record};
use crate::memory::{DeviceFile, Event, Memory, PAGE_BYTES, PersistentAddress, Step};
use crate::scheme::{Full, SchemeObject};
use crate::transaction::{Abort, Concurrency};

use super::{Control, Engine, State, TURN, versions};

/// Words of a write set with so many pages that to map them takes milliseconds.
const MANY_WORDS: usize = 1 << 10;

impl<C: Control> Engine<C> {
    /// Commits; acknowledged when this returns `Ok`. On an error nothing has happened, and the caller rolls
    /// back, but not in a forked child, in which it always fails.
    #[inline(never)]
    pub fn commit(&mut self) -> Result<(), Abort> {
        if let Some(abort) = self.doomed {
            return Err(abort);
        }
        if self.view.memory.is_forked() {
            return Err(Abort::Failed);
        }
        match self.state {
            State::Large => self.commit_large(),
            _ if self.writes.is_empty() => self.commit_reads(),
            _ => self.commit_writes(),
        }
    }

    fn commit_reads(&mut self) -> Result<(), Abort> {
        if self.concurrency() == Concurrency::Locks {
            return self.commit_locks();
        }
        self.view.memory.event(Event::Commit(0));
        self.release_token();
        self.look_ahead();
        self.tally.read_only.add(1);
        if self.defers() {
            self.durable_at = self.newest_read();
            return Ok(());
        }
        self.wait_for_reads()?;
        self.statistics.acknowledged += 1;
        Ok(())
    }

    #[inline(never)]
    fn commit_writes(&mut self) -> Result<(), Abort> {
        if self.scheme.executed(&self.view, &self.writes) == Err(Full) {
            return Err(self.doom(Abort::LogFull));
        }
        if self.concurrency() == Concurrency::Locks {
            return self.commit_locks();
        }
        let log_records = if self.shared_log.is_some() {
            let log_records = self.commit_shared()?;
            self.statistics.acknowledged += u64::from(!self.defers());
            log_records
        } else {
            let log_records = match self.concurrency() {
                Concurrency::Stm => self.commit_stm()?,
                Concurrency::SingleWriter => self.commit_single_writer(),
                // Has returned above.
                Concurrency::Locks => 0,
            };
            self.statistics.acknowledged += 1;
            log_records
        };
        self.tally.commits.add(1);
        self.tally.log_bytes.add(log_records * crate::log::RECORD_BYTES);
        if self.tally.commits.get().is_multiple_of(TURN) {
            self.end_turn();
        }
        Ok(())
    }

    /// Where there are more workers than cores, lets another thread run, between two transactions. Otherwise this one would sooner or later
    /// be interrupted amid one, and those that meet its locks would wait for it until all others have had their time.
    #[cold]
    #[inline(never)]
    fn end_turn(&self) {
        let memory = &self.view.memory;
        if self.waits_after > 0 {
            return;
        }
        if let Some(cores) = memory.cores() {
            let leased = self.view.shared.slots().filter(|slot| memory.load(slot.leased()) != 0);
            if leased.take(cores + 1).count() > cores {
                memory.yield_core();
            }
        }
    }

    /// Whether the running transaction leaves waiting for the log to its caller.
    fn defers(&self) -> bool {
        self.durable_later && self.shared_log.is_some()
    }

    /// Commit through the shared log of the `Sync` domain.
    fn commit_shared(&mut self) -> Result<u64, Abort> {
        let Some(log) = self.shared_log else { return Ok(0) };
        self.take_lacking_space()?;
        self.flush_past_log(log)?;
        if self.writes.words().len() > MANY_WORDS {
            self.expect_home_stores();
        }
        // A scheme that takes writes has them as records.
        let own = self.scheme.takes_writes().then(|| self.scheme.running_records());
        let records = own.map_or(self.writes.words().len() as u64, |(_, records)| records);
        self.last_records = records + 1;
        let reservation = match log.enter(&self.view, self.slot, records + 1) {
            Ok(reservation) => reservation,
            Err(error) => {
                return Err(match self.grow_large(error) {
                    Ok(()) => self.doom(Abort::LogFull),
                    Err(error) => self.fail(error),
                });
            }
        };
        let is_invalid = self.concurrency() == Concurrency::Stm
            && self.view.memory.load(SharedLayout::CLOCK) + 1 != self.horizon
            && !self.validate();
        if is_invalid || self.is_past_log_in_backup(log) {
            log.leave_unchanged(&self.view, reservation);
            return Err(self.doom(Abort::Conflict));
        }
        let counted = self.count_snapshots_early();
        let (memory, words) = (&self.view.memory, self.writes.words());
        let transaction = log.append(&self.view, self.slot, reservation, records, |first, into| match own {
            Some((from, _)) => memory.load_range(from.word(first * RECORD_BLOCKS), into.as_flattened_mut()),
            None => encode_words(&words[first as usize..], into),
        });
        self.view.memory.event(Event::Commit(transaction));
        self.gather_home();
        log.mark_dirty(&self.view, self.writes.words().iter().map(|&(at, _)| at));
        self.note_vacating(log, transaction);
        self.keep_versions(transaction, counted);
        if versions::are_wanted(&self.view) {
            self.writes.words().iter().for_each(|&(at, value)| self.unsettle_vacated(log, at, value));
        }
        match self.concurrency() {
            Concurrency::Stm => {
                self.store_home();
                self.release_locks(Some(transaction));
            }
            Concurrency::SingleWriter => self.store_home_in_sequence(),
            Concurrency::Locks => {}
        }
        self.keep_versions_late(transaction);
        self.leave_commit();
        self.release_token();
        if self.durable_later {
            self.durable_at = transaction;
            return Ok(records + 1);
        }
        match log.wait_durable(&self.view, transaction) {
            Ok(()) => {
                self.view.memory.event(Event::Acknowledged(transaction));
                Ok(records + 1)
            }
            // The transaction is in the volatile state and cannot be taken back; its outcome is unknown.
            Err(error) => {
                self.writes.clear();
                self.scheme.begin(&self.view);
                Err(self.fail(error))
            }
        }
    }

    /// Where parts of the pool's file lack disk space, takes it for the pages that the transaction changes: the checkpoint that writes them
    /// must not meet a full disk when the transaction has been acknowledged.
    #[inline]
    fn take_lacking_space(&mut self) -> Result<(), Abort> {
        match self.view.memory.device() {
            Some(device) if device.needs_space(DeviceFile::Heap) => self.take_space_for_writes(),
            _ => Ok(()),
        }
    }

    /// The same for the page of `at`, which a large transaction is about to change.
    #[inline]
    pub(super) fn take_lacking_space_at(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        match self.view.memory.device() {
            Some(device) if device.needs_space(DeviceFile::Heap) => {
                self.make_space(PersistentAddress::new(at.offset() / PAGE_BYTES * PAGE_BYTES), PAGE_BYTES)
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn take_space_for_writes(&mut self) -> Result<(), Abort> {
        self.pages_written().into_iter().try_for_each(|page| self.make_space(page, PAGE_BYTES))
    }

    /// Maps the pages that are to be stored home before anybody waits for the commit.
    #[cold]
    fn expect_home_stores(&self) {
        self.pages_written().into_iter().for_each(|page| self.view.memory.expect_stores(page, PAGE_BYTES));
    }

    /// Returns the pages of the write set.
    fn pages_written(&self) -> BTreeSet<PersistentAddress> {
        let page = |&(at, _): &(PersistentAddress, u64)| at.offset() / PAGE_BYTES * PAGE_BYTES;
        // Words of one page mostly follow each other, and the set sorts whatever it is made of.
        let runs = self.writes.words().chunk_by(|before, word| page(before) == page(word));
        runs.map(|run| PersistentAddress::new(page(&run[0]))).collect()
    }

    /// Clears `in_commit`; in the `Sync` domain a checkpoint may wait for that.
    pub(super) fn leave_commit(&self) {
        match self.shared_log {
            Some(log) => log.leave(&self.view, self.slot),
            None => self.view.memory.store(self.slot.commit_state(), 0),
        }
    }

    /// The highest TxID whose writes may have been read.
    pub(super) fn newest_read(&self) -> u64 {
        self.reads.iter().fold(self.newest_seen, |newest, &(_, version)| newest.max(version))
    }

    /// In the `Sync` domain, what was read may not be durable yet: waits until it is.
    pub(super) fn wait_for_reads(&mut self) -> Result<(), Abort> {
        if let Some(log) = self.shared_log
            && !self.view.memory.omitted(Step::SyncReadWait)
            && let Err(error) = log.wait_durable(&self.view, self.newest_read())
        {
            return Err(self.fail(error));
        }
        Ok(())
    }

    /// Has the scheme make the log durable under `transaction`; returns how many log records that took. STM and single-writer mode share it.
    #[inline]
    pub(super) fn make_durable(&mut self, transaction: u64) -> u64 {
        if self.scheme.in_place() {
            self.view.memory.event(Event::Executed(transaction));
        }
        self.view.memory.event(Event::Commit(transaction));
        self.gather_home();
        let log_records = self.scheme.commit(&self.view, &self.writes, transaction);
        self.view.memory.event(Event::Acknowledged(transaction));
        log_records
    }

    /// Sees to it that what is to be stored home is at hand, before the scheme writes its copies back: clwb may evict them.
    #[inline]
    pub(super) fn gather_home(&mut self) {
        if !self.scheme.in_place() {
            self.scheme.give_values(&self.view, &mut self.writes);
        }
    }

    /// Stores all new values home.
    #[inline]
    pub(super) fn store_home(&self) {
        if self.scheme.in_place() {
            return;
        }
        self.view.memory.store_each(self.writes.words());
    }
}

/// Encodes the first of `words` as log records, until `into` is full.
fn encode_words(words: &[(PersistentAddress, u64)], into: &mut [[u64; RECORD_BLOCKS as usize]]) {
    for (record, &(at, value)) in into.iter_mut().zip(words) {
        *record = Record::Data { address: at.offset(), value, mask: 0xff }.encode(false);
    }
}
