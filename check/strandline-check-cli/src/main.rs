//! The `strandline-check` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    strandline_check_cli::run_with(std::env::args_os())
}
