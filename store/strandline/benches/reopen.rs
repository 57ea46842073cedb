//! Measures the time that it takes to open a pool of 1 GB in a file after its process was killed.
//!
//! `cargo bench -p strandline --bench reopen` creates the pool. A process of its own then changes words in 1,000 pages until the log is about 4 MB
//! long, and kills itself. The benchmark opens the pool and prints how much recovery read and wrote, and the time of opening. It does so several
//! times.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use strandline_core::{Options, Pool, Result, Runner};
use strandline_structures::Array;

const ROUNDS: u64 = 5;
const SIZE: u64 = 1 << 30;
const PAGES: u64 = 1000;
const PAGE_WORDS: u64 = 4096 / 8;
/// Number of log records, of 16 bytes each.
const RECORDS: u64 = (4 << 20) / 16;
/// Number of words that a transaction changes.
const WORDS: u64 = 250;
/// The environment variable with the path of the pool that the process opens, and the round.
const CHILD: &str = "STRANDLINE_REOPEN";

fn change(path: &Path, round: u64) -> Result<()> {
    let pool = Pool::open(path, &Options::default())?;
    let mut worker = pool.worker()?;
    let mut random = fastrand::Rng::with_seed(round);
    let array = worker.view(|tx| Array::<u64>::open(tx, pool.layout().root(0)))?;
    for transaction in 0..RECORDS / (WORDS + 1) {
        worker.run(|tx| {
            (0..WORDS).try_for_each(|_| array.set(tx, random.u64(..PAGES * PAGE_WORDS), transaction))
        })?;
    }
    std::process::abort();
}

fn main() -> Result<ExitCode> {
    if let Ok(child) = std::env::var(CHILD) {
        let (round, path) = child.split_once(' ').expect("a round and a path");
        return change(Path::new(path), round.parse().expect("a number")).map(|()| ExitCode::SUCCESS);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pool");
    let mut options = Options::default();
    options.geometry.size = SIZE;
    let pool = Pool::create(&path, &options)?;
    let mut worker = pool.worker()?;
    Array::create(&mut worker, pool.layout().root(0), PAGES * PAGE_WORDS, |i| i)?;
    drop(worker);
    pool.close()?;
    println!("log blocks  records  transactions  pages written  opened in ms");
    for round in 0..ROUNDS {
        let killed = Command::new(std::env::current_exe().expect("this program"))
            .env(CHILD, format!("{round} {}", path.display()))
            .stderr(std::process::Stdio::null())
            .status()
            .expect("a process");
        assert!(!killed.success(), "the process has ended by itself");
        let since = Instant::now();
        let pool = Pool::open(&path, &Options::default())?;
        let opened = since.elapsed();
        let found = pool.recovery().sync.expect("a pool in a file recovers from its log");
        println!(
            "{:>10} {:>8} {:>13} {:>14} {:>13.1}",
            found.blocks,
            found.records,
            found.replayed,
            found.pages,
            1000.0 * opened.as_secs_f64()
        );
        pool.close()?;
    }
    Ok(ExitCode::SUCCESS)
}
