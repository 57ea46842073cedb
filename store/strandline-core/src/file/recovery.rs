//! What opening a pool has to do besides what its scheme, or its log, does.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES, View};
use crate::memory::{Memory, Native, PersistentAddress, Space};
use crate::scheme::{self, RecoveryReport};
use crate::sync::{FileDevice, SyncRecoveryReport};

/// What opening a pool had to do, and how long each step took.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// # let pool = Pool::create(&path, &options)?;
/// # let mut worker = pool.worker()?;
/// # worker.run(|tx| tx.write(tx.root(0), 5))?;
/// # drop(pool);
/// # drop(worker);
/// # let db = Pool::open(&path, &options)?;
/// // A crash has ended the program before this one.
/// let recovery = db.recovery();
/// assert_eq!(recovery.replayed(), 1);
/// println!("{:?} to read the logs, {:?} to replay them", recovery.scan, recovery.replay);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// What was found and done.
    pub report: RecoveryReport,
    /// What was found and done in the `Sync` domain, whose time is in `replay`.
    pub sync: Option<SyncRecoveryReport>,
    /// Time taken by reading the logs.
    pub scan: Duration,
    /// Sorting the committed transactions.
    pub sort: Duration,
    /// Storing them home and making that durable.
    pub replay: Duration,
    /// Raising the watermark and zeroing the logs.
    pub truncate: Duration,
    /// Whether the log file that the pool had was missing, and has been made anew; for a pool that is only read, whether it will
    /// be. It happens to a cleanly closed pool alone, which holds everything without its log.
    pub log_remade: bool,
    /// Whether the file system writes to another place when it overwrites (btrfs, for files made by other programs; ZFS, bcachefs): a full disk
    /// then poisons a pool in the `Sync` domain.
    pub overwriting_takes_space: bool,
}

impl Recovery {
    /// Transactions that were replayed.
    pub fn replayed(&self) -> u64 {
        self.sync.map_or(self.report.replayed, |sync| sync.replayed)
    }

    /// Log records that were read.
    pub fn records(&self) -> u64 {
        self.sync.map_or(self.report.records, |sync| sync.records)
    }
}

/// Sees to it that the disk has space for what stores reach that no transaction asks for: a copy of the file may have holes. For
/// domains in which stores reach the file.
pub(super) fn take_space(view: &View<Native>) -> Result<()> {
    let layout = &view.layout;
    let reached = view.memory.load(layout.reached()).min(layout.chunk_count);
    let table_end = layout.chunk_table.word(reached).offset().next_multiple_of(PAGE_BYTES);
    let mut parts = vec![(Layout::HEADER, layout.logs), (layout.data, PersistentAddress::new(table_end))];
    parts.extend(scheme::logs(view)?.into_iter().map(|log| (log, log.byte(layout.geometry.log_bytes))));
    for (from, to) in parts {
        view.memory
            .make_space(from, to.offset() - from.offset())
            .map_err(|e| Error::io("find disk space for the pool", e))?;
    }
    Ok(())
}

/// The parts of the file that transactions may change without asking for space: all but the logs and the chunks that are free. Once the
/// logs are replayed.
fn parts_in_use(view: &View<Native>) -> Vec<Range<u64>> {
    let layout = &view.layout;
    let reached = view.memory.load(layout.reached()).min(layout.chunk_count);
    let table_end = layout.chunk_table.word(reached).offset().next_multiple_of(PAGE_BYTES);
    let mut parts = vec![0..layout.logs.offset(), layout.data.offset()..table_end];
    let is_used = |chunk: u64| view.memory.load(layout.chunk_table.word(chunk)) != 0;
    let chunk_bytes = layout.geometry.chunk_bytes;
    for chunk in (0..reached).filter(|&chunk| is_used(chunk)) {
        let start = layout.chunks.byte(chunk * chunk_bytes).offset();
        match parts.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end += chunk_bytes,
            None => parts.push(start..start + chunk_bytes),
        }
    }
    parts
}

/// The error where a file has holes for which the disk has no room.
pub(super) fn no_space_for_holes(error: std::io::Error) -> Error {
    Error::io(
        "find disk space for the pool, whose file has holes or shares space with a copy; open it for reading, or make room",
        error,
    )
}

/// Sees to it that what is in use of the pool's file has disk space of its own, as far as the disk has room; once the logs are replayed.
///
/// # Errors
/// In a domain in which stores reach the file the disk has no room: a store would be a bus error.
pub(super) fn take_space_in_use(view: &View<Native>, device: Option<&FileDevice>) -> Result<()> {
    let parts = parts_in_use(view);
    if let Some(device) = device {
        return device.take_space_for_heap(&parts).map_err(no_space_for_holes);
    }
    let make =
        |part: Range<u64>| view.memory.make_space(PersistentAddress::new(part.start), part.end - part.start);
    parts.into_iter().try_for_each(make).map_err(no_space_for_holes)
}

/// Checks, once the logs are replayed, that the file at `path` has all that the heap should have.
pub(super) fn check_length(view: &View<Native>, path: &Path) -> Result<()> {
    let reached = view.memory.load(view.layout.reached());
    view.layout.check_length(reached, view.memory.size(Space::Persistent), path)
}
