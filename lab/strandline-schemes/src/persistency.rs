//! Memory persistency models from the software's point of view (deferred-commit paper, section 4): the barriers that a program issues so that its
//! stores persist in the necessary order.
//!
//! The world determines the effect of the barriers. `strandline-persistency` analyses them. Natively a sync barrier is clwb and sfence (`pcommit` was
//! never shipped), and persist barriers do not exist.

use strandline_core::memory::{Event, LINE_BYTES, Memory, PersistentAddress, Step};
pub use strandline_core::scheme::Persistency;

/// A persistency model as a type.
pub trait PersistencyModel: Send + 'static {
    /// The model as a value.
    const MODEL: Persistency;
}

/// Strict persistency: stores persist in the order in which they become visible, without barriers.
pub struct Strict;

/// Epoch persistency: persist barriers order earlier persists before later ones, and no thread waits.
pub struct Epoch;

/// Eager sync: a sync barrier waits until everything that was written back is durable.
pub struct EagerSync;

/// Strand persistency: persist barriers order within a strand, and a new strand is not ordered after the previous one.
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
    /// Executes a barrier between persists: a persist barrier or a sync barrier.
    fn barrier<M: Memory>(self, memory: &M, step: Step);
    /// Executes a barrier that only models with strong persist atomicity need: it orders later persists after what other threads did before.
    fn atomicity_barrier<M: Memory>(self, memory: &M, step: Step);
    /// Begins a new strand, if the model has strands.
    fn new_strand<M: Memory>(self, memory: &M, step: Step);
    /// Writes back `bytes` bytes from `at`, if a sync barrier covers only what was written back.
    fn write_back<M: Memory>(self, memory: &M, at: PersistentAddress, bytes: u64, step: Step);
    /// Writes back the lines of these words, if a sync barrier covers only what was written back. Words of one line must be adjacent in the list.
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
