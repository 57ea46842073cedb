//! Lending: a reader gets the pages of an extent as they are in memory, without a copy.
//!
//! # The protocol
//!
//! Pages of an extent are written once, by the transaction that allocates them: a new value gets pages of its own. So their contents stay
//! the same until they are freed and handed out again. In a pool in the `Sync` domain:
//!
//! 1. Only a reader that is registered as a snapshot borrows pages. A read-only transaction that is not registered yet registers then, and
//!    continues if nothing that it has read has changed.
//! 2. A transaction that frees pages while there are snapshots marks them as unsettled in its commit, before it stores home
//!    (`engine/past_log.rs`). The marks last while a snapshot exists that is older than the freeing.
//! 3. The borrower first counts itself, until the snapshot ends. Then it checks that, at the snapshot, the pages are allocated as pages of
//!    an extent, and that they are not marked, so that no transaction has freed them. Otherwise it copies them.
//! 4. While there are a borrower and a snapshot older than the last commit, the allocator does not hand out marked pages, nor chunks that
//!    have some. A snapshot that was ended for want of room counts until it is dropped. The allocator checks the marks after it has read
//!    the bitmap in its transaction: each freeing that it sees there has been marked by then, and any other makes the transaction conflict.
//!
//! An ordinary transaction has not marked the pages that it has freed itself; it cannot allocate them again, since it takes only pages that
//! are free at home. A large transaction marks pages when it frees them.

use crate::heap;
use crate::layout::SharedLayout;
use crate::memory::{Memory, PAGE_BYTES, PersistentAddress, Step};
use crate::transaction::Abort;

use super::{Control, Engine, State, versions};

impl<C: Control> Engine<C> {
    /// Returns whether `pages` pages of an extent from `at` on can be borrowed until the transaction ends. From here on the transaction
    /// reads at a snapshot, if it can.
    ///
    /// # Errors
    /// Returns an error after a conflict, if anything that the transaction has read has changed since. The snapshot was ended then.
    pub(super) fn prepare_to_borrow(&mut self, at: PersistentAddress, pages: u64) -> Result<bool, Abort> {
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
        if !heap::are_allocated(self, at, pages)? {
            return Ok(false);
        }
        let memory = &self.view.memory;
        Ok(memory.omitted(Step::LendMarks) || log.unsettled(memory, at, pages * PAGE_BYTES) == 0)
    }

    /// Ends the loans of a transaction or snapshot that ends.
    pub(super) fn give_back_borrowed(&mut self) {
        if std::mem::take(&mut self.borrows)
            && let Some(log) = self.shared_log
        {
            log.count_borrower(&self.view.memory, false);
        }
    }

    /// Returns the first `bytes` bytes of pages of an extent as they are in memory; `None` if they must be copied.
    ///
    /// # Safety
    /// The caller guarantees what [`Read::borrow_pages`](crate::Read::borrow_pages) demands.
    pub(super) unsafe fn borrow_pages(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        match self.state {
            // SAFETY: this borrows the transaction, so that it cannot end meanwhile, and it is registered as a snapshot until it ends. The
            // pages were allocated at the snapshot's time and had not been freed when it was counted: rule 3. A transaction that frees them
            // commits later, and by rules 2 and 4 the allocator does not hand them out until the snapshot has ended; until then no thread
            // writes to them.
            State::LookingBack(_) if self.borrows => unsafe { self.view.memory.borrow(at, bytes) },
            _ => None,
        }
    }

    /// Called when there is no free memory, perhaps only because pages are borrowed all the time. Asks for a checkpoint: two of them
    /// separate the marked pages that no reader can have borrowed from the others.
    pub(super) fn tell_returned(&self) {
        if let Some(log) = self.shared_log.filter(|log| log.are_borrowed(&self.view.memory)) {
            log.ask_for_checkpoint(&self.view.memory);
        }
    }

    /// Returns a bit mask of those pages, of the `pages` (at most 64) from `at` on, that may be lent to snapshots although they are free.
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
