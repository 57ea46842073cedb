//! The `strandline-lab` command with a hardware scheme of one's own beside those of the papers.

mod scheme;

use std::process::ExitCode;

use strandline_lab_cli::Registry;

fn main() -> ExitCode {
    strandline_lab_cli::run(Registry::default().with_hardware(&[&scheme::BATTERY]))
}
