//! `strandline check`: what a power failure may leave behind.

mod litmus;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// Find every state that a power failure can leave.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline check litmus crates/strandline-crash/litmus/commit1.litmus")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Litmus(litmus::Arguments),
}

/// Runs it.
///
/// # Errors
/// Those of what is checked.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Litmus(arguments) => litmus::run(arguments),
    }
}
