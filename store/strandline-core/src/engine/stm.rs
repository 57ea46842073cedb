//! Word-based software transactional memory after TinySTM (encounter-time locking, write-back).
//!
//! Every line of the pool hashes to a lock word: even, twice the version (the TxID of the last commit that
//! wrote under it); odd, locked: the owner's number and its newest entry under that lock. A transaction
//! reads below a horizon in time; when it meets a newer version it validates all it has read and moves the
//! horizon forward, so that it never sees an inconsistent state (opacity). Writes take their line's lock at
//! once and stay in the scheme's log until commit. Locks are of lines, not words, because lines are what is written back: a line
//! that another transaction wrote again would be fetched and written back twice.
//!
//! Accesses that meet no lock are inlined, and the rest is out of line: a read costs two loads of the lock word and one of the value.
//!
//! A transaction that meets a conflict ends, waits until the lock that it met is released, and runs again. After a second
//! conflict it waits for its turn among those to which the same happens, so that at most one of them is under way beside those
//! that meet none. With more threads than cores, this keeps spinning threads from taking the processor away from the lock's
//! holder. After some attempts it takes a token that keeps others that may write from beginning: those that run end, and it goes
//! through. Transactions that only read begin nevertheless: they take no locks, and read at a snapshot what is locked.
//!
//! A worker of the laboratory may retry at once instead ([`Worker::retry_at_once`](super::Worker::retry_at_once)): TinySTM's contention manager
//! `CM_SUICIDE`, its default, aborts the transaction that meets a lock and runs it again, without waiting. It ends all the same. A transaction
//! that meets only locks of threads that go on is in their way no longer than its attempt, and one whose holder is not running spins for a time
//! slice. Transactions that abort one another in turn for ever, which TinySTM does not exclude, come to the end of [`RETRIES_AT_ONCE`], and
//! from there on wait, queue and take the token like all others.

use crate::error::Result;
use crate::layout::SharedLayout;
use crate::memory::{Event, Memory, PersistentAddress, VolatileAddress, latch};
use crate::scheme::SchemeObject;

#[cfg(doc)]
use super::RETRIES_AT_ONCE;
use super::optimistic::Guard;
use super::{Control, Engine, State};
use crate::transaction::{Abort, Concurrency};

/// Pauses that a transaction waits for a lock before it gives way.
const LOCK_PATIENCE: u32 = 64;

/// Naps for which a transaction inside one of another pool waits for a lock at least: enough to notice that it is never released.
const NESTED_NAPS: u32 = 32;

const LOCKED: u64 = 1;

/// A stripe lock that a transaction holds.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// Its index.
    lock: u32,
    /// The version that it had before.
    version: u64,
}

/// A lock word of owner `slot`, who holds this lock as number `number`.
#[inline]
fn locked(slot: u64, number: u32) -> u64 {
    u64::from(number) << 32 | slot << 1 | LOCKED
}

/// Whether somebody has the lock with this word.
pub(super) fn is_locked(lock: u64) -> bool {
    lock & LOCKED != 0
}

/// Returns whether the worker with slot `slot` holds the lock whose word is `word`.
pub(super) fn is_locked_by(lock: u64, slot: u64) -> bool {
    is_locked(lock) && owner(lock) == slot
}

/// A lock word of owner `slot`, who holds it otherwise.
pub(super) fn locked_by(slot: u64) -> u64 {
    locked(slot, u32::MAX)
}

#[inline]
fn owner(lock: u64) -> u64 {
    (lock & 0xffff_ffff) >> 1
}

impl<C: Control> Engine<C> {
    /// Begins, if no transaction has the serial token, or this one only reads.
    #[inline(always)]
    pub(super) fn begin_stm_at_once(&mut self) -> bool {
        let memory = &self.view.memory;
        // A reader takes no locks, so that it is in no writer's way.
        if self.holds_lock || (!self.only_reads() && memory.load(SharedLayout::SERIAL) != 0) {
            return false;
        }
        self.horizon = memory.load(SharedLayout::CLOCK) + 1;
        self.newest_seen = 0;
        true
    }

    /// Begins, with the serial token if `serial`.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`](crate::Error::Deadlock); the queue may be held then.
    pub(super) fn begin_stm(&mut self, serial: bool) -> Result<()> {
        if !self.holds_lock {
            if serial {
                // In this order always: who has the queue waits for the token.
                self.enter_queue()?;
                let memory = &self.view.memory;
                memory.lock_unless_deadlocked(SharedLayout::SERIAL)?;
                memory.note_owner(SharedLayout::SERIAL_OWNER, self.slot_index + 1);
                self.holds_lock = true;
            } else if !self.only_reads() && self.view.memory.load(SharedLayout::SERIAL) != 0 {
                latch::wait_until_free_unless_deadlocked(&self.view.memory, SharedLayout::SERIAL)?;
            }
        }
        self.horizon = self.view.memory.load(SharedLayout::CLOCK) + 1;
        Ok(())
    }

    /// Waits for its turn among the transactions that have met conflicts.
    fn enter_queue(&mut self) -> Result<()> {
        if !self.is_queued {
            let memory = &self.view.memory;
            memory.lock_unless_deadlocked(SharedLayout::QUEUE)?;
            memory.note_owner(SharedLayout::QUEUE_OWNER, self.slot_index + 1);
            self.is_queued = true;
        }
        Ok(())
    }

    /// Gives the serial token or the writer's lock back, if this worker holds it.
    #[inline]
    pub(super) fn release_token(&mut self) {
        self.leave_queue();
        if self.holds_lock {
            self.holds_lock = false;
            match self.concurrency() {
                Concurrency::Stm => self.view.memory.unlock(SharedLayout::SERIAL),
                Concurrency::SingleWriter => self.unlock_single_writer(),
                Concurrency::Locks => {}
            }
        }
    }

    #[inline]
    fn owns(&self, lock: u64) -> bool {
        lock & LOCKED != 0 && owner(lock) == self.slot_index
    }

    /// Whether what lies under a lock word is free to be read below this transaction's horizon.
    #[inline(always)]
    fn is_readable(&self, lock: u64) -> bool {
        lock & LOCKED == 0 && lock >> 1 < self.horizon
    }

    /// Words of one line that nobody writes and that is below the horizon.
    #[inline(always)]
    pub(super) fn read_free_stm<const N: usize>(&mut self, at: PersistentAddress) -> Option<[u64; N]> {
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let lock = self.view.memory.load(word);
        if !self.is_readable(lock) {
            return None;
        }
        let words = self.view.memory.data_words()?.load_in_line(at)?;
        if self.view.memory.load(word) != lock {
            return None;
        }
        self.reads.push((index as u32, lock >> 1));
        Some(words)
    }

    /// What the line of `at` is to an optimistic search that may see versions below `horizon`; it counts as read if home is.
    pub(super) fn guard_stm(&mut self, at: PersistentAddress, horizon: u64) -> Guard {
        let index = self.guards.lock_index(at);
        let lock = self.view.memory.load(self.guards.lock(index));
        if !is_locked(lock) && lock >> 1 < horizon {
            self.reads.push((index as u32, lock >> 1));
            return Guard::Home;
        }
        if self.owns(lock) { Guard::Own } else { Guard::None }
    }

    /// Whether the lines that were read after the first `before` ones have the versions that they had, and nobody writes them.
    pub(super) fn are_unchanged_stm(&self, before: usize) -> bool {
        self.reads[before..]
            .iter()
            .all(|&(index, version)| self.view.memory.load(self.guards.lock(index.into())) == version << 1)
    }

    /// Reads words of one line.
    #[inline(always)]
    pub(super) fn read_line_stm(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let lock = self.view.memory.load(word);
        if self.is_readable(lock) {
            self.view.memory.load_range(at, into);
            if self.view.memory.load(word) == lock {
                self.reads.push((index as u32, lock >> 1));
                return Ok(());
            }
        }
        self.read_line_again(at, into)
    }

    /// Reads words of a line that is locked, beyond the horizon or changing.
    #[inline(never)]
    fn read_line_again(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if let State::LookingBack(past) = self.state {
            return self.read_past(past, at, into);
        }
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let mut patience = LOCK_PATIENCE;
        loop {
            let lock = self.view.memory.load(word);
            if self.is_readable(lock) {
                self.view.memory.load_range(at, into);
                if self.view.memory.load(word) == lock {
                    self.reads.push((index as u32, lock >> 1));
                    return Ok(());
                }
            } else if self.owns(lock) {
                self.own_or_home(at, into);
                return Ok(());
            } else if lock & LOCKED != 0 {
                self.wait_for_lock(word, lock, &mut patience)?;
            } else {
                self.extend()?;
            }
        }
    }

    /// Sees to it that this transaction holds the lock of the line of `at`.
    #[inline(always)]
    pub(super) fn own_stm(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let index = self.view.shared.lock_index(at);
        let lock = self.view.memory.load(self.view.shared.lock(index));
        let is_owned = self.owns(lock) || self.is_readable(lock) && self.take(index, lock);
        if is_owned { Ok(()) } else { self.own_again(at) }
    }

    /// Takes free lock number `index`, whose word is `lock`; `false` if somebody was quicker.
    #[inline(always)]
    fn take(&mut self, index: u64, lock: u64) -> bool {
        let word = self.view.shared.lock(index);
        let new = locked(self.slot_index, self.held.len() as u32);
        if self.view.memory.compare_exchange(word, lock, new).is_err() {
            return false;
        }
        self.view.memory.event(Event::Lock(word));
        // The other words of the line may be read under this lock.
        self.newest_seen = self.newest_seen.max(lock >> 1);
        self.held.push(Held { lock: index as u32, version: lock >> 1 });
        true
    }

    /// As [`Engine::own_stm`], for a lock that is taken or beyond the horizon.
    #[inline(never)]
    fn own_again(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let mut patience = LOCK_PATIENCE;
        loop {
            let lock = self.view.memory.load(word);
            if self.owns(lock) {
                return Ok(());
            }
            if lock & LOCKED != 0 {
                self.wait_for_lock(word, lock, &mut patience)?;
            } else if !self.is_readable(lock) {
                self.extend()?;
            } else if self.take(index, lock) {
                return Ok(());
            }
        }
    }

    /// Waits a little for a lock that another transaction holds. Whoever waits long gives its own locks back first: the other
    /// may wait for one of them, or not be running.
    #[cold]
    fn wait_for_lock(&mut self, at: VolatileAddress, lock: u64, patience: &mut u32) -> Result<(), Abort> {
        if *patience == 0 || self.waits_after > 0 {
            self.obstacle = Some((at, lock));
            return Err(self.doom(Abort::Conflict));
        }
        *patience -= 1;
        self.view.memory.pause();
        Ok(())
    }

    /// After an attempt that met a conflict, `attempts` of them by now: waits until what was in its way is gone. From the second
    /// time on, transactions in conflict run one after another; those that meet none are not kept from running beside them.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`](crate::Error::Deadlock) if the holder of the lock waits for this thread. The serial token is released then.
    pub(super) fn give_way(&mut self, attempts: u32) -> Result<()> {
        let waited = self.wait_for_way(attempts);
        if waited.is_err() {
            self.release_token();
        }
        waited
    }

    fn wait_for_way(&mut self, attempts: u32) -> Result<()> {
        if attempts <= self.waits_after {
            self.obstacle = None;
            self.view.memory.pause();
            return Ok(());
        }
        let attempts = attempts - self.waits_after;
        if attempts > 1 {
            self.enter_queue()?;
        }
        let Some((at, lock)) = self.obstacle.take() else { return Ok(()) };
        let memory = &self.view.memory;
        // The holder may release the lock and take it again between two loads, so that this thread does not see it free.
        let naps = if memory.is_nested() { (attempts - 1).max(NESTED_NAPS) } else { attempts - 1 };
        latch::wait_a_little_unless_deadlocked(memory, at, lock, naps).map(drop)
    }

    /// Lets the next of those that have met conflicts go on, if this is one of them.
    #[inline]
    pub(super) fn leave_queue(&mut self) {
        if self.is_queued {
            self.is_queued = false;
            self.view.memory.unlock(SharedLayout::QUEUE);
        }
    }

    /// Moves the horizon to the present, if all that was read is still valid.
    #[cold]
    fn extend(&mut self) -> Result<(), Abort> {
        let now = self.view.memory.load(SharedLayout::CLOCK);
        if !self.validate() {
            return Err(self.doom(Abort::Conflict));
        }
        self.horizon = now + 1;
        Ok(())
    }

    /// Whether every line read still has the version that was read.
    pub(super) fn validate(&self) -> bool {
        self.reads.iter().all(|&(index, version)| {
            let lock = self.view.memory.load(self.view.shared.lock(index.into()));
            if lock & LOCKED == 0 {
                return lock >> 1 == version;
            }
            let held =
                (owner(lock) == self.slot_index).then(|| self.held.get((lock >> 32) as usize)).flatten();
            held.is_some_and(|held| held.version == version)
        })
    }

    #[inline(always)]
    pub(super) fn commit_stm(&mut self) -> Result<u64, Abort> {
        let state = self.slot.commit_state();
        let counted = self.count_snapshots_early();
        self.view.memory.store(state, 1);
        // Sequentially consistent, so the state is visible before the TxID is taken.
        let transaction = self.view.memory.fetch_add(SharedLayout::CLOCK, 1) + 1;
        self.view.memory.store(state, transaction + 2);
        if transaction != self.horizon && !self.validate() {
            return Err(self.doom(Abort::Conflict));
        }
        let log_records = self.make_durable(transaction);
        self.keep_versions(transaction, counted);
        self.store_home();
        self.keep_versions_late(transaction);
        self.scheme.stored_home(&self.view, &self.writes, self.concurrency());
        self.release_locks(Some(transaction));
        self.view.memory.store(state, 0);
        self.release_token();
        Ok(log_records)
    }

    /// Releases every lock of this worker's, at the price of looking at all that there are.
    #[cold]
    pub(super) fn release_owned_locks(&mut self, version: u64) {
        for word in self.guards.locks() {
            if self.owns(self.view.memory.load(word)) {
                self.view.memory.store(word, version << 1);
            }
        }
        self.held.clear();
    }

    /// Releases all locks, with a new version or the old ones.
    #[inline]
    pub(super) fn release_locks(&mut self, version: Option<u64>) {
        for held in &self.held {
            let word = self.view.shared.lock(held.lock.into());
            self.view.memory.event(Event::Unlock(word));
            self.view.memory.store(word, version.unwrap_or(held.version) << 1);
        }
        self.held.clear();
    }
}
