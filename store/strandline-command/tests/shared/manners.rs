//! Checks what all commands have in common: exit codes, output that cannot be written, and that Ctrl-C leaves no files behind. The tests of each
//! command include this file by its path.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Checks that a command that prints to a full disk fails.
pub fn check_full_disk(mut prints: Command) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = prints.stdout(full).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("standard output") && error.contains("No space"), "{error}");
}

/// Checks that a command whose reader has closed the pipe does not fail.
pub fn check_closed_pipe(mut prints: Command) {
    let mut child = prints.stdout(Stdio::piped()).spawn().unwrap();
    // Closes the pipe before anything is read.
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Interrupts the child as soon as it handles signals.
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

/// Checks that a long benchmark on memory, if interrupted, prints its results so far and removes its pools.
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
