//! Changes the size of a pool's log.

use std::path::Path;

use super::new_file::{cannot, remove_locked, synchronize_folder};
use super::open::{FoundLog, OpenFiles, find, log_path, open_locked, read_header, read_word, resolve};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::sync::SyncParameters;

/// Gives the pool at `path` a new log for the `Sync` domain, with a ring of `blocks` blocks of 4 KB. The pool must be cleanly closed, and
/// not open in any process; the old log, from which nothing is needed then, is removed. If the pool is later opened with options that allow
/// a larger ring ([`SyncParameters::ring_blocks`]), the ring grows as necessary, but it never shrinks.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = durable_path_and_options();
/// use strandline_core::file::{LogFile, inspect, resize_log};
///
/// Pool::create(&path, &options)?.close()?;
/// resize_log(&path, 16)?;
/// assert_eq!(inspect(&path, Default::default())?.log, LogFile::Own { ring_blocks: 16 });
/// Pool::open(&path, &options)?;
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the pool was not closed, or a process has it open; if a file with the log's name is not the pool's; if the size is
/// impossible; or if the disk has no room. In the last case a new log is created when the pool is next opened.
pub fn resize_log(path: impl AsRef<Path>, blocks: u64) -> Result<()> {
    let parameters =
        SyncParameters { ring_blocks: blocks, initial_ring_blocks: blocks, ..SyncParameters::default() };
    parameters.check()?;
    let path = resolve(path.as_ref()).map_err(cannot("open the pool", path.as_ref()))?;
    let heap = open_locked(&path, false)?;
    let header = read_header(&heap, &path)?;
    if read_word(&heap, Layout::STATE.offset())? != 0 {
        return Err(Error::Parameter(format!(
            "the pool {} was not closed, and its log is needed; open and close it first, or use `strandline pool recover`",
            path.display()
        )));
    }
    let files = OpenFiles { path, heap, header, log: None, checksums: None };
    let name = log_path(&files.path);
    if let Some(found) = find(&name, false)? {
        let (FoundLog::Own(super::open::OpenLog { file, .. }) | FoundLog::Unused(file)) =
            files.judge_log(found, true)?;
        remove_locked(&file, &name).map_err(cannot("remove the old log", &name))?;
        // This comes before the checkpoint slots refer to the new log, because the old log would be refused beside them.
        synchronize_folder(&name).map_err(cannot("remove the old log", &name))?;
    }
    files.make_log(&name, false, parameters).map(drop)
}
