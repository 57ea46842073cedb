//! The child process: runs operations until it is killed.

use strandline::{Control, Error, Session, SingleWriter, Stm, Store};
use strandline_command::arguments::ControlName;
use strandline_command::torture::{self, Child};
use strandline_command::{Failure, Outcome};
use strandline_core::memory::Native;

use super::data::Data;
use super::operation::Operation;

/// The flags that the parent passes to its child.
#[derive(clap::Args)]
pub struct ChildArguments {
    #[command(flatten)]
    child: Child,
    /// The control of this life
    #[arg(long, value_enum)]
    control: ControlName,
}

/// Runs operations until the child is killed or the parent is gone.
///
/// # Errors
/// Returns an error if the pool cannot be opened or if a transaction failed.
pub fn run_child(ChildArguments { child, control }: &ChildArguments) -> Result<Outcome, Failure> {
    match control {
        ControlName::Stm => run_under::<Stm>(child),
        ControlName::SingleWriter => run_under::<SingleWriter>(child),
    }
}

fn run_under<C: Control<Memory = Native>>(child: &Child) -> Result<Outcome, Failure> {
    let Child { setting, pool, .. } = child;
    let (threads, seed) = (setting.threads, setting.seed);
    torture::run_child(
        child,
        || Ok(Store::<Data, C>::open_existing(pool, &setting.options())?),
        |store: &Store<Data, C>, thread| {
            Ok(Box::new(Worker { session: store.session()?, threads, thread, seed }))
        },
    )
}

struct Worker<C: Control<Memory = Native>> {
    session: Session<Data<'static>, C>,
    threads: u64,
    thread: u64,
    seed: u64,
}

impl<C: Control<Memory = Native>> torture::Worker for Worker<C> {
    fn last(&mut self) -> Result<u64, Failure> {
        Ok(self.session.read(|tx, root| root.get(tx)?.counter(tx, self.thread))?)
    }

    fn run(&mut self, number: u64) -> Result<(), Failure> {
        let Self { session, threads, thread, seed } = self;
        let operation = Operation::new(*seed, *threads, *thread, number);
        if operation.abort_first {
            // The aborted operation is another one of the same thread. It must leave no trace.
            let other = Operation::new(!*seed, *threads, *thread, number);
            let given_up = session.write(|tx, root| -> Result<(), Error> {
                root.get(tx)?.apply(tx, &other, *thread, u64::MAX)?;
                Err(Error::Aborted)
            });
            match given_up {
                Err(Error::Aborted) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return Err(Failure::Other("a transaction that gave up committed".into())),
            }
        }
        Ok(session.write(|tx, root| root.get(tx)?.apply(tx, &operation, *thread, number))?)
    }
}
