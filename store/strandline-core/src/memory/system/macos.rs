//! What macOS has for it. Nobody has run this yet.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Elsewhere the advice that Linux knows for this is no more than advice.
pub use super::map_over as give_back;
pub use super::portable::{wait, wake};
use super::{c_string, error, is_unsupported, offset, succeeded};

fn unsupported<T>() -> io::Result<T> {
    Err(error(libc::ENOTSUP))
}

/// Stores never reach persistent memory itself: there is none.
pub fn map_synchronous(_: &File, _: usize) -> io::Result<*mut c_void> {
    unsupported()
}

/// The system has large pages for nobody who asks in this way.
///
/// # Safety
/// Nothing is done.
pub unsafe fn prefer_large_pages(_: *mut c_void, _: usize) {}

/// Pages are mapped when they are touched.
///
/// # Safety
/// Nothing is done.
pub unsafe fn map_ahead(_: *mut c_void, _: usize, _: bool) {}

/// Pages are read as the system thinks fit.
///
/// # Safety
/// Nothing is done.
pub unsafe fn read_around(_: *mut c_void, _: usize, _: bool) {}

/// Pages are read when they are touched.
///
/// # Safety
/// Nothing is done.
pub unsafe fn read_ahead(_: *mut c_void, _: usize) {}

/// The system counts no waits of single threads: nobody reads ahead.
pub fn pages_waited_for() -> u64 {
    0
}

/// A child has what its parent had.
///
/// # Safety
/// Nothing is done.
pub unsafe fn clear_in_children(_: *mut c_void, _: usize) -> io::Result<()> {
    unsupported()
}

/// Waits until every changed page of a shared mapping is in its file, durably.
///
/// # Safety
/// The range is a mapping of the caller's, of that file.
pub unsafe fn synchronize(base: *mut c_void, bytes: usize, file: &File) -> io::Result<()> {
    // SAFETY: the call changes no memory; the range is the caller's promise.
    super::uninterrupted(|| succeeded(unsafe { libc::msync(base, bytes, libc::MS_SYNC) }))?;
    // It leaves the drive's own cache as it is; this does not (`F_FULLFSYNC`).
    file.sync_all()
}

/// Disk space is taken by writing: the file system copies what is written anyway.
pub fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    unsupported()
}

/// There is none.
pub const HAS_PROCESS_BARRIER: bool = false;

/// The system does not have that.
pub fn process_barrier() -> bool {
    false
}

/// There are none.
pub fn create_unnamed(_: &Path) -> io::Result<File> {
    unsupported()
}

/// Gives the disk space of the `bytes` bytes of `file` at `at` back; they read as zeros, and the file is as long as before.
pub fn punch(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    let hole =
        libc::fpunchhole_t { fp_flags: 0, reserved: 0, fp_offset: offset(at)?, fp_length: offset(bytes)? };
    // SAFETY: the call reads the structure, which lives for all of it; a descriptor that is open, for `file` is borrowed.
    succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &hole) })
}

/// Bytes of memory that this process may have: the machine's.
pub fn memory_limit() -> u64 {
    super::machine_memory()
}

/// The file system does not tell.
pub fn lacking_space(_: &File, _: u64) -> io::Result<Vec<Range<u64>>> {
    unsupported()
}

/// A clone's parts get space of their own when they are written.
pub fn unshare(_: &File, _: u64, _: u64) -> io::Result<()> {
    unsupported()
}

/// APFS always writes elsewhere.
pub fn overwrite_in_place(_: &File) -> io::Result<()> {
    Ok(())
}

/// APFS always writes elsewhere.
pub fn overwriting_takes_space(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// Holes read as zeros.
pub fn reading_holes_takes_space(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// What goes past the page cache here is durable only after a flush all the same, and needs one more.
pub fn open_unbuffered(_: &File, _: bool, _: bool) -> io::Result<File> {
    unsupported()
}

/// Does nothing: the system has no such call.
pub fn begin_writing(_: &File, _: u64, _: u64) {}

/// No write is durable by itself: `O_DSYNC` leaves the drive's own cache as it is.
pub fn write_durable(_: &File, _: u64, _: &[u8]) -> io::Result<usize> {
    unsupported()
}

/// How many names `file` has, and how many bytes.
pub fn links_and_bytes(file: &File) -> io::Result<(u32, u64)> {
    let about = file.metadata()?;
    Ok((about.nlink().try_into().unwrap_or(u32::MAX), about.len()))
}

/// Gives the file that is named `from` the name `to`, unless something has that name already.
pub fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (c_string(from)?, c_string(to)?);
    // SAFETY: both strings end in zeros and live for the whole call, which reads them.
    match succeeded(unsafe { libc::renamex_np(old.as_ptr(), new.as_ptr(), libc::RENAME_EXCL) }) {
        Err(error) if is_unsupported(&error) => super::rename_under_lock(from, to),
        renamed => renamed,
    }
}

/// Random bytes that nobody can tell beforehand.
pub fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
