//! Memory persistency models as software meets them (deferred-commit paper, section 4): which barriers a program
//! issues so that its stores persist in the order that it needs.
//!
//! What the barriers then mean is for the world to say: `strandline-persistency` analyses them, natively a sync
//! barrier is clwb and sfence (`pcommit` was never shipped) and persist barriers do not exist.

use strandline_core::memory::{Event, LINE_BYTES, Memory, PersistentAddress, Step};
pub use strandline_core::scheme::Persistency;

/// A persistency model as a type.
pub trait PersistencyModel: Send + 'static {
    /// The same as a value.
    const MODEL: Persistency;
}

/// Strict persistency: stores persist in the order in which they become visible, without barriers.
pub struct Strict;

/// Epoch persistency: persist barriers order what is before them before what is after, and nobody waits.
pub struct Epoch;

/// Eager sync: a sync barrier waits until what was written back is durable.
pub struct EagerSync;

/// Strand persistency: persist barriers order within a strand, and a new strand forgets what was before it.
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
    fn barrier<M: Memory>(self, memory: &M, step: Step) {
        match self {
            Self::Strict => {}
            Self::Epoch | Self::Strand => memory.event(Event::PersistBarrier(step)),
            Self::EagerSync => memory.fence(step),
        }
    }

    fn atomicity_barrier<M: Memory>(self, memory: &M, step: Step) {
        if matches!(self, Self::Epoch | Self::Strand) {
            memory.event(Event::PersistBarrier(step));
        }
    }

    fn new_strand<M: Memory>(self, memory: &M, step: Step) {
        if self == Self::Strand {
            memory.event(Event::NewStrand(step));
        }
    }

    fn write_back<M: Memory>(self, memory: &M, at: PersistentAddress, bytes: u64, step: Step) {
        if self == Self::EagerSync {
            memory.write_back_range(at, bytes, step);
        }
    }

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
