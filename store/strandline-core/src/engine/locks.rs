//! The engine with isolation by locks: see `transaction/locks.rs`.

use super::{Control, Engine, renew};
use crate::error::Error;
use crate::layout::View;
use crate::memory::{Event, Memory, PersistentAddress, latch};
use crate::scheme::SchemeObject;
use crate::transaction::locks::lock_of;
use crate::transaction::{Abort, Concurrency, Lock};

impl<C: Control> Engine<C> {
    /// Declares the lock set of a transaction before its first attempt; `None` if it declares none.
    pub(super) fn declare(&mut self, locks: Option<&[Lock]>) {
        renew(&mut self.locks.region, locks.and_then(Lock::first_region));
        if self.concurrency() == Concurrency::Locks {
            self.locks.want(&self.view, locks);
        }
    }

    /// Takes the locks that are known to be necessary, in order.
    pub(super) fn begin_locks(&mut self) {
        let locks = &mut self.locks;
        locks.fresh.clear();
        locks.allocating = false;
        locks.late = false;
        for &lock in &locks.wanted {
            self.view.memory.lock(self.view.shared.set_lock(lock.into()));
        }
        locks.held.clone_from(&locks.wanted);
        self.scheme.locks_taken(&self.view);
    }

    /// Takes the lock of the word at `at`. Fails if another transaction holds it.
    fn need(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        self.need_lock(at, lock_of)
    }

    /// Takes the lock that `lock_of` returns for the word at `at`. Fails if another transaction holds it.
    fn need_lock(
        &mut self,
        at: PersistentAddress,
        lock_of: impl Fn(&View<C::Memory>, PersistentAddress) -> u32,
    ) -> Result<(), Abort> {
        loop {
            // Determined again after the lock was taken, because the heap may have given the word another lock meanwhile.
            let lock = lock_of(&self.view, at);
            if self.locks.holds(lock) {
                return Ok(());
            }
            let word = self.view.shared.set_lock(lock.into());
            if !latch::try_lock(&self.view.memory, word) {
                self.locks.wanted.clone_from(&self.locks.held);
                if let Err(at) = self.locks.wanted.binary_search(&lock) {
                    self.locks.wanted.insert(at, lock);
                }
                return Err(self.doom(Abort::Conflict));
            }
            self.view.memory.event(Event::Lock(word));
            self.locks.insert(lock);
            self.locks.late = true;
        }
    }

    fn lock_to_read(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        if self.locks.declared && !self.locks.allocating { Ok(()) } else { self.need(at) }
    }

    /// Reads words of one line.
    pub(super) fn read_line_locks(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.lock_to_read(at)?;
        // The words of a line have the same lock, except in the chunk table.
        for word in 1..into.len() as u64 {
            let at = at.word(word);
            if at >= self.view.layout.chunk_table && at < self.view.layout.chunks {
                self.lock_to_read(at)?;
            }
        }
        self.own_or_home(at, into);
        Ok(())
    }

    /// Takes the locks of the word at `at`, if the transaction may write to it.
    pub(super) fn lock_to_write(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let lock = lock_of(&self.view, at);
        if !self.locks.holds(lock) {
            let fresh = |&(block, bytes): &(PersistentAddress, u64)| at >= block && at < block.byte(bytes);
            if self.locks.declared && !self.locks.allocating && !self.locks.fresh.iter().any(fresh) {
                return Err(self.fail_write(at));
            }
            self.need(at)?;
        }
        if at >= self.view.layout.chunk_table && at < self.view.layout.chunks {
            // Elsewhere, the words of a line have the same lock already.
            self.need_lock(at, Lock::of_line)?;
        }
        Ok(())
    }

    #[cold]
    fn fail_write(&mut self, at: PersistentAddress) -> Abort {
        self.error.get_or_insert(Error::OutsideLockSet(at.offset()));
        self.doom(Abort::Failed)
    }

    /// Commits. Some schemes commit later, in groups.
    pub(super) fn commit_locks(&mut self) -> Result<(), Abort> {
        if self.writes.is_empty() {
            self.scheme.end_locked(&self.view, &mut self.locks);
            self.view.memory.event(Event::Commit(0));
            self.tally.read_only.add(1);
            self.statistics.acknowledged += 1;
            return Ok(());
        }
        self.gather_home();
        let Self { view, scheme, slot_index, locks, writes, statistics, .. } = self;
        match scheme.commit_locked(view, *slot_index, locks, writes, statistics) {
            Ok(()) => {
                self.tally.commits.add(1);
                Ok(())
            }
            Err(error) => {
                self.error.get_or_insert(error);
                Err(self.doom(Abort::Failed))
            }
        }
    }
}
