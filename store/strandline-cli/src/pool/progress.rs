//! Progress of work on a pool's files: the bytes that this process has read, as the system counts them, out of those that it has to read.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use indicatif::ProgressBar;
use strandline_command::progress::{bar_of_bytes, spinner};

/// A progress bar for work that reads `total` bytes.
pub(super) struct Reads {
    total: u64,
    bar: ProgressBar,
    /// Bytes that the process had read before; `None` if the system does not count them.
    before: Option<u64>,
}

/// Shows the progress of work that reads `total` bytes. If `total` is 0 or the system counts no reads, shows the elapsed time.
pub(super) fn of_reads(total: u64) -> Reads {
    let before = bytes_read().filter(|_| total > 0);
    let bar = if before.is_some() { bar_of_bytes(total) } else { spinner() };
    Reads { total, bar, before }
}

impl Reads {
    /// Does the work and shows its progress.
    pub(super) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        let Self { total, bar, before } = self;
        let Some(before) = before.filter(|_| !bar.is_hidden()) else {
            let done = work();
            bar.finish_and_clear();
            return done;
        };
        let done = std::thread::scope(|scope| {
            let (working, ended) = channel::<()>();
            let bar = &bar;
            scope.spawn(move || {
                while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                    let read = bytes_read().map_or(0, |now| now.saturating_sub(before));
                    bar.set_position(read.min(total));
                }
            });
            let done = work();
            drop(working);
            done
        });
        bar.finish_and_clear();
        done
    }
}

/// Returns the bytes that this process has read from files so far.
fn bytes_read() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("rchar: "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn reads_are_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let before = bytes_read().unwrap();
        assert_eq!(of_reads(1 << 20).during(|| std::fs::read(file.path()).unwrap().len()), 1 << 20);
        assert!(bytes_read().unwrap() - before >= 1 << 20);
    }
}
