//! The child: runs operations until it is killed.

use strandline_command::torture::{self, Child};
use strandline_command::{Failure, Outcome};
use strandline_core::error::Error;
use strandline_core::file::Pool;
use strandline_core::transaction::{Abort, AnyRunner, Concurrency, Runner};
use strandline_schemes::laboratory;
use strandline_workloads::SchemeName;

use super::data::Data;
use super::operation::Operation;
use super::worker;

/// The arguments that the parent passes to its child.
#[derive(clap::Args)]
pub struct ChildArguments {
    #[command(flatten)]
    child: Child,
    /// The scheme of this life
    #[arg(long)]
    scheme: SchemeName,
}

/// Runs until killed, or until the parent has ended.
///
/// # Errors
/// Returns an error if the pool cannot be opened, or if a transaction fails.
pub fn run_child(ChildArguments { child, scheme }: &ChildArguments) -> Result<Outcome, Failure> {
    let Child { setting, pool, .. } = child;
    let (threads, seed) = (setting.threads, setting.seed);
    torture::run_child(
        child,
        || Ok(laboratory(scheme.concurrency).open(pool, &setting.options())?),
        |pool: &Pool<Concurrency>, thread| {
            let mut worker = worker(pool, *scheme)?;
            let data = Data::open(&mut worker)?;
            Ok(Box::new(Worker { worker, data, threads, thread, seed }))
        },
    )
}

struct Worker {
    worker: AnyRunner<'static>,
    data: Data,
    threads: u64,
    thread: u64,
    seed: u64,
}

impl torture::Worker for Worker {
    fn last(&mut self) -> Result<u64, Failure> {
        Ok(self.worker.view(|tx| self.data.counter(tx, self.thread))?)
    }

    fn run(&mut self, number: u64) -> Result<(), Failure> {
        let Self { worker, data, threads, thread, seed } = self;
        let operation = Operation::new(*seed, *threads, *thread, number);
        if operation.abort_first {
            // An operation that gives up must leave no trace.
            let other = Operation::new(!*seed, *threads, *thread, number);
            let given_up = worker.run(|tx| -> Result<(), Abort> {
                data.apply(tx, &other, *thread, u64::MAX)?;
                Err(Abort::User)
            });
            match given_up {
                Err(Error::Aborted) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return Err(Failure::Other("a transaction that gave up committed".into())),
            }
        }
        Ok(worker.run(|tx| data.apply(tx, &operation, *thread, number))?)
    }
}
