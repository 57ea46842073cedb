//! The driver runs one scheme on one workload with some threads, for some time or for a number of transactions.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use strandline_core::{Domain, Result};

use crate::Client;
use crate::row::{ThreadResult, histogram};

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Number of threads that run transactions.
    pub threads: u64,
    /// The length of the run: a time or a number of transactions.
    pub length: Length,
    /// The seed of all random numbers; each thread mixes its own number in.
    pub seed: u64,
    /// The share of its time that a thread is idle after each transaction, in percent below 100 (Blurred
    /// Persistence, section V-C5).
    pub idle_percent: u64,
    /// True to time each transaction, its idle time included. Timing slows the run a little.
    pub latency: bool,
}

/// The length of a run.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// For some time, which is for measurements.
    Time {
        /// The time for which the threads run before the driver starts to count.
        warm_up: Duration,
        /// The time for which the driver counts.
        timed: Duration,
    },
    /// Each thread runs this many transactions, at least one, and all of them count. The result does not depend on a clock.
    Transactions(u64),
}

impl Length {
    /// Returns the length of a run that is timed for `timed`, after a warm-up of a fifth of that, but 50 to 500 ms.
    pub fn of(timed: Duration) -> Self {
        let warm_up = (timed / 5).clamp(Duration::from_millis(50), Duration::from_millis(500));
        Self::Time { warm_up, timed }
    }
}

const WARM_UP: u8 = 0;
const TIMED: u8 = 1;
const STOP: u8 = 2;

/// Work beside the transactions that the driver has to account for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aside {
    /// True if a helper thread truncates the logs.
    pub helper: bool,
    /// True if workers restart their logs when they are full.
    pub restarts: bool,
}

impl Aside {
    /// The work beside a store's transactions: threads restart their logs, except in the `Sync` domain, whose shared log has checkpoints.
    pub fn of_store(domain: Domain) -> Self {
        Self { helper: false, restarts: domain != Domain::Sync }
    }
}

/// Returns the seed of thread `index` in a run with this seed. The seeds of a run's threads differ in their low bits: those of up to 2^n consecutive
/// threads in their n lowest ones.
pub fn seed_of(seed: u64, index: u64) -> u64 {
    // A multiple of an odd number.
    seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Opens a client for a thread. The arguments are the thread's number and the seed of its random numbers.
pub type Open<'o> = dyn Fn(u64, u64) -> Result<Box<dyn Client + 'o>> + Sync + 'o;

/// Runs clients, each on a thread of its own.
///
/// # Errors
/// Returns an error if a client cannot be opened or if a transaction failed.
pub fn measure(run: &Run, aside: Aside, open: &Open) -> Result<Vec<ThreadResult>> {
    // Only this thread reads the clock. The workers load `phase`, which changes twice and so stays in their caches.
    let (first, transactions, most_of_a_log) = match run.length {
        Length::Time { timed, .. } => (WARM_UP, u64::MAX, Some(10 * timed)),
        Length::Transactions(number) => (TIMED, number, None),
    };
    let shared = Shared {
        phase: AtomicU8::new(first),
        ready: Barrier::new(run.threads as usize + 1),
        transactions,
        // A log's restart persists in bulk. If a thread stopped in the middle of a log, the count of such restarts would be off by a part.
        fills_logs: most_of_a_log.filter(|_| aside.restarts),
    };
    let Shared { phase, ready, .. } = &shared;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..run.threads)
            .map(|index| {
                let shared = &shared;
                scope.spawn(move || run_client(run, shared, index, open))
            })
            .collect();
        ready.wait();
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
            credit_helper(&mut results, of_all);
        }
        Ok(results)
    })
}

/// State that the threads of a run share.
struct Shared {
    phase: AtomicU8,
    /// The threads meet here when all have opened their clients.
    ready: Barrier,
    /// The most transactions that each thread runs.
    transactions: u64,
    /// If set, each thread fills its log before and after it is timed, so that it counts whole logs; it gives up after this time.
    fills_logs: Option<Duration>,
}

/// Runs one thread: opens its client and runs its transactions.
fn run_client(run: &Run, shared: &Shared, index: u64, open: &Open) -> Result<ThreadResult> {
    let Shared { phase, ready, transactions, fills_logs } = shared;
    let client = open(index, seed_of(run.seed, index));
    // A thread whose client could not be opened waits as well, or the others would wait forever.
    ready.wait();
    let mut client = client?;
    let client = &mut *client;
    while phase.load(Ordering::Relaxed) == WARM_UP {
        transaction(client, run.idle_percent)?;
    }
    if let Some(most) = *fills_logs {
        fill_log(client, run.idle_percent, most)?;
    }
    let (since, processor_since) = (Instant::now(), processor_time());
    let before = client.statistics();
    // The loop runs at least one transaction, even if the system starts this thread after the time is over.
    let mut latency = run.latency.then(histogram);
    for number in 1.. {
        match &mut latency {
            None => transaction(client, run.idle_percent)?,
            Some(latency) => {
                let since = Instant::now();
                transaction(client, run.idle_percent)?;
                latency.saturating_record(since.elapsed().as_nanos() as u64);
            }
        }
        if number >= *transactions || phase.load(Ordering::Relaxed) == STOP {
            break;
        }
    }
    if let Some(most) = *fills_logs {
        fill_log(client, run.idle_percent, most)?;
    }
    let after = client.statistics();
    let (seconds, processor) = (since.elapsed(), processor_time() - processor_since);
    Ok(ThreadResult {
        before,
        after,
        seconds: seconds.as_secs_f64(),
        processor_seconds: processor.as_secs_f64(),
        latency,
    })
}

/// Credits each thread with the helper's processor time if that is more than its own; `of_all` is the processor time of the process.
fn credit_helper(results: &mut [ThreadResult], of_all: Duration) {
    // The slower of worker and helper limits the rate: a worker sleeps while it waits for the helper.
    let of_workers: f64 = results.iter().map(|thread| thread.processor_seconds).sum();
    let of_helper = of_all.as_secs_f64() - of_workers;
    for thread in results {
        thread.processor_seconds = thread.processor_seconds.max(of_helper);
    }
}

/// Runs one transaction, and then idles.
fn transaction(client: &mut dyn Client, idle_percent: u64) -> Result<()> {
    if idle_percent == 0 {
        return client.transaction();
    }
    let since = processor_time();
    client.transaction()?;
    // Other threads may wait for a deferred commit, so an idle thread must not keep one.
    client.drain()?;
    idle(idle_percent, since);
    Ok(())
}

/// Runs transactions until the client's log restarts, at most for `limit`.
fn fill_log(client: &mut dyn Client, idle_percent: u64, limit: Duration) -> Result<()> {
    /// Transactions between two looks at the statistics, which take longer than some transactions.
    const BETWEEN_LOOKS: u64 = 16;
    let (since, before) = (Instant::now(), client.statistics());
    if before.log_bytes == 0 {
        return Ok(());
    }
    while client.statistics().log_restarts == before.log_restarts && since.elapsed() < limit {
        for _ in 0..BETWEEN_LOOKS {
            transaction(client, idle_percent)?;
        }
    }
    Ok(())
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Spins until `percent` of the thread's processor time since `since` was idle.
fn idle(percent: u64, since: Duration) {
    let now = processor_time();
    let until = now + (now - since) * percent as u32 / (100 - percent.min(99)) as u32;
    while processor_time() < until {
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
}
