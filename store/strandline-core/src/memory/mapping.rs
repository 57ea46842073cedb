//! A mapped region of words: a file, or anonymous memory.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::flush::{self, Poison};
use super::process::Process;
use super::protection::{AllocatedKey, ProtectionKey};
use super::shared_file::SharedFile;
use super::{PAGE_BYTES, system};
use crate::error::{Error, Result};

/// The way in which a file's words are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingKind {
    /// Shared with the file: stores reach the file, on an ordinary file system through the page cache.
    Shared,
    /// Shared and synchronous (`MAP_SYNC`): stores reach persistent memory directly.
    SharedSynchronous,
    /// Private: stores stay in this process, and the file is only read.
    Private,
}

/// Mapped words, which are unmapped on drop. All accesses are atomic.
///
/// Address space is reserved for more words than a file has, so that the file can grow. Words beyond the file's end must not be accessed, which would
/// be a bus error.
///
/// ```
/// # use strandline_core::example::*;
/// # let path = path();
/// use std::sync::atomic::Ordering;
/// use strandline_core::memory::{Mapping, MappingKind};
///
/// let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
/// file.set_len(4096).unwrap();
/// let mapping = Mapping::file(file, 4096, MappingKind::Shared)?;
/// mapping.words()[1].store(5, Ordering::Release);
/// mapping.synchronize()?;
/// assert_eq!(std::fs::read(&path).unwrap()[8], 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Mapping {
    base: *mut AtomicU64,
    /// Bytes of reserved address space.
    reserved: usize,
    /// Bytes of it that can be accessed; this number never decreases.
    extent: AtomicU64,
    /// Locked while the file grows.
    growth: Mutex<()>,
    /// The file, which keeps its lock as long as its words are mapped.
    file: Option<SharedFile>,
    /// True if stores reach the file.
    is_shared: bool,
    /// True if stores reach the file without the page cache.
    is_synchronous: bool,
    /// True if stores reach the file and it had holes when it was mapped, or has had some since then.
    is_sparse: AtomicBool,
    /// True if zeros of this process are mapped over the holes that the file had when it was mapped.
    covers_holes: bool,
    /// True if the file is meant to have no name.
    is_unnamed: AtomicBool,
    /// Set if a flush of one of the pool's files failed, or if this one was found deleted or truncated.
    poison: Arc<Poison>,
    key: Option<AllocatedKey>,
    /// The process that mapped it.
    process: Process,
    /// The size in bytes of the pages whose memory is released.
    page_bytes: u64,
    /// The number of walks over most of the words that are in progress.
    walks: Mutex<u64>,
}

// SAFETY: the mapping is memory of the process, its words are only accessed as atomics, and any thread may unmap it.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared accesses are atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `file`, and reserves address space so that it can grow to `bytes` bytes. The mapping keeps the file, and thus its lock, which is released
    /// with the last [`SharedFile`].
    ///
    /// # Errors
    /// Returns an error if the system refuses so much address space, or, for [`MappingKind::SharedSynchronous`], if the file is not on persistent
    /// memory (DAX).
    pub fn file(file: impl Into<SharedFile>, bytes: u64, kind: MappingKind) -> Result<Self> {
        let kept = file.into();
        let file = &kept;
        let reserved = mappable(bytes)?;
        let about = file.metadata().map_err(|e| Error::io("read the pool's size", e))?;
        let extent = whole_pages(about.len()).min(bytes);
        if kind == MappingKind::SharedSynchronous {
            // A process that let the file grow may have been killed before that was durable.
            flush::file(file).map_err(|e| Error::io("make the pool's size durable", e))?;
        }
        let is_shared = kind != MappingKind::Private;
        let is_sparse = is_shared && !lacking_space(file, extent).is_ok_and(|lacking| lacking.is_empty());
        // Other processes may change a shared file's words at any time, so the words are atomics.
        let base = match kind {
            MappingKind::Shared => system::map_shared(file, reserved),
            MappingKind::SharedSynchronous => system::map_synchronous(file, reserved),
            MappingKind::Private => system::map_private(file, reserved),
        };
        let base = base.map_err(|e| match e.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::EINVAL) if kind == MappingKind::SharedSynchronous => {
                Error::NotPersistentMemory { path: None }
            }
            _ => no_address_space(bytes, "the pool", e),
        })?;
        // Transactions mostly do not access what the system would read around an accessed page; scans read ahead themselves. SAFETY: the range is the
        // new mapping.
        unsafe { system::read_around(base, reserved, false) };
        let mut mapping = Self {
            base: base.cast(),
            reserved,
            extent: extent.into(),
            growth: Mutex::new(()),
            file: Some(kept),
            is_shared,
            is_synchronous: kind == MappingKind::SharedSynchronous,
            is_sparse: AtomicBool::new(is_sparse),
            covers_holes: false,
            is_unnamed: AtomicBool::new(false),
            poison: Arc::default(),
            key: None,
            process: Process::current(),
            page_bytes: system::page_bytes(),
            walks: Mutex::default(),
        };
        mapping.cover_holes().map_err(|e| Error::io("map the holes of the pool", e))?;
        Ok(mapping)
    }

    /// Maps zeros of this process over the holes of a privately mapped file if reading a hole would take space, which on a full tmpfs would be a bus
    /// error.
    fn cover_holes(&mut self) -> std::io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_shared) else { return Ok(()) };
        if !system::reading_holes_takes_space(file).unwrap_or(true) {
            return Ok(());
        }
        for hole in system::holes(file, self.extent())? {
            let (first, end) = self.system_pages(hole.start, hole.end - hole.start);
            if first < end {
                let base = self.base.wrapping_byte_add(first as usize);
                // SAFETY: these are whole pages of this mapping, which no other thread uses yet.
                unsafe { system::map_over(base.cast(), (end - first) as usize, None) }?;
            }
        }
        self.covers_holes = true;
        Ok(())
    }

    /// Shares the state of failures with the pool's other files.
    pub(crate) fn with_poison(mut self, poison: Arc<Poison>) -> Self {
        self.poison = poison;
        self
    }

    /// Maps `bytes` bytes of zeroed anonymous memory.
    ///
    /// # Errors
    /// Returns an error if the system has no memory left.
    pub fn anonymous(bytes: u64) -> Result<Self> {
        let reserved = mappable(bytes)?;
        let base = system::map_anonymous(reserved)
            .map_err(|e| no_address_space(bytes, "the pool's locks and logs", e))?;
        // The lock table is accessed at random, so large pages save address translations, if the system has any. SAFETY: the range is the new
        // mapping.
        unsafe { system::prefer_large_pages(base, reserved) };
        Ok(Self {
            base: base.cast(),
            reserved,
            extent: bytes.into(),
            growth: Mutex::new(()),
            file: None,
            is_shared: false,
            is_synchronous: false,
            is_sparse: AtomicBool::new(false),
            covers_holes: false,
            is_unnamed: AtomicBool::new(false),
            poison: Arc::default(),
            key: None,
            process: Process::current(),
            page_bytes: system::page_bytes(),
            walks: Mutex::default(),
        })
    }

    /// Acts as if the system's pages had this size, a multiple of their real one.
    #[cfg(test)]
    pub fn with_page_bytes(mut self, page_bytes: u64) -> Self {
        self.page_bytes = self.page_bytes.max(page_bytes);
        self
    }

    /// Returns the size in bytes of the system's pages, which it can only release as a whole.
    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns the offsets of the first whole page of the system in the `bytes` bytes at `offset`, and of the end of the last one. If asked for a
    /// part of a page, a system would release all of it.
    fn system_pages(&self, offset: u64, bytes: u64) -> (u64, u64) {
        let first = offset.next_multiple_of(self.page_bytes);
        let end = (offset + bytes) & !(self.page_bytes - 1);
        (first, end.max(first))
    }

    /// Tells the system that a walk over most of the words begins or has ended. Meanwhile it reads around accessed pages.
    pub fn walk(&self, begins: bool) {
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *walks;
        *walks = if begins { before + 1 } else { before.saturating_sub(1) };
        if self.file.is_some() && (before == 0) != (*walks == 0) {
            // SAFETY: the range is this mapping.
            unsafe { system::read_around(self.base.cast(), self.reserved, begins) };
        }
    }

    /// Begins to read the system's pages with the `bytes` bytes at `offset`, as far as the file has them, without waiting.
    pub fn read_ahead(&self, offset: u64, bytes: u64) {
        let first = offset & !(self.page_bytes - 1);
        let end = offset.saturating_add(bytes).min(self.extent());
        if first < end && self.file.is_some() {
            let base = self.base.wrapping_byte_add(first as usize);
            // SAFETY: the range begins with a whole page of this mapping, and ends inside the mapping.
            unsafe { system::read_ahead(base.cast(), (end - first) as usize) };
        }
    }

    /// Maps the pages of the first `bytes` bytes now, as far as the system can.
    pub fn map_ahead(&self, bytes: u64) {
        // Pages of a privately mapped file, and holes, are only read: writing would copy or allocate them.
        let to_write = !self.is_sparse.load(Ordering::Relaxed) && (self.is_shared || self.file.is_none());
        let length = self.extent().min(bytes) as usize;
        // SAFETY: the range is this mapping or its beginning.
        unsafe { system::map_ahead(self.base.cast(), length, to_write) };
    }

    /// Makes the pages of the `bytes` bytes at `offset`, which will soon be stored to, this process's own copies, where the mapping is a
    /// private one of a file. One by one each would be mapped to be read first, and then again when it is stored to.
    pub fn copy_ahead(&self, offset: u64, bytes: u64) {
        let first = offset.next_multiple_of(self.page_bytes);
        let end = offset.saturating_add(bytes).min(self.extent()) & !(self.page_bytes - 1);
        if first < end && !self.is_shared && self.file.is_some() {
            let base = self.base.wrapping_byte_add(first as usize);
            // SAFETY: the range consists of whole pages of this mapping.
            unsafe { system::map_ahead(base.cast(), (end - first) as usize, true) };
        }
    }

    /// Releases the memory of those of the system's pages that are whole in the `bytes` bytes at `offset`, if this is a private mapping of a file:
    /// stores to them since they were mapped are lost, and loads return the file's contents. If the system refuses, the stores stay, and this returns
    /// false. Callers whose file has the same bytes only lose the memory.
    ///
    /// # Panics
    /// Panics if the range is not whole pages of the mapping.
    pub fn give_back(&self, offset: u64, bytes: u64) -> bool {
        let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= self.extent());
        let is_pages = offset.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES);
        assert!(is_inside && is_pages, "{bytes} bytes at {offset:#x} are not whole pages of the mapping");
        let (first, end) = self.system_pages(offset, bytes);
        let Some(file) = self.file.as_ref().filter(|_| !self.is_shared && first < end) else { return true };
        let base = self.base.wrapping_byte_add(first as usize);
        // A page that covers a hole would be zeros again, whatever the file has there by now.
        let give_back = if self.covers_holes { system::map_over } else { system::give_back };
        // SAFETY: whole pages inside this mapping, which is a private one of the file from its first byte on, and all access to it is by
        // atomics.
        unsafe { give_back(base.cast(), (end - first) as usize, Some((file, first))) }.is_ok()
    }

    /// Sets the words in the `bytes` bytes at `offset` of anonymous memory to zero, and releases the memory of whole pages of them.
    ///
    /// # Panics
    /// Panics if the range is not words of the mapping, or if the mapping is of a file.
    pub fn clear(&self, offset: u64, bytes: u64) {
        assert!(self.file.is_none(), "only anonymous memory can be cleared");
        let behind = offset + bytes;
        let (first, end) = self.system_pages(offset, bytes);
        let base = self.base.wrapping_byte_add(first as usize);
        // SAFETY: whole pages inside this mapping, which is anonymous, and all access to it is by atomics.
        let given_back =
            first < end && unsafe { system::give_back(base.cast(), (end - first) as usize, None) }.is_ok();
        let left = if given_back { [offset..first, end..behind] } else { [offset..behind, behind..behind] };
        for words in left {
            let words = &self.words()[(words.start / 8) as usize..(words.end / 8) as usize];
            words.iter().for_each(|word| word.store(0, Ordering::Release));
        }
    }

    /// Protects the mapping against stray writes: from now on only [`Native`](super::Native) stores to it.
    ///
    /// # Errors
    /// Returns [`Error::NoProtectionKey`] if the processor or the system has no keys, or if all are taken.
    pub fn protect(mut self) -> Result<Self> {
        self.key = Some(AllocatedKey::protecting(self.base.cast(), self.reserved)?);
        Ok(self)
    }

    /// The key that lets a thread store to the mapping, if it is protected.
    pub(super) fn key(&self) -> Option<ProtectionKey> {
        self.key.as_ref().map(AllocatedKey::number)
    }

    /// The process that mapped it.
    pub fn process(&self) -> Process {
        self.process
    }

    /// The words of the mapping that can be accessed by now.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `base` is page-aligned and maps `extent` bytes until drop; atomics allow sharing.
        unsafe { std::slice::from_raw_parts(self.base, self.extent() as usize / 8) }
    }

    /// The first word.
    pub(super) fn base(&self) -> *const AtomicU64 {
        self.base
    }

    /// Bytes of address space.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved as u64
    }

    /// Bytes that can be accessed by now: as far as the file has grown.
    pub fn extent(&self) -> u64 {
        self.extent.load(Ordering::Acquire)
    }

    /// Makes the file grow to `most` bytes or, if that is not possible, to `least`. `extend` extends the file to the given length.
    /// Returns the number of bytes that can then be accessed.
    ///
    /// # Errors
    /// Returns the errors of `extend`, and an error if no address space is left. Nothing has changed then.
    pub(super) fn grow(
        &self,
        least: u64,
        most: u64,
        extend: impl Fn(&File, u64) -> std::io::Result<()>,
    ) -> std::io::Result<u64> {
        let reserved = self.reserved();
        if least > reserved {
            return Err(system::error(libc::ENOMEM));
        }
        let file = self.file.as_ref().ok_or_else(|| system::error(libc::ENOMEM))?;
        let _one_at_a_time = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        let extent = self.extent();
        if extent >= least {
            return Ok(extent);
        }
        let most = most.clamp(least, reserved);
        let reached = match extend(file, most) {
            Ok(()) => most,
            Err(_) if most > least && self.check_poison().is_ok() => extend(file, least).map(|()| least)?,
            Err(error) => return Err(error),
        };
        self.extent.store(whole_pages(reached), Ordering::Release);
        Ok(self.extent())
    }

    /// Extends the file of a mapping without a device, in which write-backs make stores durable.
    pub(super) fn extend(&self, file: &File, bytes: u64) -> std::io::Result<()> {
        extend(file, bytes)?;
        // The file's length has to be as durable as the stores behind its old end. On an ordinary file system these are not durable.
        if self.is_synchronous {
            self.poison.guard("flushing the pool's file, which has grown", || flush::file(file))
        } else {
            Ok(())
        }
    }

    /// Allocates disk space for the `bytes` bytes at `offset`, if stores go to the file: a store to a hole for which the disk has no space would be
    /// a bus error.
    ///
    /// # Errors
    /// Returns an error if the disk is full. If the system cannot allocate in advance, only the store itself fails.
    pub fn allocate(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
        // A hole is punched before the transaction through which other threads learn that the space is free, so the relaxed load sees it.
        let is_sparse = self.is_sparse.load(Ordering::Relaxed);
        let Some(file) = self.file.as_ref().filter(|_| is_sparse) else { return Ok(()) };
        allocate(file, offset, bytes)
    }

    /// Releases the disk space of the `bytes` bytes at `offset` of a file to which stores go. They are zeros from now on, and [`Mapping::allocate`]
    /// must be called before they are stored to.
    ///
    /// # Errors
    /// Returns an error if the file system does not support holes, or if it fails.
    pub fn punch(&self, offset: u64, bytes: u64) -> std::io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.is_shared) else { return Ok(()) };
        self.is_sparse.store(true, Ordering::Relaxed);
        system::punch(file, offset, bytes)
    }

    /// Makes the holes of a file to which stores go durable, if write-backs make stores durable. On an ordinary file system nothing is durable
    /// before the pool is closed.
    ///
    /// # Errors
    /// Returns an error if the device failed.
    pub(super) fn flush(&self) -> std::io::Result<()> {
        match &self.file {
            Some(file) if self.is_synchronous => {
                self.poison.guard("flushing the holes of the pool's file", || flush::data(file))
            }
            _ => Ok(()),
        }
    }

    /// Notes that the file is meant to have no name. It vanishes with the mapping.
    pub fn expect_no_name(&self) {
        self.is_unnamed.store(true, Ordering::Relaxed);
    }

    /// Returns an error if stores go to a file that another program has deleted or truncated since it was mapped, because they are lost. From then on
    /// [`Mapping::poison`] has this failure, too.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`], and an error if the file cannot be queried.
    pub(super) fn check_file(&self) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.is_shared) else { return Ok(()) };
        // Loaded first, since another thread may make the file grow meanwhile.
        let extent = self.extent();
        let about = file.metadata().map_err(|e| Error::io("read the metadata of the pool's file", e))?;
        let is_deleted = about.nlink() == 0 && !self.is_unnamed.load(Ordering::Relaxed);
        if is_deleted || about.len() < extent {
            self.poison.set("reading the metadata of the pool's file", &system::error(libc::ESTALE));
        }
        self.check_poison()
    }

    /// Returns an error if a flush failed, or the file was found deleted or truncated.
    pub(super) fn check_poison(&self) -> Result<()> {
        self.poison.check()
    }

    /// Returns the state that keeps the first failure of the pool's files.
    pub fn poison(&self) -> &Arc<Poison> {
        &self.poison
    }

    /// Waits until every changed page of a shared mapping is in the file (`msync`).
    ///
    /// # Errors
    /// Returns an error if the device failed.
    pub fn synchronize(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let synchronize = || {
            // SAFETY: the range is this mapping or its beginning, and the mapping is of this file.
            unsafe { system::synchronize(self.base.cast(), self.extent() as usize, file) }
        };
        self.poison.guard("flushing the pool's file", synchronize).map_err(|e| Error::io("msync the pool", e))
    }
}

/// Allocates disk space for an existing part of a file: for its holes, and for space that it shares with other files. If the file system
/// cannot allocate (ext3, FUSE, ramfs, NFS before version 4.2) this does nothing, since the files of a pool have no holes there: they are
/// created without holes, and [`fill_holes`] fills those of copies. Writing zeros here would race with stores and checkpoints.
///
/// # Errors
/// Returns an error if the disk is full, or the file system fails.
pub fn allocate(file: &File, offset: u64, bytes: u64) -> std::io::Result<()> {
    for take in [system::allocate, system::unshare] {
        match take(file, offset, bytes) {
            Err(error) if system::is_unsupported(&error) => {}
            done => done?,
        }
    }
    Ok(())
}

/// Writes zeros to the holes of a file that is not in use yet, if the file system cannot allocate. Otherwise does nothing.
///
/// # Errors
/// Returns an error if the disk is full, or the file system fails. The contents of the file are then unchanged.
pub fn fill_holes(file: &File) -> std::io::Result<()> {
    let holes = system::holes(file, file.metadata()?.len())?;
    if holes.is_empty() || system::can_allocate(file) {
        return Ok(());
    }
    holes.into_iter().try_for_each(|hole| write_zeros(file, hole))
}

/// Writes zeros to a part of a file that has no other contents; the file becomes longer if the part ends behind it.
fn write_zeros(file: &File, part: Range<u64>) -> std::io::Result<()> {
    let zeros = vec![0; 1 << 20];
    for at in part.clone().step_by(zeros.len()) {
        let now = (part.end - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..now as usize], at)?;
    }
    Ok(())
}

/// Returns the ranges of the first `bytes` bytes of `file` that have no disk space of their own, as far as the file system tells.
///
/// # Errors
/// Returns an error if the file cannot be queried.
pub fn lacking_space(file: &File, bytes: u64) -> std::io::Result<Vec<Range<u64>>> {
    match system::lacking_space(file, bytes) {
        Err(error) if system::is_unsupported(&error) => system::holes(file, bytes),
        found => found,
    }
}

/// Extends a file to `bytes` bytes with allocated zeros; does nothing if it is that long already. Only one thread may do this at a time.
pub fn extend(file: &File, bytes: u64) -> std::io::Result<()> {
    let length = file.metadata()?.len();
    if length >= bytes {
        return Ok(());
    }
    match system::allocate(file, length, bytes - length) {
        Err(error) if system::is_unsupported(&error) => {}
        done => return done,
    }
    write_zeros(file, length..bytes).inspect_err(|_| {
        // Frees the space that was taken, for other files. An error does no harm.
        let _ = file.set_len(length);
    })
}

/// Returns the error for a refusal of the system to map this number of bytes.
fn no_address_space(bytes: u64, of: &str, error: std::io::Error) -> Error {
    let what = format!(
        "reserve {bytes} bytes of address space for {of}; raise what limits it (ulimit -v, vm.overcommit_memory), or ask for less \
         (Options::address_space)"
    );
    Error::io(what, error)
}

fn whole_pages(bytes: u64) -> u64 {
    bytes & !(PAGE_BYTES - 1)
}

fn mappable(bytes: u64) -> Result<usize> {
    usize::try_from(bytes)
        .ok()
        .filter(|&length| length > 0 && length.is_multiple_of(4096))
        .ok_or_else(|| Error::Parameter(format!("a mapping of {bytes} bytes is not possible")))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, and values that hold references into it keep it alive.
        unsafe { system::unmap(self.base.cast(), self.reserved) };
        // The key is freed after this, when `key` is dropped.
    }
}
