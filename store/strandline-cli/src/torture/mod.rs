//! `strandline torture`: [`strandline_command::torture`] of a store with typed collections, used as in an application.

mod child;
mod data;
mod operation;
mod subject;

use strandline_command::arguments::ControlName;
use strandline_command::torture;
use strandline_command::{Failure, Outcome};

pub use child::{ChildArguments, run_child};
use subject::Collections;

/// Kill a process that runs transactions at random moments, and verify that nothing is lost or torn.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline torture --kills 1000 --domain sync --threads 8\n\n\
    Exit code 1: something was lost or torn. The pool is kept, and its path printed.")]
pub struct Arguments {
    #[command(flatten)]
    torture: torture::Flags,
    /// How transactions are isolated, separated by commas; each life draws one
    #[arg(long, value_delimiter = ',', value_enum, default_value = "stm,single-writer")]
    control: Vec<ControlName>,
}

/// Runs the torture.
///
/// # Errors
/// Returns an error if the pool cannot be created, or a child failed by itself.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    torture::run::<Collections>(&arguments.torture, &arguments.control)
}
