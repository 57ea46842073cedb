//! The recorder: a world that records every operation in a stream, besides the memory's contents.

use std::cell::{Cell, Ref, RefCell};

use super::hosted::{Operation, World};
use super::{Space, Step};

/// One operation of a thread. A stream has the operations in the order in which they took effect (sequentially consistent).
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, _) = recorded_words();
/// use strandline_core::memory::recorder::Recorded;
/// use strandline_core::memory::{Operation, Space};
///
/// let memory = Hosted::new(recorder.clone(), 3);
/// memory.fetch_add(PersistentAddress::new(64), 5);
/// memory.fetch_add(PersistentAddress::new(64), 1);
/// let operation = Operation::FetchAdd(Space::Persistent, 64, 1);
/// assert_eq!(recorder.take_stream()[1], Recorded { thread: 3, operation, value: 5 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The thread that performed the operation.
    pub thread: usize,
    /// The operation. A failed compare-and-exchange is recorded as a load; a successful one, and a fetch-and-add, as themselves.
    pub operation: Operation,
    /// The value loaded, or the old value of an atomic operation.
    pub value: u64,
}

/// Receives the operations of a [`Recorder`], in the order in which they took effect. A list keeps them. An analysis processes each
/// immediately, so that a run of any length needs no memory for its stream.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::memory::recorder::{Observer, Recorded, Recorder};
///
/// /// Counts fences and keeps nothing else.
/// struct Fences(u64);
///
/// impl Observer for Fences {
///     fn observe(&mut self, recorded: Recorded) {
///         self.0 += u64::from(matches!(recorded.operation, Operation::Fence(_)));
///     }
/// }
///
/// let recorder = Rc::new(Recorder::observed(vec![0; 512], 4096, 0, 1, None, Fences(0)));
/// let memory = Hosted::new(recorder.clone(), 0);
/// memory.store(PersistentAddress::new(64), 5);
/// memory.fence(Step::HomeFence);
/// assert_eq!(recorder.observer().0, 1);
/// ```
pub trait Observer {
    /// Receives the next operation.
    fn observe(&mut self, recorded: Recorded);
}

impl Observer for Vec<Recorded> {
    fn observe(&mut self, recorded: Recorded) {
        self.push(recorded);
    }
}

/// A world that records. Other threads may run after pauses, and after a random fraction of all operations.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::memory::recorder::Recorder;
///
/// // A pool of 512 words, with 4096 bytes of volatile words. Threads switch at pauses only.
/// let recorder = Rc::new(Recorder::new(vec![0; 512], 4096, 0, 1, None));
/// let memory = Hosted::new(recorder.clone(), 0);
/// memory.store(PersistentAddress::new(64), 5);
/// recorder.set_recording(false);
/// memory.store(PersistentAddress::new(72), 6);
/// assert_eq!(recorder.take_stream().len(), 1);
/// assert_eq!(recorder.contents()[8..10], [5, 6]);
/// ```
pub struct Recorder<O = Vec<Recorded>> {
    persistent: RefCell<Vec<u64>>,
    volatile: RefCell<Vec<u64>>,
    observer: RefCell<O>,
    recording: Cell<bool>,
    omitted: Option<Step>,
    /// The average number of operations between two switches of threads, apart from pauses; 0 to switch at pauses only.
    switch_every: u32,
    random: Cell<u64>,
    switch: Cell<bool>,
}

impl Recorder {
    /// Creates a recorder that keeps the stream, over a pool image of `persistent` words and `volatile_bytes` bytes of zeroed volatile
    /// words. Threads switch at pauses and after about one in `switch_every` operations (0: at pauses only), chosen by `seed`. If `omitted`
    /// is set, that step is left out.
    pub fn new(
        persistent: Vec<u64>,
        volatile_bytes: u64,
        switch_every: u32,
        seed: u64,
        omitted: Option<Step>,
    ) -> Self {
        Self::observed(persistent, volatile_bytes, switch_every, seed, omitted, Vec::new())
    }

    /// Removes the operations recorded so far from the stream, and returns them.
    pub fn take_stream(&self) -> Vec<Recorded> {
        self.observer.take()
    }
}

impl<O: Observer> Recorder<O> {
    /// Creates a recorder whose operations go to `observer`. The other parameters are those of [`Recorder::new`].
    pub fn observed(
        persistent: Vec<u64>,
        volatile_bytes: u64,
        switch_every: u32,
        seed: u64,
        omitted: Option<Step>,
        observer: O,
    ) -> Self {
        Self {
            persistent: RefCell::new(persistent),
            volatile: RefCell::new(vec![0; volatile_bytes.div_ceil(8) as usize]),
            observer: RefCell::new(observer),
            recording: Cell::new(true),
            omitted,
            switch_every,
            random: Cell::new(seed | 1),
            switch: Cell::new(false),
        }
    }

    /// Starts or stops recording. Stores change the contents even if they are not recorded.
    pub fn set_recording(&self, on: bool) {
        self.recording.set(on);
    }

    /// Returns the observer in its present state.
    pub fn observer(&self) -> Ref<'_, O> {
        self.observer.borrow()
    }

    /// Returns the pool's words as the threads see them now. As long as they are borrowed, no thread may store.
    pub fn words(&self) -> Ref<'_, [u64]> {
        Ref::map(self.persistent.borrow(), Vec::as_slice)
    }

    /// Returns a copy of the pool's contents as the threads see them now.
    pub fn contents(&self) -> Vec<u64> {
        self.words().to_vec()
    }

    fn access<T>(&self, space: Space, offset: u64, f: impl FnOnce(&mut u64) -> T) -> T {
        let mut words = match space {
            Space::Persistent => self.persistent.borrow_mut(),
            Space::Volatile => self.volatile.borrow_mut(),
        };
        let index = offset.rotate_right(3) as usize;
        assert!(index < words.len(), "{space:?} access at offset {offset:#x} is outside its space");
        f(&mut words[index])
    }
}

impl<O: Observer> World for Recorder<O> {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        let mut recorded = operation;
        let value = match operation {
            Operation::Load(space, at) => self.access(space, at, |word| *word),
            Operation::Store(space, at, value) => self.access(space, at, |word| {
                *word = value;
                0
            }),
            Operation::StoreNonTemporal(at, value) => self.access(Space::Persistent, at, |word| {
                *word = value;
                0
            }),
            Operation::CompareExchange(space, at, current, new) => self.access(space, at, |word| {
                let old = *word;
                if old == current {
                    *word = new;
                } else {
                    recorded = Operation::Load(space, at);
                }
                old
            }),
            Operation::FetchAdd(space, at, by) => self.access(space, at, |word| {
                let old = *word;
                *word = old.wrapping_add(by);
                old
            }),
            Operation::WriteBack(..)
            | Operation::Fence(_)
            | Operation::WriteBackAll(_)
            | Operation::Pause
            | Operation::Event(_)
            | Operation::Work(_) => 0,
        };
        if self.recording.get() {
            self.observer.borrow_mut().observe(Recorded { thread, operation: recorded, value });
        }
        // xorshift64: a reproducible choice of the operations after which threads switch.
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        self.switch.set(
            operation == Operation::Pause
                || self.switch_every != 0 && (random >> 11).is_multiple_of(u64::from(self.switch_every)),
        );
        value
    }

    fn switches(&self, _: usize) -> bool {
        self.switch.get()
    }

    fn omitted(&self, step: Step) -> bool {
        self.omitted == Some(step)
    }

    fn size(&self, space: Space) -> u64 {
        8 * match space {
            Space::Persistent => self.persistent.borrow().len(),
            Space::Volatile => self.volatile.borrow().len(),
        } as u64
    }
}
