//! The creation of a pool, which no process can find before it is complete and durable.
//!
//! 1. Heap and log are built under temporary names, locked from birth ([`new_file`](super::new_file)); the heap's checkpoint slots
//!    and the log's header share a nonce. The pool is opened, and its first contents are made, in a life that ends before another process
//!    can find it: the heap holds them, and the log nothing that is needed.
//! 2. The log gets its name, durably; then the heap, durably. The heap's name alone makes a pool.
//!
//! *Invariant*: when a file gets its name, all of its contents are durable, in every domain, also in `Process`. A file beside it that would
//! contradict it is removed durably before: an earlier pool's checksums before the heap is named, an old log before the heap's checkpoint
//! slots refer to a new one ([`resize_log`](super::resize_log)).
//!
//! Neither name replaces an existing file. If two processes create the same pool at the same time, the log's name decides: the one that has it, locked,
//! is the only one that may take the heap's name. The other one finds the log locked, or an existing heap.
//!
//! A kill, a power failure or a failed flush leaves temporary files, or a log without a heap. The next creation removes the former
//! and takes the latter's place, both under their locks. A log that was ever used is not touched: its heap may be elsewhere.
//! *Invariant*: once the heap may have its name, the log's name stays, because a heap without its log cannot be opened.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::checksums;
use super::new_file::{ATTEMPTS, NewFile, cannot, remove_leavings_of_pool, remove_locked};
use super::open::{self, OpenFiles, OpenLog, check_name, log_path, resolve};
use super::options::Options;
use crate::Domain;
use crate::error::{Error, Result};
use crate::layout::Header;
use crate::layout::{Layout, PAGE_BYTES};
use crate::memory::{SharedFile, extend, flush, system};
use crate::sync;
use crate::sync::{FileDevice, LogIdentity, SyncParameters};

/// Draws a random number.
///
/// # Errors
/// Returns an error if the system has no random numbers.
pub(super) fn random() -> Result<u64> {
    system::random().map(u64::from_ne_bytes).map_err(|e| Error::io("draw a random number", e))
}

/// The name of a pool without a name in messages and temporary files. It is always the same, so that the next pool without a name finds the
/// files that a killed process has left.
const UNNAMED: &str = "strandline-unnamed-pool";

/// A pool's files under temporary names, complete and durable.
pub(super) struct NewPool {
    path: PathBuf,
    header: Header,
    heap: NewFile,
    log: Option<(NewFile, OpenLog)>,
    checksums: Option<NewFile>,
}

impl NewPool {
    /// Creates the files of a pool that will be at `path`.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`](super::Pool::create).
    pub fn create(path: &Path, options: &Options) -> Result<Self> {
        options.check()?;
        let header = Header::new(&options.layout_name, options.geometry)?;
        let path = resolve(path).map_err(cannot("create the pool", path))?;
        check_name(&path)?;
        if path.exists() {
            return Err(exists(&path));
        }
        remove_leavings_of_pool(&path);
        if options.domain == Domain::Sync {
            // This comes first, so that nothing large is written if it fails.
            remove_orphan(&path)?;
        }
        let heap = NewFile::create(&path, None)?;
        Self::over(path, header, heap, options)
    }

    /// Creates the files of a pool that will have no name. `folder` is where they would be.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`](super::Pool::create).
    pub fn create_unnamed(folder: &Path, options: &Options) -> Result<Self> {
        options.check()?;
        let header = Header::new(&options.layout_name, options.geometry)?;
        let path = folder.join(UNNAMED);
        remove_leavings_of_pool(&path);
        let heap = NewFile::create_unnamed(&path)?;
        Self::over(path, header, heap, options)
    }

    fn over(path: PathBuf, header: Header, heap: NewFile, options: &Options) -> Result<Self> {
        let is_sync = options.domain == Domain::Sync;
        fill(heap.file(), &header, options.initial_size)?;
        let log =
            is_sync.then(|| new_log(heap.file(), &header, &log_path(&path), options.sync, 0)).transpose()?;
        let has_checksums = is_sync && options.sync.checksums;
        let checksums = has_checksums.then(|| checksums::make(&path, heap.file(), &header)).transpose()?;
        Ok(Self { path, header, heap, log, checksums })
    }

    /// Opens the files while no other process can find them.
    pub fn open(&self) -> OpenFiles {
        OpenFiles {
            path: self.path.clone(),
            heap: self.heap.file().clone(),
            header: self.header.clone(),
            log: self.log.as_ref().map(|(_, log)| log.clone()),
            checksums: self.checksums.as_ref().map(|file| file.file().clone()),
        }
    }

    /// Gives the files their names, durably.
    ///
    /// # Errors
    /// Returns an error if the pool exists or is being created by another process; the new files are then removed. Also returns an error if a name
    /// cannot be given or a flush fails; the pool may then exist or not, and creating it again completes the creation.
    pub fn publish(self) -> Result<()> {
        let log_name = log_path(&self.path);
        let mut named_log = None;
        if let Some((new, log)) = self.log {
            publish_log(new, &self.path)?;
            named_log = Some(log.file);
        }
        // A process that has locked the log has no pool here yet, so existing checksums belong to another pool.
        match self.checksums {
            Some(checksums) => checksums::publish(checksums, &self.path)?,
            None => checksums::remove(&self.path)?,
        }
        if self.heap.publish()?.is_none() {
            return Ok(());
        }
        if let Some(log) = named_log {
            // Another process has created a pool without a log at the same time. This log is still locked.
            let _ = remove_locked(&log, &log_name);
        }
        Err(exists(&self.path))
    }
}

/// Gives the new pool's log its name, in place of one that never belonged to a pool.
fn publish_log(mut log: NewFile, pool: &Path) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let Some(refused) = log.publish()? else { return Ok(()) };
        remove_orphan(pool)?;
        log = refused;
    }
    Err(cannot("name", &log_path(pool))(ErrorKind::AlreadyExists.into()))
}

fn exists(path: &Path) -> Error {
    cannot("create the pool", path)(ErrorKind::AlreadyExists.into())
}

/// Bytes of chunks in a new pool, unless the options request more.
const INITIAL_HEAP_BYTES: u64 = 1 << 20;

/// Extends the heap's file to its initial length, and writes its header and the number of its chunks. Durable when this returns.
fn fill(file: &File, header: &Header, initial_size: Option<u64>) -> Result<()> {
    let layout = Layout::new(header.geometry)?;
    let wanted = initial_size.unwrap_or(0).max(layout.end_of(1).offset() - 1 + INITIAL_HEAP_BYTES);
    let chunks = layout.chunks_in(wanted).min(layout.chunk_count);
    let end = layout.end_of(chunks).offset();
    // Logs are allocated when they are first leased, and the table's words with their chunks. But if the options request the whole pool, all of it is
    // allocated.
    let is_whole = initial_size.is_some_and(|size| size >= layout.geometry.size);
    let (data, table) =
        (layout.data.offset(), layout.chunk_table.word(chunks).offset().next_multiple_of(PAGE_BYTES));
    let first = if is_whole { end } else { layout.logs.offset() };
    let parts = [0..first, data..table, layout.chunks.offset()..end];
    let take = || match system::can_allocate(file) {
        true => {
            parts.into_iter().try_for_each(|part| system::allocate(file, part.start, part.end - part.start))
        }
        // Writes zeros, so that no holes remain.
        false => extend(file, end),
    };
    take().map_err(|e| Error::io(format!("allocate the first {end} bytes of the pool"), e))?;
    let write = || {
        file.write_all_at(&header.encode(), 0)?;
        file.write_all_at(&layout.geometry.size.to_le_bytes(), Layout::SIZE.offset())?;
        file.write_all_at(&chunks.to_le_bytes(), layout.reached().offset())?;
        flush::file(file)
    };
    write().map_err(|e| Error::io("write the pool's header", e))
}

/// Creates a log for this heap under a temporary name, which will be `name`, and the heap's checkpoint slots that refer to it. All of this is
/// durable. The pool's transactions are all at or below `watermark`, and are in the heap.
///
/// # Errors
/// Returns an error if the parameters are impossible or if the disk is full.
pub(super) fn new_log(
    heap: &SharedFile,
    header: &Header,
    name: &Path,
    parameters: SyncParameters,
    watermark: u64,
) -> Result<(NewFile, OpenLog)> {
    let like = heap.metadata().map_err(cannot("read the metadata of the pool of", name))?;
    let new = NewFile::create(name, Some(&like))?;
    let identity = LogIdentity { pool: *header.uuid.as_bytes(), nonce: random()? };
    let device = FileDevice::new(heap.clone(), new.file().clone(), true);
    sync::create(&device, identity, parameters, watermark)?;
    let ring_blocks = parameters.first_ring();
    let log = OpenLog { file: new.file().clone(), identity, ring_blocks, remade: false };
    Ok((new, log))
}

/// Removes a file that has the name of this pool's log but never belonged to a pool. An interrupted creation leaves such a log.
///
/// # Errors
/// Returns an error if the file is not a log, if it was used, if another process has it open, or if a pool exists by now.
fn remove_orphan(pool: &Path) -> Result<()> {
    let name = log_path(pool);
    let Some(log) = open::find(&name, false)? else { return Ok(()) };
    if pool.try_exists().map_err(cannot("look for", pool))? {
        return Err(exists(pool));
    }
    let device = FileDevice::new(log.clone(), log.clone(), false);
    let header = sync::read_log_header(&device, &name)?;
    if sync::was_used(&device, &header).map_err(cannot("read", &name))? {
        return Err(Error::LogFile {
            path: name.display().to_string(),
            problem: format!("holds transactions of a pool, but there is no pool {}", pool.display()),
            advice:
                "put the pool back beside its log; if the pool was deleted on purpose, delete its log as well"
                    .into(),
        });
    }
    remove_locked(&log, &name).map_err(cannot("remove the unused log", &name))
}
