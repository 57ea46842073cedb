//! The disk under this process. It records the writes to the files of one folder, computes what a power failure at any time may leave of them, and
//! fails or is slow on demand.
//!
//! This module defines the functions of the C library again, so that all code of the test's process calls them. They do the same as the system's.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_long, c_void};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{off64_t, size_t, ssize_t};

/// The unit that a power failure writes completely or not at all.
const SECTOR: usize = 512;

/// The events on the folder's files, in order.
#[derive(Clone)]
pub enum Event {
    /// Bytes were written, durably or until the next flush.
    Write { file: usize, at: u64, bytes: Vec<u8>, durable: bool },
    /// The file's length changed, durable with the next flush.
    Length { file: usize, bytes: u64 },
    /// Everything written to the file became durable. Has the file's contents if writes to it are not recorded.
    Flush { file: usize, contents: Option<Vec<u8>> },
    /// The folder's names changed to these.
    Names(Names),
    /// The folder's names became durable.
    FlushNames,
    /// The program got a report.
    Said { what: &'static str, number: u64 },
}

/// Files by name.
pub type Names = BTreeMap<String, usize>;

struct Recorder {
    folder: PathBuf,
    events: Vec<Event>,
    names: Names,
    /// Files by inode. They are kept open, so that no number is used again.
    files: Vec<(u64, File)>,
}

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);
/// Number of flushes and durable writes that succeed before all fail. If negative, all succeed.
static GOOD: AtomicI64 = AtomicI64::new(-1);
/// Microseconds that each of them takes in addition.
static DELAY: AtomicU64 = AtomicU64::new(0);
/// Number of flushes and durable writes so far.
static FLUSHES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True during the recorder's own calls, which are not recorded.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts to record the events on the files of this folder.
pub fn record(folder: &Path) {
    let folder = folder.canonicalize().expect("the folder exists");
    *recorder() = Some(Recorder { folder, events: vec![], names: Names::new(), files: vec![] });
}

/// Ends the recording, and returns the events.
pub fn recorded() -> Vec<Event> {
    recorder().take().expect("it was begun").events
}

/// Records a report to the program.
pub fn said(what: &'static str, number: u64) {
    if let Some(recorder) = &mut *recorder() {
        recorder.events.push(Event::Said { what, number });
    }
}

/// Makes all flushes and durable writes fail after this number of further ones, or none if `None`.
pub fn fail_after(flushes: Option<u64>) {
    GOOD.store(flushes.map_or(-1, |flushes| i64::try_from(flushes).unwrap_or(i64::MAX)), Ordering::SeqCst);
}

/// Makes each flush and durable write take this much longer.
pub fn delay(by: Duration) {
    DELAY.store(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
}

/// Returns the number of flushes and durable writes so far.
pub fn flushes() -> u64 {
    FLUSHES.load(Ordering::SeqCst)
}

impl Recorder {
    /// Returns the number of a descriptor's file, if the file is in the folder.
    fn file(&mut self, descriptor: c_int) -> Option<usize> {
        let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
        if path.parent() != Some(&self.folder) {
            return None;
        }
        // The file is opened again, since a duplicate of the descriptor would share the file's lock.
        self.number(File::open(format!("/proc/self/fd/{descriptor}")).ok()?)
    }

    fn number(&mut self, file: File) -> Option<usize> {
        let inode = file.metadata().ok()?.ino();
        Some(match self.files.iter().position(|(known, _)| *known == inode) {
            Some(number) => number,
            None => {
                self.files.push((inode, file));
                self.files.len() - 1
            }
        })
    }

    fn look_at_names(&mut self) {
        let mut names = Names::new();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if let Ok(file) = File::open(entry.path())
                && let Some(number) = self.number(file)
            {
                names.insert(entry.file_name().to_string_lossy().into_owned(), number);
            }
        }
        if names != self.names {
            self.names.clone_from(&names);
            self.events.push(Event::Names(names));
        }
    }

    fn flushed(&mut self, descriptor: c_int) {
        let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).unwrap_or_default();
        if path == self.folder {
            self.events.push(Event::FlushNames);
        } else if let Some(file) = self.file(descriptor) {
            // The system copies to the files of snapshots without a write by the program.
            let is_snapshot = path.to_string_lossy().contains(".raft-");
            let contents = is_snapshot.then(|| std::fs::read(&path).unwrap_or_default());
            self.events.push(Event::Flush { file, contents });
        }
    }
}

/// Makes a call, and records it if it succeeded. Nothing else is recorded meanwhile, so that the order is that of the disk.
fn noted<T: Copy + PartialOrd + Default>(call: impl FnOnce() -> T, note: impl FnOnce(&mut Recorder, T)) -> T {
    if INSIDE.replace(true) {
        return call();
    }
    let mut recorder = recorder();
    if let Some(recorder) = &mut *recorder {
        recorder.look_at_names();
    }
    let result = call();
    if let Some(recorder) = &mut *recorder
        && result >= T::default()
    {
        note(recorder, result);
    }
    drop(recorder);
    INSIDE.set(false);
    result
}

fn fail() -> c_int {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() = libc::EIO };
    -1
}

/// Every flush and durable write calls this. Returns `false` if it fails.
fn meet() -> bool {
    FLUSHES.fetch_add(1, Ordering::SeqCst);
    match DELAY.load(Ordering::SeqCst) {
        0 => {}
        by => std::thread::sleep(Duration::from_micros(by)),
    }
    let take = |good: i64| (good > 0).then(|| good - 1);
    GOOD.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) != Err(0)
}

fn is_durable(descriptor: c_int) -> bool {
    // SAFETY: the call reads no memory.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_DSYNC != 0
}

/// # Safety
/// The conditions are those of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    descriptor: c_int,
    from: *const c_void,
    count: size_t,
    at: off64_t,
) -> ssize_t {
    let durable = is_durable(descriptor);
    if durable && !meet() {
        return fail() as ssize_t;
    }
    noted(
        // SAFETY: the caller keeps the function's contract.
        || unsafe { libc::syscall(libc::SYS_pwrite64, descriptor, from, count, at) } as ssize_t,
        |recorder, written| {
            if let Some(file) = recorder.file(descriptor) {
                // SAFETY: this many bytes were just read from there, and the caller's borrow of them lasts.
                let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), written as usize) };
                recorder.events.push(Event::Write { file, at: at as u64, bytes: bytes.to_vec(), durable });
            }
        },
    )
}

/// # Safety
/// The conditions are those of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(
    descriptor: c_int,
    parts: *const libc::iovec,
    count: c_int,
    at: off64_t,
    flags: c_int,
) -> ssize_t {
    let durable = is_durable(descriptor) || flags & libc::RWF_DSYNC != 0;
    if durable && !meet() {
        return fail() as ssize_t;
    }
    noted(
        // SAFETY: the caller keeps the function's contract. The offset is passed in two parts, of which 64-bit systems use the first.
        || unsafe {
            libc::syscall(libc::SYS_pwritev2, descriptor, parts, count as c_long, at, 0 as c_long, flags)
        } as ssize_t,
        |recorder, written| {
            if let Some(file) = recorder.file(descriptor) {
                // SAFETY: the caller keeps the function's contract, and the system has just read the array.
                let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
                let mut bytes = vec![];
                for part in parts {
                    // SAFETY: the system has just read this buffer.
                    let part =
                        unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
                    bytes.extend_from_slice(part);
                }
                bytes.truncate(written as usize);
                recorder.events.push(Event::Write { file, at: at as u64, bytes, durable });
            }
        },
    )
}

fn flush(call: c_long, descriptor: c_int) -> c_int {
    if !meet() {
        return fail();
    }
    noted(
        // SAFETY: the call reads no memory.
        || unsafe { libc::syscall(call, descriptor) } as c_int,
        |recorder, _| recorder.flushed(descriptor),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    flush(libc::SYS_fdatasync, descriptor)
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(descriptor: c_int) -> c_int {
    flush(libc::SYS_fsync, descriptor)
}

fn note_length(recorder: &mut Recorder, descriptor: c_int) {
    if let Some(file) = recorder.file(descriptor)
        && let Ok(about) = std::fs::metadata(format!("/proc/self/fd/{descriptor}"))
    {
        recorder.events.push(Event::Length { file, bytes: about.len() });
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ftruncate64(descriptor: c_int, length: off64_t) -> c_int {
    noted(
        // SAFETY: the call reads no memory.
        || unsafe { libc::syscall(libc::SYS_ftruncate, descriptor, length) } as c_int,
        |recorder, _| note_length(recorder, descriptor),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn fallocate(descriptor: c_int, mode: c_int, at: off64_t, length: off64_t) -> c_int {
    noted(
        // SAFETY: the call reads no memory.
        || unsafe { libc::syscall(libc::SYS_fallocate, descriptor, mode, at, length) } as c_int,
        |recorder, _| {
            note_length(recorder, descriptor);
            if mode & libc::FALLOC_FL_PUNCH_HOLE != 0
                && let Some(file) = recorder.file(descriptor)
            {
                let bytes = vec![0; length as usize];
                recorder.events.push(Event::Write { file, at: at as u64, bytes, durable: false });
            }
        },
    )
}

/// A file on the medium, and its contents in the cache.
#[derive(Clone, Default)]
struct Contents {
    medium: Vec<u8>,
    cache: Vec<u8>,
    /// The contents that were written to a sector since it was last durable, in order.
    pending: BTreeMap<usize, Vec<[u8; SECTOR]>>,
}

impl Contents {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = (at + bytes.len()).max(self.cache.len());
        self.cache.resize(end, 0);
        self.cache[at..at + bytes.len()].copy_from_slice(bytes);
        for sector in at / SECTOR..(at + bytes.len()).div_ceil(SECTOR) {
            let version = self.sector(sector);
            self.pending.entry(sector).or_default().push(version);
        }
    }

    fn sector(&self, sector: usize) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        let part = &self.cache[sector * SECTOR..((sector + 1) * SECTOR).min(self.cache.len())];
        bytes[..part.len()].copy_from_slice(part);
        bytes
    }

    fn settle(&mut self, sector: usize, bytes: &[u8; SECTOR]) {
        let at = sector * SECTOR;
        if self.medium.len() < at + SECTOR {
            self.medium.resize((at + SECTOR).min(self.cache.len()).max(self.medium.len()), 0);
        }
        let end = (at + SECTOR).min(self.medium.len());
        if at < end {
            self.medium[at..end].copy_from_slice(&bytes[..end - at]);
        }
    }

    fn flush(&mut self) {
        self.medium.clone_from(&self.cache);
        self.pending.clear();
    }

    /// Makes the bytes of one write durable, and no others.
    fn flush_part(&mut self, at: usize, length: usize) {
        for sector in at / SECTOR..(at + length).div_ceil(SECTOR) {
            if self.pending.remove(&sector).is_some() {
                let bytes = self.sector(sector);
                self.settle(sector, &bytes);
            }
        }
    }

    fn left(&self, survives: Survives, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut left = self.clone();
        match survives {
            Survives::Flushed => {}
            Survives::Everything => left.flush(),
            Survives::Some => {
                if random.bool() {
                    left.medium.resize(left.cache.len(), 0);
                }
                for (sector, versions) in std::mem::take(&mut left.pending) {
                    let choice = random.usize(..=versions.len());
                    if choice > 0 {
                        left.settle(sector, &versions[choice - 1]);
                    }
                }
            }
        }
        left.medium
    }
}

/// The part of the changes without a flush that survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Survives {
    /// None.
    Flushed,
    /// All.
    Everything,
    /// Some sectors, each with one of the contents that it had since it was last flushed.
    Some,
}

/// The disk at some moment of a recording.
#[derive(Default)]
pub struct Disk {
    files: Vec<Contents>,
    names: Names,
    durable_names: Names,
    /// The last report to the program of each kind.
    pub said: BTreeMap<&'static str, u64>,
}

impl Disk {
    fn file(&mut self, file: usize) -> &mut Contents {
        if self.files.len() <= file {
            self.files.resize_with(file + 1, Contents::default);
        }
        &mut self.files[file]
    }

    /// Begins an event: from now on a write that is on its way may survive.
    pub fn begin(&mut self, event: &Event) {
        match event {
            Event::Write { file, at, bytes, .. } => self.file(*file).write(*at as usize, bytes),
            Event::Length { file, bytes } => {
                let contents = self.file(*file);
                contents.cache.resize(*bytes as usize, 0);
                contents.pending.retain(|sector, _| ((sector * SECTOR) as u64) < *bytes);
            }
            Event::Flush { file, contents: Some(contents) } => {
                self.file(*file).cache.clone_from(contents);
            }
            Event::Names(names) => {
                self.names.clone_from(names);
                let last = names.values().max().copied().unwrap_or(0);
                self.file(last);
            }
            Event::Said { what, number } => {
                self.said.insert(what, *number);
            }
            Event::Flush { .. } | Event::FlushNames => {}
        }
    }

    /// Ends an event.
    pub fn end(&mut self, event: &Event) {
        match event {
            Event::Write { file, at, bytes, durable: true } => {
                self.file(*file).flush_part(*at as usize, bytes.len());
            }
            Event::Flush { file, .. } => self.file(*file).flush(),
            Event::FlushNames => self.durable_names.clone_from(&self.names),
            _ => {}
        }
    }

    /// Writes the state that a power failure now leaves into an empty folder.
    pub fn leave(&self, survives: Survives, random: &mut fastrand::Rng, folder: &Path) {
        let names = match survives {
            Survives::Flushed => &self.durable_names,
            Survives::Everything => &self.names,
            Survives::Some => [&self.durable_names, &self.names][random.usize(..2)],
        };
        for (name, file) in names {
            let bytes = self.files[*file].left(survives, random);
            let target = File::create(folder.join(name)).expect("the folder takes files");
            target.set_len(bytes.len() as u64).expect("there is space");
            for (number, piece) in bytes.chunks(4096).enumerate() {
                if piece.iter().any(|byte| *byte != 0) {
                    target.write_all_at(piece, 4096 * number as u64).expect("there is space");
                }
            }
        }
    }

    /// Returns whether a power failure would lose nothing.
    pub fn is_settled(&self) -> bool {
        self.names == self.durable_names && self.files.iter().all(|file| file.pending.is_empty())
    }
}

/// Returns whether this event makes something durable, so that a cut before its end is interesting.
pub fn makes_durable(event: &Event) -> bool {
    matches!(event, Event::Write { durable: true, .. } | Event::Flush { .. } | Event::FlushNames)
}
