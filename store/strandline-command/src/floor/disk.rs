//! The floor on disk: how often per second this disk makes 4 KB durable in the fastest way, for one thread and for threads that share flushes. No
//! durable transaction can be faster.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Failure;

const BLOCK: usize = 4096;
/// Number of blocks in the file; after the last one, appends continue at the first.
const BLOCKS: u64 = 4096;
/// The time for which each method is tried.
const TRIAL: Duration = Duration::from_millis(100);
/// Bytes that each thread makes durable at a time: the log records of a small transaction.
const PAYLOAD: usize = 128;

/// A method of making an append durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Direct,
    WriteSynchronously,
    Flush,
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io::{IoSlice, Result};
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use rustix::fs::OFlags;
    use rustix::io::{ReadWriteFlags, pwritev2};

    pub fn open_direct(path: &Path) -> Result<File> {
        let flags = (OFlags::DIRECT | OFlags::DSYNC).bits() as i32;
        OpenOptions::new().write(true).custom_flags(flags).open(path)
    }

    pub fn write_synchronously(file: &File, block: &[u8], at: u64) -> Result<usize> {
        Ok(pwritev2(file, &[IoSlice::new(block)], at, ReadWriteFlags::DSYNC)?)
    }
}

/// Other systems than Linux only have a write and a flush.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io::{ErrorKind, Result};
    use std::path::Path;

    pub fn open_direct(_: &Path) -> Result<File> {
        Err(ErrorKind::Unsupported.into())
    }

    pub fn write_synchronously(_: &File, _: &[u8], _: u64) -> Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }
}

/// The file to which the blocks are appended, and the fastest method.
pub struct Floor {
    direct: Option<File>,
    buffered: File,
    method: Method,
    /// The number of the next block.
    next: u64,
    buffer: Vec<u8>,
}

impl Floor {
    /// Creates the file in `folder`, fills it with zeros, and finds the fastest method.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn new(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("floor");
        let create = || -> std::io::Result<File> {
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
            file.write_all_at(&vec![0; BLOCK * BLOCKS as usize], 0)?;
            file.sync_all()?;
            Ok(file)
        };
        let buffered = create().map_err(Failure::io(format!("create {}", path.display())))?;
        let direct = system::open_direct(&path).ok();
        // The buffer is two blocks long, so that it contains an aligned block, which O_DIRECT requires.
        let mut floor =
            Self { direct, buffered, method: Method::Flush, next: 0, buffer: vec![0x5a; 2 * BLOCK] };
        let mut best = (0.0, Method::Flush);
        for method in [Method::Direct, Method::WriteSynchronously, Method::Flush] {
            floor.method = method;
            // A file system refuses a method that it does not support. All support `Flush`.
            if let Ok(rate) = floor.appends_per_second(TRIAL)
                && rate > best.0
            {
                best = (rate, method);
            }
        }
        floor.method = best.1;
        Ok(floor)
    }

    /// Returns the system's name for the fastest method.
    pub fn method(&self) -> &'static str {
        match self.method {
            Method::Direct => "O_DIRECT|O_DSYNC",
            Method::WriteSynchronously => "pwritev2(RWF_DSYNC)",
            Method::Flush => "fdatasync",
        }
    }

    fn append(&mut self) -> std::io::Result<()> {
        let at = self.next % BLOCKS * BLOCK as u64;
        self.next += 1;
        let first = self.buffer.as_ptr().align_offset(BLOCK);
        self.buffer[first] = self.next as u8;
        let block = &self.buffer[first..first + BLOCK];
        match (self.method, &self.direct) {
            (Method::Direct, None) => Err(std::io::ErrorKind::Unsupported.into()),
            (Method::Direct, Some(file)) => file.write_all_at(block, at),
            (Method::WriteSynchronously, _) => {
                let written = system::write_synchronously(&self.buffered, block, at)?;
                if written == BLOCK { Ok(()) } else { Err(std::io::ErrorKind::WriteZero.into()) }
            }
            (Method::Flush, _) => {
                self.buffered.write_all_at(block, at)?;
                self.buffered.sync_data()
            }
        }
    }

    /// Measures the durable appends per second of one thread.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn appends_per_second(&mut self, duration: Duration) -> std::io::Result<f64> {
        let since = Instant::now();
        let mut count = 0u64;
        // Appends at least once, even if the system starts the thread late.
        loop {
            self.append()?;
            count += 1;
            if since.elapsed() >= duration {
                break;
            }
        }
        Ok(count as f64 / since.elapsed().as_secs_f64())
    }

    /// Measures the durable payloads per second of `threads` threads. One thread at a time leads: it writes the payloads of all that wait, with one
    /// flush.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn group_per_second(&mut self, threads: u64, duration: Duration) -> std::io::Result<f64> {
        if threads == 1 {
            return self.appends_per_second(duration);
        }
        let group = Group { state: Mutex::new(State::default()), turn: Condvar::new() };
        let floor = Mutex::new(self);
        let since = Instant::now();
        let counts: Vec<std::io::Result<u64>> = std::thread::scope(|scope| {
            let commit = || -> std::io::Result<u64> {
                let mut count = 0;
                loop {
                    group.commit(|| lock(&floor).append())?;
                    count += 1;
                    if since.elapsed() >= duration {
                        return Ok(count);
                    }
                }
            };
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(commit)).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        let count: u64 = counts.into_iter().sum::<std::io::Result<u64>>()?;
        Ok(count as f64 / since.elapsed().as_secs_f64())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Threads that share flushes.
struct Group {
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the batch that payloads currently join.
    gathering: u64,
    bytes: usize,
    /// All batches below this number are durable.
    durable: u64,
    leading: bool,
    failed: bool,
}

impl Group {
    /// Waits until the caller's payload is durable. If no thread leads, the caller leads, and calls `append` for each block of the batch.
    fn commit(&self, append: impl Fn() -> std::io::Result<()>) -> std::io::Result<()> {
        let mut state = lock(&self.state);
        state.bytes += PAYLOAD;
        let mine = state.gathering;
        while state.durable <= mine {
            if state.failed {
                return Err(std::io::ErrorKind::Other.into());
            }
            if state.leading {
                state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.leading = true;
            let (batch, blocks) = (state.gathering, state.bytes.div_ceil(BLOCK));
            (state.gathering, state.bytes) = (batch + 1, 0);
            drop(state);
            let written = (0..blocks).try_for_each(|_| append());
            state = lock(&self.state);
            state.leading = false;
            state.failed |= written.is_err();
            state.durable = batch + 1;
            self.turn.notify_all();
            written?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_and_a_group_get_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let mut floor = Floor::new(folder.path()).unwrap();
        assert!(floor.appends_per_second(Duration::from_millis(20)).unwrap() > 0.0);
        assert!(floor.group_per_second(4, Duration::from_millis(20)).unwrap() > 0.0);
    }
}
