//! Word-based software transactional memory after TinySTM (encounter-time locking, write-back).
//!
//! Every line of the pool hashes to a lock word. An even one is twice the version (the TxID of the last commit that wrote under it). An odd
//! one is locked: it has the owner's number and its newest entry under that lock. A transaction reads below a horizon in time; when it
//! meets a newer version it validates all that it has read and moves the horizon forward, so that it never sees an inconsistent state
//! (opacity). A write takes its line's lock immediately and stays in the scheme's log until the commit. Locks are of lines, not words,
//! because lines are what is written back: a line that another transaction wrote again would be fetched and written back twice.
//!
//! Accesses that meet no lock are inlined, and the rest is out of line: a read costs two loads of the lock word and one of the value.
//!
//! A transaction that meets a conflict ends, waits until the lock that it met is released, and runs again. After a second conflict it waits
//! in a queue with the other transactions that met two, so that at most one of them runs beside those without conflicts. With more threads
//! than cores, this keeps spinning threads from taking the processor away from the lock's holder. After some attempts it takes a token that
//! keeps other writing transactions from beginning: the running ones end, and it succeeds. Read-only transactions still begin: they take no
//! locks, and read locked lines at a snapshot.
//!
//! A worker of the laboratory may retry immediately instead ([`Worker::retry_at_once`](super::Worker::retry_at_once)). TinySTM's default
//! contention manager, `CM_SUICIDE`, aborts the transaction that meets a lock and runs it again without waiting. Each such transaction
//! still ends. If the lock's holder runs, the lock is in the way for no longer than the holder's attempt; if the holder was preempted, the
//! transaction spins for a time slice. Transactions could also abort one another in turn for ever, which TinySTM does not exclude. These
//! reach [`RETRIES_AT_ONCE`], and from there on wait, queue and take the token like all others.

use crate::error::Result;
use crate::layout::SharedLayout;
use crate::memory::{Event, Memory, PersistentAddress, VolatileAddress, latch};
use crate::scheme::SchemeObject;

#[cfg(doc)]
use super::RETRIES_AT_ONCE;
use super::optimistic::Guard;
use super::{Control, Engine, State};
use crate::transaction::{Abort, Concurrency};

/// The number of pauses for which a transaction waits for a lock before it gives up.
const LOCK_PATIENCE: u32 = 64;

/// The least number of naps for which a transaction within a transaction of another pool waits for a lock: enough to notice that it is
/// never released.
const NESTED_NAPS: u32 = 32;

const LOCKED: u64 = 1;

/// A stripe lock that a transaction holds.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// The index of the lock.
    lock: u32,
    /// The version of the lock before it was taken.
    version: u64,
}

/// Returns the lock word for owner `slot`, whose list of held locks has this one as number `number`.
#[inline]
fn locked(slot: u64, number: u32) -> u64 {
    u64::from(number) << 32 | slot << 1 | LOCKED
}

/// Returns whether a transaction holds the lock with this word.
pub(super) fn is_locked(lock: u64) -> bool {
    lock & LOCKED != 0
}

/// Returns whether the worker with slot `slot` holds the lock whose word is `word`.
pub(super) fn is_locked_by(lock: u64, slot: u64) -> bool {
    is_locked(lock) && owner(lock) == slot
}

/// Returns the lock word for owner `slot`, for a lock that is not in its list of held locks.
pub(super) fn locked_by(slot: u64) -> u64 {
    locked(slot, u32::MAX)
}

#[inline]
fn owner(lock: u64) -> u64 {
    (lock & 0xffff_ffff) >> 1
}

impl<C: Control> Engine<C> {
    /// The fast path: begins if no transaction has the serial token, or this one only reads.
    #[inline(always)]
    pub(super) fn begin_stm_at_once(&mut self) -> bool {
        let memory = &self.view.memory;
        // A reader takes no locks, so it does not obstruct writers.
        if self.holds_lock || (!self.only_reads() && memory.load(SharedLayout::SERIAL) != 0) {
            return false;
        }
        self.horizon = memory.load(SharedLayout::CLOCK) + 1;
        self.newest_seen = 0;
        true
    }

    /// Begins an attempt, and takes the serial token if `serial`.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`](crate::Error::Deadlock) if the holder of the queue or of the token waits for this thread; the transaction may hold the queue then.
    pub(super) fn begin_stm(&mut self, serial: bool) -> Result<()> {
        if !self.holds_lock {
            if serial {
                // Always in this order: the holder of the queue waits for the token.
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

    /// Waits for a turn among the transactions that have met conflicts.
    fn enter_queue(&mut self) -> Result<()> {
        if !self.is_queued {
            let memory = &self.view.memory;
            memory.lock_unless_deadlocked(SharedLayout::QUEUE)?;
            memory.note_owner(SharedLayout::QUEUE_OWNER, self.slot_index + 1);
            self.is_queued = true;
        }
        Ok(())
    }

    /// Releases the serial token or the writer's lock, if this worker holds it.
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

    /// Returns whether the lines under a lock word are unlocked and below this transaction's horizon.
    #[inline(always)]
    fn is_readable(&self, lock: u64) -> bool {
        lock & LOCKED == 0 && lock >> 1 < self.horizon
    }

    /// Returns words of one line that is unlocked and below the horizon.
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

    /// Returns how an optimistic search that may see versions below `horizon` may use the line of `at`. The line counts as read if the
    /// search may read home.
    pub(super) fn guard_stm(&mut self, at: PersistentAddress, horizon: u64) -> Guard {
        let index = self.guards.lock_index(at);
        let lock = self.view.memory.load(self.guards.lock(index));
        if !is_locked(lock) && lock >> 1 < horizon {
            self.reads.push((index as u32, lock >> 1));
            return Guard::Home;
        }
        if self.owns(lock) { Guard::Own } else { Guard::None }
    }

    /// Returns whether the lines read after the first `before` ones are unlocked and have the versions that they had.
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

    /// Takes the lock of the line of `at`, unless this transaction has it.
    #[inline(always)]
    pub(super) fn own_stm(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let index = self.view.shared.lock_index(at);
        let lock = self.view.memory.load(self.view.shared.lock(index));
        let is_owned = self.owns(lock) || self.is_readable(lock) && self.take(index, lock);
        if is_owned { Ok(()) } else { self.own_again(at) }
    }

    /// Takes free lock number `index`, whose word is `lock`. Returns false if another transaction was faster.
    #[inline(always)]
    fn take(&mut self, index: u64, lock: u64) -> bool {
        let word = self.view.shared.lock(index);
        let new = locked(self.slot_index, self.held.len() as u32);
        if self.view.memory.compare_exchange(word, lock, new).is_err() {
            return false;
        }
        self.view.memory.event(Event::Lock(word));
        // The other words of the line may be read under this lock without an entry in `reads`.
        self.newest_seen = self.newest_seen.max(lock >> 1);
        self.held.push(Held { lock: index as u32, version: lock >> 1 });
        true
    }

    /// The slow path of [`Engine::own_stm`], for a lock that is held or beyond the horizon.
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

    /// Pauses for a lock that another transaction holds. After some pauses it ends the attempt, which releases its own locks: the holder
    /// may wait for one of them, or may not be running.
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

    /// Waits after attempt number `attempts` that met a conflict, until the lock that it met is released. From the second conflict on, such
    /// transactions run one after another; those without conflicts run beside them.
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
        // The holder may release the lock and take it again between two loads, so that this thread never sees it free. So the wait is
        // bounded.
        let naps = if memory.is_nested() { (attempts - 1).max(NESTED_NAPS) } else { attempts - 1 };
        latch::wait_a_little_unless_deadlocked(memory, at, lock, naps).map(drop)
    }

    /// Lets the next transaction in the queue run, if this one is at its head.
    #[inline]
    pub(super) fn leave_queue(&mut self) {
        if self.is_queued {
            self.is_queued = false;
            self.view.memory.unlock(SharedLayout::QUEUE);
        }
    }

    /// Moves the horizon to the present, if all reads so far are still valid.
    #[cold]
    fn extend(&mut self) -> Result<(), Abort> {
        let now = self.view.memory.load(SharedLayout::CLOCK);
        if !self.validate() {
            return Err(self.doom(Abort::Conflict));
        }
        self.horizon = now + 1;
        Ok(())
    }

    /// Returns whether every line read still has the version that was read.
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

    /// Releases all locks of this worker, found by a scan of all locks.
    #[cold]
    pub(super) fn release_owned_locks(&mut self, version: u64) {
        for word in self.guards.locks() {
            if self.owns(self.view.memory.load(word)) {
                self.view.memory.store(word, version << 1);
            }
        }
        self.held.clear();
    }

    /// Releases all locks, with a new version or with their old ones.
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
