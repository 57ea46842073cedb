//! The driver: runs one scheme on one workload with some threads, for some time or for a number of transactions.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use strandline_core::{Domain, Result};

use crate::Client;
use crate::row::{ThreadResult, histogram};

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Threads that run transactions.
    pub threads: u64,
    /// How long its threads run, by the clock or in transactions.
    pub length: Length,
    /// Seeds each thread's random numbers, together with the thread's number.
    pub seed: u64,
    /// The share of its time that a thread is idle after each transaction, in percent below 100 (Blurred
    /// Persistence, section V-C5).
    pub idle_percent: u64,
    /// Whether each transaction is timed, idle time included; that takes some time too.
    pub latency: bool,
}

/// How long a run goes on.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// By the clock, for measuring.
    Time {
        /// How long the threads run before anything counts.
        warm_up: Duration,
        /// How long the timed part is.
        timed: Duration,
    },
    /// For so many transactions of each thread, at least one, which all count: what is done depends on no clock.
    Transactions(u64),
}

impl Length {
    /// A run that is timed so long, after a warm-up of a fifth of that, 50 to 500 ms.
    pub fn of(timed: Duration) -> Self {
        let warm_up = (timed / 5).clamp(Duration::from_millis(50), Duration::from_millis(500));
        Self::Time { warm_up, timed }
    }
}

const WARM_UP: u8 = 0;
const TIMED: u8 = 1;
const STOP: u8 = 2;

/// What happens beside transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aside {
    /// A helper thread truncates.
    pub helper: bool,
    /// Workers begin their logs anew when they are full.
    pub restarts: bool,
}

impl Aside {
    /// What a store does. The shared log of the `Sync` domain has its checkpoints instead.
    pub fn of_store(domain: Domain) -> Self {
        Self { helper: false, restarts: domain != Domain::Sync }
    }
}

/// Opens a client for the thread of this number, which draws its random numbers from a seed.
pub type Open<'o> = dyn Fn(u64, u64) -> Result<Box<dyn Client + 'o>> + Sync + 'o;

/// Runs clients, each on a thread of its own.
///
/// # Errors
/// Returns an error if a client cannot be opened or if a transaction failed.
pub fn measure(run: &Run, aside: Aside, open: &Open) -> Result<Vec<ThreadResult>> {
    // The clock is read by this thread alone: theirs is a load of a word that changes twice.
    let (first, transactions, most_of_a_log) = match run.length {
        Length::Time { timed, .. } => (WARM_UP, u64::MAX, Some(10 * timed)),
        Length::Transactions(number) => (TIMED, number, None),
    };
    let shared = Shared {
        phase: AtomicU8::new(first),
        ready: Barrier::new(run.threads as usize + 1),
        transactions,
        // Persistence in bulk comes once in a log; a part of a log would count it or not.
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

/// What the threads of a run share.
struct Shared {
    phase: AtomicU8,
    /// All threads have opened their clients.
    ready: Barrier,
    /// Transactions of each thread, at most.
    transactions: u64,
    /// Each thread begins and ends with a full log, for which it takes so long at most.
    fills_logs: Option<Duration>,
}

/// The thread of this number: opens a client, and runs its transactions.
fn run_client(run: &Run, shared: &Shared, index: u64, open: &Open) -> Result<ThreadResult> {
    let Shared { phase, ready, transactions, fills_logs } = shared;
    let seed = run.seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let client = open(index, seed);
    // Who fails keeps nobody waiting.
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
    // At least one, however late the system let this thread begin.
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

/// Adds the processor time of a helper, where `of_all` is that of the process.
fn credit_helper(results: &mut [ThreadResult], of_all: Duration) {
    // A worker sleeps while it waits for the helper, which works all the while.
    let of_workers: f64 = results.iter().map(|thread| thread.processor_seconds).sum();
    let of_helper = of_all.as_secs_f64() - of_workers;
    for thread in results {
        thread.processor_seconds = thread.processor_seconds.max(of_helper);
    }
}

/// One transaction, and the idle time after it.
fn transaction(client: &mut dyn Client, idle_percent: u64) -> Result<()> {
    if idle_percent == 0 {
        return client.transaction();
    }
    let since = processor_time();
    client.transaction()?;
    // Who has nothing to do keeps nobody waiting.
    client.drain()?;
    idle(idle_percent, since);
    Ok(())
}

/// Runs transactions until the client's log begins anew, or for `limit`.
fn fill_log(client: &mut dyn Client, idle_percent: u64, limit: Duration) -> Result<()> {
    /// Looking takes longer than some transactions.
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
