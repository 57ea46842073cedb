//! Free memory: the rules for stores to freed chunks that bypass the log.
//!
//! An ordinary transaction may use a freed chunk immediately: its stores go through the log, keep versions for snapshots, and raise the
//! versions of their lines. Two operations store to free chunks *outside* the log: a compaction, which punches holes into the file, and the
//! journal of a large transaction. They may store to a chunk that transaction t freed only under four rules:
//!
//! 1. *Durable.* A durable checkpoint (in both slots, since one may be damaged later), or the durable watermark, is at or above t. It is
//!    not enough that the freeing is durable in the log, since recovery would replay older records of the chunk over the new contents.
//! 2. *Snapshots.* No snapshot below t exists, or the contents are first kept as versions, as in any commit.
//! 3. *Readers.* The versions of the chunk's lines (STM), or the sequence (single writer), were raised after t and before the first store.
//!    So a transaction that was on its way to the chunk before t notices this at its next read there, and readers need not register.
//! 4. *Holes.* A punched chunk is allocated again only when the hole is durable, because an allocation does not log words that are already
//!    zero in memory.
//!
//! | | compaction ([`Worker::compact`]) | journal ([`Engine::overwrite_free`]) |
//! |---|---|---|
//! | 1 | a checkpoint in both slots, or bulk persistence, after the chunks are held | the one with which a large transaction begins |
//! | 2 | chunks stay as they are while an older snapshot exists | keeps versions |
//! | 3 | the transaction that holds the chunks raises them | the large transaction has every lock, or the sequence |
//! | 4 | a flush before the chunks are released | – |
//!
//! t itself need not be known. An upper bound is enough: the TxID of the transaction that takes the chunks out of use.
//!
//! # The order of waits
//!
//! A transaction that needs a free chunk but finds only held ones releases everything that it holds, including the serial token or the
//! writer's lock, and waits until the compaction has released its chunks ([`Engine::wait_for_chunks`]). The compaction needs the token for
//! that. Until it ends, the transaction is counted among those that want chunks. A compaction that sees such a transaction holds no more
//! chunks and ends early, so that compactions in a loop starve no transaction.
//!
//! # Tests
//!
//! Each rule is a [`Step`](crate::memory::Step). The checker leaves each out in turn and must find the fault:
//! `lab/strandline-scheme-check/tests/all/free_memory.rs`, and the device world.
//!
//! # Crashes
//!
//! Chunks that are held when the power fails, or when a compaction fails, are freed when the pool is opened ([`Worker::release_held`]). The
//! zeros that the file shows there may be only in the page cache, left by a flush that failed, and no later flush would make them durable.
//! So transactions first zero the places where bitmaps may be, whatever memory shows (rule 4).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{Control, Engine, Worker, versions};
use crate::error::{Error, Result};
use crate::heap;
use crate::layout::SharedLayout;
use crate::memory::latch::load_in_order;
use crate::memory::{LINE_BYTES, Memory, PersistentAddress, Step};
use crate::scheme;
use crate::transaction::{Abort, Transaction};

/// The most chunks that a compaction holds at a time. Transactions that need one of them wait.
const MOST_CHUNKS: u64 = 256;
/// The number of lines whose versions one transaction raises at most, unless a single chunk has more. Other transactions meet their locks
/// meanwhile.
const MOST_LINES: u64 = 1 << 14;

/// The outcome of one step of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The bytes of free chunks whose disk space was released.
    pub punched_bytes: u64,
    /// The bytes of free chunks that kept their disk space, because an older snapshot may read them.
    pub kept_bytes: u64,
    /// The chunk at which the next step begins; `None` at the end of the heap, or if a transaction waits for free chunks.
    pub next: Option<u64>,
}

impl<C: Control> Worker<C> {
    /// Releases the disk space of some free chunks, from number `from` on. Other transactions run meanwhile. Only one thread may compact at
    /// a time, and not within a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the file system fails or cannot punch holes, and [`Error::Poisoned`] if the device failed, now or earlier.
    /// Chunks may then stay held until the pool is opened again.
    pub fn compact(&mut self, from: u64) -> Result<Compacted> {
        self.tx.engine.count_holding();
        // Counted also after a panic, so that no transaction waits for ever.
        let done = catch_unwind(AssertUnwindSafe(|| self.compact_some(from)));
        self.tx.engine.count_holding();
        done.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn compact_some(&mut self, from: u64) -> Result<Compacted> {
        if load_in_order(&self.tx.engine.view.memory, SharedLayout::WANTING) != 0 {
            return Ok(Compacted::default());
        }
        let (chunks, next) = self.hold(from)?;
        if chunks.is_empty() {
            return Ok(Compacted { next, ..Compacted::default() });
        }
        let view = &self.tx.engine.view;
        let bytes = chunks.len() as u64 * view.layout.geometry.chunk_bytes;
        let held_by = view.memory.load(SharedLayout::CLOCK);
        let is_read = view.has_snapshot_before(held_by) && !view.memory.omitted(Step::FreeSnapshots);
        let punched = if is_read { Ok(()) } else { self.tx.engine.punch(&chunks)? };
        self.release(&chunks)?;
        punched.map_err(|error| Error::io("release space of the pool to the file system", error))?;
        let (punched_bytes, kept_bytes) = if is_read { (0, bytes) } else { (bytes, 0) };
        Ok(Compacted { punched_bytes, kept_bytes, next })
    }

    /// Holds vacant chunks, and raises the versions of their lines. Returns the chunks, and the one at which to continue.
    fn hold(&mut self, from: u64) -> Result<(Vec<u64>, Option<u64>)> {
        let engine = &self.tx.engine;
        let lines = engine.view.layout.geometry.chunk_bytes / LINE_BYTES;
        let at_once = (MOST_LINES / lines).clamp(1, engine.most_changed());
        let (mut held, mut next) = (Vec::new(), Some(from));
        while (held.len() as u64) < MOST_CHUNKS
            && let Some(from) = next
        {
            let more;
            ((more, next), _) = self.run_later(|tx| tx.hold_chunks(from, at_once))?;
            held.extend(more);
        }
        Ok((held, next))
    }

    fn release(&mut self, chunks: &[u64]) -> Result<()> {
        let at_once = self.tx.engine.most_changed() as usize;
        chunks.chunks(at_once).try_for_each(|chunks| self.run_later(|tx| tx.release_chunks(chunks)).map(drop))
    }

    /// Frees the chunks that a compaction held when the power failed. Called after recovery, before anything else uses the pool.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] if the device failed, now or earlier.
    pub fn release_held(&mut self) -> Result<()> {
        let held = heap::held(&self.tx.engine.view);
        let zeros = vec![0; self.tx.engine.most_changed() as usize];
        for &chunk in &held {
            let (mut at, mut words) = heap::bitmap_area(&self.tx.engine.view.layout, chunk);
            while words > 0 {
                let now = words.min(zeros.len() as u64);
                self.run_later(|tx| tx.write_range(at, &zeros[..now as usize]))?;
                (at, words) = (at.word(now), words - now);
            }
        }
        self.release(&held)
    }
}

impl<C: Control> Engine<C> {
    fn count_holding(&self) {
        self.view.memory.fetch_add(SharedLayout::HOLDING, 1);
        self.view.memory.wake(SharedLayout::HOLDING);
    }

    /// Returns the number of words of the table that one transaction changes at most, which always fits a log.
    fn most_changed(&self) -> u64 {
        let records = self.shared_log.map_or(u64::MAX, |log| log.most_records());
        records.min(self.view.layout.log_records() / 2).clamp(1, MOST_CHUNKS)
    }

    /// Makes the freeing of these chunks durable, and punches them. The chunks are held and in ascending order. The holes are durable on
    /// return. The inner result is an error if the file system could not punch all of them.
    ///
    /// # Errors
    /// Returns an error if the device failed. The chunks must then not be released.
    fn punch(&self, chunks: &[u64]) -> Result<std::io::Result<()>> {
        let (view, memory) = (&self.view, &self.view.memory);
        if !memory.omitted(Step::FreeDurable) {
            match self.shared_log {
                Some(log) => log.checkpoint_both(view)?,
                None => scheme::persist_everything(view)?,
            }
        }
        let chunk_bytes = view.layout.geometry.chunk_bytes;
        let mut runs = chunks.chunk_by(|chunk, next| chunk + 1 == *next);
        let punched = runs.try_for_each(|run| {
            let (at, bytes) = (view.layout.chunks.byte(run[0] * chunk_bytes), run.len() as u64 * chunk_bytes);
            memory.punch(at, bytes)?;
            if let Some(log) = self.shared_log {
                log.give_back_unused(view, at, bytes);
            }
            Ok(())
        });
        match self.shared_log {
            Some(log) => log.flush_holes(view)?,
            None => {
                memory.flush_file().map_err(|error| Error::io("flush the holes of the pool's file", error))?
            }
        }
        Ok(punched)
    }

    /// Keeps versions of these lines, which a large transaction is about to overwrite for its journal. They are in chunks that were free
    /// when it began.
    pub(super) fn overwrite_free(&self, transaction: u64, lines: impl Iterator<Item = PersistentAddress>) {
        if self.is_older_read(transaction) && !self.view.memory.omitted(Step::FreeJournalVersions) {
            versions::keep(&self.view, transaction, lines);
        }
    }

    /// Takes the locks of all lines in these bytes, whose versions increase when the transaction commits.
    pub(super) fn own_lines(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        // A large transaction holds all locks already.
        if self.large.is_some() || self.view.memory.omitted(Step::FreeVersions) {
            return Ok(());
        }
        let lines = (bytes / LINE_BYTES).min(self.view.shared.stripe_locks());
        (0..lines).try_for_each(|line| self.own_stm(at.byte(line * LINE_BYTES)).map(drop))
    }

    /// Ends an attempt that needs free chunks and found held ones.
    #[cold]
    pub(super) fn want_chunks(&mut self) -> Abort {
        self.awaits_chunks = true;
        if !self.wants_chunks {
            self.wants_chunks = true;
            self.view.memory.fetch_add(SharedLayout::WANTING, 1);
        }
        self.doom(Abort::Conflict)
    }

    /// After a rollback: if the attempt found the chunks that it needs held, waits until they are released. Returns whether it waited.
    pub(super) fn wait_for_chunks(&mut self) -> bool {
        std::mem::take(&mut self.awaits_chunks) && self.wait_for_release()
    }

    #[cold]
    fn wait_for_release(&mut self) -> bool {
        if self.view.memory.omitted(Step::FreeWait) {
            return false;
        }
        // The compaction needs the token to release its chunks.
        self.release_token();
        let memory = &self.view.memory;
        loop {
            let holding = load_in_order(memory, SharedLayout::HOLDING);
            if holding.is_multiple_of(2) {
                return true;
            }
            memory.wait(SharedLayout::HOLDING, holding);
        }
    }

    /// Undoes [`Engine::want_chunks`], when the transaction has ended.
    pub(super) fn stop_wanting(&mut self) {
        if self.wants_chunks {
            self.wants_chunks = false;
            self.view.memory.fetch_add(SharedLayout::WANTING, 1u64.wrapping_neg());
        }
    }
}
