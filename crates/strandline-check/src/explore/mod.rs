//! Exploration of schemes: which states can a power failure leave, and does recovery repair each of them?
//!
//! A *life* of a pool runs in an [`X86World`] and leaves a [`Trace`]; at its crash points a [`CrashMemory`]
//! stands for all states that may survive, and recovery and the oracle run on it once for each that they can
//! tell apart. `docs/crash-checking.md` says what is explored and what is not.

pub(crate) mod campaign;
mod crash;
pub(crate) mod explorer;
pub(crate) mod life;
mod missing;
pub(crate) mod oracle;
mod program;
pub(crate) mod running;
mod schedule;
pub(crate) mod scheme;
mod state;
pub(crate) mod story;
pub(crate) mod trace;
pub(crate) mod worker;
pub(crate) mod workload;
mod world;

/// A hash of `hash` and `value`.
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(25) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

pub use campaign::{Bounds, Outcome, Sampling, exhaust, exhaust_histories, sample};
pub use crash::{CrashMemory, Decision};
pub(crate) use explorer::panic_text;
pub use explorer::{Counts, Violation};
pub use life::Case;

pub use program::{Crashed, Options, Refused, Report, check};
pub use schedule::Policy;
pub use scheme::{CheckedScheme, schemes};
pub use trace::Trace;
pub use workload::{Plan, Workload};
pub use world::X86World;
