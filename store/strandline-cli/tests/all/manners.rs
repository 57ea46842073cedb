//! The behaviour that users expect of each command: exit codes, an error if output cannot be written, and no files left behind after Ctrl-C.

use std::process::Command;

#[path = "../../../../store/strandline-command/tests/shared/manners.rs"]
mod shared;

use shared::{check_closed_pipe, check_full_disk, check_interrupted_benchmark};

fn strandline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    command.args(arguments);
    command
}

/// Arguments of a run that prints something and ends.
const PRINTS: [&str; 2] = ["completions", "bash"];

#[test]
fn a_full_disk_behind_stdout_is_told() {
    check_full_disk(strandline(&PRINTS));
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    check_closed_pipe(strandline(&PRINTS));
}

/// Checks that an interrupted benchmark removes its pools in memory.
#[test]
fn an_interrupted_benchmark_leaves_no_pool() {
    check_interrupted_benchmark(strandline(&["bench", "--domain", "emulated"]));
}
