//! Ctrl-C, and being asked to end (SIGTERM, SIGHUP): work ends where it can, what is known is printed, and what was made goes.
//!
//! The first time a subcommand that watches is told ([`is_asked`]) and ends by itself; one whose results are all written already, and
//! anybody the second time, ends at once. In the end the signal takes its usual effect, so that a shell's loop ends too.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::{Failure, Place};

static ASKED: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// What is done when the first signal comes.
#[derive(Clone, Debug)]
pub enum First {
    /// The subcommand looks at [`is_asked`].
    Ask,
    /// The program ends, with this text on standard error: all results are written.
    End(String),
}

/// Takes signals from now on.
///
/// # Errors
/// Returns an error if the system refuses.
pub fn watch(first: First) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::io("take signals"))?;
    std::thread::spawn(move || {
        for signal in &mut signals {
            SIGNAL.store(signal, SeqCst);
            let again = ASKED.swap(true, SeqCst);
            match (&first, again) {
                (First::Ask, false) => {
                    eprintln!("ending; what is known is printed (once more to end at once)");
                }
                (First::End(text), false) => {
                    eprintln!("{text}");
                    end(signal);
                }
                (_, true) => end(signal),
            }
        }
    });
    Ok(())
}

/// Removes what was made, and lets the signal take its effect.
fn end(signal: i32) {
    Place::remove_all();
    let _ = emulate_default_handler(signal);
}

/// Returns whether the program was asked to end.
pub fn is_asked() -> bool {
    ASKED.load(SeqCst)
}

/// The flag behind [`is_asked`].
pub fn flag() -> &'static AtomicBool {
    &ASKED
}

/// Lets the signal take its effect, if there was one, when all is printed and removed.
pub fn finish() {
    if is_asked() {
        end(SIGNAL.load(SeqCst));
    }
}
