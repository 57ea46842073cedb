//! Native memory: mapped words, accessed directly.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use self::words::Words;
use super::data::{Data, DataWords, load_words};
use super::deadlock::Awaited;
use super::process::Process;
use super::protection::ProtectionKey;
use super::write_back::{self, WriteBackInstruction};
use super::{
    Address, Counters, Event, LINE_BYTES, LINE_WORDS, Mapping, Memory, PersistentAddress, Space, Step,
    VolatileAddress, WORD_BYTES, deadlock, latch, running, system,
};
use crate::Domain;
use crate::error::{Error, Result};
use crate::memory::{Device, DeviceFile};

mod words;

/// One thread's view of mapped memory. The persistence domain determines what a write-back and a fence do.
///
/// The domain, the instruction and the protection are values: each write-back and each store to the pool has a predictable branch, and each
/// load only the check of its bounds. The bounds are those of the address space. An access to a part that the pool's file does not have yet
/// ([`Memory::size`]) is a bus error; [`DataWords::load`] returns `None` there.
///
/// ```
/// use std::sync::Arc;
/// use strandline_core::memory::{Mapping, Memory, Native, PersistentAddress};
///
/// let words = || Mapping::anonymous(4096).map(Arc::new);
/// let memory = Native::new(words()?, words()?, strandline_core::Domain::Process, None, None)?;
/// let counter = PersistentAddress::new(64);
/// std::thread::scope(|threads| {
///     for _ in 0..4 {
///         // A view for each thread.
///         let view = memory.fork();
///         threads.spawn(move || view.fetch_add(counter, 1));
///     }
/// });
/// assert_eq!(memory.load(counter), 4);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Native {
    persistent: Words,
    volatile: Words,
    /// The key with which a thread may store to the pool, if the pool is protected against stray writes.
    key: Option<ProtectionKey>,
    /// The process to which the memory belongs.
    process: Process,
    instruction: Option<WriteBackInstruction>,
    fences: bool,
    /// The emulated latency of a line's write-back, in ticks of the time-stamp counter; 0 for none.
    latency: u64,
    device: Option<Arc<dyn Device + Send + Sync>>,
    /// The part of the pool that transactions read and write. Empty before [`Memory::set_data`].
    data: Data,
    counters: Cell<Counters>,
    /// The line of the last non-temporal store, and the number of lines whose latency the next fence waits for.
    non_temporal: Cell<(u64, u64)>,
}

/// Returns the half of a word that the system's futex compares: the low half, which every change of the word changes.
fn futex_word(word: &AtomicU64) -> &AtomicU32 {
    let half = usize::from(cfg!(target_endian = "big"));
    // SAFETY: the reference covers eight live, aligned bytes, and the system only compares the half word.
    unsafe { &*word.as_ptr().cast::<AtomicU32>().add(half) }
}

/// Out of line, so that a pool without protection does not pay for the code.
#[cold]
#[inline(never)]
fn store_protected<R>(key: ProtectionKey, access: impl FnOnce() -> R) -> R {
    key.window(access)
}

impl Native {
    /// Returns a view of `persistent` and `volatile` under `domain`. `instruction` writes lines back; `None` selects the best one that the
    /// processor has.
    ///
    /// # Errors
    /// Returns [`Error::UnsupportedDomain`], [`Error::Forked`], and an error if the processor lacks the instruction, or has no write-back
    /// instruction although the domain needs one.
    pub fn new(
        persistent: Arc<Mapping>,
        volatile: Arc<Mapping>,
        domain: Domain,
        instruction: Option<WriteBackInstruction>,
        device: Option<Arc<dyn Device + Send + Sync>>,
    ) -> Result<Self> {
        domain.check()?;
        if let Some(wanted) = instruction
            && !wanted.is_supported()
        {
            return Err(Error::UnsupportedInstruction(wanted.name()));
        }
        let chosen = match domain {
            Domain::Flush | Domain::Emulated { .. } => Some(
                instruction
                    .or_else(WriteBackInstruction::best)
                    .ok_or(Error::UnsupportedInstruction("clwb, clflushopt or clflush"))?,
            ),
            Domain::FlushOnFail | Domain::Process | Domain::Sync => None,
        };
        let latency = match domain {
            Domain::Emulated { write_latency_ns } => write_back::ticks_in(write_latency_ns),
            _ => 0,
        };
        let (key, process) = (persistent.key(), persistent.process());
        process.check()?;
        // SAFETY: there are no words, so none is ever loaded.
        let data = unsafe { Data::new(std::ptr::null(), PersistentAddress::new(0), 0) };
        let memory = Self {
            key,
            process,
            persistent: Words::new(persistent)?,
            volatile: Words::new(volatile)?,
            instruction: chosen,
            fences: chosen.is_some() || domain == Domain::FlushOnFail,
            latency,
            device,
            data,
            counters: Cell::default(),
            non_temporal: Cell::new((u64::MAX, 0)),
        };
        memory.admit_thread();
        Ok(memory)
    }

    /// Returns a view of the same memory for another thread, with its counters at zero.
    pub fn fork(&self) -> Self {
        self.admit_thread();
        Self {
            key: self.key,
            process: self.process,
            persistent: self.persistent.clone(),
            volatile: self.volatile.clone(),
            instruction: self.instruction,
            fences: self.fences,
            latency: self.latency,
            device: self.device.clone(),
            data: self.data,
            counters: Cell::default(),
            non_temporal: Cell::new((u64::MAX, 0)),
        }
    }

    /// Returns the instruction that writes lines back; `None` if the domain needs none.
    pub fn instruction(&self) -> Option<WriteBackInstruction> {
        self.instruction
    }

    /// Returns the addresses of the pool's volatile words, which identify the pool.
    #[inline]
    fn pool(&self) -> Range<u64> {
        running::words_of(&self.volatile.mapping)
    }

    /// Returns the address of this worker's own line, which identifies the worker.
    #[inline]
    fn worker(&self) -> u64 {
        self.volatile.own as u64
    }

    #[inline]
    fn words<A: Address>(&self) -> &Words {
        match A::SPACE {
            Space::Persistent => &self.persistent,
            Space::Volatile => &self.volatile,
        }
    }

    /// Runs `access`, which stores to the space of `A` and must not panic, with the permission to store.
    #[inline(always)]
    fn storing<A: Address, R>(&self, access: impl FnOnce() -> R) -> R {
        match self.key {
            Some(key) if A::SPACE == Space::Persistent => store_protected(key, access),
            _ => access(),
        }
    }

    #[inline]
    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Waits for the emulated latency of `lines` line writes, in a busy loop as in the Blurred Persistence paper.
    #[inline]
    fn wait(&self, lines: u64) {
        if self.latency != 0 {
            let until = write_back::ticks() + lines * self.latency;
            while write_back::ticks() < until {}
        }
    }
}

impl Native {
    /// Returns whether a thread can read the pool only after it was [admitted](Memory::admit_thread).
    pub fn is_protected(&self) -> bool {
        self.key.is_some()
    }
}

impl Memory for Native {
    #[inline]
    fn admit_thread(&self) {
        if let Some(key) = self.key {
            key.admit();
        }
    }

    #[inline]
    fn begin_transaction(&self) -> Result<()> {
        self.process.check()?;
        self.persistent.mapping.check_poison()?;
        if running::begin(self.worker(), || self.pool()) { Ok(()) } else { Err(Error::Nested) }
    }

    #[inline]
    fn end_transaction(&self) {
        running::end(self.worker());
    }

    #[inline]
    fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    fn is_nested(&self) -> bool {
        running::is_nested(&self.pool())
    }

    fn poll_wait(&self, awaited: Awaited) -> Result<()> {
        if !self.is_nested() {
            return Ok(());
        }
        let pool = self.pool();
        deadlock::poll(pool.start, awaited, &running::running_elsewhere(&pool))
    }

    fn end_wait(&self) {
        deadlock::end();
    }

    fn note_owner(&self, at: VolatileAddress, owner: u64) {
        self.store(at, owner);
    }

    fn notify(&self, at: VolatileAddress) {
        let word = futex_word(self.volatile.at(at.offset()));
        latch::notify(self, at, || {
            system::wake(word, 1);
        });
    }

    #[inline(always)]
    fn load<A: Address>(&self, at: A) -> u64 {
        self.words::<A>().at(at.offset()).load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store<A: Address>(&self, at: A, value: u64) {
        let word = self.words::<A>().at(at.offset());
        self.storing::<A, _>(move || word.store(value, Ordering::Release));
    }

    #[inline(always)]
    fn load_range<A: Address>(&self, at: A, into: &mut [u64]) {
        load_words(self.words::<A>().range(at.offset(), into.len()), into);
    }

    #[inline(always)]
    fn store_range<A: Address>(&self, at: A, from: &[u64]) {
        let words = self.words::<A>().range(at.offset(), from.len());
        self.storing::<A, _>(|| {
            for (value, word) in from.iter().zip(words) {
                word.store(*value, Ordering::Release);
            }
        });
    }

    fn set_data(&mut self, first: PersistentAddress, words: u64) {
        let lies_inside = words == 0 || self.contains(first, words);
        let is_lines = first.line() == first && words.is_multiple_of(LINE_WORDS);
        assert!(lies_inside && is_lines, "{words} words at {first:?} are not whole lines of the pool");
        // SAFETY: the assertion has just checked this, and `self.persistent` keeps the mapping.
        self.data = unsafe { Data::new(self.persistent.base, first, words) };
    }

    unsafe fn borrow(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        let (inside, end) = (at.offset() % WORD_BYTES, at.offset().checked_add(bytes)?);
        let first = PersistentAddress::new(at.offset() - inside);
        let words = end.div_ceil(WORD_BYTES) - first.offset() / WORD_BYTES;
        if words == 0 || !self.contains(first, words) {
            return None;
        }
        let words = self.words::<PersistentAddress>().range(first.offset(), words as usize);
        // SAFETY: a word has eight bytes, and the mapping lasts as long as `self`. The caller promises that no thread stores to them
        // meanwhile.
        let all: &[u8] = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) };
        Some(&all[inside as usize..][..bytes as usize])
    }

    #[inline(always)]
    fn data_words(&self) -> Option<DataWords<'_>> {
        Some(DataWords::new(self.data, self))
    }

    fn set_own(&mut self, line: VolatileAddress) {
        self.volatile.set_own(line.offset());
    }

    #[inline]
    fn store_own(&self, line: VolatileAddress, word: u64, value: u64) {
        debug_assert!(std::ptr::eq(self.volatile.line(line.offset()), self.volatile.own));
        self.volatile.own(word).store(value, Ordering::Release);
    }

    #[inline]
    fn store_pair<A: Address>(&self, at: A, [first, second]: [u64; 2]) {
        let words = self.words::<A>().pair(at.offset());
        self.storing::<A, _>(move || {
            words[0].store(first, Ordering::Release);
            words[1].store(second, Ordering::Release);
        });
    }

    #[inline]
    fn caches_survive(&self) -> bool {
        self.instruction.is_none()
    }

    #[inline(always)]
    fn store_pairs(
        &self,
        at: PersistentAddress,
        pairs: impl ExactSizeIterator<Item = [u64; 2]>,
        last: [u64; 2],
    ) {
        let words = self.persistent.range(at.offset(), 2 * pairs.len() + 2).as_chunks().0;
        let store = |[first, second]: &[AtomicU64; 2], pair: [u64; 2]| {
            first.store(pair[0], Ordering::Release);
            second.store(pair[1], Ordering::Release);
        };
        self.storing::<PersistentAddress, _>(move || {
            if let [words @ .., behind] = words {
                words.iter().zip(pairs).for_each(|(words, pair)| store(words, pair));
                store(behind, last);
            }
        });
    }

    #[inline(always)]
    fn store_each(&self, words: &[(PersistentAddress, u64)]) {
        let store = || {
            for &(at, value) in words {
                self.persistent.at(at.offset()).store(value, Ordering::Release);
            }
        };
        if self.key.is_some() {
            // Checked first, because a panic within the loop would leave the thread with the permission.
            words.iter().for_each(|(at, _)| _ = self.persistent.at(at.offset()));
        }
        self.storing::<PersistentAddress, _>(store);
    }

    #[inline]
    fn store_non_temporal(&self, at: PersistentAddress, value: u64) {
        let word = self.persistent.at(at.offset());
        if self.instruction.is_none() {
            self.storing::<PersistentAddress, _>(|| word.store(value, Ordering::Release));
        } else {
            self.storing::<PersistentAddress, _>(|| write_back::store_non_temporal(word, value));
            let (line, lines) = self.non_temporal.get();
            let new_line = line != at.line().offset();
            self.non_temporal.set((at.line().offset(), lines + u64::from(new_line)));
            self.count(|c| {
                c.non_temporal_bytes += WORD_BYTES;
                c.lines_written_back += u64::from(new_line);
            });
        }
    }

    fn evict(&self, at: PersistentAddress, bytes: u64) {
        const EVICTS: WriteBackInstruction = WriteBackInstruction::Clflushopt;
        if self.instruction.is_some() && EVICTS.is_supported() {
            for line in
                self.persistent.range(at.offset(), (bytes / WORD_BYTES) as usize).chunks(LINE_WORDS as usize)
            {
                write_back::write_back(EVICTS, &line[0]);
            }
        }
    }

    #[inline]
    fn load_line(&self, line: PersistentAddress) -> [u64; LINE_WORDS as usize] {
        self.persistent.line(line.offset()).each_ref().map(|word| word.load(Ordering::Acquire))
    }

    #[inline]
    fn store_line_non_temporal(&self, line: PersistentAddress, pairs: &[[u64; 2]; LINE_WORDS as usize / 2]) {
        let words = self.persistent.line(line.offset());
        if self.instruction.is_none() {
            return self.storing::<PersistentAddress, _>(move || {
                for (word, &value) in words.iter().zip(pairs.as_flattened()) {
                    word.store(value, Ordering::Release);
                }
            });
        }
        self.storing::<PersistentAddress, _>(move || write_back::store_line_non_temporal(words, pairs));
        self.count(|c| {
            c.non_temporal_bytes += LINE_BYTES;
            c.lines_written_back += 1;
        });
        if self.latency != 0 {
            let (line, lines) = self.non_temporal.get();
            self.non_temporal.set((line, lines + 1));
        }
    }

    #[inline]
    fn compare_exchange<A: Address>(&self, at: A, current: u64, new: u64) -> Result<u64, u64> {
        let word = self.words::<A>().at(at.offset());
        self.storing::<A, _>(|| word.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst))
    }

    #[inline]
    fn fetch_add<A: Address>(&self, at: A, by: u64) -> u64 {
        let word = self.words::<A>().at(at.offset());
        self.storing::<A, _>(|| word.fetch_add(by, Ordering::SeqCst))
    }

    #[inline]
    fn write_back(&self, at: PersistentAddress, _: Step) {
        if let Some(instruction) = self.instruction {
            write_back::write_back(instruction, self.persistent.at(at.line().offset()));
            self.count(|c| c.lines_written_back += 1);
            self.wait(1);
        }
    }

    #[inline]
    fn fence(&self, _: Step) {
        if self.fences {
            // Counted before the fence, because stores after the fence wait for it.
            self.count(|c| c.fences += 1);
            write_back::fence();
            const NONE: (u64, u64) = (u64::MAX, 0);
            if self.non_temporal.get() != NONE {
                let (_, lines) = self.non_temporal.replace(NONE);
                self.wait(lines);
            }
        }
    }

    fn give_back(&self, at: PersistentAddress, bytes: u64) -> bool {
        self.persistent.mapping.give_back(at.offset(), bytes)
    }

    fn page_bytes(&self) -> u64 {
        self.persistent.mapping.page_bytes()
    }

    fn clear(&self, at: VolatileAddress, bytes: u64) {
        self.volatile.mapping.clear(at.offset(), bytes);
    }

    #[inline]
    fn prefetch(&self, at: PersistentAddress, words: usize) {
        let lines = at.line().offset()..at.word_inside(words as u64).offset();
        for line in lines.step_by(LINE_BYTES as usize) {
            write_back::prefetch(self.persistent.base.wrapping_byte_add(line as usize));
        }
    }

    fn read_ahead(&self, places: &mut [PersistentAddress], words: usize, further: u64) {
        places.sort_unstable();
        let bytes = words as u64 * 8;
        let (mut run, mut runs) = (0..0_u64, 0);
        let read = |run: &Range<u64>| self.persistent.mapping.read_ahead(run.start, run.end - run.start);
        for place in places {
            let end = place.offset().saturating_add(bytes);
            if place.offset() > run.end.saturating_add(super::PAGE_BYTES) {
                read(&run);
                (run, runs) = (place.offset()..end, runs + 1);
            }
            run.end = run.end.max(end);
        }
        if runs == 1 {
            run.end = run.end.saturating_add(further);
        }
        read(&run);
    }

    fn walk(&self, begins: bool) {
        self.persistent.mapping.walk(begins);
    }

    fn pages_waited_for(&self) -> u64 {
        super::system::pages_waited_for()
    }

    #[inline]
    fn prefetch_for_write(&self, at: PersistentAddress) {
        write_back::prefetch_for_write(self.persistent.base.wrapping_byte_add(at.offset() as usize));
    }

    fn write_back_all(&self, _: Step) -> bool {
        // `wbinvd` is privileged. If the domain needs no write-backs at all, there is nothing to do.
        self.instruction.is_none()
    }

    fn emulates_latency(&self) -> bool {
        self.latency != 0
    }

    #[inline]
    fn pause(&self) {
        std::hint::spin_loop();
    }

    fn wait(&self, at: VolatileAddress, value: u64) {
        let word = self.volatile.at(at.offset());
        if word.load(Ordering::SeqCst) == value {
            system::wait(futex_word(word), value as u32, None);
        }
    }

    fn wait_briefly(&self, at: VolatileAddress, value: u64, nanoseconds: u64) -> bool {
        let word = self.volatile.at(at.offset());
        let is_so = word.load(Ordering::SeqCst) == value;
        is_so && system::wait(futex_word(word), value as u32, Some(Duration::from_nanos(nanoseconds)))
    }

    fn wake(&self, at: VolatileAddress) {
        let word = self.volatile.at(at.offset());
        system::wake(futex_word(word), i32::MAX);
    }

    fn wake_one(&self, at: VolatileAddress) {
        let word = self.volatile.at(at.offset());
        system::wake(futex_word(word), 1);
    }

    fn yield_core(&self) {
        std::thread::yield_now();
    }

    fn cores(&self) -> Option<usize> {
        // The number is kept, because asking for it takes many system calls.
        static CORES: LazyLock<Option<usize>> =
            LazyLock::new(|| std::thread::available_parallelism().ok().map(usize::from));
        *CORES
    }

    #[inline]
    fn has_process_barrier(&self) -> bool {
        system::HAS_PROCESS_BARRIER
    }

    fn process_barrier(&self) -> bool {
        system::process_barrier()
    }

    #[inline]
    fn event(&self, _: Event) {}

    #[inline]
    fn work(&self, _: u32) {}

    #[inline]
    fn omitted(&self, _: Step) -> bool {
        false
    }

    #[inline]
    fn size(&self, space: Space) -> u64 {
        let words = match space {
            Space::Persistent => &self.persistent,
            Space::Volatile => &self.volatile,
        };
        words.mapping.extent()
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }

    #[inline]
    fn device(&self) -> Option<&dyn Device> {
        self.device.as_deref().map(|device| device as &dyn Device)
    }

    fn check_file(&self) -> Result<()> {
        self.persistent.mapping.check_file().map_err(|error| self.in_pool(error))
    }

    #[inline]
    fn check_poison(&self) -> Result<()> {
        self.persistent.mapping.check_poison()
    }

    fn set_poison(&self, what: &str, error: &std::io::Error) {
        self.persistent.mapping.poison().set(what, error);
    }

    fn in_pool(&self, error: Error) -> Error {
        self.persistent.mapping.poison().in_pool(error)
    }

    fn make_space(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        let Some(device) = &self.device else { return self.persistent.mapping.allocate(at.offset(), bytes) };
        device.allocate(DeviceFile::Heap, at.offset(), bytes)
    }

    fn expect_stores(&self, at: PersistentAddress, bytes: u64) {
        if self.device.is_some() {
            self.persistent.mapping.copy_ahead(at.offset(), bytes);
        }
    }

    fn punch(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.punch(DeviceFile::Heap, at.offset(), bytes),
            None => self.persistent.mapping.punch(at.offset(), bytes),
        }
    }

    fn flush_file(&self) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.flush(DeviceFile::Heap),
            None => self.persistent.mapping.flush(),
        }
    }

    fn grow(&self, least: u64, most: u64) -> std::io::Result<u64> {
        let mapping = &self.persistent.mapping;
        mapping.grow(least, most, |file, bytes| match &self.device {
            Some(device) => device.grow(DeviceFile::Heap, bytes),
            None => mapping.extend(file, bytes),
        })
    }
}

#[cfg(test)]
mod tests;
