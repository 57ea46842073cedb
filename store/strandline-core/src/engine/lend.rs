//! Lending: a reader gets the pages of an extent as they lie in memory, without a copy.
//!
//! # The protocol
//!
//! Pages of an extent are written once, by the transaction that allocates them: whoever changes a value in extents gives it others. So they hold the same
//! until they are freed and handed out again. In a pool in the `Sync` domain:
//!
//! 1. Only who is registered as a snapshot borrows pages. A transaction that only reads and has not read at a snapshot so far registers, and goes on if what it has
//!    read is still there.
//! 2. Who borrows is counted first, until the snapshot ends. Then it looks whether the guard of the pages is as the snapshot saw it: nobody has freed them so far.
//!    Otherwise it reads them as it reads anything.
//! 3. A transaction that frees pages while there are snapshots marks them as unsettled in its commit (`engine/past_log.rs`).
//! 4. Pages that are marked are handed out to nobody while somebody borrows and a snapshot exists that is older than the last commit, and neither is a chunk that has
//!    such pages. A snapshot that was ended for want of room counts until it is dropped.
//!
//! Pages that a transaction has freed itself are not marked yet. It takes none of them again: it takes those alone that are free at home, too.

use crate::layout::SharedLayout;
use crate::memory::{Memory, PAGE_BYTES, PersistentAddress, Step};
use crate::transaction::Abort;

use super::optimistic::Guard;
use super::{Control, Engine, State, versions};

impl<C: Control> Engine<C> {
    /// Returns whether pages of extents with this guard can be borrowed until the transaction ends, which reads at a snapshot from here on.
    ///
    /// # Errors
    /// A conflict: something that it has read has changed since.
    pub(super) fn prepare_to_borrow(&mut self, guard: PersistentAddress) -> Result<bool, Abort> {
        let Some(log) = self.shared_log else { return Ok(false) };
        if let State::Reading = self.state
            && self.can_look_back()
        {
            let Ok(past) = versions::register(&self.view) else { return Ok(false) };
            if !self.are_guards_unchanged(0) {
                versions::end(&self.view, past);
                return Err(self.doom(Abort::Conflict));
            }
            self.look_at(past);
        }
        if !matches!(self.state, State::LookingBack(_)) {
            return Ok(false);
        }
        if !self.borrows {
            self.borrows = true;
            log.count_borrower(&self.view.memory, true);
        }
        let read_before = self.reads.len();
        let is_as_seen = matches!(self.guard(guard), Guard::Home);
        self.reads.truncate(read_before);
        Ok(is_as_seen || self.view.memory.omitted(Step::LendGuard))
    }

    /// The transaction or snapshot ends, and has nothing borrowed any more.
    pub(super) fn give_back_borrowed(&mut self) {
        if std::mem::take(&mut self.borrows)
            && let Some(log) = self.shared_log
        {
            log.count_borrower(&self.view.memory, false);
        }
    }

    /// Returns the first `bytes` bytes of pages of an extent as they lie in memory; `None` where they must be copied.
    ///
    /// # Safety
    /// As [`Read::borrow_pages`](crate::Read::borrow_pages) demands.
    pub(super) unsafe fn borrow_pages(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        match self.state {
            // SAFETY: this borrows the transaction, so that it cannot end meanwhile, and it is registered as a snapshot until it ends. The pages were allocated
            // at the snapshot's time and have not been freed since, as the caller has seen. Whoever frees them commits later, and by rules 3 and 4 they are
            // not handed out until the snapshot is no more; until then nobody writes to them.
            State::LookingBack(_) if self.borrows => unsafe { self.view.memory.borrow(at, bytes) },
            _ => None,
        }
    }

    /// The heap is about to grow. What keeps its free pages may be that somebody always borrows some: pages that are marked and that nobody has borrowed any more
    /// can be told from the others by two checkpoints.
    pub(super) fn expect_returned(&self) {
        if let Some(log) = self.shared_log.filter(|log| log.are_borrowed(&self.view.memory)) {
            log.request_checkpoint(&self.view.memory);
        }
    }

    /// Returns which of the `pages` pages from the one at `at` on, 64 at most, may be lent to snapshots though they are free, as bits.
    pub(super) fn lent_pages(&self, at: PersistentAddress, pages: u64) -> u64 {
        let memory = &self.view.memory;
        match self.shared_log {
            Some(log)
                if log.are_borrowed(memory)
                    && !memory.omitted(Step::LendPages)
                    && self.view.has_snapshot_before(memory.load(SharedLayout::CLOCK)) =>
            {
                log.unsettled(memory, at, pages * PAGE_BYTES)
            }
            _ => 0,
        }
    }
}
