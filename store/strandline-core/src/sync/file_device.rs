//! The device of real files.
//!
//! *The log* is written with `O_DIRECT | O_DSYNC`: past the page cache and durable on return. This is cheap because the file is filled with zeros
//! beforehand, so that no metadata changes. If the file system refuses `O_DIRECT` (tmpfs), the log is written with `pwritev2(RWF_DSYNC)`, and if that
//! is refused too, with a write and fdatasync.
//!
//! *The heap* is written with `O_DIRECT` if possible, so that a checkpoint does not fill the page cache with data that the next flush has to write.
//! It becomes durable with fdatasync.
//!
//! The unbuffered descriptors are opened beside the given ones and tried immediately; one that is refused is never used. Transfers that are not
//! aligned go through the page cache.
//!
//! On macOS both files are written through the page cache, and become durable with `F_FULLFSYNC`, which the standard library's `sync_data` uses
//! there.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::durations::{Durations, Stopwatch};
use crate::layout::PAGE_BYTES;
use crate::memory::device::{ALIGNMENT, AlignedBuffer, Device, DeviceFile};
use crate::memory::threads::{panic_error, start_scoped};
use crate::memory::{SharedFile, allocate, extend, fill_holes, flush, lacking_space, system};

/// The heap file and the log file of a pool.
///
/// ```
/// # use strandline_core::example::*;
/// # let device = device();
/// device.grow(DeviceFile::Log, 8192).unwrap();
/// // On the medium when this returns.
/// device.write_durable(DeviceFile::Log, 4096, &[7; 4096]).unwrap();
/// assert_eq!(device.counters().log_bytes, 4096);
/// ```
pub struct FileDevice {
    heap: OpenFile,
    log: OpenFile,
    checksums: Option<OpenFile>,
    /// The least sizes that heap and log have, in bytes.
    sizes: [AtomicU64; 2],
    /// The offset from which on the heap file has no holes, because it has grown there since it was opened.
    solid: AtomicU64,
    /// True if parts of the heap file that are in use have no disk space of their own.
    is_lacking: AtomicBool,
    counts: Counts,
}

/// Counts of the operations of a pool's device since it was opened.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// # let db = Pool::create(&path, &options)?;
/// let before = db.statistics()?.device;
/// # db.worker()?.run(|tx| tx.write(tx.root(0), 5))?;
/// // Here a small transaction commits.
/// let after = db.statistics()?.device;
/// // One durable write of a block of the log, of which the sectors that its records use are written.
/// assert_eq!(after.log_writes - before.log_writes, 1);
/// assert!([512, 4096].contains(&(after.log_bytes - before.log_bytes)));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Number of durable writes to the log; each makes a group of transactions durable together.
    pub log_writes: u64,
    /// Bytes of the log that these have written.
    pub log_bytes: u64,
    /// Number of writes to the heap file: pages, checkpoint slots, the state.
    pub heap_writes: u64,
    /// Bytes of the heap file that these have written.
    pub heap_bytes: u64,
    /// Number of flushes of the heap file.
    pub heap_flushes: u64,
}

#[derive(Default)]
struct Counts {
    log_writes: AtomicU64,
    log_bytes: AtomicU64,
    heap_writes: AtomicU64,
    heap_bytes: AtomicU64,
    heap_flushes: AtomicU64,
    /// The times that durable writes of the log took.
    log_write_durations: Stopwatch,
}

fn count(counter: &AtomicU64, more: u64) {
    // Relaxed is enough: no other access depends on the order of this count.
    counter.fetch_add(more, Ordering::Relaxed);
}

struct OpenFile {
    buffered: SharedFile,
    /// The same file without buffering. The log's descriptor is synchronous as well.
    direct: Option<File>,
    /// The offset and the length of an unbuffered transfer must be multiples of this.
    sector: u64,
}

/// The sector size of most devices; others get [`ALIGNMENT`].
const SMALL_SECTOR: usize = 512;

impl OpenFile {
    fn with_direct(buffered: SharedFile, writable: bool, durable: bool) -> Self {
        let direct = system::open_unbuffered(&buffered, writable, durable)
            .ok()
            // Some file systems accept the flag but refuse the transfer. Reading an empty file succeeds with no bytes.
            .filter(|file| file.read_at(&mut AlignedBuffer::new(ALIGNMENT), 0).is_ok());
        // Only a read of existing bytes shows this: at a file's end, each length is accepted.
        let is_small = |file: &File| {
            let read = file.read_at(&mut AlignedBuffer::new(ALIGNMENT)[..SMALL_SECTOR], SMALL_SECTOR as u64);
            matches!(read, Ok(SMALL_SECTOR))
        };
        let sector = if direct.as_ref().is_some_and(is_small) { SMALL_SECTOR } else { ALIGNMENT };
        Self { buffered, direct, sector: sector as u64 }
    }

    /// Returns the unbuffered descriptor if it can do this transfer.
    fn direct_for(&self, offset: u64, length: usize) -> Option<&File> {
        let aligned = offset.is_multiple_of(self.sector) && (length as u64).is_multiple_of(self.sector);
        self.direct.as_ref().filter(|_| aligned && length > 0)
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// The device checks both files after this many durable writes of the log, and at each flush of the heap. A check at each write would take some
/// hundredths of the write's time. If another program deletes a file, what was acknowledged before is lost in any case.
const LOOK_EVERY: u64 = 16;

/// The device starts to write pieces of at least this many bytes before they are flushed, so that the next piece is prepared meanwhile.
const BEGUN_BYTES: usize = 64 << 10;

/// Number of threads that write scattered pages: an unbuffered write waits for the device, which can do several at a time.
const WRITERS: usize = 16;
/// The least number of runs of pages for each of these threads.
const RUNS_A_WRITER: usize = 4;

/// Writes all of `from` with an unbuffered descriptor, if necessary from an aligned copy.
fn write_direct(file: &File, offset: u64, from: &[u8]) -> io::Result<()> {
    if is_aligned(from) {
        return file.write_all_at(from, offset);
    }
    let mut copy = AlignedBuffer::new(from.len());
    copy.copy_from_slice(from);
    file.write_all_at(&copy, offset)
}

/// Writes all of `from` with `RWF_DSYNC`. Returns false if the system does not support that here.
fn write_synchronously(file: &File, mut offset: u64, mut from: &[u8]) -> io::Result<bool> {
    while !from.is_empty() {
        match system::write_durable(file, offset, from) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                offset += written as u64;
                from = &from[written..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if system::is_refused(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

impl FileDevice {
    /// Creates the device of these two files, which are open for reading and, if `writable` is set, for writing. The caller has locked them. Each is
    /// unlocked with its last [`SharedFile`].
    pub fn new(heap: impl Into<SharedFile>, log: impl Into<SharedFile>, writable: bool) -> Self {
        let (heap, log) = (heap.into(), log.into());
        Self::over(OpenFile::with_direct(heap, writable, false), OpenFile::with_direct(log, writable, true))
    }

    /// Returns whether the device has a file of checksums.
    pub fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    /// Creates the device like [`FileDevice::new`], but through the page cache only, as if `O_DIRECT` were refused.
    pub fn buffered(heap: impl Into<SharedFile>, log: impl Into<SharedFile>) -> Self {
        let buffered = |buffered| OpenFile { buffered, direct: None, sector: ALIGNMENT as u64 };
        Self::over(buffered(heap.into()), buffered(log.into()))
    }

    fn over(heap: OpenFile, log: OpenFile) -> Self {
        // If a file's size cannot be read, the next access reports why.
        let size = |file: &OpenFile| file.buffered.metadata().map_or(0, |about| about.len()).into();
        let sizes = [size(&heap), size(&log)];
        let (solid, is_lacking) = (u64::MAX.into(), AtomicBool::new(false));
        Self { heap, log, checksums: None, sizes, solid, is_lacking, counts: Counts::default() }
    }

    /// Adds a file of checksums.
    pub fn with_checksums(self, file: Option<SharedFile>) -> Self {
        let file = file.map(|buffered| OpenFile { buffered, direct: None, sector: ALIGNMENT as u64 });
        Self { checksums: file, ..self }
    }

    /// Returns an error if another program has deleted or truncated one of the files, since writes to it would be lost.
    fn check_files(&self) -> io::Result<()> {
        for file in [DeviceFile::Heap, DeviceFile::Log] {
            // The size is loaded first, because another thread may let the file grow meanwhile.
            let size = self.sizes[file as usize].load(Ordering::Acquire);
            let (links, bytes) = system::links_and_bytes(&self.file(file).buffered)?;
            if links == 0 || bytes < size {
                return Err(system::error(libc::ESTALE));
            }
        }
        Ok(())
    }

    /// Allocates disk space for those parts of the log and of the checksums that have none of their own: a copied file may have holes, or share space
    /// with the original.
    ///
    /// # Errors
    /// Returns an error if the disk is full.
    pub fn take_space_for_log(&self) -> io::Result<()> {
        for file in [Some(&self.log), self.checksums.as_ref()].into_iter().flatten() {
            fill_holes(&file.buffered)?;
            let bytes = file.buffered.metadata()?.len();
            for part in lacking_space(&file.buffered, bytes)? {
                allocate(&file.buffered, part.start, part.end - part.start)?;
            }
        }
        Ok(())
    }

    /// Allocates disk space for those parts of the heap file in use that have none of their own. If the disk has no room, a transaction that changes
    /// such a part allocates its space before it is acknowledged ([`Device::needs_space`]).
    ///
    /// # Errors
    /// Returns an error if the file cannot be looked at or if the disk is full, on a file system where reading a hole takes space.
    pub fn take_space_for_heap(&self, used: &[Range<u64>]) -> io::Result<()> {
        let file = &self.heap.buffered;
        let mut is_lacking = false;
        for hole in lacking_space(file, file.metadata()?.len())? {
            for part in used {
                let part = hole.start.max(part.start)..hole.end.min(part.end);
                if part.is_empty() {
                    continue;
                }
                match allocate(file, part.start, part.end - part.start) {
                    Err(error) if system::reading_holes_takes_space(file).unwrap_or(true) => {
                        return Err(error);
                    }
                    taken => is_lacking |= taken.is_err(),
                }
            }
        }
        self.is_lacking.store(is_lacking, Ordering::Release);
        Ok(())
    }

    /// Returns the counts.
    pub fn counters(&self) -> DeviceCounters {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeviceCounters {
            log_writes: value(&self.counts.log_writes),
            log_bytes: value(&self.counts.log_bytes),
            heap_writes: value(&self.counts.heap_writes),
            heap_bytes: value(&self.counts.heap_bytes),
            heap_flushes: value(&self.counts.heap_flushes),
        }
    }

    /// Returns the times that durable writes of the log took.
    pub(crate) fn log_write_durations(&self) -> Durations {
        self.counts.log_write_durations.durations()
    }

    fn count_write(&self, file: DeviceFile, bytes: &[u8]) {
        let (writes, all) = match file {
            DeviceFile::Log => (&self.counts.log_writes, &self.counts.log_bytes),
            DeviceFile::Heap => (&self.counts.heap_writes, &self.counts.heap_bytes),
            DeviceFile::Checksums => return,
        };
        count(writes, 1);
        count(all, bytes.len() as u64);
    }

    /// # Panics
    /// Panics if the file of checksums is requested and there is none.
    fn file(&self, file: DeviceFile) -> &OpenFile {
        match file {
            DeviceFile::Heap => &self.heap,
            DeviceFile::Log => &self.log,
            DeviceFile::Checksums => self.checksums.as_ref().expect("the pool has checksums"),
        }
    }
}

impl Device for FileDevice {
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let open = self.file(file);
        match open.direct_for(offset, into.len()) {
            Some(direct) if is_aligned(into) => direct.read_exact_at(into, offset),
            Some(direct) => {
                let mut copy = AlignedBuffer::new(into.len());
                direct.read_exact_at(&mut copy, offset)?;
                into.copy_from_slice(&copy);
                Ok(())
            }
            None => open.buffered.read_exact_at(into, offset),
        }
    }

    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.count_write(file, from);
        let open = self.file(file);
        match (file, open.direct_for(offset, from.len())) {
            (DeviceFile::Heap, Some(direct)) => write_direct(direct, offset, from),
            // The log's unbuffered descriptor is synchronous, which is too slow for what need not be durable immediately.
            _ => open.buffered.write_all_at(from, offset),
        }
    }

    fn write_kept(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.count_write(file, from);
        let buffered = &self.file(file).buffered;
        buffered.write_all_at(from, offset)?;
        if from.len() >= BEGUN_BYTES {
            system::begin_writing(buffered, offset, from.len() as u64);
        }
        Ok(())
    }

    fn write_pages(&self, file: DeviceFile, pages: &[u64], contents: &[u8]) -> io::Result<()> {
        let mut rest = contents;
        let runs: Vec<(u64, &[u8])> = pages
            .chunk_by(|page, next| page + 1 == *next)
            .map(|run| {
                let (now, later) = rest.split_at(run.len() * PAGE_BYTES as usize);
                rest = later;
                (run[0] * PAGE_BYTES, now)
            })
            .collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&(offset, run)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.write(file, offset, run)?;
            }
            Ok(())
        };
        let writers = WRITERS.min(runs.len() / RUNS_A_WRITER);
        if writers <= 1 {
            return work();
        }
        std::thread::scope(|scope| {
            // If the system cannot start a thread, this thread does its work.
            let others: Vec<_> = (1..writers).map_while(|_| start_scoped(scope, work).ok()).collect();
            let own = work();
            let joined = others.into_iter().map(|other| other.join());
            let panicked = |panic: Box<dyn std::any::Any + Send>| Err(panic_error(&*panic));
            joined.map(|one| one.unwrap_or_else(panicked)).fold(own, |one, other| one.and(other))
        })
    }

    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        if file == DeviceFile::Log
            && self.counts.log_writes.load(Ordering::Relaxed).is_multiple_of(LOOK_EVERY)
        {
            self.check_files()?;
        }
        self.count_write(file, from);
        let open = self.file(file);
        let since = Instant::now();
        match (file, open.direct_for(offset, from.len())) {
            (DeviceFile::Log, Some(direct)) => write_direct(direct, offset, from),
            (DeviceFile::Heap | DeviceFile::Checksums, Some(direct)) => {
                write_direct(direct, offset, from)?;
                flush::data(&open.buffered)
            }
            (_, None) if write_synchronously(&open.buffered, offset, from)? => Ok(()),
            (_, None) => {
                open.buffered.write_all_at(from, offset)?;
                flush::data(&open.buffered)
            }
        }?;
        if file == DeviceFile::Log {
            self.counts.log_write_durations.record(since.elapsed());
        }
        Ok(())
    }

    fn flush(&self, file: DeviceFile) -> io::Result<()> {
        if file == DeviceFile::Heap {
            count(&self.counts.heap_flushes, 1);
        }
        self.check_files()?;
        flush::data(&self.file(file).buffered)
    }

    fn size(&self, file: DeviceFile) -> io::Result<u64> {
        Ok(self.file(file).buffered.metadata()?.len())
    }

    fn extend(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        let buffered = &self.file(file).buffered;
        let before = buffered.metadata()?.len();
        extend(buffered, bytes)?;
        if file == DeviceFile::Heap {
            self.solid.fetch_min(before, Ordering::Relaxed);
        }
        if let Some(size) = self.sizes.get(file as usize) {
            size.fetch_max(bytes, Ordering::Release);
        }
        Ok(())
    }

    fn allocate(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        // The system may have to wait for its own journal even if there is nothing to do. A thread that punches a hole does so before the transaction
        // through which others learn of the space.
        if file == DeviceFile::Heap && offset >= self.solid.load(Ordering::Relaxed) {
            return Ok(());
        }
        allocate(&self.file(file).buffered, offset, bytes)
    }

    fn needs_space(&self, file: DeviceFile) -> bool {
        file == DeviceFile::Heap && self.is_lacking.load(Ordering::Acquire)
    }

    fn punch(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        if file == DeviceFile::Heap {
            self.solid.fetch_max(offset + bytes, Ordering::Relaxed);
        }
        system::punch(&self.file(file).buffered, offset, bytes)
    }

    fn sector(&self, file: DeviceFile) -> u64 {
        self.file(file).sector
    }

    fn is_direct(&self, file: DeviceFile) -> bool {
        self.file(file).direct.is_some()
    }
}
