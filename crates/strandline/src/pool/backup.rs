//! A consistent copy of a `Sync` pool while transactions run.
//!
//! Only checkpoints write the heap file, and only they free blocks of the log. While they are held, heap file and log
//! from S on are together a state that recovery understands, and stay so: commits append to the log, and nothing that
//! the copy needs changes. The copy is the heap file, then the log from S to its durable end. It is recovered and closed
//! at once, which proves that it can be, and leaves one file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Options;
use super::file::Pool;
use super::layout::View;
use super::sync_files::{log_path, synchronize_folder};
use crate::Domain;
use crate::error::{Error, Result};
use crate::memory::Native;
use crate::sync::{AlignedBuffer, BLOCK_BYTES, Device, DeviceFile, FileDevice, SharedLog};

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Bytes of the heap file that were copied; zeros were not.
    pub heap_bytes: u64,
    /// Blocks of the log that were copied.
    pub log_blocks: u64,
    /// Transactions of theirs that the copy's recovery replayed.
    pub replayed: u64,
}

/// A pool's `Sync` part, as the backup needs it.
pub(super) struct Source<'p> {
    pub view: View<Native>,
    pub device: &'p FileDevice,
    pub log: SharedLog,
    pub layout_name: String,
}

fn cannot(what: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::io(format!("{what} {}", path.display()), source)
}

fn create(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(cannot("create", path))
}

pub(super) fn backup(source: &Source<'_>, to: &Path) -> Result<BackupReport> {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    let partial = PathBuf::from(name);
    if to.exists() {
        let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(cannot("create the backup", to)(exists));
    }
    let made = copy(source, &partial).and_then(|(heap_bytes, log_blocks)| {
        let replayed = settle(source, &partial)?;
        std::fs::rename(&partial, to).map_err(cannot("name the backup", to))?;
        synchronize_folder(to).map_err(cannot("name the backup", to))?;
        Ok(BackupReport { heap_bytes, log_blocks, replayed })
    });
    // After a success the copy's log is of no more use; after a failure nothing is.
    let _ = std::fs::remove_file(log_path(&partial));
    if made.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    made
}

/// Copies heap and log as they are; bytes and blocks copied.
fn copy(source: &Source<'_>, to: &Path) -> Result<(u64, u64)> {
    let log_name = log_path(to);
    let (heap, log) = (create(to)?, create(&log_name)?);
    let device = source.device;
    source.log.hold_checkpoints(&source.view, || {
        let size = device.size(DeviceFile::Heap).map_err(cannot("read the size of", to))?;
        heap.set_len(size).map_err(cannot("size", to))?;
        let mut piece = AlignedBuffer::new(PIECE);
        let mut copied = 0;
        for at in (0..size).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min((size - at) as usize)];
            device
                .read(DeviceFile::Heap, at, piece)
                .map_err(|e| Error::io("read the pool for its backup", e))?;
            // What is not written stays a hole, which reads as zeros.
            if piece.iter().any(|&byte| byte != 0) {
                heap.write_all_at(piece, at).map_err(cannot("write", to))?;
                copied += piece.len() as u64;
            }
        }
        let size = device.size(DeviceFile::Log).map_err(cannot("read the size of", &log_name))?;
        log.set_len(size).map_err(cannot("size", &log_name))?;
        let mut block = AlignedBuffer::new(BLOCK_BYTES as usize);
        let mut copy_block = |at: u64| {
            device
                .read(DeviceFile::Log, at, &mut block)
                .map_err(|e| Error::io("read the log for a backup", e))?;
            log.write_all_at(&block, at).map_err(cannot("write", &log_name))
        };
        copy_block(0)?;
        // As far as it is durable by now, that is after the heap was copied.
        let blocks = source.log.needed_blocks(&source.view);
        for number in blocks.clone() {
            copy_block(source.log.block_offset(number))?;
        }
        heap.sync_all().map_err(cannot("flush", to))?;
        log.sync_all().map_err(cannot("flush", &log_name))?;
        Ok((copied, blocks.end - blocks.start))
    })
}

/// Recovers the copy and closes it; transactions replayed.
fn settle(source: &Source<'_>, at: &Path) -> Result<u64> {
    let options = Options {
        layout_name: source.layout_name.clone(),
        domain: Domain::Sync,
        lock_bits: 10,
        ..Options::default()
    };
    let pool = Pool::open(at, &options)?;
    let replayed = pool.recovery().replayed();
    pool.close()?;
    Ok(replayed)
}
