//! Opens and locks the files of the pool at a path, and makes sure that they belong together.
//!
//! # Names
//!
//! A pool is found by the name of its heap file; its log is beside it under the same name with `.log` appended. So a heap must have only one name:
//! symbolic links are resolved before the log is looked for, and a heap with several hard links is refused.
//!
//! # The pool's log
//!
//! A log belongs to the pool by its identity, not by its name: the pool's UUID, and a nonce that is drawn for each log file. The identity is in the
//! log's header and in the heap's checkpoint slots. Both also contain the life of the pool that wrote them last, so that it is noticed if one was
//! restored from an older copy without the other.
//!
//! | the heap | a log of its own | no log | another log |
//! |---|---|---|---|
//! | not closed cleanly | opened | an error | an error |
//! | closed cleanly | opened | created again, and reported | created again if the other log was never used (an interrupted creation left it); otherwise an error |
//!
//! The heap is locked first, then the log; only then is their content read.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::checksums;
use super::create;
use super::lock::lock;
use super::new_file::{
    ATTEMPTS, cannot, elsewhere, folder_of, is_at, remove_leavings, remove_leavings_of_pool, remove_locked,
    synchronize_folder,
};
use super::options::Options;
use crate::Domain;
use crate::error::{Error, Result};
use crate::layout::Header;
use crate::layout::{Layout, PAGE_BYTES, PoolState};
use crate::memory::{SharedFile, system};
use crate::scheme::{SchemeKind, Schemes, check_transaction};
use crate::sync;
use crate::sync::{FileDevice, LogIdentity, OwnLog, SyncParameters};

/// Returns the path of the log of the pool at `path`, which is the pool's with `.log` appended.
///
/// ```
/// use std::path::Path;
///
/// let log = strandline_core::file::log_path(Path::new("/var/lib/shop/orders.pool"));
/// assert_eq!(log, Path::new("/var/lib/shop/orders.pool.log"));
/// ```
pub fn log_path(path: &Path) -> PathBuf {
    with_suffix(path, ".log")
}

/// The suffixes of a pool's name for its log, its checksums, and the socket on which a program answers requests.
const SUFFIXES: [&str; 3] = [".log", ".sums", ".control"];
/// The most bytes in a file's name.
pub(super) const MOST_NAME_BYTES: usize = 255;

/// Returns `path` with `suffix` appended.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The most symbolic links that a path may lead through.
const MOST_LINKS: usize = 40;

/// Returns the only name of the file at `path`, which need not exist: absolute and without symbolic links.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => return done,
        }
        let folder = folder_of(&path).canonicalize()?;
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let here = folder.join(name);
        match std::fs::read_link(&here) {
            // The link refers to a file that does not exist yet.
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(here),
        }
    }
    Err(system::error(libc::ELOOP))
}

/// The files of a pool, locked.
#[derive(Clone)]
pub(super) struct OpenFiles {
    /// The resolved path of the heap.
    pub path: PathBuf,
    pub heap: SharedFile,
    pub header: Header,
    /// The log in the `Sync` domain. A cleanly closed pool that is open for reading only may have none.
    pub log: Option<OpenLog>,
    /// The checksums of its pages, if it has any and is open for writing.
    pub checksums: Option<SharedFile>,
}

/// A log that belongs to the heap.
#[derive(Clone)]
pub(super) struct OpenLog {
    pub file: SharedFile,
    pub identity: LogIdentity,
    pub ring_blocks: u64,
    /// True if the log had to be created again.
    pub remade: bool,
}

/// The verdict about a log that was found beside a heap.
pub(super) enum FoundLog {
    Own(OpenLog),
    /// It is not the heap's, but was never used, because a creation was interrupted. Or its format is an older one, and the pool was closed cleanly.
    Unused(SharedFile),
}

impl OpenFiles {
    /// Finds, opens and locks the files of the pool at `path`.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::open`](super::Pool::open).
    pub fn open(path: &Path, options: &Options, schemes: Schemes, read_only: bool) -> Result<Self> {
        let path = resolve(path).map_err(cannot("open the pool", path))?;
        let heap = open_locked(&path, read_only)?;
        if !read_only {
            // The process that gave the files their names may have been killed before the names were durable.
            synchronize_folder(&path).map_err(cannot("flush the folder of", &path))?;
            remove_leavings_of_pool(&path);
        }
        Self::of_heap(path.clone(), heap, options, schemes, read_only).map_err(|error| error.in_pool(&path))
    }

    fn of_heap(
        path: PathBuf,
        heap: SharedFile,
        options: &Options,
        schemes: Schemes,
        read_only: bool,
    ) -> Result<Self> {
        let links = heap.metadata().map_err(cannot("read the metadata of the pool", &path))?.nlink();
        if links > 1 {
            return Err(Error::SeveralLinks { path, links });
        }
        let header = read_header(&heap, &path)?;
        if header.layout_name != options.layout_name {
            return Err(Error::WrongLayout {
                path,
                expected: options.layout_name.clone(),
                found: header.layout_name,
            });
        }
        let state = read_word(&heap, Layout::STATE.offset())?;
        check_state(state, options.domain, schemes, &path)?;
        let length = heap.metadata().map_err(cannot("read the metadata of the pool", &path))?.len();
        let layout = Layout::new(header.geometry)?;
        layout.check_length(read_word(&heap, layout.reached().offset())?, length, &path)?;
        // This comes before a new log takes over the watermark.
        check_transaction(read_word(&heap, Layout::WATERMARK.offset())?)?;
        let mut files = Self { path, heap, header, log: None, checksums: None };
        if options.domain == Domain::Sync {
            files.log = files.find_log(state == 0, options, read_only)?;
        }
        if !read_only {
            files.checksums = files.find_checksums(options)?;
        }
        Ok(files)
    }

    /// Finds the pool's log. Returns `None` if a clean pool that is open for reading only has none.
    fn find_log(&self, is_clean: bool, options: &Options, read_only: bool) -> Result<Option<OpenLog>> {
        let name = log_path(&self.path);
        let had_log = || self.own_log().map(|own| own.is_some());
        let Some(found) = find(&name, read_only)? else {
            return match (is_clean, read_only) {
                (false, _) => Err(Error::LogFile {
                    path: name.display().to_string(),
                    problem: format!("of the pool {} is missing", self.path.display()),
                    advice: advice(&self.path, false),
                }),
                (true, true) => Ok(None),
                (true, false) => self.make_log(&name, had_log()?, options.sync).map(Some),
            };
        };
        match self.judge_log(found, is_clean)? {
            FoundLog::Own(log) => Ok(Some(log)),
            FoundLog::Unused(_) if read_only => Ok(None),
            FoundLog::Unused(log) => {
                remove_locked(&log, &name).map_err(cannot("remove the unused log", &name))?;
                self.make_log(&name, had_log()?, options.sync).map(Some)
            }
        }
    }

    /// Finds the pool's checksums, or creates them if the options request them.
    fn find_checksums(&self, options: &Options) -> Result<Option<SharedFile>> {
        let (path, heap) = (&self.path, &self.heap);
        if options.domain != Domain::Sync {
            let name = checksums::checksums_path(path);
            // Other domains do not keep checksums up to date, so they would silently become wrong.
            return if name.try_exists().map_err(cannot("look for", &name))? {
                Err(checksums::wrong(&name, "is kept by the Sync domain only, and would be wrong afterwards"))
            } else {
                Ok(None)
            };
        }
        match checksums::find_own(path, heap, &self.header, false)? {
            None if options.sync.checksums => {
                checksums::publish(checksums::make(path, heap, &self.header)?, path)?;
                checksums::find_own(path, heap, &self.header, false)
            }
            found => Ok(found),
        }
    }

    /// Returns the log that the heap was last used with.
    pub fn own_log(&self) -> Result<Option<OwnLog>> {
        sync::log_of_heap(&self.heap, self.header.uuid.as_bytes())
            .map_err(cannot("read the checkpoint slots of", &self.path))
    }

    /// Determines whether the log beside the heap belongs to it.
    ///
    /// # Errors
    /// Returns [`Error::LogFile`] if the log is damaged or belongs to another heap.
    pub fn judge_log(&self, file: SharedFile, is_clean: bool) -> Result<FoundLog> {
        let name = log_path(&self.path);
        let device = FileDevice::new(self.heap.clone(), file.clone(), false);
        if is_clean
            && sync::is_older_log(&device, self.header.uuid.as_bytes()).map_err(cannot("read", &name))?
        {
            // A clean pool needs nothing from its log.
            return Ok(FoundLog::Unused(file));
        }
        let header = sync::read_log_header(&device, &name)?;
        let is_the_pools = header.identity.pool == *self.header.uuid.as_bytes();
        let is_own = match self.own_log()? {
            Some(own) => own.is(&device, &header).map_err(cannot("read", &name))?,
            // Both slots are damaged, which recovery reports.
            None => is_the_pools,
        };
        if is_own {
            let (identity, ring_blocks) = (header.identity, header.ring);
            return Ok(FoundLog::Own(OpenLog { file, identity, ring_blocks, remade: false }));
        }
        if is_clean && !sync::was_used(&device, &header).map_err(cannot("read", &name))? {
            return Ok(FoundLog::Unused(file));
        }
        let heap = self.path.display();
        let problem = if is_the_pools {
            format!(
                "does not fit the pool {heap}: one of the two is older than the other, as if put back from a copy"
            )
        } else {
            format!("is the log of another pool than {heap}")
        };
        Err(Error::LogFile {
            path: name.display().to_string(),
            problem,
            advice: advice(&self.path, is_clean),
        })
    }

    /// Creates the log of a cleanly closed pool. `remade` is whether it had one before.
    pub fn make_log(&self, name: &Path, remade: bool, parameters: SyncParameters) -> Result<OpenLog> {
        remove_leavings(name);
        let watermark = read_word(&self.heap, Layout::WATERMARK.offset())?;
        let (new, log) = create::new_log(&self.heap, &self.header, name, parameters, watermark)?;
        match new.publish()? {
            None => Ok(OpenLog { remade, ..log }),
            Some(_) => Err(cannot("name the log file", name)(ErrorKind::AlreadyExists.into())),
        }
    }
}

/// Returns advice for the case that the log beside a pool is missing or not its own.
fn advice(pool: &Path, is_clean: bool) -> String {
    let pool = pool.display();
    if is_clean {
        format!(
            "the pool was closed cleanly, like each backup, and needs no log: if it is meant to replace the pool that this log was of, remove \
             the log, or use `strandline pool restore BACKUP {pool}`, which does so; otherwise put the pool of this log back"
        )
    } else {
        format!(
            "the pool was not closed and needs its own log: put that back beside it, or restore a backup with \
             `strandline pool restore BACKUP {pool}`"
        )
    }
}

/// Refuses a name for a new pool if its log and checksums could not have their names, or if it would be the name of another pool's log, checksums or
/// control socket.
///
/// # Errors
/// Returns [`Error::Parameter`] if the name ends in `.log`, `.sums` or `.control`, or is too long.
pub fn check_name(path: impl AsRef<Path>) -> Result<()> {
    let Some(name) = path.as_ref().file_name() else { return Ok(()) };
    let bytes = name.as_encoded_bytes();
    if let Some(suffix) = SUFFIXES.into_iter().find(|suffix| bytes.ends_with(suffix.as_bytes())) {
        return Err(Error::Parameter(format!(
            "a pool cannot be named {}: a file whose name ends in {suffix} is the log, the checksums or the control socket of another pool; \
             choose a name that ends in none of {}",
            path.as_ref().display(),
            SUFFIXES.join(", ")
        )));
    }
    let most = MOST_NAME_BYTES - ".sums".len();
    if bytes.len() > most {
        return Err(Error::Parameter(format!(
            "the name of the pool {} has {} bytes: a pool's name has at most {most}, so that its log and its checksums can have theirs",
            path.as_ref().display(),
            bytes.len()
        )));
    }
    Ok(())
}

/// Returns the locked file at `path`, if it exists.
///
/// # Errors
/// Returns [`Error::Locked`] if another process has locked it, and [`Error::Io`] if it cannot be opened or locked.
pub(super) fn find(path: &Path, read_only: bool) -> Result<Option<SharedFile>> {
    for _ in 0..ATTEMPTS {
        let file = match system::open(OpenOptions::new().read(true).write(!read_only), path) {
            Ok(file) => SharedFile::from(file),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("open", path)(error)),
        };
        lock(&file, path, read_only)?;
        // Before the file was locked, its name may have passed to another file, by a repair or an abandoned creation.
        if is_at(&file, path).map_err(cannot("open", path))? {
            return Ok(Some(file));
        }
    }
    Err(cannot("open", path)(elsewhere(path)))
}

/// Opens and locks the file at `path`.
pub(super) fn open_locked(path: &Path, read_only: bool) -> Result<SharedFile> {
    find(path, read_only)?.ok_or_else(|| cannot("open the pool", path)(ErrorKind::NotFound.into()))
}

pub(super) fn read_header(file: &File, path: &Path) -> Result<Header> {
    let length = file.metadata().map_err(cannot("read the size of", path))?.len();
    let mut page = vec![0; PAGE_BYTES.min(length) as usize];
    file.read_exact_at(&mut page, 0).map_err(cannot("read the header of", path))?;
    Header::decode(&page, length, path)
}

pub(super) fn read_word(file: &File, offset: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset).map_err(|e| Error::io("read the pool", e))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Decodes the domain and the scheme of a pool in use.
pub(super) fn decode_state(word: u64, schemes: Schemes) -> Result<(Domain, SchemeKind)> {
    let state = PoolState::decode(word);
    match Domain::of_code(state.domain) {
        Some(domain) if state.unknown == 0 => Ok((domain, schemes.of_code(state.scheme)?)),
        _ => Err(Error::damaged(format!("its state word is {word:#x}"))),
    }
}

/// Checks that a pool with this state opens under `domain`: after a clean close under any domain, otherwise only under the one that wrote it.
fn check_state(word: u64, domain: Domain, schemes: Schemes, path: &Path) -> Result<()> {
    if word == 0 {
        return Ok(());
    }
    let (wrote, _) = decode_state(word, schemes)?;
    if PoolState::decode(word).unprotected {
        return Err(Error::Unprotected { path: None });
    }
    if wrote.code() != domain.code() {
        return Err(Error::WrongDomain {
            path: path.to_owned(),
            wrote: wrote.name().into(),
            asked: domain.name().into(),
        });
    }
    Ok(())
}
