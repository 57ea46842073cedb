//! How pools for measuring are made and opened.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use strandline_core::error::Error;
use strandline_core::file::Options;
use strandline_core::layout::Geometry;
use strandline_core::memory::WriteBackInstruction;
use strandline_core::sync::SyncParameters;
use strandline_core::transaction::Concurrency;
use strandline_core::{Domain, Result};

/// Room for the chunks that the arena of a log has half used, one for each of sixteen sizes of blocks; for all arenas at most, since few
/// of a large number are half used at a time; and for what a workload's estimate leaves out: pages of several trees that are not full.
const SPARE_OF_LOG: u64 = 16 * CHUNK_BYTES;
const SPARE_BYTES: u64 = 48 << 20;
const SPARE_OF_ESTIMATE: u64 = 16 << 20;
const CHUNK_BYTES: u64 = 256 << 10;

/// How a pool for measuring is made and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSetting {
    /// Logs, at least one for each thread.
    pub logs: u64,
    /// Bytes in each log.
    pub log_bytes: u64,
    /// The persistence domain.
    pub domain: Domain,
    /// The write-back instruction; `None` for the best there is.
    pub instruction: Option<WriteBackInstruction>,
    /// How transactions are isolated.
    pub concurrency: Concurrency,
}

impl PoolSetting {
    /// Bytes of a pool with so many bytes of heap.
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

    /// How a pool of so many bytes is made, or one that exists is opened.
    pub fn options(&self, size: u64) -> Options {
        Options {
            geometry: Geometry { size, logs: self.logs, log_bytes: self.log_bytes, chunk_bytes: CHUNK_BYTES },
            domain: self.domain,
            instruction: self.instruction,
            // Growing is not to be timed.
            initial_size: Some(size),
            sync: SyncParameters {
                initial_ring_blocks: SyncParameters::default().ring_blocks,
                ..SyncParameters::default()
            },
            // Nothing of the kind is to be timed. On a disk most pages are never touched.
            map_ahead: self.domain != Domain::Sync,
            ..Options::default()
        }
    }
}

/// A pool of a store that is about to be created.
pub struct NewPool {
    /// Where its file is to be.
    pub path: PathBuf,
    /// How it is created and filled: without durability of each step.
    pub filling: Options,
    measured: Options,
    assumed_persistent: Cell<bool>,
}

impl NewPool {
    /// A pool at `path` with so many bytes of heap.
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

    /// Returns whether the memory was taken to be persistent when it was opened, and is not.
    pub fn assumed_persistent(&self) -> bool {
        self.assumed_persistent.get()
    }

    /// Opens it, with what `open` does, to be measured. Memory that is not persistent is taken to be.
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
