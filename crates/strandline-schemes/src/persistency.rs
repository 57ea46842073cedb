//! Memory persistency models as software meets them (deferred-commit paper, section 4): which barriers a program
//! issues so that its stores persist in the order that it needs.
//!
//! What the barriers then mean is for the world to say: `strandline-persistency` analyses them, natively a sync
//! barrier is clwb and sfence (`pcommit` was never shipped) and persist barriers do not exist.

use strandline_core::memory::{Event, LINE_BYTES, Memory, PersistentAddress, Step};
pub use strandline_core::scheme::Persistency;

/// A persistency model as a type.
///
/// ```
/// use strandline_schemes::{DCT_STRAND, DCT_STRICT, PersistencyModel, Strand, Strict};
///
/// assert_eq!(DCT_STRAND.persistency, Some(Strand::MODEL));
/// assert_eq!(DCT_STRICT.persistency, Some(Strict::MODEL));
/// ```
pub trait PersistencyModel {
    /// Which.
    const MODEL: Persistency;
}

/// Strict persistency.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::{Event, Operation};
/// let mut worker = Worker::lease_of(view, &strandline_schemes::SCT_STRICT, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// let mut operations = recorder.take_stream().into_iter().map(|recorded| recorded.operation);
/// // No barrier of any kind.
/// assert!(!operations.any(|operation| {
///     matches!(operation, Operation::Fence(_) | Operation::Event(Event::PersistBarrier(_)))
/// }));
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Strict;
/// Epoch persistency.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::{Event, Operation};
/// let mut worker = Worker::lease_of(view, &strandline_schemes::SCT_EPOCH, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run_locked(&[strandline_core::Lock::word(layout.root(0))], |tx| tx.write(layout.root(0), 5))?;
/// let stream = recorder.take_stream();
/// let is_barrier = |operation| matches!(operation, Operation::Event(Event::PersistBarrier(_)));
/// assert_eq!(stream.iter().filter(|recorded| is_barrier(recorded.operation)).count(), 4);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Epoch;
/// Eager sync.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::{Event, Operation};
/// let mut worker = Worker::lease_of(view, &strandline_schemes::SCT_EAGER_SYNC, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// let stream = recorder.take_stream();
/// let is_barrier = |operation| matches!(operation, Operation::Fence(_));
/// assert_eq!(stream.iter().filter(|recorded| is_barrier(recorded.operation)).count(), 3);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct EagerSync;
/// Strand persistency.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::{Event, Operation};
/// let mut worker = Worker::lease_of(view, &strandline_schemes::SCT_STRAND, Concurrency::Locks, None)?;
/// recorder.take_stream();
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// let stream = recorder.take_stream();
/// // A transaction is on a strand of its own, and what follows it on another.
/// let is_strand = |operation| matches!(operation, Operation::Event(Event::NewStrand(_)));
/// assert_eq!(stream.iter().filter(|recorded| is_strand(recorded.operation)).count(), 2);
/// # Ok::<(), strandline_core::Error>(())
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

/// The barriers that a program issues under a model.
pub(crate) trait Barriers {
    /// A barrier between persists: a persist barrier or a sync barrier.
    fn barrier<M: Memory>(self, memory: &M, step: Step);
    /// A barrier that only models with strong persist atomicity need: what comes after orders itself after what
    /// other threads did before.
    fn atomicity_barrier<M: Memory>(self, memory: &M, step: Step);
    /// A new strand, where there are strands.
    fn new_strand<M: Memory>(self, memory: &M, step: Step);
    /// Has `bytes` bytes from `at` written back, where a sync barrier covers only that.
    fn write_back<M: Memory>(self, memory: &M, at: PersistentAddress, bytes: u64, step: Step);
    /// Has the lines of these words written back, where a sync barrier covers only that; neighbours in one line
    /// follow one another.
    fn write_back_words<M: Memory>(
        self,
        memory: &M,
        words: impl Iterator<Item = PersistentAddress>,
        step: Step,
    );
}

impl Barriers for Persistency {
    #[inline(always)]
    fn barrier<M: Memory>(self, memory: &M, step: Step) {
        match self {
            Self::Strict => {}
            Self::Epoch | Self::Strand => memory.event(Event::PersistBarrier(step)),
            Self::EagerSync => memory.fence(step),
        }
    }

    #[inline(always)]
    fn atomicity_barrier<M: Memory>(self, memory: &M, step: Step) {
        if matches!(self, Self::Epoch | Self::Strand) {
            memory.event(Event::PersistBarrier(step));
        }
    }

    #[inline(always)]
    fn new_strand<M: Memory>(self, memory: &M, step: Step) {
        if self == Self::Strand {
            memory.event(Event::NewStrand(step));
        }
    }

    #[inline(always)]
    fn write_back<M: Memory>(self, memory: &M, at: PersistentAddress, bytes: u64, step: Step) {
        if self == Self::EagerSync {
            memory.write_back_range(at, bytes, step);
        }
    }

    #[inline(always)]
    fn write_back_words<M: Memory>(
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
