//! Exploration of crashes under a persistency model: what may survive are the down-closed sets of the persist
//! order.
//!
//! Threads run in a recorder; their stream becomes a [`PersistGraph`](strandline_persistency::PersistGraph) and,
//! for the oracle, a trace of transactions. At a crash a set of persists survives that holds, with each, all that
//! must not persist later, and everything that a sync barrier had waited for by then. [`Survivors`] decides which
//! one when recovery loads a word. Recovery and the oracle are those of the x86 world.

mod explore;
mod history;
mod schemes;
mod survivors;

pub use explore::{Counts, Outcome, Program, Sampling, Violation, explore};
pub use schemes::{OrderedScheme, schemes, schemes_of};
pub use survivors::Survivors;
