//! A pool's history: a sequence of lives. Each ends by a power failure, an error of the device, a kill, or normally. Recoveries follow, which may
//! fail in the same ways.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fastrand::Rng;
use std::path::Path;

use strandline_core::Error;
use strandline_core::heap;
use strandline_core::layout::{Layout, PAGE_BYTES};
use strandline_core::memory::coroutines::{Thread, run};
use strandline_core::memory::{DeviceFile, Hosted, Memory, PersistentAddress, World};
use strandline_core::sync::{BLOCK_BYTES, BlockHead, SyncParameters, log_blocks, read_log_header};
use strandline_core::{Runner, Transaction};
use strandline_structures::model::Structure;

use super::faulty_device::{EIO, ENOSPC, Fault};
use super::journal::Journal;
use super::oracle::Oracle;
use super::transactions::{self, ACCOUNTS, CELL_BYTES, FIRST_VALUE, MIX_CHUNKS};
use super::world::{DeviceWorld, Pool, THREADS};
use super::{Case, Counts, Size};
use crate::explore::Workload;

/// The structures that pools are drawn from. The typed collections are not among them: their pools are large, so that a fault shows late; they run
/// only on request.
const MIXED: [Workload; 7] = [
    Workload::Sps,
    Workload::Hash,
    Workload::RbTree,
    Workload::BPlusTree,
    Workload::KvStore,
    Workload::Allocator,
    Workload::Extents,
];

/// The number of switches of threads that a history may have before it counts as endless.
const PATIENCE: u32 = 2_000_000;

/// A pool, and its expected contents.
pub(super) struct History {
    pool: Pool,
    rng: Rng,
    /// The workload; `None` means the mix.
    workload: Option<Workload>,
    size: Size,
    oracle: Oracle,
    next_value: Rc<Cell<u64>>,
    journal: Journal,
    pub counts: Counts,
}

/// Draws small sizes, so that rings fill up and checkpoints are frequent.
fn draw_parameters(rng: &mut Rng) -> SyncParameters {
    let one_of = |rng: &mut Rng, choices: [u64; 3]| choices[rng.usize(..3)];
    let ring_blocks = one_of(rng, [6, 8, 16]);
    let initial_ring_blocks = match rng.u8(..3) {
        // The mix needs at least this many for some transactions.
        0 => 3,
        1 => ring_blocks / 2,
        _ => ring_blocks,
    };
    let dirty_pages = one_of(rng, [1, 2, 100]);
    SyncParameters {
        ring_blocks,
        initial_ring_blocks,
        dirty_pages,
        most_dirty_pages: Some(2 * dirty_pages),
        memory_pages: Some(one_of(rng, [0, 2, 100])),
        // A small one fills up.
        staging_blocks: 1,
        cut_damaged_log: false,
        checksums: rng.bool(),
    }
}

impl History {
    /// Creates a pool with the workload's structure.
    ///
    /// # Errors
    /// Returns an error if the structure does not fit.
    pub fn new(case: &Case, seed: u64, size: Size, journal: Journal) -> Result<Self, String> {
        let mut rng = Rng::with_seed(seed);
        let parameters = draw_parameters(&mut rng);
        let direct = rng.bool();
        let workload = match case.workload {
            None if rng.bool() => None,
            None => Some(MIXED[rng.usize(..MIXED.len())]),
            chosen => chosen,
        };
        let chunks = workload.map_or(0, |workload| workload.chunks(THREADS as u64)).max(MIX_CHUNKS);
        let chunk_bytes = workload.map_or(4096, Workload::chunk_bytes);
        journal.note(|| {
            format!(
                "a pool: {}, ring of {} to {} blocks, checkpoint at {} dirty pages, {}{}",
                workload.map_or("mix", Workload::name),
                parameters.initial_ring_blocks,
                parameters.ring_blocks,
                parameters.dirty_pages,
                if direct { "direct input and output" } else { "through the page cache" },
                if parameters.checksums { ", checksums" } else { "" }
            )
        });
        let pool_seed = rng.u64(..);
        let pool = Pool::create(
            pool_seed,
            direct,
            (chunks, chunk_bytes),
            parameters,
            case.concurrency,
            case.omitted,
            journal.clone(),
        )
        .map_err(|error| format!("no pool: {error:#}"))?;
        let oracle = Oracle::new(pool.layout);
        let next_value = Rc::new(Cell::new(FIRST_VALUE));
        let mut history =
            Self { pool, rng, workload, size, oracle, next_value, journal, counts: Counts::default() };
        history.create()?;
        Ok(history)
    }

    fn create(&mut self) -> Result<(), String> {
        let workload = self.workload;
        let world = self.recover()?;
        let make = |memory: &Hosted| {
            let mut worker = self.pool.worker(memory)?;
            match workload {
                Some(workload) => workload.create(&mut worker),
                None => worker.run(|tx| tx.alloc(CELL_BYTES)).map(drop),
            }
        };
        self.beside_checkpoints(&world, make)
            .map_err(|error| format!("the structure is not made: {error:#}"))?;
        self.oracle.lived(&world, Vec::new());
        Ok(())
    }

    /// Runs `body` in a thread beside one that takes checkpoints, without faults.
    fn beside_checkpoints(
        &self,
        world: &Rc<DeviceWorld>,
        body: impl Fn(&Hosted) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (finished, outcome) = (Cell::new(false), RefCell::new(Ok(())));
        let (pool, journal, seed) = (&self.pool, &self.journal, self.oracle.watermark());
        let mut rng = Rng::with_seed(seed);
        let bodies: Vec<Thread<'_>> = vec![
            Box::new(|memory: &Hosted| {
                *outcome.borrow_mut() = body(memory);
                finished.set(true);
                pool.log.request_checkpoint(memory);
            }),
            Box::new(|memory: &Hosted| {
                let _ = checkpoint(pool, memory, journal, &mut rng, || finished.get());
            }),
        ];
        interleave(world, bodies, Rng::with_seed(!seed));
        outcome.into_inner()
    }

    fn fault(&mut self) -> Fault {
        [Fault::PowerOff, Fault::Kill, Fault::Error(EIO), Fault::Error(ENOSPC)][self.rng.usize(..4)]
    }

    /// Makes the device fail at one of the next operations, or when a file grows.
    fn fail_later(&mut self, large: bool) {
        let fault = self.fault();
        let operations = if self.rng.bool() && !large { 60 } else { 8 };
        if self.rng.u8(..3) == 0 {
            self.pool.device.fail_growth(fault);
        } else {
            self.pool.device.fail_after(self.rng.u64(..operations), fault);
        }
    }

    /// Ends the process, and perhaps the power.
    fn end_process(&mut self) {
        if self.pool.device.is_off() || self.rng.bool() {
            self.counts.power_failures += 1;
            self.pool.device.power_cycle();
        } else {
            self.counts.kills += 1;
            self.journal.note(|| "the process ends; the page cache stays".into());
            self.pool.device.clear_fault();
        }
    }

    /// Recovers, repeatedly if recovery fails, and judges the result.
    ///
    /// # Errors
    /// Returns what is wrong with the recovered pool.
    pub fn recover(&mut self) -> Result<Rc<DeviceWorld>, String> {
        let mut attempt = 0;
        self.pool.verify()?;
        if self.rng.bool() {
            self.rot()?;
        }
        loop {
            let faulty = attempt < 4 && self.rng.u8(..3) == 0;
            attempt += 1;
            if faulty {
                let fault = self.fault();
                self.pool.device.fail_after(self.rng.u64(..12), fault);
            }
            let world = self.pool.open(self.rng.u64(..));
            match self.pool.recover(&world) {
                Ok(report) => {
                    self.pool.device.clear_fault();
                    self.journal.note(|| format!("recovered: {report:?}"));
                    self.counts.states += 1;
                    self.oracle.judge(&world, report.watermark)?;
                    self.pool.verify()?;
                    self.check(&world)?;
                    if self.rng.u8(..4) == 0 {
                        self.read_only()?;
                    }
                    return Ok(world);
                }
                Err(Error::Io { .. }) if faulty => {
                    self.counts.failed_recoveries += 1;
                    self.journal.note(|| "recovery fails".into());
                    self.end_process();
                }
                Err(error) => return Err(format!("recovery fails: {error:#}")),
            }
        }
    }

    /// Damages a block of the log or a checkpoint slot on a copy of the device. Recovery must report the damage, recover the same state, or lose no
    /// more than the last write of the log.
    ///
    /// # Errors
    /// Returns an error if recovery silently lost more than that, or if its state is not a prefix.
    fn rot(&mut self) -> Result<(), String> {
        let copy = || {
            let pool = self.pool.on((*self.pool.device).clone());
            pool.device.clear_fault();
            pool
        };
        let (intact, rotten) = (copy(), copy());
        let world = intact.open(1);
        // The caller reports failures without damage.
        let Ok(report) = intact.recover(&world) else { return Ok(()) };
        let what = |error| format!("the log cannot be read: {error:#}");
        let header =
            read_log_header(&*rotten.device, Path::new("log")).map_err(|e| what(format!("{e:#}")))?;
        let blocks = log_blocks(&*rotten.device, &header).map_err(|error| what(format!("{error:#}")))?;
        let accepted = report.start..report.start + report.blocks;
        // The block at which the last write of the log began.
        let last = blocks.iter().filter(|head| accepted.contains(&head.number));
        let last = last.max_by_key(|head| head.number).map_or(accepted.end, |head| head.durable);
        let number = self.rot_one_of(&rotten, &blocks, header.ring);
        self.journal.note(|| {
            let what = number.map_or_else(|| "a slot".into(), |number| format!("block {number}"));
            format!("on a copy {what} rots; the last write began at {last}")
        });
        let rotten_world = rotten.open(1);
        let found = match rotten.recover(&rotten_world) {
            Ok(found) => found,
            Err(Error::Damaged { .. }) => {
                self.counts.damage_found += 1;
                return Ok(());
            }
            Err(error) => return Err(format!("recovery after rot fails: {error:#}")),
        };
        if self.holds_the_same(&world, &rotten_world) {
            return Ok(());
        }
        if number.is_none_or(|number| number < last) {
            return Err(format!(
                "rot of {number:?} is not found: recovered up to {}, not {}",
                found.watermark, report.watermark
            ));
        }
        let mut oracle = self.oracle.clone();
        oracle.forgive();
        oracle.judge(&rotten_world, found.watermark).map_err(|what| format!("after rot {what}"))
    }

    /// Damages one of `blocks` of the log, or a checkpoint slot. Returns the number of the block.
    fn rot_one_of(&mut self, rotten: &Pool, blocks: &[BlockHead], ring: u64) -> Option<u64> {
        let choice = self.rng.usize(..blocks.len() + 2);
        let number = blocks.get(choice).map(|head| head.number);
        match number {
            Some(number) => {
                let place = BLOCK_BYTES * (1 + number % ring);
                rotten.device.rot(DeviceFile::Log, place + self.rng.u64(..16));
            }
            None => {
                let slot = Layout::CHECKPOINT_SLOTS.offset() + (choice - blocks.len()) as u64 * PAGE_BYTES;
                rotten.device.rot(DeviceFile::Heap, slot + self.rng.u64(..64));
            }
        }
        number
    }

    /// Compares the words of two worlds outside free chunks.
    fn holds_the_same(&self, one: &DeviceWorld, other: &DeviceWorld) -> bool {
        let (layout, one, other) = (&self.pool.layout, one.words(), other.words());
        let word = |at: PersistentAddress| (at.offset() / 8) as usize;
        let same = |from, to| one[word(from)..word(to)] == other[word(from)..word(to)];
        let pages = (layout.chunks.offset()..layout.end().offset()).step_by(PAGE_BYTES as usize);
        let is_used = |&page: &u64| heap::is_used(layout, PersistentAddress::new(page), |at| one[word(at)]);
        let mut used = pages.filter(is_used).map(PersistentAddress::new);
        same(layout.data, layout.chunks) && used.all(|page| same(page, page.byte(PAGE_BYTES)))
    }

    /// Runs the workload's own check.
    fn check(&self, world: &Rc<DeviceWorld>) -> Result<(), String> {
        match self.workload {
            // There is nothing to check before the structure exists.
            Some(workload) if self.oracle.watermark() > 0 => {
                let memory = Hosted::new(world.clone(), 0);
                let worker = self.pool.worker(&memory);
                let checked = worker.and_then(|mut worker| workload.check(&mut worker));
                checked.map(|_| ()).map_err(|error| format!("the structure's check: {error:#}"))
            }
            Some(_) => Ok(()),
            None => {
                let memory = Hosted::new(world.clone(), 0);
                let worker = self.pool.worker(&memory);
                let accounts = self.pool.layout.root(0);
                let checked = worker.and_then(|mut worker| worker.view(|tx| ACCOUNTS.contents(tx, accounts)));
                checked.map(drop).map_err(|error| format!("the accounts: {error:#}"))
            }
        }
    }

    /// Checks that another process, which only reads, sees the same.
    fn read_only(&mut self) -> Result<(), String> {
        let reader = self.pool.open(1);
        let recovered = self.pool.recover_read_only(&reader);
        let report = recovered.map_err(|error| format!("a reader's recovery fails: {error:#}"))?;
        self.counts.states += 1;
        self.oracle.judge(&reader, report.watermark).map_err(|what| format!("a reader: {what}"))
    }

    /// Recovers, and then runs threads with transactions and one that takes checkpoints, until the process ends.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub fn live(&mut self) -> Result<(), String> {
        let world = self.recover()?;
        self.beside_checkpoints(&world, |memory| self.pool.worker(memory)?.release_held())
            .map_err(|error| format!("held chunks are not released: {error:#}"))?;
        self.counts.lives += 1;
        let faulty = self.rng.u8(..4) != 0;
        // Large transactions write groups of several blocks. After a power failure early in a life, later blocks of a group may be there without
        // earlier ones.
        let large = self.rng.u8(..4) == 0;
        if faulty {
            self.fail_later(large);
        }
        let extensions = self.pool.device.extensions();
        let threads = self.rng.usize(1..=THREADS);
        let most = [1, 3, 10][self.rng.usize(..3)].min(self.size.transactions);
        self.journal.note(|| format!("a life of {threads} threads"));
        let life = &Life {
            pool: &self.pool,
            workload: self.workload,
            next_value: &self.next_value,
            faulty,
            large,
            finished: Cell::new(0),
            problem: RefCell::new(None),
            seen: RefCell::new(Vec::new()),
            checkpoints: Cell::new((0, 0)),
        };
        let mut bodies: Vec<Thread<'_>> = Vec::new();
        for _ in 0..threads {
            let mut rng = self.rng.fork();
            bodies.push(Box::new(move |memory: &Hosted| life.transact(memory, most, &mut rng)));
        }
        let (mut rng, journal) = (self.rng.fork(), &self.journal);
        let (compacts, looks) = (self.rng.u8(..3) == 0, self.rng.u8(..3) == 0);
        // The compactor and the snapshot reader may wait for a checkpoint, too.
        let working = threads + usize::from(compacts) + usize::from(looks);
        // The checkpointing thread has the number after the others.
        bodies.push(Box::new(move |memory: &Hosted| {
            life.take_checkpoints(memory, journal, &mut rng, working);
        }));
        if compacts {
            world.set_compactor(bodies.len());
            let mut rng = self.rng.fork();
            bodies.push(Box::new(move |memory: &Hosted| life.compact(memory, threads, &mut rng)));
        }
        if looks {
            let mut rng = self.rng.fork();
            bodies.push(Box::new(move |memory: &Hosted| life.look(memory, threads, &mut rng)));
        }
        interleave(&world, bodies, self.rng.fork());
        if let Some(problem) = life.problem.take() {
            return Err(problem);
        }
        let (checkpoints, enlarged) = life.checkpoints.get();
        self.counts.checkpoints += checkpoints;
        self.counts.enlarged += enlarged;
        self.counts.grown += self.pool.device.extensions() - extensions;
        self.counts.failed_growths = self.pool.device.failed_growths();
        self.counts.transactions += self.oracle.lived(&world, life.seen.take());
        self.end_process();
        Ok(())
    }
}

/// State that the threads of a life share.
struct Life<'a> {
    pool: &'a Pool,
    workload: Option<Workload>,
    next_value: &'a Cell<u64>,
    /// True if the device may fail.
    faulty: bool,
    /// True if transactions are often longer than a block.
    large: bool,
    /// The number of threads that have ended, without the one that takes checkpoints.
    finished: Cell<usize>,
    problem: RefCell<Option<String>>,
    /// Unique values that transactions have read and reported.
    seen: RefCell<Vec<u64>>,
    /// The number of checkpoints taken, and of those that enlarged the ring.
    checkpoints: Cell<(u64, u64)>,
}

impl Life<'_> {
    fn finish(&self, memory: &Hosted) {
        self.finished.set(self.finished.get() + 1);
        // The checkpointing thread may be asleep.
        self.pool.log.request_checkpoint(memory);
    }

    fn fail(&self, what: &str, error: &Error) {
        *self.problem.borrow_mut() = Some(format!("{what} fails: {error:#}"));
    }

    /// Runs at most `most` transactions.
    fn transact(&self, memory: &Hosted, most: u32, rng: &mut Rng) {
        match self.pool.worker(memory) {
            Ok(mut worker) => {
                for _ in 0..rng.u32(1..=most) {
                    let done = match self.workload {
                        Some(workload) => {
                            transactions::operate(&mut worker, workload, self.large, rng, self.next_value)
                        }
                        None => {
                            let layout = &self.pool.layout;
                            transactions::mix(&mut worker, layout, self.large, rng, self.next_value)
                                .map(|read| self.seen.borrow_mut().extend(read))
                        }
                    };
                    match done {
                        Ok(()) => {}
                        Err(Error::Poisoned { .. }) if self.faulty => break,
                        // The heap or the ring could not grow, and is unchanged.
                        Err(Error::Io { .. } | Error::TransactionTooLarge { .. }) if self.faulty => {}
                        Err(error) => {
                            self.fail("a transaction", &error);
                            break;
                        }
                    }
                }
            }
            Err(error) => self.fail("a lease", &error),
        }
        self.finish(memory);
    }

    /// Takes checkpoints until `working` other threads have ended.
    fn take_checkpoints(&self, memory: &Hosted, journal: &Journal, rng: &mut Rng, working: usize) {
        match checkpoint(self.pool, memory, journal, rng, || self.finished.get() == working) {
            Ok(taken) => self.checkpoints.set(taken),
            Err(Error::Poisoned { .. }) if self.faulty => {}
            Err(error) => self.fail("a checkpoint", &error),
        }
    }

    /// Compacts the pool until `threads` threads have ended.
    fn compact(&self, memory: &Hosted, threads: usize, rng: &mut Rng) {
        match compact(self.pool, memory, rng, || self.finished.get() >= threads) {
            Ok(()) => {}
            Err(Error::Poisoned { .. } | Error::Io { .. }) if self.faulty => {}
            Err(error) => self.fail("a compaction", &error),
        }
        self.finish(memory);
    }

    /// Reads snapshots until `threads` threads have ended.
    fn look(&self, memory: &Hosted, threads: usize, rng: &mut Rng) {
        while self.finished.get() < threads {
            match self.pool.look_at_snapshot(memory, rng) {
                Ok(()) => memory.pause(),
                Err(Error::Poisoned { .. }) if self.faulty => break,
                Err(error) => {
                    self.fail("a snapshot", &error);
                    break;
                }
            }
        }
        self.finish(memory);
    }
}

/// Runs threads, interleaved at random.
fn interleave(world: &Rc<DeviceWorld>, bodies: Vec<Thread<'_>>, mut rng: Rng) {
    world.forget_sleepers();
    let mut switches = 0;
    let hosted: Rc<dyn World> = world.clone();
    run(&hosted, bodies, |running| {
        switches += 1;
        assert!(switches < PATIENCE, "the program runs for ever");
        rng.usize(..running.len())
    });
}

/// Compacts from time to time, until `finished`.
fn compact(pool: &Pool, memory: &Hosted, rng: &mut Rng, finished: impl Fn() -> bool) -> Result<(), Error> {
    let mut worker = pool.worker(memory)?;
    while !finished() {
        if rng.u8(..32) == 0 {
            worker.compact()?;
        }
        memory.pause();
    }
    Ok(())
}

/// Takes checkpoints and enlarges the ring until `finished`: either only on request, as a pool's thread does, or when useful and at random. Returns
/// how often it did each.
fn checkpoint(
    pool: &Pool,
    memory: &Hosted,
    journal: &Journal,
    rng: &mut Rng,
    finished: impl Fn() -> bool,
) -> Result<(u64, u64), Error> {
    let view = pool.view(memory);
    let (mut taken, mut enlarged) = (0, 0);
    let waits = rng.bool();
    while !finished() {
        let is_due = if waits {
            pool.log.wait_for_request(&view)
        } else {
            pool.log.checkpoint_wanted(&view) || rng.u8(..16) == 0
        };
        if is_due {
            let report = pool.log.checkpoint(&view)?;
            journal.note(|| format!("checkpoint: {report:?}"));
            taken += 1;
            // Waits sometimes, so that others append meanwhile.
            (0..rng.u8(..3)).for_each(|_| memory.pause());
            if let Some(blocks) = pool.log.larger_ring(&view, rng.u8(..4) == 0)
                && pool.log.enlarge_ring(&view, blocks)?
            {
                journal.note(|| format!("the ring has {blocks} blocks"));
                enlarged += 1;
            }
        }
        memory.pause();
    }
    Ok((taken, enlarged))
}
