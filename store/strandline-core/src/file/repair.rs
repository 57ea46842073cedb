//! Repairs of damage that can be cured with certainty and without loss.
//!
//! The work is done on a copy, which is recovered, closed and checked. It takes the pool's place only if it has no damage any more; the
//! damaged files stay beside it. So neither an attempt nor a crash during one loses anything, and a pool with damage that cannot be cured
//! is not changed.
//!
//! | damaged | why its cure is certain |
//! |---|---|
//! | the header, if only parts are wrong that are known from elsewhere: magic, version, zeros, size (the pool has it twice), UUID (the log has it too) | its checksum matches afterwards |
//! | the file is too short, and the missing chunks are free | free chunks hold nothing |
//! | the log's header | all of it follows from the UUID and the file's size; its checksum or a block of the log confirms it |
//! | log or checkpoint slots of a pool that was closed cleanly | the log holds nothing that the pool does not |
//! | one of the two checkpoint slots of a pool that was not closed cleanly | the other slot leads to the whole log, which recovery itself checks |
//! | an entry of the log directory | it can have one value only |
//! | words of a large object in the chunk table | they follow from the object's other words |

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::check::check;
use super::checksums::{self, checksums_path};
use super::inspect::open_to_look;
use super::new_file::{cannot, create_like, synchronize_folder};
use super::open::{decode_state, log_path, open_locked, read_header, read_word, resolve, with_suffix};
use super::options::Options;
use crate::Domain;
use crate::engine::{Setup, Stm};
use crate::error::{Error, Result};
use crate::heap;
use crate::layout::Header;
use crate::layout::{Layout, PAGE_BYTES, PoolState};
use crate::memory::{Device, SharedFile, flush, system};
use crate::scheme::Schemes;
use crate::sync;
use crate::sync::{Checksummed, FileDevice, SyncParameters};

/// The report of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Descriptions of the damage that was repaired; empty if there was none.
    pub repaired: Vec<String>,
    /// The paths of the files as they were before.
    pub kept: Vec<PathBuf>,
}

/// Repairs the pool at `path`, if all of its damage can be repaired without losing any stored data. The files as they were before stay
/// beside it, with `.damaged` appended to the pool's name.
///
/// The work is done on a copy, for which there must be space, and which takes the pool's place at the end. A pool without damage is not
/// changed.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use std::os::unix::fs::FileExt;
///
/// Pool::create(&path, &options)?.close()?;
/// // The magic number is gone.
/// std::fs::File::options().write(true).open(&path).unwrap().write_at(b"????", 0).unwrap();
/// assert!(Pool::open(&path, &options).is_err());
///
/// let report = strandline_core::file::repair(&path, Default::default())?;
/// assert_eq!(report.repaired.len(), 1);
/// assert!(report.kept[0].ends_with("pool.damaged"));
/// Pool::open(&path, &options)?;
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns [`Error::Irreparable`] if data are or would be lost, and an error if the pool is in use or cannot be read or copied. Nothing has
/// been changed then.
pub fn repair(path: impl AsRef<Path>, schemes: Schemes) -> Result<RepairReport> {
    repair_as(path.as_ref(), schemes, false)
}

/// Like [`repair`], but if a block in the middle of the log is damaged, drops all transactions from there on. The report has the number of
/// blocks and transactions that were dropped ([`SyncParameters::cut_damaged_log`]). Acknowledged transactions are lost. Use this only for a
/// pool without a backup.
///
/// # Errors
/// Returns the errors of [`repair`].
pub fn repair_and_cut_log(path: impl AsRef<Path>, schemes: Schemes) -> Result<RepairReport> {
    repair_as(path.as_ref(), schemes, true)
}

fn repair_as(path: &Path, schemes: Schemes, cuts_log: bool) -> Result<RepairReport> {
    let path = &resolve(path).map_err(cannot("open the pool", path))?;
    // A header that cannot be read may still be repaired.
    match check(path, schemes) {
        Ok(report) if report.damage.is_empty() => return Ok(RepairReport::default()),
        Ok(_) | Err(Error::NotAPool { .. } | Error::NewerFormat { .. } | Error::OlderFormat { .. }) => {}
        Err(error) => return Err(error),
    }
    let file = open_locked(path, false)?;
    let copy = with_suffix(path, ".repair");
    let kept = with_suffix(path, ".damaged");
    let beside = |path: &Path| [path.to_owned(), log_path(path), checksums_path(path)];
    for taken in beside(&copy).iter().chain(&beside(&kept)) {
        if taken.exists() {
            return Err(Error::Parameter(format!(
                "{} exists, perhaps from an earlier repair; move it away or delete it",
                taken.display()
            )));
        }
    }
    let done = repair_copy(path, &file, &copy, schemes, cuts_log).and_then(|(repaired, was_clean)| {
        // The new pool is locked before it takes the old one's place. Otherwise a program could open it there while its log is still to be
        // moved, and would create a new log.
        let _new = open_locked(&copy, false)?;
        let kept = replace(path, &copy, &kept, was_clean)?;
        Ok(RepairReport { repaired, kept })
    });
    // After a success these files do not exist any more.
    for left in &beside(&copy) {
        let _ = std::fs::remove_file(left);
    }
    // The path of the copy would mislead, since the copy is removed.
    done.map_err(|error| match error {
        Error::Irreparable { problem, .. } => Error::Irreparable { path: Some(path.clone()), problem },
        error => error,
    })
}

/// Copies the pool to `copy` and repairs the copy. Returns descriptions of the damage, and whether the pool was closed cleanly.
fn repair_copy(
    path: &Path,
    file: &File,
    copy: &Path,
    schemes: Schemes,
    cuts_log: bool,
) -> Result<(Vec<String>, bool)> {
    copy_file(file, path, copy)?;
    let log = log_path(path);
    if log.exists() {
        copy_file(&system::open_to_read(&log).map_err(cannot("open", &log))?, &log, &log_path(copy))?;
    }
    let checksums = checksums_path(path);
    if checksums.exists() {
        let file = system::open_to_read(&checksums).map_err(cannot("open", &checksums))?;
        copy_file(&file, &checksums, &checksums_path(copy))?;
    }
    let mut repair = Repair { path: copy, schemes, what: Vec::new(), ring: None, cuts_log };
    repair.header()?;
    let missing_from = repair.length()?;
    repair.log()?;
    repair.directory()?;
    repair.recover()?;
    if repair.ring.is_none() {
        // The pool may have a log from another domain. It matters now that the pool is clean.
        repair.log()?;
        repair.recover()?;
    }
    repair.chunk_table()?;
    let report = check(copy, schemes)?;
    if !report.damage.is_empty() {
        return Err(Error::irreparable(report.damage.join("; ")));
    }
    if let Some(from) = missing_from {
        let header = read_header(&*open(copy)?, copy)?;
        let pool = open_to_look(copy, &header, schemes)?;
        if !heap::is_free_from(&pool.native_view()?, from) {
            return Err(Error::irreparable(format!(
                "the contents from byte {from} on are missing, and were in use"
            )));
        }
    }
    // If the file was truncated before its state, it was not closed cleanly.
    let was_clean = read_word(file, Layout::STATE.offset()).is_ok_and(|state| state == 0);
    Ok((repair.what, was_clean))
}

/// Puts the copy in the pool's place. Returns the paths of the files as they were before. Power may fail between any two of these steps,
/// and before the folder is synchronised any of them may be lost.
fn replace(path: &Path, copy: &Path, kept: &Path, was_clean: bool) -> Result<Vec<PathBuf>> {
    let synchronize = || synchronize_folder(path).map_err(cannot("replace", path));
    let mut all = Vec::new();
    let mut keep = |path: &Path, kept: PathBuf| -> Result<()> {
        if path.exists() {
            std::fs::hard_link(path, &kept).map_err(cannot("keep the damaged file as", &kept))?;
            all.push(kept);
        }
        Ok(())
    };
    let put = |copy: &Path, path: &Path| {
        if copy.exists() { std::fs::rename(copy, path).map_err(cannot("replace", path)) } else { Ok(()) }
    };
    let (log, new_log) = (log_path(path), log_path(copy));
    keep(&checksums_path(path), checksums_path(kept))?;
    keep(&log, log_path(kept))?;
    keep(path, kept.to_owned())?;
    // Beside the old pool, the new checksums only lack some pages.
    put(&checksums_path(copy), &checksums_path(path))?;
    if was_clean {
        // The new log, which has a later life or is a new one, fits only the new pool. Both pools are clean and need no log.
        synchronize()?;
        if log.exists() {
            std::fs::remove_file(&log).map_err(cannot("remove", &log))?;
        }
        synchronize()?;
        put(copy, path)?;
        synchronize()?;
        put(&new_log, &log)?;
    } else {
        // The log first: beside the old pool it serves as well as the old one, since no block has the life that it announces. The old log
        // does not fit the new pool, so it must be gone before that has the name.
        put(&new_log, &log)?;
        synchronize()?;
        put(copy, path)?;
    }
    synchronize()?;
    Ok(all)
}

fn open(path: &Path) -> Result<SharedFile> {
    let file = system::open(OpenOptions::new().read(true).write(true), path);
    file.map(SharedFile::from).map_err(cannot("open", path))
}

/// Copies a file with its owner, permissions and holes.
fn copy_file(from: &File, name: &Path, to: &Path) -> Result<()> {
    let copy = || {
        let about = from.metadata()?;
        let new = create_like(to, Some(&about))?;
        new.set_len(about.len())?;
        let mut piece = vec![0; 1 << 20];
        let mut at = 0;
        while at < about.len() {
            let length = (about.len() - at).min(piece.len() as u64) as usize;
            from.read_exact_at(&mut piece[..length], at)?;
            if piece[..length].iter().any(|&byte| byte != 0) {
                new.write_all_at(&piece[..length], at)?;
            }
            at += length as u64;
        }
        flush::file(&new)
    };
    copy().map_err(cannot("copy", name))
}

/// The copy that is being repaired.
struct Repair<'p> {
    path: &'p Path,
    schemes: Schemes,
    what: Vec<String>,
    /// The number of blocks in the ring of its log, if it has one.
    ring: Option<u64>,
    /// True if a damaged log is to be cut.
    cuts_log: bool,
}

impl Repair<'_> {
    fn write(&mut self, offset: u64, bytes: &[u8], what: String) -> Result<()> {
        open(self.path)?.write_all_at(bytes, offset).map_err(cannot("write", self.path))?;
        self.what.push(what);
        Ok(())
    }

    fn header(&mut self) -> Result<()> {
        let file = open(self.path)?;
        let length = file.metadata().map_err(cannot("read the metadata of", self.path))?.len();
        let mut page = vec![0; PAGE_BYTES.min(length) as usize];
        file.read_exact_at(&mut page, 0).map_err(cannot("read", self.path))?;
        let Err(error) = Header::decode(&page, length, self.path) else { return Ok(()) };
        let log = system::open_to_read(&log_path(self.path)).ok().and_then(|log| sync::log_identity(&log));
        let log_uuid = log.map(|log| log.pool);
        let size = read_word(&file, Layout::SIZE.offset()).ok();
        match Header::repair(&page, size, log_uuid) {
            Some(good) if good == page => Ok(()),
            Some(good) => self.write(0, &good, format!("the header: {error:#}")),
            None => Err(match error {
                Error::DamagedHeader { problem, .. } => {
                    Error::irreparable(format!("the header is damaged: {problem}"))
                }
                error => error,
            }),
        }
    }

    /// Restores the length of a truncated file. Returns the offset of the first byte that was missing, if any was.
    fn length(&mut self) -> Result<Option<u64>> {
        let file = open(self.path)?;
        let mut missing_from = None;
        loop {
            let checked = read_header(&file, self.path).and_then(|header| {
                let layout = Layout::new(header.geometry)?;
                let length = file.metadata().map_err(cannot("read the metadata of", self.path))?.len();
                layout.check_length(read_word(&file, layout.reached().offset())?, length, self.path)
            });
            match checked {
                Ok(()) => return Ok(missing_from),
                Err(Error::Truncated { expected, found, .. }) => {
                    self.forget_checksums(&file, found, expected)?;
                    file.set_len(expected).map_err(cannot("extend", self.path))?;
                    self.what.push(format!("{} bytes at the file's end were missing", expected - found));
                    missing_from.get_or_insert(found);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the checksums of a missing part of the file, which consists of zeros now.
    fn forget_checksums(&self, heap: &SharedFile, from: u64, to: u64) -> Result<()> {
        let header = read_header(heap, self.path)?;
        let Some(file) = checksums::find_own(self.path, heap, &header, false)? else { return Ok(()) };
        let device = checksums::device(heap, &file);
        Checksummed::new(&device, header.uuid.as_bytes(), &Layout::new(header.geometry)?)
            .forget_checksums(&mut (from / PAGE_BYTES..to.div_ceil(PAGE_BYTES)))
            .map_err(cannot("write the checksums of", self.path))
    }

    /// Repairs the log's header and the checkpoint slots. A pool that was closed cleanly gets a new log if its own is damaged. Otherwise
    /// recovery repairs a damaged slot, since it writes both.
    fn log(&mut self) -> Result<()> {
        let (file, name) = (open(self.path)?, log_path(self.path));
        let state = read_word(&file, Layout::STATE.offset())?;
        if !name.exists() || !needs_log(state) {
            return Ok(());
        }
        let uuid = *read_header(&file, self.path)?.uuid.as_bytes();
        let log = open(&name)?;
        let length = log.metadata().map_err(cannot("read the metadata of", &name))?.len();
        self.ring = Some((length / PAGE_BYTES).saturating_sub(1));
        let own = sync::log_of_heap(&file, &uuid).map_err(cannot("read", self.path))?;
        let found = sync::log_identity(&log);
        let is_foreign =
            found.is_some_and(|found| found.pool != uuid || own.is_some_and(|own| own.identity != found));
        let device = FileDevice::new(file, log, true);
        let is_clean = state == 0;
        match sync::read_log_header(&device, &name) {
            _ if is_foreign => {
                Err(Error::irreparable("its log belongs to another pool, or is an older one of this pool"))
            }
            Ok(_) => {
                let slots = sync::damaged_slots(&device, &uuid)?;
                if is_clean && !slots.is_empty() {
                    self.forget_log(&name)?;
                }
                self.what.extend(slots);
                Ok(())
            }
            Err(Error::LogFile { problem, .. }) => {
                self.what.push(format!("the log {problem}"));
                if is_clean {
                    self.forget_log(&name)
                } else if let Some(own) = own
                    && sync::repair_log_header(&device, own).map_err(cannot("repair", &name))?
                {
                    self.what.extend(sync::damaged_slots(&device, &uuid)?);
                    Ok(())
                } else {
                    Err(Error::irreparable(format!("its log {problem}")))
                }
            }
            Err(error) => Err(error),
        }
    }

    fn forget_log(&self, name: &Path) -> Result<()> {
        std::fs::remove_file(name).map_err(cannot("remove", name))
    }

    fn directory(&mut self) -> Result<()> {
        let file = open(self.path)?;
        let layout = Layout::new(read_header(&file, self.path)?.geometry)?;
        for index in 0..layout.geometry.logs {
            let at = Layout::LOG_DIRECTORY.word(index).offset();
            let (found, log) = (read_word(&file, at)?, layout.log(index).offset());
            // The entry of a log that was never created is zero, which is no damage.
            if found != 0 && found != log {
                self.write(
                    at,
                    &log.to_le_bytes(),
                    format!("the directory's entry of log {index} was {found:#x}"),
                )?;
            }
        }
        Ok(())
    }

    /// Recovers and closes the copy.
    fn recover(&mut self) -> Result<()> {
        let file = open(self.path)?;
        let header = read_header(&file, self.path)?;
        let state = read_word(&file, Layout::STATE.offset())?;
        let domain = match state {
            // Both domains would do. `Sync` also writes the log and the checkpoint slots.
            0 if self.ring.is_some() || checksums_path(self.path).exists() => Domain::Sync,
            0 => Domain::Process,
            state => decode_state(state, self.schemes).map_err(irreparable)?.0,
        };
        let mut sync = SyncParameters { cut_damaged_log: self.cuts_log, ..SyncParameters::default() };
        // For a new log. An existing log has its own size.
        sync.initial_ring_blocks = self.ring.filter(|&ring| ring > 1).unwrap_or(sync.initial_ring_blocks);
        sync.ring_blocks = sync.ring_blocks.max(sync.initial_ring_blocks);
        let options = Options {
            domain,
            sync,
            layout_name: header.layout_name,
            assume_persistent: true,
            lock_bits: 10,
            ..Options::default()
        };
        let pool =
            Setup { control: Stm, schemes: self.schemes }.open(self.path, &options).map_err(irreparable)?;
        if let Some(found) = pool.recovery().sync.filter(|found| found.lost_blocks > 0) {
            self.what.push(format!(
                "the log was cut at a damaged block: {} blocks behind it are lost, and with them {} transactions or more",
                found.lost_blocks, found.lost_transactions
            ));
        }
        pool.close().map_err(irreparable)
    }

    fn chunk_table(&mut self) -> Result<()> {
        let file = open(self.path)?;
        let layout = Layout::new(read_header(&file, self.path)?.geometry)?;
        let reached = read_word(&file, layout.reached().offset())?.min(layout.chunk_count);
        let mut table = (0..reached)
            .map(|chunk| read_word(&file, layout.chunk_table.word(chunk).offset()))
            .collect::<Result<Vec<_>>>()?;
        for chunk in heap::repair_large_objects(&mut table) {
            let at = layout.chunk_table.word(chunk).offset();
            let what = format!("the table's word of chunk {chunk}, part of a large object");
            self.write(at, &table[chunk as usize].to_le_bytes(), what)?;
        }
        flush::file(&*open(self.path)?).map_err(cannot("write", self.path))
    }
}

/// Returns whether a pool with this state has a log that matters, at least to the next program that opens it.
fn needs_log(state: u64) -> bool {
    state == 0 || Domain::of_code(PoolState::decode(state).domain) == Some(Domain::Sync)
}

fn irreparable(error: Error) -> Error {
    match error {
        Error::Damaged { path, problem } => Error::Irreparable { path, problem },
        error => error,
    }
}
