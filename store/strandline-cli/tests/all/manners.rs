//! What the command owes its user: exit codes, what becomes of its output, and that Ctrl-C leaves nothing behind.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn strandline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    command.args(arguments);
    command
}

#[test]
fn a_full_disk_behind_stdout_is_told() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = strandline(&["completions", "bash"]).stdout(full).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("standard output") && error.contains("No space"), "{error}");
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    let mut child = strandline(&["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    // Closed before anything is read.
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// As soon as the child takes signals.
fn interrupt_once_watching(child: &std::process::Child) {
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

/// Pools in memory are removed.
#[test]
fn an_interrupted_benchmark_leaves_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    let flags = [
        "bench",
        "--domain",
        "emulated",
        "--workload",
        "sps",
        "--seconds",
        "0.1",
        "--repetitions",
        "1000",
        "--json",
    ];
    let mut child = strandline(&flags)
        .args(["--pool", pool.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    interrupt_once_watching(&child);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
