//! The child process: runs operations until it is killed.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use super::acknowledged::Acknowledged;
use super::setting::Setting;
use crate::{Failure, Outcome};

/// The line that the child prints once it has opened the pool and, unless it only opens it, a transaction was acknowledged. From then on a kill can
/// lose something, however busy the machine is.
pub const RUNNING: &str = "running";

/// The flags that the parent passes to its child, beside the one for the way of its life.
#[derive(clap::Args)]
pub struct Child {
    /// The flags that parent and child share.
    #[command(flatten)]
    pub setting: Setting,
    /// The pool
    #[arg(long)]
    pub pool: PathBuf,
    /// The file of acknowledgements
    #[arg(long)]
    acknowledged: PathBuf,
    /// Open the pool and do nothing more: for kills during recovery
    #[arg(long)]
    recover_only: bool,
}

/// The operations of one thread of the child.
pub trait Worker {
    /// Returns the number of the thread's last operation in the pool.
    ///
    /// # Errors
    /// Returns an error if the pool cannot be read.
    fn last(&mut self) -> Result<u64, Failure>;

    /// Runs the thread's operation `number`, and stores the number in the same transaction.
    ///
    /// # Errors
    /// Returns an error if a transaction failed.
    fn run(&mut self, number: u64) -> Result<(), Failure>;
}

/// Runs operations until the child is killed or the parent is gone. `open` opens the pool, and `worker` makes a thread's worker.
///
/// # Errors
/// Returns an error if the pool cannot be opened or a transaction failed.
pub fn run_child<P: Sync>(
    arguments: &Child,
    open: impl FnOnce() -> Result<P, Failure>,
    worker: impl for<'p> Fn(&'p P, u64) -> Result<Box<dyn Worker + 'p>, Failure> + Sync,
) -> Result<Outcome, Failure> {
    std::thread::spawn(|| {
        // The parent never writes to the pipe, so this read returns only when the parent has ended.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let pool = open()?;
    if arguments.recover_only {
        report_running()?;
        loop {
            std::thread::park();
        }
    }
    let acknowledged =
        Acknowledged::open(&arguments.acknowledged).map_err(Failure::io("open the acknowledgements"))?;
    let (say, hear) = channel();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..arguments.setting.threads)
            .map(|thread| {
                let (pool, worker, acknowledged, say) = (&pool, &worker, &acknowledged, say.clone());
                scope.spawn(move || operate(&mut *worker(pool, thread)?, acknowledged, thread, say))
            })
            .collect();
        drop(say);
        // This fails if no thread has sent: then all have failed, and their errors are returned below.
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

/// Runs one thread's operations, from the last that the pool holds. Sends to `say` after the first.
fn operate(
    worker: &mut dyn Worker,
    acknowledged: &Acknowledged,
    thread: u64,
    say: Sender<()>,
) -> Result<(), Failure> {
    let mut number = worker.last()?;
    let mut say = Some(say);
    loop {
        number += 1;
        worker.run(number)?;
        acknowledged.store(thread, number).map_err(Failure::io("note an acknowledgement"))?;
        if let Some(say) = say.take() {
            // If another thread has already sent, nothing receives this.
            let _ = say.send(());
        }
    }
}
