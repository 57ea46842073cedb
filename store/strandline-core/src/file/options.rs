//! How a pool is created or opened.

use std::time::Duration;

use crate::Domain;
use crate::error::{Error, Result};
use crate::layout::{Geometry, PAGE_BYTES};
use crate::memory::{WriteBackInstruction, system};
use crate::sync::SyncParameters;

/// How a pool is created or opened.
///
/// ```
/// # use strandline_core as strandline;
/// use std::time::Duration;
/// use strandline::{Geometry, Options, SyncParameters};
///
/// let options = Options {
///     // The file may not become larger than this.
///     geometry: Geometry { size: 1 << 30, ..Geometry::default() },
///     // A file with another name is refused: it belongs to another program.
///     layout_name: "orders".into(),
///     // The file has this size at first, and grows with the data.
///     initial_size: Some(100 << 20),
///     // Copies of pages and old versions for snapshots.
///     memory: Some(512 << 20),
///     snapshot_bytes: 64 << 20,
///     // Checks and backups notice what the disk has changed.
///     sync: SyncParameters { checksums: true, ..SyncParameters::default() },
///     // A transaction by `later()` is flushed after this time, if nothing flushes before.
///     flush_interval: Duration::from_millis(2),
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes; for creating only, an existing pool has its own.
    pub geometry: Geometry,
    /// Names what the program keeps in the pool, in at most 32 bytes; a pool of another name is refused.
    pub layout_name: String,
    /// What the pool is stored on, and so what a commit waits for.
    pub domain: Domain,
    /// The instruction that writes lines back; `None` for the best there is.
    pub instruction: Option<WriteBackInstruction>,
    /// Opens a file that is not on persistent memory under `Flush` or `FlushOnFail` all the same: for tests
    /// and benchmarks, where nothing has to survive a power failure.
    // Hidden: for the laboratory. Nothing is durable with it after a power failure.
    #[doc(hidden)]
    pub assume_persistent: bool,
    /// Protects the mapped pool against stray writes: a store to it by anything but the library, a wild pointer of the
    /// program's or of a C library's, is a segmentation fault instead of silent damage. Off by default: it costs two
    /// writes of a processor register for each of the library's stores (`docs/operation.md` says how much), and needs a
    /// memory protection key ([`Error::NoProtectionKey`]): x86-64 with `ospke` in `/proc/cpuinfo`.
    pub protect: bool,
    /// The STM has 2 to this power stripe locks, 8 bytes each.
    // Hidden: for tests and benchmarks, which make small pools with few locks.
    #[doc(hidden)]
    pub lock_bits: u32,
    /// Bytes of memory that old versions of what transactions change may take while there are snapshots, a quarter of `memory` at most. It is
    /// taken as they are needed. With 0 there are no snapshots.
    pub snapshot_bytes: u64,
    /// `Sync`: how large the log is at first and at most, and when checkpoints run.
    pub sync: SyncParameters,
    /// Bytes that the file has when the pool is created, on the disk (or in persistent memory) already. As the heap needs more the file
    /// grows, up to the geometry's size; where the disk is full then, the allocation is an error like any other. `None`: a megabyte
    /// of heap. The geometry's size or more: all of it, the logs as well.
    pub initial_size: Option<u64>,
    /// Bytes of address space to reserve: a multiple of 4096, and no fewer than the file has. The pool grows no further while it is open.
    /// `None`: as many as the pool can come to have, or where the system limits address space (`ulimit -v`, `vm.overcommit_memory`) a half, a
    /// quarter and so on of that, so that as much again is left to the program.
    pub address_space: Option<u64>,
    /// Bytes of memory that the pool may take, approximately, for copies of pages and old versions; at least 4 MB. [`SyncParameters::memory_pages`],
    /// [`SyncParameters::most_dirty_pages`] and [`Options::snapshot_bytes`] bound its parts: three quarters, a quarter and a quarter of it.
    /// `None`: 4 GB, or where that is less half of the memory that this process may have, which is the
    /// machine's or its container's (cgroup).
    pub memory: Option<u64>,
    /// Maps all of the pool's pages, and those of its locks, while it is opened, which takes a while for a large one. Otherwise each
    /// is mapped when it is first touched, and the transaction that does so waits for that.
    pub map_ahead: bool,
    /// `Sync`: how long a transaction that is to be durable later ([`Pool::ticket`](super::Pool::ticket)) may stay in memory before it is
    /// flushed, if nobody flushes before. What a power failure can take is what was committed in this time and in one
    /// flush; a killed process loses as much.
    pub flush_interval: Duration,
    /// `Sync`: a call that waits so long until its transaction is durable counts as slow ([`PoolStatistics::slow_writes`](super::PoolStatistics::slow_writes)), and
    /// subscribers of the feature `tracing` are told of it.
    pub slow_transaction: Duration,
}

impl Default for Options {
    /// The `Sync` domain with the default geometry and no layout name.
    fn default() -> Self {
        Self {
            geometry: Geometry::default(),
            layout_name: String::new(),
            domain: Domain::Sync,
            instruction: None,
            assume_persistent: false,
            protect: false,
            lock_bits: 18,
            snapshot_bytes: DEFAULT_MEMORY / 4,
            sync: SyncParameters::default(),
            initial_size: None,
            address_space: None,
            memory: None,
            map_ahead: false,
            flush_interval: Duration::from_millis(10),
            slow_transaction: Duration::from_secs(1),
        }
    }
}

/// The most stripe locks, as a power of two: their numbers have 32 bits.
const MAXIMAL_LOCK_BITS: u32 = 32;

/// The most memory for old versions: their numbers have 32 bits.
const MAXIMAL_SNAPSHOT_BYTES: u64 = 1 << 38;

/// The least [`Options::memory`].
const MINIMAL_MEMORY: u64 = 4 << 20;

/// [`Options::memory`] where nobody sets it and there is enough: 1 GB of dirty pages.
const DEFAULT_MEMORY: u64 = 4 << 30;

impl Options {
    /// Bytes of memory that the pool may take.
    pub(super) fn memory(&self) -> u64 {
        let of_the_process = || (system::memory_limit() / 2).clamp(MINIMAL_MEMORY, DEFAULT_MEMORY);
        self.memory.unwrap_or_else(of_the_process)
    }

    /// Checks that a pool can be open so.
    ///
    /// # Errors
    /// [`Error::Parameter`] says what is impossible; [`Error::UnsupportedDomain`].
    pub(super) fn check(&self) -> Result<()> {
        self.domain.check()?;
        if self.lock_bits > MAXIMAL_LOCK_BITS {
            return Err(Error::Parameter(format!(
                "lock_bits is {}: the STM has at most 2^{MAXIMAL_LOCK_BITS} stripe locks",
                self.lock_bits
            )));
        }
        if self.snapshot_bytes > MAXIMAL_SNAPSHOT_BYTES {
            return Err(Error::Parameter(format!(
                "snapshot_bytes is {}: old versions take at most {MAXIMAL_SNAPSHOT_BYTES} bytes",
                self.snapshot_bytes
            )));
        }
        if self.memory.is_some_and(|bytes| bytes < MINIMAL_MEMORY) {
            return Err(Error::Parameter(format!("memory must be at least {MINIMAL_MEMORY} bytes")));
        }
        if self.address_space.is_some_and(|bytes| !bytes.is_multiple_of(PAGE_BYTES)) {
            return Err(Error::Parameter("address_space must be a multiple of 4096".into()));
        }
        Ok(())
    }
}
