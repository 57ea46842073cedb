//! `strandline-lab torture`: runs [`strandline_command::torture`] with the papers' schemes, on structures of words.

mod child;
mod data;
mod model;
mod operation;
mod subject;

pub use child::{ChildArguments, run_child};

use strandline_command::torture;
use strandline_command::{Failure, Outcome};
use strandline_core::file::Pool;
use strandline_core::transaction::AnyRunner;
use strandline_core::{Concurrency, Domain, Error};
use strandline_workloads::{SchemeName, UnknownName};

use subject::Structures;

/// Kill a process that runs transactions at random moments, and verify that nothing is lost or torn.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline-lab torture --kills 1000 --scheme base,bppm --threads 8\n\n\
    Exit code 1: something was lost or torn. The pool is kept, and its path printed.")]
pub struct Arguments {
    #[command(flatten)]
    torture: torture::Flags,
    /// Schemes, separated by commas, by the names of `strandline-lab list`; each life draws one
    #[arg(long, value_delimiter = ',', value_parser = scheme, default_value = "bppm,bppm+single-writer")]
    scheme: Vec<SchemeName>,
}

/// Parses the name of a scheme that supports torture.
pub(crate) fn scheme(name: &str) -> Result<SchemeName, String> {
    let scheme: SchemeName = name.parse().map_err(|error: UnknownName| error.to_string())?;
    if !scheme.is_durable() {
        return Err(format!("{name} keeps nothing durable: there is nothing to lose"));
    }
    if !scheme.is_native() {
        return Err(format!("{name} does not run on real memory; it exists for check and simulate"));
    }
    if scheme.concurrency == Concurrency::Locks {
        return Err(format!("{name} needs lock sets, which torture's transactions do not know beforehand"));
    }
    Ok(scheme)
}

/// Runs the torture.
///
/// # Errors
/// Returns an error if the pool cannot be created, or if a child fails without being killed.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let in_sync = arguments.torture.setting.domain.domain(0) == Domain::Sync;
    if let Some(scheme) = arguments.scheme.iter().find(|scheme| in_sync && !scheme.in_sync()) {
        return Err(Failure::Usage(format!(
            "the sync domain carries bppm and bppm+single-writer, not {}",
            scheme.name()
        )));
    }
    torture::run::<Structures>(&arguments.torture, &arguments.scheme)
}

/// Returns a worker of `pool` under a scheme.
///
/// # Errors
/// As for [`Pool::worker_of`].
fn worker(pool: &Pool<Concurrency>, scheme: SchemeName) -> strandline_core::Result<AnyRunner<'static>> {
    if scheme.kind.is_none() {
        return Err(Error::Unsupported("the volatile pseudo-scheme".into()));
    }
    strandline_workloads::runner(pool, scheme, 0)
}
