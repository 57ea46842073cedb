//! The parts that the benchmarks on memory share.

use std::path::Path;

use tempfile::TempDir;

/// Returns a folder in /dev/shm if that exists: files there are ordinary memory, which stands in for persistent memory.
pub fn folder_in_memory() -> TempDir {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() }
        .expect("a temporary folder")
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
