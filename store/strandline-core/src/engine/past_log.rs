//! Writes past the log: values of many pages are written once, to free pages of the heap file.
//!
//! # The protocol
//!
//! A transaction in the `Sync` domain that has allocated an extent ([`Transaction::alloc_pages`](crate::Transaction::alloc_pages)) and
//! fills it ([`fill_pages`](crate::Transaction::fill_pages)) writes the pages directly to the heap file, instead of to its write set.
//! Before it appends its records, which are those of the allocation and of the references to the extent, it flushes the heap file. So the
//! pages are in the file if the transaction is committed. If it is not, they are free, as before.
//!
//! The following rules must hold:
//!
//! 1. *Free.* In the last committed state, the pages are free pages of a chunk of extents; or this transaction is the first since the pool
//!    was opened that got their chunk, and that was not a chunk of extents. So pages that the transaction itself has freed are not
//!    overwritten before it commits. A chunk that had other blocks raised the versions of its lines when it became one of extents, so that
//!    a reader on its way to such a block conflicts. Nor may the transaction have allocated the pages before, or written to them through
//!    its write set.
//! 2. *Durable.* No transaction had used their chunk; or the transaction that freed them, and all before it, have stored home, it is
//!    durable, and a later block of the log records this, so that recovery reports damage if the block with the freeing is corrupted. Each
//!    transaction that frees pages, or turns a chunk of other blocks into one of extents, notes its TxID for this purpose in its commit,
//!    before it stores home.
//! 3. *Settled.* They are in no checkpoint's set of pages, the log has no record for them that could be replayed, and no snapshot reads them
//!    (`sync/past_log.rs`). A transaction that frees pages while there are snapshots marks them as unsettled in its commit.
//! 4. *Backups.* No backup is copying the heap file, since it copies the log afterwards. A backup that begins waits for running writes. A
//!    transaction runs again if it finds, under the latch of the log, that a backup has begun since its first write past the log.
//!
//! If a rule does not hold, the words go to the write set.
//!
//! *Readers.* Writes past the log raise no versions. So a transaction that frees pages also writes to a *guard*, a word through which
//! readers reach the pages. A reader reads the guard in the usual way, then the pages, and then checks that the guard is unchanged. A
//! snapshot needs no guard: as long as it exists, its pages are not settled.
//!
//! `fill_pages` waits for other commits, a flush of the log and the device while the transaction holds locks of lines or the writer's lock.
//! None of these waits for a transaction that holds such locks.
//!
//! The device world of `lab/strandline-scheme-check` (workload `extents`) leaves out each rule in turn, except the first and the one for
//! backups. The first is not left out because the allocator never hands out to a transaction the pages that it has freed itself.
//! `tests/all/values.rs` of `strandline` tests a backup that begins between a write and its commit.

use std::collections::{BTreeMap, BTreeSet};

use crate::heap::{self, Access, PagesAtHome};
use crate::memory::device::DeviceFile;
use crate::memory::{Event, LINE_BYTES, Memory, PAGE_BYTES, PersistentAddress, Step, WORD_BYTES};
use crate::scheme::{SchemeObject, wait_for_commits};
use crate::sync::SharedLog;
use crate::transaction::{Abort, Concurrency};

use super::{Control, Engine, State};

/// The extents and the unused memory of the running transaction, which decide what it may write past the log.
#[derive(Default)]
pub(super) struct PastLog {
    /// The value of [`SharedLog::backups_begun`] at the transaction's first write past the log; `None` before it.
    backups: Option<u64>,
    /// Memory that this transaction was the first to get since the pool was opened, as begin and end in bytes. A range is removed when the
    /// transaction uses it for anything but an extent.
    unused: Vec<(u64, u64)>,
    /// The extents that the transaction has allocated: the end of each in bytes, by its beginning.
    allocated: BTreeMap<u64, u64>,
    /// Extents with pages that the transaction had allocated and freed before. A return to a savepoint may need the old contents.
    again: Vec<(u64, u64)>,
    /// The groups ([`SharedLog::page_groups`]) of the pages that the transaction frees. After a return to a savepoint there may be too
    /// many.
    vacated: BTreeSet<u64>,
}

impl PastLog {
    /// Clears the lists for the next transaction.
    pub fn clear(&mut self) {
        self.backups = None;
        self.unused.clear();
        self.allocated.clear();
        self.again.clear();
        self.vacated.clear();
    }

    /// Adds pages that the transaction frees.
    pub fn add_vacated(&mut self, at: PersistentAddress, bytes: u64) {
        self.vacated.extend(SharedLog::page_groups(at, bytes));
    }

    /// Adds memory that was never handed out before.
    pub fn add_unused(&mut self, at: PersistentAddress, bytes: u64) {
        self.unused.push((at.offset(), at.offset() + bytes));
    }

    /// Removes memory that the transaction uses for something else than an extent.
    pub fn use_otherwise(&mut self, at: PersistentAddress, bytes: u64) {
        let (first, end) = (at.offset(), at.offset() + bytes);
        self.unused.retain(|&(from, to)| to <= first || end <= from);
    }

    /// Returns whether this transaction is the first that got these bytes.
    pub fn is_unused(&self, at: PersistentAddress, bytes: u64) -> bool {
        let (first, end) = (at.offset(), at.offset() + bytes);
        self.unused.iter().any(|&(from, to)| from <= first && end <= to)
    }

    /// Adds an extent that the transaction has allocated.
    pub fn add_allocated(&mut self, at: PersistentAddress, bytes: u64) {
        let (first, end) = (at.offset(), at.offset() + bytes);
        let before = self.allocated.range(..end).next_back();
        if before.is_some_and(|(_, &to)| to > first) || self.is_again(first, end) {
            self.again.push((first, end));
        } else {
            self.allocated.insert(first, end);
        }
    }

    fn is_again(&self, first: u64, end: u64) -> bool {
        self.again.iter().any(|&(from, to)| from < end && first < to)
    }
}

impl<C: Control> Engine<C> {
    /// Notes that this transaction has allocated an extent.
    pub(super) fn note_extent(&mut self, at: PersistentAddress, pages: u64) {
        if self.shared_log.is_some() {
            self.past_log.add_allocated(at, pages * PAGE_BYTES);
        }
    }

    /// Fills pages of an extent that this transaction has allocated.
    pub(super) fn fill_pages(&mut self, at: PersistentAddress, words: &[u64]) -> Result<(), Abort> {
        self.begin_tolerating()?;
        let bytes = (words.len() as u64 * WORD_BYTES).next_multiple_of(PAGE_BYTES);
        if let Some(log) = self.shared_log
            && let Some(backups) = self.may_write_past_log(log, at, bytes)?
        {
            self.past_log.backups = Some(backups);
            self.view.memory.event(Event::PastLog(at, bytes));
            let written = log.write_unless_backup(&self.view, at, words, backups);
            if written.map_err(|error| self.fail(error))? {
                return Ok(());
            }
        }
        self.write_range(at, words)
    }

    /// Returns the value of [`SharedLog::backups_begun`] if these pages may be written past the log, and `None` if they must go through it. Waits
    /// until the transaction that freed them is durable.
    fn may_write_past_log(
        &mut self,
        log: SharedLog,
        at: PersistentAddress,
        bytes: u64,
    ) -> Result<Option<u64>, Abort> {
        let is_possible = matches!(self.state, State::Writing | State::Noting)
            && self.concurrency() != Concurrency::Locks
            && !self.scheme.takes_writes()
            // If the system's pages are larger, such a page also has pages that must not be written.
            && self.view.memory.page_bytes() == PAGE_BYTES;
        if !is_possible || bytes == 0 || !at.offset().is_multiple_of(PAGE_BYTES) {
            return Ok(None);
        }
        if !self.may_have(at, bytes / WORD_BYTES) {
            self.look(at, bytes / WORD_BYTES)?;
        }
        let is_unused = self.past_log.is_unused(at, bytes);
        if !self.are_free_at_home(at, bytes, is_unused) {
            return Ok(None);
        }
        let backups = log.backups_begun(&self.view.memory);
        if backups.is_none() || self.past_log.backups.is_some_and(|before| backups != Some(before)) {
            return Ok(None);
        }
        if !is_unused && !self.wait_for_freed(log, at, bytes)? {
            return Ok(None);
        }
        if !log.are_settled(&self.view.memory, at, bytes) {
            return Ok(None);
        }
        if self.view.memory.device().is_some_and(|device| device.needs_space(DeviceFile::Heap)) {
            self.make_space(at, bytes)?;
        }
        Ok(backups)
    }

    /// Returns whether committed transactions have left these pages free, and this transaction has stored nothing in them that it still needs.
    fn are_free_at_home(&mut self, at: PersistentAddress, bytes: u64, is_unused: bool) -> bool {
        let is_free = match heap::pages_at_home(&self.view, at, bytes / PAGE_BYTES) {
            PagesAtHome::Free => true,
            PagesAtHome::InFreeChunk => is_unused,
            PagesAtHome::Used => false,
        };
        is_free
            && !self.past_log.is_again(at.offset(), at.offset() + bytes)
            && (self.writes.is_empty() || !self.has_written_in(at, bytes))
    }

    /// Returns whether the write set contains one of these words.
    fn has_written_in(&mut self, at: PersistentAddress, bytes: u64) -> bool {
        let mut lines = (0..bytes).step_by(LINE_BYTES as usize).map(|inside| at.byte(inside));
        let line_words = LINE_BYTES / WORD_BYTES;
        lines.any(|line| {
            self.writes.may_have(line, line_words as usize)
                && (0..line_words).any(|word| self.writes.find(line.word_inside(word)).is_some())
        })
    }

    /// Waits until the transactions that freed these pages, and all before them, are durable and have stored home. Returns false if the log
    /// has no room for a block that records this.
    fn wait_for_freed(&mut self, log: SharedLog, at: PersistentAddress, bytes: u64) -> Result<bool, Abort> {
        let newest = log.newest_vacated(&self.view.memory, at, bytes);
        let waited = wait_for_commits(&self.view, newest, Step::PastLogDurable)
            .and_then(|()| log.wait_for_freed(&self.view, newest));
        waited.map_err(|error| self.fail(error))
    }

    /// During the commit with TxID `transaction`, before it stores home: notes that it frees pages.
    pub(super) fn note_vacating(&self, log: SharedLog, transaction: u64) {
        if !self.past_log.vacated.is_empty() {
            log.note_vacated(&self.view.memory, &self.past_log.vacated, transaction);
        }
    }

    /// Flushes the heap file if the transaction has written past the log.
    pub(super) fn flush_past_log(&mut self, log: SharedLog) -> Result<(), Abort> {
        if self.past_log.backups.is_none() {
            return Ok(());
        }
        log.flush_past_log(&self.view).map_err(|error| self.fail(error))
    }

    /// Returns whether a backup has begun since the transaction first wrote past the log. The backup may have copied these pages before
    /// they were written.
    pub(super) fn is_past_log_in_backup(&self, log: SharedLog) -> bool {
        self.past_log.backups.is_some_and(|begun| log.has_backup_begun(&self.view.memory, begun))
    }

    /// During a commit, while there are snapshots: if the store of `value` to the word at `at` frees pages, marks these as unsettled.
    pub(super) fn unsettle_vacated(&self, log: SharedLog, at: PersistentAddress, value: u64) {
        if let Some(pages) = heap::vacated_pages(&self.view, at, value)
            && !self.view.memory.omitted(Step::PastLogSnapshots)
        {
            log.unsettle(&self.view.memory, pages);
        }
    }

    /// Reads words of pages of an extent. Transactions that free the extent write to `guard`.
    pub(super) fn read_pages(
        &mut self,
        guard: PersistentAddress,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        let is_usual = matches!(self.state, State::Writing | State::Noting | State::Reading);
        if !is_usual || self.concurrency() == Concurrency::Locks {
            return self.read_range(at, into);
        }
        if !self.may_have(at, into.len() as u64) {
            self.look(at, into.len() as u64)?;
        }
        let read_before = self.reads.len();
        self.read(guard)?;
        if self.writes.is_empty() {
            self.load_pages(at, into);
        } else {
            self.own_lines_or_home(at, into);
        }
        if self.view.memory.omitted(Step::PastLogGuard) || self.are_guards_unchanged(read_before) {
            return Ok(());
        }
        Err(self.doom(Abort::Conflict))
    }

    /// Loads words of pages from home, and prefetches the next page while it loads one.
    fn load_pages(&self, at: PersistentAddress, into: &mut [u64]) {
        const PAGE_WORDS: usize = (PAGE_BYTES / WORD_BYTES) as usize;
        for (page, words) in (0..).zip(into.chunks_mut(PAGE_WORDS)) {
            let at = at.byte(page * PAGE_BYTES);
            self.view.memory.prefetch(at.byte(PAGE_BYTES), PAGE_WORDS);
            self.view.memory.load_range(at, words);
        }
    }

    /// Reads words, including those that this transaction has written.
    fn own_lines_or_home(&mut self, mut at: PersistentAddress, into: &mut [u64]) {
        let first = at.words_left_in_line().min(into.len());
        let (head, rest) = into.split_at_mut(first);
        let lines = std::iter::once(head).chain(rest.chunks_mut((LINE_BYTES / WORD_BYTES) as usize));
        for line in lines {
            if self.writes.may_have(at, line.len()) {
                self.own_or_home(at, line);
            } else {
                self.view.memory.load_range(at, line);
            }
            at = at.word_inside(line.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::PAGE_BYTES;
    use crate::{Options, Pool, Read, Runner, Transaction};

    /// A transaction gets chunks for other blocks, and then uses them for extents.
    #[test]
    fn an_extent_where_the_transaction_had_other_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(folder.path().join("pool"), &Options::default()).unwrap();
        let mut worker = pool.worker().unwrap();
        let words: Vec<u64> = (1..=PAGE_BYTES / 4).collect();
        for bytes in [100, 300 << 10] {
            let at = worker
                .run(|tx| {
                    // Enough blocks that the allocator hands out new chunks.
                    let blocks =
                        (0..(2 << 20) / bytes).map(|_| tx.alloc(bytes)).collect::<Result<Vec<_>, _>>()?;
                    blocks.iter().try_for_each(|&block| tx.write(block, 7))?;
                    blocks.iter().try_for_each(|&block| tx.free(block))?;
                    let (at, pages) = tx.alloc_pages(2)?.unwrap();
                    tx.fill_pages(at, &words[..512 * pages as usize])?;
                    Ok((at, pages))
                })
                .unwrap();
            let mut found = vec![0; 512 * at.1 as usize];
            worker.view(|tx| tx.read_range(at.0, &mut found)).unwrap();
            assert!(found == words[..found.len()], "after blocks of {bytes} bytes");
        }
    }
}
