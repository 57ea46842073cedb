//! Word-based software transactional memory after TinySTM (encounter-time locking, write-back).
//!
//! Every line of the pool hashes to a lock word: even, twice the version (the TxID of the last commit that
//! wrote under it); odd, locked: the owner's number and its newest entry under that lock. A transaction
//! reads at a snapshot time; when it meets a newer version it validates all it has read and moves the
//! snapshot forward, so that it never sees an inconsistent state (opacity). Writes take their line's lock at
//! once and stay in the scheme's log until commit.
//!
//! Against livelock a transaction waits a random, growing while after each conflict, and after some
//! attempts takes a token that keeps others from beginning: those that run end, and it goes through.

use crate::layout::SharedLayout;
use crate::memory::{Event, Memory, PersistentAddress};
use crate::scheme::SchemeObject;

use super::{Control, Engine};
use crate::transaction::Abort;
use crate::transaction::write_set::{LineEntry, NONE};

/// Pauses that a transaction waits for a lock before it gives way.
const LOCK_PATIENCE: u32 = 64;

const LOCKED: u64 = 1;

/// A lock word of owner `slot` whose newest entry under this lock is `entry`.
#[inline(always)]
fn locked(slot: u64, entry: u32) -> u64 {
    u64::from(entry) << 32 | slot << 1 | LOCKED
}

#[inline(always)]
fn owner(lock: u64) -> u64 {
    (lock & 0xffff_ffff) >> 1
}

impl<M: Memory, C: Control<M>> Engine<M, C> {
    pub(super) fn begin_stm(&mut self, serial: bool) {
        let memory = &self.view.memory;
        if !self.holds_lock {
            if serial {
                memory.lock(SharedLayout::SERIAL);
                self.holds_lock = true;
            } else {
                while memory.load(SharedLayout::SERIAL) != 0 {
                    memory.pause();
                }
            }
        }
        self.snapshot = memory.load(SharedLayout::CLOCK);
    }

    /// Gives the serial token or the writer's lock back, if this worker holds it.
    #[inline(always)]
    pub(super) fn release_token(&mut self) {
        if self.holds_lock {
            self.holds_lock = false;
            self.view.memory.unlock(match self.concurrency() {
                super::Concurrency::Stm => SharedLayout::SERIAL,
                super::Concurrency::SingleWriter => SharedLayout::WRITER,
                super::Concurrency::Locks => return,
            });
        }
    }

    /// This transaction's entry for `line` under a lock word that it owns.
    #[inline(always)]
    fn own_entry(&self, lock: u64, line: PersistentAddress) -> Option<u32> {
        let mut entry = (lock >> 32) as u32;
        while entry != NONE {
            let candidate = &self.writes.entries[entry as usize];
            if candidate.line == line {
                return Some(entry);
            }
            entry = candidate.next;
        }
        None
    }

    #[inline(always)]
    fn owns(&self, lock: u64) -> bool {
        lock & LOCKED != 0 && owner(lock) == self.slot_index
    }

    /// Records that a version was read; moves the snapshot forward if it is newer. `false`: read again.
    #[inline(always)]
    fn admit(&mut self, index: u64, version: u64) -> Result<bool, Abort> {
        if version > self.snapshot {
            self.extend()?;
            return Ok(false);
        }
        self.newest_read = self.newest_read.max(version);
        self.reads.push((index as u32, version));
        Ok(true)
    }

    #[inline]
    pub(super) fn read_stm(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let mut patience = LOCK_PATIENCE;
        loop {
            let lock = self.view.memory.load(word);
            if lock & LOCKED == 0 {
                let value = self.view.memory.load(at);
                if self.view.memory.load(word) == lock && self.admit(index, lock >> 1)? {
                    return Ok(value);
                }
            } else if owner(lock) == self.slot_index {
                return Ok(self.own_or_home(self.own_entry(lock, at.line()), at));
            } else {
                self.wait_for_lock(&mut patience)?;
            }
        }
    }

    /// Reads words of one line.
    #[inline]
    pub(super) fn read_line_stm(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let mut patience = LOCK_PATIENCE;
        loop {
            let lock = self.view.memory.load(word);
            if lock & LOCKED == 0 {
                self.view.memory.load_range(at, into);
                if self.view.memory.load(word) == lock && self.admit(index, lock >> 1)? {
                    return Ok(());
                }
            } else if owner(lock) == self.slot_index {
                let entry = self.own_entry(lock, at.line());
                for (i, value) in into.iter_mut().enumerate() {
                    *value = self.own_or_home(entry, at.word_inside(i as u64));
                }
                return Ok(());
            } else {
                self.wait_for_lock(&mut patience)?;
            }
        }
    }

    /// The entry for the line of `at`, its lock taken if it is not yet.
    #[inline]
    pub(super) fn entry_stm(&mut self, at: PersistentAddress) -> Result<u32, Abort> {
        let index = self.view.shared.lock_index(at);
        let word = self.view.shared.lock(index);
        let mut patience = LOCK_PATIENCE;
        loop {
            let lock = self.view.memory.load(word);
            let line = at.line();
            if self.owns(lock) {
                if let Some(entry) = self.own_entry(lock, line) {
                    return Ok(entry);
                }
                let entry = self.push_entry(line, index, (lock >> 32) as u32, 0);
                self.view.memory.store(word, locked(self.slot_index, entry));
                return Ok(entry);
            }
            if lock & LOCKED != 0 {
                self.wait_for_lock(&mut patience)?;
                continue;
            }
            let version = lock >> 1;
            if version > self.snapshot {
                self.extend()?;
                continue;
            }
            let entry = self.writes.entries.len() as u32;
            let new = locked(self.slot_index, entry);
            if self.view.memory.compare_exchange(word, lock, new).is_ok() {
                self.view.memory.event(Event::Lock(word));
                // The other words of the line may be read under this lock.
                self.newest_read = self.newest_read.max(version);
                return Ok(self.push_entry(line, index, NONE, version));
            }
        }
    }

    #[inline(always)]
    fn push_entry(&mut self, line: PersistentAddress, lock: u64, next: u32, version: u64) -> u32 {
        let lock = lock as u32;
        self.writes.push(LineEntry { line, version, lock, next, written: 0, places: [0; 8] })
    }

    #[cold]
    fn wait_for_lock(&mut self, patience: &mut u32) -> Result<(), Abort> {
        if *patience == 0 {
            return Err(self.doom(Abort::Conflict));
        }
        *patience -= 1;
        self.view.memory.pause();
        Ok(())
    }

    /// Moves the snapshot to the present, if all that was read is still valid.
    #[cold]
    fn extend(&mut self) -> Result<(), Abort> {
        let now = self.view.memory.load(SharedLayout::CLOCK);
        if !self.validate() {
            return Err(self.doom(Abort::Conflict));
        }
        self.snapshot = now;
        Ok(())
    }

    /// Whether every line read still has the version that was read.
    pub(super) fn validate(&self) -> bool {
        self.reads.iter().all(|&(index, version)| {
            let lock = self.view.memory.load(self.view.shared.lock(index.into()));
            if lock & LOCKED == 0 {
                return lock >> 1 == version;
            }
            owner(lock) == self.slot_index && self.version_before(lock) == version
        })
    }

    /// The version under a lock before this transaction took it.
    fn version_before(&self, lock: u64) -> u64 {
        let mut entry = &self.writes.entries[(lock >> 32) as usize];
        while entry.next != NONE {
            entry = &self.writes.entries[entry.next as usize];
        }
        entry.version
    }

    #[inline]
    pub(super) fn commit_stm(&mut self) -> Result<u64, Abort> {
        let state = self.slot.commit_state();
        self.view.memory.store(state, 1);
        // Sequentially consistent, so the state is visible before the TxID is taken.
        let transaction = self.view.memory.fetch_add(SharedLayout::CLOCK, 1) + 1;
        self.view.memory.store(state, transaction + 2);
        if transaction != self.snapshot + 1 && !self.validate() {
            return Err(self.doom(Abort::Conflict));
        }
        let log_records = self.make_durable(transaction);
        self.store_home();
        self.scheme.stored_home(&self.view, &self.writes, self.concurrency());
        self.release_locks(Some(transaction));
        self.view.memory.store(state, 0);
        self.release_token();
        Ok(log_records)
    }

    /// Releases all locks, with a new version or the old ones.
    #[inline]
    pub(super) fn release_locks(&mut self, version: Option<u64>) {
        for entry in &self.writes.entries {
            // An entry that found its lock already taken leaves it to the entry that took it.
            if entry.next == NONE {
                let word = self.view.shared.lock(entry.lock.into());
                self.view.memory.event(Event::Unlock(word));
                self.view.memory.store(word, version.unwrap_or(entry.version) << 1);
            }
        }
    }
}
