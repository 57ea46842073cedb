//! Cases of the protocol that chance does not reach. `tests/all/device.rs` samples histories.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use strandline_core::layout::Layout;
use strandline_core::memory::coroutines::{Thread, run};
use strandline_core::memory::{Device, DeviceFile, Memory, PersistentAddress};
use strandline_core::memory::{Hosted, Step, World};
use strandline_core::sync::{SyncParameters, create, read_log_header};
use strandline_core::{Abort, Concurrency, Error, Read, Runner, Transaction};

use strandline_structures::model::{Extents, Operation, Structure};

use super::faulty_device::{EIO, ENOSPC};
use super::journal::Journal;
use super::transactions::{cell, spare};
use super::world::{DeviceWorld, IDENTITY, Pool};
use super::*;

/// Runs a thread that replaces extents beside one that reads them; `seed` determines the history. Returns what the reader found to be wrong.
fn read_beside_a_writer(concurrency: Concurrency, omitted: Option<Step>, seed: u64) -> Option<String> {
    const EXTENTS: Extents = Extents { slots: 2 };
    let parameters =
        SyncParameters { ring_blocks: 64, dirty_pages: 100, staging_blocks: 8, ..SyncParameters::default() };
    let pool =
        Pool::create(1, false, (8, 16 << 10), parameters, concurrency, omitted, Journal::default()).unwrap();
    let world = pool.open(seed);
    pool.recover(&world).unwrap();
    let (wrong, is_done) = (RefCell::new(None), Cell::new(false));
    let root = pool.layout.root(0);
    let bodies: Vec<Thread<'_>> = vec![
        Box::new(|memory: &Hosted| {
            let mut worker = pool.worker(memory).unwrap();
            for number in 1..24 {
                // Extents of one, two and three pages.
                let operation = Operation::Toggle(number % 2, (number << 8) | (number % 4));
                worker.run(|tx| EXTENTS.apply(tx, root, &operation)).unwrap();
            }
            is_done.set(true);
        }),
        Box::new(|memory: &Hosted| {
            let mut worker = pool.worker(memory).unwrap();
            while !is_done.get() {
                for slot in 0..2 {
                    let read = worker.view(|tx| EXTENTS.apply(tx, root, &Operation::Get(slot)));
                    if let Err(error) = read {
                        *wrong.borrow_mut() = Some(format!("{error:#}"));
                    }
                }
            }
        }),
    ];
    // One thread runs for long while the other waits in the middle of an operation.
    let (mut random, mut turn) = (fastrand::Rng::with_seed(seed), 0);
    let hosted: Rc<dyn World> = world.clone();
    run(&hosted, bodies, |running| {
        if random.u8(..100) == 0 {
            turn = random.usize(..2);
        }
        turn % running.len()
    });
    wrong.take()
}

/// Runs two threads that replace extents beside one that borrows them through snapshots and one that takes checkpoints and compacts; `seed`
/// determines the history. Returns whether borrowed data has changed.
fn borrow_beside_writers(concurrency: Concurrency, omitted: Option<Step>, seed: u64) -> bool {
    const EXTENTS: Extents = Extents { slots: 4 };
    let parameters =
        SyncParameters { ring_blocks: 64, dirty_pages: 100, staging_blocks: 8, ..SyncParameters::default() };
    // Chunks have three pages, or fifteen.
    let chunks = [(8, 16 << 10), (4, 64 << 10)][seed as usize % 2];
    let pool = Pool::create(1, false, chunks, parameters, concurrency, omitted, Journal::default()).unwrap();
    let world = pool.open(seed);
    pool.recover(&world).unwrap();
    let (is_changed, writing) = (Cell::new(false), Cell::new(2));
    let root = pool.layout.root(0);
    let borrow = |memory: &Hosted, random: &mut fastrand::Rng| {
        let lent = pool.extents_of_a_snapshot(memory, (EXTENTS.slots, random.u16(..200)), |lent| {
            (0..random.u16(..400)).for_each(|_| memory.pause());
            lent.iter().all(|&(at, word)| memory.load(at) == word)
        });
        match lent {
            Ok(is_same) => is_changed.set(is_changed.get() || !is_same),
            Err(error) => assert!(matches!(error, Error::SnapshotEnded { .. }), "{error:#}"),
        }
    };
    // Each thread has its own values.
    let write = |memory: &Hosted, first: u64| {
        let mut worker = pool.worker(memory).unwrap();
        for number in 1..40 {
            // Extents of one, two and three pages, and sometimes a block in their place.
            let operation = Operation::Toggle(first + number % 2, (number << 8) | (number % 4));
            let toggled = worker.run(|tx| EXTENTS.apply(tx, root, &operation)).map(drop);
            let block = worker.run(|tx| {
                let block = tx.alloc(4000)?;
                tx.write_range(block, &[number; 500])?;
                Ok(block)
            });
            for done in [toggled, block.and_then(|block| worker.run(|tx| tx.free(block)))] {
                // Snapshots may have borrowed all free pages.
                assert!(matches!(done, Ok(()) | Err(Error::Full { .. })), "{done:?}");
            }
        }
        writing.set(writing.get() - 1);
    };
    let bodies: Vec<Thread<'_>> = vec![
        Box::new(|memory: &Hosted| write(memory, 0)),
        Box::new(|memory: &Hosted| write(memory, 2)),
        Box::new(|memory: &Hosted| {
            let mut random = fastrand::Rng::with_seed(seed);
            while writing.get() > 0 {
                borrow(memory, &mut random);
            }
        }),
        Box::new(|memory: &Hosted| {
            let mut worker = pool.worker(memory).unwrap();
            while writing.get() > 0 {
                pool.log.checkpoint(&pool.view(memory)).unwrap();
                worker.compact().unwrap();
                (0..200).for_each(|_| memory.pause());
            }
        }),
    ];
    let (mut random, mut turn) = (fastrand::Rng::with_seed(seed), 0);
    let hosted: Rc<dyn World> = world.clone();
    run(&hosted, bodies, |running| {
        if random.u8(..20) == 0 {
            turn = random.usize(..4);
        }
        turn % running.len()
    });
    is_changed.get()
}

#[test]
fn extents_that_are_lent_stay_as_they_are() {
    for (_, concurrency) in SCHEMES {
        for seed in 0..20 {
            assert!(!borrow_beside_writers(concurrency, None, seed), "seed {seed} under {concurrency:?}");
        }
        for omitted in [Step::LendMarks, Step::LendPages, Step::PastLogSnapshots] {
            let is_found = (0..1000).any(|seed| borrow_beside_writers(concurrency, Some(omitted), seed));
            assert!(is_found, "{omitted:?} under {concurrency:?}");
        }
    }
}

#[test]
fn extents_are_whole_to_readers() {
    for (_, concurrency) in SCHEMES {
        for seed in 0..40 {
            assert_eq!(read_beside_a_writer(concurrency, None, seed), None, "{concurrency:?}, seed {seed}");
        }
        let found = (0..1000).find_map(|seed| {
            read_beside_a_writer(concurrency, Some(Step::PastLogGuard), seed).map(|wrong| (seed, wrong))
        });
        println!("without the guard, {concurrency:?}: {found:?}");
        assert!(
            found.is_some_and(|(_, wrong)| wrong.contains("extents")),
            "{concurrency:?}: the mutant survived"
        );
    }
}

fn small_pool(ring_blocks: u64, concurrency: Concurrency) -> Pool {
    growing_pool(ring_blocks, ring_blocks, concurrency)
}

/// Creates a pool whose ring can grow.
fn growing_pool(initial_ring_blocks: u64, ring_blocks: u64, concurrency: Concurrency) -> Pool {
    let parameters = SyncParameters {
        ring_blocks,
        initial_ring_blocks,
        dirty_pages: 100,
        staging_blocks: 1,
        ..SyncParameters::default()
    };
    Pool::create(1, false, (8, 4096), parameters, concurrency, None, Journal::default()).unwrap()
}

/// Recovers the pool, and returns its world.
fn opened(pool: &Pool) -> Rc<DeviceWorld> {
    let world = pool.open(1);
    pool.recover(&world).unwrap();
    world
}

#[test]
fn a_failed_flush_poisons_everything_from_then_on() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let pool = small_pool(16, concurrency);
        let world = opened(&pool);
        let at = cell(&pool.layout, 0);
        let memory = Hosted::new(world.clone(), 0);
        let mut worker = pool.worker(&memory).unwrap();
        let other_memory = Hosted::new(world.clone(), 1);
        let mut other = pool.worker(&other_memory).unwrap();
        worker.run(|tx| tx.write(at, 1)).unwrap();
        pool.device.fail_after(0, Fault::Error(ENOSPC));
        let error = worker.run(|tx| tx.write(at, 2)).unwrap_err();
        assert!(
            matches!(&error, Error::Poisoned { why, .. } if why.starts_with("writing the log: No space")),
            "{error:#}"
        );
        assert!(matches!(other.run(|tx| tx.write(at, 3)), Err(Error::Poisoned { .. })));
        assert!(matches!(other.view(|tx| tx.read(at)), Err(Error::Poisoned { .. })));
        let view = pool.main(&world);
        assert!(pool.log.checkpoint_wanted(&view), "who waits for requests is woken");
        assert!(matches!(pool.log.checkpoint(&view), Err(Error::Poisoned { .. })));
        drop((worker, other));
        pool.device.power_cycle();
        let again = opened(&pool);
        let value = again.words()[(at.offset() / 8) as usize];
        assert!(value == 1 || value == 2, "{value}");
    }
}

#[test]
fn a_transaction_larger_than_the_ring_runs_alone() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let pool = small_pool(3, concurrency);
        let world = opened(&pool);
        let memory = Hosted::new(world.clone(), 0);
        let mut worker = pool.worker(&memory).unwrap();
        let at = cell(&pool.layout, 0);
        let spare = |number| spare(&pool.layout, number);
        worker.run(|tx| tx.write(at, 1)).unwrap();
        pool.log.checkpoint(&pool.main(&world)).unwrap();
        // 253 records and the commit record fill the one block that a ring of three grants to a transaction.
        worker.run(|tx| (0..253).try_for_each(|i| tx.write(spare(i), 100 + i))).unwrap();
        pool.log.checkpoint(&pool.main(&world)).unwrap();
        let given_up: Result<(), _> = worker.run(|tx| {
            (0..254).try_for_each(|i| tx.write(spare(i), 200 + i))?;
            Err(Abort::User)
        });
        assert!(matches!(given_up, Err(Error::Aborted)));
        assert_eq!(worker.view(|tx| tx.read(spare(252))).unwrap(), 352);
        let operations = pool.device.operations();
        let read = worker.run(|tx| {
            (0..254).try_for_each(|i| tx.write(spare(i), 1000 + i))?;
            tx.read(spare(253))
        });
        assert_eq!(read.unwrap(), 1253);
        assert!(pool.device.operations() > operations + 5, "it is durable");
        worker.run(|tx| tx.write(at.word(1), 7)).unwrap();
        drop(worker);
        pool.device.power_cycle();
        let again = opened(&pool);
        let word = |at: PersistentAddress| again.words()[(at.offset() / 8) as usize];
        assert_eq!([word(spare(253)), word(at.word(1))], [1253, 7]);
    }
}

#[test]
fn the_ring_goes_round_and_round() {
    let pool = small_pool(4, Concurrency::SingleWriter);
    let world = opened(&pool);
    let at = cell(&pool.layout, 0);
    let memory = Hosted::new(world.clone(), 0);
    let mut worker = pool.worker(&memory).unwrap();
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
    let report = pool.recover(&world).unwrap();
    assert_eq!(report.watermark, 1000);
    assert_eq!(world.words()[(at.offset() / 8) as usize], 999);
}

#[test]
fn damaged_slots_and_read_errors_are_errors() {
    let pool = small_pool(4, Concurrency::Stm);
    drop(opened(&pool));
    // Recovery reads the slots, then the log; it must not take a failed read for the end of the log.
    for operation in 0..3 {
        let world = pool.open(1);
        pool.device.fail_after(operation, Fault::Error(EIO));
        let failed = pool.recover(&world);
        assert!(matches!(failed, Err(Error::Io { .. })), "operation {operation}: {failed:?}");
    }
    for slot in 0..2 {
        let at = Layout::CHECKPOINT_SLOTS.offset() + 4096 * slot + 16;
        pool.device.write(DeviceFile::Heap, at, &[0xa5; 8]).unwrap();
        let world = pool.open(1);
        let recovered = pool.recover_read_only(&world);
        match slot {
            0 => assert!(recovered.is_ok(), "the other slot serves: {recovered:?}"),
            _ => assert!(matches!(recovered, Err(Error::Damaged { .. })), "{recovered:?}"),
        }
    }
}

#[test]
fn after_the_ring_became_larger_a_damaged_slot_hides_nothing() {
    for transactions in 1..12 {
        for slot in 0..2 {
            let pool = growing_pool(4, 8, Concurrency::Stm);
            let world = opened(&pool);
            let (view, memory) = (pool.main(&world), Hosted::new(world.clone(), 0));
            let mut worker = pool.worker(&memory).unwrap();
            let at = cell(&pool.layout, 0);
            for value in 1..=transactions {
                worker.run(|tx| tx.write(at, value)).unwrap();
                if pool.log.checkpoint_wanted(&view) || value == transactions {
                    pool.log.checkpoint(&view).unwrap();
                }
            }
            assert!(pool.log.enlarge_ring(&view, 8).unwrap());
            drop(worker);
            let offset = Layout::CHECKPOINT_SLOTS.offset() + 4096 * slot + 16;
            pool.device.write(DeviceFile::Heap, offset, &[0xa5; 8]).unwrap();
            let again = pool.open(1);
            match pool.recover_read_only(&again) {
                Ok(_) => assert_eq!(again.words()[(at.offset() / 8) as usize], transactions),
                Err(Error::Damaged { .. }) => {}
                Err(error) => panic!("{error:#}"),
            }
        }
    }
}

#[test]
fn a_log_file_is_the_pools_own_and_whole() {
    let pool = small_pool(4, Concurrency::Stm);
    let path = Path::new("pool.log");
    let header = read_log_header(&*pool.device, path).unwrap();
    assert_eq!((header.identity, header.ring), (IDENTITY, 4));
    let problem = |device: &dyn Device| match read_log_header(device, path) {
        Err(Error::LogFile { path, problem, .. }) => {
            assert_eq!(path, "pool.log");
            problem
        }
        other => panic!("{other:?}"),
    };
    let other = FaultyDevice::new(1, false, Journal::default());
    assert!(problem(&other).contains("too few"));
    other.grow(DeviceFile::Log, 8192).unwrap();
    assert!(problem(&other).contains("not a Strandline log"));
    let header = &pool.device.contents(DeviceFile::Log)[..4096];
    other.write(DeviceFile::Log, 0, header).unwrap();
    assert!(problem(&other).contains("truncated"));
    assert!(
        create(
            &other,
            IDENTITY,
            SyncParameters {
                ring_blocks: 1,
                initial_ring_blocks: 1,
                dirty_pages: 1,
                staging_blocks: 1,
                ..SyncParameters::default()
            },
            0
        )
        .is_err()
    );
}
