//! Hosted memory: each operation goes to a [`World`]. Threads are coroutines on one operating-system thread, so that the world chooses how they
//! interleave.

use std::cell::Cell;
use std::panic::Location;
use std::ptr::NonNull;
use std::rc::Rc;

use super::{
    Address, Counters, Event, LINE_BYTES, Memory, PersistentAddress, Space, Step, VolatileAddress, WORD_BYTES,
};
use crate::error::{Error, Result};
use crate::memory::{Device, DeviceFile};

/// One operation of a thread on a [`World`]. Offsets are in bytes.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, _) = recorded_words();
/// use strandline_core::memory::{Operation, Space};
///
/// let memory = Hosted::new(recorder.clone(), 0);
/// memory.store(PersistentAddress::new(72), 5);
/// memory.write_back(PersistentAddress::new(72), Step::HomeWriteBack);
/// memory.fence(Step::HomeFence);
/// let operations: Vec<_> = recorder.take_stream().into_iter().map(|recorded| recorded.operation).collect();
/// assert_eq!(operations, [
///     Operation::Store(Space::Persistent, 72, 5),
///     Operation::WriteBack(64, Step::HomeWriteBack),
///     Operation::Fence(Step::HomeFence),
/// ]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Loads a word.
    Load(Space, u64),
    /// Stores a word.
    Store(Space, u64, u64),
    /// Stores a word of the pool past the cache.
    StoreNonTemporal(u64, u64),
    /// If a word has the first value, replaces it by the second. Returns the old value.
    CompareExchange(Space, u64, u64, u64),
    /// Adds to a word. Returns the old value.
    FetchAdd(Space, u64, u64),
    /// Writes back the line at an offset of the pool.
    WriteBack(u64, Step),
    /// A persistence fence.
    Fence(Step),
    /// Writes back the whole cache. Returns 1 if the world can do that.
    WriteBackAll(Step),
    /// Pauses in a spin loop.
    Pause,
    /// Marks a boundary of a transaction or of persistency.
    Event(Event),
    /// Executes instructions between accesses.
    Work(u32),
}

/// The implementation of [`Hosted`] memory: its contents, and whatever else the world keeps (events, surviving states, time). Threads are numbered
/// from 0.
///
/// ```
/// # use strandline_core::example::*;
/// use std::cell::Cell;
/// use strandline_core::memory::World;
///
/// /// A pool of one word; everything else does nothing.
/// struct OneWord(Cell<u64>);
///
/// impl World for OneWord {
///     fn perform(&self, _thread: usize, operation: Operation) -> u64 {
///         match operation {
///             Operation::Load(Space::Persistent, 0) => self.0.get(),
///             Operation::Store(Space::Persistent, 0, value) => self.0.replace(value),
///             _ => 0,
///         }
///     }
///     fn switches(&self, _thread: usize) -> bool {
///         false
///     }
///     fn omitted(&self, _step: Step) -> bool {
///         false
///     }
///     fn size(&self, _space: Space) -> u64 {
///         8
///     }
/// }
///
/// let memory = Hosted::new(Rc::new(OneWord(Cell::new(0))), 0);
/// memory.store(PersistentAddress::NULL, 7);
/// assert_eq!(memory.load(PersistentAddress::NULL), 7);
/// ```
pub trait World {
    /// Performs `operation` of `thread`. Returns the value loaded or the old value, or 0 if there is none.
    fn perform(&self, thread: usize, operation: Operation) -> u64;

    /// Loads a word as a hint; a world that judges reads overrides it.
    fn peek(&self, thread: usize, space: Space, offset: u64) -> u64 {
        self.perform(thread, Operation::Load(space, offset))
    }

    /// Loads a word that is about to be stored to; see [`Memory::load_before_store`].
    fn load_before_store(&self, thread: usize, space: Space, offset: u64) -> u64 {
        self.perform(thread, Operation::Load(space, offset))
    }

    /// Increments a volatile word that numbers transactions; see [`Memory::number_transaction`].
    fn number_transaction(&self, thread: usize, offset: u64) -> u64 {
        self.perform(thread, Operation::FetchAdd(Space::Volatile, offset, 1)) + 1
    }

    /// See [`Memory::takes_stores_back`].
    fn takes_stores_back(&self) -> bool {
        false
    }

    /// See [`Memory::caches_survive`].
    fn caches_survive(&self) -> bool {
        false
    }

    /// Loads consecutive words. A world that keeps time overrides this to overlap the loads.
    fn load_range(&self, thread: usize, space: Space, offset: u64, into: &mut [u64]) {
        for (i, word) in into.iter_mut().enumerate() {
            *word = self.perform(thread, Operation::Load(space, offset + 8 * i as u64));
        }
    }

    /// Stores consecutive words, of which the first `done` are stored already. Returns how many are stored afterwards. If that is not more and the
    /// operation was not postponed, the world does not support this, and the words are stored one by one.
    fn store_range(&self, _thread: usize, _space: Space, _offset: u64, _from: &[u64], done: usize) -> usize {
        done
    }

    /// Returns the words of the pool that may be loaded without asking this world, or `None` if it has to know who loads them.
    fn window(&self) -> Option<Rc<Window>> {
        None
    }

    /// Writes back all lines of `bytes` bytes together. Returns false if it did nothing; the lines are then written back one by one.
    fn write_back_range(&self, _thread: usize, _offset: u64, _bytes: u64, _step: Step) -> bool {
        false
    }

    /// Notes that `thread` has loaded or stored this number of consecutive words of its own memory. A world without time ignores this.
    fn own_memory(&self, _thread: usize, _is_store: bool, _words: u64) {}

    /// Blocks `thread` while the volatile word at `offset` has `value`; may return early. The default is a pause.
    fn wait(&self, thread: usize, offset: u64, value: u64) {
        let _ = (offset, value);
        self.perform(thread, Operation::Pause);
    }

    /// Like [`wait`](World::wait), for at most this time. Returns whether the time is over, which it never is in most worlds.
    fn wait_briefly(&self, thread: usize, offset: u64, value: u64, nanoseconds: u64) -> bool {
        let _ = nanoseconds;
        self.wait(thread, offset, value);
        false
    }

    /// Wakes the threads that wait for the volatile word at `offset`. A world in which threads spin ignores this.
    fn wake(&self, _thread: usize, _offset: u64) {}

    /// Gives back the memory of whole pages that the pool's file contains; see [`Memory::give_back`]. Only worlds over a private mapping have to do
    /// anything.
    fn give_back(&self, _thread: usize, _offset: u64, _bytes: u64) {}

    /// Returns whether another thread may run after the last operation of `thread`.
    fn switches(&self, thread: usize) -> bool;

    /// Returns whether the last operation of `thread` was postponed: other threads run first, and then it is performed again. Only worlds that keep
    /// time postpone operations, and only in a coroutine.
    fn postponed(&self, thread: usize) -> bool {
        let _ = thread;
        false
    }

    /// Returns whether a step is left out (a mutant).
    fn omitted(&self, step: Step) -> bool;

    /// Returns the size of a space, in bytes.
    fn size(&self, space: Space) -> u64;

    /// Returns the device of the `Sync` domain, if this world has one.
    fn device(&self) -> Option<&dyn Device> {
        None
    }
}

/// Words of a pool, most of which may be loaded without asking the [`World`] to which they belong. This saves most calls of a crash checker, which
/// runs recovery repeatedly.
///
/// ```
/// # use strandline_core::example::*;
/// use std::cell::Cell;
/// use strandline_core::memory::{Operation, Window, World};
///
/// /// Counts the operations that it performs.
/// struct Asked(Rc<Window>, Cell<u64>);
///
/// impl World for Asked {
///     fn perform(&self, _thread: usize, _operation: Operation) -> u64 {
///         self.1.set(self.1.get() + 1);
///         40
///     }
///     fn window(&self) -> Option<Rc<Window>> {
///         Some(self.0.clone())
///     }
///     fn switches(&self, _thread: usize) -> bool {
///         false
///     }
///     fn omitted(&self, _step: Step) -> bool {
///         false
///     }
///     fn size(&self, _space: Space) -> u64 {
///         64
///     }
/// }
///
/// let world = Rc::new(Asked(Rc::new(Window::new(8)), Cell::new(0)));
/// world.0.words()[2].set(7);
/// // The fourth word is to be asked for.
/// world.0.words()[3].set(Window::CLOSED);
/// let memory = Hosted::new(world.clone(), 0);
/// let words = [16, 24].map(|at| memory.load(PersistentAddress::new(at)));
/// assert_eq!((words, world.1.get()), ([7, 40], 1));
/// ```
#[derive(Debug)]
pub struct Window {
    words: Box<[Cell<u64>]>,
}

impl Window {
    /// The value that marks a word for which the world must be asked. If a word has this value itself, the world is asked too, and returns it. It is
    /// a sign-extended number of 32 bits, so that comparing with it takes no register.
    pub const CLOSED: u64 = 0xffff_ffff_b5ad_4ece;

    /// Creates a window of this many words, which are all 0 and may all be loaded directly.
    pub fn new(words: usize) -> Self {
        Self { words: vec![Cell::new(0); words].into() }
    }

    /// Returns the words.
    pub fn words(&self) -> &[Cell<u64>] {
        &self.words
    }

    /// Returns a copy of the window's reference, which loops that load many words keep in a register.
    pub fn view(&self) -> WindowView<'_> {
        WindowView { words: &self.words }
    }
}

/// A view of a [`Window`]; the default has no words.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowView<'a> {
    words: &'a [Cell<u64>],
}

impl WindowView<'_> {
    /// Returns the word at `offset`, unless the world must be asked for it or it is elsewhere.
    #[inline]
    pub fn load(&self, offset: u64) -> Option<u64> {
        // An offset that is not a multiple of 8 becomes an index that is too large.
        let value = self.words.get(offset.rotate_right(3) as usize)?.get();
        (value != Window::CLOSED).then_some(value)
    }
}

thread_local! {
    static CALLER: Cell<&'static Location<'static>> = const { Cell::new(Location::caller()) };
}

/// Returns the place of the code whose store a world is performing: the innermost caller of [`Memory`]. The result is meaningless for other
/// operations.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::memory::recorder::{Observer, Recorded};
/// use strandline_core::memory::hosted::caller;
///
/// /// The lines of the program that store.
/// #[derive(Default)]
/// struct Lines(Vec<u32>);
///
/// impl Observer for Lines {
///     fn observe(&mut self, recorded: Recorded) {
///         if let Operation::Store(..) = recorded.operation {
///             self.0.push(caller().line());
///         }
///     }
/// }
///
/// let recorder = Rc::new(Recorder::observed(vec![0; 8], 8, 0, 1, None, Lines::default()));
/// let memory = Hosted::new(recorder.clone(), 0);
/// memory.store(PersistentAddress::new(8), 5);
/// assert_eq!(recorder.observer().0, [line!() - 1]);
/// ```
pub fn caller() -> &'static Location<'static> {
    CALLER.get()
}

/// One coroutine thread's view of a [`World`].
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, _) = recorded_words();
/// // Two threads' views of one world.
/// let (writer, reader) = (Hosted::new(recorder.clone(), 0), Hosted::new(recorder.clone(), 1));
/// writer.store(PersistentAddress::new(64), 5);
/// assert_eq!(reader.load(PersistentAddress::new(64)), 5);
/// // Each counts for itself.
/// writer.fence(Step::HomeFence);
/// assert_eq!((writer.counters().fences, reader.counters().fences), (1, 0));
/// ```
pub struct Hosted {
    world: Rc<dyn World>,
    window: Option<Rc<Window>>,
    thread: usize,
    /// Suspends the coroutine in which the view lives; none outside a coroutine, where nothing switches.
    suspend: Option<NonNull<dyn Fn()>>,
    counters: Cell<Counters>,
    /// The line of the last non-temporal store since the last fence.
    non_temporal_line: Cell<Option<u64>>,
    /// True while the view's thread runs a transaction.
    in_transaction: Cell<bool>,
}

impl Hosted {
    /// A view for `thread` outside any coroutine: set-up, recovery, single-threaded runs.
    pub fn new(world: Rc<dyn World>, thread: usize) -> Self {
        Self {
            window: world.window(),
            world,
            thread,
            suspend: None,
            counters: Cell::default(),
            non_temporal_line: Cell::new(None),
            in_transaction: Cell::new(false),
        }
    }

    /// Returns the words that may be loaded without asking the world, or `None` if it has to be asked for all.
    pub fn window(&self) -> Option<WindowView<'_>> {
        self.window.as_deref().map(Window::view)
    }

    /// Performs an operation that may store, on behalf of the caller's caller.
    #[track_caller]
    fn change(&self, operation: Operation) -> u64 {
        CALLER.set(Location::caller());
        self.perform(operation)
    }

    fn perform(&self, operation: Operation) -> u64 {
        self.perform_by(|world, thread| world.perform(thread, operation))
    }

    /// Loads a word through the world.
    #[inline(never)]
    fn ask(&self, space: Space, offset: u64) -> u64 {
        self.perform(Operation::Load(space, offset))
    }

    fn perform_by(&self, operation: impl Fn(&dyn World, usize) -> u64) -> u64 {
        loop {
            let value = operation(&*self.world, self.thread);
            if self.suspend.is_none() {
                return value;
            }
            if self.world.postponed(self.thread) {
                self.suspend();
                continue;
            }
            if self.world.switches(self.thread) {
                self.suspend();
            }
            return value;
        }
    }

    /// Creates a view for `thread` in a coroutine, which `suspend` suspends, and passes it to `body`.
    pub fn lend<R>(
        world: Rc<dyn World>,
        thread: usize,
        suspend: &dyn Fn(),
        body: impl FnOnce(&Self) -> R,
    ) -> R {
        // SAFETY: only the lifetime of `suspend` is removed. The pointer to it is in the view, which does not leave this function: `body` gets a
        // reference to it, and the view cannot be cloned.
        let suspend = unsafe {
            std::mem::transmute::<NonNull<dyn Fn() + '_>, NonNull<dyn Fn()>>(NonNull::from(suspend))
        };
        body(&Self { suspend: Some(suspend), ..Self::new(world, thread) })
    }

    /// Lets other coroutines run, if this view is used in one.
    fn suspend(&self) {
        if let Some(suspend) = self.suspend {
            // SAFETY: `lend` keeps the closure borrowed as long as the view exists.
            unsafe { suspend.as_ref()() };
        }
    }

    /// Other threads cannot see accesses to a thread's own memory, so none has to run because of one, unless it comes too early.
    fn own_memory(&self, is_store: bool, words: u64) {
        loop {
            self.world.own_memory(self.thread, is_store, words);
            if self.suspend.is_none() || !self.world.postponed(self.thread) {
                return;
            }
            self.suspend();
        }
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

impl Memory for Hosted {
    fn begin_transaction(&self) -> Result<()> {
        self.check_poison()?;
        if self.in_transaction.replace(true) { Err(Error::Nested) } else { Ok(()) }
    }

    fn end_transaction(&self) {
        self.in_transaction.set(false);
    }

    fn load<A: Address>(&self, at: A) -> u64 {
        if A::SPACE == Space::Persistent
            && let Some(value) = self.window.as_ref().and_then(|window| window.view().load(at.offset()))
        {
            return value;
        }
        self.ask(A::SPACE, at.offset())
    }

    fn store<A: Address>(&self, at: A, value: u64) {
        self.change(Operation::Store(A::SPACE, at.offset(), value));
    }

    fn peek<A: Address>(&self, at: A) -> u64 {
        loop {
            let value = self.world.peek(self.thread, A::SPACE, at.offset());
            if self.suspend.is_none() || !self.world.postponed(self.thread) {
                return value;
            }
            self.suspend();
        }
    }

    fn load_before_store<A: Address>(&self, at: A) -> u64 {
        self.perform_by(|world, thread| world.load_before_store(thread, A::SPACE, at.offset()))
    }

    fn number_transaction(&self, at: VolatileAddress) -> u64 {
        self.perform_by(|world, thread| world.number_transaction(thread, at.offset()))
    }

    fn takes_stores_back(&self) -> bool {
        self.world.takes_stores_back()
    }

    fn caches_survive(&self) -> bool {
        self.world.caches_survive()
    }

    fn load_range<A: Address>(&self, at: A, into: &mut [u64]) {
        loop {
            self.world.load_range(self.thread, A::SPACE, at.offset(), into);
            if self.suspend.is_none() || !self.world.postponed(self.thread) {
                return;
            }
            self.suspend();
        }
    }

    fn store_range<A: Address>(&self, at: A, from: &[u64]) {
        let mut done = 0;
        while done < from.len() {
            let before = done;
            done = self.world.store_range(self.thread, A::SPACE, at.offset(), from, done);
            if self.suspend.is_some() && self.world.postponed(self.thread) {
                self.suspend();
            } else if done == before {
                break;
            }
        }
        for (i, &value) in from.iter().enumerate().skip(done) {
            self.store(at.word(i as u64), value);
        }
    }

    fn store_non_temporal(&self, at: PersistentAddress, value: u64) {
        let line = Some(at.line().offset());
        let new_line = self.non_temporal_line.replace(line) != line;
        self.count(|c| {
            c.non_temporal_bytes += 8;
            c.lines_written_back += u64::from(new_line);
        });
        self.change(Operation::StoreNonTemporal(at.offset(), value));
    }

    fn compare_exchange<A: Address>(&self, at: A, current: u64, new: u64) -> Result<u64, u64> {
        let old = self.change(Operation::CompareExchange(A::SPACE, at.offset(), current, new));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn fetch_add<A: Address>(&self, at: A, by: u64) -> u64 {
        self.change(Operation::FetchAdd(A::SPACE, at.offset(), by))
    }

    fn write_back(&self, at: PersistentAddress, step: Step) {
        if !self.omitted(step) {
            self.count(|c| c.lines_written_back += 1);
            self.perform(Operation::WriteBack(at.line().offset(), step));
        }
    }

    fn write_back_range(&self, at: PersistentAddress, bytes: u64, step: Step) {
        if !self.omitted(step) {
            let lines = at.line().offset()..at.offset() + bytes;
            if self.world.write_back_range(self.thread, at.offset(), bytes, step) {
                let count = (lines.end - lines.start).div_ceil(LINE_BYTES);
                self.count(|c| c.lines_written_back += count);
                return;
            }
            for line in lines.step_by(LINE_BYTES as usize) {
                self.count(|c| c.lines_written_back += 1);
                self.perform(Operation::WriteBack(line, step));
            }
        }
    }

    fn fence(&self, step: Step) {
        if !self.omitted(step) {
            self.count(|c| c.fences += 1);
            self.non_temporal_line.set(None);
            self.perform(Operation::Fence(step));
        }
    }

    /// If there is no device behind the memory, stores zeros, since a mapped file shows a hole as zeros.
    fn punch(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        if let Some(device) = self.device() {
            return device.punch(DeviceFile::Heap, at.offset(), bytes);
        }
        for word in 0..bytes / WORD_BYTES {
            self.store(at.word(word), 0);
        }
        self.write_back_range(at, bytes, Step::FreePunchFlush);
        Ok(())
    }

    fn flush_file(&self) -> std::io::Result<()> {
        match self.device() {
            Some(_) if self.omitted(Step::FreePunchFlush) => Ok(()),
            Some(device) => device.flush(DeviceFile::Heap),
            None => {
                self.fence(Step::FreePunchFlush);
                Ok(())
            }
        }
    }

    fn give_back(&self, at: PersistentAddress, bytes: u64) -> bool {
        self.perform_by(|world, thread| {
            world.give_back(thread, at.offset(), bytes);
            0
        });
        true
    }

    fn prefetch_for_write(&self, _: PersistentAddress) {}

    fn write_back_all(&self, step: Step) -> bool {
        self.perform(Operation::WriteBackAll(step)) != 0
    }

    fn emulates_latency(&self) -> bool {
        false
    }

    fn pause(&self) {
        self.perform(Operation::Pause);
    }

    fn wait(&self, at: VolatileAddress, value: u64) {
        self.perform_by(|world, thread| {
            world.wait(thread, at.offset(), value);
            0
        });
    }

    fn wait_briefly(&self, at: VolatileAddress, value: u64, nanoseconds: u64) -> bool {
        let is_over = |world: &dyn World, thread| world.wait_briefly(thread, at.offset(), value, nanoseconds);
        self.perform_by(|world, thread| u64::from(is_over(world, thread))) != 0
    }

    fn wake(&self, at: VolatileAddress) {
        loop {
            self.world.wake(self.thread, at.offset());
            if self.suspend.is_none() || !self.world.postponed(self.thread) {
                return;
            }
            self.suspend();
        }
    }

    fn event(&self, event: Event) {
        if let Event::PersistBarrier(step) | Event::NewStrand(step) = event
            && self.omitted(step)
        {
            return;
        }
        self.perform(Operation::Event(event));
    }

    fn work(&self, instructions: u32) {
        self.perform(Operation::Work(instructions));
    }

    fn loaded_own(&self, words: u64) {
        self.own_memory(false, words);
    }

    fn stored_own(&self, words: u64) {
        self.own_memory(true, words);
    }

    fn omitted(&self, step: Step) -> bool {
        self.world.omitted(step)
    }

    fn size(&self, space: Space) -> u64 {
        self.world.size(space)
    }

    fn counters(&self) -> Counters {
        self.counters.get()
    }

    fn device(&self) -> Option<&dyn Device> {
        self.world.device()
    }
}
