//! System calls that are not in the standard library. All code that differs between systems is here.
//!
//! Each function makes one call, or a substitute on systems that do not know the call, and is safe if no argument that a
//! caller can pass does harm. No function tries again after a signal, unless its comment says so. An unsupported operation returns an error for which
//! [`is_unsupported`] is true; one that only saves time or memory does nothing instead.

use std::ffi::{CString, c_int, c_long, c_void};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(any(target_os = "macos", test))]
mod portable;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "macos")]
pub use macos::*;

/// Converts the result of a call that returns 0 for success.
fn succeeded(returned: impl Into<c_long>) -> io::Result<()> {
    if returned.into() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the error with this number, which is one of `libc`'s.
pub fn error(number: c_int) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Returns whether the system, or the file system, does not know the call.
pub fn is_unsupported(error: &io::Error) -> bool {
    // The first two are the same number on Linux.
    [libc::EOPNOTSUPP, libc::ENOTSUP, libc::ENOSYS].map(Some).contains(&error.raw_os_error())
}

/// Opens the file at `path` on a descriptor that is not one of the three standard ones.
///
/// A program may have closed descriptors 0, 1 or 2, as daemons do. A file opened then would get one of them, and messages that the program or a library
/// writes to standard error would overwrite the file. So `/dev/null` is opened on them first, and stays there, as Rust's run-time library does
/// when a program begins.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    while STANDARD.into_iter().any(is_free) {
        // Without a `/dev/null` the file is moved to another descriptor below.
        let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") else { break };
        if !STANDARD.contains(&null.as_raw_fd()) {
            break;
        }
        let _ = null.into_raw_fd();
    }
    let file = options.open(path)?;
    // A duplicate never gets a standard descriptor.
    if STANDARD.contains(&file.as_raw_fd()) { file.try_clone() } else { Ok(file) }
}

/// Opens the file at `path` for reading, as [`open`] does.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), path)
}

/// The descriptors of standard input, output and error.
const STANDARD: Range<c_int> = 0..3;

/// Returns whether no file is open on `descriptor`.
fn is_free(descriptor: c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    flags == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

/// Returns the holes in the first `bytes` bytes of `file`, in order; none if the file system does not report holes.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn holes(file: &File, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut holes = Vec::new();
    let mut at = 0;
    while at < bytes {
        let start = seek(file, at, libc::SEEK_HOLE)?.map_or(bytes, |start| start.min(bytes));
        if start == bytes {
            break;
        }
        at = seek(file, start, libc::SEEK_DATA)?.map_or(bytes, |end| end.min(bytes));
        if at == start {
            // The file system knows only one of the two requests.
            break;
        }
        holes.push(start..at);
    }
    Ok(holes)
}

/// Returns the offset of the next data or hole of `file` at or after `at`; `whence` says which. Returns `None` if the file has no more of it.
fn seek(file: &File, at: u64, whence: c_int) -> io::Result<Option<u64>> {
    // SAFETY: the call takes numbers, and the descriptor is open, since `file` is borrowed. It changes the file's position, which no code uses: every
    // transfer passes its offset.
    let found = unsafe { libc::lseek(file.as_raw_fd(), offset(at)?, whence) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            // If the call is not supported, everything counts as data.
            error if error.raw_os_error() == Some(libc::EINVAL) || is_unsupported(&error) => {
                Ok((whence == libc::SEEK_DATA).then_some(at))
            }
            error => Err(error),
        },
    }
}

/// Returns whether a filter of system calls may have refused the call: such filters return `EPERM` or `ENOSYS` for calls that they do not know. Use
/// this only for calls with a substitute that is also refused if the permission is missing.
pub fn is_refused(error: &io::Error) -> bool {
    is_unsupported(error) || error.raw_os_error() == Some(libc::EPERM)
}

/// Repeats `call` as long as signals interrupt it.
fn uninterrupted<T>(call: impl Fn() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Converts an offset or a length to the system's type.
fn offset(bytes: u64) -> io::Result<libc::off_t> {
    bytes.try_into().map_err(|_| error(libc::EINVAL))
}

/// Converts a path to the system's type.
fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| error(libc::EINVAL))
}

/// Returns the size of the system's pages in bytes: a power of two, and a multiple of [`PAGE_BYTES`](super::PAGE_BYTES).
pub fn page_bytes() -> u64 {
    // SAFETY: the call takes a number and touches no memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).map_or(super::PAGE_BYTES, |bytes| bytes.max(super::PAGE_BYTES))
}

/// Maps the first `bytes` bytes of `file`, or anonymous memory, for reading and writing, at an address of the system's choice. No memory
/// is reserved for pages that are never touched.
fn map(file: Option<&File>, bytes: usize, flags: c_int) -> io::Result<*mut c_void> {
    let flags = flags | libc::MAP_NORESERVE;
    let (both, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, file.map_or(-1, AsRawFd::as_raw_fd));
    // No caller passes `MAP_FIXED`, which would replace an existing mapping.
    // SAFETY: a new mapping at an address of the system's choice aliases no memory in use, and is not accessed here.
    match unsafe { libc::mmap(std::ptr::null_mut(), bytes, both, flags, descriptor, 0) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        base => Ok(base),
    }
}

/// Maps `bytes` bytes of `file`, which may be shorter. The mapping is shared with all others of the file.
pub fn map_shared(file: &File, bytes: usize) -> io::Result<*mut c_void> {
    map(Some(file), bytes, libc::MAP_SHARED)
}

/// Maps `bytes` bytes of `file`, which may be shorter. Stores stay in this process.
pub fn map_private(file: &File, bytes: usize) -> io::Result<*mut c_void> {
    map(Some(file), bytes, libc::MAP_PRIVATE)
}

/// Maps `bytes` bytes of zeros for this process only.
pub fn map_anonymous(bytes: usize) -> io::Result<*mut c_void> {
    map(None, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
}

/// Maps a part of a file, given as the file and the offset of the part, or zeros, in place of a part of a mapping. Stores stay in this
/// process.
///
/// # Errors
/// Returns an error if the system cannot do this. The mapping is then unchanged.
///
/// # Safety
/// The range is whole pages of the system in a private mapping of the caller. If other threads read it, they read atomics.
pub unsafe fn map_over(base: *mut c_void, bytes: usize, of: Option<(&File, u64)>) -> io::Result<()> {
    let (kind, descriptor, at) = match of {
        Some((file, at)) => (0, file.as_raw_fd(), offset(at)?),
        None => (libc::MAP_ANONYMOUS, -1, 0),
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE | kind;
    // SAFETY: the range is pages of the caller, which are replaced in one step; to readers they change as if a thread had stored to them.
    match unsafe { libc::mmap(base, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, descriptor, at) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Removes a mapping.
///
/// # Safety
/// The range is a mapping of the caller, to which there are no pointers any more.
pub unsafe fn unmap(base: *mut c_void, bytes: usize) {
    // A whole mapping can always be removed.
    // SAFETY: the caller promises that the range is its mapping.
    let _ = unsafe { libc::munmap(base, bytes) };
}

/// Returns whether the file system of `file`, which has at least one byte, can allocate disk space in advance.
pub fn can_allocate(file: &File) -> bool {
    !allocate(file, 0, 1).is_err_and(|error| is_unsupported(&error))
}

/// Returns the machine's memory in bytes.
fn machine_memory() -> u64 {
    // SAFETY: the call takes a number and touches no memory.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    u64::try_from(pages).map_or(u64::MAX, |pages| pages.saturating_mul(page_bytes()))
}

/// Renames the file `from` to `to`, unless a file named `to` exists, on a file system that cannot do this in one
/// step (FUSE, NFS). A lock on the folder keeps other processes out that do the same.
///
/// A hard link would be one step, but on such file systems an open file that loses its first name keeps a hidden one, and may be
/// cached separately under each name.
fn rename_under_lock(from: &Path, to: &Path) -> io::Result<()> {
    const TRIES: usize = 1000;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = open_to_read(folder)?;
    for _ in 0..TRIES {
        match folder.try_lock() {
            Ok(()) => {
                let renamed = match std::fs::symlink_metadata(to) {
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::rename(from, to),
                    Err(error) => Err(error),
                };
                // A forked child may have the folder open, too.
                let _ = folder.unlock();
                return renamed;
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("another process keeps the folder locked"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    type Wait = fn(&AtomicU32, u32, Option<Duration>) -> bool;
    type Wake = fn(&AtomicU32, c_int);
    type GiveBack = unsafe fn(*mut c_void, usize, Option<(&File, u64)>) -> io::Result<()>;

    #[test]
    fn nobody_sleeps_for_ever() {
        const TURNS: u32 = 2000;
        for (wait, wake) in [(wait as Wait, wake as Wake), (portable::wait, portable::wake)] {
            // The threads take turns. Each wakes all threads or, if there are two, one.
            for (threads, most) in [(4, c_int::MAX), (2, 1)] {
                let turn = &AtomicU32::new(0);
                std::thread::scope(|scope| {
                    for own in 0..threads {
                        scope.spawn(move || {
                            for next in (own..TURNS).step_by(threads as usize) {
                                let mut now = turn.load(Ordering::SeqCst);
                                while now != next {
                                    assert!(!wait(turn, now, None), "time passed that was not asked for");
                                    now = turn.load(Ordering::SeqCst);
                                }
                                turn.store(next + 1, Ordering::SeqCst);
                                wake(turn, most);
                            }
                        });
                    }
                });
                assert_eq!(turn.load(Ordering::SeqCst), TURNS);
            }
        }
    }

    #[test]
    fn waiting_ends_with_its_time_or_at_once() {
        for wait in [wait as Wait, portable::wait] {
            let word = AtomicU32::new(5);
            assert!(!wait(&word, 4, None), "the word has another value");
            // A signal or nothing at all may end it early.
            while !wait(&word, 5, Some(Duration::from_millis(1))) {}
        }
    }

    #[test]
    fn pages_that_are_given_back_are_the_files_or_zeros() {
        use std::os::unix::fs::FileExt;
        let page = page_bytes() as usize;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; 4 * page], 0).unwrap();
        for give_back in [give_back as GiveBack, map_over] {
            for (of, given_back) in [(Some(&file), 1), (None, 0)] {
                let mapped = match of {
                    Some(file) => map_private(file, 4 * page),
                    None => map_anonymous(4 * page),
                };
                let (base, given) = (mapped.unwrap(), of.map(|file| (file, page as u64)));
                let bytes = base.cast::<u8>();
                // SAFETY: this is a mapping of four pages, of the file from its first byte on or anonymous, that no other code uses.
                unsafe {
                    bytes.write_bytes(7, 4 * page);
                    give_back(base.byte_add(page), 2 * page, given).unwrap();
                    let firsts = [0, 1, 2, 3].map(|number| bytes.add(number * page).read());
                    assert_eq!(firsts, [7, given_back, given_back, 7]);
                    // The pages can still be stored to, and the stores do not reach the file.
                    bytes.add(page).write(8);
                    assert_eq!(bytes.add(page).read(), 8);
                    unmap(base, 4 * page);
                }
                let mut first = [0];
                file.read_exact_at(&mut first, page as u64).unwrap();
                assert_eq!(first, [1]);
            }
        }
    }

    #[test]
    fn holes_are_found() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile().unwrap();
        let page = page_bytes().max(4096);
        file.write_all_at(&vec![1; page as usize], 0).unwrap();
        file.set_len(64 * page).unwrap();
        file.write_all_at(&vec![1; page as usize], 32 * page).unwrap();
        assert_eq!(holes(&file, 64 * page).unwrap(), [page..32 * page, 33 * page..64 * page]);
        assert_eq!(holes(&file, 20 * page).unwrap().first(), Some(&(page..20 * page)));
        assert_eq!(holes(&file, page).unwrap(), []);
        assert_eq!(holes(&file, 100 * page).unwrap().last(), Some(&(33 * page..100 * page)));
    }

    #[test]
    fn a_name_that_something_has_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to, free] = ["from", "to", "free"].map(|name| folder.path().join(name));
        for rename in [rename_without_replacing, rename_under_lock] {
            std::fs::write(&from, "from").unwrap();
            std::fs::write(&to, "to").unwrap();
            assert_eq!(rename(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            rename(&from, &free).unwrap();
            let read = |path| std::fs::read_to_string(path).unwrap();
            assert_eq!((from.exists(), read(&to), read(&free)), (false, "to".into(), "from".into()));
            std::fs::remove_file(&free).unwrap();
        }
    }
}
