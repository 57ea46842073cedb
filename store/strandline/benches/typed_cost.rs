//! Measures the cost of types: the typed interface compared with the word interface over the same structures, under `Flush`, with one thread.
//!
//! `cargo bench -p strandline --bench typed_cost` runs the same operations through both in turn, many times, and prints the medians and the median of
//! their ratios; `-- counter` runs only one of the operations. The pools are in /dev/shm if that exists: ordinary memory that stands in for
//! persistent memory.

mod support;

use std::hint::black_box;
use std::time::Instant;

use strandline::{HashMap, Persist, Ptr, Session, Store};
use strandline_core::engine::Worker;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::KeyValueStore;
use strandline_core::{Domain, Options, Pool, Read, Result, Runner, Transaction};
use support::median;

const ROUNDS: u64 = 15;
const TRANSACTIONS: u64 = 100_000;
const KEYS: u64 = 100_000;
const BUCKETS: u64 = 1 << 14;

#[derive(Persist)]
struct Root<'p> {
    map: HashMap<'p, u64, u64>,
    counter: Ptr<'p, u64>,
}

/// The counterpart for the word interface, with the root words 0 and 1.
struct Words {
    worker: Worker,
    map: KeyValueStore,
    counter: PersistentAddress,
}

fn key(random: &mut fastrand::Rng) -> u64 {
    random.u64(..KEYS)
}

/// Returns the nanoseconds that each of many operations takes.
fn time(seed: u64, mut operation: impl FnMut(&mut fastrand::Rng) -> Result<()>) -> Result<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let since = Instant::now();
    for _ in 0..TRANSACTIONS {
        operation(&mut random)?;
    }
    Ok(since.elapsed().as_nanos() as f64 / TRANSACTIONS as f64)
}

type Typed = fn(&mut Session<Root<'static>>, &mut fastrand::Rng) -> Result<()>;
type Untyped = fn(&mut Words, &mut fastrand::Rng) -> Result<()>;

fn main() -> Result<()> {
    let folder = support::folder_in_memory();
    let options = Options { domain: Domain::Flush, assume_persistent: true, ..Options::default() };

    let store = Store::<Root>::create_new(folder.path().join("typed"), &options, |tx| {
        Ok(Root { map: HashMap::with_capacity(tx, 2 * BUCKETS)?, counter: Ptr::new(tx, &0)? })
    })?;
    let mut session = store.session()?;
    for key in 0..KEYS {
        session.write(|tx, root| root.get(tx)?.map.insert(tx, &key, &key).map(drop))?;
    }

    let pool = Pool::create(folder.path().join("words"), &options)?;
    let mut worker = pool.worker()?;
    let map = KeyValueStore::create(&mut worker, pool.layout().root(0), BUCKETS)?;
    let counter = pool.layout().root(1);
    worker.run(|tx| {
        let at = tx.alloc(8)?;
        tx.write(at, 0)?;
        tx.write(counter, at.offset())
    })?;
    for key in 0..KEYS {
        worker.run(|tx| map.insert(tx, &key.to_le_bytes(), &key.to_le_bytes()).map(drop))?;
    }
    let mut words = Words { worker, map, counter };

    let operations: [(&str, Typed, Untyped); 3] = [
        (
            "map get",
            |session, random| {
                let key = key(random);
                let value = session.read(|tx, root| root.get(tx)?.map.get(tx, &key))?;
                black_box(value);
                Ok(())
            },
            |words, random| {
                let (key, map) = (key(random), words.map);
                let value = words.worker.view(|tx| map.get(tx, &key.to_le_bytes()))?;
                black_box(value.and_then(|value| value.try_into().ok()).map(u64::from_le_bytes));
                Ok(())
            },
        ),
        (
            "map insert",
            |session, random| {
                let (key, value) = (key(random), random.u64(..));
                session.write(|tx, root| root.get(tx)?.map.insert(tx, &key, &value).map(drop))
            },
            |words, random| {
                let (key, value, map) = (key(random), random.u64(..), words.map);
                let (key, value) = (key.to_le_bytes(), value.to_le_bytes());
                words.worker.run(|tx| map.insert(tx, &key, &value).map(drop))
            },
        ),
        (
            "counter",
            |session, _| session.write(|tx, root| root.get(tx)?.counter.update(tx, |count| *count += 1)),
            |words, _| {
                let counter = words.counter;
                words.worker.run(|tx| {
                    let at = PersistentAddress::new(tx.read(counter)?);
                    let count = tx.read(at)?;
                    tx.write(at, count + 1)
                })
            },
        ),
    ];
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!("operation    words ns  typed ns  typed / words");
    for (name, typed, untyped) in operations {
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
            continue;
        }
        let (mut by_words, mut by_types, mut ratios) = (vec![], vec![], vec![]);
        for round in 0..ROUNDS {
            let without = time(round, |random| untyped(&mut words, random))?;
            let with = time(round, |random| typed(&mut session, random))?;
            by_words.push(without);
            by_types.push(with);
            ratios.push(with / without);
        }
        println!("{name:<12} {:>8.0} {:>9.0} {:>14.2}", median(by_words), median(by_types), median(ratios));
    }
    Ok(())
}
