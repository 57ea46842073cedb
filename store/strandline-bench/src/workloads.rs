//! The workloads of `strandline bench`, which use the typed collections that applications use.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use strandline::{Control, HashMap, OrderedMap, Persist, Queue, Root, Session, Store, Tx, Vector, View};
use strandline_core::error::Error;
use strandline_core::memory::Native;
use strandline_core::transaction::Statistics;
use strandline_core::{Domain, Result};

use crate::{Aside, Client, NewPool, PoolSetting, Product, Row, Run, measure};

/// Items that one transaction inserts when a store is filled; the smallest log has room for them.
const BATCH: u64 = 16;

/// The parameters of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Length of the vector of `sps`; `hash` and `ordered` draw their keys below this number.
    pub keys: u64,
    /// Number of records of `kv`.
    pub records: u64,
    /// Number of items in the queue.
    pub items: u64,
    /// Size of a value of `kv`, in bytes.
    pub value_bytes: u64,
    /// Operations per transaction.
    pub operations: u64,
    /// Percentage of transactions that only read; `None` selects the workload's own.
    pub read_percent: Option<u64>,
}

impl Default for Sizes {
    /// Returns a million numbers or keys, 200,000 records of 100 bytes, and one operation per transaction.
    fn default() -> Self {
        Self {
            keys: 1_000_000,
            records: 200_000,
            items: 1 << 15,
            value_bytes: 100,
            operations: 1,
            read_percent: None,
        }
    }
}

impl Sizes {
    /// Returns sizes for tests: a store of them is filled in milliseconds.
    pub fn small() -> Self {
        Self { keys: 1000, records: 200, items: 100, ..Self::default() }
    }
}

/// A workload and its name.
#[derive(Clone, Copy)]
pub struct StoreWorkload {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description of one transaction.
    pub description: &'static str,
    /// True if [`Sizes::value_bytes`] sets the size of its values.
    pub takes_value_bytes: bool,
    /// Percentage of its transactions that only read, unless [`Sizes::read_percent`] is set.
    pub read_percent: u64,
    fill: fn(&Sizes, &NewPool, StoreControl) -> Result<Box<dyn Product>>,
    heap_bytes: fn(&Sizes) -> u64,
}

/// All workloads, in the order in which the command lists them.
pub static STORE_WORKLOADS: [StoreWorkload; 5] = [
    StoreWorkload {
        name: "sps",
        description: "swaps two numbers of a vector of 1,000,000",
        takes_value_bytes: false,
        read_percent: 0,
        fill: fill::<Swaps>,
        heap_bytes: |sizes| 32 * sizes.keys,
    },
    StoreWorkload {
        name: "hash",
        description: "inserts a key of 1,000,000 into a hash map, or removes it",
        takes_value_bytes: false,
        read_percent: 0,
        fill: fill::<Hashed>,
        heap_bytes: |sizes| 128 * sizes.keys,
    },
    StoreWorkload {
        name: "ordered",
        description: "inserts a key of 1,000,000 into an ordered map, or removes it",
        takes_value_bytes: false,
        read_percent: 0,
        fill: fill::<Ordered>,
        heap_bytes: |sizes| 128 * sizes.keys,
    },
    StoreWorkload {
        name: "queue",
        description: "appends to a queue, and removes its first item",
        takes_value_bytes: false,
        read_percent: 0,
        fill: fill::<Queued>,
        heap_bytes: |sizes| 128 * sizes.items,
    },
    StoreWorkload {
        name: "kv",
        description: "reads a record of a key-value store, or replaces it",
        takes_value_bytes: true,
        read_percent: 50,
        fill: fill::<Records>,
        heap_bytes: |sizes| (2 * sizes.value_bytes + 256) * sizes.records,
    },
];

/// The isolation of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreControl {
    /// Optimistic concurrency, [`strandline::Stm`].
    Stm,
    /// One writer at a time, [`strandline::SingleWriter`].
    SingleWriter,
}

impl StoreControl {
    /// Both controls.
    pub const ALL: [Self; 2] = [Self::Stm, Self::SingleWriter];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stm => "stm",
            Self::SingleWriter => "single-writer",
        }
    }
}

/// A store that holds a workload's collection, open for a measurement. Dropping it removes its file.
pub struct PreparedStore {
    /// The open store; `None` only during `drop`.
    store: Option<Box<dyn Product>>,
    workload: StoreWorkload,
    control: StoreControl,
    domain: Domain,
    path: PathBuf,
    /// True if the pool was opened as if its memory were persistent although it is not.
    pub assumed_persistent: bool,
}

impl PreparedStore {
    /// Creates a store at `path`, fills it, and opens it again as `setting` says.
    ///
    /// # Errors
    /// As for [`Store::create_new`] and [`Store::open_existing`].
    pub fn new(
        path: &Path,
        workload: StoreWorkload,
        control: StoreControl,
        sizes: &Sizes,
        setting: PoolSetting,
    ) -> Result<Self> {
        let pool = NewPool::new(path, setting, (workload.heap_bytes)(sizes))?;
        let read_percent = Some(sizes.read_percent.unwrap_or(workload.read_percent));
        let store = (workload.fill)(&Sizes { read_percent, ..*sizes }, &pool, control)?;
        let assumed_persistent = pool.assumed_persistent();
        let (domain, path) = (setting.domain, pool.path);
        Ok(Self { store: Some(store), workload, control, domain, path, assumed_persistent })
    }

    fn store(&self) -> &dyn Product {
        self.store.as_deref().expect("the store is there until drop")
    }

    /// Runs transactions as `run` says, and returns what was measured.
    ///
    /// # Errors
    /// Returns an error if a transaction failed.
    pub fn measure(&self, run: &Run) -> Result<Row> {
        let threads = measure(run, Aside::of_store(self.domain), &|_, seed| self.store().client(seed))?;
        Ok(Row::new(self.control.name(), self.workload.name, self.domain.name(), true, &threads))
    }

    /// Checks the whole content. The caller makes sure that no transaction runs.
    ///
    /// # Errors
    /// Returns an error if something is damaged.
    pub fn check(&self) -> Result<()> {
        self.store().check()
    }
}

impl Drop for PreparedStore {
    fn drop(&mut self) {
        drop(self.store.take());
        // The file's folder is removed in the end as well, but this frees the memory earlier.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The sizes and the random numbers from which an operation is drawn.
struct Draw<'s> {
    sizes: &'s Sizes,
    random: Rng,
}

impl Draw<'_> {
    fn key(&mut self) -> u64 {
        self.random.u64(..self.sizes.keys)
    }

    fn record(&mut self) -> u64 {
        self.random.u64(..self.sizes.records)
    }
}

/// A root that holds the collection of a workload.
trait Collection: Root + 'static {
    /// Creates the empty collection.
    fn create<'p>(tx: &Tx<'p, impl Control>, sizes: &Sizes) -> Result<Self::At<'p>>;

    /// Returns the number of items in the filled collection.
    fn items(sizes: &Sizes) -> u64;

    /// Adds item `item` while the collection is filled.
    fn add<'p>(root: &Self::At<'p>, tx: &Tx<'p, impl Control>, sizes: &Sizes, item: u64) -> Result<()>;

    /// Runs one operation of a transaction that only reads.
    fn read<'p>(root: &Self::At<'p>, tx: &View<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()>;

    /// Runs one operation of a transaction that may write.
    fn change<'p>(root: &Self::At<'p>, tx: &Tx<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()>;
}

#[derive(Persist)]
struct Swaps<'p> {
    numbers: Vector<'p, u64>,
}

impl Collection for Swaps<'static> {
    fn create<'p>(tx: &Tx<'p, impl Control>, _: &Sizes) -> Result<Swaps<'p>> {
        Ok(Swaps { numbers: Vector::new(tx)? })
    }

    fn items(sizes: &Sizes) -> u64 {
        sizes.keys
    }

    fn add<'p>(root: &Swaps<'p>, tx: &Tx<'p, impl Control>, _: &Sizes, item: u64) -> Result<()> {
        root.numbers.push(tx, &item)
    }

    fn read<'p>(root: &Swaps<'p>, tx: &View<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
        black_box(root.numbers.get(tx, draw.key())?);
        Ok(())
    }

    fn change<'p>(root: &Swaps<'p>, tx: &Tx<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
        root.numbers.swap(tx, draw.key(), draw.key())
    }
}

#[derive(Persist)]
struct Hashed<'p> {
    map: HashMap<'p, u64, u64>,
}

#[derive(Persist)]
struct Ordered<'p> {
    map: OrderedMap<'p, u64, u64>,
}

/// Implements a workload that inserts and removes random keys; about half of the keys are present at any time.
macro_rules! map_workload {
    ($root:ident, $map:ident) => {
        impl Collection for $root<'static> {
            fn create<'p>(tx: &Tx<'p, impl Control>, _: &Sizes) -> Result<$root<'p>> {
                Ok($root { map: $map::new(tx)? })
            }

            fn items(sizes: &Sizes) -> u64 {
                sizes.keys / 2
            }

            fn add<'p>(root: &$root<'p>, tx: &Tx<'p, impl Control>, _: &Sizes, item: u64) -> Result<()> {
                root.map.insert(tx, &(2 * item), &item).map(drop)
            }

            fn read<'p>(root: &$root<'p>, tx: &View<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
                black_box(root.map.get(tx, &draw.key())?);
                Ok(())
            }

            fn change<'p>(root: &$root<'p>, tx: &Tx<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
                let key = draw.key();
                match root.map.contains_key(tx, &key)? {
                    true => root.map.remove(tx, &key).map(drop),
                    false => root.map.insert(tx, &key, &key).map(drop),
                }
            }
        }
    };
}

map_workload!(Hashed, HashMap);
map_workload!(Ordered, OrderedMap);

#[derive(Persist)]
struct Queued<'p> {
    queue: Queue<'p, u64>,
}

impl Collection for Queued<'static> {
    fn create<'p>(tx: &Tx<'p, impl Control>, _: &Sizes) -> Result<Queued<'p>> {
        Ok(Queued { queue: Queue::new(tx)? })
    }

    fn items(sizes: &Sizes) -> u64 {
        sizes.items
    }

    fn add<'p>(root: &Queued<'p>, tx: &Tx<'p, impl Control>, _: &Sizes, item: u64) -> Result<()> {
        root.queue.push(tx, &item)
    }

    fn read<'p>(root: &Queued<'p>, tx: &View<'p, impl Control>, _: &mut Draw<'_>) -> Result<()> {
        black_box(root.queue.front(tx)?);
        Ok(())
    }

    fn change<'p>(root: &Queued<'p>, tx: &Tx<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
        root.queue.push(tx, &draw.random.u64(..))?;
        black_box(root.queue.pop(tx)?);
        Ok(())
    }
}

#[derive(Persist)]
struct Records<'p> {
    records: OrderedMap<'p, String, Vec<u8>>,
}

/// Returns the key of record `number`.
fn key(number: u64) -> String {
    format!("user{number:012}")
}

impl Collection for Records<'static> {
    fn create<'p>(tx: &Tx<'p, impl Control>, _: &Sizes) -> Result<Records<'p>> {
        Ok(Records { records: OrderedMap::new(tx)? })
    }

    fn items(sizes: &Sizes) -> u64 {
        sizes.records
    }

    fn add<'p>(root: &Records<'p>, tx: &Tx<'p, impl Control>, sizes: &Sizes, item: u64) -> Result<()> {
        let value = vec![item as u8; sizes.value_bytes as usize];
        root.records.insert(tx, &key(item), &value).map(drop)
    }

    fn read<'p>(root: &Records<'p>, tx: &View<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
        black_box(root.records.get(tx, key(draw.record()).as_str())?);
        Ok(())
    }

    fn change<'p>(root: &Records<'p>, tx: &Tx<'p, impl Control>, draw: &mut Draw<'_>) -> Result<()> {
        // The value differs each time, because an equal one would not be stored.
        let value =
            draw.random.u64(..).to_le_bytes().into_iter().cycle().take(draw.sizes.value_bytes as usize);
        root.records.insert(tx, &key(draw.record()), &value.collect()).map(drop)
    }
}

struct Filled<R, C: Control<Memory = Native>> {
    store: Store<R, C>,
    sizes: Sizes,
}

fn fill<R: Collection>(sizes: &Sizes, pool: &NewPool, control: StoreControl) -> Result<Box<dyn Product>> {
    match control {
        StoreControl::Stm => fill_under::<R, strandline::Stm>(sizes, pool),
        StoreControl::SingleWriter => fill_under::<R, strandline::SingleWriter>(sizes, pool),
    }
}

fn fill_under<R, C>(sizes: &Sizes, pool: &NewPool) -> Result<Box<dyn Product>>
where
    R: Collection,
    C: Control<Memory = Native>,
    Filled<R, C>: Product + 'static,
{
    let store = Store::<R, C>::create_new(&pool.path, &pool.filling, |tx| R::create(tx, sizes))?;
    let mut session = store.session()?;
    let items = R::items(sizes);
    for first in (0..items).step_by(BATCH as usize) {
        session.write(|tx, root| {
            let root = root.get(tx)?;
            (first..items.min(first + BATCH)).try_for_each(|item| R::add(&root, tx, sizes, item))
        })?;
    }
    drop(session);
    store.close()?;
    let store = pool.open(|path, options| Store::<R, C>::open_existing(path, options))?;
    Ok(Box::new(Filled { store, sizes: *sizes }))
}

impl<R: Collection, C: Control<Memory = Native>> Product for Filled<R, C>
where
    Store<R, C>: Send + Sync,
{
    fn client(&self, seed: u64) -> Result<Box<dyn Client + '_>> {
        let read_percent = self.sizes.read_percent.unwrap_or(0);
        let session = self.store.session()?;
        Ok(Box::new(StoreClient { session, sizes: &self.sizes, random: Rng::with_seed(seed), read_percent }))
    }

    fn check(&self) -> Result<()> {
        let findings = self.store.check()?;
        if findings.is_empty() { Ok(()) } else { Err(Error::damaged(findings.join("; "))) }
    }
}

struct StoreClient<'s, R, C: Control<Memory = Native>> {
    session: Session<R, C>,
    sizes: &'s Sizes,
    random: Rng,
    read_percent: u64,
}

impl<R: Collection, C: Control<Memory = Native>> Client for StoreClient<'_, R, C> {
    fn transaction(&mut self) -> Result<()> {
        let Self { session, sizes, random, read_percent } = self;
        let only_reads = *read_percent > 0 && random.u64(..100) < *read_percent;
        // The closure draws from a fork, so that it draws the same numbers if the transaction is repeated.
        let drawn = random.fork();
        if only_reads {
            return session.read(|tx, root| {
                let (root, mut draw) = (root.get(tx)?, Draw { sizes, random: drawn.clone() });
                (0..sizes.operations).try_for_each(|_| R::read(&root, tx, &mut draw))
            });
        }
        session.write(|tx, root| {
            let (root, mut draw) = (root.get(tx)?, Draw { sizes, random: drawn.clone() });
            (0..sizes.operations).try_for_each(|_| R::change(&root, tx, &mut draw))
        })
    }

    /// Does nothing: a store's sessions defer no commits.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        self.session.statistics()
    }
}

#[cfg(test)]
mod tests {
    use strandline_core::Concurrency;

    use super::*;
    use crate::Length;

    /// Under each control, each workload runs, waits for one fence per transaction on memory, and leaves nothing damaged.
    #[test]
    fn every_workload_runs() {
        let folder = tempfile::tempdir().unwrap();
        for workload in STORE_WORKLOADS {
            for control in StoreControl::ALL {
                let setting = PoolSetting {
                    logs: 16,
                    log_bytes: 64 << 10,
                    domain: Domain::Emulated { write_latency_ns: 0 },
                    instruction: None,
                    concurrency: Concurrency::Stm,
                };
                let sizes = Sizes { read_percent: Some(0), operations: 2, ..Sizes::small() };
                let path = folder.path().join("pool");
                let store = PreparedStore::new(&path, workload, control, &sizes, setting).unwrap();
                let run = Run {
                    threads: 2,
                    length: Length::Transactions(200),
                    seed: 1,
                    idle_percent: 0,
                    latency: false,
                };
                let row = store.measure(&run).unwrap();
                store.check().unwrap();
                assert_eq!((row.workload.as_str(), row.scheme.as_str()), (workload.name, control.name()));
                assert!(row.tx_per_s > 0.0 && row.fences_per_tx == 1.0, "{row:?}");
            }
        }
    }
}
