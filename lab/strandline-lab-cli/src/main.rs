//! The `strandline-lab` command, with the schemes and workloads of the papers.

use std::process::ExitCode;

fn main() -> ExitCode {
    strandline_lab_cli::run(strandline_lab_cli::Registry::default())
}
