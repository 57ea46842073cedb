//! The sizes of a `Sync` pool that are no part of its layout.

use super::block::{MAXIMAL_RING, MINIMAL_RING};
use crate::error::{Error, Result};
use crate::layout::PAGE_BYTES;

/// Sizes of a `Sync` pool that are no part of its layout.
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
    /// The most 4 KB blocks that the ring comes to have. It becomes larger while checkpoints come too often because it is half full, and
    /// when a transaction needs more. A ring that has more already keeps them.
    pub ring_blocks: u64,
    /// 4 KB blocks in the ring of a new log, if `ring_blocks` is not less.
    pub initial_ring_blocks: u64,
    /// Dirty 4 KB pages at which a checkpoint begins. What was committed since is replayed by the next open if the pool is not closed, so that
    /// fewer mean a faster restart; and more mean that pages which change again and again are written less often.
    pub dirty_pages: u64,
    /// Dirty 4 KB pages at which commits wait for a checkpoint, and at which a large transaction writes them. The more there are, the more
    /// changes reach the device together. `None`: a quarter of `Options::memory`.
    pub most_dirty_pages: Option<u64>,
    /// 4 KB pages of the heap that may be copies in this process's memory. Clean pages beyond that are released to the system after each
    /// checkpoint, and read from the heap file when they are next needed. `None`: three quarters of
    /// `Options::memory`.
    pub memory_pages: Option<u64>,
    /// 4 KB blocks of memory, beyond what the largest transaction takes, in which blocks wait to be written.
    pub staging_blocks: u64,
    /// Recovery that finds a damaged block in the middle of the log drops all transactions from there on, and says how many
    /// ([`SyncRecoveryReport::lost_transactions`](super::SyncRecoveryReport::lost_transactions)), instead of being an error. Acknowledged transactions are lost,
    /// and where a checkpoint had begun pages may hold parts of them: check what is left, or read it out. For what cannot be opened otherwise and has no backup.
    pub cut_damaged_log: bool,
    /// Keeps checksums of the heap's pages in a third file, `.sums` appended to the pool's name, which checks and backups
    /// compare them with: so they notice what the disk, or another program, has changed. It costs 4 bytes for each page of 4 KB, and a
    /// flush at each checkpoint. A pool that has checksums keeps them, whatever this says; one that has none gets them when it is opened so, from what
    /// its file holds then.
    pub checksums: bool,
}

impl Default for SyncParameters {
    /// A ring of 4 MB that grows up to 64 MB; a checkpoint at 16 MB of dirty pages; no checksums.
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
    /// Checks that such a ring can be.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`].
    pub fn check(&self) -> Result<()> {
        if !(MINIMAL_RING..=MAXIMAL_RING).contains(&self.ring_blocks)
            || self.initial_ring_blocks < MINIMAL_RING
            || self.dirty_pages == 0
            || self.most_dirty_pages == Some(0)
            || self.staging_blocks > MAXIMAL_RING
        {
            return Err(Error::Parameter(format!(
                "a log of {} blocks, {} at first, and a bound of {} dirty pages is not possible: 3 to 2^32 blocks, at least one page",
                self.ring_blocks, self.initial_ring_blocks, self.dirty_pages
            )));
        }
        Ok(())
    }

    /// The parameters of a pool that may take `memory` bytes (`Options::memory`): the bounds of page copies and of the log, which recovery
    /// reads into memory, follow from it, and checkpoints begin early enough.
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

    /// Dirty pages at which commits wait.
    pub(super) fn dirty_bound(&self) -> u64 {
        self.most_dirty_pages.unwrap_or(u64::MAX).max(self.dirty_pages)
    }

    /// Blocks in the ring of a new log.
    pub(crate) fn first_ring(&self) -> u64 {
        self.initial_ring_blocks.min(self.ring_blocks)
    }
}
