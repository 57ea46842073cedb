//! An open file of a pool, with its lock.

use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;

use super::process::Process;

/// An open file that several parts of a process use. The last of them gives up the lock on it, at once: a child that another thread
/// has forked has the file, too, until it ends or executes another program, and would hold the lock for as long. A duplicate of its descriptor shares the lock and loses it, too: clone this instead.
#[derive(Clone)]
pub struct SharedFile(Arc<Open>);

struct Open {
    file: File,
    /// The process that opened the file. A forked child that drops its copy does not unlock the file of its parent.
    process: Process,
}

impl SharedFile {
    /// The process that opened it.
    pub(crate) fn process(&self) -> Process {
        self.0.process
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.process.is_current() {
            // Closing it does the same where no child has it.
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
