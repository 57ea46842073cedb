//! Handles Ctrl-C (SIGINT) and requests to terminate (SIGTERM, SIGHUP): the program prints the results that it has, and removes its temporary files.
//!
//! At the first signal, a subcommand that polls [`is_asked`] finishes by itself; one that has written all its results ends at once. At the second
//! signal, each program ends at once. At the end the signal takes its default effect, so that a shell's loop around the program ends too.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::{Failure, Place};

static ASKED: AtomicBool = AtomicBool::new(false);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The program's reaction to the first signal.
#[derive(Clone, Debug)]
pub enum First {
    /// The subcommand polls [`is_asked`] and finishes.
    Ask,
    /// The program has written all its results: it prints this text to standard error and ends.
    End(String),
}

/// Starts to handle signals.
///
/// # Errors
/// Returns an error if the system refuses to install the handlers.
pub fn watch(first: First) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::io("take signals"))?;
    std::thread::spawn(move || {
        for signal in &mut signals {
            SIGNAL.store(signal, SeqCst);
            let again = ASKED.swap(true, SeqCst);
            match (&first, again) {
                (First::Ask, false) => {
                    eprintln!("ending: the results so far are printed (press again to end immediately)");
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

/// Removes the temporary files, and lets the signal take its default effect.
fn end(signal: i32) {
    Place::remove_all();
    let _ = emulate_default_handler(signal);
}

/// Returns whether the program was asked to end.
pub fn is_asked() -> bool {
    ASKED.load(SeqCst)
}

/// Returns the flag that [`is_asked`] reads.
pub fn flag() -> &'static AtomicBool {
    &ASKED
}

/// If a signal arrived, lets it take its default effect. The caller has printed everything; this removes the temporary files.
pub fn finish() {
    if is_asked() {
        end(SIGNAL.load(SeqCst));
    }
}
