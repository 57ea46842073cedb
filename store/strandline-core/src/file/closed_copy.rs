//! A cleanly closed copy of a pool that no process writes. The pool's files are only read, so they may be in a place where nothing can be
//! written; the transactions in its logs are replayed in the copy.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::backup::{BackupReport, compare_usage, exists, free_place};
use super::checksums;
use super::new_file::{NewFile, cannot, remove_leavings_of_pool};
use super::open::{OpenFiles, OpenLog, decode_state, log_path, read_header, read_word, resolve};
use super::options::Options;
use super::pool::{Pool, Use};
use crate::Domain;
use crate::engine::{Setup, Stm};
use crate::error::{Error, Result, compare_moved};
use crate::layout::{Layout, PAGE_BYTES};
use crate::memory::{AlignedBuffer, Device, DeviceFile, SharedFile, flush, system};
use crate::scheme::Schemes;
use crate::sync::{FileDevice, Verifier};

/// The number of bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// A copy under temporary names, complete and durable.
pub(super) struct ClosedCopy {
    pub heap: NewFile,
    pub checksums: Option<NewFile>,
    pub report: BackupReport,
}

/// Copies the pool at `path`, which no process has open for writing, to a new file at `to`. The copy is an independent pool, cleanly
/// closed. The original files are only read.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::file::backup_files;
///
/// Pool::create(&path, &options)?.close()?;
/// let copy = path.with_extension("copy");
/// backup_files(&path, &copy, Default::default())?;
/// Pool::open(&copy, &options)?;
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns an error if a file exists at `to`, if a page differs from its checksum, or if input or output fails, and the errors of
/// [`Pool::open_read_only`]. No file is left then.
pub fn backup_files(path: impl AsRef<Path>, to: impl AsRef<Path>, schemes: Schemes) -> Result<BackupReport> {
    let to = free_place(to.as_ref())?;
    let ClosedCopy { heap, checksums, report } = make(path.as_ref(), &to, None, schemes)?;
    // Removes checksums that a killed backup has left.
    checksums::remove(&to)?;
    if let Some(checksums) = checksums {
        checksums::publish(checksums, &to)?;
    }
    match heap.publish()? {
        None => Ok(report),
        Some(_) => Err(exists(&to)),
    }
}

/// Copies the pool at `from` to files that will be those of the pool at `to`, with the owner and permissions of `like`, or of the original
/// if that is `None`.
pub(super) fn make(from: &Path, to: &Path, like: Option<&Metadata>, schemes: Schemes) -> Result<ClosedCopy> {
    remove_leavings_of_pool(to);
    let from = resolve(from).map_err(cannot("open the pool", from))?;
    let (mut files, options) = open(&from, schemes)?;
    let is_clean = read_word(&files.heap, Layout::STATE.offset())? == 0;
    if is_clean {
        // A cleanly closed pool needs nothing from its log.
        files.log = None;
    }
    let own = files.heap.metadata().map_err(cannot("read the metadata of", &from))?;
    let like = like.unwrap_or(&own);
    let setup = || Setup { control: Stm, schemes };
    let original = Pool::open_files(duplicate(&files), &options, setup(), Use::Reading)?;
    // Recovery in other domains would change pages without their checksums.
    let sums = match options.domain == Domain::Sync || is_clean {
        true => checksums::find_own(&from, &files.heap, &files.header, true)?,
        false => None,
    };

    let heap = NewFile::create_copy(to, like)?;
    let heap_bytes = copy_heap(&files, &original, sums.as_ref(), &heap)?;
    let copy_sums = |sums| checksums::copy(&checksums::device(&files.heap, sums), to, heap.file());
    let new_sums = sums.as_ref().map(copy_sums).transpose()?;
    let copy_log = |log: &OpenLog| {
        let new = NewFile::create_copy(&log_path(to), like)?;
        copy_file(&log.file, &log_path(&from), &new)?;
        let file = new.file().clone();
        Ok::<_, Error>((new, OpenLog { file, remade: false, ..*log }))
    };
    // The log's copy is removed when the copied pool is closed.
    let (_new_log, log) = files.log.as_ref().map(copy_log).transpose()?.unzip();
    let copied = OpenFiles {
        path: heap.path().to_owned(),
        heap: heap.file().clone(),
        header: files.header.clone(),
        log,
        checksums: new_sums.as_ref().filter(|_| !is_clean).map(|file| file.file().clone()),
    };
    let usage = if is_clean { Use::Reading } else { Use::Writing };
    let copy = Pool::open_files(copied, &options, setup(), usage)?;
    let log_blocks = close_compared(copy, &original)?;
    flush::file(heap.file()).map_err(cannot("flush", heap.path()))?;
    let report = BackupReport { heap_bytes, log_blocks, replayed: original.recovery().replayed() };
    Ok(ClosedCopy { heap, checksums: new_sums, report })
}

/// Closes the recovered copy, and compares it with the original. Returns the number of blocks in its log.
fn close_compared(copy: Pool, original: &Pool) -> Result<u64> {
    let (there, here) = (original.usage()?, copy.usage()?);
    let replayed = (original.recovery().replayed(), copy.recovery().replayed());
    let log_blocks = copy.recovery().sync.map_or(0, |sync| sync.blocks);
    copy.close()?;
    compare_moved(|| "transactions in the pool's log".into(), replayed.0, replayed.1)?;
    compare_usage(&there, &here)?;
    Ok(log_blocks)
}

/// Opens the pool's files for reading, under the domain that wrote it, and locks them.
fn open(path: &Path, schemes: Schemes) -> Result<(OpenFiles, Options)> {
    let heap = system::open_to_read(path).map_err(cannot("open the pool", path))?;
    let header = read_header(&heap, path)?;
    let domain = match read_word(&heap, Layout::STATE.offset())? {
        // Any domain would do, and this one needs no log.
        0 => Domain::Process,
        state => decode_state(state, schemes).map_err(|error| error.in_pool(path))?.0,
    };
    let options = Options {
        domain,
        layout_name: header.layout_name,
        assume_persistent: true,
        lock_bits: 10,
        ..Options::default()
    };
    Ok((OpenFiles::open(path, &options, schemes, true)?, options))
}

/// Returns the same open files again, with the same locks.
fn duplicate(files: &OpenFiles) -> OpenFiles {
    OpenFiles { checksums: None, ..files.clone() }
}

/// Copies the heap, and compares its pages with their checksums. Returns the number of bytes copied.
fn copy_heap(files: &OpenFiles, original: &Pool, sums: Option<&SharedFile>, to: &NewFile) -> Result<u64> {
    let read = |e| Error::io("read the pool's checksums for its copy", e);
    let device = match sums {
        Some(sums) => checksums::device(&files.heap, sums),
        None => return copy_file(&files.heap, &files.path, to),
    };
    // Leaves out the pages that recovery will change.
    let left_out = match original.shared_log() {
        Some(log) => log.logged_pages(&original.native_view()?)?,
        None => HashSet::new(),
    };
    let pool = files.header.uuid.as_bytes();
    let mut verifier = Verifier::new(&device, pool, &Layout::new(files.header.geometry)?).map_err(read)?;
    copy_checked(&device, &files.path, to, |page, contents| {
        if left_out.contains(&page) || !verifier.is_damaged(page, contents).map_err(read)? {
            return Ok(());
        }
        Err(Error::damaged(format!(
            "the page at {:#x} is not what was written there, so that no copy is made; `strandline pool check` lists all such pages",
            page * PAGE_BYTES
        ))
        .in_pool(&files.path))
    })
}

fn copy_file(from: &SharedFile, name: &Path, to: &NewFile) -> Result<u64> {
    copy_checked(&FileDevice::buffered(from.clone(), from.clone()), name, to, |_, _| Ok(()))
}

/// Copies a file, which is the heap of the device, and flushes the copy. Zeros become holes. `check` gets each page.
fn copy_checked(
    from: &FileDevice,
    name: &Path,
    to: &NewFile,
    mut check: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<u64> {
    let (write, new) = (cannot("write", to.path()), to.file());
    let size = from.size(DeviceFile::Heap).map_err(cannot("read the metadata of", name))?;
    new.set_len(size).map_err(&write)?;
    let mut piece = AlignedBuffer::new(PIECE);
    let mut copied = 0;
    for at in (0..size).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min((size - at) as usize)];
        from.read(DeviceFile::Heap, at, piece).map_err(cannot("read", name))?;
        for (page, contents) in (at / PAGE_BYTES..).zip(piece.chunks_exact(PAGE_BYTES as usize)) {
            check(page, contents)?;
        }
        if piece.iter().any(|&byte| byte != 0) {
            new.write_all_at(piece, at).map_err(&write)?;
            copied += piece.len() as u64;
        }
    }
    flush::file(new).map_err(&write)?;
    Ok(copied)
}
