//! What every command owes its user, for the tests of each, which include this file by its path: exit codes, what becomes of its output, and
//! that Ctrl-C leaves nothing behind.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// `prints` prints something, to a disk that is full.
pub fn check_full_disk(mut prints: Command) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = prints.stdout(full).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("standard output") && error.contains("No space"), "{error}");
}

/// `prints` prints something, to a reader that has gone away: no failure.
pub fn check_closed_pipe(mut prints: Command) {
    let mut child = prints.stdout(Stdio::piped()).spawn().unwrap();
    // Closed before anything is read.
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// As soon as the child takes signals.
pub fn interrupt_once_watching(child: &std::process::Child) {
    let pid = Pid::from_raw(child.id() as i32);
    let path = format!("/proc/{pid}/status");
    let takes = |status: &str| {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(caught.trim(), 16).unwrap_or(0) >> (Signal::SIGINT as u64 - 1) & 1 == 1
    };
    while !std::fs::read_to_string(&path).is_ok_and(|status| takes(&status)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(pid, Signal::SIGINT).unwrap();
}

/// `bench` measures for minutes, on memory: what is known is printed, and the pools are removed.
pub fn check_interrupted_benchmark(mut bench: Command) {
    let folder = tempfile::tempdir().unwrap();
    bench.args(["--workload", "sps", "--seconds", "0.1", "--repetitions", "1000", "--json", "--pool"]);
    bench.arg(folder.path().join("pool"));
    let mut child = bench.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    interrupt_once_watching(&child);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
