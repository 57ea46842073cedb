//! Restores a pool: a copy of a backup takes its place.
//!
//! 1. The backup is copied under temporary names beside the pool, recovered there if necessary, closed, and made durable.
//! 2. The old files get second names, with `.replaced` appended to the pool's, unless they are to be removed.
//! 3. The old checksums are removed, because they would be wrong beside the new pool, and the old pool works without them.
//! 4. The new heap takes the old one's name, and the old log is removed. The new checksums get their name.
//!
//! A pool that was closed cleanly needs no log. So if the old pool was, its log is removed before the new heap takes its name, and a kill
//! between any two steps leaves the old pool or the new one. Otherwise the old log is needed until the new heap has the name, and is
//! removed afterwards. A kill in between leaves the new pool beside a log of another pool, and an open fails with the advice to restore
//! again. An open also fails while the old heap has two names. Each step is durable before the next begins.

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

/// The treatment of the files of a pool that a backup replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldFiles {
    /// The files stay beside the new pool, with `.replaced` appended to the pool's name.
    Keep,
    /// The files are removed.
    Remove,
}

/// The report of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The report of the copy.
    pub copied: BackupReport,
    /// The paths of the old files that were kept.
    pub kept: Vec<PathBuf>,
}

/// Puts a copy of the pool at `backup` in the place of the pool at `path`, which no process may have open, or creates that one if there is
/// none. The new pool is cleanly closed. The old pool's log and checksums are removed, or kept beside it ([`OldFiles`]).
///
/// If the process is killed, the old pool or the new one is at `path`. After a kill at certain moments, an open fails with
/// [`Error::SeveralLinks`] if the old files are kept, or with [`Error::LogFile`] if the old pool was not closed; then another restore
/// completes the work.
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
/// Returns [`Error::Locked`] if one of the two pools is open, [`Error::Damaged`] if the backup's heap or a page with a checksum is damaged
/// ([`check`](super::check()) finds more), [`Error::Parameter`] if the backup is the pool itself, or if the old files cannot be kept
/// because other files have their names; and the errors of [`Pool::open_read_only`](super::Pool::open_read_only) and of input and output.
/// Nothing has been changed then, unless one of the steps failed that replace files: restore again in that case.
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
            "{} is the pool that is to be restored, not a backup",
            backup.display()
        )));
    }
    let old = Old::find(&path)?;
    if old_files == OldFiles::Keep {
        old.check_kept()?;
    }
    let like = old
        .heap
        .as_ref()
        .map(|heap| heap.metadata())
        .transpose()
        .map_err(cannot("read the metadata of", &path))?;
    let ClosedCopy { heap, checksums, report: copied } =
        closed_copy::make(&backup, &path, like.as_ref(), schemes)?;
    let kept = if old_files == OldFiles::Keep { old.keep()? } else { Vec::new() };
    if old.sums.is_some() {
        old.remove(&checksums_path(&path), old.sums.as_deref())?;
    }
    if !old.needs_log {
        old.remove(&log_path(&path), old.log.as_deref())?;
    }
    // The lock is held until all files beside the heap are its own.
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

/// Returns whether both names refer to the same existing file.
fn same_file(one: &Path, other: &Path) -> Result<bool> {
    let about = |path: &Path| match std::fs::metadata(path) {
        Ok(about) => Ok(Some((about.dev(), about.ino()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot("read the metadata of", path)(error)),
    };
    Ok(about(one)?.is_some_and(|one| about(other).is_ok_and(|other| other == Some(one))))
}

/// The files at the pool's path, locked.
struct Old<'p> {
    path: &'p Path,
    heap: Option<SharedFile>,
    log: Option<SharedFile>,
    sums: Option<SharedFile>,
    /// True if the heap cannot be opened without the log.
    needs_log: bool,
}

impl<'p> Old<'p> {
    fn find(path: &'p Path) -> Result<Self> {
        let heap = find(path, false)?;
        let (log, sums) = (find(&log_path(path), false)?, find(&checksums_path(path), false)?);
        // A file that is too short for a state is not a pool.
        let state = heap.as_ref().and_then(|heap| read_word(heap, Layout::STATE.offset()).ok()).unwrap_or(0);
        let needs_log = state != 0 && Domain::of_code(PoolState::decode(state).domain) == Some(Domain::Sync);
        Ok(Self { path, heap, log, sums, needs_log })
    }

    /// Returns the names of the files, and the names under which they are kept.
    fn names(&self) -> [(PathBuf, PathBuf); 3] {
        let kept = with_suffix(self.path, ".replaced");
        [
            (self.path.to_owned(), kept.clone()),
            (log_path(self.path), log_path(&kept)),
            (checksums_path(self.path), checksums_path(&kept)),
        ]
    }

    /// Returns whether an earlier restore was killed after the new heap had its name: the old log then has both of its names, and the old
    /// heap only the other one.
    fn is_replaced(&self) -> Result<bool> {
        let [(heap, kept_heap), (log, kept_log), _] = self.names();
        Ok(self.heap.is_some()
            && kept_heap.exists()
            && !same_file(&heap, &kept_heap)?
            && same_file(&log, &kept_log)?)
    }

    /// Fails if other files have the names under which these are to be kept.
    fn check_kept(&self) -> Result<()> {
        if [&self.heap, &self.log, &self.sums].iter().all(|file| file.is_none()) {
            return Ok(());
        }
        let is_replaced = self.is_replaced()?;
        let [heap, log, sums] = self.names();
        // An earlier restore that was killed may have made some of the names: the log's and the checksums', while the heap has both of its
        // names.
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

    /// Gives the files second names, durably. Returns these names.
    fn keep(&self) -> Result<Vec<PathBuf>> {
        let names = self.names();
        if !self.is_replaced()? {
            // The heap comes last: while it has two names, it cannot be opened.
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
