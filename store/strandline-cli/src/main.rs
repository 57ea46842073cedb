//! The `strandline` command, with the schemes and workloads of the papers.

use std::process::ExitCode;

fn main() -> ExitCode {
    strandline_cli::run(strandline_cli::Registry::default())
}
