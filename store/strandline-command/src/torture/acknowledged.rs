//! The file in which the child's threads say what was acknowledged: a word for each thread. It need only
//! survive a kill, which what a process has written to a file does.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The file, open.
pub struct Acknowledged(File);

impl Acknowledged {
    /// Opens it, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the system's.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// Says that operation `number` of `thread` was acknowledged.
    ///
    /// # Errors
    /// Returns an error if the system's.
    pub fn store(&self, thread: u64, number: u64) -> std::io::Result<()> {
        self.0.write_all_at(&number.to_le_bytes(), 8 * thread)
    }

    /// What each of `threads` threads has been told last.
    ///
    /// # Errors
    /// Returns an error if the system's.
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
