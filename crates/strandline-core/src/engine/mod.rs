//! What the concurrency controls share: a worker's running transaction, its read and write sets, and the
//! order of a commit.

use crate::error::Error;
use crate::heap::Access;
use crate::layout::{SharedLayout, Slot, View};
use crate::memory::{Event, Memory, PersistentAddress, Step, VolatileAddress};
use crate::scheme::{Full, SchemeObject};
use crate::sync::SharedLog;

use self::large::Large;
use self::savepoint::Undo;
use self::versions::Registration;
use crate::transaction::{Abort, Concurrency, LockSet, Statistics, WriteSet};

mod control;
mod large;
mod locks;
mod savepoint;
mod single_writer;
mod snapshot;
mod stm;
mod versions;
mod worker;

pub use control::{Control, Setup, SingleWriter, Stm};
pub use snapshot::{Snapshot, SnapshotUsage};
pub(crate) use versions::has_snapshot_before;
pub use worker::{Tx, Worker};

/// Transactions that write after which others may run: much less than the system gives a thread at a time, and much longer than changing
/// threads takes.
const TURN: u64 = 512;
/// Attempts after which a transaction asks that no others begin.
const SERIAL_AFTER: u32 = 5;
/// Attempts after which a single-writer reader takes the writer's lock.
pub(super) const READER_LOCKS_AFTER: u32 = 8;

/// A worker's running transaction.
pub struct Engine<M: Memory, C: Control<M>> {
    /// The memory, and where things lie in it.
    pub view: View<M>,
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
    /// The snapshot at which this transaction reads, if it does so.
    past: Option<Registration>,
    /// The highest TxID whose writes may have been read otherwise than `reads` tells.
    pub(super) newest_seen: u64,
    /// The abort that the running transaction has met, if any.
    doomed: Option<Abort>,
    pub(super) error: Option<Error>,
    pub(super) read_only: bool,
    /// What is written goes another way than straight into the write set: it is refused, there are savepoints, or this is a large transaction.
    is_special: bool,
    /// The running transaction, if it is a large one.
    large: Option<Box<Large>>,
    /// What goes back to its savepoints, if there are any.
    undo: Option<Box<Undo>>,
    /// The number of the newest savepoint of this worker: none is used twice.
    newest_savepoint: u64,
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
    /// STM: whether this worker holds [`SharedLayout::QUEUE`].
    is_queued: bool,
    /// Whether this worker holds the serial token (STM) or the writer's lock (single writer).
    pub(super) holds_lock: bool,
    random: u64,
    /// What this worker has done since it was leased.
    pub statistics: Statistics,
}

impl<M: Memory, C: Control<M>> Engine<M, C> {
    fn new(
        view: View<M>,
        slot_index: u64,
        scheme: C::Scheme,
        control: C,
        shared_log: Option<SharedLog>,
    ) -> Self {
        Self {
            slot: view.shared.slot(slot_index),
            view: view.looking(),
            slot_index,
            scheme,
            control,
            shared_log,
            reads: Vec::with_capacity(256),
            writes: WriteSet::default(),
            held: Vec::with_capacity(64),
            locks: LockSet::new(),
            horizon: 0,
            past: None,
            newest_seen: 0,
            doomed: None,
            error: None,
            read_only: false,
            is_special: false,
            large: None,
            undo: None,
            newest_savepoint: 0,
            wants_large: false,
            takes_any_size: C::ANY_SIZE,
            durable_later: false,
            last_records: 1,
            durable_at: 0,
            obstacle: None,
            is_queued: false,
            holds_lock: false,
            random: (slot_index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            statistics: Statistics::default(),
        }
    }

    #[inline(always)]
    pub(super) fn concurrency(&self) -> Concurrency {
        self.control.concurrency()
    }

    /// Begins an attempt, the first being number 0. It is not compiled into every closure's.
    ///
    /// # Errors
    /// It is to be a large transaction, and the device failed.
    #[inline(never)]
    pub fn begin(&mut self, attempt: u32, read_only: bool) -> Result<(), Error> {
        self.reads.clear();
        self.writes.clear();
        self.doomed = None;
        self.read_only = read_only;
        if self.undo.is_some() {
            self.drop_undo();
        }
        self.is_special = read_only;
        self.newest_seen = 0;
        self.scheme.begin(&self.view);
        if self.wants_large {
            self.prepare_large();
        } else if self.shared_log.is_some() && !read_only && !self.holds_lock {
            self.wait_for_room();
        }
        match self.concurrency() {
            Concurrency::Stm => self.begin_stm(attempt >= SERIAL_AFTER || self.wants_large),
            Concurrency::SingleWriter => self.begin_single_writer(attempt),
            Concurrency::Locks => self.begin_locks(),
        }
        if read_only && attempt > 0 {
            self.look_back(attempt);
        }
        self.view.memory.event(Event::Begin);
        if self.wants_large { self.begin_large() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn drop_undo(&mut self) {
        self.undo = None;
    }

    /// Waits until the shared log has room for a transaction like the last one.
    #[inline(never)]
    fn wait_for_room(&self) {
        if let Some(log) = self.shared_log {
            log.wait_for_room(&self.view, self.last_records);
        }
    }

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
        if self.large.is_some() {
            return self.commit_large();
        }
        if !self.writes.is_empty() && self.scheme.executed(&self.view, &self.writes) == Err(Full) {
            return Err(self.doom(Abort::LogFull));
        }
        if self.concurrency() == Concurrency::Locks {
            return self.commit_locks();
        }
        if self.writes.is_empty() {
            self.view.memory.event(Event::Commit(0));
            self.release_token();
            self.look_ahead();
            self.statistics.read_only += 1;
            if self.defers() {
                self.durable_at = self.newest_read();
                return Ok(());
            }
            self.wait_for_reads()?;
            self.statistics.acknowledged += 1;
            return Ok(());
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
        self.statistics.commits += 1;
        self.statistics.log_bytes += log_records * crate::log::RECORD_BYTES;
        if self.statistics.commits.is_multiple_of(TURN) {
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
        let (from, records) = self.scheme.running_records();
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
        if self.concurrency() == Concurrency::Stm
            && self.view.memory.load(SharedLayout::CLOCK) + 1 != self.horizon
            && !self.validate()
        {
            log.leave_unchanged(&self.view, reservation);
            return Err(self.doom(Abort::Conflict));
        }
        let counted = self.count_snapshots_early();
        let transaction = log.append(&self.view, self.slot, reservation, from, records);
        self.view.memory.event(Event::Commit(transaction));
        self.gather_home();
        log.mark_dirty(&self.view, self.writes.words().iter().map(|&(at, _)| at));
        self.keep_versions(transaction, counted);
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

    /// Clears `in_commit`; in the `Sync` domain a checkpoint may wait for that.
    fn leave_commit(&self) {
        match self.shared_log {
            Some(log) => log.leave(&self.view, self.slot),
            None => self.view.memory.store(self.slot.commit_state(), 0),
        }
    }

    /// The highest TxID whose writes may have been read.
    fn newest_read(&self) -> u64 {
        self.reads.iter().fold(self.newest_seen, |newest, &(_, version)| newest.max(version))
    }

    /// In the `Sync` domain, what was read may not be durable yet: waits until it is.
    fn wait_for_reads(&mut self) -> Result<(), Abort> {
        if let Some(log) = self.shared_log
            && !self.view.memory.omitted(Step::SyncReadWait)
            && let Err(error) = log.wait_durable(&self.view, self.newest_read())
        {
            return Err(self.fail(error));
        }
        Ok(())
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
            Abort::Conflict => self.statistics.conflicts += 1,
            Abort::LogFull => {}
            Abort::User | Abort::Failed => self.statistics.user_aborts += 1,
        }
        if self.concurrency() == Concurrency::SingleWriter || why != Abort::Conflict {
            self.release_token();
        }
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
        let before = self.view.memory.counters();
        let made = self.scheme.make_room(&self.view, self.concurrency(), &mut self.statistics);
        self.statistics.bulk += self.view.memory.counters() - before;
        made.or_else(|error| self.grow_large(error))
    }

    /// Waits before the next attempt, `attempt` of which met conflicts.
    pub fn back_off(&mut self, attempt: u32) {
        match self.concurrency() {
            Concurrency::Stm => self.give_way(attempt),
            Concurrency::SingleWriter => self.pause_at_random(attempt),
            // The next attempt waits for its locks.
            Concurrency::Locks => {}
        }
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

    /// Whether `words` words at `at` may be read and written, as far as this worker knows; otherwise [`Engine::look`].
    #[inline(always)]
    fn may_have(&self, at: PersistentAddress, words: u64) -> bool {
        self.view.layout.is_data(at, words)
    }

    /// Fails unless the pool has grown since, so that these words may be read and written.
    #[cold]
    #[inline(never)]
    fn look(&mut self, at: PersistentAddress, words: u64) -> Result<(), Abort> {
        self.view.look_how_far();
        if self.may_have(at, words) {
            return Ok(());
        }
        Err(self.fail(Error::InvalidAddress(at.offset())))
    }

    /// The newest value of a word: this transaction's own, or the one at home.
    #[inline(always)]
    pub(super) fn own_or_home(&mut self, at: PersistentAddress) -> u64 {
        match self.writes.find(at) {
            Some(number) => self.scheme.own_value(&self.view, &self.writes, number),
            None => self.view.memory.load(at),
        }
    }

    /// The same of words of one line.
    #[inline(always)]
    pub(super) fn own_or_home_line(&mut self, at: PersistentAddress, into: &mut [u64]) {
        if !self.writes.may_have_line(at) {
            return self.view.memory.load_range(at, into);
        }
        for (i, value) in into.iter_mut().enumerate() {
            *value = self.own_or_home(at.word_inside(i as u64));
        }
    }

    /// Keeps new values of words of one line, from `at` on.
    #[inline(always)]
    fn keep(&mut self, at: PersistentAddress, values: &[u64]) -> Result<(), Abort> {
        let may_be_written = match self.concurrency() {
            Concurrency::Stm => self.own_stm(at)?,
            Concurrency::SingleWriter => {
                Self::fetch_home(&self.view.memory, at);
                true
            }
            Concurrency::Locks => {
                self.lock_to_write(at)?;
                true
            }
        };
        // What is in no written line is not written.
        if values.len() > 1
            && !self.scheme.takes_writes()
            && !(may_be_written && self.writes.may_have_line(at))
            && self.writes.push_run(at, values)
        {
            return Ok(());
        }
        for (i, &value) in values.iter().enumerate() {
            self.keep_word(at.word_inside(i as u64), value, may_be_written)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn keep_word(&mut self, at: PersistentAddress, value: u64, may_be_written: bool) -> Result<(), Abort> {
        let number = if may_be_written { self.writes.find(at) } else { None };
        if self.scheme.takes_writes() {
            let place = number.map(|number| self.writes.place(number));
            match self.scheme.write(&self.view, at, value, place) {
                Ok(place) => self.writes.set_place(number.unwrap_or(self.writes.words().len()), place),
                Err(Full) => return Err(self.doom(Abort::LogFull)),
            }
        }
        match number {
            Some(number) => self.writes.set(number, value),
            None if self.writes.push(at, value) => {}
            None => return self.push_again(at, value),
        }
        Ok(())
    }

    /// Makes room for more words in the write set, but not for more than can be committed.
    #[cold]
    #[inline(never)]
    fn push_again(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        // A scheme that takes writes says itself when it has no room, if it has a log at all.
        if !self.scheme.takes_writes() && self.writes.words().len() as u64 > self.view.layout.log_records() {
            return Err(self.doom(Abort::LogFull));
        }
        self.writes.lengthen();
        if self.writes.push(at, value) { Ok(()) } else { self.push_again(at, value) }
    }

    /// Lets a line that a commit will store home to come near meanwhile.
    #[inline(always)]
    pub(super) fn fetch_home(memory: &M, line: PersistentAddress) {
        if C::INLINED {
            memory.prefetch_for_write(line);
        }
    }

    /// Sees to it that what is to be stored home is at hand, before the scheme writes its copies back: clwb may evict them.
    #[inline(always)]
    pub(super) fn gather_home(&mut self) {
        if !self.scheme.in_place() {
            self.scheme.give_values(&self.view, &mut self.writes);
        }
    }

    /// Stores all new values home.
    #[inline(always)]
    pub(super) fn store_home(&self) {
        if self.scheme.in_place() {
            return;
        }
        self.view.memory.store_each(self.writes.words());
    }
}

impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Reads words of several lines.
    #[inline(never)]
    fn read_lines(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if let Some(past) = self.past
            && versions::read_home_lines(&self.view, past, at, into)
        {
            return Ok(());
        }
        if self.large.is_some() {
            // It runs alone, and stores home at once.
            self.view.memory.load_range(at, into);
            return Ok(());
        }
        self.read_each_line(at, into)
    }

    #[inline(never)]
    fn read_each_line(&mut self, mut at: PersistentAddress, mut into: &mut [u64]) -> Result<(), Abort> {
        while !into.is_empty() {
            let here = into.len().min(at.words_left_in_line());
            let (now, rest) = into.split_at_mut(here);
            self.read_line(at, now)?;
            at = at.word_inside(here as u64);
            into = rest;
        }
        Ok(())
    }

    /// Reads words of one line.
    #[inline(always)]
    fn read_line(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        match self.concurrency() {
            Concurrency::Stm => self.read_line_stm(at, into),
            Concurrency::SingleWriter => self.read_line_single_writer(at, into),
            Concurrency::Locks => self.read_line_locks(at, into),
        }
    }
}

/// Reads and writes, compiled in place.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Reads words that mostly lie in one line, which nobody writes.
    #[inline(always)]
    fn read_array_here<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        let words = match self.concurrency() {
            Concurrency::Stm => self.read_free_stm(at),
            Concurrency::SingleWriter => self.read_free_single_writer(at),
            Concurrency::Locks => None,
        };
        match words {
            Some(words) => Ok(words),
            None => self.read_array_called(at),
        }
    }

    #[inline(always)]
    fn read_range_here(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if into.is_empty() {
            return Ok(());
        }
        if !self.may_have(at, into.len() as u64) {
            return self.read_range_again(at, into);
        }
        // Mostly one line.
        if into.len() <= at.words_left_in_line() {
            return self.read_line(at, into);
        }
        self.read_lines(at, into)
    }

    #[inline(always)]
    fn write_here(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        if self.is_special || !self.may_have(at, 1) {
            return self.write_again(at, value);
        }
        self.keep(at, &[value])
    }

    /// Called on both paths: that costs little beside so many words.
    #[inline(never)]
    fn write_range_called(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if from.is_empty() {
            return Ok(());
        }
        if self.is_special {
            return self.write_special(at, from);
        }
        if self.is_too_large_for_log(from.len() as u64) {
            // It need not come to its end for that.
            self.wants_large = true;
            return Err(self.doom(Abort::LogFull));
        }
        self.write_usual(at, from)
    }
}

/// What did not pass a check, when the pool may have grown; whole operations, so that what passes pays for nothing but the check.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    #[cold]
    #[inline(never)]
    fn read_again(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.look(at, 1)?;
        self.read_called(at)
    }

    #[cold]
    #[inline(never)]
    fn read_range_again(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.look(at, into.len() as u64)?;
        self.read_range_called(at, into)
    }

    #[cold]
    #[inline(never)]
    fn write_again(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        if self.is_special {
            return self.write_special(at, &[value]);
        }
        self.look(at, 1)?;
        self.write_called(at, value)
    }
}

/// The same, called.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    #[inline(never)]
    fn read_called(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        if !self.may_have(at, 1) {
            return self.read_again(at);
        }
        match self.concurrency() {
            Concurrency::Stm => self.read_stm(at),
            Concurrency::SingleWriter => self.read_single_writer(at),
            Concurrency::Locks => self.read_locks(at),
        }
    }

    #[inline(never)]
    fn read_array_called<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        if let Some(past) = self.past
            && let Some(words) = versions::read_home(&self.view, past, at)
        {
            return Ok(words);
        }
        let mut words = [0; N];
        self.read_range_here(at, &mut words)?;
        Ok(words)
    }

    /// Reads `N` consecutive words.
    #[inline(always)]
    pub(super) fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        if C::INLINED { self.read_array_here(at) } else { self.read_array_called(at) }
    }

    #[inline(never)]
    fn read_range_called(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.read_range_here(at, into)
    }

    #[inline(never)]
    fn write_called(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.write_here(at, value)
    }
}

impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Reads `words` words from each of several places, where there is nothing to look up.
    #[inline(never)]
    pub(super) fn read_at_once(&self, at: &[PersistentAddress], words: usize, into: &mut [u64]) -> bool {
        words > 0 && self.past.is_some_and(|past| versions::read_home_each(&self.view, past, at, words, into))
    }
}

impl<M: Memory, C: Control<M>> Access for Engine<M, C> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        if C::INLINED { self.read_array_here(at).map(|[word]| word) } else { self.read_called(at) }
    }

    #[inline(always)]
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if C::INLINED { self.read_range_here(at, into) } else { self.read_range_called(at, into) }
    }

    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        if C::INLINED { self.write_here(at, value) } else { self.write_called(at, value) }
    }

    #[inline(always)]
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.write_range_called(at, from)
    }

    #[inline(always)]
    fn hint(&self, at: PersistentAddress) -> u64 {
        self.view.memory.peek(at)
    }

    fn begin_taking(&mut self, chunks: u64) -> Result<(), Abort> {
        if self.large.is_some() { self.begin_taking_large(chunks) } else { Ok(()) }
    }

    fn was_free(&self, chunk: u64) -> bool {
        // One that going back to a savepoint gives away is not to be had.
        let word = self.view.layout.chunk_table.word_inside(chunk);
        self.large.as_ref().is_none_or(|large| large.was_free(chunk))
            && self.undo.as_ref().is_none_or(|undo| !undo.covers(word))
    }

    #[cold]
    fn make_space(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        self.view.memory.make_space(at, bytes).map_err(|error| {
            self.fail(Error::io(format!("find disk space for {bytes} bytes of the pool"), error))
        })
    }

    #[cold]
    fn grow(&mut self, least: u64, most: u64) -> std::io::Result<u64> {
        self.view.memory.grow(least, most)
    }

    #[cold]
    fn foresee(&mut self, bytes: u64) {
        if let Some(log) = self.shared_log {
            log.ask_for_growth(&self.view.memory, bytes);
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Abort {
        self.error.get_or_insert(error);
        self.doom(Abort::Failed)
    }

    #[cold]
    fn give_way(&mut self) -> Abort {
        self.doom(Abort::Conflict)
    }

    fn layout(&self) -> &crate::layout::Layout {
        &self.view.layout
    }
}

/// The commit that STM and single-writer mode share: the scheme makes the log durable under `transaction`, and says
/// how many log records that took.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    #[inline(always)]
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
}
