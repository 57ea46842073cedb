//! Another size for a pool's log.

use std::path::Path;

use super::new_file::{cannot, remove_locked, synchronize_folder};
use super::open::{FoundLog, OpenFiles, find, log_path, open_locked, read_header, read_word, resolve};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::sync::SyncParameters;

/// Gives the pool at `path`, which nobody has open and which was closed cleanly, a new log for the `Sync` domain, whose ring has `blocks`
/// blocks of 4 KB; the old log, which then holds nothing that the pool does not, is removed. Open with options that allow more
/// ([`SyncParameters::ring_blocks`]) it becomes larger if need be, but never smaller.
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
/// The pool was not closed, or somebody has it open; a log with this name is not its own; there cannot be such a ring, or the disk has
/// no room for it, and then a new log is made when the pool is next opened.
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
        // Before the checkpoint slots refer to the new log: beside them the old one would be refused.
        synchronize_folder(&name).map_err(cannot("remove the old log", &name))?;
    }
    files.make_log(&name, false, parameters).map(drop)
}
