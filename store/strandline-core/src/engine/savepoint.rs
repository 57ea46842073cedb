//! Savepoints: states within a transaction to which it can return without ending.
//!
//! While there is a savepoint, each write first notes the words' old contents, in memory. A return to the savepoint writes these back,
//! newest first, like any write of the transaction; allocations and frees are writes too. So savepoints have no persistent state, and
//! schemes and concurrency controls need not know of them. A block that was allocated since is free again and its first word is cleared, so
//! that a pointer that the program has kept finds no value of its type there.

use super::{Control, Engine, State, Tx};
use crate::error::Error;
use crate::heap::{self, Access};
use crate::memory::PersistentAddress;
use crate::transaction::Abort;

/// The undo list for the savepoints of a running transaction.
#[derive(Default)]
pub(super) struct Undo {
    /// The addresses of the words that were written, oldest first, and for each the index in `words` at which their old contents begin.
    spans: Vec<(PersistentAddress, usize)>,
    words: Vec<u64>,
    /// The blocks that were allocated.
    blocks: Vec<PersistentAddress>,
    /// The existing savepoints, oldest first.
    savepoints: Vec<Point>,
}

impl Undo {
    /// Returns whether a return to a savepoint may write the word at `at`.
    pub fn covers(&self, at: PersistentAddress) -> bool {
        let ends = self.spans.iter().skip(1).map(|&(_, begin)| begin).chain([self.words.len()]);
        let mut spans = self.spans.iter().zip(ends);
        spans.any(|(&(from, begin), end)| (from..from.word_inside((end - begin) as u64)).contains(&at))
    }
}

/// A savepoint, and the lengths of the lists of [`Undo`] when it was set.
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

    /// Writes words in a state other than [`State::Writing`]: after a savepoint, in a large transaction, or in one that only reads.
    #[cold]
    #[inline(never)]
    pub(super) fn write_special(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if self.only_reads() {
            return Err(self.fail(Error::ReadOnly));
        }
        // Growth of the heap and chunks of the journal are not undone.
        let is_heaps_own = at == self.view.layout.reached() || self.is_extending_journal();
        if self.undo.is_some() && !is_heaps_own {
            self.note(at, from.len())?;
        }
        self.write_unnoted(at, from)
    }

    fn write_unnoted(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if self.large.is_some() { self.write_large(at, from) } else { self.write_usual(at, from) }
    }

    /// Notes the contents of `words` words at `at`.
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
        // Taken out, so that the writes below are not noted themselves.
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

    /// Writes back the contents at savepoint `number`. Returns the blocks that were allocated since; `None` if the savepoint does not exist
    /// any more.
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

    /// Writes words to the write set.
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
    /// Sets a savepoint, and returns its number, with which [`Tx::roll_back_to`] restores the present state. From now on the old contents
    /// of written words are kept in memory, until the savepoint is released or the transaction ends.
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

    /// Undoes all writes, allocations and frees since savepoint `number`. The transaction continues. Later savepoints are removed. Returns
    /// whether the savepoint still existed.
    ///
    /// # Errors
    /// Returns an error if the transaction had failed before, after a conflict, or if the log is full.
    pub fn roll_back_to(&mut self, number: u64) -> Result<bool, Abort> {
        self.engine.restore(number)
    }

    /// Returns the number of times that this worker has returned to a savepoint. A caller that keeps addresses of blocks that the
    /// transaction has allocated compares it: if it has changed, other data may be at these addresses.
    pub fn restorations(&self) -> u64 {
        self.engine.restorations
    }

    /// Removes savepoint `number` without undoing any writes. Without savepoints, writes cost no more than before the first one was set.
    pub fn release_savepoint(&mut self, number: u64) {
        let Some(undo) = &mut self.engine.undo else { return };
        undo.savepoints.retain(|point| point.number != number);
        if undo.savepoints.is_empty() {
            self.engine.forget_savepoints();
        }
    }
}
