//! Measures what a commit costs beyond the bare cost of its log lines: BPPM against NP under `Flush`, with one thread.
//!
//! `cargo bench -p strandline-schemes --bench commit_cost` runs the same transactions alternately under NP and under BPPM, many times, and a loop
//! that stores, writes back and fences as many consecutive lines as BPPM's commits do. For each workload and mode it prints the median of (BPPM - NP)
//! / bare. The pools are in /dev/shm if it exists: ordinary memory, treated as persistent.

#[path = "../../../store/strandline/benches/support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::memory::{Mapping, MappingKind, Memory, Native, PersistentAddress, Step};
use strandline_core::{Domain, Options, Pool, Result, Runner};
use strandline_structures::{Array, HashTable};
use support::median;

const ROUNDS: usize = 15;
const TRANSACTIONS: u64 = 200_000;

/// The operations of one transaction.
#[derive(Clone, Copy)]
enum Work {
    Swap(Array<u64>),
    Update(HashTable<u64, u64>),
}

impl Work {
    fn run(self, runner: &mut impl Runner, random: &mut fastrand::Rng) -> Result<()> {
        match self {
            Self::Swap(array) => {
                let (i, j) = (random.u64(..array.len()), random.u64(..array.len()));
                runner.run(|tx| array.swap(tx, i, j))
            }
            Self::Update(table) => {
                let key = random.u64(..2 * table.buckets());
                runner.run(|tx| {
                    if !table.delete(tx, key)? {
                        table.insert(tx, key, &key)?;
                    }
                    Ok(())
                })
            }
        }
    }
}

/// Returns nanoseconds per transaction.
fn time(work: Work, runner: &mut impl Runner, seed: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let since = Instant::now();
    for _ in 0..TRANSACTIONS {
        work.run(runner, &mut random).expect("a transaction of the benchmark");
    }
    since.elapsed().as_nanos() as f64 / TRANSACTIONS as f64
}

/// Returns the nanoseconds to store, write back and fence a number of consecutive lines that averages `lines`, cycling through a log of 1 MB.
fn time_bare(memory: &Native, lines: f64) -> f64 {
    let size = memory.size(strandline_core::memory::Space::Persistent);
    let (mut at, mut due) = (0, 0.0);
    let since = Instant::now();
    for round in 0..TRANSACTIONS {
        due += lines;
        let now = due as u64;
        due -= now as f64;
        if at + now * 64 > size {
            at = 0;
        }
        for word in 0..now * 8 {
            memory.store(PersistentAddress::new(at + 8 * word), round);
        }
        for line in 0..now {
            memory.write_back(PersistentAddress::new(at + 64 * line), Step::CommitWriteBack);
        }
        memory.fence(Step::CommitFence);
        at += now * 64;
    }
    since.elapsed().as_nanos() as f64 / TRANSACTIONS as f64
}

/// The measured workloads, by name.
type Works = [(&'static str, Work); 2];

/// Creates a pool with the data of the transactions.
fn filled<C: Control<Memory = Native>>(setup: Setup<C>, path: &Path) -> Result<(Pool<C>, Works)> {
    let options = Options { domain: Domain::Flush, assume_persistent: true, ..Options::default() };
    let pool = setup.create(path, &options)?;
    let mut filler = strandline_schemes::PlainWorker::in_pool(&pool, 0)?;
    let array = Array::create(&mut filler, pool.layout().root(0), 1 << 20, |i| i)?;
    let table = HashTable::create(&mut filler, pool.layout().root(1), 500_000, 1)?;
    for key in 0..500_000 {
        filler.run(|tx| table.insert(tx, 2 * key, &key))?;
    }
    Ok((pool, [("sps", Work::Swap(array)), ("hash", Work::Update(table))]))
}

/// Compares NP on the laboratory's path with BPPM on the product's.
fn compare<C: Control<Memory = Native>>(product: Setup<C>, bare: &Native, folder: &Path) -> Result<()> {
    let mode = format!("{:?}", product.control.concurrency());
    let laboratory = strandline_schemes::laboratory(product.control.concurrency());
    let (laboratory, _) = filled(laboratory, &folder.join(format!("{mode}-np")))?;
    let (product, works) = filled(product, &folder.join(&mode))?;
    for (name, work) in works {
        let (mut np, mut bppm, mut bares, mut ratios) = (vec![], vec![], vec![], vec![]);
        let mut lines = 0.0;
        for round in 0..ROUNDS as u64 {
            let without = time(work, &mut laboratory.worker_of(&strandline_schemes::NP)?, round);
            let mut worker = product.worker()?;
            let with = time(work, &mut worker, round);
            let done = worker.statistics();
            lines = (done.total - done.bulk).lines_written_back as f64 / done.commits as f64;
            let bare = time_bare(bare, lines);
            np.push(without);
            bppm.push(with);
            bares.push(bare);
            ratios.push((with - without) / bare);
        }
        println!(
            "{name:<9} {mode:<13} {:>6.0} {:>8.0} {lines:>9.2} {:>8.0}  {:.2}",
            median(np),
            median(bppm),
            median(bares),
            median(ratios)
        );
    }
    laboratory.close()?;
    product.close()
}

fn main() -> Result<()> {
    let folder = support::folder_in_memory();
    let bare_file = tempfile::tempfile_in(folder.path()).expect("a temporary file");
    bare_file.set_len(1 << 20).expect("1 MB");
    let bare = Native::new(
        Arc::new(Mapping::file(bare_file, 1 << 20, MappingKind::Shared)?),
        Arc::new(Mapping::anonymous(4096)?),
        Domain::Flush,
        None,
        None,
    )?;
    println!("workload  mode           NP ns  BPPM ns  lines/tx  bare ns  (BPPM - NP) / bare");
    compare(Setup::from(Stm), &bare, folder.path())?;
    compare(Setup::from(SingleWriter), &bare, folder.path())
}
