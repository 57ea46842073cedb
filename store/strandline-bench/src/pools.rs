//! Creates and opens the pools that are measured.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use strandline_core::error::Error;
use strandline_core::file::Options;
use strandline_core::layout::Geometry;
use strandline_core::memory::WriteBackInstruction;
use strandline_core::sync::SyncParameters;
use strandline_core::transaction::Concurrency;
use strandline_core::{Domain, Result};

/// Spare room in a pool. Each log's arena may hold a half-used chunk for each of sixteen block sizes (`SPARE_OF_LOG`), but few of many arenas do so
/// at a time, which bounds their sum (`SPARE_BYTES`). `SPARE_OF_ESTIMATE` is for what a workload's estimate leaves out, such as half-full tree pages.
const SPARE_OF_LOG: u64 = 16 * CHUNK_BYTES;
const SPARE_BYTES: u64 = 48 << 20;
const SPARE_OF_ESTIMATE: u64 = 16 << 20;
const CHUNK_BYTES: u64 = 256 << 10;

/// The settings with which a pool that is measured is created and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSetting {
    /// Number of logs, at least one for each thread.
    pub logs: u64,
    /// Size of each log, in bytes.
    pub log_bytes: u64,
    /// The persistence domain.
    pub domain: Domain,
    /// The write-back instruction; `None` selects the best that the processor has.
    pub instruction: Option<WriteBackInstruction>,
    /// The isolation of transactions.
    pub concurrency: Concurrency,
}

impl PoolSetting {
    /// Returns the size in bytes of a pool whose heap has `heap_bytes` bytes.
    ///
    /// # Errors
    /// Returns an error if the logs are too large.
    pub fn size(&self, heap_bytes: u64) -> Result<u64> {
        let logs = self.logs.checked_mul(self.log_bytes);
        let spare = self.logs.saturating_mul(SPARE_OF_LOG).min(SPARE_BYTES) + SPARE_OF_ESTIMATE;
        let size = logs.and_then(|bytes| bytes.checked_add(heap_bytes + spare));
        let size = size.and_then(|bytes| bytes.checked_next_multiple_of(4096));
        size.ok_or_else(|| Error::Parameter("the logs are too large".into()))
    }

    /// Returns the options that create or open a pool of `size` bytes.
    pub fn options(&self, size: u64) -> Options {
        Options {
            geometry: Geometry { size, logs: self.logs, log_bytes: self.log_bytes, chunk_bytes: CHUNK_BYTES },
            domain: self.domain,
            instruction: self.instruction,
            // The pool gets its full size at once, so that no growth is timed.
            initial_size: Some(size),
            sync: SyncParameters {
                initial_ring_blocks: SyncParameters::default().ring_blocks,
                ..SyncParameters::default()
            },
            // Mapped pages cause no page faults while transactions are timed. The `Sync` domain goes without: most of its pages are never touched.
            map_ahead: self.domain != Domain::Sync,
            ..Options::default()
        }
    }
}

/// Describes the pool of a store that is about to be created.
pub struct NewPool {
    /// The path of its file.
    pub path: PathBuf,
    /// The options for creating and filling it, without making each step durable.
    pub filling: Options,
    measured: Options,
    assumed_persistent: Cell<bool>,
}

impl NewPool {
    /// Describes a pool at `path` with `heap_bytes` bytes of heap.
    ///
    /// # Errors
    /// As for [`PoolSetting::size`].
    pub fn new(path: &Path, setting: PoolSetting, heap_bytes: u64) -> Result<Self> {
        let filling = PoolSetting { domain: Domain::Process, instruction: None, ..setting };
        Ok(Self {
            path: path.to_owned(),
            filling: filling.options(setting.size(heap_bytes)?),
            measured: setting.options(0),
            assumed_persistent: Cell::new(false),
        })
    }

    /// Returns whether the pool was opened as if its memory were persistent although it is not.
    pub fn assumed_persistent(&self) -> bool {
        self.assumed_persistent.get()
    }

    /// Calls `open` to open the pool for a measurement. If the memory is not persistent, treats it as if it were.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open<P>(&self, open: impl Fn(&Path, &Options) -> Result<P>) -> Result<P> {
        match open(&self.path, &self.measured) {
            Err(Error::NotPersistentMemory { .. }) => {
                self.assumed_persistent.set(true);
                open(&self.path, &Options { assume_persistent: true, ..self.measured.clone() })
            }
            opened => opened,
        }
    }
}
