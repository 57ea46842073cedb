//! What a running transaction reads and writes. What is mostly the case is compiled in place on the product's path, all else is called.

use crate::error::Error;
use crate::heap::Access;
use crate::layout::SharedLayout;
use crate::memory::{LINE_WORDS, Memory, PersistentAddress, latch};
use crate::scheme::{Full, SchemeObject};
use crate::transaction::{Abort, Concurrency, Plain};

use super::{Control, Engine, versions};

impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Whether `words` words at `at` may be read and written, as far as this worker knows; otherwise [`Engine::look`].
    #[inline(always)]
    pub(super) fn may_have(&self, at: PersistentAddress, words: u64) -> bool {
        self.view.layout.is_data(at, words)
    }

    /// Fails unless the pool has grown since, so that these words may be read and written.
    #[cold]
    #[inline(never)]
    pub(super) fn look(&mut self, at: PersistentAddress, words: u64) -> Result<(), Abort> {
        self.view.look_how_far();
        if self.may_have(at, words) {
            return Ok(());
        }
        Err(self.fail(Error::InvalidAddress(at.offset())))
    }

    /// The newest value of a word: this transaction's own, or the one at home.
    #[inline(always)]
    pub(super) fn own_or_home(&mut self, at: PersistentAddress) -> u64 {
        match self.writes.find(at) {
            Some(number) => self.scheme.own_value(&self.view, &self.writes, number),
            None => self.view.memory.load(at),
        }
    }

    /// The same of words of one line, or of several where nothing is written.
    #[inline(always)]
    pub(super) fn own_or_home_line(&mut self, at: PersistentAddress, into: &mut [u64]) {
        if !self.writes.may_have(at, into.len()) {
            return self.view.memory.load_range(at, into);
        }
        for (i, value) in into.iter_mut().enumerate() {
            *value = self.own_or_home(at.word_inside(i as u64));
        }
    }

    /// Keeps new values of words of one line, from `at` on.
    #[inline(always)]
    pub(super) fn keep(&mut self, at: PersistentAddress, values: &[u64]) -> Result<(), Abort> {
        let may_be_written = match self.concurrency() {
            Concurrency::Stm => self.own_stm(at)?,
            Concurrency::SingleWriter => {
                Self::fetch_home(&self.view.memory, at);
                true
            }
            Concurrency::Locks => {
                self.lock_to_write(at)?;
                true
            }
        };
        if values.len() > 1
            && !self.scheme.takes_writes()
            && !(may_be_written && self.writes.may_have(at, values.len()))
            && self.writes.push_run(at, values)
        {
            return Ok(());
        }
        for (i, &value) in values.iter().enumerate() {
            self.keep_word(at.word_inside(i as u64), value, may_be_written)?;
        }
        Ok(())
    }

    /// Keeps new values of as few words as a line has, in one line or two, if a single writer has written none of them; whether
    /// it did.
    #[inline(always)]
    pub(super) fn keep_few(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        if self.concurrency() != Concurrency::SingleWriter
            || !(1..=LINE_WORDS as usize).contains(&values.len())
            || self.scheme.takes_writes()
        {
            return false;
        }
        if self.writes.seems_to_have(at, values.len()) {
            return self.keep_few_otherwise(at, values);
        }
        self.fetch_few(at, values.len());
        self.writes.push_run_filtered(at, values)
    }

    #[inline(never)]
    fn keep_few_otherwise(&mut self, at: PersistentAddress, values: &[u64]) -> bool {
        if self.writes.may_have_filtered(at, values.len()) {
            return false;
        }
        self.fetch_few(at, values.len());
        self.writes.push_run(at, values)
    }

    #[inline(always)]
    fn fetch_few(&self, at: PersistentAddress, words: usize) {
        Self::fetch_home(&self.view.memory, at);
        if words > 1 {
            Self::fetch_home(&self.view.memory, at.word_inside(words as u64 - 1));
        }
    }

    #[inline(always)]
    fn keep_word(&mut self, at: PersistentAddress, value: u64, may_be_written: bool) -> Result<(), Abort> {
        if !self.scheme.takes_writes() {
            let is_kept = if may_be_written {
                if self.writes.seems_to_have(at, 1) {
                    self.writes.push_marked(at, value)
                } else {
                    self.writes.push_filtered(at, value)
                }
            } else {
                self.writes.push(at, value)
            };
            return if is_kept { Ok(()) } else { self.put(at, value) };
        }
        let number = if may_be_written { self.writes.find(at) } else { None };
        let place = number.map(|number| self.writes.place(number));
        match self.scheme.write(&self.view, at, value, place) {
            Ok(place) => self.writes.set_place(number.unwrap_or(self.writes.len()), place),
            Err(Full) => return Err(self.doom(Abort::LogFull)),
        }
        self.put_numbered(number, at, value)
    }

    /// Keeps the new value of a word that may be written already, or for which there is no room; called, so that other writes have no more
    /// code for it.
    #[cold]
    #[inline(never)]
    fn put(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        let number = self.writes.find(at);
        self.put_numbered(number, at, value)
    }

    /// Keeps the new value of the word with this number, or of a new one.
    #[inline(always)]
    fn put_numbered(
        &mut self,
        number: Option<usize>,
        at: PersistentAddress,
        value: u64,
    ) -> Result<(), Abort> {
        match number {
            Some(number) => self.writes.set(number, value),
            None if self.writes.push(at, value) => {}
            None => return self.push_again(at, value),
        }
        Ok(())
    }

    /// Makes room for more words in the write set, but not for more than can be committed.
    #[cold]
    #[inline(never)]
    fn push_again(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        // A scheme that takes writes says itself when it has no room, if it has a log at all.
        if !self.scheme.takes_writes() && self.writes.len() as u64 > self.view.layout.log_records() {
            return Err(self.doom(Abort::LogFull));
        }
        self.writes.lengthen();
        if self.writes.push(at, value) { Ok(()) } else { self.push_again(at, value) }
    }

    /// Lets a line that a commit will store home to come near meanwhile.
    #[inline(always)]
    pub(super) fn fetch_home(memory: &M, line: PersistentAddress) {
        if C::INLINED {
            memory.prefetch_for_write(line);
        }
    }
}

impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Reads words of several lines.
    #[inline(never)]
    fn read_lines(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if let Some(past) = self.past
            && versions::read_home_range(&self.view, past, at, into)
        {
            return Ok(());
        }
        if self.large.is_some() {
            // It runs alone, and stores home at once.
            self.view.memory.load_range(at, into);
            return Ok(());
        }
        let is_current = self.past.is_none() && (!self.holds_lock || self.writes.is_empty());
        // Other memories than mapped ones take line by line, so that a checker's schedules come between.
        if self.concurrency() == Concurrency::SingleWriter
            && is_current
            && self.view.memory.data_words().is_some()
        {
            // A reader looks at the sequence once for all lines, and a writer that has written nothing at nothing.
            return self.read_line_single_writer(at, into);
        }
        self.read_each_line(at, into)
    }

    #[inline(never)]
    fn read_each_line(&mut self, mut at: PersistentAddress, mut into: &mut [u64]) -> Result<(), Abort> {
        while !into.is_empty() {
            let here = into.len().min(at.words_left_in_line());
            let (now, rest) = into.split_at_mut(here);
            self.read_line(at, now)?;
            at = at.word_inside(here as u64);
            into = rest;
        }
        Ok(())
    }

    /// Reads words of one line.
    #[inline(always)]
    fn read_line(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        match self.concurrency() {
            Concurrency::Stm => self.read_line_stm(at, into),
            Concurrency::SingleWriter => self.read_line_single_writer(at, into),
            Concurrency::Locks => self.read_line_locks(at, into),
        }
    }
}

/// Reads and writes, compiled in place.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Reads words that mostly lie in one line, which nobody writes.
    #[inline(always)]
    fn read_array_here<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        let words = match self.concurrency() {
            Concurrency::Stm => self.read_free_stm(at),
            Concurrency::SingleWriter => self.read_free_single_writer(at),
            Concurrency::Locks => None,
        };
        match words {
            Some(words) => Ok(words),
            // Into words of its own, so that those that were loaded stay in registers.
            None => {
                let mut words = [0; N];
                self.read_array_called(at, &mut words)?;
                Ok(words)
            }
        }
    }

    /// What reads as this does, where nothing has to be asked.
    #[inline(always)]
    pub(super) fn plain(&self) -> Option<Plain<'_>> {
        match self.concurrency() {
            Concurrency::SingleWriter if C::INLINED && self.writes.is_plain() => {
                self.view.memory.data_words().map(|words| Plain::new(words, &self.view.layout))
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn read_range_here(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if into.is_empty() {
            return Ok(());
        }
        if !self.may_have(at, into.len() as u64) {
            return self.read_range_again(at, into);
        }
        // Mostly one line.
        if into.len() <= at.words_left_in_line() {
            return self.read_line(at, into);
        }
        self.read_lines(at, into)
    }

    #[inline(always)]
    fn write_here(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        if self.is_special || !self.may_have(at, 1) {
            return self.write_again(at, value);
        }
        self.keep(at, &[value])
    }

    /// Writes words that mostly lie in one line, and are not written yet.
    #[inline(always)]
    fn write_array_here<const N: usize>(
        &mut self,
        at: PersistentAddress,
        words: &[u64; N],
    ) -> Result<(), Abort> {
        if N == 0 {
            return Ok(());
        }
        let is_data = self.view.memory.data_words().is_some_and(|data| match self.concurrency() {
            Concurrency::SingleWriter => data.has::<N>(at),
            Concurrency::Stm | Concurrency::Locks => data.has_line_of::<N>(at),
        });
        if self.is_special || !is_data {
            return self.write_range_called(at, words);
        }
        match self.concurrency() {
            Concurrency::SingleWriter if self.keep_few(at, words) => Ok(()),
            Concurrency::SingleWriter => self.write_usual(at, words),
            Concurrency::Stm | Concurrency::Locks => self.keep(at, words),
        }
    }

    /// Called on both paths: that costs little beside so many words.
    #[inline(never)]
    fn write_range_called(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if from.is_empty() {
            return Ok(());
        }
        if self.is_special {
            return self.write_special(at, from);
        }
        if self.may_have(at, from.len() as u64) && self.keep_few(at, from) {
            return Ok(());
        }
        if self.is_too_large_for_log(from.len() as u64) {
            // It need not come to its end for that.
            self.wants_large = true;
            return Err(self.doom(Abort::LogFull));
        }
        self.write_usual(at, from)
    }
}

/// What did not pass a check, when the pool may have grown; whole operations, so that what passes pays for nothing but the check.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    #[cold]
    #[inline(never)]
    fn read_again(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.look(at, 1)?;
        self.read_called(at)
    }

    #[cold]
    #[inline(never)]
    fn read_range_again(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.look(at, into.len() as u64)?;
        self.read_range_called(at, into)
    }

    #[cold]
    #[inline(never)]
    fn write_again(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        if self.is_special {
            return self.write_special(at, &[value]);
        }
        self.look(at, 1)?;
        self.write_called(at, value)
    }
}

/// The same, called.
impl<M: Memory, C: Control<M>> Engine<M, C> {
    #[inline(never)]
    fn read_called(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        if !self.may_have(at, 1) {
            return self.read_again(at);
        }
        match self.concurrency() {
            Concurrency::Stm => self.read_stm(at),
            Concurrency::SingleWriter => self.read_single_writer(at),
            Concurrency::Locks => self.read_locks(at),
        }
    }

    #[inline(never)]
    fn read_array_called<const N: usize>(
        &mut self,
        at: PersistentAddress,
        into: &mut [u64; N],
    ) -> Result<(), Abort> {
        if let Some(past) = self.past
            && let Some(words) = versions::read_home(&self.view, past, at)
        {
            *into = words;
            return Ok(());
        }
        self.read_range_here(at, into)
    }

    /// Reads `N` consecutive words.
    #[inline(always)]
    pub(super) fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        if C::INLINED {
            return self.read_array_here(at);
        }
        let mut words = [0; N];
        self.read_array_called(at, &mut words)?;
        Ok(words)
    }

    /// Writes `N` consecutive words.
    #[inline(always)]
    pub(super) fn write_array<const N: usize>(
        &mut self,
        at: PersistentAddress,
        words: &[u64; N],
    ) -> Result<(), Abort> {
        if C::INLINED { self.write_array_here(at, words) } else { self.write_range_called(at, words) }
    }

    #[inline(never)]
    fn read_range_called(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.read_range_here(at, into)
    }

    #[inline(never)]
    fn write_called(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.write_here(at, value)
    }
}

impl<M: Memory, C: Control<M>> Engine<M, C> {
    /// Reads `words` words from each of several places, where there is nothing to look up.
    #[inline(never)]
    pub(super) fn read_at_once(&self, at: &[PersistentAddress], words: usize, into: &mut [u64]) -> bool {
        words > 0 && self.past.is_some_and(|past| versions::read_home_each(&self.view, past, at, words, into))
    }
}

impl<M: Memory, C: Control<M>> Access for Engine<M, C> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        if C::INLINED { self.read_array_here(at).map(|[word]| word) } else { self.read_called(at) }
    }

    #[inline(always)]
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if C::INLINED { self.read_range_here(at, into) } else { self.read_range_called(at, into) }
    }

    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        if C::INLINED { self.write_here(at, value) } else { self.write_called(at, value) }
    }

    #[inline(always)]
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.write_range_called(at, from)
    }

    #[inline(always)]
    fn hint(&self, at: PersistentAddress) -> u64 {
        self.view.memory.peek(at)
    }

    fn begin_taking(&mut self, chunks: u64) -> Result<(), Abort> {
        if self.large.is_some() { self.begin_taking_large(chunks) } else { Ok(()) }
    }

    fn was_free(&self, chunk: u64) -> bool {
        // One that going back to a savepoint gives away is not to be had.
        let word = self.view.layout.chunk_table.word_inside(chunk);
        self.large.as_ref().is_none_or(|large| large.was_free(chunk))
            && self.undo.as_ref().is_none_or(|undo| !undo.covers(word))
    }

    #[cold]
    fn make_space(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        self.view.memory.make_space(at, bytes).map_err(|error| {
            self.fail(Error::io(format!("find disk space for {bytes} bytes of the pool"), error))
        })
    }

    #[cold]
    fn grow(&mut self, least: u64, most: u64) -> std::io::Result<u64> {
        self.view.memory.grow(least, most)
    }

    #[cold]
    fn foresee(&mut self, bytes: u64) {
        if let Some(log) = self.shared_log {
            log.ask_for_growth(&self.view.memory, bytes);
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Abort {
        // Whatever the operation made of the failure, the pool has failed.
        let memory = &self.view.memory;
        let error = memory.check_poison().err().unwrap_or_else(|| memory.in_pool(error));
        self.error.get_or_insert(error);
        self.doom(Abort::Failed)
    }

    fn holding(&self) -> u64 {
        latch::load_in_order(&self.view.memory, SharedLayout::HOLDING)
    }

    fn wait_for_held(&mut self) -> Abort {
        self.want_chunks()
    }

    fn raise_versions(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        match self.concurrency() {
            Concurrency::Stm => self.own_lines(at, bytes),
            // The sequence rises with each commit; whoever reads under a lock keeps others from freeing.
            Concurrency::SingleWriter | Concurrency::Locks => Ok(()),
        }
    }

    fn layout(&self) -> &crate::layout::Layout {
        &self.view.layout
    }
}
