//! The `strandline` command, with the workloads of the papers.

use std::process::ExitCode;

fn main() -> ExitCode {
    strandline_cli::run(strandline_workloads::ALL)
}
