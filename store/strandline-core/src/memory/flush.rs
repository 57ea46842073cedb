//! Flushes: the one place that makes files durable, and what a failed flush leaves behind.
//!
//! # A failed flush ends the pool
//!
//! The system reports a lost write-back once: the next flush of the same file succeeds, although what was written before the failure may
//! never reach the medium. So nothing that is acknowledged after a failed flush can be believed, whichever file it was of (heap, log,
//! checksums) and whatever it was for (a commit, a checkpoint, a longer file, the end of the pool).
//!
//! *Invariant*: while a pool is open, each write and flush of its files goes through its [`Poison`], in [`Guarded`] where a device is
//! behind the pool, in the [`Mapping`](super::Mapping) elsewhere. The first failure is kept for good, with its cause: later writes and
//! flushes fail without being tried, and [`Poison::check`], which each transaction asks when it begins, answers [`Error::Poisoned`]. So
//! it does not matter what the caller does with the result. A test keeps other code from flushing files, and from dropping
//! results of flushes (`tests/all/flushes.rs`).
//!
//! *Exception*: a file that cannot become longer, as on a full disk, has lost nothing. [`Device::extend`], [`Device::fill`],
//! [`Device::allocate`] and [`Device::punch`] concern parts of files that nothing refers to yet, or any more, and their failures are
//! ordinary errors. The flush that makes a longer file durable is a flush.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use super::device::{Device, DeviceFile};
use super::{PAGE_BYTES, system};
use crate::error::{Error, FILE_GONE, Result};

/// Waits until all of the file, its length included, is durable.
///
/// # Errors
/// The system's. What was written since the last flush may be lost then; for a file of an open pool the call goes through its
/// [`Poison::guard`].
pub fn file(file: &File) -> io::Result<()> {
    file.sync_all()
}

/// Like [`file()`], but leaves out what is not needed to read the file, such as its times.
///
/// # Errors
/// As for [`file()`].
pub fn data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Waits until the names in the folder are durable.
///
/// # Errors
/// The system's.
pub fn folder(path: &Path) -> io::Result<()> {
    system::open_to_read(path)?.sync_all()
}

/// Why nothing that an open pool acknowledges could be believed any more, if that is so.
#[derive(Debug, Default)]
pub struct Poison {
    /// The pool's file; empty where it is not known.
    path: PathBuf,
    cause: OnceLock<Cause>,
}

#[derive(Debug)]
struct Cause {
    why: String,
    kind: io::ErrorKind,
    /// Of the system.
    number: i32,
}

impl Poison {
    /// Of the pool at `path`, whose file had no failure yet.
    pub(crate) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), cause: OnceLock::new() }
    }

    /// `error`, which names the pool's file, where that is known.
    #[cold]
    pub(crate) fn in_pool(&self, error: Error) -> Error {
        if self.path.as_os_str().is_empty() { error } else { error.in_pool(&self.path) }
    }

    /// Fails from the first failure on.
    ///
    /// # Errors
    /// [`Error::Poisoned`], with the cause.
    pub fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(poisoned(cause)),
        }
    }

    /// Poisons, because `what` failed with `error`. The first cause is kept.
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

    /// Runs `step`, which writes to or flushes a file of the pool, unless something failed before; poisons if it fails.
    ///
    /// # Errors
    /// Those of `step`, or the error of the first failure.
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

/// The device of an open pool: keeps its [`Poison`].
pub struct Guarded<P> {
    device: P,
    poison: Arc<Poison>,
    /// Held by the one that flushes the heap file.
    flushing_heap: Mutex<()>,
    /// For a mutant: failed flushes of files that have grown are not noted.
    swallows_growth: bool,
}

impl<P: Deref<Target: Device>> Guarded<P> {
    /// Over `device`, whose failures `poison` is to keep.
    pub fn new(device: P, poison: Arc<Poison>) -> Self {
        Self { device, poison, flushing_heap: Mutex::default(), swallows_growth: false }
    }

    /// The same, wrong if `left_out`: for a mutant of the crash checker.
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
        // The system tells of a failure once: whoever comes second is to find the poison.
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
    /// Runs `step`, whose failure is an ordinary error.
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
