//! What the benchmarks on memory share.

use std::path::Path;

use tempfile::TempDir;

/// A folder in /dev/shm where there is one: files there are ordinary memory, taken to be persistent.
pub fn folder_in_memory() -> TempDir {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() }
        .expect("a temporary folder")
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
