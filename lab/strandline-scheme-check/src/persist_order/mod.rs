//! Explores crashes under a persistency model: the down-closed sets of the persist order may survive.
//!
//! Threads run in a recorder. Their stream becomes a [`PersistGraph`](strandline_persistency::PersistGraph) and, for the oracle, a trace of
//! transactions. The set of persists that survives a crash is down-closed: with each persist it holds all that must not persist later. It also holds
//! everything that a sync barrier had waited for by then. [`Survivors`] decides which set it is when recovery loads a word. Recovery and the oracle
//! are those of the x86 world.

mod explore;
mod history;
mod schemes;
mod survivors;

pub use explore::{Counts, Outcome, Program, Sampling, Violation, explore};
pub use schemes::{OrderedScheme, schemes, schemes_of};
pub use survivors::Survivors;
