//! Locks on a pool's files, and the processes that hold them.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::memory::SharedFile;

/// Locks `file` for this process alone or, with `shared`, beside other readers. Returns false if another process has locked it.
///
/// # Errors
/// Returns an error if the system cannot lock the file, because its file system has no locks or something forbids them.
pub(super) fn try_lock(file: &SharedFile, shared: bool) -> io::Result<bool> {
    match if shared { file.try_lock_shared() } else { file.try_lock() } {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns a function that wraps the error that the file at `path` cannot be locked.
pub(super) fn cannot_lock(path: &Path) -> impl Fn(io::Error) -> Error {
    let what = format!(
        "lock {} (flock); keep the pool on a file system that has locks, which keep two processes from changing it at once",
        path.display()
    );
    move |error| Error::io(what.clone(), error)
}

/// Locks `file`, which was found at `path`, for this process alone or, with `read_only`, beside other readers.
///
/// # Errors
/// Returns [`Error::Locked`], which names the processes that hold the lock if the system tells them, and [`Error::Io`] if the system cannot lock the
/// file.
pub(super) fn lock(file: &SharedFile, path: &Path, read_only: bool) -> Result<()> {
    if try_lock(file, read_only).map_err(cannot_lock(path))? {
        return Ok(());
    }
    // This comes before a lock of our own is in the list.
    let by = holders(file);
    let readers = try_lock(file, true).is_ok_and(|locked| locked);
    Err(Error::Locked { path: path.to_owned(), held: if readers { "reading" } else { "writing" }, by })
}

/// Describes the processes that hold a lock on `file`, or returns `None` if the system does not tell.
#[cfg(not(target_os = "linux"))]
pub(super) fn holders(_: &File) -> Option<String> {
    None
}

/// Describes the processes that hold a lock on `file`, or returns `None` if the system does not tell.
#[cfg(target_os = "linux")]
pub(super) fn holders(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt;

    let about = file.metadata().ok()?;
    let (major, minor) = (libc::major(about.dev()), libc::minor(about.dev()));
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let mut holders: Vec<String> = locks
        .lines()
        .filter_map(|line| holder(line, (major, minor, about.ino())))
        .map(|process| match std::fs::read_to_string(format!("/proc/{process}/comm")) {
            _ if process == std::process::id() => "this process itself".to_owned(),
            Ok(command) => format!("process {process} ({})", command.trim_end()),
            Err(_) => format!("process {process}"),
        })
        .collect();
    holders.dedup();
    (!holders.is_empty()).then(|| holders.join(", "))
}

/// Returns the process in a line of `/proc/locks` if it holds a lock on this file, which is given by device numbers and inode.
///
/// ```text
/// 1: FLOCK  ADVISORY  WRITE 708 00:13:1234 0 EOF
/// ```
#[cfg(target_os = "linux")]
fn holder(line: &str, file: (u32, u32, u64)) -> Option<u32> {
    let mut fields = line.split_whitespace().skip(1);
    let is_flock = fields.next()? == "FLOCK";
    let process = fields.nth(2)?;
    let mut place = fields.next()?.split(':');
    let major = u32::from_str_radix(place.next()?, 16).ok()?;
    let minor = u32::from_str_radix(place.next()?, 16).ok()?;
    let inode = place.next()?.parse().ok()?;
    if is_flock && (major, minor, inode) == file { process.parse().ok() } else { None }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_in_the_line_of_its_file() {
        let line = "12: FLOCK  ADVISORY  WRITE 708 fe:1a:264341 0 EOF";
        assert_eq!(holder(line, (0xfe, 0x1a, 264_341)), Some(708));
        assert_eq!(holder(line, (0xfe, 0x1a, 264_342)), None);
        // The line of a process that waits has another form.
        assert_eq!(
            holder("12: -> FLOCK  ADVISORY  WRITE 708 fe:1a:264341 0 EOF", (0xfe, 0x1a, 264_341)),
            None
        );
        assert_eq!(holder("12: POSIX  ADVISORY  WRITE 708 fe:1a:264341 0 EOF", (0xfe, 0x1a, 264_341)), None);
        assert_eq!(holder("nonsense", (0, 0, 0)), None);
    }
}
