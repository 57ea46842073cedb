//! The operations of concurrent clients, for a checker of linearizability, and the checker: porcupine, in `proof/`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

/// An operation of a client.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Operation {
    pub client: u64,
    /// `put`, `get` or `compare`.
    pub kind: &'static str,
    pub key: String,
    pub value: String,
    pub expected: Option<String>,
    /// The previous text.
    pub previous: Option<String>,
    pub stored: bool,
    /// The time of the call in microseconds.
    pub call: u64,
    /// The time of the return in microseconds. `None` if it is unknown whether the operation was executed or ever will be.
    #[serde(rename = "return")]
    pub returned: Option<u64>,
}

/// Writes a history to a file.
pub fn write(path: &Path, history: &[Operation]) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("the folder takes files"));
    for operation in history {
        let line = serde_json::to_string(operation).expect("it can be written");
        writeln!(file, "{line}").expect("there is space");
    }
    file.flush().expect("there is space");
}

/// Builds the checker with Go.
pub fn checker(folder: &Path) -> PathBuf {
    let checker = folder.join("checker");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&checker)
        .arg(".")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/proof"))
        .status()
        .expect("the checker needs Go: install it, and see that `go` is found");
    assert!(built.success(), "the checker is not built");
    checker
}

/// Checks all histories of the folder.
pub fn check(checker: &Path, folder: &Path) {
    let files = std::fs::read_dir(folder).expect("it is there").map(|file| file.expect("it is there").path());
    let histories: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "jsonl")).collect();
    for some in histories.chunks(1000) {
        let checked = Command::new(checker).args(some).status().expect("the checker runs");
        assert!(checked.success(), "a history in {} is not linearizable", folder.display());
    }
}

/// Returns the number of histories, which `STRANDLINE_RAFT_HISTORIES` can set.
pub fn wanted(otherwise: u64) -> u64 {
    let told = std::env::var("STRANDLINE_RAFT_HISTORIES").ok();
    told.map_or(otherwise, |told| told.parse().expect("STRANDLINE_RAFT_HISTORIES is a number"))
}
