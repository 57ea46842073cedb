//! `strandline check`: the crash checker.

mod litmus;
mod persist_order;
mod schemes;

use crate::failure::{Failure, Outcome};

/// Explore the states that a power failure can leave, and judge what recovery makes of them.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  strandline check --samples 500\n  \
    strandline check --scheme bppm --workload sps --threads 2 --exhaustive --preemptions 2\n  \
    strandline check --mutants\n  \
    strandline check --world persist-order --mutants\n  \
    strandline check litmus crates/strandline-crash/litmus/commit1.litmus\n\n\
    Exit code 1 says that a state was found that recovery does not repair (or, with --mutants, that a mutant \
    was not found out)."
)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    schemes: schemes::Arguments,
}

#[derive(clap::Subcommand)]
enum What {
    Litmus(litmus::Arguments),
}

/// Runs it.
///
/// # Errors
/// The flags or a litmus file ask for something that cannot be.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.what {
        Some(What::Litmus(arguments)) => litmus::run(arguments),
        None => match arguments.schemes.world {
            schemes::World::X86 => schemes::run(&arguments.schemes),
            schemes::World::PersistOrder => persist_order::run(&arguments.schemes),
        },
    }
}
