//! Crashes of the `Sync` protocol on a faulty device: lives of a pool, one after another, each ended by a power
//! failure, an error of the device, a kill, or nothing, and followed by recoveries that fail likewise.
//!
//! The oracle: after recovery the data are those of a prefix of the TxID order that holds everything that was
//! acknowledged, and everything that an acknowledged reader saw.

mod native;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use fastrand::Rng;

use super::device::{Device, DeviceFile};
use super::*;
use crate::error::Error;
use crate::memory::hosted::{Operation, Thread, run};
use crate::memory::recorder::Recorder;
use crate::memory::{Event, Hosted, Memory, PersistentAddress, Space, Step, World};
use crate::pool::layout::{Geometry, Layout, SharedLayout, View};
use crate::scheme::Blurred;
use crate::transaction::{Abort, Concurrency, Read, Runner, Transaction, Worker};

const UUID: [u8; 16] = *b"strandline tests";
const GEOMETRY: Geometry = Geometry { size: 22 * 4096, logs: 3, log_bytes: 8192, chunk_bytes: 4096 };
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A TxID, and the addresses and values that were written under it.
type Committed = (u64, Vec<(u64, u64)>);

/// A recorder with a device, which notes what commits and what is acknowledged.
struct TestWorld {
    recorder: Recorder,
    device: Rc<FaultyDevice>,
    /// What each thread's running transaction has written.
    running: RefCell<Vec<Vec<(u64, u64)>>>,
    /// TxID and writes.
    history: RefCell<Vec<Committed>>,
    acknowledged: Cell<u64>,
}

impl World for TestWorld {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        match operation {
            Operation::Event(Event::Commit(transaction)) if transaction != 0 => {
                let writes = self.running.borrow()[thread].clone();
                self.history.borrow_mut().push((transaction, writes));
            }
            Operation::Event(Event::Acknowledged(transaction)) => {
                self.acknowledged.set(self.acknowledged.get().max(transaction));
            }
            _ => {}
        }
        self.recorder.perform(thread, operation)
    }
    fn load_range(&self, thread: usize, space: Space, offset: u64, into: &mut [u64]) {
        self.recorder.load_range(thread, space, offset, into);
    }
    fn switches(&self, thread: usize) -> bool {
        self.recorder.switches(thread)
    }
    fn omitted(&self, step: Step) -> bool {
        self.recorder.omitted(step)
    }
    fn size(&self, space: Space) -> u64 {
        self.recorder.size(space)
    }
    fn device(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }
}

/// A pool on a faulty device.
struct Pool {
    device: Rc<FaultyDevice>,
    layout: Layout,
    shared: SharedLayout,
    log: SharedLog,
    omitted: Option<Step>,
}

impl Pool {
    fn create(seed: u64, direct: bool, parameters: SyncParameters, omitted: Option<Step>) -> Self {
        let device = Rc::new(FaultyDevice::new(seed, direct));
        let layout = Layout::new(GEOMETRY).unwrap();
        device.grow(DeviceFile::Heap, GEOMETRY.size).unwrap();
        create(&*device, &UUID, parameters, 0).unwrap();
        let shared = SharedLayout::new(&layout, 6, SharedLog::volatile_bytes(&layout, parameters));
        let log = SharedLog::new(&layout, &shared, parameters, &UUID);
        Self { device, layout, shared, log, omitted }
    }

    /// What a process sees that maps the heap file privately.
    fn open(&self, seed: u64) -> Rc<TestWorld> {
        let heap = self.device.contents(DeviceFile::Heap);
        let words = heap.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
        let recorder = Recorder::new(words, self.shared.bytes(), 6, seed, self.omitted);
        recorder.set_recording(false);
        Rc::new(TestWorld {
            recorder,
            device: self.device.clone(),
            running: RefCell::new(vec![Vec::new(); 4]),
            history: RefCell::default(),
            acknowledged: Cell::new(0),
        })
    }

    fn view<M>(&self, memory: M) -> View<M> {
        View { memory, layout: self.layout, shared: self.shared }
    }

    fn main(&self, world: &Rc<TestWorld>) -> View<Hosted> {
        self.view(Hosted::new(world.clone(), 3))
    }

    fn worker<M: Memory>(&self, memory: M, concurrency: Concurrency) -> Worker<M, Blurred> {
        Worker::lease(self.view(memory), concurrency, Some(self.log)).unwrap()
    }

    /// The words that unique values are written to: neighbours in a line, in five pages.
    fn cell(&self, number: u64) -> PersistentAddress {
        self.layout.chunks.byte(number / 6 % 5 * 4096 + number % 6 / 3 * 640 + number % 3 * 8)
    }
}

const CELLS: u64 = 30;
const ACCOUNTS: u64 = 8;
const FIRST_VALUE: u64 = 1 << 32;

/// What the data must be.
#[derive(Default)]
struct Model {
    words: BTreeMap<u64, u64>,
    /// The highest TxID in it.
    watermark: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    lives: u64,
    failed_lives: u64,
    failed_recoveries: u64,
    transactions: u64,
    checkpoints: u64,
}

struct Trial {
    pool: Pool,
    rng: Rng,
    concurrency: Concurrency,
    model: Model,
    /// The last life's transactions, and what of them must have survived.
    history: Vec<Committed>,
    acknowledged: u64,
    seen: Vec<u64>,
    next_value: Rc<Cell<u64>>,
    count: Count,
}

impl Trial {
    fn new(seed: u64, omitted: Option<Step>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let parameters = SyncParameters {
            ring_blocks: *rng.choice(&[6, 8, 16]).unwrap(),
            dirty_pages: *rng.choice(&[1, 2, 100]).unwrap(),
        };
        let concurrency = if rng.bool() { Concurrency::Stm } else { Concurrency::SingleWriter };
        let pool = Pool::create(rng.u64(..), rng.bool(), parameters, omitted);
        Self {
            pool,
            rng,
            concurrency,
            model: Model::default(),
            history: Vec::new(),
            acknowledged: 0,
            seen: Vec::new(),
            next_value: Rc::new(Cell::new(FIRST_VALUE)),
            count: Count::default(),
        }
    }

    fn fault(&mut self) -> Fault {
        *self.rng.choice(&[Fault::PowerOff, Fault::Error(EIO), Fault::Error(ENOSPC)]).unwrap()
    }

    /// The process ends; with it perhaps the power.
    fn end_process(&mut self) {
        if self.pool.device.is_off() || self.rng.bool() {
            self.pool.device.power_cycle();
        } else {
            self.pool.device.clear_fault();
        }
    }

    /// Recovers, however often that takes, and judges.
    fn recover(&mut self) -> Result<Rc<TestWorld>, String> {
        for attempt in 0.. {
            let faulty = attempt < 4 && self.rng.u8(..3) == 0;
            if faulty {
                let fault = self.fault();
                self.pool.device.fail_after(self.rng.u64(..12), fault);
            }
            let world = self.pool.open(self.rng.u64(..));
            let view = self.pool.main(&world);
            match self.pool.log.recover(&view) {
                Ok(report) => {
                    self.pool.device.clear_fault();
                    self.judge(&world, report.watermark)?;
                    if self.rng.u8(..4) == 0 {
                        let reader = self.pool.open(1);
                        let view = self.pool.main(&reader);
                        let report = self.pool.log.recover_read_only(&view).map_err(|e| e.to_string())?;
                        self.judge(&reader, report.watermark).map_err(|e| format!("a reader: {e}"))?;
                    }
                    return Ok(world);
                }
                Err(Error::Io { .. }) if faulty => {
                    self.count.failed_recoveries += 1;
                    self.end_process();
                }
                Err(error) => return Err(format!("recovery failed: {error}")),
            }
        }
        unreachable!()
    }

    /// Whether the world's data are a prefix that holds all that it must; from then on they are the base.
    fn judge(&mut self, world: &TestWorld, watermark: u64) -> Result<(), String> {
        let mut history = std::mem::take(&mut self.history);
        history.sort_by_key(|&(transaction, _)| transaction);
        let mut source = HashMap::new();
        for &(transaction, ref writes) in &history {
            // Accounts hold the same values again and again.
            let unique = |value| (FIRST_VALUE..1 << 63).contains(&value);
            source.extend(writes.iter().map(|&(_, value)| (value, transaction)).filter(|w| unique(w.0)));
        }
        if watermark < self.acknowledged {
            return Err(format!("{} was acknowledged, recovered up to {watermark}", self.acknowledged));
        }
        for value in self.seen.drain(..) {
            if let Some(&transaction) = source.get(&value)
                && transaction > watermark
            {
                return Err(format!("transaction {transaction} was seen, recovered up to {watermark}"));
            }
        }
        for (transaction, writes) in history {
            if transaction <= watermark {
                if transaction != self.model.watermark + 1 {
                    return Err(format!("transaction {transaction} follows {}", self.model.watermark));
                }
                self.model.watermark = transaction;
                self.model.words.extend(writes);
            }
        }
        if watermark != self.model.watermark {
            return Err(format!("recovered up to {watermark}, which nobody committed"));
        }
        self.acknowledged = watermark;
        let contents = world.recorder.contents();
        let (from, to) = (self.pool.layout.data.offset() / 8, self.pool.layout.end().offset() / 8);
        for word in from..to {
            let expected = self.model.words.get(&(8 * word)).copied().unwrap_or(0);
            let found = contents[word as usize];
            if found != expected {
                return Err(format!("at {:#x}: {found:#x} instead of {expected:#x}", 8 * word));
            }
        }
        let sum = (0..ACCOUNTS).fold(0u64, |sum, account| {
            sum.wrapping_add(contents[(self.pool.layout.root(account).offset() / 8) as usize])
        });
        if sum != 0 { Err(format!("the accounts sum up to {sum}")) } else { Ok(()) }
    }

    fn life(&mut self) -> Result<(), String> {
        let world = self.recover()?;
        self.count.lives += 1;
        let faulty = self.rng.u8(..4) != 0;
        if faulty {
            let fault = self.fault();
            let operations = if self.rng.bool() { 60 } else { 8 };
            self.pool.device.fail_after(self.rng.u64(..operations), fault);
        }
        let threads = self.rng.usize(1..=3);
        let most = *self.rng.choice(&[1, 3, 10]).unwrap();
        let finished = Cell::new(0);
        let problem = RefCell::new(None);
        let seen = RefCell::new(Vec::new());
        let checkpoints = Cell::new(0);
        let mut bodies: Vec<Thread<'_>> = Vec::new();
        for number in 0..threads {
            let (mut rng, pool, world) = (self.rng.fork(), &self.pool, &world);
            let (concurrency, next_value) = (self.concurrency, &self.next_value);
            let (finished, problem, seen) = (&finished, &problem, &seen);
            bodies.push(Box::new(move |memory: &Hosted| {
                let mut worker = pool.worker(memory, concurrency);
                for _ in 0..rng.u32(1..=most) {
                    match transaction(&mut worker, pool, world, number, &mut rng, next_value) {
                        Ok(read) => seen.borrow_mut().extend(read),
                        Err(Error::Poisoned(_)) if faulty => break,
                        Err(error) => {
                            *problem.borrow_mut() = Some(format!("a transaction failed: {error}"));
                            break;
                        }
                    }
                }
                finished.set(finished.get() + 1);
            }));
        }
        let (mut rng, pool) = (self.rng.fork(), &self.pool);
        let (finished, problem, checkpoints) = (&finished, &problem, &checkpoints);
        bodies.push(Box::new(move |memory: &Hosted| {
            let view = pool.view(memory);
            while finished.get() < threads {
                if pool.log.checkpoint_wanted(&view) || rng.u8(..16) == 0 {
                    match pool.log.checkpoint(&view) {
                        Ok(_) => checkpoints.set(checkpoints.get() + 1),
                        Err(Error::Poisoned(_)) if faulty => break,
                        Err(error) => {
                            *problem.borrow_mut() = Some(format!("a checkpoint failed: {error}"));
                            break;
                        }
                    }
                }
                memory.pause();
            }
        }));
        let mut rng = self.rng.fork();
        let mut switches = 0;
        let hosted: Rc<dyn World> = world.clone();
        run(&hosted, bodies, |running| {
            switches += 1;
            assert!(switches < 5_000_000, "no end: threads {running:?} still run");
            rng.usize(..running.len())
        });
        if let Some(problem) = problem.borrow_mut().take() {
            return Err(problem);
        }
        self.count.checkpoints += checkpoints.get();
        self.history = world.history.take();
        self.count.transactions += self.history.len() as u64;
        self.acknowledged = self.acknowledged.max(world.acknowledged.get());
        self.seen = seen.take();
        let view = self.pool.main(&world);
        self.count.failed_lives += u64::from(self.pool.log.check_poison(&view.memory).is_err());
        self.end_process();
        Ok(())
    }
}

fn put<T: Transaction>(
    tx: &mut T,
    at: PersistentAddress,
    value: u64,
    note: impl Fn(PersistentAddress, u64),
) -> Result<(), Abort> {
    tx.write(at, value)?;
    note(at, value);
    Ok(())
}

/// One transaction of some kind; the unique values that it read and told.
fn transaction<M: Memory>(
    worker: &mut Worker<M, Blurred>,
    pool: &Pool,
    world: &TestWorld,
    thread: usize,
    rng: &mut Rng,
    next_value: &Cell<u64>,
) -> Result<Vec<u64>, Error> {
    let note = |at: PersistentAddress, value| world.running.borrow_mut()[thread].push((at.offset(), value));
    let begin = || world.running.borrow_mut()[thread].clear();
    let fresh = || {
        next_value.set(next_value.get() + 1);
        next_value.get()
    };
    let kind = rng.u8(..40);
    match kind {
        0..20 => {
            let cells: Vec<_> = (0..rng.u64(1..=6)).map(|_| rng.u64(..CELLS)).collect();
            worker.run(|tx| {
                begin();
                cells.iter().try_for_each(|&cell| put(tx, pool.cell(cell), fresh(), note))
            })?;
            Ok(Vec::new())
        }
        20..28 => {
            let (from, to) = (rng.u64(..ACCOUNTS), rng.u64(..ACCOUNTS));
            let amount = rng.u64(..100);
            worker.run(|tx| {
                begin();
                let (from, to) = (tx.root(from), tx.root(to));
                let value = tx.read(from)?;
                put(tx, from, value.wrapping_sub(amount), note)?;
                let value = tx.read(to)?;
                put(tx, to, value.wrapping_add(amount), note)
            })?;
            Ok(Vec::new())
        }
        28..34 => {
            let (one, other) = (rng.u64(..CELLS), rng.u64(..CELLS));
            worker.view(|tx| Ok(vec![tx.read(pool.cell(one))?, tx.read(pool.cell(other))?]))
        }
        34..38 => {
            // Reads beside what it has written, tells, and gives up.
            let line = rng.u64(..CELLS) / 3 * 3;
            let mut read = 0;
            let aborted = worker.run(|tx| {
                begin();
                tx.write(pool.cell(line), fresh())?;
                read = tx.read(pool.cell(line + 1))?;
                Err::<(), _>(Abort::User)
            });
            match aborted {
                Err(Error::Aborted) => Ok(vec![read]),
                Err(error) => Err(error),
                Ok(()) => unreachable!(),
            }
        }
        _ => {
            // Larger than a block.
            let (first, writes) = (rng.u64(..CELLS), rng.u64(200..500));
            worker.run(|tx| {
                begin();
                (0..writes).try_for_each(|i| put(tx, pool.cell(first + i % 7), fresh(), note))
            })?;
            Ok(Vec::new())
        }
    }
}

/// Lives one pool's lives; what the oracle objects to.
fn trial(seed: u64, lives: u32, omitted: Option<Step>, total: &mut Count) -> Result<(), String> {
    let mut trial = Trial::new(seed, omitted);
    // A mutant may also come to no end, or read what makes no sense.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        (0..lives).try_for_each(|_| trial.life()).and_then(|()| trial.recover().map(|_| ()))
    }))
    .unwrap_or_else(|_| Err("a panic, see above".into()));
    total.lives += trial.count.lives;
    total.failed_lives += trial.count.failed_lives;
    total.failed_recoveries += trial.count.failed_recoveries;
    total.transactions += trial.count.transactions;
    total.checkpoints += trial.count.checkpoints;
    outcome.map_err(|why| format!("seed {seed}: {why}"))
}

/// `STRANDLINE_TRIALS` pools instead of some hundred, from seed `STRANDLINE_SEED` on.
fn parameter(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn recovery_finds_a_prefix_with_all_that_was_acknowledged() {
    let mut total = Count::default();
    let first = parameter("STRANDLINE_SEED", 0);
    for seed in first..first + parameter("STRANDLINE_TRIALS", 400) {
        if let Err(why) = trial(seed, 12, None, &mut total) {
            panic!("{why}");
        }
    }
    println!("{total:?}");
    assert!(total.failed_lives * 5 > total.lives && total.failed_recoveries * 10 > total.lives, "{total:?}");
}

#[test]
fn every_omitted_step_is_found() {
    for step in Step::SYNC {
        let mut total = Count::default();
        let found = (0..parameter("STRANDLINE_MUTANT_TRIALS", 3000))
            .find_map(|seed| Some((seed, trial(seed, 12, Some(step), &mut total).err()?)));
        match found {
            Some((seed, why)) => {
                println!("{step:?}: {why} ({} lives)", total.lives);
                // It is the step, not the seed.
                trial(seed, 12, None, &mut total).unwrap();
            }
            None => panic!("the mutant without {step:?} survived {total:?}"),
        }
    }
}

fn small_pool(ring_blocks: u64) -> Pool {
    Pool::create(1, false, SyncParameters { ring_blocks, dirty_pages: 100 }, None)
}

/// A recovered pool and its world.
fn opened(pool: &Pool) -> Rc<TestWorld> {
    let world = pool.open(1);
    pool.log.recover(&pool.main(&world)).unwrap();
    world
}

#[test]
fn a_failed_flush_poisons_everything_from_then_on() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let pool = small_pool(16);
        let world = opened(&pool);
        let at = pool.cell(0);
        let mut worker = pool.worker(Hosted::new(world.clone(), 0), concurrency);
        let mut other = pool.worker(Hosted::new(world.clone(), 1), concurrency);
        worker.run(|tx| tx.write(at, 1)).unwrap();
        pool.device.fail_after(0, Fault::Error(ENOSPC));
        let error = worker.run(|tx| tx.write(at, 2)).unwrap_err();
        assert!(
            matches!(&error, Error::Poisoned(why) if why.starts_with("writing the log: No space")),
            "{error}"
        );
        assert!(matches!(other.run(|tx| tx.write(at, 3)), Err(Error::Poisoned(_))));
        assert!(matches!(other.view(|tx| tx.read(at)), Err(Error::Poisoned(_))));
        let view = pool.main(&world);
        assert!(pool.log.checkpoint_wanted(&view), "who waits for requests is woken");
        assert!(matches!(pool.log.checkpoint(&view), Err(Error::Poisoned(_))));
        drop((worker, other));
        pool.device.power_cycle();
        let again = opened(&pool);
        let value = again.recorder.contents()[(at.offset() / 8) as usize];
        assert!(value == 1 || value == 2, "{value}");
    }
}

#[test]
fn a_transaction_larger_than_the_ring_changes_nothing() {
    let pool = small_pool(2);
    let world = opened(&pool);
    let mut worker = pool.worker(Hosted::new(world.clone(), 0), Concurrency::Stm);
    let at = pool.cell(0);
    worker.run(|tx| tx.write(at, 1)).unwrap();
    pool.log.checkpoint(&pool.main(&world)).unwrap();
    // 254 records and the commit record fill the one block that a ring of two gives to a transaction.
    let error = worker.run(|tx| (0..255).try_for_each(|i| tx.write(at, 100 + i))).unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { records: 254 }), "{error}");
    assert_eq!(worker.view(|tx| tx.read(at)).unwrap(), 1);
    worker.run(|tx| (0..254).try_for_each(|i| tx.write(at, 100 + i))).unwrap();
    drop(worker);
    pool.device.power_cycle();
    let again = opened(&pool);
    assert_eq!(again.recorder.contents()[(at.offset() / 8) as usize], 353);
}

#[test]
fn the_ring_goes_round_and_round() {
    let pool = small_pool(4);
    let world = opened(&pool);
    let at = pool.cell(0);
    let mut worker = pool.worker(Hosted::new(world.clone(), 0), Concurrency::SingleWriter);
    let view = pool.main(&world);
    for value in 0..1000 {
        worker.run(|tx| tx.write(at, value)).unwrap();
        if pool.log.checkpoint_wanted(&view) {
            let report = pool.log.checkpoint(&view).unwrap();
            assert_eq!((report.watermark, report.pages), (value + 1, 1));
        }
    }
    assert_eq!(pool.log.checkpoint(&view).unwrap(), pool.log.checkpoint(&view).unwrap(), "nothing to do");
    drop(worker);
    pool.device.power_cycle();
    let world = pool.open(1);
    let report = pool.log.recover(&pool.main(&world)).unwrap();
    assert_eq!(report.watermark, 1000);
    assert_eq!(world.recorder.contents()[(at.offset() / 8) as usize], 999);
}

#[test]
fn damaged_slots_and_read_errors_are_errors() {
    let pool = small_pool(4);
    drop(opened(&pool));
    // Slots, then log: a read that fails is not the end of the log.
    for operation in 0..3 {
        let world = pool.open(1);
        pool.device.fail_after(operation, Fault::Error(EIO));
        let failed = pool.log.recover(&pool.main(&world));
        assert!(matches!(failed, Err(Error::Io { .. })), "operation {operation}: {failed:?}");
    }
    for slot in 0..2 {
        let at = Layout::CHECKPOINT_SLOTS.offset() + 4096 * slot + 16;
        pool.device.write(DeviceFile::Heap, at, &[0xa5; 8]).unwrap();
        let world = pool.open(1);
        let recovered = pool.log.recover_read_only(&pool.main(&world));
        match slot {
            0 => assert!(recovered.is_ok(), "the other slot serves: {recovered:?}"),
            _ => assert!(matches!(recovered, Err(Error::Damaged(_))), "{recovered:?}"),
        }
    }
}

#[test]
fn a_log_file_is_the_pools_own_and_whole() {
    let pool = small_pool(4);
    let path = std::path::Path::new("pool.log");
    assert_eq!(read_log_header(&*pool.device, path, &UUID).unwrap(), 4);
    let problem = |device: &dyn Device, uuid| match read_log_header(device, path, uuid) {
        Err(Error::LogFile { path, problem }) => {
            assert_eq!(path, "pool.log");
            problem
        }
        other => panic!("{other:?}"),
    };
    assert!(problem(&*pool.device, &[1; 16]).contains("another pool"));
    let other = FaultyDevice::new(1, false);
    assert!(problem(&other, &UUID).contains("too few"));
    other.grow(DeviceFile::Log, 8192).unwrap();
    assert!(problem(&other, &UUID).contains("not a Strandline log"));
    let header = &pool.device.contents(DeviceFile::Log)[..4096];
    other.write(DeviceFile::Log, 0, header).unwrap();
    assert!(problem(&other, &UUID).contains("truncated"));
    assert!(create(&other, &UUID, SyncParameters { ring_blocks: 1, dirty_pages: 1 }, 0).is_err());
}
