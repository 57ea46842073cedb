//! Large transactions in the `Sync` domain.
//!
//! A transaction that does not fit the log runs alone. It changes the heap in memory, and saves what it overwrites in an undo journal
//! (`log/journal.rs`, `engine/large.rs`). It takes two checkpoints itself, between which no other thread may take one:
//!
//! 1. The first checkpoint is written to both slots. Nothing in the ring is needed then, and the heap file is complete, whichever slot is lost later.
//!    G is the generation of the newer slot.
//! 2. Whenever enough pages are dirty, and at the end, the transaction writes and flushes the journal's chunks. Then it writes and flushes the
//!    journal's header, which contains the number of granules and G. Only then does it write dirty pages to the heap file, after their checksums are
//!    forgotten.
//! 3. It flushes the heap, and writes a slot of generation G + 1, which includes the transaction. That is the commit: from then on no journal of G
//!    counts.
//!
//! If recovery finds a slot of generation G and a journal of G, it restores the journal's granules, writes their pages and continues as usual. All
//! else that the transaction changed is in chunks that were free when it began, and that are free again. A transaction that aborts does the same in
//! memory, and then ends like one that commits without any change.
//!
//! The header is in one sector, so it is either complete or absent.

use std::cell::Cell;
use std::io;

use crate::error::Result;
use crate::layout::{Layout, PAGE_BYTES, SECTOR_BYTES, View};
use crate::log::{Journal, JournalHeader};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};
use crate::memory::latch::{lock, unlock};
use crate::memory::{Memory, PersistentAddress, Step};

use super::block::to_bytes;
use super::checkpoint::{Haste, copy_page};
use super::shared_log::{Failure, SharedLog};

impl SharedLog {
    /// Takes a checkpoint, and prevents others until [`SharedLog::end_alone`]. The caller prevents all commits, and is not in commit itself.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier. Nothing is prevented then.
    pub(crate) fn begin_alone<M: Memory>(&self, view: &View<M>) -> Result<()> {
        let memory = &view.memory;
        self.keep_checkpoints(memory);
        let has_begun = Cell::new(false);
        let begin = || {
            memory.store(self.wanted(), 0);
            self.check_poison(memory)?;
            self.run_checkpoint_both(view)?;
            has_begun.set(true);
            Ok(())
        };
        self.poisoning(memory, "a checkpoint", begin, || {
            if !has_begun.get() {
                self.let_checkpoints(memory);
            }
        })
    }

    /// Returns whether a large transaction has enough dirty pages to write them.
    pub(crate) fn is_dirty_enough<M: Memory>(&self, view: &View<M>) -> bool {
        let memory = &view.memory;
        memory.load(self.count(memory.load(self.active_bitmap()))) >= self.dirty_bound
    }

    /// Writes all dirty pages, after the journal. The first `durable` granules of the journal are durable already.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(crate) fn write_alone<M: Memory>(
        &self,
        view: &View<M>,
        journal: &Journal,
        durable: &mut u64,
    ) -> Result<()> {
        let memory = &view.memory;
        let device = self.device(view)?;
        let active = memory.load(self.active_bitmap());
        if !memory.omitted(Step::SyncForgetChecksums) {
            let mut pages = self.pages_of(view, active);
            device
                .forget_checksums(&mut pages)
                .map_err(|error| self.poison(memory, Failure::HeapWrite, &error))?;
        }
        let late = memory.omitted(Step::SyncJournal);
        if !late {
            self.write_journal(view, device, journal, durable)?;
        }
        self.write_dirty_pages(view, device, active, Haste::Hurried)?;
        memory.store(self.count(active), 0);
        if late {
            self.write_journal(view, device, journal, durable)?;
        }
        Ok(())
    }

    /// Makes the journal durable, if it has more than `durable` granules.
    fn write_journal<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        journal: &Journal,
        durable: &mut u64,
    ) -> Result<()> {
        let memory = &view.memory;
        if journal.granules() == *durable {
            return Ok(());
        }
        self.write_chunks(view, device, journal.chunks_since(*durable))?;
        let heap = DeviceFile::Heap;
        let failed = |error: io::Error| self.poison(memory, Failure::HeapWrite, &error);
        // The journal's first part shares its page with words that other threads write.
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        copy_page(memory, Layout::JOURNAL.offset() / PAGE_BYTES, &mut page);
        let inside = (Layout::JOURNAL.offset() % PAGE_BYTES + SECTOR_BYTES) as usize;
        device.write(heap, Layout::JOURNAL.offset() + SECTOR_BYTES, &page[inside..]).map_err(failed)?;
        if !memory.omitted(Step::SyncJournalFlush) {
            device.flush(heap).map_err(|e| self.poison(memory, Failure::HeapFlush, &e))?;
        }
        self.write_journal_header(view, device, journal.granules()).map_err(failed)?;
        device.flush(heap).map_err(|e| self.poison(memory, Failure::HeapFlush, &e))?;
        *durable = journal.granules();
        Ok(())
    }

    /// Writes the dirty pages of the journal's chunks.
    fn write_chunks<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        chunks: impl Iterator<Item = PersistentAddress>,
    ) -> Result<()> {
        let memory = &view.memory;
        let active = memory.load(self.active_bitmap());
        let (mut copies, mut batch) = (AlignedBuffer::new(0), Vec::new());
        for chunk in chunks {
            let first = chunk.offset() / PAGE_BYTES;
            for page in first..first + view.layout.geometry.chunk_bytes / PAGE_BYTES {
                let (word, bit) = (self.bitmap(active, page / 64), 1 << (page % 64));
                let bits = memory.load(word);
                if bits & bit != 0 {
                    self.add_recent(memory, page / 64, bit);
                    // No other thread marks pages now.
                    memory.store(word, bits & !bit);
                    batch.push(page);
                    if batch.len() >= self.batch_pages(memory, device, Haste::Hurried) {
                        self.write_batch(view, device, &mut batch, &mut copies, Haste::Hurried)?;
                    }
                }
            }
        }
        self.write_batch(view, device, &mut batch, &mut copies, Haste::Hurried).map(drop)
    }

    fn write_journal_header<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        granules: u64,
    ) -> io::Result<()> {
        let memory = &view.memory;
        let generation = memory.load(self.generation());
        let checksum = self.journal_checksum(granules, generation);
        let mut sector = [0; SECTOR_BYTES as usize];
        to_bytes(&[granules, generation, checksum], &mut sector);
        device.write(DeviceFile::Heap, Layout::JOURNAL.offset(), &sector)
    }

    fn journal_checksum(&self, granules: u64, generation: u64) -> u64 {
        let mut bytes = [0; 16];
        to_bytes(&[granules, generation], &mut bytes);
        crc32c::crc32c_append(self.seed, &bytes).into()
    }

    /// Ends what [`SharedLog::begin_alone`] has begun. When this returns, transaction `transaction` is durable in the heap file.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier; the outcome is unknown then.
    pub(crate) fn end_alone<M: Memory>(
        &self,
        view: &View<M>,
        transaction: u64,
        journal: &Journal,
        durable: &mut u64,
    ) -> Result<()> {
        let end = || {
            self.check_poison(&view.memory)?;
            self.write_alone(view, journal, durable)?;
            self.commit_alone(view, transaction)
        };
        self.poisoning(&view.memory, "a commit", end, || self.let_checkpoints(&view.memory))
    }

    fn commit_alone<M: Memory>(&self, view: &View<M>, transaction: u64) -> Result<()> {
        let memory = &view.memory;
        let device = self.device(view)?;
        if !memory.omitted(Step::SyncHeapFlush) {
            device.flush(DeviceFile::Heap).map_err(|e| self.poison(memory, Failure::HeapFlush, &e))?;
        }
        self.write_slot(view, device, memory.load(self.start()), transaction)?;
        lock(memory, self.latch());
        memory.store(self.last_transaction(), transaction);
        unlock(memory, self.latch());
        memory.store(self.durable_transaction(), transaction);
        // The journal has ended. The file must show this only when the pool is opened in another domain; this write is durable by then.
        memory.store(JournalHeader::GRANULES, 0);
        self.write_journal_header(view, device, 0)
            .map_err(|error| self.poison(memory, Failure::HeapWrite, &error))
    }

    /// Returns whether a large transaction's journal exists that belongs to this generation or a later one.
    pub(super) fn has_journal_since<M: Memory>(&self, memory: &M, generation: u64) -> bool {
        let [granules, of, checksum] =
            [JournalHeader::GRANULES, JournalHeader::GENERATION, JournalHeader::CHECKSUM]
                .map(|at| memory.load(at));
        granules != 0 && of >= generation && checksum == self.journal_checksum(granules, of)
    }

    /// Finds the journal of a large transaction that a crash has interrupted. The newest slot has this generation.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if the journal is damaged.
    pub(super) fn find_journal<M: Memory>(&self, view: &View<M>, generation: u64) -> Result<Option<Journal>> {
        let memory = &view.memory;
        let [granules, of, checksum] =
            [JournalHeader::GRANULES, JournalHeader::GENERATION, JournalHeader::CHECKSUM]
                .map(|at| memory.load(at));
        if granules == 0 || of != generation || checksum != self.journal_checksum(granules, generation) {
            return Ok(None);
        }
        Journal::find(memory, &view.layout, granules).map(Some)
    }

    /// Notes in the heap file that there is no journal. This is durable after a flush.
    pub(super) fn forget_journal<M: Memory>(&self, view: &View<M>, device: &dyn Device) -> io::Result<()> {
        let memory = &view.memory;
        if memory.load(JournalHeader::GRANULES) == 0 {
            return Ok(());
        }
        memory.store(JournalHeader::GRANULES, 0);
        self.write_journal_header(view, device, 0)
    }
}
