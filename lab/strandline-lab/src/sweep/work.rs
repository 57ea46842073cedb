//! The work of a sweep's point: a workload, or a trace.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use strandline_sim::Registry;
use strandline_sim::run::{PoolSizes, Run};
use strandline_workloads::{Sizes, WorkloadKind};

/// The work that a point runs.
#[derive(Clone, Debug)]
pub enum Work {
    /// A workload under a software scheme.
    Workload(WorkloadRun),
    /// The accesses of a recorded program.
    Trace(TraceFile),
}

/// A workload, its size, and how much of it to run.
#[derive(Clone, Debug)]
pub struct WorkloadRun {
    /// The workload.
    pub kind: WorkloadKind,
    /// How large its structure is.
    pub sizes: Sizes,
    /// How large its pool is.
    pub pool: PoolSizes,
    /// The software scheme, how much to run, and the seed.
    pub run: Run,
}

/// A trace, identified by its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// Its path.
    pub path: PathBuf,
    /// A digest of its bytes, so that results of an earlier trace of the same name are not used for this one.
    digest: String,
}

impl TraceFile {
    /// Opens the trace in `path`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (mut file, mut hasher) = (File::open(path)?, DefaultHasher::new());
        let mut bytes = vec![0; 1 << 16];
        loop {
            match file.read(&mut bytes)? {
                0 => break,
                read => hasher.write(&bytes[..read]),
            }
        }
        Ok(Self { path: path.to_owned(), digest: format!("{:016x}", hasher.finish()) })
    }
}

impl Work {
    /// Returns the name of the workload, or the trace's path.
    pub fn name(&self) -> String {
        match self {
            Self::Workload(workload) => workload.kind.name.to_owned(),
            Self::Trace(trace) => trace.path.display().to_string(),
        }
    }

    /// Returns everything that determines its result.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Workload(WorkloadRun { kind, sizes, pool, run }) => json!({
                "workload": kind.name,
                "scheme": run.scheme.name(),
                "threads": run.threads,
                "transactions": run.transactions,
                "warm_up": run.warm_up,
                "idle_percent": run.idle_percent,
                "value_bytes": sizes.value_bytes,
                "operations": sizes.operations,
                "keys": sizes.keys,
                "log_bytes": pool.log_bytes,
                "seed": run.seed,
            }),
            Self::Trace(trace) => json!({ "trace": trace.path, "digest": trace.digest }),
        }
    }

    /// Reads the result of [`Work::to_json`]. Sizes that `simulate` cannot set have their defaults.
    ///
    /// # Errors
    /// Returns an error if the value is not work, or names something that the registry does not have.
    pub(super) fn from_json(run: &Value, registry: &Registry) -> Result<Self, String> {
        let number = |name: &str| run[name].as_u64().ok_or_else(|| lacks(name));
        let text = |name: &str| run[name].as_str().ok_or_else(|| lacks(name));
        let unknown = |unknown: strandline_workloads::UnknownName| unknown.to_string();
        if run.get("trace").is_some() {
            let (path, digest) = (PathBuf::from(text("trace")?), text("digest")?.to_owned());
            return Ok(Self::Trace(TraceFile { path, digest }));
        }
        Ok(Self::Workload(WorkloadRun {
            kind: registry.workloads.of_name(text("workload")?).map_err(unknown)?,
            sizes: Sizes {
                value_bytes: number("value_bytes")?,
                operations: number("operations")?,
                keys: text("keys")?.parse().map_err(unknown)?,
                ..Sizes::default()
            },
            pool: PoolSizes { log_bytes: number("log_bytes")?, ..PoolSizes::default() },
            run: Run {
                scheme: registry.scheme(text("scheme")?).map_err(unknown)?,
                threads: number("threads")? as usize,
                transactions: number("transactions")?,
                warm_up: number("warm_up")?,
                idle_percent: number("idle_percent")?,
                seed: number("seed")?,
            },
        }))
    }
}

/// Returns the error for a point without `name`.
pub(super) fn lacks(name: &str) -> String {
    format!("a point of the sweep has no {name}: it was made by another version of Strandline")
}
