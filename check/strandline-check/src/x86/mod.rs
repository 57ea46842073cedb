//! Power failures on x86: which states can one leave?
//!
//! What runs in an [`X86World`] leaves a [`Trace`]; at its crash points a [`CrashMemory`] stands for all states that may
//! survive, and recovery and a judge run on it once for each that they can tell apart. `docs/crash-checking.md` says what is
//! explored and what is not.
//!
//! To explore the crashes of a system with an oracle of its own, implement [`explorer::Judge`]. Another world than x86 can use the same
//! oracle if it leaves a [`Trace`]: it adds [`Store`]s and marks, and a [`RunningTransaction`] for each thread notes who read and wrote what.

pub(crate) mod agenda;
pub(crate) mod caught;
pub(crate) mod cause;
pub(crate) mod crash;
pub(crate) mod exhaustion;
pub mod explorer;
pub(crate) mod missing;
pub(crate) mod own;
mod program;
pub(crate) mod races;
pub(crate) mod replay;
pub(crate) mod running;
pub(crate) mod schedule;
pub(crate) mod site;
mod state;
pub(crate) mod story;
pub(crate) mod trace;
pub(crate) mod unnoticed;
pub(crate) mod world;

use std::any::Any;

pub use crash::{CrashMemory, Decision};
pub use explorer::Counts;
pub use program::{Crashed, Options, Refused, Report, check};
pub use races::RacingAccess;
pub use running::RunningTransaction;
pub use schedule::{ChoicePoint, Policy};
pub use site::{Site, Source};
pub use trace::{Reader, Store, Trace, Update, Waste};
pub use world::X86World;

/// A memory that recovery has run on.
pub trait Recovered {
    /// The value of word `word`.
    fn load_word(&self, word: u32) -> u64;
    /// Words of transactions that recovery may have stored to, among others.
    fn stored(&self) -> impl Iterator<Item = u32>;
}

/// A hash of `hash` and `value`: fast, and good enough for fingerprints of states.
pub fn mix(hash: u64, value: u64) -> u64 {
    let mixed = (hash.rotate_left(25) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// The text of a panic that was caught.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
