//! Implementations that macOS uses and that work on every Unix system, so that their tests run on Linux too.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult};

/// Sleeps while `word` has the value `value`, until a thread calls [`wake`] for it, or spuriously; for at most `most`.
/// Returns whether this time has passed.
pub fn wait(word: &AtomicU32, value: u32, most: Option<Duration>) -> bool {
    let until = most.and_then(|most| Instant::now().checked_add(most));
    let is_same = || word.load(Ordering::SeqCst) == value;
    // SAFETY: the key is the word's address, and in this process no other code parks threads at addresses in pools' volatile words; no
    // function that is passed here panics or parks.
    let parked = unsafe {
        parking_lot_core::park(word.as_ptr().addr(), is_same, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, until)
    };
    parked == ParkResult::TimedOut
}

/// Wakes one of the threads of this process that wait for `word`, or all if `most` is more than one.
pub fn wake(word: &AtomicU32, most: c_int) {
    let key = word.as_ptr().addr();
    // SAFETY: in this process no other code parks threads at such addresses, and the function that is passed does not panic.
    unsafe {
        match most {
            1 => drop(parking_lot_core::unpark_one(key, |_| DEFAULT_UNPARK_TOKEN)),
            _ => drop(parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN)),
        }
    }
}
