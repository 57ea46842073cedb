//! Free memory: what may be stored to freed chunks outside the log, and when.
//!
//! An ordinary transaction may use a freed chunk at once: its stores go through the log, keep versions for snapshots, and raise the
//! versions of their lines. Two things store to free chunks *outside* the log: a compaction, which punches holes into the file, and the
//! journal of a large transaction. Such a store may go to a chunk that was freed by transaction t only under four rules:
//!
//! 1. *Durable.* A durable checkpoint (in both slots, since one may be damaged later), or the durable watermark, is at or above t. That the
//!    freeing is durable in the log is not enough: older records of the chunk would be replayed over what was stored.
//! 2. *Snapshots.* No snapshot below t exists; or what is overwritten is kept as versions first, as by any commit.
//! 3. *Readers.* The versions of the chunk's lines (STM), or the sequence (single writer), were raised after t and before the first store. So a
//!    transaction that read its way to the chunk before t notices at its next read there, and readers need not register.
//! 4. *Holes.* A punched chunk is allocated again only when the hole is durable, because an allocation does not log words that memory already
//!    shows as zero.
//!
//! | | compaction ([`Worker::compact`]) | journal ([`Engine::overwrite_free`]) |
//! |---|---|---|
//! | 1 | a checkpoint in both slots, or bulk persistence, after the chunks are held | the one with which a large transaction begins |
//! | 2 | chunks stay as they are while an older snapshot exists | keeps versions |
//! | 3 | the transaction that holds the chunks raises them | the large transaction has every lock, or the sequence |
//! | 4 | a flush before the chunks are released | – |
//!
//! A bound of t is enough, and the transaction that takes the chunks out of use has one: its own TxID.
//!
//! # Who waits for whom
//!
//! A transaction that finds no free chunk but held ones gives up everything it holds, the serial token or the writer's lock too, and waits until
//! the compaction has released its chunks ([`Engine::wait_for_chunks`]). The compaction needs the token for that. It counts itself among those
//! that want chunks until it ends, and a compaction that finds one holds no more chunks and ends early, so that compactions in a loop starve nobody.
//!
//! # Tests
//!
//! Each rule is a [`Step`](crate::memory::Step) that the checker leaves out and must find: `lab/strandline-scheme-check/tests/all/free_memory.rs`, and the
//! device world.
//!
//! # Crashes
//!
//! Chunks that are held when the power fails, or when a compaction fails, are freed when the pool is opened ([`Worker::release_held`]). Zeros that
//! the file shows there may be in the page cache alone, left by a flush that failed, and no later flush makes them durable. So the
//! bitmaps that may be there are zeroed by transactions first, whatever memory shows (rule 4).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{Control, Engine, Worker, versions};
use crate::error::{Error, Result};
use crate::heap;
use crate::layout::SharedLayout;
use crate::memory::latch::load_in_order;
use crate::memory::{LINE_BYTES, Memory, PersistentAddress, Step};
use crate::scheme;
use crate::transaction::{Abort, Transaction};

/// Chunks held at a time at most. Transactions that need one of them wait.
const MOST_CHUNKS: u64 = 256;
/// Lines whose versions one transaction raises, if a chunk has not more: others meet their locks meanwhile.
const MOST_LINES: u64 = 1 << 14;

/// What part of a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of free chunks whose space was released.
    pub punched_bytes: u64,
    /// Bytes of free chunks that kept their space, because an older snapshot may read them.
    pub kept_bytes: u64,
    /// The chunk to go on from; `None` at the end of the heap, or if a transaction waits for free chunks.
    pub next: Option<u64>,
}

impl<C: Control> Worker<C> {
    /// Releases the disk space of free chunks from number `from` on, of some at a time; transactions go on meanwhile. One thread compacts at a
    /// time, in no transaction.
    ///
    /// # Errors
    /// The file system cannot punch holes into files, or fails; [`Error::Poisoned`]. Chunks may stay held then, until the pool is opened again.
    pub fn compact(&mut self, from: u64) -> Result<Compacted> {
        self.tx.engine.count_holding();
        // Whatever happens, nobody is to wait for ever.
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

    /// Holds vacant chunks, and raises the versions of their lines. Returns them, and the chunk to go on from.
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

    /// Frees the chunks that a compaction held when the power failed, after recovery. Nobody else uses the pool yet.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
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

    /// The most words of the table that one transaction changes: what surely fits a log.
    fn most_changed(&self) -> u64 {
        let records = self.shared_log.map_or(u64::MAX, |log| log.most_records());
        records.min(self.view.layout.log_records() / 2).clamp(1, MOST_CHUNKS)
    }

    /// Makes the freeing of these chunks durable, which are held and in ascending order, and punches them. The holes are durable on return, also
    /// where the inner result is an error: the file system could not punch all of them.
    ///
    /// # Errors
    /// The device failed: the chunks must not be released.
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

    /// A large transaction is about to store to these lines of chunks that were free when it began, for its journal.
    pub(super) fn overwrite_free(&self, transaction: u64, lines: impl Iterator<Item = PersistentAddress>) {
        if self.is_older_read(transaction) && !self.view.memory.omitted(Step::FreeJournalVersions) {
            versions::keep(&self.view, transaction, lines);
        }
    }

    /// Takes the locks of all lines of these bytes, whose versions rise when the transaction commits.
    pub(super) fn own_lines(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        // A large transaction has all of them.
        if self.large.is_some() || self.view.memory.omitted(Step::FreeVersions) {
            return Ok(());
        }
        let lines = (bytes / LINE_BYTES).min(self.view.shared.stripe_locks());
        (0..lines).try_for_each(|line| self.own_stm(at.byte(line * LINE_BYTES)).map(drop))
    }

    /// Ends the attempt, which found held chunks where it needs free ones.
    #[cold]
    pub(super) fn want_chunks(&mut self) -> Abort {
        self.awaits_chunks = true;
        if !self.wants_chunks {
            self.wants_chunks = true;
            self.view.memory.fetch_add(SharedLayout::WANTING, 1);
        }
        self.doom(Abort::Conflict)
    }

    /// After an attempt that was rolled back: whether it found its chunks held. Then it has waited until they are released.
    pub(super) fn wait_for_chunks(&mut self) -> bool {
        std::mem::take(&mut self.awaits_chunks) && self.wait_for_release()
    }

    #[cold]
    fn wait_for_release(&mut self) -> bool {
        if self.view.memory.omitted(Step::FreeWait) {
            return false;
        }
        // The compaction needs it.
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

    /// Ends what [`Engine::want_chunks`] began, when the transaction has ended.
    pub(super) fn stop_wanting(&mut self) {
        if self.wants_chunks {
            self.wants_chunks = false;
            self.view.memory.fetch_add(SharedLayout::WANTING, 1u64.wrapping_neg());
        }
    }
}
