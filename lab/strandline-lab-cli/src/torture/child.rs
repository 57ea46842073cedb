//! The child: runs operations until it is killed.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use strandline_core::error::Error;
use strandline_core::file::Pool;
use strandline_core::transaction::{Abort, Concurrency, Runner};
use strandline_schemes::laboratory;
use strandline_workloads::SchemeName;

use super::acknowledged::Acknowledged;
use super::data::Data;
use super::operation::Operation;
use super::setting::{Setting, worker};
use strandline_command::{Failure, Outcome};

/// What the child says when it has opened the pool and, unless it does no more, a transaction is acknowledged: then a life has
/// something to lose, however busy the machine is.
pub const RUNNING: &str = "running";

/// What the parent tells its child.
#[derive(clap::Args)]
pub struct ChildArguments {
    #[command(flatten)]
    setting: Setting,
    /// The pool
    #[arg(long)]
    pool: PathBuf,
    /// The file of acknowledgements
    #[arg(long)]
    acknowledged: PathBuf,
    /// The scheme of this life
    #[arg(long)]
    scheme: SchemeName,
    /// Open the pool and do nothing more: for kills during recovery
    #[arg(long)]
    recover_only: bool,
}

/// Runs until killed, or until the parent is gone.
///
/// # Errors
/// The pool cannot be opened; a transaction failed.
pub fn run_child(arguments: &ChildArguments) -> Result<Outcome, Failure> {
    std::thread::spawn(|| {
        // The parent never writes: the end of input is the end of the parent.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let setting = &arguments.setting;
    let pool = laboratory(arguments.scheme.concurrency).open(&arguments.pool, &setting.options())?;
    if arguments.recover_only {
        report_running()?;
        loop {
            std::thread::park();
        }
    }
    let acknowledged =
        Acknowledged::open(&arguments.acknowledged).map_err(Failure::io("open the acknowledgements"))?;
    let data = Data::open(&mut worker(&pool, arguments.scheme)?)?;
    let (say, hear) = channel();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..setting.threads)
            .map(|thread| {
                let (pool, data, acknowledged, say) = (&pool, &data, &acknowledged, say.clone());
                scope.spawn(move || operate(pool, data, acknowledged, arguments, thread, say))
            })
            .collect();
        drop(say);
        // Or all of them have failed, and say so below.
        if hear.recv().is_ok() {
            report_running()?;
        }
        for thread in running {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(Outcome::Success)
    })
}

fn report_running() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{RUNNING}").and_then(|()| out.flush()).map_err(Failure::io("tell the parent"))
}

/// One thread's operations, from where the pool says it was; after the first it says so.
fn operate(
    pool: &Pool<Concurrency>,
    data: &Data,
    acknowledged: &Acknowledged,
    arguments: &ChildArguments,
    thread: u64,
    say: Sender<()>,
) -> Result<(), Failure> {
    let setting = &arguments.setting;
    let mut worker = worker(pool, arguments.scheme)?;
    let mut number = worker.view(|tx| data.counter(tx, thread))?;
    let mut say = Some(say);
    loop {
        number += 1;
        let operation = Operation::new(setting.seed, setting.threads, thread, number);
        if operation.abort_first {
            // Another operation of the same thread, which must leave nothing behind.
            let other = Operation::new(!setting.seed, setting.threads, thread, number);
            let given_up = worker.run(|tx| -> Result<(), Abort> {
                data.apply(tx, &other, thread, u64::MAX)?;
                Err(Abort::User)
            });
            match given_up {
                Err(Error::Aborted) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return Err(Failure::Other("a transaction that gave up committed".into())),
            }
        }
        worker.run(|tx| data.apply(tx, &operation, thread, number))?;
        acknowledged.store(thread, number).map_err(Failure::io("note an acknowledgement"))?;
        if let Some(say) = say.take() {
            // Nobody listens any more when another thread was first.
            let _ = say.send(());
        }
    }
}
