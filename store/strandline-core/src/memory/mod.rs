//! Waist 2: what every scheme, log, allocator and transaction is written against.
//!
//! A [`Memory`] is **one hardware thread's view** of two address spaces: the pool, whose words survive a
//! power failure once they have been written back, and the volatile synchronisation words. Exactly two
//! implementations exist: [`Native`], mapped memory at full speed, and `Hosted`, which hands each
//! operation to a `World`: the `Recorder`, the crash checker, the simulator. An application has the
//! former alone; the latter comes with the feature `worlds`.

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
pub use data::DataWords;
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

/// Operations on persistence that a thread has issued so far.
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
/// // The line with record and commit record.
/// assert_eq!((cost.lines_written_back, cost.fences), (1, 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Cache lines written back by clwb, clflushopt or clflush, or by a non-temporal store's line.
    pub lines_written_back: u64,
    /// Fences that waited until what was written back is durable.
    pub fences: u64,
    /// Bytes stored by non-temporal stores.
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
/// Addresses must be 8-byte aligned and inside their space; [`Memory::contains`] tells. An access
/// elsewhere panics: the transaction layer checks first and returns an error instead.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, _) = recorded_words();
/// /// Makes a value durable before the flag that says that it is there. Runs on every memory.
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
    /// Whoever goes on with a view on another thread than it was made on calls this first, there: natively, a thread may
    /// need permission to read the pool. Once it has done so costs next to nothing.
    fn admit_thread(&self) {}
    /// The calling thread begins a transaction on this memory, until [`Memory::end_transaction`]. Whose identity counts is the world's affair:
    /// natively the operating system's thread, whichever view it uses; elsewhere the view's thread.
    ///
    /// # Errors
    /// Returns [`Error::Forked`], and [`Error::Nested`] if it runs one on it already.
    fn begin_transaction(&self) -> Result<()>;
    /// The calling thread's transaction on this memory has ended, well or not.
    fn end_transaction(&self);
    /// Returns whether this is a forked child of the process to which the memory belongs: it must not go on with it.
    fn is_forked(&self) -> bool {
        false
    }
    /// Returns whether the calling thread runs a transaction of another pool. In worlds other than native memory no thread does.
    fn is_nested(&self) -> bool {
        false
    }
    /// The calling thread waits for `awaited` of this memory's pool, and looks between two naps whether that can end.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] if it cannot, because the thread runs a transaction of another pool that others wait for.
    fn poll_wait(&self, _awaited: Awaited) -> Result<()> {
        Ok(())
    }
    /// The calling thread no longer waits.
    fn end_wait(&self) {}
    /// Stores to the word at `at`, natively, which worker has taken a latch: for [`Memory::poll_wait`] alone.
    fn note_owner(&self, _at: VolatileAddress, _owner: u64) {}
    /// Something that others may wait for was put where it is found: wakes one of those that wait at `at` for that to
    /// happen. Where threads are coroutines they look again after a pause.
    fn notify(&self, _at: VolatileAddress) {}
    /// Loads a word (acquire).
    fn load<A: Address>(&self, at: A) -> u64;
    /// Loads a word to decide where to look, or whose lock to take: it may be stale or in the making, nothing that
    /// a transaction returns follows from it, and what judges reads does not count it.
    fn peek<A: Address>(&self, at: A) -> u64 {
        self.load(at)
    }
    /// Loads a word that is about to be stored to, for taking that store back. Where the hardware keeps old values,
    /// a world that keeps time charges no more than bringing the line, which the store needs anyway.
    fn load_before_store<A: Address>(&self, at: A) -> u64 {
        self.load(at)
    }
    /// Counts up the word at `at`, which numbers transactions; its new value. Where the hardware numbers them it costs
    /// nothing.
    fn number_transaction(&self, at: VolatileAddress) -> u64 {
        self.fetch_add(at, 1) + 1
    }
    /// Returns whether [`Event::Abort`] takes the transaction's stores back (TxAbort): software need not store the old values.
    fn takes_stores_back(&self) -> bool {
        false
    }
    /// Returns whether nothing has to be written back: caches survive what the domain survives.
    fn caches_survive(&self) -> bool {
        false
    }
    /// Stores a word (release).
    #[track_caller]
    fn store<A: Address>(&self, at: A, value: u64);
    /// Loads consecutive words, each atomically (acquire); their loads may overlap.
    fn load_range<A: Address>(&self, at: A, into: &mut [u64]);
    /// Tells which part of the persistent space transactions read and write: `words` words from `first` on.
    ///
    /// # Panics
    /// Panics if they are not whole lines inside the space.
    fn set_data(&mut self, _first: PersistentAddress, _words: u64) {}
    /// The words of that part, to be loaded by one check; whoever gets nothing goes the long way. Only native memory has them.
    fn data_words(&self) -> Option<DataWords<'_>> {
        None
    }
    /// Tells which line of volatile words is stored to by [`Memory::store_own`], which is not to be called before.
    ///
    /// # Panics
    /// Panics if it is no line inside the space.
    fn set_own(&mut self, _line: VolatileAddress) {}
    /// Stores to word `word` of `line`, which is the one of [`Memory::set_own`], as [`Memory::store`] does; native memory need not check
    /// the address.
    #[track_caller]
    fn store_own(&self, line: VolatileAddress, word: u64, value: u64) {
        self.store(line.word(word), value);
    }
    /// Stores consecutive words in address order, each atomically (release).
    #[track_caller]
    fn store_range<A: Address>(&self, at: A, from: &[u64]);
    /// Stores two consecutive words, as [`Memory::store_range`] does.
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
    /// Stores a word past the cache; durable after the next fence.
    #[track_caller]
    fn store_non_temporal(&self, at: PersistentAddress, value: u64);
    /// Has these bytes leave the caches, where that can be had: stores past the cache to what is in one take half as long again. They are
    /// durable as after [`Memory::write_back_range`], but that is not what this is for, and worlds do nothing.
    fn evict(&self, _at: PersistentAddress, _bytes: u64) {}
    /// The words of a line.
    fn load_line(&self, line: PersistentAddress) -> [u64; LINE_WORDS as usize] {
        let mut words = [0; LINE_WORDS as usize];
        self.load_range(line, &mut words);
        words
    }
    /// Stores a line's words past the cache, in the order of addresses, as [`Memory::store_non_temporal`] does.
    #[track_caller]
    fn store_line_non_temporal(&self, line: PersistentAddress, pairs: &[[u64; 2]; LINE_WORDS as usize / 2]) {
        for (number, &value) in (0..).zip(pairs.as_flattened()) {
            self.store_non_temporal(line.word_inside(number), value);
        }
    }
    /// Stores consecutive pairs of words and a last one, as [`Memory::store_pair`] does each. What makes them must not panic.
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
    /// Sequentially consistent compare-and-exchange: the old value, `Ok` if it was exchanged.
    #[track_caller]
    fn compare_exchange<A: Address>(&self, at: A, current: u64, new: u64) -> Result<u64, u64>;
    /// Sequentially consistent add; returns the old value.
    #[track_caller]
    fn fetch_add<A: Address>(&self, at: A, by: u64) -> u64;
    /// Asks for the line of `at` to be written back; durable after the next [`fence`](Memory::fence).
    fn write_back(&self, at: PersistentAddress, step: Step);
    /// Waits until everything written back by this thread is durable: a sync barrier of eager sync.
    fn fence(&self, step: Step);
    /// Returns the `bytes` bytes at `at` as they lie in memory; `None` where memory is not the processor's, or has not so many.
    ///
    /// # Safety
    /// Nobody stores to them as long as they are borrowed.
    unsafe fn borrow(&self, _at: PersistentAddress, _bytes: u64) -> Option<&[u8]> {
        None
    }
    /// A hint that `words` words from `at` on will soon be loaded.
    fn prefetch(&self, _at: PersistentAddress, _words: usize) {}
    /// A hint that `words` words from each of `places` on will soon be loaded, and may have to be read from a file; and that `further` bytes
    /// behind them will, where they lie one after another.
    fn read_ahead(&self, _places: &mut [PersistentAddress], _words: usize, _further: u64) {}
    /// A hint that a walk over most of the persistent words begins, or that it has ended.
    fn walk(&self, _begins: bool) {}
    /// How many times this thread has waited for a file's pages.
    fn pages_waited_for(&self) -> u64 {
        0
    }
    /// A hint that the line of `at` will soon be stored to.
    fn prefetch_for_write(&self, at: PersistentAddress);
    /// Writes back the whole cache (x86's privileged `wbinvd`). `false`: this memory cannot, and the
    /// caller writes the lines back one by one.
    fn write_back_all(&self, step: Step) -> bool;
    /// Returns whether write-backs are charged an emulated latency, so that work which only an emulation needs is done.
    fn emulates_latency(&self) -> bool;
    /// A spin loop's pause; where threads are coroutines, another one may run.
    fn pause(&self);
    /// Blocks while the word at `at` holds `value`, until [`wake`](Memory::wake) on it; may return early, so
    /// callers check again. Where threads are coroutines, a pause.
    fn wait(&self, at: VolatileAddress, value: u64);
    /// Like [`wait`](Memory::wait), for so long at most; whether that is over. Elsewhere than on native memory it never is.
    fn wait_briefly(&self, at: VolatileAddress, value: u64, _nanoseconds: u64) -> bool {
        self.wait(at, value);
        false
    }
    /// Wakes all that [`wait`](Memory::wait) on the word at `at`. Store the new value first.
    fn wake(&self, at: VolatileAddress);
    /// Wakes one of them, or more.
    fn wake_one(&self, at: VolatileAddress) {
        self.wake(at);
    }
    /// Lets another thread run, where there are more of them than cores.
    fn yield_core(&self) {}
    /// How many cores there are for this process's threads, where they are the system's.
    fn cores(&self) -> Option<usize> {
        None
    }
    /// Returns whether there may be a [`Memory::process_barrier`].
    fn has_process_barrier(&self) -> bool {
        false
    }
    /// Has every thread of this process that runs go through a full memory barrier before this returns, as if it executed one of its
    /// own. Whether the system does that.
    fn process_barrier(&self) -> bool {
        false
    }
    /// A transaction or persistency boundary, for worlds that record or judge. A barrier or strand whose
    /// step is [`omitted`](Memory::omitted) is no event.
    fn event(&self, event: Event);
    /// `instructions` instructions of computing between accesses, for worlds that keep time.
    fn work(&self, instructions: u32);
    /// So many consecutive words were loaded from memory that is this thread's own and that the caller keeps itself, for worlds that
    /// keep time.
    fn loaded_own(&self, _words: u64) {}
    /// The same of words stored.
    fn stored_own(&self, _words: u64) {}
    /// Returns whether `step` is left out: the one mechanism for mutants. Constant `false` natively.
    fn omitted(&self, step: Step) -> bool;
    /// Bytes in the space of `A` by now; the persistent one may grow.
    fn size(&self, space: Space) -> u64;
    /// What this thread has issued so far.
    fn counters(&self) -> Counters;
    /// The device behind the pool, in the `Sync` domain; `None` where a fence makes durable.
    fn device(&self) -> Option<&dyn Device>;

    /// Fails from the first failed flush of one of the pool's files on: [`flush`].
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`].
    fn check_poison(&self) -> Result<()> {
        self.device().map_or(Ok(()), Device::check)
    }

    /// Poisons the pool, where its memory keeps that it is: because `what` failed with `error`.
    fn set_poison(&self, _what: &str, _error: &std::io::Error) {}

    /// `error`, which names the pool's file, where the memory is one's.
    fn in_pool(&self, error: Error) -> Error {
        error
    }

    /// Fails if the file that stores go to was deleted or cut short by somebody else; then every later transaction fails as well. To be asked when
    /// persisting in bulk.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`].
    fn check_file(&self) -> Result<()> {
        Ok(())
    }

    /// Sees to it that the pool's file has space for the `bytes` bytes at `at`, where it may have holes.
    ///
    /// # Errors
    /// Returns an error if the disk is full.
    fn make_space(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.allocate(DeviceFile::Heap, at.offset(), bytes),
            None => Ok(()),
        }
    }

    /// A hint that much of the `bytes` bytes at `at` will soon be stored to.
    fn expect_stores(&self, _at: PersistentAddress, _bytes: u64) {}

    /// Releases the disk space of the `bytes` bytes at `at`, which read as zeros from now on, durably after [`Memory::flush_file`]. Space is to be
    /// made ([`Memory::make_space`]) before they are stored to.
    ///
    /// # Errors
    /// Returns an error if the file system cannot punch holes into files, or fails.
    fn punch(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.punch(DeviceFile::Heap, at.offset(), bytes),
            None => Ok(()),
        }
    }

    /// Makes durable what was changed in the pool's file otherwise than by stores: its holes.
    ///
    /// # Errors
    /// The device fails; nobody can tell what is durable then.
    fn flush_file(&self) -> std::io::Result<()> {
        match self.device() {
            Some(device) => device.flush(DeviceFile::Heap),
            None => Ok(()),
        }
    }

    /// Gives back the memory of the pages in the `bytes` bytes at `at`, whole pages of whose contents the pool's file has
    /// every byte: what is read there from now on comes from the file. Nobody stores to them meanwhile. Only memory over a
    /// private mapping has any to give back. `false`: the system refuses, and what was stored there stays.
    fn give_back(&self, _at: PersistentAddress, _bytes: u64) -> bool {
        true
    }

    /// Bytes of the pages in which memory is given back: a power of two. What [`Memory::give_back`] is asked for beside whole ones stays.
    fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    /// Has the words in the `bytes` bytes at `at` be zero, and gives back the memory of whole pages of them. Nobody else reaches them
    /// meanwhile.
    fn clear(&self, at: VolatileAddress, bytes: u64) {
        (0..bytes / WORD_BYTES).for_each(|word| self.store(at.word(word), 0));
    }

    /// Has the pool's file, and with it the persistent space, grow to `most` bytes, or where there is no room for so many to `least`; durably, where
    /// a device is behind it. Returns how many it has then.
    ///
    /// # Errors
    /// Returns an error if the disk is full, and nothing has changed; or if the longer file cannot be made durable, and then [`Memory::check_poison`]
    /// fails from now on.
    fn grow(&self, least: u64, most: u64) -> std::io::Result<u64> {
        let Some(device) = self.device() else { return Ok(most) };
        let grow = |bytes| device.grow(DeviceFile::Heap, bytes).map(|()| bytes);
        grow(most).or_else(|_| grow(least))
    }

    /// Returns whether an access of `words` words at `at` is aligned and inside its space.
    fn contains<A: Address>(&self, at: A, words: u64) -> bool {
        // Rotated, a misaligned offset becomes larger than any size.
        let first = at.offset().rotate_right(3);
        let size = self.size(A::SPACE) / WORD_BYTES;
        first < size && words <= size - first
    }

    /// Writes back every line of `bytes` bytes from `at`.
    fn write_back_range(&self, at: PersistentAddress, bytes: u64, step: Step) {
        let mut line = at.line();
        while line.offset() < at.offset() + bytes {
            self.write_back(line, step);
            line = line.byte(LINE_BYTES);
        }
    }

    /// Takes the lock word at `at` (0: free), waiting for it.
    fn lock(&self, at: VolatileAddress)
    where
        Self: Sized,
    {
        latch::lock(self, at);
        self.event(Event::Lock(at));
    }

    /// Like [`Memory::lock`], unless that would wait for ever.
    ///
    /// # Errors
    /// As for [`Memory::poll_wait`]. The lock is not taken then.
    fn lock_unless_deadlocked(&self, at: VolatileAddress) -> Result<()>
    where
        Self: Sized,
    {
        latch::lock_unless_deadlocked(self, at)?;
        self.event(Event::Lock(at));
        Ok(())
    }

    /// Takes the lock word at `at` if it is free.
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
