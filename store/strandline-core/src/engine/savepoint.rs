//! Savepoints: places within a transaction to which it goes back without ending.
//!
//! While there is one, each write first notes what the words held before, in memory. Going back writes that again, newest first, as
//! any write of the transaction; allocations and frees are writes too. So nothing of it is persistent, and schemes and concurrency controls know
//! nothing of it. A block that was allocated since is free again, and loses its first word, so that whoever still has a pointer to it finds no
//! value of its type there.

use super::{Control, Engine, State, Tx};
use crate::error::Error;
use crate::heap::{self, Access};
use crate::memory::PersistentAddress;
use crate::transaction::Abort;

/// What goes back to the savepoints of a running transaction.
#[derive(Default)]
pub(super) struct Undo {
    /// Where words were written, oldest first, and where what they held begins in `words`.
    spans: Vec<(PersistentAddress, usize)>,
    words: Vec<u64>,
    /// What was allocated.
    blocks: Vec<PersistentAddress>,
    /// The savepoints that can be gone back to, oldest first.
    savepoints: Vec<Point>,
}

impl Undo {
    /// Whether going back may write the word at `at`.
    pub fn covers(&self, at: PersistentAddress) -> bool {
        let ends = self.spans.iter().skip(1).map(|&(_, begin)| begin).chain([self.words.len()]);
        let mut spans = self.spans.iter().zip(ends);
        spans.any(|(&(from, begin), end)| (from..from.word_inside((end - begin) as u64)).contains(&at))
    }
}

/// A savepoint, and how long the lists of [`Undo`] were there.
struct Point {
    number: u64,
    spans: usize,
    blocks: usize,
}

impl<C: Control> Engine<C> {
    /// Forgets all savepoints.
    pub(super) fn forget_savepoints(&mut self) {
        self.undo = None;
        if let State::Noting = self.state {
            self.state = State::Writing;
        }
    }

    /// Writes words where the usual way is closed: after a savepoint, in a large transaction, or in one that only reads.
    #[cold]
    #[inline(never)]
    pub(super) fn write_special(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if self.only_reads() {
            return Err(self.fail(Error::ReadOnly));
        }
        // What the heap has grown by and what the journal takes stays theirs.
        let is_heaps_own = at == self.view.layout.reached() || self.is_extending_journal();
        if self.undo.is_some() && !is_heaps_own {
            self.note(at, from.len())?;
        }
        self.write_unnoted(at, from)
    }

    fn write_unnoted(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if self.large.is_some() { self.write_large(at, from) } else { self.write_usual(at, from) }
    }

    /// Notes what `words` words at `at` hold.
    fn note(&mut self, at: PersistentAddress, words: usize) -> Result<(), Abort> {
        let mut before = vec![0; words];
        self.read_range(at, &mut before)?;
        if let Some(undo) = &mut self.undo {
            undo.spans.push((at, undo.words.len()));
            undo.words.extend(before);
        }
        Ok(())
    }

    /// Notes that a block was allocated.
    pub(super) fn note_allocation(&mut self, block: PersistentAddress) {
        if self.undo.is_some() {
            self.note_block(block);
        }
    }

    #[cold]
    fn note_block(&mut self, block: PersistentAddress) {
        if let Some(undo) = &mut self.undo {
            undo.blocks.push(block);
        }
    }

    fn restore(&mut self, number: u64) -> Result<bool, Abort> {
        self.begin_tolerating()?;
        self.restorations += 1;
        // It is put aside, so that going back is not noted itself.
        let Some(mut undo) = self.undo.take() else { return Ok(false) };
        let restored = self.restore_from(&mut undo, number);
        self.undo = Some(undo);
        let Some(freed) = restored? else { return Ok(false) };
        for block in freed {
            if heap::is_vacant(self, block)? {
                self.write_special(block, &[0])?;
            }
        }
        Ok(true)
    }

    /// Writes what was there at savepoint `number`, and returns what was allocated since; `None` if there is no such savepoint any more.
    fn restore_from(
        &mut self,
        undo: &mut Undo,
        number: u64,
    ) -> Result<Option<Vec<PersistentAddress>>, Abort> {
        let Some(at) = undo.savepoints.iter().position(|point| point.number == number) else {
            return Ok(None);
        };
        undo.savepoints.truncate(at + 1);
        let Point { spans, blocks, .. } = undo.savepoints[at];
        while undo.spans.len() > spans
            && let Some((at, begin)) = undo.spans.pop()
        {
            self.write_unnoted(at, &undo.words[begin..])?;
            undo.words.truncate(begin);
        }
        Ok(Some(undo.blocks.split_off(blocks)))
    }

    /// Writes words into the write set.
    pub(super) fn write_usual(&mut self, mut at: PersistentAddress, mut from: &[u64]) -> Result<(), Abort> {
        if !self.may_have(at, from.len() as u64) {
            self.look(at, from.len() as u64)?;
        }
        while !from.is_empty() {
            let here = from.len().min(at.words_left_in_line());
            let (now, rest) = from.split_at(here);
            self.keep(at, now)?;
            at = at.word_inside(here as u64);
            from = rest;
        }
        Ok(())
    }
}

impl<C: Control> Tx<C> {
    /// Sets a savepoint, and returns its number: [`Tx::roll_back_to`] makes the transaction what it is now. From now on what is
    /// overwritten is kept in memory, until the savepoint is released or the transaction ends.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| {
    ///     tx.write(tx.root(0), 1)?;
    ///     let savepoint = tx.set_savepoint();
    ///     tx.write(tx.root(0), 2)?;
    ///     assert!(tx.roll_back_to(savepoint)?);
    ///     Ok(())
    /// })?;
    /// assert_eq!(worker.view(|tx| tx.read(tx.root(0)))?, 1);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    pub fn set_savepoint(&mut self) -> u64 {
        if let State::Writing = self.engine.state {
            self.engine.state = State::Noting;
        }
        self.engine.newest_savepoint += 1;
        let number = self.engine.newest_savepoint;
        let undo = self.engine.undo.get_or_insert_default();
        undo.savepoints.push(Point { number, spans: undo.spans.len(), blocks: undo.blocks.len() });
        number
    }

    /// Takes back all that the transaction wrote, allocated and freed since savepoint `number`, and goes on. Later savepoints are
    /// gone. Returns whether the savepoint was still there.
    ///
    /// # Errors
    /// The transaction had failed before; a conflict, a full log.
    pub fn roll_back_to(&mut self, number: u64) -> Result<bool, Abort> {
        self.engine.restore(number)
    }

    /// How often this worker has gone back to a savepoint. Whoever keeps addresses of blocks that the transaction has allocated compares it: where it
    /// has changed, they may be others' by now.
    pub fn restorations(&self) -> u64 {
        self.engine.restorations
    }

    /// Gives up savepoint `number`: what was written stays. Once none is left, writes cost what they did before.
    pub fn release_savepoint(&mut self, number: u64) {
        let Some(undo) = &mut self.engine.undo else { return };
        undo.savepoints.retain(|point| point.number != number);
        if undo.savepoints.is_empty() {
            self.engine.forget_savepoints();
        }
    }
}
