//! Large transactions on persistent memory, beside small ones, with power failures at any moment and during recovery. The tests leave out each step
//! of the journal, and find the omission.

use std::rc::Rc;

use fastrand::Rng;
use strandline_check::Setting;
use strandline_check::x86::{CrashMemory, Policy, Trace, X86World};
use strandline_core::engine::{Control, SingleWriter, Stm};
use strandline_core::heap;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, Step};
use strandline_core::scheme::{Product, SchemeMemory, Schemes, recover};
use strandline_core::{Abort, Error, Read, Runner, Transaction};

use super::histories::{closed, lease};

const GEOMETRY: Geometry = Geometry { size: 32 << 12, logs: 3, log_bytes: 4096, chunk_bytes: 4096 };
/// The number of words that a large transaction writes: more than fit a log of 256 records.
const MANY: u64 = 257;
/// Words to which each transaction writes one common value, in nine granules of three pages.
const CELLS: u64 = 18;
const CELL_BYTES: u64 = 3 * 4096;
/// The number of words of the block that large transactions replace.
const BLOCK_WORDS: u64 = 40;

/// Returns the address of a cell. The first root refers to the cells and, after them in each page, the filling. The second root refers to the block,
/// and the third holds the value of the block and the filling.
fn cell(cells: u64, number: u64) -> PersistentAddress {
    PersistentAddress::new(cells + number % 3 * 4096 + number / 3 * 520)
}

fn filling(cells: u64, number: u64) -> PersistentAddress {
    PersistentAddress::new(cells + number % 3 * 4096 + 3072 + number / 3 * 8)
}

fn layouts() -> (Layout, SharedLayout) {
    let layout = Layout::new(GEOMETRY).unwrap();
    (layout, SharedLayout::new(&layout, 4, 0))
}

/// Returns a pool with cells and without a block.
fn image() -> Vec<u64> {
    let (layout, shared) = layouts();
    let recorder = Rc::new(Recorder::new(vec![0; (GEOMETRY.size / 8) as usize], shared.bytes(), 0, 1, None));
    let memory = Hosted::new(recorder.clone(), 0);
    let mut worker = lease(View { memory: &memory, layout, shared }, Stm);
    worker
        .run(|tx| {
            let cells = tx.alloc(CELL_BYTES)?;
            tx.write(tx.root(0), cells.offset())
        })
        .unwrap();
    drop(worker);
    closed(recorder.contents(), &layout, 1)
}

fn write_cells(tx: &mut impl Transaction, value: u64) -> Result<(), Abort> {
    let cells = tx.read(tx.root(0))?;
    (0..CELLS).try_for_each(|number| tx.write(cell(cells, number), value))
}

/// Writes more than fits a log, and replaces the block.
fn large(tx: &mut impl Transaction, value: u64) -> Result<(), Abort> {
    write_cells(tx, value)?;
    let (old, block) = (tx.read(tx.root(1))?, tx.alloc(8 * BLOCK_WORDS)?);
    for word in 0..BLOCK_WORDS {
        tx.write(block.word(word), value)?;
    }
    if old != 0 {
        tx.free(PersistentAddress::new(old))?;
    }
    tx.write(tx.root(1), block.offset())?;
    tx.write(tx.root(2), value)?;
    let cells = tx.read(tx.root(0))?;
    (0..MANY).try_for_each(|number| tx.write(filling(cells, number), value))
}

/// Runs the threads. Returns the trace.
fn live<C>(control: C, omitted: Option<Step>, seed: u64) -> Trace
where
    C: Control<Scheme = Product>,
{
    let mut random = Rng::with_seed(seed);
    let (layout, shared) = layouts();
    let data = (layout.data.offset() / 8) as usize..(layout.end().offset() / 8) as usize;
    let world = Rc::new(X86World::new(image(), shared.bytes(), data, 2, Setting::Line, omitted));
    let mut bodies: Vec<Thread<'_>> = Vec::new();
    for thread in 0..2 {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            let view = View { memory, layout, shared };
            if thread == 0 {
                recover(&view, Schemes::default(), |_| ()).unwrap();
            } else {
                while memory.load(SharedLayout::CLOCK) == 0 {
                    memory.pause();
                }
            }
            let mut worker = lease(view, control);
            for number in 1..=2 {
                let value = thread << 32 | number;
                let kind = if thread == 0 { 1 } else { random.u8(..3) };
                let done = worker.run(|tx| match kind {
                    0 => write_cells(tx, value),
                    1 => large(tx, value),
                    _ => large(tx, value).and(Err(Abort::User)),
                });
                assert!(matches!(done, Ok(()) | Err(Error::Aborted)), "{done:?}");
            }
        }));
    }
    if random.bool() {
        world.delay_stores(random.u64(..));
    }
    let policy = match random.bool() {
        true => Policy::Random { every: random.u32(5..40) },
        false => Policy::Priorities { every: 40, critical: 10, stalls: false },
    };
    world.run(bodies, policy, random.u64(..));
    world.finish()
}

/// Checks that `memory` recovers to the state after some transaction that is not older than any acknowledged at `time`.
fn judge<M: SchemeMemory>(memory: M, trace: &Trace, time: u32) -> Result<(), String> {
    let (layout, shared) = layouts();
    let view = View { memory, layout, shared };
    recover(&view, Schemes::default(), |_| ()).map_err(|error| format!("recovery: {error}"))?;
    let memory = &view.memory;
    let cells = memory.load(layout.root(0));
    let value = memory.load(cell(cells, 0));
    if let Some(torn) = (1..CELLS).find(|&number| memory.load(cell(cells, number)) != value) {
        return Err(format!("cell {torn} is {:#x} beside {value:#x}", memory.load(cell(cells, torn))));
    }
    let first = (cell(cells, 0).offset() / 8) as u32;
    let wrote = |update: &&strandline_check::x86::Update| {
        update.writes.iter().any(|&(word, v)| word == first && v == value)
    };
    let last = trace.updates.iter().filter(wrote).map(|update| update.id).max().unwrap_or(0);
    let acknowledged = trace.updates.iter().filter(|update| update.acknowledged <= time);
    let least = acknowledged.map(|update| update.id).max().unwrap_or(0);
    if last < least {
        return Err(format!("{least} was acknowledged, what is there is of {last}"));
    }
    let [block, content] = [1, 2].map(|root| memory.load(layout.root(root)));
    if block != 0 {
        let words = (0..BLOCK_WORDS).map(|word| memory.load(PersistentAddress::new(block).word(word)));
        if let Some(other) = words.into_iter().find(|&word| word != content) {
            return Err(format!("the block has {other:#x} beside {content:#x}"));
        }
    }
    let words = (0..MANY).map(|number| memory.load(filling(cells, number)));
    if let Some(other) = words.into_iter().find(|&word| word != content) {
        return Err(format!("the filling has {other:#x} beside {content:#x}"));
    }
    let usage = heap::usage(&view).map_err(|error| error.to_string())?;
    if usage.objects != 1 + u64::from(block != 0) {
        return Err(format!("{} objects, block at {block:#x}", usage.objects));
    }
    Ok(())
}

/// Returns what is wrong after one of some power failures in a history and in the recovery from one.
fn crash<C>(control: C, omitted: Option<Step>, seed: u64) -> Result<u64, String>
where
    C: Control<Scheme = Product>,
{
    let mut random = Rng::with_seed(!seed);
    let trace = live(control, omitted, seed);
    let (layout, shared) = layouts();
    let words = (GEOMETRY.size / 8) as usize;
    let memory = Rc::new(CrashMemory::new(words, shared.bytes(), 0..0));
    let mut judged = 0;
    let mut fresh = true;
    for &time in &trace.points {
        memory.crash(&trace, time, Setting::Line, omitted, fresh);
        fresh = false;
        for _ in 0..3 {
            memory.random(&mut random);
            judged += 1;
            judge(Hosted::new(memory.clone(), 0), &trace, time)?;
        }
        if random.u8(..8) != 0 {
            continue;
        }
        // Power fails again during recovery.
        memory.random(&mut random);
        let data = (layout.data.offset() / 8) as usize..(layout.end().offset() / 8) as usize;
        let world =
            Rc::new(X86World::new(memory.all_words(), shared.bytes(), data, 1, Setting::Line, omitted));
        let body: Thread<'_> = Box::new(|memory: &Hosted| {
            recover(&View { memory, layout, shared }, Schemes::default(), |_| ()).unwrap();
        });
        world.run(vec![body], Policy::Random { every: 5 }, 1);
        let recovery = world.finish();
        let again = Rc::new(CrashMemory::new(words, shared.bytes(), 0..0));
        for (number, &moment) in recovery.points.iter().enumerate() {
            again.crash(&recovery, moment, Setting::Line, omitted, number == 0);
            for _ in 0..2 {
                again.random(&mut random);
                judged += 1;
                judge(Hosted::new(again.clone(), 0), &trace, time)
                    .map_err(|what| format!("a failure in recovery: {what}"))?;
            }
        }
    }
    Ok(judged)
}

#[test]
fn large_transactions_survive_or_never_were() {
    for seed in 0..25 {
        crash(Stm, None, seed).unwrap();
        crash(SingleWriter, None, seed).unwrap();
    }
}

/// The steps of the journal, and of commits that end one.
const STEPS: [Step; 8] = [
    Step::JournalWriteBack,
    Step::JournalFence,
    Step::JournalHeaderWriteBack,
    Step::JournalHeaderFence,
    Step::LargeWriteBack,
    Step::LargeFence,
    Step::JournalRollBackWriteBack,
    Step::JournalRollBackFence,
];

#[test]
fn every_step_of_a_large_transaction_is_needed() {
    for step in STEPS {
        let found = (0..60).find_map(|seed| crash(Stm, Some(step), seed).err().map(|what| (seed, what)));
        println!("{step:?}: {found:?}");
        assert!(found.is_some(), "without {step:?} nothing is wrong");
    }
}
