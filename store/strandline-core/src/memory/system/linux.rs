//! The system calls of Linux.

use std::ffi::{c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::{c_string, is_refused, machine_memory, map, offset, succeeded};

/// Like [`map_shared`](super::map_shared), but fails unless stores then reach persistent memory itself.
pub fn map_synchronous(file: &File, bytes: usize) -> io::Result<*mut c_void> {
    map(Some(file), bytes, libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC)
}

/// Asks for large pages. This is only for speed, so errors are ignored.
///
/// # Safety
/// The range is a mapping of the caller.
pub unsafe fn prefer_large_pages(base: *mut c_void, bytes: usize) {
    // SAFETY: the advice changes nothing that a program can observe; the caller promises that the range is its mapping.
    let _ = unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
}

/// Sets whether a touched page of a file's mapping is read alone, or with as many of the pages around it as the system chooses.
///
/// # Safety
/// The range is a mapping of the caller.
pub unsafe fn read_around(base: *mut c_void, bytes: usize, around: bool) {
    let advice = if around { libc::MADV_NORMAL } else { libc::MADV_RANDOM };
    // SAFETY: the advice changes nothing that a program can observe; the caller promises that the range is its mapping.
    let _ = unsafe { libc::madvise(base, bytes, advice) };
}

/// Begins to read pages of a mapping of a file, and does not wait for them.
///
/// # Safety
/// The range is whole pages of a mapping of the caller.
pub unsafe fn read_ahead(base: *mut c_void, bytes: usize) {
    // SAFETY: the advice changes nothing that a program can observe; the caller promises that the range is its mapping.
    let _ = unsafe { libc::madvise(base, bytes, libc::MADV_WILLNEED) };
}

/// Returns the number of times that this thread has touched a page and waited until it was read from a file.
pub fn pages_waited_for() -> u64 {
    // SAFETY: this is a structure of numbers, for which zeros are valid values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure can be written for the whole call.
    let asked = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    if asked == 0 { usage.ru_majflt as u64 } else { 0 }
}

/// Maps all pages of a mapping in advance, for writing or for reading. This is only for speed, so errors are ignored.
///
/// # Safety
/// The range is a mapping of the caller.
pub unsafe fn map_ahead(base: *mut c_void, bytes: usize, to_write: bool) {
    let advice = if to_write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: the advice changes nothing that a program can observe; the caller promises that the range is its mapping.
    let _ = unsafe { libc::madvise(base, bytes, advice) };
}

/// Drops pages of a mapping from this process. Pages of an anonymous mapping become zeros. Pages of a private mapping of a file, given as
/// the file and the offset in it, are read from the file when they are next touched, and stores to them are lost.
///
/// # Errors
/// Returns an error if the system cannot drop them, as with locked memory. They are then unchanged.
///
/// # Safety
/// The range is whole pages of the system in a private mapping of the caller, which is anonymous or of that part of that file. If other
/// threads read it, they read atomics.
pub unsafe fn give_back(base: *mut c_void, bytes: usize, _: Option<(&File, u64)>) -> io::Result<()> {
    // SAFETY: the caller promises this; to readers the pages change as if a thread had stored to them.
    succeeded(unsafe { libc::madvise(base, bytes, libc::MADV_DONTNEED) })
}

/// Makes the bytes of a mapping zeros in every child that is forked from now on.
///
/// # Safety
/// The range is a private and anonymous mapping of the caller, and a child may find zeros in it.
pub unsafe fn clear_in_children(base: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller promises this; in this process nothing changes.
    succeeded(unsafe { libc::madvise(base, bytes, libc::MADV_WIPEONFORK) })
}

/// Waits until every changed page of a shared mapping is durable in its file.
///
/// # Safety
/// The range is a mapping of that file by the caller.
pub unsafe fn synchronize(base: *mut c_void, bytes: usize, _: &File) -> io::Result<()> {
    // SAFETY: the call changes no memory; the caller promises that the range is its mapping.
    super::uninterrupted(|| succeeded(unsafe { libc::msync(base, bytes, libc::MS_SYNC) }))
}

/// Sleeps while `word` has the value `value`, until a thread calls [`wake`] for it, until a signal, or spuriously; for at most `most`.
/// Returns whether this time has passed.
pub fn wait(word: &AtomicU32, value: u32, most: Option<Duration>) -> bool {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let most = most.map(|most| libc::timespec {
        tv_sec: most.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: most.subsec_nanos().into(),
    });
    let most = most.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // Other errors mean that the word has changed, or a signal. Like a wake-up, they make the caller check again.
    // SAFETY: the word is borrowed for the whole call, which reads it atomically, and so is the time, if there is one.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, most) };
    woken != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

/// Wakes up to `most` of the threads of this process that wait at `word`.
pub fn wake(word: &AtomicU32, most: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the call uses the word's address as a name and does not read it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}

/// True if the system may have [`process_barrier`]. Miri does not.
pub const HAS_PROCESS_BARRIER: bool = !cfg!(miri);

/// Makes every running thread of this process execute a full memory barrier before this returns. Returns whether the system did: Linux can
/// since 4.14, unless a filter forbids the call.
pub fn process_barrier() -> bool {
    // SAFETY: the call takes numbers and changes no memory.
    let call = |command: c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 };
    // The call is refused to processes that have not registered.
    call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        || call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

/// Allocates disk space for the `bytes` bytes of `file` at `at`, and extends the file to their end if it is shorter.
pub fn allocate(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    change_space(file, 0, at, bytes)
}

/// Calls `fallocate`, again after a signal.
fn change_space(file: &File, mode: c_int, at: u64, bytes: u64) -> io::Result<()> {
    // Some FUSE file systems, such as fuse2fs, promise space that they may refuse later. Written zeros are certain.
    if file_system(file).is_ok_and(|kind| kind == FUSE) {
        return Err(super::error(libc::EOPNOTSUPP));
    }
    let (at, bytes) = (offset(at)?, offset(bytes)?);
    // SAFETY: the call takes numbers, and a descriptor that is open, since `file` is borrowed.
    super::uninterrupted(|| succeeded(unsafe { libc::fallocate(file.as_raw_fd(), mode, at, bytes) }))
}

/// Creates a file in `folder` that never has a name. Returns an error if the file system does not support this.
pub fn create_unnamed(folder: &Path) -> io::Result<File> {
    super::open(OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE), folder)
}

/// Releases the disk space of the `bytes` bytes of `file` at `at`. They read as zeros, and the file's length stays.
pub fn punch(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    change_space(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, at, bytes)
}

/// The argument and result of one call that lists a file's extents (`struct fiemap`).
#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

const EXTENTS: usize = 64;
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
const FIEMAP_EXTENT_LAST: u32 = 1;
const FIEMAP_EXTENT_SHARED: u32 = 0x2000;
const FS_NOCOW_FL: libc::c_int = 0x0080_0000;
const FALLOC_FL_UNSHARE_RANGE: c_int = 0x40;
const BTRFS: u32 = 0x9123_683e;
const TMPFS: u32 = 0x0102_1994;
const FUSE: u32 = 0x6573_5546;
/// File systems that write overwritten blocks to another place: ZFS, bcachefs, NILFS.
const COPYING: [u32; 3] = [0x2fc1_2fc1, 0xca45_1a4e, 0x3434];

/// Returns the ranges of the first `bytes` bytes of `file` that have no disk space of their own, in order: holes, and parts that are shared
/// with other files, such as clones. Space that is allocated but not yet written is not among them.
///
/// # Errors
/// Returns an error for which [`super::is_unsupported`] is true if the file system does not tell.
pub fn lacking_space(file: &File, bytes: u64) -> io::Result<Vec<Range<u64>>> {
    let mut lacking = Vec::new();
    let mut at = 0;
    while at < bytes {
        // SAFETY: this is a structure of numbers, for which zeros are valid values.
        let mut map: ExtentMap = unsafe { std::mem::zeroed() };
        (map.start, map.length, map.room) = (at, bytes - at, EXTENTS as u32);
        // SAFETY: the call writes at most `room` extents behind the head of the structure, which is borrowed for this call only; the
        // descriptor is open, since `file` is borrowed.
        let asked = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
        match succeeded(asked) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL | libc::EPERM)) => {
                return Err(super::error(libc::EOPNOTSUPP));
            }
            asked => asked?,
        }
        let found = &map.extents[..EXTENTS.min(map.mapped as usize)];
        for extent in found {
            let end = (extent.logical + extent.length).min(bytes);
            if extent.logical.min(bytes) > at {
                lacking.push(at..extent.logical.min(bytes));
            }
            if extent.flags & FIEMAP_EXTENT_SHARED != 0 && at.max(extent.logical) < end {
                lacking.push(at.max(extent.logical)..end);
            }
            at = at.max(end);
        }
        if found.last().is_none_or(|last| last.flags & FIEMAP_EXTENT_LAST != 0) {
            break;
        }
    }
    if at < bytes {
        lacking.push(at..bytes);
    }
    Ok(lacking)
}

/// Gives the `bytes` bytes of `file` at `at` disk space of their own, if they share it with other files.
pub fn unshare(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    match change_space(file, FALLOC_FL_UNSHARE_RANGE, at, bytes) {
        // File systems without shared extents also return this error.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(super::error(libc::EOPNOTSUPP)),
        done => done,
    }
}

/// Returns the bytes of memory that this process may have: the machine's, or the smallest limit of its control groups (`memory.max`, and
/// `memory.limit_in_bytes` of version 1).
pub fn memory_limit() -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(group_limit).fold(machine_memory(), u64::min)
}

/// Returns the smallest memory limit of the group in a line of `/proc/self/cgroup` and of its ancestors.
///
/// ```text
/// 4:memory:/docker/53d1
/// 0::/user.slice
/// ```
fn group_limit(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    // In a container, the group's name may not exist there, but the root is the container's own group.
    let ancestors = Path::new(group).ancestors().filter_map(|group| group.strip_prefix("/").ok());
    let limit = |group: &Path| std::fs::read_to_string(Path::new(root).join(group).join(file)).ok();
    ancestors.filter_map(limit).filter_map(|limit| limit.trim().parse().ok()).min()
}

fn file_system(file: &File) -> io::Result<u32> {
    // SAFETY: this is a structure of numbers, for which zeros are valid values.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the structure can be written for the whole call; the descriptor is open, since `file` is borrowed.
    succeeded(unsafe { libc::fstatfs(file.as_raw_fd(), &mut about) })?;
    Ok(about.f_type as u32)
}

fn inode_flags(file: &File) -> io::Result<c_int> {
    let mut flags: c_int = 0;
    // SAFETY: the call writes a number to the given variable; the descriptor is open, since `file` is borrowed.
    succeeded(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) })?;
    Ok(flags)
}

/// Makes an empty `file` be overwritten in place, on a file system that would otherwise write to another place and can be told not to.
pub fn overwrite_in_place(file: &File) -> io::Result<()> {
    if file_system(file)? != BTRFS {
        return Ok(());
    }
    let flags = inode_flags(file)? | FS_NOCOW_FL;
    // SAFETY: the call reads a number from the given variable; the descriptor is open, since `file` is borrowed.
    succeeded(unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) })
}

/// Returns whether overwriting a part of `file` takes new disk space, although the part has some.
pub fn overwriting_takes_space(file: &File) -> io::Result<bool> {
    match file_system(file)? {
        BTRFS => Ok(inode_flags(file)? & FS_NOCOW_FL == 0),
        other => Ok(COPYING.contains(&other)),
    }
}

/// Returns whether the file system allocates space when a process reads a hole of `file` through a mapping. Such a read is a bus error on a full file
/// system.
pub fn reading_holes_takes_space(file: &File) -> io::Result<bool> {
    Ok(file_system(file)? == TMPFS)
}

/// Opens `file` a second time, past the page cache. If `durable`, each write is durable when it returns.
pub fn open_unbuffered(file: &File, writable: bool, durable: bool) -> io::Result<File> {
    let flags = libc::O_DIRECT | if durable { libc::O_DSYNC } else { 0 };
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    super::open(OpenOptions::new().read(true).write(writable).custom_flags(flags), Path::new(&name))
}

/// Starts to write this part of the file to the disk, without waiting. Errors are ignored: a later flush writes the pages, and returns the
/// error of a write that failed.
pub fn begin_writing(file: &File, at: u64, bytes: u64) {
    let (Ok(at), Ok(bytes)) = (offset(at), offset(bytes)) else { return };
    // SAFETY: the descriptor is open for the whole call, which changes no memory.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), at, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Writes some of `from` to `file` at `at`, durably. Returns the number of bytes.
pub fn write_durable(file: &File, at: u64, from: &[u8]) -> io::Result<usize> {
    let at = offset(at)?;
    // The call only reads the bytes, but an `iovec` has no form without write access.
    let part = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    // SAFETY: there is one part, whose bytes are borrowed for the whole call, which reads them; the descriptor is open.
    let written = unsafe { libc::pwritev2(file.as_raw_fd(), &part, 1, at, libc::RWF_DSYNC) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Returns the number of names of `file`, and its size in bytes.
///
/// It requests nothing else: after a request for a file's times, a file system must keep these exactly at the next write, which costs more
/// than the request. Times are requested only if `statx` is missing or forbidden.
pub fn links_and_bytes(file: &File) -> io::Result<(u32, u64)> {
    let wanted = libc::STATX_NLINK | libc::STATX_SIZE;
    // SAFETY: this is a structure of numbers, for which zeros are valid values.
    let mut about: libc::statx = unsafe { std::mem::zeroed() };
    let name = c"".as_ptr();
    // SAFETY: the name is an empty string, which with the flag means the descriptor's file, and `about` can be written for the whole call.
    let asked = unsafe { libc::statx(file.as_raw_fd(), name, libc::AT_EMPTY_PATH, wanted, &mut about) };
    match succeeded(asked) {
        Err(error) if is_refused(&error) => {
            let about = file.metadata()?;
            Ok((u32::try_from(about.nlink()).unwrap_or(u32::MAX), about.len()))
        }
        asked => asked.map(|()| (about.stx_nlink, about.stx_size)),
    }
}

/// Renames the file `from` to `to`, unless a file named `to` exists.
pub fn rename_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (c_string(from)?, c_string(to)?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: both strings end in zeros and live for the whole call, which reads them.
    let renamed =
        unsafe { libc::syscall(libc::SYS_renameat2, here, old.as_ptr(), here, new.as_ptr(), flags) };
    match succeeded(renamed) {
        // The system, or the file system, does not know the flag, or a filter forbids the call.
        Err(error) if is_refused(&error) || error.raw_os_error() == Some(libc::EINVAL) => {
            super::rename_under_lock(from, to)
        }
        renamed => renamed,
    }
}

/// Returns unpredictable random bytes.
pub fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut done = 0;
    while let rest @ [_, ..] = &mut bytes[done..] {
        // SAFETY: the call writes at most `rest.len()` bytes to `rest`, which is borrowed for this call only.
        let drawn = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(drawn) {
            Ok(drawn) => done += drawn,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            // If the call is unknown or forbidden, the file is used.
            Err(_) => {
                File::open("/dev/urandom")?.read_exact(rest)?;
                break;
            }
        }
    }
    Ok(bytes)
}
