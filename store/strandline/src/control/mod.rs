//! Requests to a database from other processes, while a program has it open.
//!
//! [`Database::serve_control`] starts a thread that listens on a Unix socket beside the pool, with `.control` appended to its name. Only the owner of
//! the process can connect to it. A request is a line of JSON, a [`Request`]. The answer is a line `{"begin": true}`, then any number of lines of
//! JSON, each an object, and then `{"end": true}` or `{"error": "…", "kind": "…"}`. The same requests can be answered without a socket:
//! [`Database::answer`].

mod answer;
mod client;
mod server;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(doc)]
use crate::Database;
pub use client::{Refusal, ask};

/// A request to a database.
///
/// ```
/// use strandline::control::Request;
///
/// let line = r#"{"get": {"table": "people", "key": 7}}"#;
/// let request: Request = serde_json::from_str(line)?;
/// assert_eq!(request, Request::Get { table: "people".into(), key: 7.into() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// The tables: an object for each, which describes it and has the number of its rows.
    List,
    /// The usage of the heap, the disk space and the memory that the pool takes: one object.
    Usage,
    /// The [`PoolStatistics`](crate::PoolStatistics), with durations in seconds: one object.
    Statistics,
    /// Writes everything that is committed to the pool's file, with [`Database::checkpoint`].
    Checkpoint,
    /// The row with this key: one object with `key` and `value`, or none. In a multimap, the rows with this key.
    Get {
        /// The table's name.
        table: String,
        /// The key, as [`Dynamic::to_json`](crate::Dynamic::to_json) shows it.
        key: Value,
    },
    /// The rows whose keys are at least `from` and less than `to`.
    Range {
        /// The table's name.
        table: String,
        /// The least key; `None` is the table's first.
        #[serde(default)]
        from: Option<Value>,
        /// The first key beyond the range; `None` if the range has no end.
        #[serde(default)]
        to: Option<Value>,
        /// The most rows.
        #[serde(default)]
        limit: Option<u64>,
    },
    /// Each table, followed by its rows, as they are at one moment. `strandline pool load` reads this.
    Dump {
        /// Only the table of this name.
        #[serde(default)]
        table: Option<String>,
    },
    /// Copies the database to a new file, with [`Database::backup`].
    Backup {
        /// The new file. A relative path refers to the working directory of the process that answers.
        to: PathBuf,
    },
}

/// Returns the path of the socket beside the pool at `pool`, on which a program that has the pool open may answer requests.
pub fn socket_path(pool: &Path) -> PathBuf {
    let mut name = OsString::from(pool);
    name.push(".control");
    name.into()
}
