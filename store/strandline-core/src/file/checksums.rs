//! The file of checksums beside a pool, if it has one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::new_file::{NewFile, cannot, remove_leavings, remove_locked, synchronize_folder};
use super::open::{find, open_locked, read_header, read_word, resolve, with_suffix};
use crate::error::{Error, Result};
use crate::layout::{Header, Layout, PAGE_BYTES};
use crate::memory::{AlignedBuffer, Device, DeviceFile, SharedFile, flush};
use crate::sync::{FileDevice, check_checksums_header, create_checksums};

/// Returns the path of the checksums of the pool at `path`, which is the pool's with `.sums` appended.
///
/// ```
/// use std::path::Path;
///
/// let sums = strandline_core::file::checksums_path(Path::new("/var/lib/shop/orders.pool"));
/// assert_eq!(sums, Path::new("/var/lib/shop/orders.pool.sums"));
/// ```
pub fn checksums_path(path: &Path) -> PathBuf {
    with_suffix(path, ".sums")
}

pub(super) fn wrong(name: &Path, problem: &str) -> Error {
    Error::ChecksumFile { path: name.to_owned(), problem: problem.to_owned() }
}

/// Returns a device of the heap with its checksums, for checks.
pub(super) fn device(heap: &SharedFile, checksums: &SharedFile) -> FileDevice {
    FileDevice::buffered(heap.clone(), heap.clone()).with_checksums(Some(checksums.clone()))
}

/// Returns the checksums of the pool at `path`, locked, if it has any.
///
/// # Errors
/// Returns [`Error::ChecksumFile`] if the checksums belong to another pool or are damaged.
pub(super) fn find_own(
    path: &Path,
    heap: &SharedFile,
    header: &Header,
    read_only: bool,
) -> Result<Option<SharedFile>> {
    let name = checksums_path(path);
    let Some(file) = find(&name, read_only)? else { return Ok(None) };
    let checked = check_checksums_header(&device(heap, &file), header.uuid.as_bytes());
    match checked.map_err(cannot("read", &name))? {
        Ok(()) => Ok(Some(file)),
        Err(problem) => Err(wrong(&name, problem)),
    }
}

/// Creates checksums of the heap's present contents, which will be those of the pool at `path`.
pub(super) fn make(path: &Path, heap: &SharedFile, header: &Header) -> Result<NewFile> {
    let name = checksums_path(path);
    remove_leavings(&name);
    // Flushes pages that only the page cache has, since they are read past it.
    flush::file(heap).map_err(cannot("flush the pool", path))?;
    let like = heap.metadata().map_err(cannot("read the metadata of the pool", path))?;
    let new = NewFile::create(&name, Some(&like))?;
    let layout = Layout::new(header.geometry)?;
    create_checksums(&device(heap, new.file()), header.uuid.as_bytes(), &layout)
        .map_err(cannot("write", &name))?;
    Ok(new)
}

/// Creates a copy of a pool's checksums, which will be those of the pool at `path`.
pub(super) fn copy(device: &FileDevice, path: &Path, like: &File) -> Result<NewFile> {
    let name = checksums_path(path);
    remove_leavings(&name);
    let like = like.metadata().map_err(cannot("read the metadata of the pool of", path))?;
    let new = NewFile::create(&name, Some(&like))?;
    let copy = || {
        let bytes = device.size(DeviceFile::Checksums)?;
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        for at in (0..bytes).step_by(PAGE_BYTES as usize) {
            device.read(DeviceFile::Checksums, at, &mut page)?;
            new.file().write_all_at(&page, at)?;
        }
        flush::file(new.file())
    };
    copy().map_err(cannot("write", &name))?;
    Ok(new)
}

/// Gives the checksums their name, in place of any existing ones.
pub(super) fn publish(mut new: NewFile, path: &Path) -> Result<()> {
    while let Some(refused) = new.publish()? {
        remove(path)?;
        new = refused;
    }
    Ok(())
}

/// Removes the checksums of the pool at `path`, if it has any, durably. A pool that is published there next would refuse them.
pub(super) fn remove(path: &Path) -> Result<()> {
    let name = checksums_path(path);
    let Some(file) = find(&name, false)? else { return Ok(()) };
    remove_locked(&file, &name).and_then(|()| synchronize_folder(&name)).map_err(cannot("remove", &name))
}

/// Gives the pool at `path` new checksums of its contents. The pool must be cleanly closed, and not open in any process. From now on they
/// are kept up to date: [`SyncParameters::checksums`](crate::sync::SyncParameters::checksums).
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// use strandline_core::file::{checksums_path, make_checksums};
///
/// Pool::create(&path, &options)?.close()?;
/// make_checksums(&path)?;
/// assert!(checksums_path(&path).exists());
/// Pool::open(&path, &options)?;
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the pool was not closed, if a process has it open, if it cannot be read, or if the disk has no room.
pub fn make_checksums(path: impl AsRef<Path>) -> Result<()> {
    let path = resolve(path.as_ref()).map_err(cannot("open the pool", path.as_ref()))?;
    let heap = open_locked(&path, false)?;
    let header = read_header(&heap, &path)?;
    if read_word(&heap, Layout::STATE.offset())? != 0 {
        return Err(Error::Parameter(format!(
            "the pool {} was not closed; open and close it first, or use `strandline pool recover`",
            path.display()
        )));
    }
    publish(make(&path, &heap, &header)?, &path)
}
