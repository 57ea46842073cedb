//! The source files of crates, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// Adds all Rust files below `folder` to `found`.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
