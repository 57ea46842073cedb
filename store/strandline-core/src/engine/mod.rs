//! The engine: a worker's running transaction, its read and write sets, and the order of a commit. The concurrency controls share it.
//!
//! # The states of a transaction
//!
//! | `State` | entered by | left by | a read sees | a write |
//! |---|---|---|---|---|
//! | `Writing` | the beginning of a transaction that may write | the end; a savepoint | its own words, else home under the control's rules | goes to the write set |
//! | `Noting` | the first savepoint | the release of the last one; the end | as in `Writing` | first notes the old contents |
//! | `Large` | the beginning of a run that does not use a log | the end | home, since no other transaction runs | is stored home, after the journal has the old contents; with savepoints it is noted first |
//! | `Reading` | the beginning of a transaction that only reads | the end; a conflict | home under the control's rules | is refused |
//! | `LookingBack` | the second attempt of one that only reads, one that would wait for a large one, or one that borrows pages; a [`Snapshot`] | the end | home as it was at the snapshot | is refused |
//!
//! In addition, a transaction may hold a token that keeps others from beginning (`holds_lock`): under the STM from its sixth attempt on and
//! if it is large; in single-writer mode if it may write, or from its ninth attempt on. Under `Locks` no transaction is large or reads at a
//! snapshot.
//!
//! # The order of a commit
//!
//! | | STM | single writer |
//! |---|---|---|
//! | 1 | publish `in_commit`, take the TxID (the clock), publish it | the same, if snapshots or bulk persistence may wait for it |
//! | 2 | validate the reads | – |
//! | 3 | write log lines and commit record; fence: acknowledged | the same |
//! | 4 | keep old versions for snapshots, store home | the same, with an odd sequence while home is stored |
//! | 5 | release the locks, with the TxID as their version | release the writer's lock |
//!
//! Step 1 comes first because bulk persistence, checkpoints and new snapshots wait for transactions in commit. Step 2 comes before 3
//! because a commit record that a cache evicts is a commit. Step 3 comes before 4 so that after a crash any part of the transaction may be
//! at home: the log has all of it.
//!
//! In the `Sync` domain a transaction that has written past the log (`past_log.rs`) first flushes the heap file. Then it validates, under
//! the latch of the shared log. The log's `append` takes the TxID. The commit waits for the flush after step 5, when it holds no locks, so
//! that conflicting transactions share a flush.
//!
//! # The order of waits
//!
//! Locks are taken in this order. While a thread holds one, it does not wait for an earlier one, nor for a thread that may wait for one
//! that it holds:
//!
//! 1. the lock of bulk persistence ([`SharedLayout::BULK`]): a thread that persists in bulk, and a large transaction before it begins;
//! 2. the queue of transactions in conflict ([`SharedLayout::QUEUE`]), then the serial token ([`SharedLayout::SERIAL`]); or the writer's lock;
//! 3. the latch of the leases of logs. A pool changes its scheme under it, and persists in bulk, but only while no worker exists that could
//!    hold 1 or 2;
//! 4. the STM's locks of lines. A transaction that meets another's waits briefly, then releases its own and runs again;
//! 5. in the `Sync` domain: room in the log, the gate and `in_commit`, the latch of checkpoints, the latch of the log;
//! 6. the growth of the file, and the device.
//!
//! A transaction that writes past the log waits with its locks for running commits and for a flush of the log; neither needs these locks.
//! Otherwise a transaction that waits for another thread first releases its locks: if its log is full it drops the token before it persists
//! in bulk, and it waits without any lock for chunks that a compaction holds. A checkpoint waits only for transactions in commit, and these
//! only for processors. Readers take no locks and wait for no token.
//!
//! This order holds within a pool. A transaction of one pool that waits for another pool does so through `memory/deadlock.rs`.

use std::sync::Arc;

use crate::error::Error;
use crate::heap::Access;
use crate::layout::{SharedLayout, Slot, View};
use crate::memory::{Event, Memory, VolatileAddress, biased};
use crate::scheme::SchemeObject;
use crate::sync::SharedLog;

use self::large::Large;
use self::past_log::PastLog;
use self::savepoint::Undo;
use self::versions::Registration;
use crate::transaction::{Abort, Concurrency, LockSet, Statistics, Tally, WriteSet};

mod access;
mod commit;
mod control;
mod free_memory;
mod large;
mod lend;
mod locks;
mod optimistic;
mod past_log;
mod savepoint;
mod single_writer;
mod snapshot;
mod stm;
mod versions;
mod worker;

pub use control::{Control, Over, Setup, SingleWriter, Stm};
pub use free_memory::Compacted;
pub use snapshot::{Snapshot, SnapshotUsage};
pub use worker::{Tx, Worker};

/// The number of writing transactions after which a worker lets other threads run. They take much less time than a time slice of the
/// system, and much longer than a switch of threads.
const TURN: u64 = 512;
/// The number of attempts after which a transaction takes the token that keeps others from beginning.
const SERIAL_AFTER: u32 = 5;
/// The number of conflicts after which a worker that [retries immediately](Worker::retry_at_once) begins to wait like others. By then a
/// preempted holder of a lock has run again: a time slice of eight threads on four cores, 9 ms, has no room for so many attempts of at
/// least 0.1 us each.
const RETRIES_AT_ONCE: u32 = 1 << 17;
/// The number of attempts after which a single-writer reader takes the writer's lock.
pub(super) const READER_LOCKS_AFTER: u32 = 8;

/// The number of reads and of held locks for which a worker allocates memory at first.
const FIRST_READS: usize = 256;
const FIRST_HELD: usize = 64;
/// The number of reads, held locks and written words for which a worker keeps memory between transactions: about 10 MB for the written words. To get
/// it from the system again, page by page, would take longer than a transaction of a thousand rows.
const MOST_KEPT: usize = 1 << 18;

/// The state of a running transaction. The table at the head of this module describes each.
#[derive(Clone, Copy)]
enum State {
    /// The transaction reads and writes.
    Writing,
    /// The transaction reads and writes, and has savepoints.
    Noting,
    /// The transaction runs alone, and stores home immediately.
    Large,
    /// The transaction only reads.
    Reading,
    /// The transaction only reads, at this snapshot.
    LookingBack(Registration),
}

/// A worker's running transaction.
pub struct Engine<C: Control> {
    /// The memory, and the layout of the pool in it.
    pub view: View<C::Memory>,
    /// The layout with the locks. `view` has none while it reads at a snapshot, where only optimistic searches need them, or in a large
    /// transaction, which holds all of them.
    guards: SharedLayout,
    /// The volatile words of the leased log.
    pub slot: Slot,
    /// The number of the leased log.
    pub slot_index: u64,
    /// The scheme, which makes writes durable and atomic.
    pub scheme: C::Scheme,
    /// The concurrency control, which is the same for all workers of a pool.
    pub control: C,
    /// The shared log of the `Sync` domain.
    pub(super) shared_log: Option<SharedLog>,
    /// Lock index and version of each line read (STM).
    pub(super) reads: Vec<(u32, u64)>,
    pub(super) writes: WriteSet,
    /// The stripe locks that the transaction holds (STM).
    held: Vec<stm::Held>,
    /// The locks that the transaction holds, if isolation is by locks.
    pub(super) locks: LockSet,
    /// STM: the first TxID that is too new to be read; all reads so far are valid below it. Single writer: the sequence at the beginning.
    /// At a snapshot it has a value with which no such read succeeds.
    pub(super) horizon: u64,
    /// The highest TxID whose writes may have been read without an entry in `reads`.
    pub(super) newest_seen: u64,
    /// The abort that the running transaction has met, if any.
    doomed: Option<Abort>,
    pub(super) error: Option<Error>,
    /// The state of the running transaction.
    state: State,
    /// The running transaction's journal, if it is a large one.
    large: Option<Box<Large>>,
    /// The extents and the unused memory that decide which writes may go past the log.
    past_log: PastLog,
    /// True if the transaction is counted as a borrower of pages.
    borrows: bool,
    /// The undo list for savepoints, if there are any.
    undo: Option<Box<Undo>>,
    /// The number of this worker's newest savepoint. Numbers are not reused.
    newest_savepoint: u64,
    /// The number of times that this worker has returned to a savepoint.
    restorations: u64,
    /// True if the next attempt is to be a large transaction.
    pub(super) wants_large: bool,
    /// True if transactions that do not fit the log run as large ones.
    pub(super) takes_any_size: bool,
    /// `Sync`: true if the commit does not wait until the transaction, and the writes that it read, are durable.
    pub(super) durable_later: bool,
    /// `Sync`: the number of records of the last transaction that wrote something. The next one is expected to have as many.
    last_records: u64,
    /// The TxID up to which the log has to be durable for the last transaction to be durable.
    pub(super) durable_at: u64,
    /// STM: the lock that ended the last attempt, and its word at the time.
    obstacle: Option<(VolatileAddress, u64)>,
    /// STM: the number of conflicts after which a transaction begins to wait for the lock that it met.
    waits_after: u32,
    /// True if the running attempt needs free chunks and found them held by a compaction.
    awaits_chunks: bool,
    /// True if the running transaction is counted in [`SharedLayout::WANTING`].
    wants_chunks: bool,
    /// STM: true if this worker holds [`SharedLayout::QUEUE`].
    is_queued: bool,
    /// True if this worker holds the serial token (STM) or the writer's lock (single writer).
    pub(super) holds_lock: bool,
    /// True if this worker holds the writer's lock as its bias owner.
    is_bias_owner: bool,
    random: u64,
    /// The statistics of this worker since it was leased, except those in its tally.
    statistics: Statistics,
    pub(crate) tally: Arc<Tally>,
}

/// Stores a value only if it differs. While the processor waits for a commit's fence, it executes on only until its store buffer is full,
/// so a comparison costs less than a store.
#[inline]
pub(super) fn renew<T: PartialEq>(place: &mut T, value: T) {
    if *place != value {
        *place = value;
    }
}

impl<C: Control> Engine<C> {
    fn new(
        mut view: View<C::Memory>,
        slot_index: u64,
        scheme: C::Scheme,
        control: C,
        shared_log: Option<SharedLog>,
    ) -> Self {
        let slot = view.shared.slot(slot_index);
        view.memory.set_own(slot.line());
        // If the scheme takes writes, it reports when its log is full, so the write set needs no bound.
        let most = match shared_log {
            _ if scheme.takes_writes() => usize::MAX,
            Some(log) => log.most_words() as usize,
            None => view.layout.log_records() as usize,
        };
        let writes = WriteSet::for_at_most(most);
        Self {
            guards: view.shared,
            slot,
            view: view.looking(),
            slot_index,
            control,
            shared_log,
            reads: Vec::with_capacity(FIRST_READS),
            writes,
            scheme,
            held: Vec::with_capacity(FIRST_HELD),
            locks: LockSet::new(),
            horizon: 0,
            newest_seen: 0,
            doomed: None,
            error: None,
            state: State::Writing,
            large: None,
            past_log: PastLog::default(),
            borrows: false,
            undo: None,
            newest_savepoint: 0,
            restorations: 0,
            wants_large: false,
            takes_any_size: C::ANY_SIZE,
            durable_later: false,
            last_records: 1,
            durable_at: 0,
            obstacle: None,
            waits_after: 0,
            awaits_chunks: false,
            wants_chunks: false,
            is_queued: false,
            holds_lock: false,
            is_bias_owner: false,
            random: (slot_index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            statistics: Statistics::default(),
            tally: Arc::default(),
        }
    }

    /// Frees the memory of the lists of reads, writes and locks that a transaction has made long. Such a list is empty afterwards.
    fn give_memory_back(&mut self) {
        if self.reads.capacity() > MOST_KEPT {
            self.reads = Vec::with_capacity(FIRST_READS);
        }
        if self.held.capacity() > MOST_KEPT {
            self.held = Vec::with_capacity(FIRST_HELD);
        }
        self.writes.keep_room_for(MOST_KEPT);
    }

    #[inline]
    pub(super) fn concurrency(&self) -> Concurrency {
        self.control.concurrency()
    }

    /// Returns whether the running transaction only reads.
    #[inline]
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.state, State::Reading | State::LookingBack(_))
    }

    /// Begins an attempt; the first has number 0. Out of line, so that it is compiled once and not for each closure.
    ///
    /// # Errors
    /// Returns an error if the attempt is to be a large transaction and the device failed, and [`Error::Deadlock`].
    #[inline(never)]
    pub fn begin(&mut self, attempt: u32, read_only: bool) -> Result<(), Abort> {
        self.give_memory_back();
        self.reads.clear();
        self.writes.clear();
        renew(&mut self.doomed, None);
        self.state = if read_only { State::Reading } else { State::Writing };
        self.scheme.begin(&self.view);
        if attempt > 0
            || self.undo.is_some()
            || self.wants_large
            || self.shared_log.is_some()
            || !self.begin_at_once()
        {
            return self.begin_with_care(attempt);
        }
        self.view.memory.event(Event::Begin);
        Ok(())
    }

    /// The fast path: begins an attempt if it need not wait for others. Returns whether it did.
    #[inline]
    fn begin_at_once(&mut self) -> bool {
        match self.concurrency() {
            Concurrency::Stm => self.begin_stm_at_once(),
            Concurrency::SingleWriter => self.begin_single_writer_at_once(),
            Concurrency::Locks => false,
        }
    }

    #[inline(never)]
    fn begin_with_care(&mut self, attempt: u32) -> Result<(), Abort> {
        self.undo = None;
        self.newest_seen = 0;
        self.past_log.clear();
        if let Err(error) = self.view.memory.check_poison() {
            self.release_token();
            return Err(self.fail(error));
        }
        let wants_to_look_back =
            self.only_reads() && (attempt > 0 || self.view.memory.load(SharedLayout::LARGE) != 0);
        if !(wants_to_look_back && self.look_back(attempt))
            && let Err(error) = self.take_turn(attempt)
        {
            self.release_token();
            return Err(self.fail(error));
        }
        self.view.memory.event(Event::Begin);
        if self.wants_large { self.begin_large().map_err(|error| self.fail(error)) } else { Ok(()) }
    }

    /// Takes the locks that an attempt holds from its beginning, or waits for transactions that keep it from beginning.
    fn take_turn(&mut self, attempt: u32) -> Result<(), Error> {
        if self.wants_large {
            self.prepare_large()?;
        } else if !self.only_reads() && !self.holds_lock {
            self.wait_for_room()?;
        }
        let begun = match self.concurrency() {
            Concurrency::Stm => {
                self.begin_stm(attempt >= self.waits_after + SERIAL_AFTER || self.wants_large)
            }
            Concurrency::SingleWriter => self.begin_single_writer(attempt),
            Concurrency::Locks => {
                self.begin_locks();
                Ok(())
            }
        };
        if begun.is_err() && self.wants_large {
            self.give_up_large();
        }
        begun
    }

    /// Waits until the shared log, if there is one, has room for a transaction like the last one.
    fn wait_for_room(&self) -> Result<(), Error> {
        match self.shared_log {
            Some(log) => log.wait_for_room(&self.view, self.last_records),
            None => Ok(()),
        }
    }

    /// Rolls an attempt back.
    pub fn roll_back(&mut self, why: Abort) {
        if self.large.is_some() {
            return self.roll_back_large(why);
        }
        self.look_ahead();
        self.scheme.abort(&self.view);
        if self.scheme.in_place() {
            // Before other transactions can store to the same words.
            self.view.memory.event(Event::Abort);
        }
        match self.concurrency() {
            Concurrency::Stm => self.release_locks(None),
            Concurrency::SingleWriter => {}
            Concurrency::Locks if why == Abort::Conflict => self.locks.release(&self.view),
            // The caller may get to know what the transaction has read, so that must be durable first.
            Concurrency::Locks => self.scheme.end_locked(&self.view, &mut self.locks),
        }
        self.writes.clear();
        self.leave_commit();
        if !self.scheme.in_place() {
            self.view.memory.event(Event::Abort);
        }
        match why {
            Abort::Conflict => self.tally.conflicts.add(1),
            Abort::LogFull => {}
            Abort::User | Abort::Failed => self.tally.user_aborts.add(1),
        }
        if self.concurrency() == Concurrency::SingleWriter || why != Abort::Conflict {
            self.release_token();
        }
    }

    /// Cleans up after a panic has ended the transaction. If the closure panicked, the transaction was rolled back and holds nothing. If a
    /// commit or a rollback panicked, memory may have a part of the transaction: this poisons the pool, and then releases the locks for
    /// which others wait, so that readers notice the change, begin again and find the pool poisoned.
    #[cold]
    pub fn end_panicked(&mut self) {
        // A transaction that reads at a snapshot holds nothing besides it.
        self.look_ahead();
        self.view.shared = self.guards;
        let memory = &self.view.memory;
        let in_commit = memory.load(self.slot.commit_state()) != 0;
        if self.held.is_empty() && !self.holds_lock && self.large.is_none() && !in_commit {
            return;
        }
        let panic = std::io::Error::other("panic");
        memory.set_poison("a commit", &panic);
        if let Some(log) = self.shared_log {
            log.poison_by_panic(memory, "a commit", &panic);
        }
        // A version that is newer than the horizon of every running transaction.
        let version = memory.fetch_add(SharedLayout::CLOCK, 1) + 1;
        let sequence = memory.load(SharedLayout::SEQUENCE);
        match self.concurrency() {
            // This includes the locks of a large transaction, which holds all of them.
            Concurrency::Stm => self.release_owned_locks(version),
            Concurrency::SingleWriter if self.holds_lock && sequence & 1 != 0 => {
                memory.store(SharedLayout::SEQUENCE, sequence + 1);
            }
            Concurrency::SingleWriter | Concurrency::Locks => {}
        }
        versions::withdraw(&self.view.memory);
        let pin = self.large.take().and_then(|large| large.pin());
        self.unpin(pin);
        self.writes.clear();
        self.leave_commit();
        self.release_token();
    }

    /// Returns the reason for which the attempt ended: the first abort that it met, even if the closure returned another one.
    pub fn reason(&self, returned: Abort) -> Abort {
        self.doomed.unwrap_or(returned)
    }

    /// Returns the error that made the attempt fail.
    pub fn take_error(&mut self, why: Abort) -> Error {
        self.error.take().unwrap_or(match why {
            Abort::User => Error::Aborted,
            _ => Error::Parameter("a closure returned an abort that its own transaction has not met; return only errors of its own transaction".into()),
        })
    }

    /// Waits until what a transaction has read is durable, before a user abort returns: the caller may have got to know it.
    pub fn settle_reads(&mut self) -> Result<(), Error> {
        match self.wait_for_reads() {
            Ok(()) => Ok(()),
            Err(why) => Err(self.take_error(why)),
        }
    }

    /// Makes room in the log after [`Abort::LogFull`].
    pub fn make_room(&mut self) -> Result<(), Error> {
        self.view.memory.check_file()?;
        if self.concurrency() == Concurrency::SingleWriter {
            biased::step_aside(&self.view.memory, SharedLayout::WRITER);
        }
        let before = self.view.memory.counters();
        let made = self.scheme.make_room(&self.view, self.concurrency(), &mut self.statistics);
        self.statistics.bulk += self.view.memory.counters() - before;
        made.or_else(|error| self.grow_large(error))
    }

    /// Waits before the next attempt, after `attempt` attempts that met conflicts.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if the thread that would be waited for waits for this one. No lock is held then.
    pub fn back_off(&mut self, attempt: u32) -> Result<(), Error> {
        match self.concurrency() {
            Concurrency::Stm => return self.give_way(attempt),
            Concurrency::SingleWriter => self.pause_at_random(attempt),
            // The next attempt waits for its locks.
            Concurrency::Locks => {}
        }
        Ok(())
    }

    /// Pauses for a random time that grows with the number of attempts.
    fn pause_at_random(&mut self, attempt: u32) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let pauses = self.random % (16u64 << attempt.min(10));
        for _ in 0..pauses {
            self.view.memory.pause();
        }
    }

    /// Marks the running transaction as one that cannot commit.
    #[cold]
    pub(super) fn doom(&mut self, why: Abort) -> Abort {
        *self.doomed.get_or_insert(why)
    }

    /// Fails if the transaction has failed before.
    pub fn begin_tolerating(&mut self) -> Result<(), Abort> {
        self.doomed.map_or(Ok(()), Err)
    }

    /// Ends a part of the transaction that only read. Returns the error that the part met, which is then forgotten, since the part has left
    /// nothing behind. Conflicts are not forgiven, nor are the part's own aborts.
    pub fn end_tolerating(&mut self, outcome: Result<(), Abort>) -> Result<Option<Error>, Abort> {
        match (self.doomed, outcome) {
            (Some(Abort::Failed), _) => {
                self.doomed = None;
                Ok(self.error.take())
            }
            (Some(abort), _) | (None, Err(abort)) => Err(abort),
            (None, Ok(())) => Ok(None),
        }
    }
}

/// Returns whether the worker with the slot at `line` holds a lock for which other transactions wait, apart from the locks of a running
/// commit. `load` loads a volatile word of its pool.
pub(crate) fn holds_rights(
    load: &dyn Fn(VolatileAddress) -> u64,
    shared: SharedLayout,
    concurrency: Concurrency,
    line: VolatileAddress,
) -> bool {
    let Some(index) = shared.slot_at(line) else { return true };
    match concurrency {
        Concurrency::Stm => {
            let has_latch = |latch, owner| load(latch) != 0 && load(owner) == index + 1;
            has_latch(SharedLayout::SERIAL, SharedLayout::SERIAL_OWNER)
                || has_latch(SharedLayout::QUEUE, SharedLayout::QUEUE_OWNER)
                || shared.locks().any(|word| stm::is_locked_by(load(word), index))
        }
        Concurrency::SingleWriter => {
            biased::is_held_by(load, SharedLayout::WRITER, shared.slot(index).present())
        }
        Concurrency::Locks => true,
    }
}
