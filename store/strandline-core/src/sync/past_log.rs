//! Writes to the heap file past the log: to free pages, by a transaction that has allocated them.
//!
//! `engine/past_log.rs` has the protocol. This file keeps the log's knowledge of pages: which free pages are *settled*, so that their contents are
//! not needed any more, and which part of the heap was never used.
//!
//! # Settled pages
//!
//! A free page is settled when neither recovery nor a checkpoint will store to it, and no snapshot reads it. A dirty page is not. When a
//! checkpoint A takes it, the page becomes a *recent* page of A before it stops being dirty. It stays recent until A and the next
//! checkpoint, B, have ended and a third begins. By then both slots are past the page's records, so that recovery does not replay them even
//! if a slot is damaged. A page that is freed while there are snapshots becomes recent as well. Recent pages are forgotten unless a
//! snapshot exists that is older than checkpoint B.
//!
//! There are two sets of recent pages; new ones are added to one of them. A checkpoint empties the other set and, with the gate closed,
//! makes it the one to which pages are added.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::error::Result;
use crate::layout::{PAGE_BYTES, SharedLayout, View};
use crate::memory::device::{DeviceFile, Page};
use crate::memory::latch::load_in_order;
use crate::memory::{Memory, PersistentAddress, Space, Step, VolatileAddress};

use super::block::to_bytes;
use super::pages::bits_of;
use super::shared_log::{Failure, SPARE_BLOCKS, SharedLog};

/// The number of the first of the two bitmaps of recent pages.
const RECENT: u64 = 3;
/// The number of the bitmap whose words are TxIDs instead of bits.
const VACATED: u64 = 5;
/// The number of pages that share a word of a bitmap.
const GROUP_PAGES: u64 = 64;

impl SharedLog {
    /// Returns the address of the word that selects the set of recent pages, of two, to which pages are added.
    fn adding(&self) -> VolatileAddress {
        self.line(14).word(1)
    }

    /// Returns the address of the value of the clock at the beginning of the last checkpoint.
    fn clock_of_checkpoint(&self) -> VolatileAddress {
        self.line(14).word(2)
    }

    /// Returns the address of a count of the beginnings and ends of backups: odd while a backup copies the heap file.
    fn backups(&self) -> VolatileAddress {
        self.line(14).word(3)
    }

    /// Returns the address of the offset from which on the heap's bytes were never handed out.
    fn used(&self) -> VolatileAddress {
        self.line(14).word(4)
    }

    /// Called when the pool is opened. Counts every chunk of the heap as one that was handed out before.
    pub(super) fn find_used<M: Memory>(&self, view: &View<M>) {
        let chunks = view.memory.load(view.layout.reached()).min(view.layout.chunk_count);
        view.memory.store(self.used(), view.layout.end_of(chunks).offset());
    }

    /// Notes that the `bytes` bytes at `at` are about to be handed out. Returns whether none of them was handed out before.
    pub(crate) fn hand_out<M: Memory>(&self, memory: &M, at: PersistentAddress, bytes: u64) -> bool {
        let end = at.offset() + bytes;
        let mut used = memory.load(self.used());
        while used < end {
            match memory.compare_exchange(self.used(), used, end) {
                Ok(_) => break,
                Err(now) => used = now,
            }
        }
        used <= at.offset()
    }

    /// Empties the set of recent pages to which the next checkpoint adds pages, if their contents are not needed any more. No checkpoint runs.
    pub(super) fn settle<M: Memory>(&self, view: &View<M>) {
        let memory = &view.memory;
        if memory.omitted(Step::PastLogSnapshots)
            || !view.has_snapshot_before(memory.load(self.clock_of_checkpoint()))
        {
            let next = RECENT + 1 - memory.load(self.adding());
            for index in 0..Self::bitmap_words(memory.size(Space::Persistent).min(view.layout.end().offset()))
            {
                let word = self.bitmap(next, index);
                if memory.load(word) != 0 {
                    memory.store(word, 0);
                }
            }
        }
    }

    /// Begins a checkpoint: from here on, pages are added to the other set of recent pages. The gate is closed.
    pub(super) fn begin_recent<M: Memory>(&self, memory: &M) {
        memory.store(self.adding(), 1 - memory.load(self.adding()));
        memory.store(self.clock_of_checkpoint(), memory.load(SharedLayout::CLOCK));
    }

    /// Adds pages of one word of the bitmaps to the recent ones.
    pub(super) fn add_recent<M: Memory>(&self, memory: &M, index: u64, bits: u64) {
        let word = self.bitmap(RECENT + memory.load(self.adding()), index);
        let mut old = memory.load(word);
        while old & bits != bits {
            match memory.compare_exchange(word, old, old | bits) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
    }

    /// Marks these pages as unsettled. A transaction in commit frees them while there may be snapshots that read them.
    pub(crate) fn unsettle<M: Memory>(&self, memory: &M, pages: Range<u64>) {
        let first = PersistentAddress::new(pages.start * PAGE_BYTES);
        for (index, bits) in bits_of(first, (pages.end - pages.start) * PAGE_BYTES) {
            self.add_recent(memory, index, bits);
        }
    }

    /// Returns the numbers of the groups of pages that have the `bytes` bytes at `at`. For each group the log keeps the newest transaction
    /// that has freed pages of it.
    pub(crate) fn page_groups(at: PersistentAddress, bytes: u64) -> Range<u64> {
        let group_bytes = GROUP_PAGES * PAGE_BYTES;
        at.offset() / group_bytes..(at.offset() + bytes).div_ceil(group_bytes)
    }

    /// Returns the address of the TxID of the newest transaction that has freed pages of a group since the pool was opened, or 0.
    fn vacated_by(&self, group: u64) -> VolatileAddress {
        self.bitmap(VACATED, group)
    }

    /// Notes that transaction `transaction`, in commit, frees pages of these groups.
    pub(crate) fn note_vacated<M: Memory>(&self, memory: &M, groups: &BTreeSet<u64>, transaction: u64) {
        if memory.omitted(Step::PastLogVacated) {
            return;
        }
        for &group in groups {
            let word = self.vacated_by(group);
            let mut newest = memory.load(word);
            while newest < transaction {
                match memory.compare_exchange(word, newest, transaction) {
                    Ok(_) => break,
                    Err(now) => newest = now,
                }
            }
        }
    }

    /// Returns the newest transaction that may have freed one of the pages of the `bytes` bytes at `at`, or 0. The caller has read in its
    /// transaction that they are free, so that each transaction that freed one has been noted.
    pub(crate) fn newest_vacated<M: Memory>(&self, memory: &M, at: PersistentAddress, bytes: u64) -> u64 {
        let newest = |group| memory.load(self.vacated_by(group));
        Self::page_groups(at, bytes).map(newest).fold(0, u64::max)
    }

    /// Waits until transaction `transaction`, which has freed pages, is durable, and a durable block of the log records this. Returns false
    /// if the log has no room for such a block, and the pages must not be written past it.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(crate) fn wait_for_freed<M: Memory>(&self, view: &View<M>, transaction: u64) -> Result<bool> {
        let memory = &view.memory;
        if memory.omitted(Step::PastLogDurable) {
            return Ok(true);
        }
        if memory.load(self.marked_transaction()) < transaction {
            let end = memory.load(self.start()) + self.ring_blocks(memory);
            let room = end.saturating_sub(memory.load(self.claimed()));
            if room <= 2 * SPARE_BLOCKS {
                self.ask_for_checkpoint(memory);
                return Ok(false);
            }
            self.wait_durable(view, transaction)?;
            self.wait_flushed(view, true, || memory.load(self.marked_transaction()) >= transaction)?;
        }
        Ok(true)
    }

    /// Returns whether all pages of the `bytes` bytes at `at`, which are free, are settled.
    pub(crate) fn are_settled<M: Memory>(&self, memory: &M, at: PersistentAddress, bytes: u64) -> bool {
        if memory.omitted(Step::PastLogSettled) {
            return true;
        }
        // The dirty sets are read first, because a page becomes recent before it stops being dirty.
        let is_free_of = |sets: [u64; 2]| {
            bits_of(at, bytes)
                .all(|(index, bits)| sets.iter().all(|set| memory.load(self.bitmap(*set, index)) & bits == 0))
        };
        is_free_of([0, 1]) && is_free_of([RECENT, RECENT + 1])
    }

    /// Returns a bit mask of those pages of the `bytes` bytes at `at` (at most 64 pages) that were freed while there were snapshots. Some
    /// of the marks may be out of date.
    pub(crate) fn unsettled<M: Memory>(&self, memory: &M, at: PersistentAddress, bytes: u64) -> u64 {
        let first = at.offset() / PAGE_BYTES;
        bits_of(at, bytes).fold(0, |found, (index, bits)| {
            let recent = |set| memory.load(self.bitmap(set, index));
            let marked = (recent(RECENT) | recent(RECENT + 1)) & bits;
            let page = 64 * index;
            found | if page < first { marked >> (first - page) } else { marked << (page - first) }
        })
    }

    /// Returns the address of the number of readers that may have borrowed pages.
    fn borrowers(&self) -> VolatileAddress {
        self.line(14).word(6)
    }

    /// Counts a reader that is about to borrow pages, or one whose transaction or snapshot has ended.
    pub(crate) fn count_borrower<M: Memory>(&self, memory: &M, begins: bool) {
        memory.fetch_add(self.borrowers(), if begins { 1 } else { 1u64.wrapping_neg() });
    }

    /// Returns whether a reader may have borrowed pages.
    pub(crate) fn are_borrowed<M: Memory>(&self, memory: &M) -> bool {
        memory.load(self.borrowers()) != 0
    }

    /// Returns the address of the number of threads that are writing past the log.
    fn writers(&self) -> VolatileAddress {
        self.line(14).word(5)
    }

    /// Returns a number that changes when a backup begins; `None` while one copies the heap file.
    pub(crate) fn backups_begun<M: Memory>(&self, memory: &M) -> Option<u64> {
        let backups = load_in_order(memory, self.backups());
        (backups.is_multiple_of(2) || memory.omitted(Step::PastLogBackup)).then_some(backups)
    }

    /// Returns whether a backup has begun since [`SharedLog::backups_begun`] returned `begun`.
    pub(crate) fn has_backup_begun<M: Memory>(&self, memory: &M, begun: u64) -> bool {
        memory.load(self.backups()) != begun && !memory.omitted(Step::PastLogBackup)
    }

    /// Begins a backup: when this has returned, no thread writes past the log until [`SharedLog::end_backup`].
    pub(super) fn begin_backup<M: Memory>(&self, memory: &M) {
        memory.fetch_add(self.backups(), 1);
        loop {
            match load_in_order(memory, self.writers()) {
                0 => break,
                writers => memory.wait(self.writers(), writers),
            }
        }
    }

    /// Ends a backup.
    pub(super) fn end_backup<M: Memory>(&self, memory: &M) {
        memory.fetch_add(self.backups(), 1);
    }

    /// Does the same as [`SharedLog::write_past_log`], unless a backup has begun since [`SharedLog::backups_begun`] returned `begun`.
    /// Returns whether it has written.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(crate) fn write_unless_backup<M: Memory>(
        &self,
        view: &View<M>,
        at: PersistentAddress,
        words: &[u64],
        begun: u64,
    ) -> Result<bool> {
        let memory = &view.memory;
        memory.fetch_add(self.writers(), 1);
        let write = || {
            let is_alone = self.backups_begun(memory) == Some(begun);
            if is_alone { self.write_past_log(view, at, words).map(|()| true) } else { Ok(false) }
        };
        self.poisoning(memory, "a write past the log", write, || {
            memory.fetch_add(self.writers(), 1u64.wrapping_neg());
            memory.wake(self.writers());
        })
    }

    /// Writes `words` to the heap file, past the log, from the beginning of a page on, and makes the mapping show them. The rest of the
    /// last page becomes zeros. The pages are settled, and only the caller uses them.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    fn write_past_log<M: Memory>(&self, view: &View<M>, at: PersistentAddress, words: &[u64]) -> Result<()> {
        const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;
        let (memory, device, heap) = (&view.memory, self.device(view)?, DeviceFile::Heap);
        self.check_poison(memory)?;
        let pages = words.len().div_ceil(PAGE_WORDS);
        let first = at.offset() / PAGE_BYTES;
        if !memory.omitted(Step::SyncForgetChecksums) {
            device
                .forget_checksums(&mut (first..first + pages as u64))
                .map_err(|error| self.poison(memory, Failure::HeapWrite, &error))?;
        }
        let (whole, rest) = words.split_at(words.len() / PAGE_WORDS * PAGE_WORDS);
        let mut last = Page([0; PAGE_BYTES as usize]);
        to_bytes(rest, &mut last.0);
        let parts: [(u64, &[u8]); 2] = [
            (at.offset(), bytemuck::cast_slice(whole)),
            (at.word_inside(whole.len() as u64).offset(), if rest.is_empty() { &[] } else { &last.0 }),
        ];
        for (offset, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let written = device.write_kept(heap, offset, bytes);
            written.map_err(|error| self.poison(memory, Failure::HeapWrite, &error))?;
        }
        let bytes = pages as u64 * PAGE_BYTES;
        self.forget_private(memory, at, bytes);
        if !memory.give_back(at, bytes) {
            // The system refused, as it does for locked memory.
            memory.store_range(at, words);
            self.mark_private(memory, &(first..first + pages as u64).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Waits until the writes past the log are durable.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(crate) fn flush_past_log<M: Memory>(&self, view: &View<M>) -> Result<()> {
        let memory = &view.memory;
        if memory.omitted(Step::PastLogFlush) {
            return Ok(());
        }
        let flushed = self.device(view)?.flush(DeviceFile::Heap);
        flushed.map_err(|error| self.poison(memory, Failure::HeapFlush, &error))
    }
}
