//! The second file of a `Sync` pool, and the thread that runs its checkpoints.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::layout::{Layout, PAGE_BYTES, View};
use crate::error::{Error, Result};
use crate::memory::{Memory, Native};
use crate::sync::{self, AlignedBuffer, Device, DeviceFile, FileDevice, SharedLog, SyncParameters};

/// Where the log of the pool at `path` is: beside it, `.log` appended to its name.
///
/// ```
/// use std::path::Path;
///
/// let log = strandline::pool::log_path(Path::new("/var/lib/shop/orders.pool"));
/// assert_eq!(log, Path::new("/var/lib/shop/orders.pool.log"));
/// ```
pub fn log_path(path: &Path) -> PathBuf {
    with_suffix(path, ".log")
}

/// `suffix` appended to the name of `path`.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Waits until the folder of `path` is durable, and with it the file's name.
pub(super) fn synchronize_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn cannot(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::io(format!("{what} {}", path.display()), source)
}

/// Makes the log file of the pool in `heap` at `path`, whose transactions all lie at or below `watermark`. It
/// gets its name when it is whole.
pub(super) fn create_log(
    heap: &File,
    path: &Path,
    uuid: &[u8; 16],
    parameters: SyncParameters,
    watermark: u64,
) -> Result<()> {
    let (temporary, name) = (with_suffix(path, ".log.new"), log_path(path));
    let log = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&temporary)
        .map_err(cannot("create the log file", &temporary))?;
    let heap = heap.try_clone().map_err(cannot("keep open", path))?;
    let made = sync::create(&FileDevice::new(heap, log, true), uuid, parameters, watermark);
    made.and_then(|()| {
        std::fs::rename(&temporary, &name).map_err(cannot("name the log file", &name))?;
        synchronize_folder(&name).map_err(cannot("name the log file", &name))
    })
    .inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// The device of the pool in `heap` at `path`, and the ring's size in blocks.
pub(super) fn open_device(
    heap: &File,
    path: &Path,
    uuid: &[u8; 16],
    read_only: bool,
) -> Result<(FileDevice, u64)> {
    let name = log_path(path);
    let log = match OpenOptions::new().read(true).write(!read_only).open(&name) {
        Ok(log) => log,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::LogFile { path: name.display().to_string(), problem: "is missing".into() });
        }
        Err(error) => return Err(cannot("open the log file", &name)(error)),
    };
    let heap = heap.try_clone().map_err(cannot("keep open", path))?;
    let device = FileDevice::new(heap, log, !read_only);
    let ring = sync::read_log_header(&device, &name, uuid)?;
    Ok((device, ring))
}

/// Writes the pool's state, and its watermark where one is given, durably.
pub(super) fn write_state(device: &dyn Device, state: u64, watermark: Option<u64>) -> Result<()> {
    let page_at = Layout::STATE.offset();
    let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
    let mut write = || {
        device.read(DeviceFile::Heap, page_at, &mut page)?;
        page[..8].copy_from_slice(&state.to_le_bytes());
        if let Some(watermark) = watermark {
            let at = (Layout::WATERMARK.offset() - page_at) as usize;
            page[at..at + 8].copy_from_slice(&watermark.to_le_bytes());
        }
        device.write(DeviceFile::Heap, page_at, &page)?;
        device.flush(DeviceFile::Heap)
    };
    write().map_err(|e| Error::io("write the pool's state", e))
}

/// The thread that runs checkpoints when they are asked for.
pub(super) struct Checkpointer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(super) fn start(view: View<Native>, log: SharedLog) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let run = move || {
            loop {
                log.wait_for_request(&view);
                // A failed checkpoint has poisoned the pool: there will be no other.
                if seen.load(Ordering::Acquire) || log.checkpoint(&view).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("strandline-checkpoint".into())
            .spawn(run)
            .map_err(|e| Error::io("start the checkpoint thread", e))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Stops the thread and waits for it.
    pub(super) fn stop<M: Memory>(&mut self, memory: &M, log: &SharedLog) {
        self.stop.store(true, Ordering::Release);
        log.request_checkpoint(memory);
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, the pool is recovered when it is next opened.
            let _ = thread.join();
        }
    }
}
