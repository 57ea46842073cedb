//! The file of acknowledgements: one word per thread of the child. It only has to survive a kill, and data that a process has written to a file does.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The open file.
pub struct Acknowledged(File);

impl Acknowledged {
    /// Opens the file, or creates it if it does not exist.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// Notes that operation `number` of `thread` was acknowledged.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn store(&self, thread: u64, number: u64) -> std::io::Result<()> {
        self.0.write_all_at(&number.to_le_bytes(), 8 * thread)
    }

    /// Returns the last acknowledged operation of each of `threads` threads.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn load(&self, threads: u64) -> std::io::Result<Vec<u64>> {
        (0..threads)
            .map(|thread| {
                let mut word = [0; 8];
                self.0.read_exact_at(&mut word, 8 * thread)?;
                Ok(u64::from_le_bytes(word))
            })
            .collect()
    }
}
