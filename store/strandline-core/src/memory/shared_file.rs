//! An open file of a pool, with its lock.

use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;

use super::process::Process;

/// An open file that several parts of a process use. When the last of them drops it, its lock is released explicitly: a child that another
/// thread has forked also has the file, until it ends or executes another program, and would hold the lock for as long. A duplicate of the
/// descriptor shares the lock and loses it too, so clone this instead.
#[derive(Clone)]
pub struct SharedFile(Arc<Open>);

struct Open {
    file: File,
    /// The process that opened the file. A forked child that drops its copy does not unlock the file of its parent.
    process: Process,
}

impl SharedFile {
    /// Returns the process that opened the file.
    pub(crate) fn process(&self) -> Process {
        self.0.process
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.process.is_current() {
            // Closing the file also releases the lock, but only if no child has the file.
            let _ = self.file.unlock();
        }
    }
}

impl From<File> for SharedFile {
    fn from(file: File) -> Self {
        Self(Arc::new(Open { file, process: Process::current() }))
    }
}

impl Deref for SharedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0.file
    }
}
