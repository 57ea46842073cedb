//! Inspects a pool's file without changing it.

use std::io::ErrorKind;
use std::path::Path;

use super::compact::SpaceUsage;
use super::lock::{cannot_lock, holders, try_lock};
use super::new_file::cannot;
use super::open::{FoundLog, OpenFiles, decode_state, log_path, read_header, read_word, resolve};
use super::options::Options;
use super::pool::Pool;
use super::recovery::Recovery;
use crate::Domain;
use crate::engine::{Setup, Stm};
use crate::error::{Error, Result};
use crate::heap::HeapUsage;
use crate::layout::Header;
use crate::layout::{Layout, ROOTS};
use crate::memory::{Memory, SharedFile, system};
use crate::scheme::Schemes;

/// Information about a pool, as `strandline pool info` shows it.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// let pool = Pool::create(&path, &options)?;
/// let info = strandline_core::file::inspect(&path, Default::default())?;
/// assert_eq!((info.open, info.in_use), (true, Some("process")));
/// pool.close()?;
/// let info = strandline_core::file::inspect(&path, Default::default())?;
/// assert_eq!((info.open, info.in_use, info.usage.unwrap().objects), (false, None, 0));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolInfo {
    /// The header, which is written once, when the pool is created.
    pub header: Header,
    /// The length of its file in bytes, including holes.
    pub file_bytes: u64,
    /// The domain under which the pool is in use, or was when it was not closed; `None` after a clean close.
    pub in_use: Option<&'static str>,
    /// The scheme whose logs a pool in use has.
    pub scheme: Option<&'static str>,
    /// True if a process has the pool open.
    pub open: bool,
    /// A description of the process that has the pool open, if the system tells.
    pub open_in: Option<String>,
    /// Every transaction up to this TxID is in its home locations.
    pub watermark: u64,
    /// Number of logs in the directory.
    pub logs: u64,
    /// The root words; 0 if a root is not used.
    pub roots: Vec<u64>,
    /// The usage of the heap after recovery; `None` while a process has the pool open.
    pub usage: Option<HeapUsage>,
    /// The disk space that its files take.
    pub space: SpaceUsage,
    /// The log file beside it, which is not checked if the pool is in use in another domain than `Sync`.
    pub log: LogFile,
    /// The work of the next recovery, as found by recovering a private copy; `None` while a process has the pool open.
    pub recovery: Option<Recovery>,
}

/// The log file beside a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFile {
    /// There is no log, and the pool never had one.
    None,
    /// The log that belongs to the pool.
    Own {
        /// Number of 4 KB blocks in its ring.
        ring_blocks: u64,
    },
    /// The pool had a log, which is missing. A cleanly closed pool gets a new one when it is next opened under `Sync`.
    Missing,
    /// The log was never used; an interrupted creation has left it. The pool's own log will replace it.
    Unused,
    /// The log is damaged or belongs to another pool; the text describes what is wrong.
    Wrong(String),
}

impl LogFile {
    fn beside(files: &OpenFiles, is_clean: bool) -> Result<Self> {
        let name = log_path(&files.path);
        let log = match system::open_to_read(&name) {
            Ok(log) => log.into(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(if files.own_log()?.is_some() { Self::Missing } else { Self::None });
            }
            Err(error) => return Err(cannot("open", &name)(error)),
        };
        match files.judge_log(log, is_clean) {
            Ok(FoundLog::Own(log)) => Ok(Self::Own { ring_blocks: log.ring_blocks }),
            Ok(FoundLog::Unused(_)) => Ok(Self::Unused),
            Err(error @ Error::LogFile { .. }) => Ok(Self::Wrong(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// Inspects the pool at `path` without changing anything.
///
/// # Errors
/// Returns the errors of [`Pool::open`], but the layout name, the domain and locks do not matter.
pub fn inspect(path: impl AsRef<Path>, schemes: Schemes) -> Result<PoolInfo> {
    let mut info = inspect_files(path.as_ref(), schemes)?;
    if !info.open {
        let pool = open_to_look(path.as_ref(), &info.header, schemes)?;
        let view = pool.native_view()?;
        info.roots = (0..ROOTS).map(|root| view.memory.load(pool.layout().root(root))).collect();
        info.usage = Some(pool.usage()?);
        info.recovery = Some(*pool.recovery());
    }
    Ok(info)
}

/// Like [`inspect`], but without a recovery: roots, usage and what recovery will have to do are left out. This also works for a pool that cannot be
/// recovered.
///
/// # Errors
/// Returns the errors of [`inspect`].
pub fn inspect_files(path: impl AsRef<Path>, schemes: Schemes) -> Result<PoolInfo> {
    let path = &resolve(path.as_ref()).map_err(cannot("open the pool", path.as_ref()))?;
    let file: SharedFile = system::open_to_read(path).map_err(cannot("open the pool", path))?.into();
    let header = read_header(&file, path)?;
    let file_bytes = file.metadata().map_err(cannot("read the metadata of", path))?.len();
    let state = read_word(&file, Layout::STATE.offset())?;
    let (mut in_use, mut scheme) = (None, None);
    if state != 0 {
        let (domain, kind) = decode_state(state, schemes).map_err(|error| error.in_pool(path))?;
        in_use = Some(domain.name());
        scheme = Some(kind.modes[0].name);
    }
    let open = !try_lock(&file, true).map_err(cannot_lock(path))?;
    let open_in = if open { holders(&file) } else { None };
    let mut logs = 0;
    for index in 0..header.geometry.logs {
        logs += u64::from(read_word(&file, Layout::LOG_DIRECTORY.word(index).offset())? != 0);
    }
    let watermark = read_word(&file, Layout::WATERMARK.offset())?;
    let files =
        OpenFiles { path: path.clone(), heap: file, header: header.clone(), log: None, checksums: None };
    let uses_log = in_use.is_none_or(|domain| domain == Domain::Sync.name());
    let log = if uses_log { LogFile::beside(&files, in_use.is_none())? } else { LogFile::None };
    Ok(PoolInfo {
        header,
        file_bytes,
        in_use,
        scheme,
        open,
        open_in,
        watermark,
        logs,
        roots: Vec::new(),
        usage: None,
        space: SpaceUsage::of_files(&files.heap, path)?,
        log,
        recovery: None,
    })
}

/// Opens a pool for reading under the domain that wrote it.
pub(super) fn open_to_look(path: &Path, header: &Header, schemes: Schemes) -> Result<Pool> {
    let file = system::open_to_read(path).map_err(cannot("open the pool", path))?;
    let state = read_word(&file, Layout::STATE.offset())?;
    let domain = decode_state(state, schemes).map_or(Domain::Process, |(domain, _)| domain);
    let options = Options { domain, layout_name: header.layout_name.clone(), ..Options::default() };
    Setup { control: Stm, schemes }.open_read_only(path, &options)
}
