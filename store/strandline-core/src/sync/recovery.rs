//! Recovery: the heap file and the log, put together after a crash; and how both begin.
//!
//! # The protocol
//!
//! 1. The newest valid checkpoint slot says (generation, S, W).
//!    If the other is damaged (a crash leaves none so: a slot lies in one sector), nothing in the log may lie beyond the
//!    blocks that this one leads to; else it may have been the newer one, and this is an error.
//! 2. From S on, blocks are accepted as long as checksum and exact number fit. A read error is an error, not
//!    the end of the log. The first block that does not fit, e, is the end, unless one of the next 2 F places has a block of this life, with a
//!    number above e, whose D is above e: then e was durable. Nor may a block there have a G above the slot's generation: then a
//!    newer slot was durable. Both are damage. (F is the most blocks of one write. One write may be in flight behind e, and leave holes;
//!    what follows e within one write is no proof, and behind it at most one more write begins.) What this cannot see is that the
//!    very last write is lost. A last transaction without commit record is dropped. Everything is checked before
//!    anything is written.
//! 3. The slot and the accepted blocks are written again in place, the same bytes, durably. What was read may
//!    be only in the page cache, left there by a killed process or a failed flush: believing it without
//!    writing it would build on what a power failure takes away. (The slot too: the next one goes over the
//!    other slot, which may be the only one on the medium. Where a sector is written whole or not at all that
//!    would do no harm; it costs one write.)
//! 4. If a large transaction was cut short, what its journal has is put back (`alone.rs`). The transactions are replayed into memory, in
//!    portions of so many pages, and every page that they touch, changed or not, is written to the heap file; flush. What is written and over the memory
//!    bound is given back. Unchanged pages too: that the page cache already shows the new contents says nothing. Nor does it say that
//!    the file is as long as it seems: where it is longer than it need be, its last page is written again.
//! 5. The life that begins is written into the log's header, durably. Then a slot with S + N, the highest TxID accepted and that
//!    life goes over the older slot; flush. Every number of an
//!    earlier life is below the S + N of its durable slot, and marked with another life, so that no block it left can
//!    ever fit again ([`block`](super::block)).
//!
//! Only then does open return. A crash anywhere repeats it, to the same result: until the new slot is durable
//! the old one and its blocks stand.
//!
//! A reader does 1 and 2 and replays into its own mapping; it writes nothing.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES, SharedLayout, View};
use crate::log::{Journal, Record, Write, merge};
use crate::memory::{Memory, PersistentAddress, Step};
use crate::scheme::check_transaction;

use super::SyncParameters;
use super::block::{self, BLOCK_BYTES, BlockHead, CREATION, FIRST_BLOCK, Lives, LogIdentity};
use super::checkpoint::copy_page;
use super::damage::{LogDamage, proves_damage};
use super::group_flush::WRITE_BLOCKS;
use super::repair::highest_block;
use super::runs::unpack;
use super::shared_log::SharedLog;
use super::slot::CheckpointSlot;
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};

/// Blocks read or written at a time.
const BATCH_BLOCKS: u64 = 256;
/// Blocks written again in one durable write: each waits for the device to flush.
const AGAIN_BLOCKS: u64 = 4096;
/// Pages written at a time.
const BATCH_PAGES: usize = 256;
/// Pages replayed at a time, at most, those that are written again and again counted repeatedly: they are in memory together.
const REPLAYED_PAGES: u64 = 16384;
/// Words replayed at a time, at most.
const REPLAYED_WORDS: usize = 1 << 20;

/// What the recovery of a `Sync` pool found and did.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// # let pool = Pool::create(&path, &options)?;
/// # let mut worker = pool.worker()?;
/// # worker.run(|tx| tx.write(tx.root(0), 5))?;
/// # drop(pool);
/// # drop(worker);
/// # let db = Pool::open(&path, &options)?;
/// // Before a crash, one transaction has stored one word.
/// let report = db.recovery().sync.unwrap();
/// assert_eq!((report.replayed, report.words, report.pages, report.watermark), (1, 1, 1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncRecoveryReport {
    /// S of the newest slot: the first block read.
    pub start: u64,
    /// Blocks of the ring that were accepted.
    pub blocks: u64,
    /// Records in them.
    pub records: u64,
    /// Transactions above the watermark, which were replayed.
    pub replayed: u64,
    /// Records of a last transaction without commit record, which were dropped.
    pub dropped: u64,
    /// Words stored home by replaying.
    pub words: u64,
    /// Pages of 4 KB that they lie in; written to the heap file, unless the pool is only read. The log is replayed in portions, and a page
    /// counts in each that has stored to it.
    pub pages: u64,
    /// The highest TxID accepted; new TxIDs start above it.
    pub watermark: u64,
    /// Blocks that were dropped because the log is damaged before them, where
    /// [`SyncParameters::cut_damaged_log`] allows that.
    pub lost_blocks: u64,
    /// Transactions whose ends were in them: besides those in the damaged block itself.
    pub lost_transactions: u64,
}

/// The newest valid checkpoint slot.
struct NewestSlot {
    slot: CheckpointSlot,
    index: u64,
    /// The other slot is valid, too, so that no newer one can have been lost.
    is_confirmed: bool,
}

/// What the log says above the newest slot.
struct Found {
    slot: CheckpointSlot,
    /// The newest slot's index.
    index: u64,
    /// The accepted blocks, from S on.
    blocks: Vec<u8>,
    /// How many of the words that they write are those of committed transactions. They come first.
    committed: u64,
    /// That of a large transaction that was cut short.
    journal: Option<Journal>,
    report: SyncRecoveryReport,
}

fn cannot(what: &str, file: DeviceFile) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::io(format!("{what} the pool's {} file", file.name()), source)
}

/// Begins a pool's log: fills the log file with zeros, really written, so that no later append allocates, and
/// writes its header; then writes the first checkpoint slot into the heap file, which is large enough already.
/// All durable on return. TxIDs will start above `watermark` (0 for a new pool). The nonce in `identity` is to be
/// drawn anew for each log.
///
/// # Errors
/// The parameters are impossible, or the device fails; `ENOSPC` above all.
pub fn create(
    device: &dyn Device,
    identity: LogIdentity,
    parameters: SyncParameters,
    watermark: u64,
) -> Result<()> {
    parameters.check()?;
    let (log, heap) = (DeviceFile::Log, DeviceFile::Heap);
    let ring = parameters.first_ring();
    super::ring::fill(device, ring).map_err(cannot("allocate", log))?;
    device.flush(log).map_err(cannot("flush", log))?;
    let lives = Lives { current: CREATION, previous: CREATION };
    let header = block::header(identity, ring, lives);
    device.write_durable(log, 0, &header).map_err(cannot("write", log))?;
    // Both, so that no slot of an earlier log is left; the one with the higher generation counts.
    for (index, generation) in [(1, 1), (0, 2)] {
        let (start, nonce, life) = (FIRST_BLOCK, identity.nonce, CREATION);
        CheckpointSlot { generation, start, watermark, nonce, life, ring }
            .write(device, index, &identity.pool)
            .map_err(cannot("write", heap))?;
    }
    device.flush(heap).map_err(cannot("flush", heap))
}

/// What the header of a log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// Whose log it is.
    pub identity: LogIdentity,
    /// N, the blocks in its ring.
    pub ring: u64,
    pub(super) lives: Lives,
}

/// The header of the log file, if that is whole. `path` is for messages.
///
/// # Errors
/// [`Error::LogFile`] says what is wrong; the device fails.
pub fn read_log_header(device: &dyn Device, path: &Path) -> Result<LogHeader> {
    let wrong = |problem: String| {
        Error::LogFile {
        path: path.display().to_string(),
        problem,
        advice: "if the pool was closed cleanly it needs no log: move this one away; otherwise put the pool's own log back, try \
                 `strandline pool check --repair`, or restore a backup with `strandline pool restore`"
            .into(),
    }
    };
    let log = DeviceFile::Log;
    let size = device.size(log).map_err(cannot("look at", log))?;
    if size < BLOCK_BYTES {
        return Err(wrong(format!("has {size} bytes, too few for a header")));
    }
    let mut header = AlignedBuffer::new(BLOCK_BYTES as usize);
    device.read(log, 0, &mut header).map_err(cannot("read", log))?;
    let (identity, ring, lives) = block::read_header(&header).map_err(wrong)?;
    let expected = BLOCK_BYTES * (1 + ring);
    if size < expected {
        return Err(wrong(format!("has {size} bytes but its header says {expected}: it was truncated")));
    }
    Ok(LogHeader { identity, ring, lives })
}

/// Returns whether the log file has the header of an older format, and is that of the pool with this UUID.
///
/// # Errors
/// Returns an error if the device fails.
pub(crate) fn is_older_log(device: &dyn Device, pool: &[u8; 16]) -> io::Result<bool> {
    if device.size(DeviceFile::Log)? < BLOCK_BYTES {
        return Ok(false);
    }
    let mut header = AlignedBuffer::new(BLOCK_BYTES as usize);
    device.read(DeviceFile::Log, 0, &mut header)?;
    Ok(block::is_older_header(&header, pool))
}

/// Checks a run of records, and counts what they write.
struct Judge<'l> {
    layout: &'l Layout,
    words: u64,
    /// Those words that have a commit record.
    committed: u64,
    watermark: u64,
}

impl Judge<'_> {
    fn take(&mut self, record: Record, report: &mut SyncRecoveryReport) -> Result<()> {
        report.records += 1;
        match record {
            Record::Data { address, .. } => {
                self.layout.check_replayed(PersistentAddress::new(address), 1)?;
                self.words += 1;
            }
            Record::Commit { transaction } => {
                // The log has TxIDs without gaps: they are taken under the latch.
                if transaction != self.watermark + 1 {
                    return Err(Error::damaged(format!(
                        "transaction {transaction} follows {} in the log",
                        self.watermark
                    )));
                }
                self.watermark = transaction;
                self.committed = self.words;
                report.replayed += 1;
                report.dropped = 0;
                return Ok(());
            }
            Record::Abort { .. } | Record::CountedCommit { .. } => {
                return Err(Error::damaged("the shared log has a record of another kind of log"));
            }
        }
        report.dropped += 1;
        Ok(())
    }
}

impl SharedLog {
    /// Recovers the pool, and makes the volatile words ready for transactions. Run by one thread, before any
    /// transaction, with memory that shows the heap file and volatile words that are zeros. Idempotent.
    ///
    /// # Errors
    /// Both slots are invalid, or the log contradicts itself ([`Error::Damaged`], nothing is changed); the
    /// device fails: drop the memory, and run it again on a new one.
    pub fn recover<M: Memory>(&self, view: &View<M>) -> Result<SyncRecoveryReport> {
        let memory = &view.memory;
        let device = self.device(view)?;
        let mut found = self.find(view, device)?;
        let heap = DeviceFile::Heap;
        found.slot.write(device, found.index, &self.identity.pool).map_err(cannot("write", heap))?;
        if !memory.omitted(Step::SyncRecoveryBlocks) {
            self.write_again(device, found.slot.start, &found.blocks)?;
        }
        let mut copies = AlignedBuffer::new(0);
        if let Some(journal) = &found.journal
            && !memory.omitted(Step::SyncJournalRollBack)
        {
            for granules in journal.parts(BATCH_PAGES as u64) {
                let pages = journal.roll_back_part(memory, granules);
                found.report.pages += pages.len() as u64;
                self.write_recovered(view, device, &pages, &mut copies)?;
            }
        }
        found.report.pages += self.replay(memory, &found, |pages| {
            pages
                .chunks(BATCH_PAGES)
                .try_for_each(|pages| self.write_recovered(view, device, pages, &mut copies))
        })?;
        self.write_end_again(view, device).map_err(cannot("write", heap))?;
        if !memory.omitted(Step::SyncRecoveryHeapFlush) {
            device.flush(heap).map_err(cannot("flush", heap))?;
        }
        self.forget_journal(view, device).map_err(cannot("write", heap))?;
        let (next, life) = if memory.omitted(Step::SyncRecoveryNumbers) {
            (found.slot.start + found.report.blocks, found.slot.life)
        } else {
            (found.slot.start + self.ring, self.life_after(found.slot.life))
        };
        self.write_header(device, self.ring, Lives { current: life, previous: found.slot.life })
            .map_err(cannot("write", DeviceFile::Log))?;
        self.begin_ring(memory);
        memory.store(self.life(), life);
        memory.store(self.generation(), found.slot.generation);
        memory.store(self.newest_slot(), found.index);
        self.write_slot(view, device, next, found.report.watermark).map_err(|error| match error {
            Error::Poisoned { .. } => {
                Error::io("write the checkpoint slot with which recovery ends", self.cause(memory))
            }
            other => other,
        })?;
        self.begin_at(memory, next, found.report.watermark);
        self.find_used(view);
        Ok(found.report)
    }

    /// Writes pages that recovery has stored to, and gives memory back where there is too much.
    fn write_recovered<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        pages: &[u64],
        copies: &mut AlignedBuffer,
    ) -> Result<()> {
        let (memory, heap) = (&view.memory, DeviceFile::Heap);
        copies.make_room(pages.len() * PAGE_BYTES as usize);
        let copies = &mut copies[..pages.len() * PAGE_BYTES as usize];
        for (&page, copy) in pages.iter().zip(copies.chunks_exact_mut(PAGE_BYTES as usize)) {
            copy_page(memory, page, copy);
        }
        if memory.omitted(Step::SyncRecoveryPages) {
            for (&page, copy) in pages.iter().zip(copies.chunks_exact(PAGE_BYTES as usize)) {
                let mut shown = AlignedBuffer::new(PAGE_BYTES as usize);
                device.read(heap, page * PAGE_BYTES, &mut shown).map_err(cannot("read", heap))?;
                if shown[..] != copy[..] {
                    device.write(heap, page * PAGE_BYTES, copy).map_err(cannot("write", heap))?;
                }
            }
        } else {
            device.write_pages(heap, pages, copies).map_err(cannot("write", heap))?;
        }
        self.mark_private(memory, pages);
        self.give_back_clean(view);
        Ok(())
    }

    /// Gives the writes of the committed transactions in the order of the log.
    fn committed_writes(&self, found: &Found, mut take: impl FnMut(Write) -> Result<()>) -> Result<()> {
        let mut left = found.committed;
        for (number, block) in (found.slot.start..).zip(found.blocks.chunks_exact(BLOCK_BYTES as usize)) {
            let places = block::check(block, number, found.slot.life, self.seed);
            unpack(block, places.expect("it was accepted"), |record| match record {
                Record::Data { address, value, mask } if left > 0 => {
                    left -= 1;
                    take(Write { address: PersistentAddress::new(address), value, mask })
                }
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Stores home what the committed transactions wrote, in the order of the log and in portions. After each, `done` is given the pages that it
    /// has stored to, in order. Returns how many these were in all; a page of several portions counts in each.
    fn replay<M: Memory>(
        &self,
        memory: &M,
        found: &Found,
        mut done: impl FnMut(&[u64]) -> Result<()>,
    ) -> Result<u64> {
        let most_pages = self.private_bound.clamp(BATCH_PAGES as u64, REPLAYED_PAGES) as usize;
        let (mut writes, mut pages, mut all) = (Vec::new(), Vec::new(), 0);
        let mut portion = |writes: &mut Vec<Write>, pages: &mut Vec<u64>| {
            pages.sort_unstable();
            pages.dedup();
            let mut places: Vec<_> =
                pages.iter().map(|page| PersistentAddress::new(page * PAGE_BYTES)).collect();
            // All of them together: one after another each would be waited for.
            memory.read_ahead(&mut places, 1, 0);
            store_home(memory, writes);
            all += pages.len() as u64;
            done(pages)?;
            writes.clear();
            pages.clear();
            Ok(())
        };
        self.committed_writes(found, |write| {
            let page = page_of(&write);
            if writes.len() == REPLAYED_WORDS || pages.len() == most_pages {
                portion(&mut writes, &mut pages)?;
            }
            if pages.last() != Some(&page) {
                pages.push(page);
            }
            writes.push(write);
            Ok(())
        })?;
        portion(&mut writes, &mut pages)?;
        Ok(all)
    }

    /// Replays the log into memory and writes nothing, for a pool that is only read.
    ///
    /// # Errors
    /// As for [`SharedLog::recover`].
    pub fn recover_read_only<M: Memory>(&self, view: &View<M>) -> Result<SyncRecoveryReport> {
        let mut found = self.find(view, self.device(view)?)?;
        if let Some(journal) = &found.journal {
            journal.roll_back(&view.memory, |_| ());
        }
        found.report.pages += self.replay(&view.memory, &found, |_| Ok(()))?;
        self.begin_at(&view.memory, found.slot.start + self.ring, found.report.watermark);
        Ok(found.report)
    }

    /// The pages that recovery would write: until then they may be as a crash left them.
    ///
    /// # Errors
    /// As for [`SharedLog::recover`].
    pub fn logged_pages<M: Memory>(&self, view: &View<M>) -> Result<HashSet<u64>> {
        let found = self.find(view, self.device(view)?)?;
        let mut pages = HashSet::new();
        self.committed_writes(&found, |write| {
            pages.insert(page_of(&write));
            Ok(())
        })?;
        if let Some(journal) = &found.journal {
            pages.extend(journal.pages(&view.memory));
        }
        Ok(pages)
    }

    /// The life that begins, which is not the last one; but while a pool is made, there is one life only.
    fn life_after(&self, last: u64) -> u64 {
        match self.next_life {
            CREATION => CREATION,
            life if life == last => last % block::MAXIMAL_LIFE + 1,
            life => life,
        }
    }

    /// Ends the life in which a pool was made, whose log nobody needs after this: the next one begins with the number `life`. No transaction runs,
    /// and no checkpoint.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub(crate) fn end_creation<M: Memory>(&self, view: &View<M>, life: u64) -> Result<()> {
        let (memory, device) = (&view.memory, self.device(view)?);
        self.checkpoint(view)?;
        let life = (life & block::MAXIMAL_LIFE).max(CREATION + 1);
        let ring = self.ring_blocks(memory);
        self.write_header(device, ring, Lives { current: life, previous: CREATION })
            .map_err(cannot("write", DeviceFile::Log))?;
        memory.store(self.life(), life);
        self.write_slot(view, device, memory.load(self.start()), memory.load(self.last_transaction()))
    }

    fn begin_at<M: Memory>(&self, memory: &M, block: u64, watermark: u64) {
        self.begin_ring(memory);
        // No page holds anything of a later block.
        let (records_end, marked) = (self.records_end(), self.marked());
        for word in [self.filling(), self.claimed(), self.durable(), self.start(), records_end, marked] {
            memory.store(word, block);
        }
        for word in [
            self.last_transaction(),
            self.durable_transaction(),
            self.marked_transaction(),
            SharedLayout::CLOCK,
            SharedLayout::PUBLISHED_WATERMARK,
        ] {
            memory.store(word, watermark);
        }
    }

    /// Reads slots and log; changes nothing.
    fn find<M: Memory>(&self, view: &View<M>, device: &dyn Device) -> Result<Found> {
        let NewestSlot { slot, index, is_confirmed } = self.find_newest_slot(device)?;
        let mut report = SyncRecoveryReport { start: slot.start, ..SyncRecoveryReport::default() };
        let mut judge = Judge { layout: &view.layout, words: 0, committed: 0, watermark: slot.watermark };
        let blocks = self.read_blocks(device, &slot, |record| judge.take(record, &mut report))?;
        let number = slot.start + blocks.len() as u64 / BLOCK_BYTES;
        report.blocks = number - slot.start;
        if let Some(damage) = self.damage_behind(view, device, &slot, number)? {
            if !self.cuts_damage {
                return Err(Error::damaged(damage.to_string()));
            }
            (report.lost_blocks, report.lost_transactions) = (damage.blocks, damage.transactions);
        }
        if !is_confirmed {
            self.check_that_nothing_follows(device, number)?;
        }
        // Higher only where the pool's last life was under another domain and closed cleanly.
        report.watermark = judge.watermark.max(view.memory.load(Layout::WATERMARK));
        check_transaction(report.watermark)?;
        let omits_incomplete = !view.memory.omitted(Step::SyncRecoveryIncomplete);
        let committed = if omits_incomplete { judge.committed } else { judge.words };
        report.words = committed;
        let journal = self.find_journal(view, slot.generation)?;
        if !is_confirmed && self.has_journal_since(&view.memory, slot.generation) {
            // Was the transaction cut short, or did the other slot say that it has committed?
            return Err(Error::damaged(
                "one of its checkpoint slots is not valid, and a large transaction may have been committed by it",
            ));
        }
        Ok(Found { slot, index, blocks, committed, journal, report })
    }

    /// The newest valid checkpoint slot of this log.
    fn find_newest_slot(&self, device: &dyn Device) -> Result<NewestSlot> {
        let mut newest: Option<(CheckpointSlot, u64)> = None;
        let mut valid = 0;
        for index in 0..2 {
            let slot = CheckpointSlot::read(device, index, &self.identity.pool)
                .map_err(cannot("read", DeviceFile::Heap))?
                .filter(|slot| slot.nonce == self.identity.nonce)
                // An impossible number: a slot with a fitting checksum never has one.
                .filter(|slot| slot.start >= FIRST_BLOCK && slot.start.checked_add(2 * self.ring).is_some());
            valid += u64::from(slot.is_some());
            if let Some(slot) = slot
                && newest.is_none_or(|(other, _)| slot.generation > other.generation)
            {
                newest = Some((slot, index));
            }
        }
        let (slot, index) =
            newest.ok_or_else(|| Error::damaged("neither of its checkpoint slots is valid"))?;
        Ok(NewestSlot { slot, index, is_confirmed: valid == 2 })
    }

    /// Reads the blocks that are accepted above `slot`, and gives their records to `take`.
    fn read_blocks(
        &self,
        device: &dyn Device,
        slot: &CheckpointSlot,
        mut take: impl FnMut(Record) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let mut blocks = Vec::new();
        let mut buffer = AlignedBuffer::new((BATCH_BLOCKS.min(self.ring) * BLOCK_BYTES) as usize);
        let mut number = slot.start;
        while number < slot.start + self.ring {
            let count =
                (slot.start + self.ring - number).min(self.ring - number % self.ring).min(BATCH_BLOCKS);
            let batch = &mut buffer[..(count * BLOCK_BYTES) as usize];
            let offset = block::offset(number, self.ring);
            device.read(DeviceFile::Log, offset, batch).map_err(cannot("read", DeviceFile::Log))?;
            for block in batch.chunks_exact(BLOCK_BYTES as usize) {
                let Some(places) = block::check(block, number, slot.life, self.seed) else {
                    return Ok(blocks);
                };
                unpack(block, places, &mut take)?;
                blocks.extend_from_slice(block);
                number += 1;
            }
        }
        Ok(blocks)
    }

    /// The damage that the 2 F blocks behind block number `end`, where the log ends, prove.
    fn damage_behind<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        slot: &CheckpointSlot,
        end: u64,
    ) -> Result<Option<LogDamage>> {
        let last = (end + 2 * WRITE_BLOCKS).min(slot.start + self.ring);
        let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
        for number in end..last {
            device
                .read(DeviceFile::Log, block::offset(number, self.ring), &mut found)
                .map_err(cannot("read", DeviceFile::Log))?;
            let proves = |head: BlockHead| proves_damage(&head, slot, end);
            if block::read_head(&found, self.seed).is_some_and(proves) && !view.memory.omitted(Step::SyncMark)
            {
                return LogDamage::find(device, self.ring, self.seed, slot, end)
                    .map_err(cannot("read", DeviceFile::Log));
            }
        }
        Ok(None)
    }

    /// One of the slots is damaged. If it was the newer one, the log may go on after block numbers that the other one does
    /// not lead to, and starting from that would lose transactions; unless no block has number `end` or a higher one.
    fn check_that_nothing_follows(&self, device: &dyn Device, end: u64) -> Result<()> {
        let highest = highest_block(device, self.ring, self.seed).map_err(cannot("read", DeviceFile::Log))?;
        match highest.filter(|&highest| highest >= end) {
            Some(highest) => Err(Error::damaged(format!(
                "one of its checkpoint slots is not valid, and block {highest} of the log does not follow from the other"
            ))),
            None => Ok(()),
        }
    }

    /// Writes the accepted blocks again in place, durably.
    fn write_again(&self, device: &dyn Device, start: u64, blocks: &[u8]) -> Result<()> {
        let (mut number, mut rest) = (start, blocks);
        while !rest.is_empty() {
            let count =
                (rest.len() as u64 / BLOCK_BYTES).min(self.ring - number % self.ring).min(AGAIN_BLOCKS);
            let (now, later) = rest.split_at((count * BLOCK_BYTES) as usize);
            device
                .write_durable(DeviceFile::Log, block::offset(number, self.ring), now)
                .map_err(cannot("write", DeviceFile::Log))?;
            (number, rest) = (number + count, later);
        }
        Ok(())
    }
}

fn page_of(write: &Write) -> u64 {
    write.address.offset() / PAGE_BYTES
}

fn store_home<M: Memory>(memory: &M, writes: &[Write]) {
    for write in writes {
        let value = match write.mask {
            0xff => write.value,
            mask => merge(memory.load(write.address), write.value, mask),
        };
        memory.store(write.address, value);
    }
}
