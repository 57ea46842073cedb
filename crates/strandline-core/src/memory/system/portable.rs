//! What macOS uses and every system of this kind has, so that its tests run on Linux too.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, ParkResult};

use super::offset;

/// Drops pages of a mapping from this process. Those of a private mapping of a file, given as the file and where in it they begin, are
/// read from it when they are next touched, and what was stored to them is gone; those of an anonymous one become zeros.
///
/// # Errors
/// The system cannot; they stay as they were.
///
/// # Safety
/// The range is whole pages of the system's in a private mapping of the caller's, of that part of that file or anonymous; whoever reads
/// it reads atomics, or nobody does.
pub unsafe fn give_back(base: *mut c_void, bytes: usize, of: Option<(&File, u64)>) -> io::Result<()> {
    // Elsewhere the advice that Linux knows for this is no more than advice.
    let (kind, descriptor, at) = match of {
        Some((file, at)) => (0, file.as_raw_fd(), offset(at)?),
        None => (libc::MAP_ANONYMOUS, -1, 0),
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE | kind;
    // SAFETY: the range is pages of the caller's and becomes the same pages anew, in one step; to readers they change as if somebody
    // had stored.
    match unsafe { libc::mmap(base, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, descriptor, at) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sleeps while `word` holds `value`, until somebody wakes who waits at it, until a signal, or for no reason at all; for `most` at
/// most. Whether so much time has passed.
pub fn wait(word: &AtomicU32, value: u32, most: Option<Duration>) -> bool {
    let until = most.and_then(|most| Instant::now().checked_add(most));
    let is_same = || word.load(Ordering::SeqCst) == value;
    // SAFETY: the key is the word's address, and in this process nothing else is parked at addresses in pools' volatile words; no
    // function given here panics or parks.
    let parked = unsafe {
        parking_lot_core::park(word.as_ptr().addr(), is_same, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, until)
    };
    parked == ParkResult::TimedOut
}

/// Wakes one of the threads of this process that wait at `word`, or all if `most` is more than one.
pub fn wake(word: &AtomicU32, most: c_int) {
    let key = word.as_ptr().addr();
    // SAFETY: as in `wait`.
    unsafe {
        match most {
            1 => drop(parking_lot_core::unpark_one(key, |_| DEFAULT_UNPARK_TOKEN)),
            _ => drop(parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN)),
        }
    }
}
