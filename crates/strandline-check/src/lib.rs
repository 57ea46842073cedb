//! The crash checker: every state that a power failure can leave.
//!
//! [`check`] tears programs of your own apart, [`litmus`] small tests in a file. The rest checks Strandline itself: its
//! schemes ([`explore`]), under persistency models ([`persist_order`]), on simulated machines ([`machine`]) and on faulty
//! disks ([`device`]).
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `schemes` | yes | the checks of Strandline itself, and with them the crates that these need |
//!
//! To check a program of your own, do without:
//!
//! ```toml
//! strandline-check = { version = "0.1", default-features = false }
//! ```

#[cfg(feature = "schemes")]
pub mod device;
#[cfg(feature = "schemes")]
pub mod explore;
pub mod litmus;
#[cfg(feature = "schemes")]
pub mod machine;
#[cfg(feature = "schemes")]
pub mod persist_order;
mod setting;
pub mod x86;

#[cfg(feature = "schemes")]
static STOPPED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Ends all explorations of schemes of this program, those under way and those to come, as if their time were up.
#[cfg(feature = "schemes")]
pub fn stop() {
    STOPPED.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Lets explorations go on again that begin from now on: for a program that goes on after one was ended.
#[cfg(feature = "schemes")]
pub fn resume() {
    STOPPED.store(false, std::sync::atomic::Ordering::Relaxed);
}

/// Whether explorations are to end.
#[cfg(feature = "schemes")]
pub fn is_stopped() -> bool {
    STOPPED.load(std::sync::atomic::Ordering::Relaxed)
}

pub use setting::Setting;
pub use x86::{Crashed, Options, Refused, Report, check};
