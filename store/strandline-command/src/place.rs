//! Temporary folders for pools, which the program removes however it ends.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// A folder for pools. Dropping this removes the folder and its content.
pub struct Place {
    folder: TempDir,
    /// A description for the user.
    pub what: String,
}

impl Place {
    /// Creates a folder in memory (`/dev/shm`), or on disk if there is no such file system.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn in_memory() -> std::io::Result<Self> {
        match create(Path::new("/dev/shm")) {
            Ok(folder) => Ok(Self { what: format!("{} (ordinary DRAM)", folder.path().display()), folder }),
            Err(_) => Self::on_disk(),
        }
    }

    /// Creates a folder where the system keeps temporary files.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn on_disk() -> std::io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// Creates a folder in `parent`.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn within(parent: &Path) -> std::io::Result<Self> {
        let folder = create(parent)?;
        Ok(Self { what: format!("{}", folder.path().display()), folder })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder so that the user can look into it. Returns its path.
    pub fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// Removes all temporary folders of this program. Call this before the program ends without dropping them.
    pub fn remove_all() {
        for folder in made().drain(..) {
            // Other threads may still create files there, so removing is repeated.
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

/// Returns the folders of all places that exist.
fn made() -> MutexGuard<'static, Vec<PathBuf>> {
    static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(parent: &Path) -> std::io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("strandline-").tempdir_in(parent)?;
    made().push(folder.path().to_owned());
    Ok(folder)
}
