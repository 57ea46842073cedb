//! Reads and writes of a running transaction. On the product's path the common cases are inlined; the rest is out of line.

use crate::error::Error;
use crate::heap::Access;
use crate::layout::SharedLayout;
use crate::memory::{Memory, PAGE_BYTES, PersistentAddress, latch};
use crate::scheme::{Full, SchemeObject};
use crate::transaction::{Abort, Concurrency, Plain};

use super::{Control, Engine, State, versions};

/// Pages of new space are copied in advance only if it has at most this many bytes. Of a larger one, a part would be released again before the rest
/// is filled.
const MOST_COPIED_AHEAD: u64 = 1 << 20;

impl<C: Control> Engine<C> {
    /// Returns whether `words` words at `at` may be read and written, as far as this worker knows. The pool may have grown since: see
    /// [`Engine::look`].
    #[inline(always)]
    pub(super) fn may_have(&self, at: PersistentAddress, words: u64) -> bool {
        self.view.layout.is_data(at, words)
    }

    /// Checks again, after a look at the pool's present size. Fails unless the words may be read and written.
    #[cold]
    #[inline(never)]
    pub(super) fn look(&mut self, at: PersistentAddress, words: u64) -> Result<(), Abort> {
        self.view.look_how_far();
        if self.may_have(at, words) {
            return Ok(());
        }
        Err(self.fail(Error::InvalidAddress(at.offset())))
    }

    /// Reads words without the control's checks: the transaction's own writes, and otherwise the words at home.
    pub(super) fn own_or_home(&mut self, at: PersistentAddress, into: &mut [u64]) {
        if !self.writes.may_have(at, into.len()) {
            return self.view.memory.load_range(at, into);
        }
        let mut number = None;
        for (word, value) in (0..).zip(into) {
            let at = at.word_inside(word);
            number = self.writes.find_after(number, at);
            *value = match number {
                Some(number) => self.scheme.own_value(&self.view, &self.writes, number),
                None => self.view.memory.load(at),
            };
        }
    }

    /// Adds new values for words of one line, from `at` on, to the write set.
    #[inline(always)]
    pub(super) fn keep(&mut self, at: PersistentAddress, values: &[u64]) -> Result<(), Abort> {
        match self.concurrency() {
            Concurrency::Stm => self.own_stm(at)?,
            Concurrency::SingleWriter => {}
            Concurrency::Locks => self.lock_to_write(at)?,
        }
        if C::INLINED {
            // The commit stores to this line. The prefetch brings it into the cache meanwhile.
            self.view.memory.prefetch_for_write(at);
        }
        if self.scheme.takes_writes() {
            return self.keep_in_scheme(at, values);
        }
        if self.writes.put(at, values) { Ok(()) } else { Err(self.doom(Abort::LogFull)) }
    }

    /// Hands new values for words of one line to the scheme, for schemes that take writes as they are made.
    fn keep_in_scheme(&mut self, at: PersistentAddress, values: &[u64]) -> Result<(), Abort> {
        for (word, &value) in (0..).zip(values) {
            let at = at.word_inside(word);
            let number = self.writes.find(at);
            let place = number.map(|number| self.writes.place(number));
            let place = self.scheme.write(&self.view, at, value, place);
            let place = place.map_err(|Full| self.doom(Abort::LogFull))?;
            self.writes.set_place(number.unwrap_or(self.writes.len()), place);
            if !self.writes.put(at, &[value]) {
                return Err(self.doom(Abort::LogFull));
            }
        }
        Ok(())
    }

    /// The fast path of a read: returns words that are usually in one line. `None` if anything but the control's check is necessary, or if
    /// that check fails.
    #[inline(always)]
    fn read_free<const N: usize>(&mut self, at: PersistentAddress) -> Option<[u64; N]> {
        match self.concurrency() {
            Concurrency::Stm => self.read_free_stm(at),
            Concurrency::SingleWriter => self.read_free_single_writer(at),
            Concurrency::Locks => None,
        }
    }

    /// Reads `N` consecutive words.
    #[inline(always)]
    pub(super) fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        if C::INLINED
            && N > 0
            && let Some(words) = self.read_free(at)
        {
            return Ok(words);
        }
        // An array of its own, so that the words of the fast path stay in registers.
        let mut words = [0; N];
        self.read_words(at, &mut words)?;
        Ok(words)
    }

    /// Reads words, usually of one line.
    fn read_words(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        let is_usual = matches!(self.state, State::Writing | State::Noting | State::Reading);
        if is_usual && into.len() <= at.words_left_in_line() && self.may_have(at, into.len() as u64) {
            return self.read_line(at, into);
        }
        self.read_otherwise(at, into)
    }

    /// Reads words of one line.
    #[inline(always)]
    fn read_line(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        match self.concurrency() {
            Concurrency::Stm => self.read_line_stm(at, into),
            Concurrency::SingleWriter => self.read_single_writer(at, into),
            Concurrency::Locks => self.read_line_locks(at, into),
        }
    }

    /// Reads words of several lines, at a snapshot, or in a large transaction.
    #[inline(never)]
    fn read_otherwise(&mut self, mut at: PersistentAddress, mut into: &mut [u64]) -> Result<(), Abort> {
        if into.is_empty() {
            return Ok(());
        }
        if !self.may_have(at, into.len() as u64) {
            self.look(at, into.len() as u64)?;
        }
        match self.state {
            State::LookingBack(past) if versions::read_home_range(&self.view, past, at, into) => {
                return Ok(());
            }
            State::LookingBack(_) => {}
            State::Large => {
                self.view.memory.load_range(at, into);
                return Ok(());
            }
            State::Writing | State::Noting | State::Reading => {
                // Memories that are not mapped are read line by line, so that a checker's schedules can switch threads in between.
                let is_mapped = self.view.memory.data_words().is_some();
                if is_mapped && self.concurrency() == Concurrency::SingleWriter {
                    return self.read_single_writer(at, into);
                }
            }
        }
        while !into.is_empty() {
            let (here, rest) = into.split_at_mut(into.len().min(at.words_left_in_line()));
            self.read_line(at, here)?;
            at = at.word_inside(here.len() as u64);
            into = rest;
        }
        Ok(())
    }

    /// Returns a reader without any checks, if the transaction needs none.
    #[inline(always)]
    pub(super) fn plain(&self) -> Option<Plain<'_>> {
        let is_plain = C::INLINED
            && self.concurrency() == Concurrency::SingleWriter
            && !self.only_reads()
            && self.writes.is_empty();
        let words = if is_plain { self.view.memory.data_words() } else { None };
        words.map(|words| Plain::new(words, &self.view.layout))
    }

    /// Writes `N` consecutive words, which are usually in one line.
    #[inline(always)]
    pub(super) fn write_array<const N: usize>(
        &mut self,
        at: PersistentAddress,
        words: &[u64; N],
    ) -> Result<(), Abort> {
        // A write of no words takes no lock.
        let is_usual = C::INLINED
            && N > 0
            && matches!(self.state, State::Writing)
            && self.view.memory.data_words().is_some_and(|data| data.has_line_of::<N>(at));
        if is_usual { self.keep(at, words) } else { self.write_words(at, words) }
    }

    /// Writes words, usually of one line.
    fn write_words(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        let is_usual = matches!(self.state, State::Writing) && from.len() <= at.words_left_in_line();
        if is_usual && !from.is_empty() && self.may_have(at, from.len() as u64) {
            return self.keep(at, from);
        }
        self.write_otherwise(at, from)
    }

    /// Writes words of several lines, or in a state other than [`State::Writing`].
    #[inline(never)]
    fn write_otherwise(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if from.is_empty() {
            return Ok(());
        }
        if !matches!(self.state, State::Writing) {
            return self.write_special(at, from);
        }
        if self.is_too_large_for_log(from.len() as u64) {
            // The transaction starts over as a large one now, rather than when it has filled the log.
            self.wants_large = true;
            return Err(self.doom(Abort::LogFull));
        }
        self.write_usual(at, from)
    }
}

impl<C: Control> Access for Engine<C> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.read_array(at).map(|[word]| word)
    }

    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.read_words(at, into)
    }

    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.write_array(at, &[value])
    }

    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.write_words(at, from)
    }

    #[inline]
    fn hint(&self, at: PersistentAddress) -> u64 {
        self.view.memory.peek(at)
    }

    fn begin_taking(&mut self, chunks: u64) -> Result<(), Abort> {
        if self.large.is_some() { self.begin_taking_large(chunks) } else { Ok(()) }
    }

    fn was_free(&self, chunk: u64) -> bool {
        // A chunk that a return to a savepoint would release cannot be taken.
        let word = self.view.layout.chunk_table.word_inside(chunk);
        self.large.as_ref().is_none_or(|large| large.was_free(chunk))
            && self.undo.as_ref().is_none_or(|undo| !undo.covers(word))
    }

    fn note_freed(&mut self, chunk: u64) -> bool {
        self.large.is_some() && self.note_freed_large(chunk)
    }

    fn avoids(&self, chunk: u64) -> bool {
        self.large.as_ref().is_some_and(|large| large.has_freed_in(chunk))
    }

    #[cold]
    fn make_space(&mut self, at: PersistentAddress, bytes: u64) -> Result<(), Abort> {
        if let Some(log) = self.shared_log
            && log.hand_out(&self.view.memory, at, bytes)
        {
            self.past_log.add_unused(at, bytes);
        }
        self.view.memory.make_space(at, bytes).map_err(|error| {
            self.fail(Error::io(format!("allocate disk space for {bytes} bytes of the pool"), error))
        })
    }

    #[cold]
    fn note_vacated(&mut self, at: PersistentAddress, bytes: u64) {
        if self.shared_log.is_some() {
            self.past_log.add_vacated(at, bytes);
        }
    }

    #[cold]
    fn expect_stores(&mut self, at: PersistentAddress, bytes: u64) {
        self.past_log.use_otherwise(at, bytes);
        if let Some(log) = self.shared_log
            && bytes <= MOST_COPIED_AHEAD
        {
            log.copy_ahead(&self.view, at.offset() / PAGE_BYTES..(at.offset() + bytes) / PAGE_BYTES);
        }
    }

    fn is_unused(&self, at: PersistentAddress, bytes: u64) -> bool {
        self.past_log.is_unused(at, bytes)
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
        // If the pool is poisoned, the error says so, whatever the operation made of the failure.
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
            // The sequence increases with each commit. A reader under a lock keeps other transactions from freeing the block.
            Concurrency::SingleWriter | Concurrency::Locks => Ok(()),
        }
    }

    #[cold]
    fn expect_returned(&self) {
        self.tell_returned();
    }

    #[cold]
    fn lent(&self, at: PersistentAddress, pages: u64) -> u64 {
        self.lent_pages(at, pages)
    }

    fn layout(&self) -> &crate::layout::Layout {
        &self.view.layout
    }
}
