//! Giving the space of free chunks back to the file system, while transactions run; and how much a pool takes.
//!
//! `engine/free_memory.rs` has the protocol. What the file has grown ahead of need is made chunks of the heap before; the file becomes shorter
//! when the pool is closed (`shrink.rs`). A pool that was not closed is searched for held chunks when it is opened.

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

/// What a pool takes of disk and memory.
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
    /// Bytes that the pool's file seems to have.
    pub file_bytes: u64,
    /// Bytes of disk that it takes: fewer where it has holes.
    pub disk_bytes: u64,
    /// Bytes of disk that the log file beside it takes.
    pub log_disk_bytes: u64,
    /// `Sync`: bytes of the heap that are copies in this process's memory.
    pub memory_bytes: u64,
    /// `Sync`: the bound of these, [`SyncParameters::memory_pages`](crate::sync::SyncParameters::memory_pages) as bytes. Between
    /// checkpoints there may be more.
    pub memory_bound: Option<u64>,
}

impl SpaceUsage {
    /// Of a pool's files, which nobody needs to have open.
    pub(super) fn of_files(heap: &File, path: &std::path::Path) -> Result<Self> {
        let heap = heap.metadata().map_err(|e| Error::io("look at the pool's file", e))?;
        // Not every pool has one.
        let log_disk_bytes = std::fs::metadata(log_path(path)).map_or(0, |log| BLOCK * log.blocks());
        let (file_bytes, disk_bytes) = (heap.len(), BLOCK * heap.blocks());
        Ok(Self { file_bytes, disk_bytes, log_disk_bytes, ..Self::default() })
    }
}

/// Bytes in a block as the system counts them.
const BLOCK: u64 = 512;

/// What a compaction did.
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
    /// Bytes of free chunks whose space was given back, if they had any.
    pub punched_bytes: u64,
    /// Bytes of free chunks that kept theirs, because there were snapshots that may read what was in them.
    pub kept_bytes: u64,
    /// Bytes of disk that the pool's file took before.
    pub disk_bytes_before: u64,
    /// Bytes of disk that it takes now.
    pub disk_bytes: u64,
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// What the pool takes of disk and memory. It may be called inside a transaction.
    ///
    /// # Errors
    /// The file cannot be looked at. [`Error::Forked`].
    pub fn space(&self) -> Result<SpaceUsage> {
        self.check_process()?;
        let files =
            SpaceUsage::of_files(&self.file, self.path()).map_err(|error| error.in_pool(self.path()))?;
        let Some(log) = self.shared_log() else { return Ok(files) };
        let (memory_bytes, bound) = log.private_bytes(&self.native_view()?.memory);
        Ok(SpaceUsage { memory_bytes, memory_bound: Some(bound), ..files })
    }

    /// Releases the file space of free chunks to the file system. Transactions go on meanwhile; where they find no free chunk but those that this
    /// works on, it ends early. The file stays as long as it is, with holes, until the pool is closed, and then ends where there is something in it;
    /// what is allocated in a hole takes space again, and is an error where the disk is full.
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
    /// Returns [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Forked`], [`Error::NoFreeLog`] if it takes a worker, [`Error::Nested`] if it is
    /// called inside a transaction of the pool, [`Error::Parameter`] if inside one of another pool, [`Error::Damaged`] if chunks that it held are not
    /// free again, and an error if the file system cannot have holes, or fails.
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(|_, _| ())
    }

    /// Like [`Pool::compact`]; `progress` is called with the number of chunks that were examined, and with the number of all.
    ///
    /// # Errors
    /// As for [`Pool::compact`].
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
        // Whoever holds chunks does so alone.
        let mut compacted = self.compacting();
        let before = self.space()?;
        let mut report = CompactReport { disk_bytes_before: before.disk_bytes, ..CompactReport::default() };
        let mut worker = self.worker()?;
        // Also what the file has grown ahead of need.
        worker.run(|tx| tx.reach_end())?;
        // Beyond its end the file takes no space.
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
        // Nothing else holds chunks meanwhile, whatever transactions do.
        let held = heap::held(&self.native_view()?).len() as u64;
        if held > 0 {
            return Err(Error::damaged(format!("{held} chunks that the compaction held are not free again")));
        }
        report.disk_bytes = self.space()?.disk_bytes;
        Ok(report)
    }

    /// Releases what a compaction held that did not come to its end.
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
            // The pool is not closed: it is dropped while a worker exists.
            drop(pool);
            drop(worker);
            let pool = Pool::open(&path, &options).unwrap();
            pool.worker().unwrap().run(|tx| tx.alloc(chunks * geometry.chunk_bytes)).unwrap();
        }
    }
}
