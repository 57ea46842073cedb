//! The device of real files.
//!
//! *The log* is written with `O_DIRECT | O_DSYNC`: past the page cache, durable on return, and cheap because
//! the file is full of zeros beforehand, so that no metadata changes. Where the file system refuses
//! `O_DIRECT` (tmpfs) the write is `pwritev2(RWF_DSYNC)`, and where that is refused a write and fdatasync.
//!
//! *The heap* is written with `O_DIRECT` where possible, so that a checkpoint does not fill the page cache
//! with what the next flush then has to push out; it becomes durable by fdatasync.
//!
//! The unbuffered descriptors are opened beside the given ones and tried at once:
//! whatever is refused then is never used. Transfers that are not aligned go through the page cache.
//!
//! On macOS both files are written through the page cache, and become durable by `F_FULLFSYNC`, which the standard library's
//! `sync_data` is there.

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
    /// Bytes that heap and log have at least.
    sizes: [AtomicU64; 2],
    /// From here on the heap file has no holes: it has grown since it was opened.
    solid: AtomicU64,
    /// Whether parts of the heap file that are in use have no disk space of their own.
    is_lacking: AtomicBool,
    counts: Counts,
}

/// What a pool's device has been asked to do since it was opened.
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
    /// Durable writes to the log: groups of transactions that were made durable together.
    pub log_writes: u64,
    /// Bytes of the log that these wrote.
    pub log_bytes: u64,
    /// Writes to the heap file: pages, checkpoint slots, the state.
    pub heap_writes: u64,
    /// Bytes of the heap file that these wrote.
    pub heap_bytes: u64,
    /// Flushes of the heap file.
    pub heap_flushes: u64,
}

#[derive(Default)]
struct Counts {
    log_writes: AtomicU64,
    log_bytes: AtomicU64,
    heap_writes: AtomicU64,
    heap_bytes: AtomicU64,
    heap_flushes: AtomicU64,
    /// How long each durable write of the log took.
    log_write_durations: Stopwatch,
}

fn count(counter: &AtomicU64, more: u64) {
    // Nothing is ordered by a count.
    counter.fetch_add(more, Ordering::Relaxed);
}

struct OpenFile {
    buffered: SharedFile,
    /// The same file, unbuffered; the log's is synchronous too.
    direct: Option<File>,
    /// Offset and length of an unbuffered transfer are multiples of this.
    sector: u64,
}

/// The sector of most devices; for the others it is [`ALIGNMENT`].
const SMALL_SECTOR: usize = 512;

impl OpenFile {
    fn with_direct(buffered: SharedFile, writable: bool, durable: bool) -> Self {
        let direct = system::open_unbuffered(&buffered, writable, durable)
            .ok()
            // Some file systems accept the flag and refuse the transfer. An empty file reads as nothing.
            .filter(|file| file.read_at(&mut AlignedBuffer::new(ALIGNMENT), 0).is_ok());
        // Only what is read tells: at the end of a file every length is right.
        let is_small = |file: &File| {
            let read = file.read_at(&mut AlignedBuffer::new(ALIGNMENT)[..SMALL_SECTOR], SMALL_SECTOR as u64);
            matches!(read, Ok(SMALL_SECTOR))
        };
        let sector = if direct.as_ref().is_some_and(is_small) { SMALL_SECTOR } else { ALIGNMENT };
        Self { buffered, direct, sector: sector as u64 }
    }

    /// The unbuffered descriptor, if this transfer suits it.
    fn direct_for(&self, offset: u64, length: usize) -> Option<&File> {
        let aligned = offset.is_multiple_of(self.sector) && (length as u64).is_multiple_of(self.sector);
        self.direct.as_ref().filter(|_| aligned && length > 0)
    }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGNMENT)
}

/// At every so many durable writes of the log, and at every flush of the heap, both files are looked at. At each it would take some
/// hundredths of a write; what was acknowledged before somebody deleted a file is lost with it in any case.
const LOOK_EVERY: u64 = 16;

/// From so many bytes on, what is kept in memory, too, is on its way to the disk before it is flushed: the next piece is prepared meanwhile.
const BEGUN_BYTES: usize = 64 << 10;

/// Threads that write scattered pages: an unbuffered write waits for the device, which can do several at a time.
const WRITERS: usize = 16;
/// Runs of pages for each of them, at least.
const RUNS_A_WRITER: usize = 4;

/// Writes all of `from` through an unbuffered descriptor, from an aligned copy if it must.
fn write_direct(file: &File, offset: u64, from: &[u8]) -> io::Result<()> {
    if is_aligned(from) {
        return file.write_all_at(from, offset);
    }
    let mut copy = AlignedBuffer::new(from.len());
    copy.copy_from_slice(from);
    file.write_all_at(&copy, offset)
}

/// Writes all of `from` with `RWF_DSYNC`. `false`: the system does not know that here.
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
    /// The device of these two files, open for reading, and for writing where `writable`. The caller has
    /// locked them, and they are unlocked with the last [`SharedFile`] of each.
    pub fn new(heap: impl Into<SharedFile>, log: impl Into<SharedFile>, writable: bool) -> Self {
        let (heap, log) = (heap.into(), log.into());
        Self::over(OpenFile::with_direct(heap, writable, false), OpenFile::with_direct(log, writable, true))
    }

    /// Returns whether it has a file of checksums.
    pub fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    /// The same through the page cache only, as where `O_DIRECT` is refused.
    pub fn buffered(heap: impl Into<SharedFile>, log: impl Into<SharedFile>) -> Self {
        let buffered = |buffered| OpenFile { buffered, direct: None, sector: ALIGNMENT as u64 };
        Self::over(buffered(heap.into()), buffered(log.into()))
    }

    fn over(heap: OpenFile, log: OpenFile) -> Self {
        // Of a file that cannot be looked at nothing is known, and the next access says why.
        let size = |file: &OpenFile| file.buffered.metadata().map_or(0, |about| about.len()).into();
        let sizes = [size(&heap), size(&log)];
        let (solid, is_lacking) = (u64::MAX.into(), AtomicBool::new(false));
        Self { heap, log, checksums: None, sizes, solid, is_lacking, counts: Counts::default() }
    }

    /// With a file of checksums, too.
    pub fn with_checksums(self, file: Option<SharedFile>) -> Self {
        let file = file.map(|buffered| OpenFile { buffered, direct: None, sector: ALIGNMENT as u64 });
        Self { checksums: file, ..self }
    }

    /// Fails if one of the files was deleted or cut short by somebody else: what is written to it would be lost.
    fn check_files(&self) -> io::Result<()> {
        for file in [DeviceFile::Heap, DeviceFile::Log] {
            // First, since another thread may have the file grow meanwhile.
            let size = self.sizes[file as usize].load(Ordering::Acquire);
            let (links, bytes) = system::links_and_bytes(&self.file(file).buffered)?;
            if links == 0 || bytes < size {
                return Err(system::error(libc::ESTALE));
            }
        }
        Ok(())
    }

    /// Takes disk space for what the log, and the checksums, have none of: a copy may have holes, or share it with the original.
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

    /// Takes disk space for what these parts of the heap file, which are in use, have none of. What the disk has no room for is taken when a
    /// transaction changes it ([`Device::needs_space`]), before that is acknowledged.
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

    /// What it has been asked to do.
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

    /// How long each durable write of the log took.
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
    /// Panics if it has no checksums, and is asked for them.
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
            // The log's unbuffered descriptor is synchronous: not for what need not be durable at once.
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
            // What the system has no thread for this one does.
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
        // Even where nothing is to be done, the system may have to wait for its own journal. Whoever punched a hole did so before a
        // transaction by which others came to know of the space.
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
