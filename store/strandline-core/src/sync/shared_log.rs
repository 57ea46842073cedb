//! The shared log: reservation and append. `group_flush.rs` makes the appended blocks durable.
//!
//! # Contents
//!
//! A ring of N blocks in the log file ([`ring`](super::ring)); block n lies at place n mod N and is written once. Blocks are filled in
//! *staging*, a smaller ring of blocks in volatile words. Four numbers rise and never cross:
//!
//! ```text
//!  free below S          durable below D       filling F              claimed C
//!  ├─────────────────────┼─────────────────────┼──────────────────────┤
//!    needed by recovery    closed, in staging    block being filled,
//!                                                 then room reserved
//! ```
//!
//! C is F, plus one if the block being filled has a record, plus all that running transactions have reserved.
//! A reservation must keep C < S + N (the ring) and C < D + staging (the staging ring). Closing a block does
//! not change C, and a transaction of r records adds at most ceil(r / 254) to F: it reserves one more than
//! that, and releases at least one.
//!
//! # A commit
//!
//! [`enter`](SharedLog::enter) reserves room, which may wait for a checkpoint or a flush. It publishes `in_commit` and checks
//! the gate; if that is closed, it withdraws `in_commit`, waits and publishes it again. Then it takes the latch. The caller validates
//! and calls [`append`](SharedLog::append), which takes the TxID and copies the records in one piece, or
//! [`leave_unchanged`](SharedLog::leave_unchanged). Then it marks its pages dirty, stores home, releases its
//! locks and [`leaves`](SharedLog::leave). No thread waits for input or output while it is `in_commit`, so that a checkpoint, which
//! closes the gate, waits only for processors. Under the latch there is no input or output either, no
//! allocation, and no code that could panic.
//!
//! A transaction that finds no room takes the latch `queue` and waits with it. While it is held, every later transaction waits for this latch
//! before it reserves, so that one with many records does not starve. The latch is not first-in-first-out.
//!
//! # Failure
//!
//! A failed write or flush poisons the pool: from then on every operation returns [`Error::Poisoned`], also
//! for transactions that were durable before. Recovery finds out which unacknowledged transactions survive.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, FILE_GONE, Result};
use crate::layout::{Layout, PAGE_BYTES, SharedLayout, Slot, View};
use crate::log::{RECORD_BLOCKS, RECORD_BYTES, Record};
use crate::memory::{LINE_BYTES, LINE_WORDS, Memory, Step, VolatileAddress, WORD_BYTES, system};

use super::SyncParameters;
use super::block::{self, BLOCK_BYTES, BLOCK_WORDS, CREATION, HEADER_WORDS, LogIdentity, RECORDS_PER_BLOCK};
use super::pages::BITMAPS;
use super::runs::pack;
use crate::memory::deadlock::{Awaited, Wait};
use crate::memory::device::Device;
use crate::memory::latch::{self, load_in_order, lock, unlock};
use crate::memory::threads::panic_error;

/// Number of blocks that reservations leave free, for a mark.
pub(super) const SPARE_BLOCKS: u64 = 1;
/// The share of the greatest ring that the largest transaction in the log may take.
const LARGEST_SHARE: u64 = 8;
/// Number of records that are copied at a time.
const COPY_RECORDS: usize = 32;

/// The addresses of the shared log's words, and its sizes. A thread needs only this and its view.
#[derive(Clone, Copy, Debug)]
pub struct SharedLog {
    words: VolatileAddress,
    /// N in the log's header when the pool was opened.
    pub(super) ring: u64,
    /// The maximum of N.
    pub(super) most_blocks: u64,
    pub(super) staging: u64,
    /// The most words of a transaction that goes through the log.
    most_words: u64,
    /// Number of dirty pages at which a checkpoint begins.
    pub(super) dirty_pages: u64,
    /// Number of dirty pages at which commits wait.
    pub(super) dirty_bound: u64,
    pub(super) private_bound: u64,
    /// The identity of the log.
    pub(super) identity: LogIdentity,
    /// The initial value for the checksums of its blocks.
    pub(super) seed: u32,
    /// The life that recovery begins.
    pub(super) next_life: u64,
    /// True if recovery drops all blocks after a damaged one.
    pub(super) cuts_damage: bool,
}

/// Room in the log for one transaction.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Reservation {
    blocks: u64,
}

/// The action that failed, for threads that call later.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    LogWrite = 1,
    HeapWrite,
    HeapFlush,
    SlotWrite,
    /// Nothing failed, but the pool was dropped before its workers.
    Dropped,
    /// A thread panicked in a commit, a flush or a checkpoint.
    Panicked,
}

impl Failure {
    fn poisoned(code: u64, error: &std::io::Error) -> Error {
        let gone = error.raw_os_error() == Some(libc::ESTALE);
        let why = if gone { FILE_GONE.to_owned() } else { error.to_string() };
        Error::Poisoned { why: format!("{}: {why}", Self::what(code)), kind: error.kind() }
    }

    fn what(code: u64) -> &'static str {
        match code {
            1 => "writing the log",
            2 => "writing pages of the heap",
            3 => "flushing the heap",
            4 => "writing a checkpoint slot",
            5 => "its handle was dropped while a worker existed",
            6 => "a thread panicked",
            _ => "input or output",
        }
    }
}

/// The result of trying to reserve room.
enum Room {
    Reserved,
    RingFull,
    StagingFull,
    TooDirty,
}

impl SharedLog {
    const LINES: u64 = 20;
    /// The line of the words of `ring.rs`.
    pub(super) const RING_LINE: u64 = 19;

    /// Creates the log with this identity for a pool with this layout and these parameters. Its ring is that of a new log. After recovery, it marks
    /// its blocks with the low 24 bits of `life`, so that blocks of one life are not mistaken for another's. The caller draws a new `life` each time
    /// that it opens the pool; it is 0 while a pool is created.
    pub fn new(
        layout: &Layout,
        shared: &SharedLayout,
        parameters: SyncParameters,
        identity: LogIdentity,
        life: u64,
    ) -> Self {
        Self {
            words: shared.sync(),
            ring: parameters.first_ring(),
            most_blocks: parameters.ring_blocks,
            staging: Self::staging_blocks(layout, parameters),
            most_words: (Self::largest_blocks(parameters) * RECORDS_PER_BLOCK).max(layout.log_records()),
            dirty_pages: parameters.dirty_pages,
            dirty_bound: parameters.dirty_bound(),
            // Without a bound no page is released.
            private_bound: parameters.memory_pages.unwrap_or(u64::MAX / PAGE_BYTES),
            identity,
            seed: identity.seed(),
            cuts_damage: parameters.cut_damaged_log,
            next_life: if life == CREATION { CREATION } else { (life & block::MAXIMAL_LIFE).max(1) },
        }
    }

    /// Sets the ring's size to `ring` blocks, as in the log's header.
    pub fn with_ring(self, ring: u64) -> Self {
        Self { ring, ..self }
    }

    /// Returns the size in bytes of the log's volatile words, for [`SharedLayout::new`]. They begin as zeros.
    pub fn volatile_bytes(layout: &Layout, parameters: SyncParameters) -> u64 {
        Self::LINES * LINE_BYTES
            + BITMAPS * WORD_BYTES * Self::bitmap_words(layout.end().offset())
            + BLOCK_BYTES * Self::staging_blocks(layout, parameters)
    }

    /// Returns the size in bytes of those first volatile words that are used while the pool has `bytes` bytes.
    pub(crate) fn bytes_for(&self, bytes: u64) -> u64 {
        self.bitmap(0, Self::bitmap_words(bytes)).offset()
    }

    /// Returns the number of words in each bitmap for a pool of this size; they take whole lines.
    pub(super) fn bitmap_words(bytes: u64) -> u64 {
        bytes.div_ceil(PAGE_BYTES).div_ceil(64).next_multiple_of(LINE_WORDS)
    }

    /// Returns a number of blocks that suffices for the largest transaction and some more.
    fn staging_blocks(layout: &Layout, parameters: SyncParameters) -> u64 {
        let area = Self::blocks_for(layout.log_records() + 1);
        let largest = area.max(Self::largest_blocks(parameters));
        (largest + SPARE_BLOCKS + parameters.staging_blocks).min(parameters.ring_blocks)
    }

    /// Returns the number of blocks of the largest transaction, if it is larger than a thread's log.
    fn largest_blocks(parameters: SyncParameters) -> u64 {
        parameters.ring_blocks / LARGEST_SHARE
    }

    /// Returns the most data records of a transaction for which the ring need not be enlarged.
    pub(crate) fn most_records(&self) -> u64 {
        Self::records_in(self.ring.min(self.staging))
    }

    /// Returns the most words that a transaction in the log can write.
    pub(crate) fn most_words(&self) -> u64 {
        self.most_words
    }

    fn records_in(blocks: u64) -> u64 {
        (blocks - 1 - SPARE_BLOCKS) * RECORDS_PER_BLOCK - 1
    }

    /// Returns the number of blocks that a transaction of `records` records reserves.
    fn blocks_for(records: u64) -> u64 {
        records.div_ceil(RECORDS_PER_BLOCK) + 1
    }

    pub(super) fn line(&self, line: u64) -> VolatileAddress {
        self.words.byte(line * LINE_BYTES)
    }

    /// Returns the address of the latch that is held while the log is appended to or the block that is being filled is closed.
    pub(super) fn latch(&self) -> VolatileAddress {
        self.line(0)
    }
    /// Returns the address of F, the number of the block that is being filled. Accessed under the latch.
    pub(super) fn filling(&self) -> VolatileAddress {
        self.line(1)
    }
    /// Returns the address of the number of records in the block that is being filled, which is never full. Accessed under the latch.
    pub(super) fn filled(&self) -> VolatileAddress {
        self.line(1).word(1)
    }
    /// Returns the address of the TxID of the last appended commit record. Written under the latch.
    pub(super) fn last_transaction(&self) -> VolatileAddress {
        self.line(1).word(2)
    }
    /// Returns the address of the number of the first block behind all records. Written under the latch.
    pub(super) fn records_end(&self) -> VolatileAddress {
        self.line(1).word(4)
    }
    /// Returns the address of the life that marks blocks, which recovery sets.
    pub(super) fn life(&self) -> VolatileAddress {
        self.line(1).word(3)
    }
    /// Returns the address of C: all blocks below it are used or reserved.
    pub(super) fn claimed(&self) -> VolatileAddress {
        self.line(2)
    }
    /// Returns the address of D: all blocks below it are durable, and their staging is free.
    pub(super) fn durable(&self) -> VolatileAddress {
        self.line(3)
    }
    /// Returns the address of the highest D in a durable block.
    pub(super) fn marked(&self) -> VolatileAddress {
        self.line(3).word(2)
    }
    /// Returns the address of the highest TxID up to which all transactions are durable in the log.
    pub(super) fn durable_transaction(&self) -> VolatileAddress {
        self.line(3).word(1)
    }
    /// Returns the address of a TxID up to which a durable block proves that all transactions are durable.
    pub(super) fn marked_transaction(&self) -> VolatileAddress {
        self.line(3).word(3)
    }
    /// Returns the address of a word that is 1 while a thread leads a flush.
    pub(super) fn leader(&self) -> VolatileAddress {
        self.line(4)
    }
    /// Returns the address of a word that changes when a flush has ended.
    pub(super) fn flushes(&self) -> VolatileAddress {
        self.line(5)
    }
    /// Returns the address of a word that is 1 while a checkpoint prevents commits from beginning.
    pub(super) fn gate(&self) -> VolatileAddress {
        self.line(6)
    }
    /// Returns the address of S: blocks below it are free, because a durable slot no longer needs them.
    pub(super) fn start(&self) -> VolatileAddress {
        self.line(7)
    }
    /// Returns the address of the lock of the thread that waits for room.
    pub(super) fn queue(&self) -> VolatileAddress {
        self.line(8)
    }
    /// Returns the address of a word that changes when there may be more room, while a thread waits for it.
    fn room(&self) -> VolatileAddress {
        self.line(9)
    }
    /// Returns the address of the reason of the poison, or 0.
    fn poison_word(&self) -> VolatileAddress {
        self.line(10)
    }
    /// Returns the address of the request, if any: 1 a checkpoint, 2 that the heap file grows.
    pub(super) fn wanted(&self) -> VolatileAddress {
        self.line(11)
    }
    /// Returns the address of the newest slot's generation.
    pub(super) fn generation(&self) -> VolatileAddress {
        self.line(13)
    }
    /// Returns the address of the newest slot's index, 0 or 1.
    pub(super) fn newest_slot(&self) -> VolatileAddress {
        self.line(13).word(1)
    }
    /// Returns the address of the life before this one.
    pub(super) fn inherited_life(&self) -> VolatileAddress {
        self.line(13).word(2)
    }
    /// Returns the address of the number at which this life has begun. It has inherited the blocks from S on that are below, if there are any.
    pub(super) fn inherited_end(&self) -> VolatileAddress {
        self.line(13).word(3)
    }
    /// Returns the address of the number, 0 or 1, of the bitmap of dirty pages that commits mark.
    pub(super) fn active_bitmap(&self) -> VolatileAddress {
        self.line(14)
    }
    /// Returns the address of the number of pages that are marked in bitmap `which`.
    pub(super) fn count(&self, which: u64) -> VolatileAddress {
        self.line(15 + which)
    }
    /// Returns the address of the index of the private bitmap's word to look at next.
    pub(super) fn hand(&self) -> VolatileAddress {
        self.line(18)
    }
    /// Returns the address of word `index` of bitmap `which`. The bitmaps' lines alternate, so that the words of a small pool are close together.
    pub(super) fn bitmap(&self, which: u64, index: u64) -> VolatileAddress {
        let first = self.line(Self::LINES).word(self.staging * BLOCK_WORDS);
        first.word((index / LINE_WORDS * BITMAPS + which) * LINE_WORDS + index % LINE_WORDS)
    }
    /// Returns the address at which block `number` is staged.
    pub(super) fn staged(&self, number: u64) -> VolatileAddress {
        self.line(Self::LINES).word(number % self.staging * BLOCK_WORDS)
    }

    pub(super) fn device<'v, M: Memory>(&self, view: &'v View<M>) -> Result<&'v dyn Device> {
        view.memory.device().ok_or_else(|| {
            Error::Parameter("the Sync domain needs a device, and this memory has none".into())
        })
    }

    // ---- poison ----

    /// Returns an error if the pool's device has failed.
    pub(crate) fn check_poison<M: Memory>(&self, memory: &M) -> Result<()> {
        // The cause of the failure is reported if it is known; it may have occurred outside the log.
        memory.check_poison()?;
        match memory.load(self.poison_word()) {
            0 => Ok(()),
            code => {
                let error = std::io::Error::from_raw_os_error((code >> 8) as i32);
                Err(Failure::poisoned(code & 0xff, &error))
            }
        }
    }

    /// Returns the system's error that caused the first failure.
    pub(super) fn cause<M: Memory>(&self, memory: &M) -> std::io::Error {
        match (memory.load(self.poison_word()) >> 8) as i32 {
            0 => system::error(libc::EIO),
            number => system::error(number),
        }
    }

    /// Poisons the pool and wakes all waiting threads.
    #[cold]
    pub(super) fn poison<M: Memory>(&self, memory: &M, what: Failure, error: &std::io::Error) -> Error {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        let code = what as u64 | (u64::from(number as u32)) << 8;
        let _ = memory.compare_exchange(self.poison_word(), 0, code);
        for word in [self.flushes(), self.room()] {
            memory.fetch_add(word, 1);
            memory.wake(word);
        }
        self.request_checkpoint(memory);
        memory.check_poison().err().unwrap_or_else(|| Failure::poisoned(what as u64, error))
    }

    /// Poisons the pool because of a panic in `what`, for whose latches other threads may wait.
    #[cold]
    pub(crate) fn poison_by_panic<M: Memory>(&self, memory: &M, what: &str, panic: &std::io::Error) {
        memory.set_poison(what, panic);
        self.poison(memory, Failure::Panicked, panic);
    }

    /// Runs `body`. If it panics, poisons the pool, calls `release` to release what `body` held, and continues the panic.
    pub(super) fn poisoning<M: Memory, R>(
        &self,
        memory: &M,
        what: &str,
        body: impl FnOnce() -> R,
        release: impl FnOnce(),
    ) -> R {
        let outcome = catch_unwind(AssertUnwindSafe(body));
        if let Err(panic) = &outcome {
            self.poison_by_panic(memory, what, &panic_error(&**panic));
        }
        release();
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Ends the log for workers that outlive their pool, since no thread would take checkpoints for them.
    pub(crate) fn abandon<M: Memory>(&self, memory: &M) {
        self.poison(memory, Failure::Dropped, &system::error(libc::ECANCELED));
    }

    // ---- reservation ----

    /// If room is short, waits until there is some for a transaction of `records` records. The transaction calls this before it takes what others
    /// would wait for. The room is not reserved.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if a large transaction that waits for the calling thread keeps the log full.
    pub(crate) fn wait_for_room<M: Memory>(&self, view: &View<M>, records: u64) -> Result<()> {
        let memory = &view.memory;
        let ring = self.ring_blocks(memory);
        let blocks = Self::blocks_for(records).min(ring.min(self.staging) - SPARE_BLOCKS);
        if memory.load(self.claimed()) + blocks + SPARE_BLOCKS > memory.load(self.start()) + ring
            || self.is_too_dirty(memory)
        {
            return self.wait_for_blocks(view, blocks);
        }
        Ok(())
    }

    #[cold]
    fn wait_for_blocks<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<()> {
        match self.reserve(view, blocks) {
            Ok(()) => self.give_back(&view.memory, blocks),
            Err(error @ Error::Deadlock { .. }) => return Err(error),
            // Any other failure occurs again when the transaction commits.
            Err(_) => {}
        }
        Ok(())
    }

    fn is_too_dirty<M: Memory>(&self, memory: &M) -> bool {
        let active = memory.load(self.active_bitmap());
        memory.load(self.count(active)) >= self.dirty_bound
    }

    fn try_reserve<M: Memory>(&self, memory: &M, blocks: u64) -> Room {
        loop {
            let claimed = load_in_order(memory, self.claimed());
            let end = memory.load(self.start()) + self.ring_blocks(memory);
            if claimed + blocks + SPARE_BLOCKS > end && !memory.omitted(Step::SyncRoom) {
                return Room::RingFull;
            }
            if claimed + blocks + SPARE_BLOCKS > memory.load(self.durable()) + self.staging {
                return Room::StagingFull;
            }
            if self.is_too_dirty(memory) {
                return Room::TooDirty;
            }
            if memory.compare_exchange(self.claimed(), claimed, claimed + blocks).is_ok() {
                return Room::Reserved;
            }
        }
    }

    fn reserve<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<()> {
        let memory = &view.memory;
        self.check_poison(memory)?;
        if memory.load(self.queue()) == 0 && matches!(self.try_reserve(memory, blocks), Room::Reserved) {
            return Ok(());
        }
        latch::lock_unless_deadlocked(memory, self.queue())?;
        let wait = || self.wait_and_reserve(view, blocks);
        self.poisoning(memory, "waiting for room in the log", wait, || unlock(memory, self.queue()))
    }

    /// Waits until there is room. The caller holds the latch `queue`.
    fn wait_and_reserve<M: Memory>(&self, view: &View<M>, blocks: u64) -> Result<()> {
        let memory = &view.memory;
        let wait = Wait::of(memory, Awaited::Rights);
        loop {
            let changes = memory.load(self.room());
            self.check_poison(memory)?;
            match self.try_reserve(memory, blocks) {
                Room::Reserved => return Ok(()),
                Room::RingFull if !self.need_ring(memory, blocks) => return Err(self.too_large(memory)),
                Room::RingFull | Room::TooDirty if self.is_unattended(memory) => {
                    self.make_room_unattended(view)?;
                    continue;
                }
                Room::RingFull | Room::TooDirty => self.ask_for_checkpoint(memory),
                // Threads that commit fill staging first and then wait for the log, so possibly none of them flushes it yet.
                Room::StagingFull => {
                    let last = memory.load(self.last_transaction());
                    if memory.load(self.durable_transaction()) < last {
                        self.wait_durable(view, last)?;
                        continue;
                    }
                }
            }
            wait.sleep(self.room(), changes)?;
        }
    }

    /// Tells the thread that waits for room that there may be more.
    pub(super) fn announce_room<M: Memory>(&self, memory: &M) {
        if load_in_order(memory, self.queue()) != 0 {
            memory.fetch_add(self.room(), 1);
            memory.wake(self.room());
        }
    }

    fn give_back<M: Memory>(&self, memory: &M, blocks: u64) {
        memory.fetch_add(self.claimed(), blocks.wrapping_neg());
        self.announce_room(memory);
    }

    #[cold]
    fn too_large<M: Memory>(&self, memory: &M) -> Error {
        Error::TransactionTooLarge { records: self.records_at_most(memory) }
    }

    /// Returns the most records that a transaction can have now.
    fn records_at_most<M: Memory>(&self, memory: &M) -> u64 {
        Self::records_in(self.ring_bound(memory).min(self.staging))
    }

    /// Returns whether `words` words may fit the ring. If they are consecutive, a record holds as many as it has room for.
    pub(crate) fn may_fit<M: Memory>(&self, memory: &M, words: u64) -> bool {
        words * WORD_BYTES <= self.records_at_most(memory) * RECORD_BYTES
    }

    // ---- commit ----

    /// Reserves room for a transaction of `records` records, including its commit record; publishes `in_commit`; passes the gate; and takes the
    /// latch, which [`append`](SharedLog::append) or [`leave_unchanged`](SharedLog::leave_unchanged) releases.
    ///
    /// # Errors
    /// Returns [`Error::TransactionTooLarge`] if the transaction does not fit the ring, and [`Error::Poisoned`] if the device failed. Nothing is held or published then.
    pub(crate) fn enter<M: Memory>(&self, view: &View<M>, slot: Slot, records: u64) -> Result<Reservation> {
        let memory = &view.memory;
        let blocks = Self::blocks_for(records);
        if records > self.most_words || blocks + SPARE_BLOCKS > self.ring_bound(memory).min(self.staging) {
            return Err(self.too_large(memory));
        }
        self.reserve(view, blocks)?;
        loop {
            // This is sequentially consistent, like the load of the gate: the checkpoint closes the gate and then reads these states.
            memory.fetch_add(slot.commit_state(), 1);
            if load_in_order(memory, self.gate()) == 0 {
                break;
            }
            self.leave(view, slot);
            while memory.load(self.gate()) != 0 {
                memory.wait(self.gate(), 1);
            }
        }
        lock(memory, self.latch());
        Ok(Reservation { blocks })
    }

    /// Ends a commit that validation has refused, without a TxID or records. `in_commit` remains until [`leave`](SharedLog::leave).
    pub(crate) fn leave_unchanged<M: Memory>(&self, view: &View<M>, reservation: Reservation) {
        unlock(&view.memory, self.latch());
        self.give_back(&view.memory, reservation.blocks);
    }

    /// Takes the TxID, publishes it, appends `records` data records and a commit record contiguously, and releases the latch. Returns the TxID.
    /// `encode` receives the number of a record, and a slice for this record and those that follow.
    pub(crate) fn append<M: Memory>(
        &self,
        view: &View<M>,
        slot: Slot,
        reservation: Reservation,
        records: u64,
        encode: impl Fn(u64, &mut [[u64; RECORD_BLOCKS as usize]]),
    ) -> u64 {
        let memory = &view.memory;
        let transaction = memory.fetch_add(SharedLayout::CLOCK, 1) + 1;
        memory.store(slot.commit_state(), transaction + 2);
        let mut position = (memory.load(self.filling()), memory.load(self.filled()));
        let used_before = position.0 + u64::from(position.1 != 0);
        let (mut buffer, mut packed) = ([[0; 2]; COPY_RECORDS], [[0; 2]; COPY_RECORDS]);
        let mut copied = 0;
        while copied < records {
            let now = (records - copied).min(COPY_RECORDS as u64);
            let found = &mut buffer[..now as usize];
            encode(copied, found);
            let room = (RECORDS_PER_BLOCK - position.1).min(now);
            let (taken, used) = pack(found, &mut packed[..room as usize]);
            self.put(memory, &mut position, packed[..used].as_flattened());
            copied += taken as u64;
        }
        self.put(memory, &mut position, &Record::Commit { transaction }.encode(false));
        memory.store(self.filling(), position.0);
        memory.store(self.filled(), position.1);
        let end = position.0 + u64::from(position.1 != 0);
        memory.store(self.records_end(), end);
        memory.store(self.last_transaction(), transaction);
        let half = self.is_half_used(memory, position.0);
        unlock(memory, self.latch());
        self.give_back(memory, reservation.blocks.saturating_sub(end - used_before));
        if half {
            self.ask_for_checkpoint(memory);
        }
        transaction
    }

    /// Puts records and their runs into the block that is being filled, in which they fit, and closes the block when it is full.
    fn put<M: Memory>(&self, memory: &M, position: &mut (u64, u64), words: &[u64]) {
        let block = self.staged(position.0);
        memory.store_range(block.word(HEADER_WORDS + position.1 * RECORD_BLOCKS), words);
        position.1 += words.len() as u64 / RECORD_BLOCKS;
        if position.1 == RECORDS_PER_BLOCK {
            memory.store(block, RECORDS_PER_BLOCK);
            *position = (position.0 + 1, 0);
        }
    }

    /// Clears `in_commit`, and wakes a checkpoint that waits for that.
    pub(crate) fn leave<M: Memory>(&self, view: &View<M>, slot: Slot) {
        let (memory, state) = (&view.memory, slot.commit_state());
        // Only this thread changes the word. The exchange orders it before the load of the gate.
        let _ = memory.compare_exchange(state, memory.load(state), 0);
        if load_in_order(memory, self.gate()) != 0 {
            memory.wake(state);
        }
    }
}
