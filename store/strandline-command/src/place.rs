//! Temporary folders for pools, which are removed however the program ends.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// A folder for pools, which goes with all that is in it when this is dropped.
pub struct Place {
    folder: TempDir,
    /// What to tell about it.
    pub what: String,
}

impl Place {
    /// A folder in memory (`/dev/shm`), or on a disk where there is no such thing.
    ///
    /// # Errors
    /// Returns an error if there is nowhere to write.
    pub fn in_memory() -> std::io::Result<Self> {
        match create(Path::new("/dev/shm")) {
            Ok(folder) => Ok(Self { what: format!("{} (ordinary DRAM)", folder.path().display()), folder }),
            Err(_) => Self::on_disk(),
        }
    }

    /// A folder for temporary files.
    ///
    /// # Errors
    /// Returns an error if there is nowhere to write.
    pub fn on_disk() -> std::io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// A folder within `parent`.
    ///
    /// # Errors
    /// Returns an error if it cannot be made.
    pub fn within(parent: &Path) -> std::io::Result<Self> {
        let folder = create(parent)?;
        Ok(Self { what: format!("{}", folder.path().display()), folder })
    }

    /// The folder that pools are made in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the folder where it is, for somebody to look into.
    pub fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// Removes the folders of all places of this program, before it ends without dropping them.
    pub fn remove_all() {
        for folder in made().drain(..) {
            // Threads may still be making files there.
            while let Err(error) = std::fs::remove_dir_all(&folder)
                && error.kind() == std::io::ErrorKind::DirectoryNotEmpty
            {}
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        made().retain(|folder| folder != self.folder.path());
    }
}

/// The folders of all places that there are.
fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(parent: &Path) -> std::io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("strandline-").tempdir_in(parent)?;
    made().push(folder.path().to_owned());
    Ok(folder)
}
