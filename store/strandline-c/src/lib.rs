//! Strandline for C: databases of named, ordered maps of byte strings and of objects, transactions on them, snapshots, backups.
//!
//! `include/strandline.h` is generated from this crate, and `include/strandline.hpp` has classes for C++. `docs/c.md` introduces both, and `examples` has programs. Every function that
//! can fail returns a code, [`StrandlineStatus`]; `strandline_message` says in words what went wrong on this thread, and
//! `strandline_error_text` what a code means.

mod database;
mod map;
mod objects;
mod options;
mod status;
mod stream;
mod transaction;
mod usage;

use std::ffi::{CStr, c_char, c_void};

pub use database::*;
pub use map::*;
pub use objects::*;
pub use options::*;
pub use status::{StrandlineStatus, strandline_error_text, strandline_message};
pub use stream::*;
pub use transaction::*;
pub use usage::*;

use status::{Stop, parameter};

/// Returns the value behind `pointer`. Fails if the pointer is null, with a message that says that `what` is needed.
///
/// # Safety
/// `pointer` is null, or refers to a value that does not change for `'a`.
unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Stop> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(|| parameter(format!("{what} is needed, and not NULL")))
}

/// Stores a result for C.
///
/// # Safety
/// `place` is null, or has room for a value.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Stop> {
    if place.is_null() {
        return Err(parameter("a place for the result is needed, and not NULL"));
    }
    // SAFETY: the caller promises room.
    unsafe { place.write(value) };
    Ok(())
}

/// Returns the string at `text`.
///
/// # Safety
/// `text` is null, or a string that ends with a zero and does not change for `'a`.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Stop> {
    // SAFETY: the caller promises a string or null.
    let text = unsafe {
        reference(text, what)?;
        CStr::from_ptr(text)
    };
    text.to_str().map_err(|_| parameter(format!("{what} has to be UTF-8")))
}

/// Returns the `length` bytes at `bytes`.
///
/// # Errors
/// Returns `STRANDLINE_PARAMETER` if `length` is more than `most`, before anything is read, or if `bytes` is null and `length` is not 0.
///
/// # Safety
/// `length` is 0 or more than `most`, or `bytes` is null or refers to that many bytes, which do not change for `'a`.
unsafe fn slice<'a>(bytes: *const c_void, length: usize, what: &str, most: u64) -> Result<&'a [u8], Stop> {
    match length {
        0 => Ok(&[]),
        _ if length as u64 > most => {
            Err(parameter(format!("{what} has {length} bytes: at most {most} are possible")))
        }
        _ if bytes.is_null() => Err(parameter(format!("{what} has {length} bytes at NULL"))),
        // SAFETY: the caller promises the bytes.
        _ => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

/// The most bytes of a key without zero bytes.
const MOST_KEY_BYTES: usize = 4094;

/// Returns the key at `bytes`.
///
/// # Errors
/// Returns `STRANDLINE_PARAMETER` if the key is too long. Each zero byte counts twice, because it is stored as two bytes.
///
/// # Safety
/// Like [`slice`].
unsafe fn key<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Stop> {
    // SAFETY: the caller promises the bytes.
    let key = unsafe { slice(bytes, length, "the key", MOST_KEY_BYTES as u64) }?;
    // Most keys are so short that they fit even if all of their bytes are zero.
    let zeros = if length <= MOST_KEY_BYTES / 2 { 0 } else { key.iter().filter(|&&byte| byte == 0).count() };
    if length + zeros > MOST_KEY_BYTES {
        return Err(parameter(format!(
            "the key has {length} bytes, {zeros} of them zeros, which count twice: at most {MOST_KEY_BYTES} are possible"
        )));
    }
    Ok(key)
}

/// Returns the value, or the part of an object, at `bytes`.
///
/// # Safety
/// Like [`slice`].
unsafe fn value<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Stop> {
    // SAFETY: the caller promises the bytes.
    unsafe { slice(bytes, length, "the value", MOST_VALUE_BYTES) }
}

/// The most bytes of a value.
const MOST_VALUE_BYTES: u64 = u32::MAX as u64;

/// Fails if `length` is more than a value may have.
fn check_value_length(length: usize) -> Result<(), Stop> {
    match length as u64 {
        0..=MOST_VALUE_BYTES => Ok(()),
        _ => Err(parameter(format!("the value has {length} bytes: at most {MOST_VALUE_BYTES} are possible"))),
    }
}

/// Memory for C, which frees it with `strandline_free`.
struct Memory {
    at: *mut c_void,
    bytes: usize,
}

impl Memory {
    /// Allocates `bytes` zeros.
    fn of_zeros(bytes: usize) -> Result<Self, Stop> {
        // SAFETY: `calloc` accepts any size. The size is at least one byte, so that null always means that there is no memory.
        let memory = unsafe { libc::calloc(bytes.max(1), 1) };
        if memory.is_null() {
            return Err(Stop::Error(strandline::Error::io(
                format!("get {bytes} bytes of memory"),
                std::io::ErrorKind::OutOfMemory.into(),
            )));
        }
        Ok(Self { at: memory, bytes })
    }

    /// Allocates a copy of `bytes`.
    fn of(bytes: &[u8]) -> Result<Self, Stop> {
        let mut copy = Self::of_zeros(bytes.len())?;
        copy.as_mut_slice().copy_from_slice(bytes);
        Ok(copy)
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `at` points to `bytes` initialized bytes that only this value owns.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.bytes) }
    }

    /// Hands the memory to C.
    fn into_raw(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).at
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory is from `calloc`, and nobody else has it.
        unsafe { libc::free(self.at) }
    }
}

/// Frees memory that a function of this library has allocated for its caller. `free` of the C library does the same.
///
/// Threads: any, also another than the one that got the memory.
///
/// # Safety
/// `memory` comes from such a function and is freed once; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_free(memory: *mut c_void) {
    // SAFETY: the memory is from `malloc` or `calloc`, or null.
    unsafe { libc::free(memory) }
}
