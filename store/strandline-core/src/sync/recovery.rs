//! Recovery, which combines the heap file and the log after a crash; and the creation of both.
//!
//! # The protocol
//!
//! 1. Take (generation, S, W) from the newest valid checkpoint slot. The other slot may be damaged, though not by a crash, since a slot is in one
//!    sector. Then nothing in the log may follow the blocks that the valid slot leads to; otherwise the damaged slot may have been the newer one,
//!    which is an error.
//! 2. From S on, blocks are accepted as long as checksum, exact number and life fit. A read error is an error, not the end of the log. The first block
//!    that does not fit, e, is the end, unless one of the next 2 F places has a block of this life, with a number above e, whose D is above e: such a
//!    D proves that e was durable. A block there with a G above the slot's generation proves that a newer slot was durable, and the slot itself proves
//!    that the blocks were durable which its life has inherited. All of this is damage. (F is the most blocks of one write. One write may be in flight
//!    behind e and leave holes. Blocks that follow e within one write prove nothing, and at most one more write begins behind it.) This cannot detect
//!    that the very last write is lost. A last transaction without commit record is dropped. Everything is checked before anything is written.
//! 3. Write the slot and the accepted blocks again in place, with the same bytes, durably. What was read may be only in the page cache, where a
//!    killed process or a failed flush has left it, and a power failure would remove it. (The slot is written too, because the next slot overwrites
//!    the other one, which may be the only one on the medium. If sectors are written atomically this is not necessary, but it costs only one write.)
//! 4. If a large transaction was interrupted, restore its journal's granules (`large_transactions.rs`). Replay the transactions into memory
//!    in portions, and mark each page that they store to, changed or not, as dirty. Unchanged pages count as well, because new contents that are
//!    already visible may be only in the page cache. The same holds for the file's length: if the file is longer than necessary, its last page is
//!    written again.
//! 5. Write the new life durably to the log's header. Then write a slot over the older one; flush. Which slot depends:
//!    - *Usually* the new life inherits the accepted blocks: the slot has the same S and W, the new life, the one before it, and e. The log goes on
//!      with block e, and the next checkpoint writes the dirty pages. So a restart takes as long as reading the log and replaying it.
//!    - If no transaction is replayed, if some of the accepted blocks were inherited before, if there was a journal, if blocks were dropped because
//!      of damage, or if more pages are dirty than the pool's options allow, the pages are written and flushed *before* the header. The slot has
//!      S + N and the highest accepted TxID.
//!
//! In the second case each block number of an earlier life is below the S + N of its durable slot, so that no remaining block can ever fit again.
//! In the first case blocks of the life before may remain at the 2 F numbers from e on, where writes were in flight. They do not fit because of
//! their life: recovery reads the blocks in these places, and draws a life that none of them has. It cannot read the life of a torn block. If a power
//! failure brings back the whole block that was there before, that block has the new life with a probability of 2^-24. Each later recovery also drops
//! what a transaction without commit record has left in the inherited blocks, so that it does not become a part of the new life's first transaction.
//!
//! Only then does open return. If the disk lacks space for the pages, it takes the first checkpoint before. After a crash before the slot is durable,
//! recovery repeats everything with the same result, because the old slot and its blocks remain valid. After a later one, recovery begins at the same
//! S or behind it.
//!
//! A process that opens the pool for reading does 1 and 2, and replays into its own mapping. It writes nothing.

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
use super::checkpoint::{Haste, copy_page};
use super::damage::{LogDamage, proves_damage};
use super::group_flush::WRITE_BLOCKS;
use super::repair::highest_block;
use super::runs::unpack;
use super::shared_log::SharedLog;
use super::slot::CheckpointSlot;
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};

/// Number of blocks that are read first.
const FIRST_BLOCKS: u64 = 256;
/// Number of blocks that are read at a time after those, and written again with one durable write, which waits for the device to flush.
const BATCH_BLOCKS: u64 = 4096;
/// Number of pages that a journal restores at a time, and the least that recovery leaves in memory.
const BATCH_PAGES: u64 = 256;
/// The most pages that are replayed at a time, because they are in memory together. A page that is stored to several times counts repeatedly.
const REPLAYED_PAGES: u64 = 16384;
/// The most words that are replayed at a time.
const REPLAYED_WORDS: usize = 1 << 20;

/// A report of what the recovery of a `Sync` pool found and did.
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
    /// Number of records in these blocks.
    pub records: u64,
    /// Transactions above the watermark, which were replayed.
    pub replayed: u64,
    /// Records of a last transaction without commit record, which were dropped.
    pub dropped: u64,
    /// Words stored home by replaying.
    pub words: u64,
    /// Number of 4 KB pages of these words. Usually the next checkpoint writes them. The log is replayed in portions, and a page counts in each
    /// portion that has stored to it.
    pub pages: u64,
    /// The highest accepted TxID. New TxIDs begin above it.
    pub watermark: u64,
    /// Blocks that were dropped because the log is damaged before them, which [`SyncParameters::cut_damaged_log`] allows.
    pub lost_blocks: u64,
    /// Transactions that end in these blocks. Those in the damaged block itself are lost too, but are not counted.
    pub lost_transactions: u64,
}

/// The newest valid checkpoint slot.
struct NewestSlot {
    slot: CheckpointSlot,
    index: u64,
    /// True if the other slot is valid too, so that no newer one can have been lost.
    is_confirmed: bool,
}

/// The findings of recovery in the log after the newest slot.
struct Found {
    slot: CheckpointSlot,
    /// The newest slot's index.
    index: u64,
    /// The accepted blocks, from S on, in parts that are each in one piece in the ring.
    blocks: Vec<AlignedBuffer>,
    /// Number of words from committed transactions in the inherited blocks, and in the others. In each part these words are the first ones.
    committed: [u64; 2],
    /// The lives of the blocks that were found behind the accepted ones, where writes may have been in flight.
    lives_behind: Vec<u64>,
    /// The journal of a large transaction that was interrupted.
    journal: Option<Journal>,
    report: SyncRecoveryReport,
}

impl Found {
    /// Returns whether the next life can inherit the accepted blocks, and there are any.
    fn can_be_inherited(&self) -> bool {
        let Self { slot, journal, report, .. } = self;
        slot.inherited.is_none() && journal.is_none() && report.lost_blocks == 0 && report.replayed != 0
    }
}

fn cannot(what: &str, file: DeviceFile) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::io(format!("{what} the pool's {} file", file.name()), source)
}

/// Creates a pool's log. Fills the log file with real zeros, so that no later append allocates, and writes its header. Then writes the first
/// checkpoint slot to the heap file, which has its length already. All of this is durable when this returns. TxIDs will begin above `watermark` (0
/// for a new pool). The caller draws a new nonce in `identity` for each log.
///
/// # Errors
/// Returns an error if the parameters are impossible or the device fails, usually with `ENOSPC`.
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
    // Writes both slots, so that no slot of an earlier log remains. The one with the higher generation counts.
    for (index, generation) in [(1, 1), (0, 2)] {
        let (start, nonce, life) = (FIRST_BLOCK, identity.nonce, CREATION);
        CheckpointSlot { generation, start, watermark, nonce, life, ring, inherited: None }
            .write(device, index, &identity.pool)
            .map_err(cannot("write", heap))?;
    }
    device.flush(heap).map_err(cannot("flush", heap))
}

/// The content of a log's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// The identity of the log.
    pub identity: LogIdentity,
    /// N, the number of blocks in the ring.
    pub ring: u64,
    pub(super) lives: Lives,
}

/// Reads the log file's header. Messages name `path`.
///
/// # Errors
/// Returns [`Error::LogFile`] if the header is wrong, and an error if the device fails.
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
    let size = device.size(log).map_err(cannot("read the size of", log))?;
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

/// Returns whether the log file has a header in an older format, and belongs to the pool with this UUID.
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

/// Checks a sequence of records, and counts the words that they write.
struct Judge<'l> {
    layout: &'l Layout,
    /// 0 in the inherited blocks, 1 in the others.
    part: usize,
    /// The number of words in each part.
    words: [u64; 2],
    /// The number of these words that belong to a commit record.
    committed: [u64; 2],
    watermark: u64,
}

impl Judge<'_> {
    fn take(&mut self, record: Record, report: &mut SyncRecoveryReport) -> Result<()> {
        report.records += 1;
        match record {
            Record::Data { address, .. } => {
                self.layout.check_replayed(PersistentAddress::new(address), 1)?;
                self.words[self.part] += 1;
            }
            Record::Commit { transaction } => {
                // TxIDs in the log have no gaps, because they are assigned under the latch.
                if transaction != self.watermark + 1 {
                    return Err(Error::damaged(format!(
                        "transaction {transaction} follows {} in the log",
                        self.watermark
                    )));
                }
                self.watermark = transaction;
                self.committed[self.part] = self.words[self.part];
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
    /// Recovers the pool, and prepares the volatile words for transactions. One thread runs this before any transaction. The memory shows the heap
    /// file, and the volatile words are zeros. This is idempotent.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if both slots are invalid or the log contradicts itself; nothing is changed then. Returns an error if the device
    /// fails; drop the memory then, and run this again on a new one.
    pub fn recover<M: Memory>(&self, view: &View<M>) -> Result<SyncRecoveryReport> {
        let memory = &view.memory;
        let device = self.device(view)?;
        let mut found = self.find(view, device)?;
        let heap = DeviceFile::Heap;
        self.begin_ring(memory);
        found.slot.write(device, found.index, &self.identity.pool).map_err(cannot("write", heap))?;
        if !memory.omitted(Step::SyncRecoveryBlocks) {
            self.write_again(device, found.slot.start, &found.blocks)?;
        }
        let mut inherits = found.can_be_inherited() && self.next_life != CREATION;
        let most_dirty = self.dirty_bound.min(self.private_bound).max(BATCH_PAGES);
        let mut mark = |pages: &[u64]| {
            if self.mark_as_recovered(view, device, pages)? >= most_dirty {
                inherits = false;
                self.write_recovered(view, device)?;
            }
            Ok(())
        };
        if let Some(journal) = &found.journal
            && !memory.omitted(Step::SyncJournalRollBack)
        {
            for granules in journal.parts(BATCH_PAGES) {
                let pages = journal.roll_back_part(memory, granules);
                found.report.pages += pages.len() as u64;
                mark(&pages)?;
            }
        }
        found.report.pages += self.replay(memory, &found, mark)?;
        if !inherits {
            self.write_recovered(view, device)?;
        }
        self.write_end_again(view, device).map_err(cannot("write", heap))?;
        if !memory.omitted(Step::SyncRecoveryHeapFlush) {
            device.flush(heap).map_err(cannot("flush", heap))?;
        }
        self.forget_journal(view, device).map_err(cannot("write", heap))?;
        self.begin_life(view, device, &found, inherits)?;
        self.find_used(view);
        if self.checkpoint_wanted(view) {
            self.request_checkpoint(memory);
        }
        Ok(found.report)
    }

    /// Writes the log's header and a slot with a new life, which inherits the accepted blocks if `inherits` is set.
    fn begin_life<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        found: &Found,
        inherits: bool,
    ) -> Result<()> {
        let memory = &view.memory;
        let Found { slot, report: SyncRecoveryReport { blocks, watermark, .. }, .. } = *found;
        let (end, renumbers) = (slot.start + blocks, !memory.omitted(Step::SyncRecoveryNumbers));
        let life = if renumbers { self.life_after(slot.life, &found.lives_behind) } else { slot.life };
        let (start, next, in_heap) = match inherits {
            true => (slot.start, end, slot.watermark),
            false if renumbers => (slot.start + self.ring, slot.start + self.ring, watermark),
            false => (end, end, watermark),
        };
        self.write_header(device, self.ring, Lives { current: life, previous: slot.life })
            .map_err(cannot("write", DeviceFile::Log))?;
        memory.store(self.life(), life);
        memory.store(self.inherited_life(), slot.life);
        memory.store(self.inherited_end(), next);
        memory.store(self.generation(), slot.generation);
        memory.store(self.newest_slot(), found.index);
        let action = "write the checkpoint slot with which recovery ends";
        self.write_slot(view, device, start, in_heap).map_err(|e| self.in_recovery(memory, action, e))?;
        self.begin_at(memory, next, watermark);
        memory.store(self.start(), start);
        Ok(())
    }

    /// Writes the pages that recovery has left to the next checkpoint, before a transaction runs.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn checkpoint_recovered<M: Memory>(&self, view: &View<M>) -> Result<()> {
        let written = self.checkpoint_at(view, Haste::Alone).map(drop);
        written.map_err(|error| self.in_recovery(&view.memory, "write the pool's heap file", error))
    }

    /// Returns recovery's error for a failure that has poisoned the pool, which is not open yet.
    fn in_recovery<M: Memory>(&self, memory: &M, action: &str, error: Error) -> Error {
        match error {
            Error::Poisoned { .. } => Error::io(action, self.cause(memory)),
            other => other,
        }
    }

    /// Marks pages to which recovery has stored as dirty. Returns how many are dirty now.
    fn mark_as_recovered<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        pages: &[u64],
    ) -> Result<u64> {
        let memory = &view.memory;
        if !memory.omitted(Step::SyncRecoveryPages) {
            return Ok(self.mark_recovered(memory, pages));
        }
        let mut changed = Vec::new();
        for &page in pages {
            let [mut shown, mut copy] = [0, 1].map(|_| AlignedBuffer::new(PAGE_BYTES as usize));
            let read = device.read(DeviceFile::Heap, page * PAGE_BYTES, &mut shown);
            read.map_err(cannot("read", DeviceFile::Heap))?;
            copy_page(memory, page, &mut copy);
            if shown[..] != copy[..] {
                changed.push(page);
            }
        }
        Ok(self.mark_recovered(memory, &changed))
    }

    /// Writes the pages to which recovery has stored, and releases memory if too much is in use.
    fn write_recovered<M: Memory>(&self, view: &View<M>, device: &dyn Device) -> Result<()> {
        let memory = &view.memory;
        let active = memory.load(self.active_bitmap());
        self.write_dirty_pages(view, device, active, Haste::Alone)
            .map_err(|error| self.in_recovery(memory, "write the pool's heap file", error))?;
        memory.store(self.count(active), 0);
        self.give_back_clean(view);
        Ok(())
    }

    /// Passes the writes of committed transactions to `take`, in the order of the log.
    fn committed_writes(&self, found: &Found, mut take: impl FnMut(Write) -> Result<()>) -> Result<()> {
        let (slot, mut left) = (&found.slot, found.committed);
        let blocks = found.blocks.iter().flat_map(|part| part.chunks_exact(BLOCK_BYTES as usize));
        for (number, block) in (slot.start..).zip(blocks) {
            let places = block::check(block, number, slot.life_of(number), self.seed);
            let left = &mut left[part_of(slot, number)];
            unpack(block, places.expect("it was accepted"), |record| match record {
                Record::Data { address, value, mask } if *left > 0 => {
                    *left -= 1;
                    take(Write { address: PersistentAddress::new(address), value, mask })
                }
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Stores the words of committed transactions home in portions, in the order of the log. After each portion, calls `done` with the pages that it
    /// has stored to, in ascending order. Returns the number of pages in all portions; a page counts in each portion that has stored to it.
    fn replay<M: Memory>(
        &self,
        memory: &M,
        found: &Found,
        mut done: impl FnMut(&[u64]) -> Result<()>,
    ) -> Result<u64> {
        let most_pages = self.private_bound.clamp(BATCH_PAGES, REPLAYED_PAGES) as usize;
        let (mut writes, mut pages, mut all) = (Vec::new(), Vec::new(), 0);
        let mut portion = |writes: &mut Vec<Write>, pages: &mut Vec<u64>| {
            pages.sort_unstable();
            pages.dedup();
            let mut places: Vec<_> =
                pages.iter().map(|page| PersistentAddress::new(page * PAGE_BYTES)).collect();
            // Requests all pages together, because waiting for them one after another would take longer.
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

    /// Replays the log into memory and writes nothing. This is for a pool that is open for reading only.
    ///
    /// # Errors
    /// Returns the errors of [`SharedLog::recover`].
    pub fn recover_read_only<M: Memory>(&self, view: &View<M>) -> Result<SyncRecoveryReport> {
        let mut found = self.find(view, self.device(view)?)?;
        if let Some(journal) = &found.journal {
            journal.roll_back(&view.memory, |_| ());
        }
        found.report.pages += self.replay(&view.memory, &found, |_| Ok(()))?;
        self.begin_ring(&view.memory);
        self.begin_at(&view.memory, found.slot.start + self.ring, found.report.watermark);
        Ok(found.report)
    }

    /// Returns the pages to which recovery would store. Until it or a checkpoint has written them, their contents may be as a crash has left them.
    ///
    /// # Errors
    /// Returns the errors of [`SharedLog::recover`].
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

    /// Returns the life that begins. It differs from the last one and from these, except that a pool that is being created has only one life.
    fn life_after(&self, last: u64, others: &[u64]) -> u64 {
        let mut life = self.next_life;
        while life != CREATION && (life == last || others.contains(&life)) {
            life = life % block::MAXIMAL_LIFE + 1;
        }
        life
    }

    /// Ends the life in which a pool was created. Its log is not needed after this, and the next life has the number `life`. No transaction and no
    /// checkpoint runs.
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
        // No page contains anything from a later block.
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

    /// Reads the slots and the log, and changes nothing.
    fn find<M: Memory>(&self, view: &View<M>, device: &dyn Device) -> Result<Found> {
        let NewestSlot { slot, index, is_confirmed } = self.find_newest_slot(device)?;
        let mut report = SyncRecoveryReport { start: slot.start, ..SyncRecoveryReport::default() };
        let (layout, watermark) = (&view.layout, slot.watermark);
        let mut judge = Judge { layout, part: 0, words: [0; 2], committed: [0; 2], watermark };
        let blocks = self.read_blocks(device, &slot, |number, record| {
            judge.part = part_of(&slot, number);
            judge.take(record, &mut report)
        })?;
        report.blocks = blocks.iter().map(|part| part.len() as u64 / BLOCK_BYTES).sum();
        let number = slot.start + report.blocks;
        let mut lives_behind = Vec::new();
        if let Some(damage) = self.damage_behind(view, device, &slot, number, &mut lives_behind)? {
            if !self.cuts_damage {
                return Err(Error::damaged(damage.to_string()));
            }
            (report.lost_blocks, report.lost_transactions) = (damage.blocks, damage.transactions);
        }
        if !is_confirmed {
            self.check_that_nothing_follows(device, &slot, number)?;
        }
        // The stored watermark is higher only if the pool's last life was under another domain and was closed cleanly.
        report.watermark = judge.watermark.max(view.memory.load(Layout::WATERMARK));
        check_transaction(report.watermark)?;
        let omits_incomplete = !view.memory.omitted(Step::SyncRecoveryIncomplete);
        let committed = if omits_incomplete { judge.committed } else { judge.words };
        report.words = committed.iter().sum();
        let journal = self.find_journal(view, slot.generation)?;
        if !is_confirmed && self.has_journal_since(&view.memory, slot.generation) {
            // Either the transaction was interrupted, or the damaged slot contained its commit.
            return Err(Error::damaged(
                "one of its checkpoint slots is not valid, and a large transaction may have been committed by it",
            ));
        }
        Ok(Found { slot, index, blocks, committed, lives_behind, journal, report })
    }

    /// Returns the newest valid checkpoint slot of this log.
    fn find_newest_slot(&self, device: &dyn Device) -> Result<NewestSlot> {
        let mut newest: Option<(CheckpointSlot, u64)> = None;
        let mut valid = 0;
        for index in 0..2 {
            let slot = CheckpointSlot::read(device, index, &self.identity.pool)
                .map_err(cannot("read", DeviceFile::Heap))?
                .filter(|slot| slot.nonce == self.identity.nonce)
                // Excludes impossible numbers, which a slot with a correct checksum never has.
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

    /// Reads the accepted blocks after `slot`, and passes their numbers and records to `take`.
    fn read_blocks(
        &self,
        device: &dyn Device,
        slot: &CheckpointSlot,
        mut take: impl FnMut(u64, Record) -> Result<()>,
    ) -> Result<Vec<AlignedBuffer>> {
        let (mut parts, mut number, mut most) = (Vec::new(), slot.start, FIRST_BLOCKS);
        while number < slot.start + self.ring {
            let count = (slot.start + self.ring - number).min(self.ring - number % self.ring).min(most);
            most = BATCH_BLOCKS;
            let mut part = AlignedBuffer::new((count * BLOCK_BYTES) as usize);
            let offset = block::offset(number, self.ring);
            device.read(DeviceFile::Log, offset, &mut part).map_err(cannot("read", DeviceFile::Log))?;
            let mut accepted = 0;
            for block in part.chunks_exact(BLOCK_BYTES as usize) {
                let Some(places) = block::check(block, number, slot.life_of(number), self.seed) else {
                    break;
                };
                unpack(block, places, |record| take(number, record))?;
                accepted += BLOCK_BYTES;
                number += 1;
            }
            part.truncate(accepted as usize);
            parts.push(part);
            if accepted < count * BLOCK_BYTES {
                break;
            }
        }
        Ok(parts)
    }

    /// Returns the damage that is proved by the slot or by the 2 F blocks after block number `end`, where the log ends. Adds their lives to `lives`.
    fn damage_behind<M: Memory>(
        &self,
        view: &View<M>,
        device: &dyn Device,
        slot: &CheckpointSlot,
        end: u64,
        lives: &mut Vec<u64>,
    ) -> Result<Option<LogDamage>> {
        let mut is_proved = end < slot.inherited_end();
        let last = (end + 2 * WRITE_BLOCKS).min(slot.start + self.ring);
        let mut found = AlignedBuffer::new(BLOCK_BYTES as usize);
        for number in end..last {
            device
                .read(DeviceFile::Log, block::offset(number, self.ring), &mut found)
                .map_err(cannot("read", DeviceFile::Log))?;
            if let Some(head) = block::read_head(&found, self.seed) {
                lives.push(head.life);
                is_proved |= proves_damage(&head, slot, end) && !view.memory.omitted(Step::SyncMark);
            }
        }
        if !is_proved {
            return Ok(None);
        }
        LogDamage::find(device, self.ring, self.seed, slot, end).map_err(cannot("read", DeviceFile::Log))
    }

    /// Checks this because one of the slots is damaged. If that was the newer one, the log may continue after block numbers to which the valid slot
    /// does not lead, and beginning there would lose transactions. This cannot be if no block has number `end` or a higher one, except those that
    /// lives before the slot's have left there: their G is below the slot's generation.
    fn check_that_nothing_follows(&self, device: &dyn Device, slot: &CheckpointSlot, end: u64) -> Result<()> {
        let counts = |head: &BlockHead| head.life == slot.life || head.generation >= slot.generation;
        let highest = highest_block(device, self.ring, self.seed, counts);
        let highest = highest.map_err(cannot("read", DeviceFile::Log))?;
        match highest.filter(|&highest| highest >= end) {
            Some(highest) => Err(Error::damaged(format!(
                "one of its checkpoint slots is not valid, and block {highest} of the log does not follow from the other"
            ))),
            None => Ok(()),
        }
    }

    /// Writes the accepted blocks again in place, durably.
    fn write_again(&self, device: &dyn Device, start: u64, parts: &[AlignedBuffer]) -> Result<()> {
        let mut number = start;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            device
                .write_durable(DeviceFile::Log, block::offset(number, self.ring), part)
                .map_err(cannot("write", DeviceFile::Log))?;
            number += part.len() as u64 / BLOCK_BYTES;
        }
        Ok(())
    }
}

/// Returns 0 if block `number` is one of those that the slot's life has inherited, otherwise 1.
fn part_of(slot: &CheckpointSlot, number: u64) -> usize {
    usize::from(number >= slot.inherited_end())
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
