//! Pools for measuring: where they lie, how they are made, and that they are gone afterwards.

use std::path::{Path, PathBuf};

use strandline::error::Error;
use strandline::pool::{Geometry, Options, Pool};
use strandline::transaction::Concurrency;
use strandline::{Domain, Result};
use strandline_workloads::Selection;
use tempfile::TempDir;

use super::plan::Plan;
use crate::failure::Failure;

/// Room for arenas' half-used chunks.
const SPARE_BYTES: u64 = 64 << 20;
const CHUNK_BYTES: u64 = 256 << 10;

/// Where pools go.
pub struct Place {
    folder: TempDir,
    /// What to tell about it.
    pub what: String,
}

impl Place {
    /// A folder in memory for every domain but `sync`, which needs a file system on a disk; or one beside
    /// the pool that the user named.
    ///
    /// # Errors
    /// There is nowhere to write.
    pub fn new(plan: &Plan) -> std::result::Result<Self, Failure> {
        let create = |folder: &Path| tempfile::Builder::new().prefix("strandline-bench-").tempdir_in(folder);
        if let Some(path) = &plan.pool {
            if path.exists() {
                return Err(Failure::Usage(format!(
                    "{} exists; --pool names a file that bench creates and removes",
                    path.display()
                )));
            }
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let folder = create(parent.unwrap_or(Path::new(".")))
                .map_err(Failure::io(format!("create a pool at {}", path.display())))?;
            return Ok(Self { what: format!("{}", folder.path().display()), folder });
        }
        if plan.domain != Domain::Sync
            && let Ok(folder) = create(Path::new("/dev/shm"))
        {
            return Ok(Self { what: format!("{} (ordinary DRAM)", folder.path().display()), folder });
        }
        let folder = create(&std::env::temp_dir()).map_err(Failure::io("create a temporary folder"))?;
        Ok(Self { what: format!("{}", folder.path().display()), folder })
    }

    /// The folder, for other files that belong beside the pools.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn file(&self, plan: &Plan, selection: &Selection, concurrency: Concurrency) -> PathBuf {
        let name = plan.pool.as_ref().and_then(|path| path.file_name()).unwrap_or("pool".as_ref());
        let mut name = name.to_os_string();
        name.push(format!("-{}-{concurrency:?}", selection.name().name()));
        self.folder().join(name)
    }
}

/// A prepared pool, open in one mode; its file goes when it is dropped.
pub struct Prepared {
    /// `None` only while it is dropped.
    pool: Option<Pool>,
    path: PathBuf,
    /// Whether the memory is really persistent, or only taken to be.
    pub assumed_persistent: bool,
}

impl Prepared {
    /// Creates a pool and fills it with the workload's structure.
    ///
    /// # Errors
    /// As [`Pool::create`]; the workload does not fit.
    pub fn new(plan: &Plan, place: &Place, selection: &Selection, concurrency: Concurrency) -> Result<Self> {
        let logs = plan.threads.iter().max().copied().unwrap_or(1).max(16);
        let size = logs
            .checked_mul(plan.log_bytes)
            .and_then(|bytes| bytes.checked_add(selection.heap_bytes() + SPARE_BYTES))
            .ok_or_else(|| Error::Parameter("the logs are too large".into()))?;
        let mut options = Options {
            geometry: Geometry {
                size: size.next_multiple_of(4096),
                logs,
                log_bytes: plan.log_bytes,
                chunk_bytes: CHUNK_BYTES,
            },
            domain: plan.domain,
            concurrency,
            instruction: plan.instruction,
            ..Options::default()
        };
        let path = place.file(plan, selection, concurrency);
        // Filling needs no durability of each step, whatever is measured later: it is closed cleanly.
        let filling = Options { domain: Domain::Process, instruction: None, ..options.clone() };
        let pool = Pool::create(&path, &filling)?;
        let mut prepared = Self { pool: Some(pool), path: path.clone(), assumed_persistent: false };
        selection.prepare(&mut prepared.pool().volatile_worker(0)?)?;
        if let Some(pool) = prepared.pool.take() {
            pool.close()?;
        }
        let opened = match Pool::open(&path, &options) {
            Err(Error::NotPersistentMemory) => {
                prepared.assumed_persistent = true;
                options.assume_persistent = true;
                Pool::open(&path, &options)
            }
            opened => opened,
        };
        prepared.pool = Some(opened?);
        Ok(prepared)
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        self.pool.as_ref().expect("the pool is there until drop")
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        drop(self.pool.take());
        // The folder goes too, in the end; this gives the memory back early.
        let _ = std::fs::remove_file(&self.path);
    }
}
