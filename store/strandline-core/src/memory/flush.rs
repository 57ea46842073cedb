//! Flushes: the only code that makes files durable, and that handles failed flushes.
//!
//! # A failed flush ends the pool
//!
//! The system reports a lost write-back only once: the next flush of the same file succeeds, although what was written before the failure may never
//! reach the medium. So no acknowledgement after a failed flush would be reliable, whichever file was flushed (heap, log, checksums) and for whatever
//! purpose (a commit, a checkpoint, a longer file, the end of the pool).
//!
//! *Invariant*: while a pool is open, each write and flush of its files goes through its [`Poison`], either in [`Guarded`] if the pool has a device,
//! or in the [`Mapping`](super::Mapping). The first failure is kept with its cause: later writes and flushes fail without being tried, and
//! [`Poison::check`], which each transaction calls when it begins, returns [`Error::Poisoned`]. So it does not matter what the caller does with the
//! result. A test keeps other code from flushing files, and from dropping results of flushes (`tests/all/flushes.rs`).
//!
//! *Exception*: a file that cannot be extended, as on a full disk, has lost nothing. [`Device::extend`], [`Device::fill`], [`Device::allocate`] and
//! [`Device::punch`] concern parts of files to which nothing refers yet, or any more, and their failures are ordinary errors. The flush of an
//! extended file is no exception.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use super::device::{Device, DeviceFile};
use super::{PAGE_BYTES, system};
use crate::error::{Error, FILE_GONE, Result};

/// Waits until all of the file is durable, including its length.
///
/// # Errors
/// Returns the system's error. What was written since the last flush may then be lost. For a file of an open pool, call this through its
/// [`Poison::guard`].
pub fn file(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Like [`file()`], but without what is not needed to read the file, such as its times.
///
/// # Errors
/// Returns the errors of [`file()`].
pub fn data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Waits until the names in the folder are durable.
///
/// # Errors
/// Returns the system's error.
pub fn folder(path: &Path) -> io::Result<()> {
    system::open_to_read(path)?.sync_all()
}

/// The first failure of an open pool, after which no acknowledgement would be reliable.
#[derive(Debug, Default)]
pub struct Poison {
    /// The path of the pool's file; empty if it is not known.
    path: PathBuf,
    cause: OnceLock<Cause>,
}

#[derive(Debug)]
struct Cause {
    why: String,
    kind: io::ErrorKind,
    /// The number of the system's error.
    number: i32,
}

impl Poison {
    /// Creates the state of the pool at `path`, without a failure.
    pub(crate) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), cause: OnceLock::new() }
    }

    /// Adds the path of the pool's file to `error`, if it is known.
    #[cold]
    pub(crate) fn in_pool(&self, error: Error) -> Error {
        if self.path.as_os_str().is_empty() { error } else { error.in_pool(&self.path) }
    }

    /// Checks that there was no failure.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] with the cause if there was one.
    pub fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(poisoned(cause)),
        }
    }

    /// Poisons the pool, because `what` failed with `error`. The first cause is kept.
    #[cold]
    pub fn set(&self, what: &str, error: &io::Error) {
        let is_gone = error.raw_os_error() == Some(libc::ESTALE);
        let why = if is_gone { FILE_GONE.to_owned() } else { format!("{what}: {error}") };
        self.cause.get_or_init(|| Cause {
            why,
            kind: error.kind(),
            number: error.raw_os_error().unwrap_or(libc::EIO),
        });
    }

    /// Runs `step`, which writes to or flushes a file of the pool, unless an earlier step has failed. Poisons the pool if the step fails.
    ///
    /// # Errors
    /// Returns the error of `step` or of the first failure.
    pub fn guard<T>(&self, what: &str, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if let Some(cause) = self.cause.get() {
            return Err(system::error(cause.number));
        }
        step().inspect_err(|error| self.set(what, error))
    }
}

#[cold]
fn poisoned(cause: &Cause) -> Error {
    Error::Poisoned { why: cause.why.clone(), kind: cause.kind }
}

/// The device of an open pool, with the pool's [`Poison`].
pub struct Guarded<P> {
    device: P,
    poison: Arc<Poison>,
    /// Locked while a thread flushes the heap file.
    flushing_heap: Mutex<()>,
    /// True if a mutant does not note failed flushes of files that have grown.
    swallows_growth: bool,
}

impl<P: Deref<Target: Device>> Guarded<P> {
    /// Creates the device over `device`, whose failures `poison` keeps.
    pub fn new(device: P, poison: Arc<Poison>) -> Self {
        Self { device, poison, flushing_heap: Mutex::default(), swallows_growth: false }
    }

    /// Leaves out noting failures of growth if `left_out` is set, for a mutant of the crash checker.
    #[doc(hidden)]
    pub fn without_growth(self, left_out: bool) -> Self {
        Self { swallows_growth: left_out, ..self }
    }
}

fn writing(file: DeviceFile) -> &'static str {
    match file {
        DeviceFile::Heap => "writing the heap",
        DeviceFile::Log => "writing the log",
        DeviceFile::Checksums => "writing the checksums",
    }
}

fn flushing(file: DeviceFile) -> &'static str {
    match file {
        DeviceFile::Heap => "flushing the heap",
        DeviceFile::Log => "flushing the log",
        DeviceFile::Checksums => "flushing the checksums",
    }
}

impl<P: Deref<Target: Device>> Device for Guarded<P> {
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.device.read(file, offset, into)
    }

    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.poison.guard(writing(file), || self.device.write(file, offset, from))
    }

    fn write_kept(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.poison.guard(writing(file), || self.device.write_kept(file, offset, from))
    }

    fn write_pages(&self, file: DeviceFile, pages: &[u64], contents: &[u8]) -> io::Result<()> {
        self.poison.guard(writing(file), || self.device.write_pages(file, pages, contents))
    }

    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.poison.guard(writing(file), || self.device.write_durable(file, offset, from))
    }

    fn flush(&self, file: DeviceFile) -> io::Result<()> {
        // The system reports a failure only once, so a second thread must wait until it can find the poison.
        let _one = (file == DeviceFile::Heap)
            .then(|| self.flushing_heap.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        self.poison.guard(flushing(file), || self.device.flush(file))
    }

    fn size(&self, file: DeviceFile) -> io::Result<u64> {
        self.device.size(file)
    }

    fn extend(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        self.unless_failed(|| self.device.extend(file, bytes))
    }

    fn grow(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        self.extend(file, bytes)?;
        match self.swallows_growth {
            false => self.flush(file),
            true => self.device.flush(file).or(Ok(())),
        }
    }

    fn fill(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        self.unless_failed(|| self.device.fill(file, offset, bytes))
    }

    fn allocate(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        self.unless_failed(|| self.device.allocate(file, offset, bytes))
    }

    fn needs_space(&self, file: DeviceFile) -> bool {
        self.device.needs_space(file)
    }

    fn punch(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        if file == DeviceFile::Heap {
            self.forget_checksums(&mut (offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES)))?;
        }
        self.unless_failed(|| self.device.punch(file, offset, bytes))
    }

    fn forget_checksums(&self, pages: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        self.poison.guard(writing(DeviceFile::Checksums), || self.device.forget_checksums(pages))
    }

    fn check(&self) -> Result<()> {
        self.poison.check()
    }

    fn sector(&self, file: DeviceFile) -> u64 {
        self.device.sector(file)
    }

    fn is_direct(&self, file: DeviceFile) -> bool {
        self.device.is_direct(file)
    }
}

impl<P> Guarded<P> {
    /// Runs `step` unless the pool is poisoned. An error of `step` does not poison the pool.
    fn unless_failed<T>(&self, step: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.poison.cause.get() {
            None => step(),
            Some(cause) => Err(system::error(cause.number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_kept_and_nothing_is_tried_after_it() {
        let poison = Poison::default();
        assert!(poison.check().is_ok());
        assert_eq!(poison.guard("writing", || Ok(5)).unwrap(), 5);
        for (number, tried) in [(libc::EIO, true), (libc::ENOSPC, false)] {
            let mut was_tried = false;
            let failed = poison.guard("flushing the heap", || {
                was_tried = true;
                Err::<(), _>(system::error(number))
            });
            assert_eq!((failed.unwrap_err().raw_os_error(), was_tried), (Some(libc::EIO), tried));
            let why = poison.check().unwrap_err().to_string();
            assert!(why.contains("flushing the heap: Input/output error"), "{why}");
        }
    }
}
