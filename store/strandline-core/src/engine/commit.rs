//! The commit, in the order of the table in [`engine`](super), and the waits that belong to it.

use std::collections::BTreeSet;

use crate::heap::Access;
use crate::layout::SharedLayout;
use crate::log::{RECORD_BLOCKS, Record};
use crate::memory::{DeviceFile, Event, Memory, PAGE_BYTES, PersistentAddress, Step};
use crate::scheme::{Full, SchemeObject};
use crate::sync::SharedLog;
use crate::transaction::{Abort, Concurrency};

use super::{Control, Engine, State, TURN, versions};

/// The size of a write set, in words, from which on mapping its pages takes milliseconds.
const MANY_WORDS: usize = 1 << 10;

impl<C: Control> Engine<C> {
    /// Commits the transaction, which is acknowledged when this returns `Ok`. After an error the caller rolls back, and the transaction has
    /// had no effect, unless the device failed after the commit record was appended: then the outcome is unknown. In a forked child this
    /// always fails, and the caller must not roll back.
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
                // Unreachable: `commit_locks` has returned above.
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

    /// If there are more workers than cores, yields the core between two transactions. Otherwise the system would sooner or later preempt
    /// this thread within a transaction, and transactions that meet its locks would wait until all other threads have had their time slice.
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

    /// Returns whether the caller, and not the commit, waits until the log is durable.
    fn defers(&self) -> bool {
        self.durable_later && self.shared_log.is_some()
    }

    /// Commits through the shared log of the `Sync` domain. Returns the number of records.
    fn commit_shared(&mut self) -> Result<u64, Abort> {
        let Some(log) = self.shared_log else { return Ok(0) };
        self.take_lacking_space()?;
        self.flush_past_log(log)?;
        if self.writes.words().len() > MANY_WORDS {
            self.expect_home_stores(log);
        }
        // A scheme that takes writes has already encoded them as records.
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
            // The stores have been made and cannot be undone; the outcome is unknown.
            Err(error) => {
                self.writes.clear();
                self.scheme.begin(&self.view);
                Err(self.fail(error))
            }
        }
    }

    /// Allocates disk space for the pages that the transaction changes, if parts of the pool's file have none. Otherwise the checkpoint
    /// that writes these pages could meet a full disk after the transaction was acknowledged.
    #[inline]
    fn take_lacking_space(&mut self) -> Result<(), Abort> {
        match self.view.memory.device() {
            Some(device) if device.needs_space(DeviceFile::Heap) => self.take_space_for_writes(),
            _ => Ok(()),
        }
    }

    /// Like [`take_lacking_space`](Self::take_lacking_space), for the page of `at`, which a large transaction is about to change.
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

    /// Copies the pages of the write set before the commit holds up others.
    #[cold]
    fn expect_home_stores(&self, log: SharedLog) {
        log.copy_ahead(&self.view, self.pages_written().into_iter().map(|page| page.offset() / PAGE_BYTES));
    }

    /// Returns the pages of the write set.
    fn pages_written(&self) -> BTreeSet<PersistentAddress> {
        let page = |&(at, _): &(PersistentAddress, u64)| at.offset() / PAGE_BYTES * PAGE_BYTES;
        // Words of one page mostly follow each other. Each run is added once, since building the set sorts all items, duplicates too.
        let runs = self.writes.words().chunk_by(|before, word| page(before) == page(word));
        runs.map(|run| PersistentAddress::new(page(&run[0]))).collect()
    }

    /// Clears `in_commit`. In the `Sync` domain this wakes a checkpoint that waits for the commit.
    pub(super) fn leave_commit(&self) {
        match self.shared_log {
            Some(log) => log.leave(&self.view, self.slot),
            None => self.view.memory.store(self.slot.commit_state(), 0),
        }
    }

    /// Returns the highest TxID whose writes the transaction may have read.
    pub(super) fn newest_read(&self) -> u64 {
        self.reads.iter().fold(self.newest_seen, |newest, &(_, version)| newest.max(version))
    }

    /// In the `Sync` domain, waits until the transactions whose writes were read are durable.
    pub(super) fn wait_for_reads(&mut self) -> Result<(), Abort> {
        if let Some(log) = self.shared_log
            && !self.view.memory.omitted(Step::SyncReadWait)
            && let Err(error) = log.wait_durable(&self.view, self.newest_read())
        {
            return Err(self.fail(error));
        }
        Ok(())
    }

    /// Makes the log durable under `transaction`, through the scheme. Returns the number of log records. The STM and single-writer mode
    /// share this.
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

    /// Loads the values that the commit stores home, before the scheme writes its copies back, because `clwb` may evict them.
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

/// Encodes words from the front of `words` as log records, until `into` is full.
fn encode_words(words: &[(PersistentAddress, u64)], into: &mut [[u64; RECORD_BLOCKS as usize]]) {
    for (record, &(at, value)) in into.iter_mut().zip(words) {
        *record = Record::Data { address: at.offset(), value, mask: 0xff }.encode(false);
    }
}
