//! The `strandline-lab` command with your own hardware scheme in addition to those of the papers.

mod scheme;

use std::process::ExitCode;

use strandline_lab_cli::Registry;

fn main() -> ExitCode {
    strandline_lab_cli::run(Registry::default().with_hardware(&[&scheme::BATTERY]))
}
