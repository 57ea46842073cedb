//! The `strandline` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    strandline_cli::run_with(std::env::args_os())
}
