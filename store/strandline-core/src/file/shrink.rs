//! When a pool is closed, its file is shortened by the part by which it has grown beyond the chunks of the heap and, after a compaction, by
//! the free chunks at its end.
//!
//! Only the closing process has the pool open then, so there is no snapshot and no transaction, and no arena remembers free chunks. The
//! steps, in this order:
//!
//! 1. Everything is home, durably, and no recovery will replay anything: in the `Sync` domain both checkpoint slots say so, since one of
//!    them may be damaged later.
//! 2. The word `reached` is lowered, durably. The table's words from there on are zero already.
//! 3. The file is cut off.
//!
//! A crash between 2 and 3 leaves a file that is longer than `reached` requires, as growth also does. In the opposite order the file could
//! be too short, and would be refused.

use crate::error::{Error, Result};
use crate::heap;
use crate::layout::{Layout, PAGE_BYTES, View};
use crate::memory::{AlignedBuffer, Device, DeviceFile, Memory, Native, Poison, Step, flush};
use crate::scheme;
use crate::sync::SharedLog;

/// Returns the number of chunks that the pool keeps: all chunks of the heap or, if `compacted`, those up to the last one in use.
fn kept<M: Memory>(view: &View<M>, compacted: bool) -> u64 {
    if compacted { heap::used_end(view).max(1) } else { heap::reached_by(view) }
}

/// Lowers `reached`, durably. Returns the file's new length in bytes. For the `Sync` domain, after `log` has taken the last checkpoint.
pub(super) fn lower_synced(
    view: &View<Native>,
    device: &dyn Device,
    log: &SharedLog,
    compacted: bool,
) -> Result<u64> {
    let chunks = kept(view, compacted);
    if chunks < heap::reached_by(view) {
        log.repeat_slot(view)?;
        let at = view.layout.reached().offset();
        let page_at = at / PAGE_BYTES * PAGE_BYTES;
        let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
        let mut write = || {
            device.read(DeviceFile::Heap, page_at, &mut page)?;
            let inside = (at - page_at) as usize;
            page[inside..inside + 8].copy_from_slice(&chunks.to_le_bytes());
            // The log has no record of this write.
            device.forget_checksums(&mut std::iter::once(page_at / PAGE_BYTES))?;
            device.write(DeviceFile::Heap, page_at, &page)?;
            device.flush(DeviceFile::Heap)
        };
        write().map_err(|error| Error::io("write the number of the pool's chunks", error))?;
    }
    Ok(view.layout.end_of(chunks).offset())
}

/// Like [`lower_synced`], for a domain in which stores reach the file. The pool is marked as closed already.
pub(super) fn lower_stored(view: &View<Native>, compacted: bool) -> u64 {
    let (memory, chunks) = (&view.memory, kept(view, compacted));
    if chunks < heap::reached_by(view) {
        memory.store(view.layout.reached(), chunks);
        memory.write_back(view.layout.reached(), Step::MarkState);
        memory.fence(Step::MarkState);
    }
    view.layout.end_of(chunks).offset()
}

/// Releases the space of the threads' logs to the file system, for a domain in which stores reach the file. The pool is marked as closed,
/// so nothing in the logs is needed. The next worker that leases a log allocates its space again.
///
/// # Errors
/// Returns an error if the directory of logs is damaged.
pub(super) fn release_logs(view: &View<Native>) -> Result<()> {
    let memory = &view.memory;
    let logs = scheme::logs(view)?;
    for index in 0..view.layout.geometry.logs {
        let log = view.layout.log(index);
        if !logs.contains(&log) {
            continue;
        }
        if memory.punch(log, view.layout.geometry.log_bytes).is_err() {
            // The file system does not support holes, or failed. The space stays allocated.
            break;
        }
        let entry = Layout::LOG_DIRECTORY.word(index);
        memory.store(entry, 0);
        memory.write_back(entry, Step::MarkState);
        memory.fence(Step::MarkState);
    }
    Ok(())
}

/// Removes the checksums of the pages behind `bytes` bytes, which are about to be cut off.
///
/// # Errors
/// Returns an error if the device fails.
pub(super) fn forget_end(device: &dyn Device, bytes: u64) -> Result<()> {
    let forget = || {
        let end = device.size(DeviceFile::Heap)?;
        if end <= bytes {
            return Ok(());
        }
        device.forget_checksums(&mut (bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES)))
    };
    forget().map_err(|error| Error::io("write the pool's checksums", error))
}

/// Truncates the file to `bytes` bytes, if it is longer.
pub(super) fn cut(file: &std::fs::File, bytes: u64, poison: &Poison) -> Result<()> {
    let cut = || {
        if file.metadata()?.len() > bytes {
            file.set_len(bytes)?;
            flush::file(file)?;
        }
        Ok(())
    };
    poison
        .guard("cutting off the end of the pool's file", cut)
        .map_err(|error| Error::io("cut off the end of the pool's file", error))
}
