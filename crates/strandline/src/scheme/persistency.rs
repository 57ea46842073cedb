//! Memory persistency models as software meets them (deferred-commit paper, section 4): which barriers a program
//! issues so that its stores persist in the order that it needs.
//!
//! What the barriers then mean is for the world to say: `strandline-persistency` analyses them, natively a sync
//! barrier is clwb and sfence (`pcommit` was never shipped) and persist barriers do not exist.

use crate::memory::{Event, LINE_BYTES, Memory, PersistentAddress, Step};

/// The persistency models.
///
/// ```
/// use strandline::Concurrency;
/// use strandline::scheme::{Persistency, SchemeKind};
///
/// /// Synchronous commit as a program for this model issues its barriers.
/// fn synchronous(model: Persistency) -> SchemeKind {
///     match model {
///         Persistency::Strict => SchemeKind::SynchronousStrict,
///         Persistency::Epoch => SchemeKind::SynchronousEpoch,
///         Persistency::EagerSync => SchemeKind::SynchronousEagerSync,
///         Persistency::Strand => SchemeKind::SynchronousStrand,
///     }
/// }
///
/// // Only sync barriers are real.
/// assert!(synchronous(Persistency::EagerSync).is_native());
/// assert!(!synchronous(Persistency::Epoch).is_native());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistency {
    /// Stores persist in the order of the consistency model; no barriers.
    Strict,
    /// Persist barriers order, and do not stall; strong persist atomicity orders threads.
    Epoch,
    /// Sync barriers stall until all that was written back is durable; no strong persist atomicity.
    EagerSync,
    /// Epoch persistency within strands, of which a thread has several.
    Strand,
}

/// A persistency model as a type.
///
/// ```
/// use strandline::Concurrency;
/// use strandline::scheme::{DeferredCommit, EagerSync, PersistencyModel, Scheme, Strand};
///
/// /// The name of deferred commit under a model.
/// fn name<P: PersistencyModel>() -> &'static str {
///     <DeferredCommit<P>>::KIND.name(Concurrency::Locks)
/// }
///
/// assert_eq!([name::<EagerSync>(), name::<Strand>()], ["dct-eager-sync", "dct-strand"]);
/// ```
pub trait PersistencyModel {
    /// Which.
    const MODEL: Persistency;
}

/// Strict persistency.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::memory::{Event, Operation};
/// use strandline::scheme::SchemeKind;
///
/// let mut worker = Worker::lease_of(view, SchemeKind::SynchronousStrict, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// let mut operations = recorder.take_stream().into_iter().map(|recorded| recorded.operation);
/// // No barrier of any kind.
/// assert!(!operations.any(|operation| {
///     matches!(operation, Operation::Fence(_) | Operation::Event(Event::PersistBarrier(_)))
/// }));
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Strict;
/// Epoch persistency.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::memory::{Event, Operation};
/// use strandline::scheme::SchemeKind;
///
/// let mut worker = Worker::lease_of(view, SchemeKind::SynchronousEpoch, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run_locked(&[strandline::Lock::word(layout.root(0))], |tx| tx.write(layout.root(0), 5))?;
/// let stream = recorder.take_stream();
/// let is_barrier = |operation| matches!(operation, Operation::Event(Event::PersistBarrier(_)));
/// assert_eq!(stream.iter().filter(|recorded| is_barrier(recorded.operation)).count(), 4);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Epoch;
/// Eager sync.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::memory::{Event, Operation};
/// use strandline::scheme::SchemeKind;
///
/// let mut worker = Worker::lease_of(view, SchemeKind::SynchronousEagerSync, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// let stream = recorder.take_stream();
/// let is_barrier = |operation| matches!(operation, Operation::Fence(_));
/// assert_eq!(stream.iter().filter(|recorded| is_barrier(recorded.operation)).count(), 3);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct EagerSync;
/// Strand persistency.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::memory::{Event, Operation};
/// use strandline::scheme::SchemeKind;
///
/// let mut worker = Worker::lease_of(view, SchemeKind::SynchronousStrand, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// let stream = recorder.take_stream();
/// // A transaction is on a strand of its own, and what follows it on another.
/// let is_strand = |operation| matches!(operation, Operation::Event(Event::NewStrand(_)));
/// assert_eq!(stream.iter().filter(|recorded| is_strand(recorded.operation)).count(), 2);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Strand;

impl PersistencyModel for Strict {
    const MODEL: Persistency = Persistency::Strict;
}
impl PersistencyModel for Epoch {
    const MODEL: Persistency = Persistency::Epoch;
}
impl PersistencyModel for EagerSync {
    const MODEL: Persistency = Persistency::EagerSync;
}
impl PersistencyModel for Strand {
    const MODEL: Persistency = Persistency::Strand;
}

impl Persistency {
    /// A barrier between persists: a persist barrier or a sync barrier.
    #[inline(always)]
    pub(super) fn barrier<M: Memory>(self, memory: &M, step: Step) {
        match self {
            Self::Strict => {}
            Self::Epoch | Self::Strand => memory.event(Event::PersistBarrier(step)),
            Self::EagerSync => memory.fence(step),
        }
    }

    /// A barrier that only models with strong persist atomicity need: what comes after orders itself after what
    /// other threads did before.
    #[inline(always)]
    pub(super) fn atomicity_barrier<M: Memory>(self, memory: &M, step: Step) {
        if matches!(self, Self::Epoch | Self::Strand) {
            memory.event(Event::PersistBarrier(step));
        }
    }

    /// A new strand, where there are strands.
    #[inline(always)]
    pub(super) fn new_strand<M: Memory>(self, memory: &M, step: Step) {
        if self == Self::Strand {
            memory.event(Event::NewStrand(step));
        }
    }

    /// Has `bytes` bytes from `at` written back, where a sync barrier covers only that.
    #[inline(always)]
    pub(super) fn write_back<M: Memory>(self, memory: &M, at: PersistentAddress, bytes: u64, step: Step) {
        if self == Self::EagerSync {
            memory.write_back_range(at, bytes, step);
        }
    }

    /// Has the lines of these words written back, where a sync barrier covers only that; neighbours in one line
    /// follow one another.
    #[inline(always)]
    pub(super) fn write_back_words<M: Memory>(
        self,
        memory: &M,
        words: impl Iterator<Item = PersistentAddress>,
        step: Step,
    ) {
        if self == Self::EagerSync {
            let mut last = u64::MAX;
            for at in words {
                let line = at.offset() / LINE_BYTES;
                if line != last {
                    memory.write_back(at, step);
                    last = line;
                }
            }
        }
    }
}
