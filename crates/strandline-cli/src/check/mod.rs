//! `strandline check`: the crash checker.

mod schemes;

use crate::failure::{Failure, Outcome};

/// Explore the states that a power failure can leave, and judge what recovery makes of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  strandline check --samples 500\n  \
    strandline check --scheme bppm --workload sps --threads 2 --exhaustive --preemptions 2\n  \
    strandline check --mutants\n\nExit code 1 says that a state was found that recovery does not repair (or, with \
    --mutants, that a mutant was not found out).")]
pub struct Arguments {
    #[command(flatten)]
    schemes: schemes::Arguments,
}

/// Runs it.
///
/// # Errors
/// The flags ask for something that cannot be.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    schemes::run(&arguments.schemes)
}
