//! The system calls of macOS. This code has never been run.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

// Other systems need not follow the advice that drops pages on Linux, so new pages are mapped over the old ones.
pub use super::map_over as give_back;
pub use super::portable::{wait, wake};
use super::{c_string, error, is_unsupported, offset, succeeded};

fn unsupported<T>() -> io::Result<T> {
    Err(error(libc::ENOTSUP))
}

/// Returns an error, since there is no persistent memory that stores could reach.
pub fn map_synchronous(_: &File, _: usize) -> io::Result<*mut c_void> {
    unsupported()
}

/// Does nothing, since the system does not give large pages on request.
///
/// # Safety
/// Has no requirements, since it does nothing.
pub unsafe fn prefer_large_pages(_: *mut c_void, _: usize) {}

/// Does nothing: pages are mapped when they are touched.
///
/// # Safety
/// Has no requirements, since it does nothing.
pub unsafe fn map_ahead(_: *mut c_void, _: usize, _: bool) {}

/// Does nothing: the system chooses the number of pages that it reads.
///
/// # Safety
/// Has no requirements, since it does nothing.
pub unsafe fn read_around(_: *mut c_void, _: usize, _: bool) {}

/// Does nothing: pages are read when they are touched.
///
/// # Safety
/// Has no requirements, since it does nothing.
pub unsafe fn read_ahead(_: *mut c_void, _: usize) {}

/// Returns 0, since the system does not count the waits of single threads. So walks do not read ahead.
pub fn pages_waited_for() -> u64 {
    0
}

/// Returns an error, since the system cannot clear memory in children.
///
/// # Safety
/// Has no requirements, since it does nothing.
pub unsafe fn clear_in_children(_: *mut c_void, _: usize) -> io::Result<()> {
    unsupported()
}

/// Waits until every changed page of a shared mapping is durable in its file.
///
/// # Safety
/// The range is a mapping of that file by the caller.
pub unsafe fn synchronize(base: *mut c_void, bytes: usize, file: &File) -> io::Result<()> {
    // SAFETY: the call changes no memory; the caller promises that the range is its mapping.
    super::uninterrupted(|| succeeded(unsafe { libc::msync(base, bytes, libc::MS_SYNC) }))?;
    // `msync` does not flush the drive's own cache; this call does (`F_FULLFSYNC`).
    file.sync_all()
}

/// Returns an error: only writes allocate space, and the file system writes to another place when it overwrites.
pub fn allocate(_: &File, _: u64, _: u64) -> io::Result<()> {
    unsupported()
}

/// The system has no barrier for all threads of a process.
pub const HAS_PROCESS_BARRIER: bool = false;

/// Returns false, since the system has no such barrier.
pub fn process_barrier() -> bool {
    false
}

/// Returns an error, since the system has no files without a name.
pub fn create_unnamed(_: &Path) -> io::Result<File> {
    unsupported()
}

/// Releases the disk space of the `bytes` bytes of `file` at `at`. They read as zeros, and the file's length stays.
pub fn punch(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    let hole =
        libc::fpunchhole_t { fp_flags: 0, reserved: 0, fp_offset: offset(at)?, fp_length: offset(bytes)? };
    // SAFETY: the call reads the structure, which lives as long as the call; the descriptor is open, since `file` is borrowed.
    succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PUNCHHOLE, &hole) })
}

/// Returns the bytes of memory that this process may have: those of the machine.
pub fn memory_limit() -> u64 {
    super::machine_memory()
}

/// Returns an error, since the file system does not tell which parts of a file lack space.
pub fn lacking_space(_: &File, _: u64) -> io::Result<Vec<Range<u64>>> {
    unsupported()
}

/// Returns an error: parts of a clone get space of their own only when they are written.
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

/// Returns false: holes read as zeros without taking space.
pub fn reading_holes_takes_space(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Returns an error: writes past the page cache would be durable only after a flush as well, so they would only cost one more.
pub fn open_unbuffered(_: &File, _: bool, _: bool) -> io::Result<File> {
    unsupported()
}

/// Does nothing: the system has no such call.
pub fn begin_writing(_: &File, _: u64, _: u64) {}

/// Returns an error, since no write is durable by itself: `O_DSYNC` does not flush the drive's own cache.
pub fn write_durable(_: &File, _: u64, _: &[u8]) -> io::Result<usize> {
    unsupported()
}

/// Returns the number of names of `file`, and its size in bytes.
pub fn links_and_bytes(file: &File) -> io::Result<(u32, u64)> {
    let about = file.metadata()?;
    Ok((about.nlink().try_into().unwrap_or(u32::MAX), about.len()))
}

/// Renames the file `from` to `to`, unless a file named `to` exists.
pub fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (c_string(from)?, c_string(to)?);
    // SAFETY: both strings end in zeros and live for the whole call, which reads them.
    match succeeded(unsafe { libc::renamex_np(old.as_ptr(), new.as_ptr(), libc::RENAME_EXCL) }) {
        Err(error) if is_unsupported(&error) => super::rename_under_lock(from, to),
        renamed => renamed,
    }
}

/// Returns unpredictable random bytes.
pub fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
