//! Restoring: a copy of a backup takes the place of a pool.
//!
//! 1. The backup is copied under temporary names beside the pool, recovered there if need be, closed, and durable.
//! 2. The old files get second names, `.replaced` appended to the pool's, unless they are to be removed.
//! 3. The old checksums are removed: beside the new pool they would be wrong, and the old one can do without them.
//! 4. The new heap takes the old one's name, and the old log is removed. The new checksums get their name.
//!
//! A pool that was closed cleanly needs no log. So if the old pool was, its log is removed before the new heap takes its name, and a kill
//! between any two steps leaves the old pool or the new one. Otherwise the old log is needed until the new heap has the name, and is removed
//! afterwards: a kill between the two leaves the new pool beside a log that is not its own, which opening refuses with the advice to
//! restore again. So it does while the old heap has two names. Each step is durable before the next begins.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::backup::BackupReport;
use super::checksums::{self, checksums_path};
use super::closed_copy::{self, ClosedCopy};
use super::new_file::{cannot, remove_locked, synchronize_folder};
use super::open::{check_name, find, log_path, read_word, resolve, with_suffix};
use crate::Domain;
use crate::error::{Error, Result};
use crate::layout::{Layout, PoolState};
use crate::memory::SharedFile;
use crate::scheme::Schemes;

/// What becomes of the files of a pool that a backup replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldFiles {
    /// They stay beside the new pool, `.replaced` appended to the pool's name.
    Keep,
    /// They are removed.
    Remove,
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// What was copied.
    pub copied: BackupReport,
    /// The old files.
    pub kept: Vec<PathBuf>,
}

/// Puts a copy of the pool at `backup` in the place of the pool at `path`, which no process has open; or makes it, if there is none. The new
/// pool is cleanly closed; what was beside the old one, its log and its checksums, goes with it.
///
/// If the process is killed, the old pool or the new one is at `path`. There are moments in which opening it fails with
/// [`Error::SeveralLinks`], if the old files are kept, or with [`Error::LogFile`], if the old pool was not closed; another restore goes on then.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// use strandline_core::file::{OldFiles, restore};
///
/// let pool = Pool::create(&path, &options)?;
/// let backup = path.with_extension("backup");
/// pool.backup(&backup)?;
/// pool.worker()?.run(|tx| tx.write(tx.root(0), 5))?;
/// pool.close()?;
///
/// let report = restore(&backup, &path, OldFiles::Keep, Default::default())?;
/// assert!(report.kept[0].ends_with("pool.replaced"));
/// assert_eq!(Pool::open(&path, &options)?.worker()?.view(|tx| tx.read(tx.root(0)))?, 0);
/// assert_eq!(Pool::open(&report.kept[0], &options)?.worker()?.view(|tx| tx.read(tx.root(0)))?, 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Locked`] if one of the two is open, [`Error::Damaged`] if the backup's heap or a page with a checksum is damaged
/// ([`check`](super::check()) finds more), [`Error::Parameter`] if it is the pool
/// itself, or if the old files cannot be kept because others have their names; and the errors of [`Pool::open_read_only`](super::Pool::open_read_only)
/// and of input and output. Nothing has changed then, unless the error is of one of the steps that replace files: restore again.
pub fn restore(
    backup: impl AsRef<Path>,
    path: impl AsRef<Path>,
    old_files: OldFiles,
    schemes: Schemes,
) -> Result<RestoreReport> {
    let (backup, path) = (backup.as_ref(), path.as_ref());
    let backup = resolve(backup).map_err(cannot("open the backup", backup))?;
    let path = resolve(path).map_err(cannot("restore the pool", path))?;
    check_name(&path)?;
    if same_file(&backup, &path)? {
        return Err(Error::Parameter(format!(
            "{} is the pool that is to be restored, and no backup",
            backup.display()
        )));
    }
    let old = Old::find(&path)?;
    if old_files == OldFiles::Keep {
        old.check_kept()?;
    }
    let like = old.heap.as_ref().map(|heap| heap.metadata()).transpose().map_err(cannot("look at", &path))?;
    let ClosedCopy { heap, checksums, report: copied } =
        closed_copy::make(&backup, &path, like.as_ref(), schemes)?;
    let kept = if old_files == OldFiles::Keep { old.keep()? } else { Vec::new() };
    if old.sums.is_some() {
        old.remove(&checksums_path(&path), old.sums.as_deref())?;
    }
    if !old.needs_log {
        old.remove(&log_path(&path), old.log.as_deref())?;
    }
    // Its lock is held until everything beside it is its own.
    let _locked = if old.heap.is_some() {
        heap.replace()?
    } else {
        let file = heap.file().clone();
        if heap.publish()?.is_some() {
            return Err(cannot("restore the pool", &path)(ErrorKind::AlreadyExists.into()));
        }
        file
    };
    if old.needs_log {
        old.remove(&log_path(&path), old.log.as_deref())?;
    }
    if let Some(checksums) = checksums {
        checksums::publish(checksums, &path)?;
    }
    Ok(RestoreReport { copied, kept })
}

/// Returns whether both names are of one file that exists.
fn same_file(one: &Path, other: &Path) -> Result<bool> {
    let about = |path: &Path| match std::fs::metadata(path) {
        Ok(about) => Ok(Some((about.dev(), about.ino()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("look at", path)(error)),
    };
    Ok(about(one)?.is_some_and(|one| about(other).is_ok_and(|other| other == Some(one))))
}

/// What is at the pool's place, locked.
struct Old<'p> {
    path: &'p Path,
    heap: Option<SharedFile>,
    log: Option<SharedFile>,
    sums: Option<SharedFile>,
    /// Whether the heap could not be opened without the log.
    needs_log: bool,
}

impl<'p> Old<'p> {
    fn find(path: &'p Path) -> Result<Self> {
        let heap = find(path, false)?;
        let (log, sums) = (find(&log_path(path), false)?, find(&checksums_path(path), false)?);
        // A file too short for a state is no pool.
        let state = heap.as_ref().and_then(|heap| read_word(heap, Layout::STATE.offset()).ok()).unwrap_or(0);
        let needs_log = state != 0 && Domain::of_code(PoolState::decode(state).domain) == Some(Domain::Sync);
        Ok(Self { path, heap, log, sums, needs_log })
    }

    /// The files, and the names that they are kept under.
    fn names(&self) -> [(PathBuf, PathBuf); 3] {
        let kept = with_suffix(self.path, ".replaced");
        [
            (self.path.to_owned(), kept.clone()),
            (log_path(self.path), log_path(&kept)),
            (checksums_path(self.path), checksums_path(&kept)),
        ]
    }

    /// Returns whether an earlier restore was killed after the new heap had its name: the old log has both of its names, and the old heap has the
    /// other one alone.
    fn is_replaced(&self) -> Result<bool> {
        let [(heap, kept_heap), (log, kept_log), _] = self.names();
        Ok(self.heap.is_some()
            && kept_heap.exists()
            && !same_file(&heap, &kept_heap)?
            && same_file(&log, &kept_log)?)
    }

    /// Fails if other files have the names that these are to be kept under.
    fn check_kept(&self) -> Result<()> {
        if [&self.heap, &self.log, &self.sums].iter().all(|file| file.is_none()) {
            return Ok(());
        }
        let is_replaced = self.is_replaced()?;
        let [heap, log, sums] = self.names();
        // Those of an earlier restore that was killed may be there: the log's and the checksums' while the heap has both of its names.
        let was_begun = is_replaced || same_file(&heap.0, &heap.1)?;
        for (name, kept) in [heap, log, sums] {
            if kept.exists() && !was_begun && !same_file(&name, &kept)? {
                return Err(Error::Parameter(format!(
                    "{} exists, perhaps from an earlier restore; move it away or delete it, or have the replaced files removed",
                    kept.display()
                )));
            }
        }
        Ok(())
    }

    /// Gives the files second names, durably; returns these.
    fn keep(&self) -> Result<Vec<PathBuf>> {
        let names = self.names();
        if !self.is_replaced()? {
            // The heap last: until it has one name again, it cannot be opened.
            for (name, kept) in names.iter().rev() {
                if name.exists() && !kept.exists() {
                    std::fs::hard_link(name, kept).map_err(cannot("keep the replaced file as", kept))?;
                    synchronize_folder(kept).map_err(cannot("keep the replaced file as", kept))?;
                }
            }
        }
        Ok(names.into_iter().map(|(_, kept)| kept).filter(|kept| kept.exists()).collect())
    }

    /// Removes one of the files, durably.
    fn remove(&self, name: &Path, file: Option<&File>) -> Result<()> {
        let Some(file) = file else { return Ok(()) };
        remove_locked(file, name).and_then(|()| synchronize_folder(name)).map_err(cannot("remove", name))
    }
}
