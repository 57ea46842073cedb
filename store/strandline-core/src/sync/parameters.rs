//! The sizes of a `Sync` pool that do not belong to its layout.

use super::block::{MAXIMAL_RING, MINIMAL_RING};
use crate::error::{Error, Result};
use crate::layout::PAGE_BYTES;

/// The sizes of a `Sync` pool that do not belong to its layout.
///
/// ```
/// # use strandline_core::{self as strandline, Domain, Pool};
/// # let (path, options) = strandline_core::example::path_and_options();
/// use strandline::{Options, SyncParameters};
///
/// // A log of at most 256 KB, and a checkpoint begins whenever 32 pages are dirty.
/// let sync = SyncParameters { ring_blocks: 64, initial_ring_blocks: 64, dirty_pages: 32, ..SyncParameters::default() };
/// let options = Options { sync, ..Options::default() };
/// # let (path, options) = (path, Options { domain: Domain::Sync, sync, ..strandline_core::example::path_and_options().1 });
/// # let pool = Pool::create(&path, &options)?;
/// # let log = std::fs::metadata(strandline_core::file::log_path(&path)).unwrap();
/// # assert_eq!(log.len(), (1 + 64) * 4096);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncParameters {
    /// The greatest number of 4 KB blocks in the ring. The ring is enlarged if checkpoints are frequent because it is half full, or if a transaction
    /// needs more. A ring that is already larger stays as it is.
    pub ring_blocks: u64,
    /// Number of 4 KB blocks in the ring of a new log, unless `ring_blocks` is less.
    pub initial_ring_blocks: u64,
    /// Number of dirty 4 KB pages at which a checkpoint begins. If the pool is not closed, the next open replays what was committed since. Fewer
    /// pages mean a faster restart; more pages mean that pages which change frequently are written less often.
    pub dirty_pages: u64,
    /// Number of dirty 4 KB pages at which commits wait for a checkpoint, and at which a large transaction writes its pages. With more pages, more
    /// changes are written together. `None` means a quarter of `Options::memory`.
    pub most_dirty_pages: Option<u64>,
    /// Number of 4 KB pages of the heap that may be copies in this process's memory. After each checkpoint, clean pages beyond that are released to
    /// the system, and read from the heap file when they are next needed. `None` means three quarters of `Options::memory`.
    pub memory_pages: Option<u64>,
    /// Number of 4 KB blocks of memory in which blocks wait to be written, beyond what the largest transaction takes.
    pub staging_blocks: u64,
    /// If recovery finds a damaged block in the middle of the log, it drops all transactions from there on instead of returning an error, and reports
    /// how many ([`SyncRecoveryReport::lost_transactions`](super::SyncRecoveryReport::lost_transactions)). Acknowledged transactions are then lost,
    /// and if a checkpoint had begun, pages may contain parts of them: check what remains, or export it. This is for a pool that cannot be opened
    /// otherwise and has no backup.
    pub cut_damaged_log: bool,
    /// Keeps checksums of the heap's pages in a third file, whose name is the pool's with `.sums` appended. Checks and backups compare the pages with
    /// them, and thus notice what the disk or another program has changed. They cost 4 bytes for each page of 4 KB, and a flush at each checkpoint. A
    /// pool that has checksums keeps them, whatever this value is. A pool without checksums gets them when it is opened with this set, from the
    /// contents that its file has then.
    pub checksums: bool,
}

impl Default for SyncParameters {
    /// Returns a ring of 4 MB that grows up to 64 MB, a checkpoint at 16 MB of dirty pages, and no checksums.
    fn default() -> Self {
        Self {
            ring_blocks: 16384,
            initial_ring_blocks: 1024,
            dirty_pages: 4096,
            most_dirty_pages: None,
            memory_pages: None,
            staging_blocks: 32,
            cut_damaged_log: false,
            checksums: false,
        }
    }
}

impl SyncParameters {
    /// Checks that such a ring is possible.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if it is not.
    pub fn check(&self) -> Result<()> {
        if !(MINIMAL_RING..=MAXIMAL_RING).contains(&self.ring_blocks)
            || self.initial_ring_blocks < MINIMAL_RING
            || self.dirty_pages == 0
            || self.most_dirty_pages == Some(0)
            || self.staging_blocks > MAXIMAL_RING
        {
            return Err(Error::Parameter(format!(
                "a log of {} blocks, {} at first, and a bound of {} dirty pages is not possible: choose 3 to 2^32 blocks, and at least one page",
                self.ring_blocks, self.initial_ring_blocks, self.dirty_pages
            )));
        }
        Ok(())
    }

    /// Adapts the parameters to a pool that may take `memory` bytes (`Options::memory`). The bounds of page copies and of the log, which recovery
    /// reads into memory, follow from that, and checkpoints begin early enough.
    pub(crate) fn within(self, memory: u64) -> Self {
        let pages = memory / PAGE_BYTES;
        let quarter = (pages / 4).max(1);
        Self {
            ring_blocks: self.ring_blocks.min(quarter.max(MINIMAL_RING)),
            memory_pages: self.memory_pages.or(Some(3 * quarter)),
            dirty_pages: self.dirty_pages.min((pages / 16).max(1)),
            most_dirty_pages: self.most_dirty_pages.or(Some(quarter)),
            ..self
        }
    }

    /// Returns the number of dirty pages at which commits wait.
    pub(super) fn dirty_bound(&self) -> u64 {
        self.most_dirty_pages.unwrap_or(u64::MAX).max(self.dirty_pages)
    }

    /// Returns the number of blocks in the ring of a new log.
    pub(crate) fn first_ring(&self) -> u64 {
        self.initial_ring_blocks.min(self.ring_blocks)
    }
}
