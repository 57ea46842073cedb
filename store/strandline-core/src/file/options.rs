//! The options for creating or opening a pool.

use std::time::Duration;

use crate::Domain;
use crate::error::{Error, Result};
use crate::layout::{Geometry, PAGE_BYTES};
use crate::memory::{WriteBackInstruction, system};
use crate::sync::SyncParameters;

/// The options for creating or opening a pool.
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
///     // Checks and backups notice changes by the disk.
///     sync: SyncParameters { checksums: true, ..SyncParameters::default() },
///     // A transaction by `later()` is flushed after this time, if nothing flushes before.
///     flush_interval: Duration::from_millis(2),
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The sizes of a new pool. An existing pool has its own.
    pub geometry: Geometry,
    /// A name, of at most 32 bytes, for the kind of data in the pool. A pool with another name is refused.
    pub layout_name: String,
    /// The kind of storage, which determines what a commit waits for.
    pub domain: Domain,
    /// The write-back instruction; `None` selects the best one.
    pub instruction: Option<WriteBackInstruction>,
    /// Opens a file that is not on persistent memory under `Flush` or `FlushOnFail` nevertheless. This is for tests and benchmarks, in which nothing
    /// has to survive a power failure.
    // Hidden: for the laboratory. Nothing is durable with it after a power failure.
    #[doc(hidden)]
    pub assume_persistent: bool,
    /// Protects the mapped pool against stray writes: a store to it by any code but the library, through a wild pointer of the program or of a C
    /// library, is a segmentation fault instead of silent damage. Off by default. It costs two writes of a processor register for each of the
    /// library's stores (`docs/operation.md` has figures), and needs a memory protection key ([`Error::NoProtectionKey`]): x86-64 with `ospke` in
    /// `/proc/cpuinfo`.
    pub protect: bool,
    /// The number of the STM's stripe locks, as a power of two. Each takes 8 bytes.
    // Hidden: for tests and benchmarks, which make small pools with few locks.
    #[doc(hidden)]
    pub lock_bits: u32,
    /// Bytes of memory for old versions of what transactions change, which are kept while there are snapshots; at most a quarter of `memory`. The
    /// memory is taken when it is needed. With 0 there are no snapshots.
    pub snapshot_bytes: u64,
    /// `Sync`: the initial and the greatest size of the log, and when checkpoints run.
    pub sync: SyncParameters,
    /// Initial size of a new pool's file, in bytes, all of it allocated on the disk or in persistent memory. The file grows with the heap up to the
    /// geometry's size; if the disk is full then, the allocation fails like any other. `None` means a megabyte of heap. The geometry's size or more
    /// allocates everything, including the logs.
    pub initial_size: Option<u64>,
    /// Bytes of address space to reserve, a multiple of 4096 and at least the file's size. While it is open, the pool cannot grow beyond that. `None`
    /// means the pool's greatest size, or, if the system limits address space (`ulimit -v`, `vm.overcommit_memory`), a half, a quarter and so on of
    /// it, so that the program has as much again.
    pub address_space: Option<u64>,
    /// The approximate memory that the pool may take for copies of pages and old versions, in bytes; at least 4 MB. [`SyncParameters::memory_pages`],
    /// [`SyncParameters::most_dirty_pages`] and [`Options::snapshot_bytes`] bound its parts: three quarters, a quarter and a quarter of it. `None`
    /// means 4 GB or, if that is less, half of the memory that this process may have, which is the machine's or its container's (cgroup).
    pub memory: Option<u64>,
    /// Maps all pages of the pool and of its locks while it is opened, which takes a while for a large pool. Otherwise a page is mapped at its first
    /// access, and the transaction waits for that.
    pub map_ahead: bool,
    /// `Sync`: how long a transaction that is to be durable later ([`Pool::ticket`](super::Pool::ticket)) may stay in memory before it is flushed, if
    /// no other flush comes before. A power failure or a killed process loses at most what was committed in this time and during one flush.
    pub flush_interval: Duration,
    /// `Sync`: a call that waits at least this long for its transaction's durability counts as slow
    /// ([`PoolStatistics::slow_writes`](super::PoolStatistics::slow_writes)), and is reported to subscribers of the feature `tracing`.
    pub slow_transaction: Duration,
}

impl Default for Options {
    /// Returns the `Sync` domain with the default geometry and no layout name.
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

/// The most stripe locks, as a power of two, because their numbers have 32 bits.
const MAXIMAL_LOCK_BITS: u32 = 32;

/// The most memory for old versions, because their numbers have 32 bits.
const MAXIMAL_SNAPSHOT_BYTES: u64 = 1 << 38;

/// The least value of [`Options::memory`].
const MINIMAL_MEMORY: u64 = 4 << 20;

/// The default of [`Options::memory`] if there is enough memory; 1 GB of it is for dirty pages.
const DEFAULT_MEMORY: u64 = 4 << 30;

impl Options {
    /// Returns the memory that the pool may take, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let of_the_process = || (system::memory_limit() / 2).clamp(MINIMAL_MEMORY, DEFAULT_MEMORY);
        self.memory.unwrap_or_else(of_the_process)
    }

    /// Checks that a pool can be opened with these options.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`], which says what is impossible, and [`Error::UnsupportedDomain`].
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
