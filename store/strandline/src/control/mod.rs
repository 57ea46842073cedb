//! Requests to a database from other processes, while a program has it open.
//!
//! [`Database::serve_control`] has a thread listen on a Unix socket beside the pool, `.control` appended to its name, which only the owner of the process can
//! reach. A request is a line of JSON, a [`Request`]. The answer is a line `{"begin": true}`, then any number of lines of JSON, each an object, and
//! then `{"end": true}` or `{"error": "…", "kind": "…"}`. The same requests can be answered without a socket: [`Database::answer`].

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
    /// The tables: for each an object that describes it, with the number of its rows.
    List,
    /// How full the heap is, and what the pool takes of disk and memory: one object.
    Usage,
    /// [`PoolStatistics`](crate::PoolStatistics), durations in seconds: one object.
    Statistics,
    /// Has everything that is committed written to the pool's file: [`Database::checkpoint`].
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
        /// The least key; `None`: the table's first.
        #[serde(default)]
        from: Option<Value>,
        /// The first key that is too great; `None`: none is.
        #[serde(default)]
        to: Option<Value>,
        /// The most rows.
        #[serde(default)]
        limit: Option<u64>,
    },
    /// Each table, with its rows behind it, as they are at one moment. `strandline pool load` reads it.
    Dump {
        /// Only the table of this name.
        #[serde(default)]
        table: Option<String>,
    },
    /// Copies the database to a new file: [`Database::backup`].
    Backup {
        /// The new file. A relative path is one from the working directory of the process that answers.
        to: PathBuf,
    },
}

/// The socket beside the pool at `pool`, on which a program that has it open may answer requests.
pub fn socket_path(pool: &Path) -> PathBuf {
    let mut name = OsString::from(pool);
    name.push(".control");
    name.into()
}
