//! Persistent memory, as programs see it that are checked.

use std::cell::Cell;
use std::panic::Location;

use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step, VolatileAddress, WindowView};

use crate::x86::caught::Stopped;
use crate::x86::site::{self, Site, Source};

/// Locks and volatile words that a program has.
pub(crate) const LOCKS: u64 = 64;
pub(crate) const VOLATILE_WORDS: u64 = 512;

/// Bytes of volatile memory of a program: its locks, a line each, and then its words.
pub(crate) const VOLATILE_BYTES: u64 = 64 * LOCKS + 8 * VOLATILE_WORDS;

/// Operations of one recovery or one invariant, above which it runs for ever.
const PATIENCE: i64 = 10_000_000;

/// A change of a program that a finding advises: flushes and fences behind what a source line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// Behind what this line does.
    pub behind: Source,
    pub flush: bool,
    pub fence: bool,
}

/// One thread's handle to persistent memory that is checked. Addresses are byte offsets from its beginning; words are 64 bits, lines 64 bytes.
///
/// Nothing that is stored is durable before its line has been [flushed](Pmem::flush) and a [fence](Pmem::fence) has come after
/// that. What is not durable may survive a power failure all the same, line by line.
///
/// A program must do the same again whenever its operations return the same: no clocks, no random numbers, and nothing that threads
/// share but this memory, its volatile words and its locks.
///
/// # Panics
/// All methods end the run, which is a finding, when an address lies outside the memory or is not one of a word.
///
/// ```
/// use strandline_check::{Pmem, check};
///
/// const VALUE: u64 = 0;
/// const IS_VALID: u64 = 64;
///
/// let program = |pmem: &Pmem| {
///     pmem.step("write the value");
///     pmem.store(VALUE, 42);
///     pmem.flush(VALUE);
///     pmem.fence();
///     pmem.step("make it valid");
///     pmem.store(IS_VALID, 1);
///     pmem.persist(IS_VALID, 8);
/// };
/// let outcome = check(program)
///     .invariant(|pmem, _| match (pmem.load(IS_VALID), pmem.load(VALUE)) {
///         (1, value) if value != 42 => Err(format!("the valid value is {value}")),
///         _ => Ok(()),
///     })
///     .exhaustive();
/// outcome.assert_clean();
/// ```
pub struct Pmem<'a> {
    memory: &'a Hosted,
    /// Words whose loads nobody has to be told of: none while a repair is tried.
    settled: WindowView<'a>,
    thread: usize,
    omitted: Option<&'a str>,
    repairs: &'a [Repair],
    state: &'a PmemState,
}

/// The part of a [`Pmem`] that changes. The rest is immutable to the compiler, so that loops keep it in registers.
pub(crate) struct PmemState {
    step: Cell<&'static str>,
    /// Operations left, where nothing else ends a program that runs for ever.
    patience: Cell<i64>,
    /// The offset of the last load that the window answered; `u64::MAX` if each of them is counted.
    last: Cell<u64>,
}

impl PmemState {
    /// The state of a program's thread; with `runs_alone`, that of a recovery or an invariant.
    pub fn new(runs_alone: bool) -> Self {
        let patience = Cell::new(if runs_alone { PATIENCE } else { i64::MAX });
        Self { step: Cell::new(""), patience, last: Cell::new(0) }
    }

    /// Counts operations. Returns whether there have been too many.
    fn is_impatient_after(&self, operations: i64) -> bool {
        let left = self.patience.get() - operations;
        if left >= 0 {
            self.patience.set(left);
            return false;
        }
        // `go_back` counts too many loads rather than too few. From here on each operation is counted, from the beginning.
        self.patience.set(PATIENCE);
        self.last.replace(u64::MAX) == u64::MAX
    }

    /// Notes a load at `at`, at or before the last one, and returns how many loads to count. Loads at ascending offsets are not counted one by
    /// one: until the next load that goes back there are at most as many as words between here and there, which are counted then.
    fn go_back(&self, at: u64) -> i64 {
        if self.last.get() == u64::MAX {
            return 1;
        }
        let words = (self.last.get() - at) / 8 + 1;
        self.last.set(at);
        words as i64
    }
}

impl<'a> Pmem<'a> {
    pub(crate) fn new(
        memory: &'a Hosted,
        thread: usize,
        (omitted, repairs): (Option<&'a str>, &'a [Repair]),
        state: &'a PmemState,
    ) -> Self {
        let settled = memory.window().filter(|_| repairs.is_empty()).unwrap_or_default();
        Self { memory, settled, thread, omitted, repairs, state }
    }

    /// The number of this thread, from 0; 0 in set-up, recovery and invariant.
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Bytes of persistent memory.
    pub fn bytes(&self) -> u64 {
        self.memory.size(strandline_core::memory::Space::Persistent)
    }

    /// Names the step that begins here, for reports and for [`Check::omitting`](crate::Check::omitting).
    ///
    /// ```
    /// use strandline_check::check;
    ///
    /// let program = |pmem: &strandline_check::Pmem| {
    ///     pmem.step("persist the counter");
    ///     pmem.store(0, 1);
    ///     pmem.persist(0, 8);
    ///     pmem.acknowledge(1);
    /// };
    /// let is_kept = |pmem: &strandline_check::Pmem, crashed: &strandline_check::Crashed| {
    ///     if pmem.load(0) < crashed.acknowledged.len() as u64 { Err("lost".to_owned()) } else { Ok(()) }
    /// };
    /// check(program).invariant(is_kept).exhaustive().assert_clean();
    /// // The invariant notices when the step is left out: it is worth something.
    /// assert!(check(program).invariant(is_kept).omitting("persist the counter").exhaustive().finding.is_some());
    /// ```
    pub fn step(&self, name: &'static str) {
        self.state.step.set(name);
    }

    /// The caller asks for the next operation.
    #[track_caller]
    fn set_site(&self) {
        site::set(Site { at: Location::caller().into(), step: self.state.step.get() });
    }

    fn spend(&self, operations: i64) {
        if self.state.is_impatient_after(operations) {
            let what = format!("it runs for ever: more than {PATIENCE} operations");
            Stopped::Deadlock(what).raise();
        }
    }

    /// The place of a word.
    #[track_caller]
    fn place(&self, at: u64, bytes: u64, what: &str) -> PersistentAddress {
        self.spend(1);
        let caller = Location::caller();
        let (file, line) = (caller.file(), caller.line());
        if at.checked_add(bytes).is_none_or(|end| end > self.bytes()) {
            let (thread, size) = (self.thread, self.bytes());
            Stopped::Outside(format!(
                "thread {thread}: {what} of {bytes} bytes at {at:#x} is outside the memory, which has {size:#x} bytes ({file}:{line})"
            ))
            .raise();
        }
        self.set_site();
        PersistentAddress::new(at)
    }

    #[track_caller]
    fn word(&self, at: u64, what: &str) -> PersistentAddress {
        if !at.is_multiple_of(8) {
            let caller = Location::caller();
            Stopped::Outside(format!(
                "thread {}: {what} at {at:#x}, which is not a multiple of 8 ({}:{}); use load_bytes and store_bytes",
                self.thread,
                caller.file(),
                caller.line()
            ))
            .raise();
        }
        self.place(at, 8, what)
    }

    /// What a finding's advice puts behind this line.
    #[track_caller]
    fn repair(&self, at: u64) {
        let caller = Source::from(Location::caller());
        for repair in self.repairs.iter().filter(|repair| repair.behind == caller) {
            if repair.flush {
                self.memory.write_back(PersistentAddress::new(at), Step::CommitWriteBack);
            }
            if repair.fence {
                self.memory.fence(Step::CommitFence);
            }
        }
    }

    fn is_omitted(&self) -> bool {
        self.omitted.is_some_and(|omitted| omitted == self.state.step.get())
    }

    /// The word at `at`.
    #[track_caller]
    #[inline]
    pub fn load(&self, at: u64) -> u64 {
        // A recovery that scans its memory does this most (`benches/scans.rs`). A counter would make each load wait for the one before. Loads
        // at ascending offsets need none, since they come to the end of the memory.
        if at > self.state.last.get()
            && let Some(value) = self.settled.load(at)
        {
            self.state.last.set(at);
            return value;
        }
        self.load_slow(at)
    }

    #[track_caller]
    #[inline(never)]
    fn load_slow(&self, at: u64) -> u64 {
        if let Some(value) = self.settled.load(at) {
            self.spend(self.state.go_back(at));
            return value;
        }
        let word = self.word(at, "a load");
        let value = self.memory.load(word);
        self.repair(at);
        value
    }

    /// Stores `value` at `at`.
    #[track_caller]
    pub fn store(&self, at: u64, value: u64) {
        let word = self.word(at, "a store");
        self.memory.store(word, value);
        self.repair(at);
    }

    /// The word at `at`, by an atomic load that acquires: what a thread did before the [store that releases](Pmem::store_release) whose
    /// value this is, or the atomic operation, happens before what follows. A load all the same, as on x86.
    ///
    /// ```
    /// use strandline_check::{Pmem, check};
    ///
    /// const VALUE: u64 = 0;
    /// const IS_READY: u64 = 64;
    ///
    /// // One thread publishes a value, the other waits for it.
    /// let program = |pmem: &Pmem| {
    ///     if pmem.thread() == 0 {
    ///         pmem.store(VALUE, 42);
    ///         pmem.store_release(IS_READY, 1);
    ///     } else {
    ///         while pmem.load_acquire(IS_READY) == 0 {
    ///             pmem.pause();
    ///         }
    ///         assert_eq!(pmem.load(VALUE), 42);
    ///     }
    /// };
    /// check(program).threads(2).exhaustive().assert_clean();
    /// ```
    #[track_caller]
    pub fn load_acquire(&self, at: u64) -> u64 {
        let word = self.word(at, "a load");
        site::set_atomic();
        let value = self.memory.load(word);
        self.repair(at);
        value
    }

    /// Stores `value` at `at`, by an atomic store that releases: see [`load_acquire`](Pmem::load_acquire). A store all the same, as
    /// on x86: it makes nothing durable.
    #[track_caller]
    pub fn store_release(&self, at: u64, value: u64) {
        let word = self.word(at, "a store");
        site::set_atomic();
        self.memory.store(word, value);
        self.repair(at);
    }

    /// Stores `value` at `at` past the cache: durable after the next fence.
    #[track_caller]
    pub fn store_non_temporal(&self, at: u64, value: u64) {
        let word = self.word(at, "a non-temporal store");
        self.memory.store_non_temporal(word, value);
        self.repair(at);
    }

    /// Stores bytes, word by word: a power failure may tear them apart wherever a word ends. A word that is only in part among
    /// them keeps its other bytes.
    ///
    /// ```
    /// use strandline_check::{FindingKind, check};
    ///
    /// // Twelve bytes are two words.
    /// let outcome = check(|pmem| {
    ///     pmem.store_bytes(0, b"twelve bytes");
    ///     pmem.persist(0, 12);
    /// })
    /// .invariant(|pmem, _| {
    ///     let mut found = [0; 12];
    ///     pmem.load_bytes(0, &mut found);
    ///     let all_or_nothing = found == [0; 12] || found == *b"twelve bytes";
    ///     if all_or_nothing { Ok(()) } else { Err(format!("torn: {found:?}")) }
    /// })
    /// .exhaustive();
    /// assert_eq!(outcome.finding.unwrap().kind, FindingKind::TornValue);
    /// ```
    #[track_caller]
    pub fn store_bytes(&self, at: u64, bytes: &[u8]) {
        self.place(at, bytes.len() as u64, "a store");
        let (first, end) = (at / 8 * 8, at + bytes.len() as u64);
        let several = end > first + 8;
        for word in (first..end).step_by(8) {
            let place = PersistentAddress::new(word);
            let mut value = [0; 8];
            if word < at || word + 8 > end {
                self.set_site();
                value = self.memory.load(place).to_le_bytes();
            }
            for (byte, place) in value.iter_mut().zip(word..) {
                if let Some(new) = place.checked_sub(at).and_then(|within| bytes.get(within as usize)) {
                    *byte = *new;
                }
            }
            self.set_site();
            site::set_part(several);
            self.memory.store(place, u64::from_le_bytes(value));
            site::set_part(false);
            self.repair(word);
        }
    }

    /// Loads bytes into `into`, word by word.
    #[track_caller]
    pub fn load_bytes(&self, at: u64, into: &mut [u8]) {
        self.place(at, into.len() as u64, "a load");
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let (word, within) = (at / 8 * 8, at as usize % 8);
            let here = (8 - within).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            let value = self.settled.load(word).unwrap_or_else(|| {
                self.set_site();
                let value = self.memory.load(PersistentAddress::new(word));
                self.repair(word);
                value
            });
            let bytes = value.to_le_bytes();
            // The length of a whole word is known when this is compiled.
            match <&mut [u8; 8]>::try_from(&mut *now) {
                Ok(now) => *now = bytes,
                Err(_) => now.copy_from_slice(&bytes[within..within + here]),
            }
            (at, rest) = (at + here as u64, later);
        }
    }

    /// Stores `new` at `at` if it holds `current`, atomically; a fence too, if it does. The old value, `Ok` if it was exchanged.
    ///
    /// # Errors
    /// The value that was there instead.
    #[track_caller]
    pub fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        let word = self.word(at, "a compare-and-exchange");
        let exchanged = self.memory.compare_exchange(word, current, new);
        self.repair(at);
        exchanged
    }

    /// Adds to the word at `at`, atomically; a fence too. The old value.
    #[track_caller]
    pub fn fetch_add(&self, at: u64, by: u64) -> u64 {
        let word = self.word(at, "an addition");
        let old = self.memory.fetch_add(word, by);
        self.repair(at);
        old
    }

    /// Asks for the line of `at` to be written back (`clwb`): what is stored there is durable after the next fence of this thread.
    #[track_caller]
    pub fn flush(&self, at: u64) {
        self.place(at, 1, "a flush");
        if !self.is_omitted() {
            self.memory.write_back(PersistentAddress::new(at), Step::CommitWriteBack);
            self.repair(at);
        }
    }

    /// [Flushes](Pmem::flush) every line of `bytes` bytes at `at`.
    #[track_caller]
    pub fn flush_range(&self, at: u64, bytes: u64) {
        for line in (at / 64 * 64..at.saturating_add(bytes)).step_by(64) {
            self.flush(line);
        }
    }

    /// A store fence (`sfence`): what this thread has flushed and stored past the cache is durable.
    #[track_caller]
    pub fn fence(&self) {
        if !self.is_omitted() {
            self.place(0, 0, "a fence");
            self.memory.fence(Step::CommitFence);
        }
    }

    /// [Flushes](Pmem::flush_range), then a [fence](Pmem::fence).
    #[track_caller]
    pub fn persist(&self, at: u64, bytes: u64) {
        self.flush_range(at, bytes);
        self.fence();
    }

    /// The program says to the world outside that `number` is done, and must not be lost: see
    /// [`Crashed::acknowledged`](crate::Crashed::acknowledged).
    #[track_caller]
    pub fn acknowledge(&self, number: u64) {
        self.place(0, 0, "an acknowledgement");
        self.memory.event(Event::Acknowledged(number));
    }

    /// A loop that waits for another thread calls it each time round: the others run.
    pub fn pause(&self) {
        self.memory.pause();
    }

    fn volatile(&self, number: u64) -> VolatileAddress {
        let is_there = number < VOLATILE_WORDS;
        assert!(
            is_there,
            "there are {VOLATILE_WORDS} volatile words, and number {number} is not one of them"
        );
        VolatileAddress::new(64 * LOCKS + 8 * number)
    }

    fn lock_word(number: u64) -> VolatileAddress {
        assert!(number < LOCKS, "there are {LOCKS} locks, and number {number} is not one of them");
        VolatileAddress::new(64 * number)
    }

    /// Volatile word number `number`, below 512: 0 at the beginning and after a power failure.
    pub fn load_volatile(&self, number: u64) -> u64 {
        self.memory.load(self.volatile(number))
    }

    /// Stores `value` into volatile word number `number`.
    pub fn store_volatile(&self, number: u64, value: u64) {
        self.memory.store(self.volatile(number), value);
    }

    /// As [`compare_exchange`](Pmem::compare_exchange), on volatile word number `number`.
    ///
    /// # Errors
    /// The value that was there instead.
    pub fn compare_exchange_volatile(&self, number: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(self.volatile(number), current, new)
    }

    /// Takes lock number `number`, below 64, waiting for it. Locks are free at the beginning and after a power failure.
    ///
    /// ```
    /// use strandline_check::{FindingKind, check};
    ///
    /// // Each takes what the other has.
    /// let outcome = check(|pmem| {
    ///     let (first, second) = if pmem.thread() == 0 { (0, 1) } else { (1, 0) };
    ///     pmem.lock(first);
    ///     pmem.lock(second);
    ///     pmem.unlock(second);
    ///     pmem.unlock(first);
    /// })
    /// .threads(2)
    /// .preemptions(1)
    /// .exhaustive();
    /// assert_eq!(outcome.finding.unwrap().kind, FindingKind::Deadlock);
    /// ```
    pub fn lock(&self, number: u64) {
        self.memory.lock(Self::lock_word(number));
    }

    /// Releases lock number `number`.
    pub fn unlock(&self, number: u64) {
        self.memory.unlock(Self::lock_word(number));
    }
}
