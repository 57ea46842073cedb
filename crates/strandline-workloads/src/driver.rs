//! The driver: runs one scheme on one workload with some threads, for some time or for a number of transactions.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use strandline_core::file::Pool;
use strandline_core::transaction::Runner;
use strandline_core::{Concurrency, Domain, Result};

use crate::row::{Row, ThreadResult};
use crate::{SchemeName, Transactions, Workload};

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Threads that run transactions.
    pub threads: u64,
    /// When it ends.
    pub length: Length,
    /// Seeds each thread's random numbers, together with the thread's number.
    pub seed: u64,
    /// The share of its time that a thread is idle after each transaction, in percent below 100 (Blurred
    /// Persistence, section V-C5).
    pub idle_percent: u64,
}

/// How long a run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// For a time.
    Time {
        /// How long the threads run before anything counts.
        warm_up: Duration,
        /// How long the timed part is.
        timed: Duration,
    },
    /// For so many transactions of each thread, at least one, which all count: what is done depends on no clock.
    Transactions(u64),
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
    pool: &Pool<Concurrency>,
    domain: Domain,
    workload: &W,
    workload_name: &str,
    scheme: SchemeName,
    run: &Run,
) -> Result<Row> {
    let threads = match scheme.kind {
        None => drive(workload, run, Aside::default(), |index| {
            strandline_schemes::VolatileWorker::in_pool(pool, index)
        }),
        Some(kind) => {
            // Undo logs go round, and the shared log of the `Sync` domain has its checkpoints.
            let restarts = scheme.concurrency != Concurrency::Locks && domain != Domain::Sync;
            let aside =
                Aside { helper: kind.scheme.has_helper(), restarts: restarts && !kind.scheme.has_helper() };
            drive(workload, run, aside, |_| pool.worker_of(kind))
        }
    }?;
    Ok(Row::new(scheme.name(), workload_name, domain.name(), scheme.is_durable(), &threads))
}

/// What a scheme does beside its transactions.
#[derive(Clone, Copy, Default)]
struct Aside {
    /// A helper thread truncates.
    helper: bool,
    /// Workers begin their logs anew when they are full.
    restarts: bool,
}

fn drive<W: Workload, R: Runner + Send>(
    workload: &W,
    run: &Run,
    aside: Aside,
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
    let (first, transactions, most_of_a_log) = match run.length {
        Length::Time { timed, .. } => (WARM_UP, u64::MAX, Some(10 * timed)),
        Length::Transactions(number) => (TIMED, number, None),
    };
    let phase = AtomicU8::new(first);
    // Persistence in bulk comes once in a log; a part of a log would count it or not.
    let fills_logs = most_of_a_log.filter(|_| aside.restarts);
    std::thread::scope(|scope| {
        let running: Vec<_> = parts
            .into_iter()
            .map(|(mut runner, mut thread)| {
                let phase = &phase;
                scope.spawn(move || -> Result<ThreadResult> {
                    let mut step = |runner: &mut R| transaction(&mut thread, runner, run.idle_percent);
                    while phase.load(Ordering::Relaxed) == WARM_UP {
                        step(&mut runner)?;
                    }
                    if let Some(most) = fills_logs {
                        fill_log(&mut step, &mut runner, most)?;
                    }
                    let (since, processor_since) = (Instant::now(), processor_time());
                    let before = runner.statistics();
                    // At least one, however late the system let this thread begin.
                    for number in 1.. {
                        step(&mut runner)?;
                        if number >= transactions || phase.load(Ordering::Relaxed) == STOP {
                            break;
                        }
                    }
                    if let Some(most) = fills_logs {
                        fill_log(&mut step, &mut runner, most)?;
                    }
                    let after = runner.statistics();
                    let (seconds, processor) = (since.elapsed(), processor_time() - processor_since);
                    Ok(ThreadResult {
                        before,
                        after,
                        seconds: seconds.as_secs_f64(),
                        processor_seconds: processor.as_secs_f64(),
                    })
                })
            })
            .collect();
        let mut since = time_of(ClockId::ProcessCPUTime);
        let mut of_all = None;
        if let Length::Time { warm_up, timed } = run.length {
            std::thread::sleep(warm_up);
            since = time_of(ClockId::ProcessCPUTime);
            phase.store(TIMED, Ordering::Relaxed);
            std::thread::sleep(timed);
            phase.store(STOP, Ordering::Relaxed);
            of_all = Some(time_of(ClockId::ProcessCPUTime) - since);
        }
        let results: Result<Vec<ThreadResult>> = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        let mut results = results?;
        let of_all = of_all.unwrap_or_else(|| time_of(ClockId::ProcessCPUTime) - since);
        if aside.helper {
            // A worker sleeps while it waits for the helper, which works all the while.
            let of_workers: f64 = results.iter().map(|thread| thread.processor_seconds).sum();
            let of_helper = of_all.as_secs_f64() - of_workers;
            for thread in &mut results {
                thread.processor_seconds = thread.processor_seconds.max(of_helper);
            }
        }
        Ok(results)
    })
}

/// One transaction, and the idle time after it.
fn transaction<R: Runner>(thread: &mut impl Transactions, runner: &mut R, idle_percent: u64) -> Result<()> {
    if idle_percent == 0 {
        return thread.transaction(runner);
    }
    let since = processor_time();
    thread.transaction(runner)?;
    // Who has nothing to do keeps nobody waiting.
    runner.drain()?;
    idle(idle_percent, since);
    Ok(())
}

/// Takes steps until the runner's log begins anew, or for `limit`.
fn fill_log<R: Runner>(
    step: &mut impl FnMut(&mut R) -> Result<()>,
    runner: &mut R,
    limit: Duration,
) -> Result<()> {
    /// Looking takes longer than some transactions.
    const BETWEEN_LOOKS: u64 = 16;
    let (since, before) = (Instant::now(), runner.statistics());
    if before.log_bytes == 0 {
        return Ok(());
    }
    while runner.statistics().log_restarts == before.log_restarts && since.elapsed() < limit {
        for _ in 0..BETWEEN_LOOKS {
            step(runner)?;
        }
    }
    Ok(())
}

/// Processor time that this thread has taken.
fn processor_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Executes nothing useful until `percent` of the time since `since` was idle.
fn idle(percent: u64, since: Duration) {
    let now = processor_time();
    let until = now + (now - since) * percent as u32 / (100 - percent.min(99)) as u32;
    while processor_time() < until {
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
}
