//! Waist 2: the interface to memory of every scheme, log, allocator and transaction.
//!
//! A [`Memory`] is **one hardware thread's view** of two address spaces: the pool, whose words survive a power failure once they have been
//! written back, and the volatile synchronisation words. The crate has exactly two implementations: [`Native`], mapped memory at full
//! speed, and `Hosted`, which hands each operation to a `World`: the `Recorder`, the crash checker, or the simulator. Applications use only
//! the former; the latter needs the feature `worlds`.

mod address;
pub mod biased;
#[cfg(feature = "worlds")]
pub mod coroutines;
mod data;
pub mod deadlock;
pub mod device;
pub mod flush;
#[cfg(feature = "worlds")]
pub mod hosted;
pub mod latch;
mod mapping;
mod native;
mod process;
mod protection;
#[cfg(feature = "worlds")]
pub mod recorder;
mod reference;
mod running;
mod shared_file;
mod step;
pub(crate) mod system;
pub(crate) mod threads;
mod write_back;

pub use address::{
    Address, LINE_BYTES, LINE_WORDS, PAGE_BYTES, PersistentAddress, Space, VolatileAddress, WORD_BYTES,
};
pub use data::{DataWords, MappedWords};
pub use device::{AlignedBuffer, Device, DeviceFile};
pub use flush::{Guarded, Poison};
#[cfg(feature = "worlds")]
pub use hosted::{Hosted, Operation, Window, WindowView, World};
pub use mapping::{Mapping, MappingKind};
pub(crate) use mapping::{allocate, extend, fill_holes, lacking_space};
pub use native::Native;
pub(crate) use process::Process;
#[doc(hidden)]
pub use running::Outside;
pub use shared_file::SharedFile;
pub use step::{Event, Step};
#[cfg(feature = "worlds")]
pub use write_back::StoreInstructions;
pub use write_back::WriteBackInstruction;

use self::deadlock::Awaited;
use crate::error::{Error, Result};

/// The operations on persistence that a thread has issued so far.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::engine::Stm;
///
/// let mut worker = Worker::lease(view, Stm, None)?;
/// let before = worker.memory().counters();
/// worker.run(|tx| tx.write(tx.root(0), 5))?;
/// let cost = worker.memory().counters() - before;
/// // The transaction's record and the commit record are in one line.
/// assert_eq!((cost.lines_written_back, cost.fences), (1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of cache lines written back by clwb, clflushopt or clflush, and of lines stored past the cache. Successive non-temporal stores of
    /// words of one line count once, unless a fence is between them.
    pub lines_written_back: u64,
    /// The number of fences that waited until earlier write-backs were durable.
    pub fences: u64,
    /// The number of bytes stored by non-temporal stores.
    pub non_temporal_bytes: u64,
}

impl std::ops::Sub for Counters {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            lines_written_back: self.lines_written_back - earlier.lines_written_back,
            fences: self.fences - earlier.fences,
            non_temporal_bytes: self.non_temporal_bytes - earlier.non_temporal_bytes,
        }
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        self.lines_written_back += more.lines_written_back;
        self.fences += more.fences;
        self.non_temporal_bytes += more.non_temporal_bytes;
    }
}

/// One hardware thread's view of a pool and of its volatile synchronisation words.
///
/// Addresses must be 8-byte aligned and inside their space, as [`Memory::contains`] checks. Any other access panics: the transaction layer
/// checks first and returns an error instead.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, _) = recorded_words();
/// /// Makes a value durable before the flag that announces it. Runs on every memory.
/// fn publish(memory: &impl Memory, value: (PersistentAddress, u64), flag: PersistentAddress) {
///     memory.store(value.0, value.1);
///     memory.write_back(value.0, Step::HomeWriteBack);
///     memory.fence(Step::HomeFence);
///     memory.store(flag, 1);
///     memory.write_back(flag, Step::TruncationWriteBack);
///     memory.fence(Step::TruncationFence);
/// }
///
/// let memory = Hosted::new(recorder, 0);
/// publish(&memory, (PersistentAddress::new(64), 5), PersistentAddress::new(128));
/// assert_eq!((memory.counters().lines_written_back, memory.counters().fences), (2, 2));
/// ```
pub trait Memory {
    /// Must be called first on a thread other than the one that made the view: natively, a thread may need permission to read the pool.
    /// Further calls cost next to nothing.
    fn admit_thread(&self) {}
    /// Notes that the calling thread begins a transaction on this memory, which lasts until [`Memory::end_transaction`]. Natively, the
    /// calling thread is the operating system's thread, whichever view it uses; in other worlds it is the view's thread.
    ///
    /// # Errors
    /// Returns [`Error::Forked`], and [`Error::Nested`] if the thread runs a transaction on this memory already.
    fn begin_transaction(&self) -> Result<()>;
    /// Notes that the calling thread's transaction on this memory has committed or was rolled back.
    fn end_transaction(&self);
    /// Returns whether this is a forked child of the process to which the memory belongs. Such a child must not use the memory.
    fn is_forked(&self) -> bool {
        false
    }
    /// Returns whether the calling thread runs a transaction of another pool. Except on native memory, no thread does.
    fn is_nested(&self) -> bool {
        false
    }
    /// Called by a thread that waits for `awaited` of this memory's pool, between two naps. Checks whether the wait can end.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if it cannot, because the thread runs a transaction of another pool for which others wait.
    fn poll_wait(&self, _awaited: Awaited) -> Result<()> {
        Ok(())
    }
    /// Notes that the calling thread does not wait any more.
    fn end_wait(&self) {}
    /// Natively, stores the number of the worker that has taken a latch to the word at `at`, for [`Memory::poll_wait`].
    fn note_owner(&self, _at: VolatileAddress, _owner: u64) {}
    /// Wakes one of the threads that wait at `at`, because something for which they wait has been returned. Threads that are coroutines
    /// check again after a pause instead.
    fn notify(&self, _at: VolatileAddress) {}
    /// Loads a word (acquire).
    fn load<A: Address>(&self, at: A) -> u64;
    /// Loads a word as a hint about where to look, or whose lock to take. It may be stale or about to change, so the result of a
    /// transaction must not depend on it. A world that judges reads does not count it.
    fn peek<A: Address>(&self, at: A) -> u64 {
        self.load(at)
    }
    /// Loads a word that is about to be stored to, so that the store can be undone. If the simulated hardware keeps old values, a world
    /// that keeps time charges only the fetch of the line, which the store needs anyway.
    fn load_before_store<A: Address>(&self, at: A) -> u64 {
        self.load(at)
    }
    /// Increments the word at `at`, which numbers transactions; returns its new value. In simulated hardware that numbers transactions,
    /// this costs nothing.
    fn number_transaction(&self, at: VolatileAddress) -> u64 {
        self.fetch_add(at, 1) + 1
    }
    /// Returns whether [`Event::Abort`] undoes the transaction's stores (TxAbort), so that software need not store the old values.
    fn takes_stores_back(&self) -> bool {
        false
    }
    /// Returns whether lines need no write-back, because the caches survive the failures that the domain survives.
    fn caches_survive(&self) -> bool {
        false
    }
    /// Stores a word (release).
    #[track_caller]
    fn store<A: Address>(&self, at: A, value: u64);
    /// Loads consecutive words, each atomically (acquire); their loads may overlap.
    fn load_range<A: Address>(&self, at: A, into: &mut [u64]);
    /// Sets the part of the persistent space that transactions read and write: `words` words from `first` on.
    ///
    /// # Panics
    /// Panics if this part is not whole lines inside the space.
    fn set_data(&mut self, _first: PersistentAddress, _words: u64) {}
    /// Returns the words of that part, which need only one check for each load. `None` except on native memory; callers then use
    /// [`load`](Memory::load).
    fn data_words(&self) -> Option<DataWords<'_>> {
        None
    }
    /// Sets the line of volatile words that [`Memory::store_own`] stores to. Must be called before that function.
    ///
    /// # Panics
    /// Panics if the address is not that of a line inside the space.
    fn set_own(&mut self, _line: VolatileAddress) {}
    /// Stores to word `word` of `line`, the line of [`Memory::set_own`], like [`Memory::store`]. Native memory need not check the address.
    #[track_caller]
    fn store_own(&self, line: VolatileAddress, word: u64, value: u64) {
        self.store(line.word(word), value);
    }
    /// Stores consecutive words in address order, each atomically (release).
    #[track_caller]
    fn store_range<A: Address>(&self, at: A, from: &[u64]);
    /// Stores two consecutive words, like [`Memory::store_range`].
    #[track_caller]
    fn store_pair<A: Address>(&self, at: A, pair: [u64; 2]) {
        self.store_range(at, &pair);
    }
    /// Stores words, one after another, each atomically (release).
    #[track_caller]
    fn store_each(&self, words: &[(PersistentAddress, u64)]) {
        for &(at, value) in words {
            self.store(at, value);
        }
    }
    /// Stores a word past the cache. It is durable after the next fence.
    #[track_caller]
    fn store_non_temporal(&self, at: PersistentAddress, value: u64);
    /// Evicts the lines of these bytes from the caches, if possible, because stores past the cache take half as long again if the line is
    /// cached. The bytes are also durable as after [`Memory::write_back_range`], but callers do not rely on that. Worlds do nothing.
    fn evict(&self, _at: PersistentAddress, _bytes: u64) {}
    /// Loads the words of a line.
    fn load_line(&self, line: PersistentAddress) -> [u64; LINE_WORDS as usize] {
        let mut words = [0; LINE_WORDS as usize];
        self.load_range(line, &mut words);
        words
    }
    /// Stores a line's words past the cache, in the order of addresses, like [`Memory::store_non_temporal`].
    #[track_caller]
    fn store_line_non_temporal(&self, line: PersistentAddress, pairs: &[[u64; 2]; LINE_WORDS as usize / 2]) {
        for (number, &value) in (0..).zip(pairs.as_flattened()) {
            self.store_non_temporal(line.word_inside(number), value);
        }
    }
    /// Stores consecutive pairs of words, and `last` behind them, each like [`Memory::store_pair`]. The iterator must not panic.
    #[track_caller]
    fn store_pairs(
        &self,
        at: PersistentAddress,
        pairs: impl ExactSizeIterator<Item = [u64; 2]>,
        last: [u64; 2],
    ) {
        for (number, pair) in (0..).zip(pairs.chain([last])) {
            self.store_pair(at.word_inside(2 * number), pair);
        }
    }
    /// Sequentially consistent compare-and-exchange. Returns the old value: `Ok` if it was exchanged.
    #[track_caller]
    fn compare_exchange<A: Address>(&self, at: A, current: u64, new: u64) -> Result<u64, u64>;
    /// Sequentially consistent add. Returns the old value.
    #[track_caller]
    fn fetch_add<A: Address>(&self, at: A, by: u64) -> u64;
    /// Starts the write-back of the line of `at`. It is durable after the next [`fence`](Memory::fence).
    fn write_back(&self, at: PersistentAddress, step: Step);
    /// Waits until everything written back by this thread is durable: a sync barrier of eager sync.
    fn fence(&self, step: Step);
    /// Returns the `bytes` bytes at `at` as they are in memory; `None` if this memory is not the processor's, or has not so many bytes.
    ///
    /// # Safety
    /// The bytes must not be stored to as long as they are borrowed.
    unsafe fn borrow(&self, _at: PersistentAddress, _bytes: u64) -> Option<&[u8]> {
        None
    }
    /// A hint that `words` words from `at` on will soon be loaded.
    fn prefetch(&self, _at: PersistentAddress, _words: usize) {}
    /// A hint that `words` words from each of `places` on will soon be loaded, perhaps from a file. If the places are consecutive,
    /// `further` bytes behind them will be loaded too.
    fn read_ahead(&self, _places: &mut [PersistentAddress], _words: usize, _further: u64) {}
    /// A hint that a walk over most of the persistent words begins, or that it has ended.
    fn walk(&self, _begins: bool) {}
    /// Returns the number of times that this thread has waited for pages of a file.
    fn pages_waited_for(&self) -> u64 {
        0
    }
    /// A hint that the line of `at` will soon be stored to.
    fn prefetch_for_write(&self, at: PersistentAddress);
    /// Writes back the whole cache (x86's privileged `wbinvd`). Returns false if this memory cannot do so; the caller then writes the lines
    /// back one by one.
    fn write_back_all(&self, step: Step) -> bool;
    /// Returns whether write-backs have an emulated latency. Some work is necessary only then.
    fn emulates_latency(&self) -> bool;
    /// The pause of a spin loop. If threads are coroutines, another one may run.
    fn pause(&self);
    /// Blocks while the word at `at` has the value `value`, until [`wake`](Memory::wake) is called for it. May return early, so callers
    /// check again. If threads are coroutines, this is a pause.
    fn wait(&self, at: VolatileAddress, value: u64);
    /// Like [`wait`](Memory::wait), for at most this number of nanoseconds. Returns whether the time has passed; it never has except on
    /// native memory.
    fn wait_briefly(&self, at: VolatileAddress, value: u64, _nanoseconds: u64) -> bool {
        self.wait(at, value);
        false
    }
    /// Wakes all threads that [`wait`](Memory::wait) for the word at `at`. The new value must be stored first.
    fn wake(&self, at: VolatileAddress);
    /// Wakes at least one of the threads that wait for the word at `at`.
    fn wake_one(&self, at: VolatileAddress) {
        self.wake(at);
    }
    /// Lets another thread run, if there are more threads than cores.
    fn yield_core(&self) {}
    /// Returns the number of cores for this process's threads; `None` if threads are not the system's.
    fn cores(&self) -> Option<usize> {
        None
    }
    /// Returns whether [`Memory::process_barrier`] may be available.
    fn has_process_barrier(&self) -> bool {
        false
    }
    /// Makes every running thread of this process execute a full memory barrier before this returns. Returns whether the system does so.
    fn process_barrier(&self) -> bool {
        false
    }
    /// Reports a boundary of a transaction or of persistency, for worlds that record or judge. A barrier or strand whose step is
    /// [`omitted`](Memory::omitted) is not reported.
    fn event(&self, event: Event);
    /// Reports `instructions` instructions of computation between accesses, for worlds that keep time.
    fn work(&self, instructions: u32);
    /// Reports the load of this number of consecutive words from memory that only this thread uses and that the caller manages itself, for
    /// worlds that keep time.
    fn loaded_own(&self, _words: u64) {}
    /// Like [`loaded_own`](Memory::loaded_own), for stores.
    fn stored_own(&self, _words: u64) {}
    /// Returns whether `step` is left out: the only mechanism for mutants. Always false natively.
    fn omitted(&self, step: Step) -> bool;
    /// Returns the present size of `space` in bytes. The persistent space may grow.
    fn size(&self, space: Space) -> u64;
    /// Returns the operations that this thread has issued so far.
    fn counters(&self) -> Counters;
    /// Returns the device of the pool, in the `Sync` domain; `None` if a fence makes writes durable.
    fn device(&self) -> Option<&dyn Device>;

    /// Checks that no flush of one of the pool's files has failed: see [`flush`].
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] if one has failed.
    fn check_poison(&self) -> Result<()> {
        self.device().map_or(Ok(()), Device::check)
    }

    /// Poisons the pool, because `what` failed with `error`, if its memory can be poisoned.
    fn set_poison(&self, _what: &str, _error: &std::io::Error) {}

    /// Adds the path of the pool's file to `error`, if the memory is that of a file.
    fn in_pool(&self, error: Error) -> Error {
        error
    }

    /// Checks that no other program has deleted or truncated the file to which stores go. Bulk persistence calls this.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] if one has; every later transaction then fails as well.
    fn check_file(&self) -> Result<()> {
        Ok(())
    }

    /// Allocates disk space for the `bytes` bytes at `at` of the pool's file, which may have holes.
    ///
    /// # Errors
    /// Returns an error if the disk is full.
    fn make_space(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.allocate(DeviceFile::Heap, at.offset(), bytes),
            None => Ok(()),
        }
    }

    /// A hint that most of the `bytes` bytes at `at` will soon be stored to.
    fn expect_stores(&self, _at: PersistentAddress, _bytes: u64) {}

    /// Releases the disk space of the `bytes` bytes at `at`. They read as zeros from now on, durably after [`Memory::flush_file`]. Before
    /// they are stored to, space must be allocated ([`Memory::make_space`]).
    ///
    /// # Errors
    /// Returns an error if the file system cannot punch holes into files, or fails.
    fn punch(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.punch(DeviceFile::Heap, at.offset(), bytes),
            None => Ok(()),
        }
    }

    /// Makes changes of the pool's file durable that are not stores: its holes.
    ///
    /// # Errors
    /// Returns an error if the device fails; it is then unknown what is durable.
    fn flush_file(&self) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.flush(DeviceFile::Heap),
            None => Ok(()),
        }
    }

    /// Releases the memory of the whole pages in the `bytes` bytes at `at`, whose contents must be in the pool's file. Later reads come
    /// from the file. No thread may store to the pages meanwhile. Only memory over a private mapping has anything to release. Returns false
    /// if the system refuses; the stored contents then stay.
    fn give_back(&self, _at: PersistentAddress, _bytes: u64) -> bool {
        true
    }

    /// Returns the size in bytes of the pages in which memory is released, a power of two. [`Memory::give_back`] keeps parts of pages.
    fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    /// Sets the words in the `bytes` bytes at `at` to zero, and releases the memory of whole pages. No other thread may access them
    /// meanwhile.
    fn clear(&self, at: VolatileAddress, bytes: u64) {
        (0..bytes / WORD_BYTES).for_each(|word| self.store(at.word(word), 0));
    }

    /// Makes the pool's file, and with it the persistent space, grow to `most` bytes or, if there is no space for as many, to `least`;
    /// durably, if there is a device. Returns the new size.
    ///
    /// # Errors
    /// Returns an error if the disk is full; nothing has changed then. Also returns an error if the longer file cannot be made durable;
    /// [`Memory::check_poison`] then fails from now on.
    fn grow(&self, least: u64, most: u64) -> std::io::Result<u64> {
        let Some(device) = self.device() else { return Ok(most) };
        let grow = |bytes| device.grow(DeviceFile::Heap, bytes).map(|()| bytes);
        grow(most).or_else(|_| grow(least))
    }

    /// Returns whether an access of `words` words at `at` is aligned and inside its space.
    fn contains<A: Address>(&self, at: A, words: u64) -> bool {
        // Rotating makes a misaligned offset larger than any size.
        let first = at.offset().rotate_right(3);
        let size = self.size(A::SPACE) / WORD_BYTES;
        first < size && words <= size - first
    }

    /// Writes back every line of the `bytes` bytes from `at` on.
    fn write_back_range(&self, at: PersistentAddress, bytes: u64, step: Step) {
        let mut line = at.line();
        while line.offset() < at.offset() + bytes {
            self.write_back(line, step);
            line = line.byte(LINE_BYTES);
        }
    }

    /// Waits for the lock word at `at` (0: free) and takes it.
    fn lock(&self, at: VolatileAddress)
    where
        Self: Sized,
    {
        latch::lock(self, at);
        self.event(Event::Lock(at));
    }

    /// Like [`Memory::lock`], but fails if the wait would never end.
    ///
    /// # Errors
    /// Returns the errors of [`Memory::poll_wait`]. The lock is not taken then.
    fn lock_unless_deadlocked(&self, at: VolatileAddress) -> Result<()>
    where
        Self: Sized,
    {
        latch::lock_unless_deadlocked(self, at)?;
        self.event(Event::Lock(at));
        Ok(())
    }

    /// Takes the lock word at `at` if it is free. Returns whether it was.
    fn try_lock(&self, at: VolatileAddress) -> bool
    where
        Self: Sized,
    {
        let taken = latch::try_lock(self, at);
        if taken {
            self.event(Event::Lock(at));
        }
        taken
    }

    /// Releases the lock word at `at`.
    fn unlock(&self, at: VolatileAddress)
    where
        Self: Sized,
    {
        self.event(Event::Unlock(at));
        latch::unlock(self, at);
    }
}
