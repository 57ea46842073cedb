//! Strandline for C: databases of named, ordered maps of byte strings and of objects, transactions on them, snapshots, backups.
//!
//! `include/strandline.h` is made from this crate; `docs/c.md` introduces it, and `examples` has programs. Every function that
//! can fail returns a code, [`StrandlineStatus`]; `strandline_message` says in words what went wrong on this thread, and
//! `strandline_error_text` what a code means.

mod database;
mod map;
mod objects;
mod options;
mod status;
mod transaction;

use std::ffi::{CStr, c_char, c_void};

pub use database::*;
pub use map::*;
pub use objects::*;
pub use options::*;
pub use status::{StrandlineStatus, strandline_error_text, strandline_message};
pub use transaction::*;

use status::{Stop, parameter};

/// What `pointer` leads to; `what` it should be if it is null.
///
/// # Safety
/// `pointer` is null, or leads to a value that stays as it is for `'a`.
unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Stop> {
    // SAFETY: the caller promises it.
    unsafe { pointer.as_ref() }.ok_or_else(|| parameter(format!("{what} is needed, and not NULL")))
}

/// Puts a value where C wants it.
///
/// # Safety
/// `place` is null, or has room for one.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Stop> {
    if place.is_null() {
        return Err(parameter("a place for the result is needed, and not NULL"));
    }
    // SAFETY: the caller promises room.
    unsafe { place.write(value) };
    Ok(())
}

/// The text at `text`.
///
/// # Safety
/// `text` is null, or a string that ends with a zero and stays as it is for `'a`.
unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str, Stop> {
    // SAFETY: the caller promises a string or null.
    let text = unsafe {
        reference(text, what)?;
        CStr::from_ptr(text)
    };
    text.to_str().map_err(|_| parameter(format!("{what} has to be UTF-8")))
}

/// The bytes at `bytes`, of which there may be `most`.
///
/// # Errors
/// Returns `STRANDLINE_PARAMETER` for more, before anything is read, and for bytes at null.
///
/// # Safety
/// `length` is 0 or more than `most`, or `bytes` is null, or that many bytes there stay as they are for `'a`.
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

/// A key.
///
/// # Safety
/// As [`slice`].
unsafe fn key<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Stop> {
    // SAFETY: the caller promises the bytes.
    unsafe { slice(bytes, length, "the key", 4096) }
}

/// A value, or a part of an object.
///
/// # Safety
/// As [`slice`].
unsafe fn value<'a>(bytes: *const c_void, length: usize) -> Result<&'a [u8], Stop> {
    // SAFETY: the caller promises the bytes.
    unsafe { slice(bytes, length, "the value", u32::MAX.into()) }
}

/// A copy of `bytes` for C, which gives it back with `strandline_free`.
fn for_c(bytes: &[u8]) -> Result<*mut c_void, Stop> {
    // SAFETY: any size can be asked for; one byte at least, so that null means that there is no memory.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) };
    if copy.is_null() {
        return Err(Stop::Error(strandline::Error::Io {
            what: format!("get {} bytes of memory", bytes.len()),
            source: std::io::ErrorKind::OutOfMemory.into(),
        }));
    }
    // SAFETY: there is room for them.
    unsafe { copy.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(copy)
}

/// Gives memory back that a function of this library has filled for its caller. `free` of the C library does the same.
///
/// # Safety
/// `memory` is what such a function gave, only once, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_free(memory: *mut c_void) {
    // SAFETY: it is from `malloc`, or null.
    unsafe { libc::free(memory) }
}
