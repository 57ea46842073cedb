//! A consistent copy of a pool while transactions run.
//!
//! In the `Sync` domain, only checkpoints write the heap file and free blocks of the log. While checkpoints are prevented, the heap file and the log
//! from S on form a state from which recovery can start, and this remains so: commits append to the log, and nothing that the copy needs changes. The
//! copy consists of the heap file, and then the log from S to its durable end.
//!
//! In the other domains, all committed contents are home in the mapped memory, so the logs are not needed. The copy is made while no
//! transaction commits: none begins meanwhile, and if a running one has committed, the copy is repeated.
//!
//! The copy is opened and closed immediately, which proves that this is possible, and leaves one file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::checksums;
use super::new_file::{NewFile, cannot, remove_leavings_of_pool};
use super::open::{OpenFiles, OpenLog, check_name, log_path, resolve};
use super::options::Options;
use super::pool::{Pool, Use};
use super::recovery::Recovery;
use crate::Domain;
use crate::engine::{Setup, Stm};
use crate::error::{Error, Result, compare_moved};
use crate::heap::{self, HeapUsage};
use crate::layout::Header;
use crate::layout::{Layout, PAGE_BYTES, PoolState, SharedLayout, View};
use crate::memory::{AlignedBuffer, Device, DeviceFile};
use crate::memory::{Memory, Native, PersistentAddress, Space, biased, flush};
use crate::scheme::BPPM;
use crate::sync;
use crate::sync::{BLOCK_BYTES, FileDevice, SharedLog, Verifier};
use crate::transaction::Concurrency;

/// Number of bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// A report of a backup.
///
/// ```
/// # use strandline_core::example::*;
/// # let (db, copy) = (pool(), path());
/// let report = db.backup(&copy)?;
/// println!("{} bytes were copied", report.heap_bytes);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// Bytes of the pool that were copied, without its log and without zeros.
    pub heap_bytes: u64,
    /// Number of the log's blocks that were copied; 0 outside the `Sync` domain, where the log is not needed.
    pub log_blocks: u64,
    /// Number of transactions in these blocks that the copy's recovery has replayed.
    pub replayed: u64,
}

/// The parts of a pool that a backup reads.
pub(super) struct Source<'p> {
    pub view: View<Native>,
    pub header: &'p Header,
    /// The path of the pool's file, for errors.
    pub path: &'p Path,
    /// The file whose owner and permissions the copy gets.
    pub file: &'p File,
    pub kind: Kind<'p>,
}

/// The place of the pool's newest state.
pub(super) enum Kind<'p> {
    /// In the files.
    Sync(&'p FileDevice, SharedLog),
    /// In memory, under this concurrency control.
    Mapped(Concurrency),
}

pub(super) fn backup(source: &Source<'_>, to: &Path) -> Result<BackupReport> {
    source.view.memory.check_poison()?;
    let to = free_place(to)?;
    // Removes files that a killed backup has left.
    checksums::remove(&to)?;
    remove_leavings_of_pool(&to);
    let like = source.file.metadata().map_err(cannot("read the metadata of the pool", source.path))?;
    let heap = NewFile::create(&to, Some(&like))?;
    let (heap_bytes, log_blocks, replayed) = match source.kind {
        Kind::Sync(device, shared_log) => {
            // Once the copy is closed, its heap file is complete without the log, so the log never gets its name.
            let log = NewFile::create(&log_path(&to), Some(&like))?;
            let (heap_bytes, log_blocks, checksums) =
                copy_files(source, device, shared_log, (&to, &heap, &log))?;
            let (recovery, _) = settle(source, &heap, Some(&log), checksums.as_ref())?;
            let read = recovery.sync.map_or(0, |sync| sync.blocks);
            compare_moved(|| "blocks of the log".into(), log_blocks, read)?;
            if let Some(checksums) = checksums {
                checksums::publish(checksums, &to)?;
            }
            (heap_bytes, log_blocks, recovery.replayed())
        }
        Kind::Mapped(concurrency) => {
            let (heap_bytes, there) = copy_memory(&source.view, concurrency, &heap)?;
            let (recovery, copied) = settle(source, &heap, None, None)?;
            compare_usage(&there, &copied)?;
            (heap_bytes, 0, recovery.replayed())
        }
    };
    // The data that was read may include data that a failed flush has lost, so this checks for a failure.
    source.view.memory.check_poison()?;
    match heap.publish()? {
        None => Ok(BackupReport { heap_bytes, log_blocks, replayed }),
        Some(_) => Err(exists(&to)),
    }
}

/// Returns the path of a backup at `to`.
///
/// # Errors
/// Returns an error if something exists there. An existing log would be mistaken for the backup's.
pub(super) fn free_place(to: &Path) -> Result<PathBuf> {
    let to = resolve(to).map_err(cannot("create the backup", to))?;
    check_name(&to)?;
    for name in [&to, &log_path(&to)] {
        if name.try_exists().map_err(cannot("look for", name))? {
            return Err(exists(&to));
        }
    }
    Ok(to)
}

pub(super) fn exists(to: &Path) -> Error {
    cannot("create the backup", to)(ErrorKind::AlreadyExists.into())
}

/// Compares the usage of a pool with that of its copy, or with its own after it was compacted.
///
/// # Errors
/// Returns [`Error::Damaged`] if they differ.
pub fn compare_usage(there: &HeapUsage, moved: &HeapUsage) -> Result<()> {
    compare_moved(|| "objects of the pool".into(), there.objects, moved.objects)?;
    let bytes = || "bytes in the objects of the pool".into();
    compare_moved(bytes, there.allocated_bytes, moved.allocated_bytes)
}

/// Returns the parts of a pool of `bytes` bytes that can contain anything but zeros and threads' logs. They are whole pages.
fn used_parts(view: &View<Native>, bytes: u64) -> [Range<u64>; 3] {
    let layout = &view.layout;
    let table = layout.chunk_table.word(layout.chunks_in(bytes).min(layout.chunk_count)).offset();
    let table = table.next_multiple_of(PAGE_BYTES).min(layout.chunks.offset());
    [0..layout.logs.offset(), layout.data.offset()..table, layout.chunks.offset()..bytes]
}

/// Copies the heap, the log and the checksums as they are. Returns the numbers of bytes and blocks.
fn copy_files(
    source: &Source<'_>,
    device: &FileDevice,
    shared_log: SharedLog,
    (name, heap, log): (&Path, &NewFile, &NewFile),
) -> Result<(u64, u64, Option<NewFile>)> {
    let (view, pool) = (&source.view, source.header.uuid.as_bytes());
    shared_log.hold_checkpoints(view, || {
        let size = size_heap(source, device, heap)?;
        let mut verifier = match device.has_checksums() {
            true => Some(Verifier::new(device, pool, &view.layout).map_err(cannot_read_checksums(source))?),
            false => None,
        };
        let copied = copy_heap(source, device, (heap, size), verifier.as_mut())?;
        let checksums = verifier.map(|_| checksums::copy(device, name, source.file)).transpose()?;
        let blocks = copy_log(source, device, shared_log, log)?;
        // The file may have grown since it was copied. All that is new in it is in the log.
        size_heap(source, device, heap)?;
        flush::file(heap.file()).map_err(cannot("flush", heap.path()))?;
        flush::file(log.file()).map_err(cannot("flush", log.path()))?;
        Ok((copied, blocks, checksums))
    })
}

fn cannot_read_checksums(source: &Source<'_>) -> impl Fn(io::Error) -> Error {
    cannot("back up the checksums of", source.path)
}

/// Gives the heap's copy the present size of the heap file. Returns the size.
fn size_heap(source: &Source<'_>, device: &FileDevice, to: &NewFile) -> Result<u64> {
    let size = device.size(DeviceFile::Heap).map_err(cannot("read the size of", source.path))?;
    to.file().set_len(size).map_err(cannot("size", to.path()))?;
    Ok(size)
}

/// Copies the heap file of `size` bytes except for zeros. Returns the number of bytes copied.
fn copy_heap(
    source: &Source<'_>,
    device: &FileDevice,
    (to, size): (&NewFile, u64),
    mut verifier: Option<&mut Verifier<'_>>,
) -> Result<u64> {
    let mut piece = AlignedBuffer::new(PIECE);
    let mut copied = 0;
    for part in used_parts(&source.view, size) {
        for at in part.clone().step_by(PIECE) {
            let piece = &mut piece[..PIECE.min((part.end - at) as usize)];
            device.read(DeviceFile::Heap, at, piece).map_err(cannot("back up", source.path))?;
            if let Some(verifier) = &mut verifier {
                verify_pages(source, verifier, at, piece)?;
            }
            // Pages of zeros are not written: they remain holes, which read as zeros.
            if piece.iter().any(|&byte| byte != 0) {
                to.file().write_all_at(piece, at).map_err(cannot("write", to.path()))?;
                copied += piece.len() as u64;
            }
        }
    }
    Ok(copied)
}

/// Compares the pages that were read from `at` on with their checksums.
///
/// # Errors
/// Returns [`Error::Damaged`] for the first page that differs from its checksum.
fn verify_pages(source: &Source<'_>, verifier: &mut Verifier<'_>, at: u64, pages: &[u8]) -> Result<()> {
    for (page, contents) in (at / PAGE_BYTES..).zip(pages.chunks_exact(PAGE_BYTES as usize)) {
        if verifier.is_damaged(page, contents).map_err(cannot_read_checksums(source))? {
            return Err(Error::damaged(format!(
                "the page at {:#x} is not what was written there, so that no backup is made; `strandline pool check` lists all such pages",
                page * PAGE_BYTES
            )));
        }
    }
    Ok(())
}

/// Copies the log's header and the needed blocks that are durable by now. Call this after the heap was copied. Returns the number of blocks.
fn copy_log(source: &Source<'_>, device: &FileDevice, shared_log: SharedLog, to: &NewFile) -> Result<u64> {
    let size = device.size(DeviceFile::Log).map_err(cannot("read the size of the log of", source.path))?;
    to.file().set_len(size).map_err(cannot("size", to.path()))?;
    let mut block = AlignedBuffer::new(BLOCK_BYTES as usize);
    let mut copy_block = |at: u64| {
        device.read(DeviceFile::Log, at, &mut block).map_err(cannot("back up the log of", source.path))?;
        to.file().write_all_at(&block, at).map_err(cannot("write", to.path()))
    };
    copy_block(0)?;
    let blocks = shared_log.needed_blocks(&source.view);
    for number in blocks.clone() {
        copy_block(shared_log.block_offset(&source.view, number))?;
    }
    Ok(blocks.end - blocks.start)
}

/// Copies the home locations from memory, at a moment at which all of their content is committed. Returns the number of bytes, and the heap's usage
/// at that moment.
fn copy_memory(view: &View<Native>, concurrency: Concurrency, to: &NewFile) -> Result<(u64, HeapUsage)> {
    let memory = &view.memory;
    let token = match concurrency {
        Concurrency::Stm => SharedLayout::SERIAL,
        Concurrency::SingleWriter => SharedLayout::WRITER,
        Concurrency::Locks => return Err(Error::Unsupported("a backup of an open pool with locks".into())),
    };
    let write = cannot("write", to.path());
    let to = to.file();
    biased::lock(memory, token, None)?;
    // Prevents that a log is leased, and thus that the scheme changes.
    memory.lock(SharedLayout::LEASES);
    let is_redo = PoolState::decode(memory.load(Layout::STATE)).scheme == BPPM.code;
    // The stores of the volatile pseudo-scheme are not isolated, so such a pool cannot be copied.
    let is_unprotected = || PoolState::decode(memory.load(Layout::STATE)).unprotected;
    let copied = match is_redo {
        true => loop {
            let clock = memory.load(SharedLayout::CLOCK);
            for slot in view.shared.slots() {
                while memory.load(slot.commit_state()) != 0 {
                    memory.pause();
                }
            }
            // A commit takes its TxID before it stores words home. So if the copy has read such a word, this sees the TxID as well.
            let copied = copy_words(view, clock, to).map_err(&write);
            match copied.and_then(|bytes| Ok((bytes, heap::usage(view)?))) {
                // A transaction has committed meanwhile, so the copy mixes two states.
                _ if memory.load(SharedLayout::CLOCK) != clock => {}
                Ok(_) if is_unprotected() => break Err(Error::Unprotected { path: None }),
                copied => break copied,
            }
        },
        false => Err(Error::Unsupported("a backup of an open pool under a scheme other than bppm".into())),
    };
    memory.unlock(SharedLayout::LEASES);
    biased::unlock(memory, token, None);
    let copied = copied?;
    flush::file(to).map_err(write)?;
    Ok(copied)
}

/// Copies all but the logs, as a cleanly closed pool whose last TxID is `clock`. Returns the number of bytes.
fn copy_words(view: &View<Native>, clock: u64, to: &File) -> std::io::Result<u64> {
    let size = view.memory.size(Space::Persistent);
    // Parts that are not written become holes, which read as zeros.
    to.set_len(0)?;
    to.set_len(size)?;
    let mut words = vec![0; PIECE / 8];
    let mut bytes = Vec::with_capacity(PIECE);
    let mut copied = 0;
    for part in used_parts(view, size) {
        for at in part.clone().step_by(PIECE) {
            let words = &mut words[..(PIECE as u64).min(part.end - at) as usize / 8];
            view.memory.load_range(PersistentAddress::new(at), words);
            if words.iter().any(|&word| word != 0) {
                bytes.clear();
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                to.write_all_at(&bytes, at)?;
                copied += bytes.len() as u64;
            }
        }
    }
    to.write_all_at(&0u64.to_le_bytes(), Layout::STATE.offset())?;
    to.write_all_at(&clock.to_le_bytes(), Layout::WATERMARK.offset())?;
    Ok(copied)
}

/// Recovers the copy and closes it. Returns the report of its recovery, and its usage.
fn settle(
    source: &Source<'_>,
    heap: &NewFile,
    log: Option<&NewFile>,
    checksums: Option<&NewFile>,
) -> Result<(Recovery, HeapUsage)> {
    let options = Options {
        layout_name: source.header.layout_name.clone(),
        // A copy of memory is cleanly closed, so any domain can open it.
        domain: if log.is_some() { Domain::Sync } else { Domain::Process },
        lock_bits: 10,
        ..Options::default()
    };
    let log = match log {
        Some(log) => {
            let device = FileDevice::new(heap.file().clone(), log.file().clone(), false);
            let header = sync::read_log_header(&device, log.path())?;
            let (identity, ring_blocks) = (header.identity, header.ring);
            Some(OpenLog { file: log.file().clone(), identity, ring_blocks, remade: false })
        }
        None => None,
    };
    let files = OpenFiles {
        path: heap.path().to_owned(),
        heap: heap.file().clone(),
        header: source.header.clone(),
        log,
        checksums: checksums.map(|file| file.file().clone()),
    };
    let pool = Pool::open_files(files, &options, Setup::from(Stm), Use::Writing)?;
    let (recovery, usage) = (*pool.recovery(), pool.usage()?);
    pool.close()?;
    Ok((recovery, usage))
}
