//! The steps of opening a pool besides the recovery of its scheme or its log.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::layout::{Layout, PAGE_BYTES, View};
use crate::memory::{Memory, Native, PersistentAddress, Space};
use crate::scheme::{self, RecoveryReport};
use crate::sync::{FileDevice, SyncRecoveryReport};

/// The work of opening a pool, and the time that each step took.
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
/// // The last program that used the pool ended in a crash.
/// let recovery = db.recovery();
/// assert_eq!(recovery.replayed(), 1);
/// println!("{:?} to read the logs, {:?} to replay them", recovery.scan, recovery.replay);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// The findings and the work, except in the `Sync` domain.
    pub report: RecoveryReport,
    /// The findings and the work in the `Sync` domain, whose time is in `replay`.
    pub sync: Option<SyncRecoveryReport>,
    /// The time to read the logs.
    pub scan: Duration,
    /// The time to sort the committed transactions.
    pub sort: Duration,
    /// The time to store them home and, except in the `Sync` domain, to make this durable.
    pub replay: Duration,
    /// The time to raise the watermark and to zero the logs.
    pub truncate: Duration,
    /// True if the pool's log file was missing and has been created again or, if the pool is open for reading only, will be. This happens
    /// only to a cleanly closed pool, which needs nothing from its log.
    pub log_remade: bool,
    /// True if the file system writes overwritten blocks to another place (btrfs, for files made by other programs; ZFS, bcachefs). A full
    /// disk then poisons a pool in the `Sync` domain.
    pub overwriting_takes_space: bool,
}

impl Recovery {
    /// Returns the number of transactions that were replayed.
    pub fn replayed(&self) -> u64 {
        self.sync.map_or(self.report.replayed, |sync| sync.replayed)
    }

    /// Returns the number of log records that were read.
    pub fn records(&self) -> u64 {
        self.sync.map_or(self.report.records, |sync| sync.records)
    }
}

/// Allocates disk space for the parts of the file that stores reach without a request for space, since a copy of the file may have holes
/// there. For domains in which stores reach the file.
pub(super) fn take_space(view: &View<Native>) -> Result<()> {
    let layout = &view.layout;
    let reached = view.memory.load(layout.reached()).min(layout.chunk_count);
    let table_end = layout.chunk_table.word(reached).offset().next_multiple_of(PAGE_BYTES);
    let mut parts = vec![(Layout::HEADER, layout.logs), (layout.data, PersistentAddress::new(table_end))];
    parts.extend(scheme::logs(view)?.into_iter().map(|log| (log, log.byte(layout.geometry.log_bytes))));
    for (from, to) in parts {
        view.memory
            .make_space(from, to.offset() - from.offset())
            .map_err(|e| Error::io("allocate disk space for the pool", e))?;
    }
    Ok(())
}

/// Returns the parts of the file that transactions may change without a request for space: everything but the logs and the free chunks.
/// Call this after the logs are replayed.
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

/// Returns the error for a file with holes for which the disk has no room.
pub(super) fn no_space_for_holes(error: std::io::Error) -> Error {
    Error::io(
        "allocate disk space for the pool, whose file has holes or shares space with a copy; open it for reading, or make room",
        error,
    )
}

/// Allocates disk space for the used parts of the pool's file, as far as the disk has room. Call this after the logs are replayed.
///
/// # Errors
/// Returns an error if stores reach the file in this domain and the disk has no room: such a store would be a bus error.
pub(super) fn take_space_in_use(view: &View<Native>, device: Option<&FileDevice>) -> Result<()> {
    let parts = parts_in_use(view);
    if let Some(device) = device {
        return device.take_space_for_heap(&parts).map_err(no_space_for_holes);
    }
    let make =
        |part: Range<u64>| view.memory.make_space(PersistentAddress::new(part.start), part.end - part.start);
    parts.into_iter().try_for_each(make).map_err(no_space_for_holes)
}

/// Checks that the file at `path` is as long as the heap requires. Call this after the logs are replayed.
pub(super) fn check_length(view: &View<Native>, path: &Path) -> Result<()> {
    let reached = view.memory.load(view.layout.reached());
    view.layout.check_length(reached, view.memory.size(Space::Persistent), path)
}
