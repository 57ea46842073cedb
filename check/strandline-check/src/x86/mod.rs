//! Computes the states that a power failure can leave on x86.
//!
//! Code that runs in an [`X86World`] leaves a [`Trace`]. At the trace's crash points a [`CrashMemory`] stands for all states that may survive.
//! Recovery and a judge run on it once for each state that they can distinguish. `docs/crash-checking.md` describes what is explored and what is not.
//!
//! To explore the crashes of a system with another oracle, implement [`explorer::Judge`]. A world other than x86 can use the same oracle if it leaves
//! a [`Trace`]: it adds [`Store`]s and marks, and a [`RunningTransaction`] for each thread notes which transaction read and wrote which words.

pub(crate) mod agenda;
pub(crate) mod cause;
pub(crate) mod checked_program;
pub(crate) mod crash;
pub(crate) mod exhaustion;
pub mod explorer;
pub(crate) mod invariant_coverage;
pub(crate) mod missing_flush;
pub(crate) mod panics;
mod program;
pub(crate) mod races;
pub(crate) mod replay;
pub(crate) mod running_transaction;
pub(crate) mod schedule;
pub(crate) mod site;
mod state;
pub(crate) mod story;
pub(crate) mod trace;
pub(crate) mod world;

use std::any::Any;

pub use crash::{CrashMemory, Decision};
pub use explorer::Counts;
pub use program::{Crashed, Options, Refused, Report, check};
pub use races::RacingAccess;
pub use running_transaction::RunningTransaction;
pub use schedule::{ChoicePoint, Policy};
pub use site::{Site, Source};
pub use trace::{Reader, Store, Trace, Update, Waste};
pub use world::X86World;

/// A memory that recovery has run on.
pub trait Recovered {
    /// Returns the value of word `word`.
    fn load_word(&self, word: u32) -> u64;
    /// Returns a superset of the words of transactions that recovery has stored to.
    fn stored(&self) -> impl Iterator<Item = u32>;
}

/// Returns a hash of `hash` and `value`: fast, and good enough for fingerprints of states.
pub fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(25) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// Returns the text of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
