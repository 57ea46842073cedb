//! The functions that the macros of `include/strandline_check.h` call.

use std::ffi::{CStr, c_char, c_void};

use crate::recording::{self, Place, Text};
use crate::regions::{self, address};

/// The table of functions, in the header's order. New functions come last, and the table then gets a new name.
#[repr(C)]
pub struct Hooks {
    before_store: extern "C" fn(*const c_void, usize),
    stored: extern "C" fn(*const c_void, usize, *const c_char, u32),
    flushed: extern "C" fn(*const c_void, usize, *const c_char, u32),
    fenced: extern "C" fn(*const c_char, u32),
    acknowledged: extern "C" fn(u64, *const c_char, u32),
    step: unsafe extern "C" fn(*const c_char),
    label: unsafe extern "C" fn(*const c_void, usize, *const c_char),
    streamed: extern "C" fn(*const c_void, usize, *const c_char, u32),
    flushed_if_pool: extern "C" fn(*const c_void, usize, *const c_char, u32),
}

const TABLE: Hooks =
    Hooks { before_store, stored, flushed, fenced, acknowledged, step, label, streamed, flushed_if_pool };

/// The table that the header looks for.
#[unsafe(export_name = "strandline_check_hooks_2")]
pub static HOOKS: Hooks = TABLE;

/// The table that programs compiled with an earlier header look for. They use its first seven functions.
#[unsafe(export_name = "strandline_check_hooks_1")]
pub static EARLIER_HOOKS: Hooks = TABLE;

/// Notes an access outside the pool.
fn note_outside(base: usize, bytes: usize, what: &str, place: Place) {
    regions::locked(|regions| {
        if !regions.holds(base, bytes) {
            recording::write(format_args!("outside {} {bytes} {what} {place}", recording::thread()));
        }
    });
}

extern "C" fn before_store(place: *const c_void, bytes: usize) {
    if recording::is_open() {
        regions::before_store(address(place), bytes);
    }
}

extern "C" fn stored(pointer: *const c_void, bytes: usize, file: *const c_char, line: u32) {
    if recording::is_open() {
        let place = Place::Source(file, line);
        note_outside(address(pointer), bytes, "store", place);
        regions::after_store(address(pointer), bytes, place);
    }
}

extern "C" fn flushed(pointer: *const c_void, bytes: usize, file: *const c_char, line: u32) {
    if recording::is_open() {
        let place = Place::Source(file, line);
        note_outside(address(pointer), bytes, "flush", place);
        regions::flushed(address(pointer), bytes, place);
    }
}

/// Records a store by a streaming intrinsic, which needs a fence but no flush. The store need not be to the pool.
extern "C" fn streamed(pointer: *const c_void, bytes: usize, file: *const c_char, line: u32) {
    if recording::is_open() {
        let place = Place::Source(file, line);
        regions::after_store(address(pointer), bytes, place);
        regions::flushed(address(pointer), bytes, place);
    }
}

/// Records a flush by an intrinsic. The flushed line need not be in the pool.
extern "C" fn flushed_if_pool(pointer: *const c_void, bytes: usize, file: *const c_char, line: u32) {
    if recording::is_open() {
        regions::flushed(address(pointer), bytes, Place::Source(file, line));
    }
}

extern "C" fn fenced(file: *const c_char, line: u32) {
    if recording::is_open() {
        regions::fenced(Place::Source(file, line));
    }
}

extern "C" fn acknowledged(number: u64, file: *const c_char, line: u32) {
    if recording::is_open() {
        let place = Place::Source(file, line);
        regions::locked(|_| {
            recording::write(format_args!("acknowledge {} {number} {place}", recording::thread()));
        });
    }
}

unsafe extern "C" fn step(name: *const c_char) {
    if recording::is_open() {
        // SAFETY: the header says that it is a string.
        let name = Text(unsafe { CStr::from_ptr(name) });
        regions::locked(|_| recording::write(format_args!("step {} {name}", recording::thread())));
    }
}

unsafe extern "C" fn label(pointer: *const c_void, bytes: usize, name: *const c_char) {
    if recording::is_open() {
        // SAFETY: the header says that it is a string.
        let name = Text(unsafe { CStr::from_ptr(name) });
        regions::locked(|regions| {
            let base = address(pointer);
            if let Some(region) = regions.of(base) {
                let offset = region.offset + (base - region.base) as u64;
                recording::write(format_args!("label {offset} {bytes} {name}"));
            }
        });
    }
}
