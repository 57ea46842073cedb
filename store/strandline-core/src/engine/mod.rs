//! What the concurrency controls share: a worker's running transaction, its read and write sets, and the
//! order of a commit.
//!
//! # What a transaction can be
//!
//! | `State` | entered by | left by | a read sees | a write |
//! |---|---|---|---|---|
//! | `Writing` | the beginning of a transaction that may write | the end; a savepoint | its own words, else home under the control's rules | goes to the write set |
//! | `Noting` | the first savepoint | the release of the last one; the end | the same | first notes what was there |
//! | `Large` | the beginning of a run that is not to use a log | the end | home: nobody else runs | is stored home, after the journal has what was there; is noted first where there are savepoints |
//! | `Reading` | the beginning of a transaction that only reads | the end; a conflict | home under the control's rules | is refused |
//! | `LookingBack` | the second attempt of one that only reads, one that would wait for a large one, or one that borrows pages; a [`Snapshot`] | the end | home as it was at the snapshot | is refused |
//!
//! Beside that a transaction may hold a token that keeps others from beginning (`holds_lock`): under the STM from its sixth attempt
//! on and if it is large, in single-writer mode if it may write, or from its ninth attempt on. Under `Locks` none is large or looks back.
//!
//! # The order of a commit
//!
//! | | STM | single writer |
//! |---|---|---|
//! | 1 | publish `in_commit`, take the TxID (the clock), publish it | the same, where somebody waits for it |
//! | 2 | validate what was read | – |
//! | 3 | write log lines and commit record; fence: acknowledged | the same |
//! | 4 | keep old versions for snapshots, store home | the same, with an odd sequence while home is stored |
//! | 5 | release the locks, with the TxID as their version | release the writer's lock |
//!
//! 1 comes first because bulk persistence, checkpoints and new snapshots wait for transactions in commit. 2 comes before 3 because a commit record that
//! a cache evicts is a commit. 3 comes before 4 so that a crash may find any part of the transaction at home: the log has all of it.
//!
//! In the `Sync` domain a transaction that has written past the log (`past_log.rs`) first flushes the heap file. Then validation comes, under the latch of the shared log. The log's `append` then takes the TxID, and the commit waits for the
//! flush after 5, holding nothing, so that conflicting transactions share a flush.
//!
//! # Who waits for whom
//!
//! Locks are taken in this order. While a thread holds one, it waits neither for an earlier one nor for a thread that may wait for it:
//!
//! 1. the lock of bulk persistence ([`SharedLayout::BULK`]): a thread that persists in bulk, and a large transaction before it begins;
//! 2. the queue of transactions in conflict ([`SharedLayout::QUEUE`]), then the serial token ([`SharedLayout::SERIAL`]); or the writer's lock;
//! 3. leases of logs. A pool changes its scheme under these, and persists in bulk, but only while no worker exists that could hold 1 or 2;
//! 4. the STM's locks of lines. A transaction that meets another's waits briefly, then releases its own and runs again;
//! 5. in the `Sync` domain: room in the log, the gate and `in_commit`, the latch of checkpoints, the latch of the log;
//! 6. the growth of the file, and the device.
//!
//! A transaction that writes past the log waits for commits that are under way, and for a flush of the log, with its locks; neither needs these. Otherwise a transaction that needs what only another thread can provide releases what it holds first: when its log is full it drops the token before it persists
//! in bulk, and it waits for chunks that a compaction holds with nothing in hand. A checkpoint waits only for transactions in commit, and these
//! only for processors. Readers take no locks and wait for no token.
//!
//! The order ends at the pool. Waits for another pool, inside a transaction of this one, go through `memory/deadlock.rs`.

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

/// Transactions that write after which others may run: much less than the system gives a thread at a time, and much longer than changing
/// threads takes.
const TURN: u64 = 512;
/// Attempts after which a transaction asks that no others begin.
const SERIAL_AFTER: u32 = 5;
/// Conflicts that a worker which [retries at once](Worker::retry_at_once) answers by running the transaction again. After these it waits as
/// others do. A preempted holder of a lock has the processor again before: 9 ms, a time slice of eight threads on four cores, have no room for
/// so many attempts, each of which takes 0.1 us at least.
const RETRIES_AT_ONCE: u32 = 1 << 17;
/// Attempts after which a single-writer reader takes the writer's lock.
pub(super) const READER_LOCKS_AFTER: u32 = 8;

/// Lines read and locks held for which a worker has memory at first.
const FIRST_READS: usize = 256;
const FIRST_HELD: usize = 64;
/// A worker keeps memory for so many lines read, locks held and words written from one transaction to the next: some megabytes at most.
const MOST_KEPT: usize = 1 << 16;

/// What a running transaction is: the module's head has what follows from that.
#[derive(Clone, Copy)]
enum State {
    /// It reads and writes.
    Writing,
    /// The same, and has savepoints.
    Noting,
    /// It runs alone, and stores home at once.
    Large,
    /// It only reads.
    Reading,
    /// It only reads, at this snapshot.
    LookingBack(Registration),
}

/// A worker's running transaction.
pub struct Engine<C: Control> {
    /// The memory, and where things lie in it.
    pub view: View<C::Memory>,
    /// Where the locks are. The view of a snapshot has none, since only what guards a search needs them there; nor has that of a large transaction,
    /// which has all of them.
    guards: SharedLayout,
    /// The volatile words of the leased log.
    pub slot: Slot,
    /// The number of that log.
    pub slot_index: u64,
    /// Keeps what is written durable and atomic.
    pub scheme: C::Scheme,
    /// How transactions are isolated; the same for all workers of a pool.
    pub control: C,
    /// The shared log of the `Sync` domain.
    pub(super) shared_log: Option<SharedLog>,
    /// Lock index and version of each line read (STM).
    pub(super) reads: Vec<(u32, u64)>,
    pub(super) writes: WriteSet,
    /// The stripe locks that it holds (STM).
    held: Vec<stm::Held>,
    /// The locks that it holds, where it isolates itself by them.
    pub(super) locks: LockSet,
    /// STM: the first TxID that is too new to be read; all reads so far are valid below it. Single writer: the sequence at the
    /// beginning. Nothing is read so at [`Engine::past`].
    pub(super) horizon: u64,
    /// The highest TxID whose writes may have been read otherwise than `reads` tells.
    pub(super) newest_seen: u64,
    /// The abort that the running transaction has met, if any.
    doomed: Option<Abort>,
    pub(super) error: Option<Error>,
    /// What the running transaction is.
    state: State,
    /// The running transaction's journal, if it is a large one.
    large: Option<Box<Large>>,
    /// The pages that the running transaction has allocated for what it writes past the log.
    past_log: PastLog,
    /// It has been counted as one that borrows pages.
    borrows: bool,
    /// What goes back to its savepoints, if there are any.
    undo: Option<Box<Undo>>,
    /// The number of the newest savepoint of this worker: none is used twice.
    newest_savepoint: u64,
    /// How often it has gone back to one.
    restorations: u64,
    /// The next attempt is to be a large transaction.
    pub(super) wants_large: bool,
    /// Transactions that do not fit the log run as large ones.
    pub(super) takes_any_size: bool,
    /// `Sync`: the transaction does not wait until it, and what it read, is durable.
    pub(super) durable_later: bool,
    /// `Sync`: how many records the last transaction had that wrote something; the next one may have as many.
    last_records: u64,
    /// The TxID up to which the log has to be durable for the last transaction to be.
    pub(super) durable_at: u64,
    /// STM: the lock that the last attempt gave way to, and its word.
    obstacle: Option<(VolatileAddress, u64)>,
    /// STM: conflicts after which a transaction begins to wait for what is in its way.
    waits_after: u32,
    /// The running attempt found chunks held by a compaction where it needs free ones.
    awaits_chunks: bool,
    /// The running transaction is counted in [`SharedLayout::WANTING`].
    wants_chunks: bool,
    /// STM: whether this worker holds [`SharedLayout::QUEUE`].
    is_queued: bool,
    /// Whether this worker holds the serial token (STM) or the writer's lock (single writer).
    pub(super) holds_lock: bool,
    /// Whether it holds the writer's lock as its favourite.
    is_favourite: bool,
    random: u64,
    /// What this worker has done since it was leased, but for what its tally has.
    statistics: Statistics,
    pub(crate) tally: Arc<Tally>,
}

/// Stores what is mostly there already. After a commit a processor goes on while its fence is waited for, but only until it has no room
/// for more stores: so a look costs less.
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
        // A scheme that takes writes says itself when it has no room, if it has a log at all.
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
            is_favourite: false,
            random: (slot_index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            statistics: Statistics::default(),
            tally: Arc::default(),
        }
    }

    /// Gives back the memory that a transaction with many reads or writes has taken. What they were is forgotten.
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

    /// Whether the running transaction only reads.
    #[inline]
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.state, State::Reading | State::LookingBack(_))
    }

    /// Begins an attempt, the first being number 0. It is not compiled into every closure's.
    ///
    /// # Errors
    /// It is to be a large transaction, and the device failed; [`Error::Deadlock`].
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

    /// Begins an attempt, if nobody is to be waited for.
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

    /// Takes what an attempt has to hold when it begins, or waits for those that keep it from beginning.
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

    /// Ends an attempt without effect.
    pub fn roll_back(&mut self, why: Abort) {
        if self.large.is_some() {
            return self.roll_back_large(why);
        }
        self.look_ahead();
        self.scheme.abort(&self.view);
        if self.scheme.in_place() {
            // Before others can store to the same words.
            self.view.memory.event(Event::Abort);
        }
        match self.concurrency() {
            Concurrency::Stm => self.release_locks(None),
            Concurrency::SingleWriter => {}
            Concurrency::Locks if why == Abort::Conflict => self.locks.release(&self.view),
            // The caller may come to know what was read.
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

    /// A panic has ended the transaction. Where it struck in the closure, that was rolled back and nothing is held. Elsewhere, in a commit or
    /// while it was rolled back, memory may have a part of it: the pool is poisoned, and then what others wait for is released, so that
    /// readers notice that it has changed, begin again and find that.
    #[cold]
    pub fn end_panicked(&mut self) {
        // A transaction that reads at a snapshot holds nothing else.
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
        // Newer than what any running transaction has begun at.
        let version = memory.fetch_add(SharedLayout::CLOCK, 1) + 1;
        let sequence = memory.load(SharedLayout::SEQUENCE);
        match self.concurrency() {
            // Those of a large transaction, too, which takes them all.
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

    /// Why the attempt ended: what it met first, whatever its closure made of that.
    pub fn reason(&self, returned: Abort) -> Abort {
        self.doomed.unwrap_or(returned)
    }

    /// The error that made the attempt fail.
    pub fn take_error(&mut self, why: Abort) -> Error {
        self.error.take().unwrap_or(match why {
            Abort::User => Error::Aborted,
            _ => Error::Parameter("a transaction failed with an abort of another one".into()),
        })
    }

    /// A user abort that returns may have told the caller what it read: in the `Sync` domain that must be
    /// durable first.
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

    /// Waits before the next attempt, `attempt` of which met conflicts.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if what is in the way waits for this thread. Nothing is held then.
    pub fn back_off(&mut self, attempt: u32) -> Result<(), Error> {
        match self.concurrency() {
            Concurrency::Stm => return self.give_way(attempt),
            Concurrency::SingleWriter => self.pause_at_random(attempt),
            // The next attempt waits for its locks.
            Concurrency::Locks => {}
        }
        Ok(())
    }

    /// Waits a random while that grows with the number of attempts.
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

    /// Refuses if the transaction has failed.
    pub fn begin_tolerating(&mut self) -> Result<(), Abort> {
        self.doomed.map_or(Ok(()), Err)
    }

    /// What a part that only read has failed with, which is forgotten: it has left nothing behind. A conflict is not
    /// forgiven, nor is an abort of the part's own.
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

/// Returns whether the worker with the slot at `line` holds a lock for which other transactions wait. `load` loads a volatile word of its pool. The
/// locks of a running commit do not count.
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
