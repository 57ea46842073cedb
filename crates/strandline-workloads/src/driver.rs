//! The driver: runs one scheme on one workload with some threads for some time.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use strandline::pool::Pool;
use strandline::scheme::{Scheme, SchemeVisitor};
use strandline::transaction::Runner;
use strandline::{Domain, Result};

use crate::row::{Row, ThreadResult};
use crate::{SchemeName, Transactions, Workload};

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Threads that run transactions.
    pub threads: u64,
    /// How long they run before anything counts.
    pub warm_up: Duration,
    /// How long the timed part is.
    pub duration: Duration,
    /// Seeds each thread's random numbers, together with the thread's number.
    pub seed: u64,
}

const WARM_UP: u8 = 0;
const TIMED: u8 = 1;
const STOP: u8 = 2;

/// Measures `scheme` on `workload`, which has been prepared on `pool`. The pool was opened under `domain`,
/// and in the mode that the scheme's name says.
///
/// # Errors
/// The pool has fewer logs than there are threads; the domain refuses the scheme; a transaction failed.
pub fn measure<W: Workload>(
    pool: &Pool,
    domain: Domain,
    workload: &W,
    workload_name: &str,
    scheme: SchemeName,
    run: &Run,
) -> Result<Row> {
    let threads = match scheme.kind {
        None => drive(workload, run, |index| pool.volatile_worker(index)),
        Some(kind) => kind.visit(Drive { pool, workload, run }),
    }?;
    Ok(Row::new(scheme.name(), workload_name, domain.name(), scheme.is_durable(), &threads))
}

/// A run under a scheme that is known by its kind.
struct Drive<'a, W> {
    pool: &'a Pool,
    workload: &'a W,
    run: &'a Run,
}

impl<W: Workload> SchemeVisitor for Drive<'_, W> {
    type Output = Result<Vec<ThreadResult>>;

    fn visit<S: Scheme + Send>(self) -> Self::Output {
        drive(self.workload, self.run, |_| self.pool.worker_with::<S>())
    }
}

fn drive<W: Workload, R: Runner + Send>(
    workload: &W,
    run: &Run,
    worker: impl Fn(u64) -> Result<R>,
) -> Result<Vec<ThreadResult>> {
    let mut parts = Vec::new();
    for index in 0..run.threads {
        let mut runner = worker(index)?;
        let seed = run.seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let thread = workload.thread(&mut runner, seed)?;
        parts.push((runner, thread));
    }
    // The clock is read by this thread alone: theirs is a load of a word that changes twice.
    let phase = AtomicU8::new(WARM_UP);
    std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .into_iter()
            .map(|(mut runner, mut thread)| {
                let phase = &phase;
                scope.spawn(move || -> Result<ThreadResult> {
                    while phase.load(Ordering::Relaxed) == WARM_UP {
                        thread.transaction(&mut runner)?;
                    }
                    let (before, since) = (runner.statistics(), Instant::now());
                    // At least one, however late the system let this thread begin.
                    loop {
                        thread.transaction(&mut runner)?;
                        if phase.load(Ordering::Relaxed) == STOP {
                            break;
                        }
                    }
                    let seconds = since.elapsed().as_secs_f64();
                    Ok(ThreadResult { before, after: runner.statistics(), seconds })
                })
            })
            .collect();
        std::thread::sleep(run.warm_up);
        phase.store(TIMED, Ordering::Relaxed);
        std::thread::sleep(run.duration);
        phase.store(STOP, Ordering::Relaxed);
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
