//! A queue of jobs with leases and retries, for several workers.
//!
//! ```text
//! cargo run --release -p strandline --example job_queue -- /tmp/jobs.db add "resize photo" fail crash
//! cargo run --release -p strandline --example job_queue -- /tmp/jobs.db work
//! cargo run --release -p strandline --example job_queue -- /tmp/jobs.db status
//! ```
//!
//! To try it out, a job named `fail` always fails, and a job named `crash` ends the whole program at its first attempt.
//!
//! A worker *leases* a job: it may work on it until the lease ends. A worker that dies does nothing more, so its lease ends and another worker takes
//! the job. A job that fails is due again after a pause, and is given up after three attempts. So a job may run more than once, but is never lost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use strandline::{Database, Persist, QueueTable, Result, Table};

/// The length of a lease in milliseconds.
const LEASE: u64 = 1000;
/// The pause in milliseconds until a failed job is due again.
const PAUSE: u64 = 50;
const MOST_ATTEMPTS: u32 = 3;

#[derive(Persist)]
struct Job {
    text: String,
    attempts: u32,
}

struct Jobs {
    db: Database,
    jobs: Table<u64, Job>,
    /// Every job that is not done, by the time at which a worker may take it next, and its number. For a leased job this is the end of the lease.
    due: Table<(u64, u64), ()>,
    given_up: QueueTable<String>,
}

/// A job that this worker may work on until `until`.
struct Lease {
    number: u64,
    until: u64,
    job: Job,
}

impl Jobs {
    fn open(path: &str) -> Result<Self> {
        let db = Database::open(path)?;
        let (jobs, due, given_up) = (db.table("jobs")?, db.table("due")?, db.queue("given up")?);
        Ok(Self { db, jobs, due, given_up })
    }

    fn add(&self, text: &str) -> Result<u64> {
        self.db.write(|tx| {
            let number = self.jobs.last(tx)?.map_or(1, |(last, _)| last + 1);
            self.jobs.insert(tx, &number, &Job { text: text.to_owned(), attempts: 0 })?;
            self.due.insert(tx, &(0, number), &())?;
            Ok(number)
        })
    }

    /// Leases the job that is due for the longest time. Two workers never get the same one: their transactions conflict, and one runs again.
    fn take(&self, now: u64) -> Result<Option<Lease>> {
        self.db.write(|tx| {
            let Some(((time, number), ())) = self.due.first(tx)? else { return Ok(None) };
            let Some(mut job) = self.jobs.get(tx, &number)?.filter(|_| time <= now) else { return Ok(None) };
            job.attempts += 1;
            let until = now + LEASE;
            self.jobs.insert(tx, &number, &job)?;
            self.due.remove(tx, &(time, number))?;
            self.due.insert(tx, &(until, number), &())?;
            Ok(Some(Lease { number, until, job }))
        })
    }

    /// Ends a lease, unless it has already expired and another worker has the job. Returns whether it ended the lease.
    fn end(&self, lease: &Lease, has_succeeded: bool, now: u64) -> Result<bool> {
        self.db.write(|tx| {
            if self.due.remove(tx, &(lease.until, lease.number))?.is_none() {
                return Ok(false);
            }
            if !has_succeeded && lease.job.attempts < MOST_ATTEMPTS {
                self.due.insert(tx, &(now + PAUSE, lease.number), &())?;
                return Ok(true);
            }
            self.jobs.remove(tx, &lease.number)?;
            if !has_succeeded {
                self.given_up.push(tx, lease.job.text.as_str())?;
            }
            Ok(true)
        })
    }

    /// Works until every job is done or given up.
    fn work(&self) -> Result<()> {
        while !self.db.read(|tx| self.jobs.is_empty(tx))? {
            let Some(lease) = self.take(now())? else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let Job { text, attempts } = &lease.job;
            // The work itself is outside of any transaction: a closure may run more than once.
            if text == "crash" && *attempts == 1 {
                std::process::abort();
            }
            let has_succeeded = text != "fail";
            if self.end(&lease, has_succeeded, now())? {
                let outcome = if has_succeeded { "done" } else { "failed" };
                println!("job {}: {text}: {outcome} at attempt {attempts}", lease.number);
            }
        }
        Ok(())
    }
}

/// Returns the time in milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [path, command @ ..] = arguments.as_slice() else {
        eprintln!("usage: job_queue FILE add TEXT… | work | status");
        std::process::exit(2);
    };
    let jobs = Jobs::open(path)?;
    match command {
        ["add", texts @ ..] => {
            texts.iter().try_for_each(|text| jobs.add(text).map(|n| println!("job {n}: {text}")))?
        }
        ["work"] => std::thread::scope(|scope| {
            let workers = [scope.spawn(|| jobs.work()), scope.spawn(|| jobs.work())];
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
        })?,
        _ => {
            let open = jobs.db.read(|tx| jobs.jobs.len(tx))?;
            let given_up: Vec<_> = jobs.db.read(|tx| jobs.given_up.iter(tx)?.collect())?;
            println!("{open} jobs are open, given up: {given_up:?}");
        }
    }
    jobs.db.close()
}
