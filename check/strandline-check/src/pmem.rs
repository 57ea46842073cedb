//! Persistent memory, as checked programs access it.

use std::cell::Cell;
use std::panic::Location;

use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step, VolatileAddress, WindowView};

use crate::x86::panics::Stopped;
use crate::x86::site::{self, Site, Source};

/// The number of locks and volatile words that a program has.
pub(crate) const LOCKS: u64 = 64;
pub(crate) const VOLATILE_WORDS: u64 = 512;

/// The bytes of a program's volatile memory: its locks, each on a line, followed by its words.
pub(crate) const VOLATILE_BYTES: u64 = 64 * LOCKS + 8 * VOLATILE_WORDS;

/// The number of operations that one recovery or invariant may perform before it counts as endless.
const PATIENCE: i64 = 10_000_000;

/// A change of a program that a finding advises: flushes and fences after a source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repair {
    /// The source line.
    pub behind: Source,
    pub flush: bool,
    pub fence: bool,
}

/// One thread's handle to checked persistent memory. Addresses are byte offsets from its beginning; words are 64 bits, lines 64 bytes.
///
/// A store is durable once its line has been [flushed](Pmem::flush) and a [fence](Pmem::fence) has followed. A store that is not durable may survive
/// a power failure, too; each line survives or not independently.
///
/// A program must be deterministic: it must do the same whenever its operations return the same values. It uses no clocks and no random numbers, and
/// its threads share only this memory, its volatile words and its locks.
///
/// # Panics
/// All methods end the run, which is a finding, if an address is outside the memory or not that of a word.
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
    /// Words that may be loaded without notifying the memory; none while a repair is tried.
    settled: WindowView<'a>,
    thread: usize,
    omitted: Option<&'a str>,
    repairs: &'a [Repair],
    state: &'a PmemState,
}

/// The mutable part of a [`Pmem`]. The compiler knows the rest to be immutable, so that loops keep it in registers.
pub(crate) struct PmemState {
    step: Cell<&'static str>,
    /// The number of operations that are left before a program that does not end counts as endless.
    patience: Cell<i64>,
    /// The offset of the last load that the window answered, or `u64::MAX` if each load is counted.
    last: Cell<u64>,
}

impl PmemState {
    /// Creates the state of a program's thread or, with `runs_alone`, of a recovery or an invariant.
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
        // `go_back` overestimates the number of loads. From here on each operation is counted, starting from zero.
        self.patience.set(PATIENCE);
        self.last.replace(u64::MAX) == u64::MAX
    }

    /// Notes a load at `at`, which is not after the last one, and returns how many loads to count. Loads at ascending offsets are not counted one by
    /// one: until the next load that goes back, there are at most as many as there are words in between. That number is counted then.
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

    /// Returns the number of this thread, from 0. It is 0 in set-up, recovery and invariant.
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Returns the bytes of persistent memory.
    pub fn bytes(&self) -> u64 {
        self.memory.size(strandline_core::memory::Space::Persistent)
    }

    /// Begins a step with this name, which reports and [`Check::omitting`](crate::Check::omitting) use.
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
    /// // The invariant notices when the step is left out.
    /// assert!(check(program).invariant(is_kept).omitting("persist the counter").exhaustive().finding.is_some());
    /// ```
    pub fn step(&self, name: &'static str) {
        self.state.step.set(name);
    }

    /// Notes the caller's source line for the next operation.
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

    /// Returns the address of a word.
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

    /// Executes what a finding's advice adds after this source line.
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

    /// Returns the word at `at`.
    #[track_caller]
    #[inline]
    pub fn load(&self, at: u64) -> u64 {
        // This path is the most frequent one of a recovery that scans its memory (`benches/scans.rs`). A counter would make each load wait for the
        // previous one. Loads at ascending offsets need none, since they reach the end of the memory.
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

    /// Returns the word at `at` by an atomic load with acquire ordering: everything before the [store with release ordering](Pmem::store_release)
    /// that wrote the value, or before the atomic operation that did, happens before what follows. As on x86 it is an ordinary load otherwise.
    ///
    /// ```
    /// use strandline_check::{Pmem, check};
    ///
    /// const VALUE: u64 = 0;
    /// const IS_READY: u64 = 64;
    ///
    /// // One thread publishes a value, and the other waits for it.
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

    /// Stores `value` at `at` by an atomic store with release ordering: see [`load_acquire`](Pmem::load_acquire). As on x86 it is an ordinary store
    /// otherwise, and makes nothing durable.
    #[track_caller]
    pub fn store_release(&self, at: u64, value: u64) {
        let word = self.word(at, "a store");
        site::set_atomic();
        self.memory.store(word, value);
        self.repair(at);
    }

    /// Stores `value` at `at` past the cache. It is durable after the next fence.
    #[track_caller]
    pub fn store_non_temporal(&self, at: u64, value: u64) {
        let word = self.word(at, "a non-temporal store");
        self.memory.store_non_temporal(word, value);
        self.repair(at);
    }

    /// Stores bytes word by word: a power failure may tear them at every boundary of words. A word that the range covers in part keeps its other
    /// bytes.
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
            // Lets the compiler know the length of a whole word.
            match <&mut [u8; 8]>::try_from(&mut *now) {
                Ok(now) => *now = bytes,
                Err(_) => now.copy_from_slice(&bytes[within..within + here]),
            }
            (at, rest) = (at + here as u64, later);
        }
    }

    /// Atomically stores `new` at `at` if the word holds `current`; if it does, this is also a fence. Returns the old value.
    ///
    /// # Errors
    /// Returns the word's value if it is not `current`.
    #[track_caller]
    pub fn compare_exchange(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        let word = self.word(at, "a compare-and-exchange");
        let exchanged = self.memory.compare_exchange(word, current, new);
        self.repair(at);
        exchanged
    }

    /// Atomically adds `by` to the word at `at`; also a fence. Returns the old value.
    #[track_caller]
    pub fn fetch_add(&self, at: u64, by: u64) -> u64 {
        let word = self.word(at, "an addition");
        let old = self.memory.fetch_add(word, by);
        self.repair(at);
        old
    }

    /// Requests a write-back of the line of `at` (`clwb`): its stores are durable after this thread's next fence.
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

    /// Executes a store fence (`sfence`): everything that this thread has flushed or stored past the cache becomes durable.
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

    /// Tells the outside world that `number` is done and must not be lost: see [`Crashed::acknowledged`](crate::Crashed::acknowledged).
    #[track_caller]
    pub fn acknowledge(&self, number: u64) {
        self.place(0, 0, "an acknowledgement");
        self.memory.event(Event::Acknowledged(number));
    }

    /// Lets other threads run. A loop that waits for another thread must call it in each iteration.
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

    /// Returns volatile word number `number`, below 512. Volatile words are 0 initially and after a power failure.
    pub fn load_volatile(&self, number: u64) -> u64 {
        self.memory.load(self.volatile(number))
    }

    /// Stores `value` into volatile word number `number`.
    pub fn store_volatile(&self, number: u64, value: u64) {
        self.memory.store(self.volatile(number), value);
    }

    /// Like [`compare_exchange`](Pmem::compare_exchange), on volatile word number `number`.
    ///
    /// # Errors
    /// Returns the word's value if it is not `current`.
    pub fn compare_exchange_volatile(&self, number: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(self.volatile(number), current, new)
    }

    /// Takes lock number `number`, below 64, waiting for it. Locks are free at the beginning and after a power failure.
    ///
    /// ```
    /// use strandline_check::{FindingKind, check};
    ///
    /// // Each thread waits for the lock that the other holds.
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
