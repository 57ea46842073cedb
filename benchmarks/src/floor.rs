//! The rate that the disk allows: blocks of 4 KB are appended to a file of zeros. Each write is durable before the next begins, and is shared by all
//! threads that wait.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use strandline_core::memory::{AlignedBuffer, Device, DeviceFile};
use strandline_core::sync::{BLOCK_BYTES, FileDevice};

/// The number of blocks in the file. Appends continue at its beginning after the last one.
const BLOCKS: u64 = 16384;

#[derive(Default)]
struct State {
    /// The number of payloads that were handed in, that were written, and up to which they are being written.
    asked: u64,
    written: u64,
    leading: bool,
    block: u64,
}

/// The file to which blocks are appended.
pub struct Floor {
    device: FileDevice,
    _folder: tempfile::TempDir,
}

impl Floor {
    /// Creates the file in a folder.
    pub fn new(folder: &Path) -> Self {
        let folder = tempfile::tempdir_in(folder).expect("make a folder");
        let open = |name: &str| {
            let path = folder.path().join(name);
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(path)
                .expect("make a file")
        };
        let log = open("log");
        // The zeros are really written, since appending into unwritten extents takes longer.
        let zeros = vec![0; 1 << 20];
        for at in (0..BLOCKS * BLOCK_BYTES).step_by(zeros.len()) {
            std::os::unix::fs::FileExt::write_all_at(&log, &zeros, at).expect("fill the file");
        }
        log.sync_all().expect("flush the file");
        Self { device: FileDevice::new(open("heap"), log, true), _folder: folder }
    }

    /// Measures durable payloads by `threads` threads. With one thread, each payload is a write of its own.
    pub fn measure(&self, threads: usize, seconds: f64) -> crate::Measured {
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        let worker = || -> crate::Operation<'_> {
            let (device, state, changed) = (&self.device, &state, &changed);
            let block = AlignedBuffer::new(BLOCK_BYTES as usize);
            Box::new(move || {
                let mut now = state.lock().expect("no thread panics");
                now.asked += 1;
                let own = now.asked;
                while now.written < own {
                    if now.leading {
                        now = changed.wait(now).expect("no thread panics");
                        continue;
                    }
                    now.leading = true;
                    let (to, at) = (now.asked, now.block % BLOCKS * BLOCK_BYTES);
                    now.block += 1;
                    drop(now);
                    device.write_durable(DeviceFile::Log, at, &block).expect("write a block");
                    now = state.lock().expect("no thread panics");
                    now.written = to;
                    now.leading = false;
                    changed.notify_all();
                }
                1
            })
        };
        crate::measure(threads, seconds, worker, None)
    }
}
