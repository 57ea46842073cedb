//! Gives the space of free chunks back to the file system while transactions run, and reports how much space a pool takes.
//!
//! `engine/free_memory.rs` has the protocol. Before that, the part by which the file has grown ahead is divided into chunks of the heap. The file is
//! truncated when the pool is closed (`shrink.rs`). If a pool was not closed, the next open looks for chunks that a compaction held.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use super::open::log_path;
use super::pool::Pool;
use crate::engine::Control;
use crate::error::{Error, Result};
use crate::heap;
use crate::memory::{Memory, Native};
use crate::trace::span;
use crate::transaction::Runner;

/// The disk space and memory that a pool takes.
///
/// ```
/// # use strandline_core::example::*;
/// # let db = pool();
/// let space = db.space()?;
/// println!("{} bytes of the disk, and {} of its log", space.disk_bytes, space.log_disk_bytes);
/// assert!(space.disk_bytes <= space.file_bytes);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceUsage {
    /// The length of the pool's file, in bytes.
    pub file_bytes: u64,
    /// Bytes of disk that the file takes, which are fewer if it has holes.
    pub disk_bytes: u64,
    /// Bytes of disk that the log file takes.
    pub log_disk_bytes: u64,
    /// `Sync`: bytes of the heap that are copies in this process's memory.
    pub memory_bytes: u64,
    /// `Sync`: the bound of these copies, in bytes ([`SyncParameters::memory_pages`](crate::sync::SyncParameters::memory_pages)). Between checkpoints
    /// there may be more.
    pub memory_bound: Option<u64>,
}

impl SpaceUsage {
    /// Returns the usage of a pool's files. The pool need not be open.
    pub(super) fn of_files(heap: &File, path: &std::path::Path) -> Result<Self> {
        let heap = heap.metadata().map_err(|e| Error::io("read the metadata of the pool's file", e))?;
        // Not every pool has a log file.
        let log_disk_bytes = std::fs::metadata(log_path(path)).map_or(0, |log| BLOCK * log.blocks());
        let (file_bytes, disk_bytes) = (heap.len(), BLOCK * heap.blocks());
        Ok(Self { file_bytes, disk_bytes, log_disk_bytes, ..Self::default() })
    }
}

/// Size of a block in which the system counts disk space, in bytes.
const BLOCK: u64 = 512;

/// The report of a compaction.
///
/// ```
/// # use strandline_core::example::*;
/// # let db = pool();
/// let report = db.compact()?;
/// println!("{} bytes instead of {}", report.disk_bytes, report.disk_bytes_before);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of free chunks whose disk space, if any, was released.
    pub punched_bytes: u64,
    /// Bytes of free chunks that kept their disk space, because snapshots may read their old content.
    pub kept_bytes: u64,
    /// Bytes of disk that the pool's file took before.
    pub disk_bytes_before: u64,
    /// Bytes of disk that the pool's file takes now.
    pub disk_bytes: u64,
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Returns the disk space and memory that the pool takes. This may be called inside a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Forked`], and an error if the file cannot be accessed.
    pub fn space(&self) -> Result<SpaceUsage> {
        self.check_process()?;
        let files =
            SpaceUsage::of_files(&self.file, self.path()).map_err(|error| error.in_pool(self.path()))?;
        let Some(log) = self.shared_log() else { return Ok(files) };
        let (memory_bytes, bound) = log.private_bytes(&self.native_view()?.memory);
        Ok(SpaceUsage { memory_bytes, memory_bound: Some(bound), ..files })
    }

    /// Releases the file space of free chunks to the file system. Transactions go on meanwhile. If they find no free chunks but those that this works
    /// on, it ends early. The file keeps its length, with holes, until the pool is closed; closing truncates it behind its last content. Allocating
    /// memory in a hole takes disk space again, and fails if the disk is full.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = path_and_options();
    /// let pool = Pool::create(&path, &options)?;
    /// let mut worker = pool.worker()?;
    /// let block = worker.run(|tx| tx.alloc(100_000))?;
    /// worker.run(|tx| tx.free(block))?;
    /// let report = pool.compact()?;
    /// assert!(report.punched_bytes >= 100_000 && report.disk_bytes < report.disk_bytes_before);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Forked`], [`Error::NoFreeLog`] since it needs a worker, [`Error::Nested`] inside a
    /// transaction of the pool, [`Error::Parameter`] inside one of another pool, [`Error::Damaged`] if chunks that it held are not free again, and an
    /// error if the file system does not support holes or fails.
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(|_, _| ())
    }

    /// Like [`Pool::compact`], but calls `progress` with the number of chunks that were examined and with the number of all chunks.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::compact`].
    pub fn compact_with(&self, mut progress: impl FnMut(u64, u64)) -> Result<CompactReport> {
        self.check_outside()?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if self.native_view()?.memory.is_nested() {
            return Err(Error::Parameter(
                "a compaction runs transactions that may have to wait, while it holds memory that others wait for: call it outside of \
                 transactions of other pools"
                    .into(),
            ));
        }
        span!("compact", pool = %self.path().display());
        // Only one compaction at a time holds chunks.
        let mut compacted = self.compacting();
        let before = self.space()?;
        let mut report = CompactReport { disk_bytes_before: before.disk_bytes, ..CompactReport::default() };
        let mut worker = self.worker()?;
        // Includes the part by which the file has grown ahead.
        worker.run(|tx| tx.reach_end())?;
        // Chunks beyond the file's end take no disk space.
        let in_file = self.space()?.file_bytes.saturating_sub(self.layout().chunks.offset());
        let end = in_file.div_ceil(self.layout().geometry.chunk_bytes).min(self.layout().chunk_count);
        let mut next = Some(0);
        while let Some(from) = next.filter(|&from| from < end) {
            let part = worker.compact(from).map_err(|error| error.in_pool(self.path()))?;
            report.punched_bytes += part.punched_bytes;
            report.kept_bytes += part.kept_bytes;
            next = part.next;
            progress(next.unwrap_or(end).min(end), end);
        }
        *compacted = true;
        // Only this thread holds chunks meanwhile, whatever transactions do.
        let held = heap::held(&self.native_view()?).len() as u64;
        if held > 0 {
            return Err(Error::damaged(format!("{held} chunks that the compaction held are not free again")));
        }
        report.disk_bytes = self.space()?.disk_bytes;
        Ok(report)
    }

    /// Releases the chunks of a compaction that was interrupted.
    #[cold]
    pub(super) fn release_held(&self) -> Result<()> {
        let view = self.native_view()?;
        if heap::held(&view).is_empty() {
            return Ok(());
        }
        self.worker()?.release_held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{Options, path};
    use crate::layout::Geometry;
    use crate::{Domain, Pool, Transaction};

    #[test]
    fn what_a_killed_compaction_held_is_free_again() {
        for domain in [Domain::Sync, Domain::Process] {
            let geometry = Geometry { size: 2 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: 64 << 10 };
            let options = Options { domain, geometry, ..Options::default() };
            let path = path();
            let pool = Pool::create(&path, &options).unwrap();
            let chunks = pool.usage().unwrap().total_bytes / geometry.chunk_bytes;
            let mut worker = pool.worker().unwrap();
            let (held, next) = worker.run(|tx| tx.hold_chunks(0, chunks + 1)).unwrap();
            assert_eq!((held, next), ((0..chunks).collect(), None));
            assert_eq!(pool.usage().unwrap().free_chunks, chunks);
            // The pool is not closed properly, because it is dropped while a worker exists.
            drop(pool);
            drop(worker);
            let pool = Pool::open(&path, &options).unwrap();
            pool.worker().unwrap().run(|tx| tx.alloc(chunks * geometry.chunk_bytes)).unwrap();
        }
    }
}
