//! A random test of coherence: every load returns the last store, nothing is lost, and no thread waits forever.

use std::cell::RefCell;
use std::rc::Rc;

use super::support;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Address, Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_sim::controller::Regions;
use strandline_sim::description::{
    Description, FenceKind, Inclusion, Network, PersistenceDomain, WriteBackKind,
};
use strandline_sim::{Contents, Machine};

const WORDS: u64 = 8 * 96;

fn machine_of(description: &Description) -> Rc<Machine> {
    let contents = Contents {
        persistent: vec![0; WORDS as usize],
        volatile_bytes: 8 * WORDS,
        regions: Regions::default(),
    };
    Rc::new(Machine::new(description, contents, None, None).unwrap())
}

/// Machines with tiny caches, so that lines move constantly.
fn shapes() -> Vec<Description> {
    let mut all = Vec::new();
    for inclusion in [Inclusion::Inclusive, Inclusion::NonInclusive] {
        for shape in 0..5 {
            let mut machine = support::small(6);
            let (l1, l2) = (support::private("L1", 512, 2, 1), support::private("L2", 1024, 2, 4));
            let (l3, l4) = (support::shared("L3", 2048, 2, 9, 4), support::shared("L4", 8192, 4, 20, 1));
            machine.caches = match shape {
                0 => vec![l1],
                1 => vec![l1, l2],
                2 => vec![l1, l3],
                3 => vec![l1, l2, l3, l4],
                _ => vec![support::private("L1", 256, 1, 1), support::shared("L2", 512, 1, 5, 1)],
            };
            machine.caches.iter_mut().for_each(|level| level.inclusion = inclusion);
            machine.controllers.count = 2;
            machine.controllers.interleave_bytes = 64;
            machine.controllers.write_queue = 8;
            machine.controllers.high_watermark = 6;
            machine.controllers.low_watermark = 2;
            if shape % 2 == 0 {
                machine.network = Network::Mesh { rows: 2, flit_bytes: 16, hop_latency: 1 };
            }
            machine.persistence.write_back =
                [WriteBackKind::Clwb, WriteBackKind::Clflushopt, WriteBackKind::Clflush][shape % 3];
            machine.persistence.domain =
                [PersistenceDomain::Media, PersistenceDomain::Adr][usize::from(shape > 2)];
            if shape == 1 {
                machine.persistence.fence = FenceKind::Pcommit;
            }
            all.push(machine);
        }
    }
    all
}

/// In order and without store queues memory is sequentially consistent: a load returns the last stored value.
#[test]
fn every_load_returns_the_last_store() {
    for (number, description) in shapes().iter().enumerate() {
        let machine = machine_of(description);
        let model = RefCell::new([vec![0; WORDS as usize], vec![0; WORDS as usize]]);
        let bodies = (0..6)
            .map(|thread| {
                let model = &model;
                Box::new(move |memory: &Hosted| {
                    let mut random = fastrand::Rng::with_seed(100 * number as u64 + thread);
                    for _ in 0..4_000 {
                        let word = random.u64(..WORDS);
                        if random.bool() {
                            let at = PersistentAddress::new(8 * word);
                            step(memory, at, word, &mut random, &mut |f| f(&mut model.borrow_mut()[0]));
                            persistent_step(memory, at, word, &mut random, &mut |f| {
                                f(&mut model.borrow_mut()[0])
                            });
                        } else {
                            let at = VolatileAddress::new(8 * word);
                            step(memory, at, word, &mut random, &mut |f| f(&mut model.borrow_mut()[1]));
                        }
                    }
                }) as Thread<'_>
            })
            .collect();
        machine.run(bodies);
        let model = &model.borrow()[0];
        for (word, &value) in model.iter().enumerate() {
            assert_eq!(machine.newest_word(word), value, "machine {number}, word {word} at the end");
        }
        // Conservation: data that is not in memory yet is modified in a cache or held by a channel.
        let (dirty, held) = machine.unsettled();
        let lost: Vec<_> = machine.survivors().chunks(8).zip(model.chunks(8)).map(|(a, b)| a != b).collect();
        assert!(lost.iter().filter(|&&lost| lost).count() <= dirty + held);
    }
}

type Model<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&mut Vec<u64>));

fn step<A: Address>(memory: &Hosted, at: A, word: u64, random: &mut fastrand::Rng, model: Model<'_>) {
    let index = word as usize;
    match random.u8(..10) {
        0..4 => {
            let found = memory.load(at);
            model(&mut |words| assert_eq!(found, words[index], "load of word {word}"));
        }
        4..8 => {
            let value = random.u64(..);
            memory.store(at, value);
            model(&mut |words| words[index] = value);
        }
        8 => {
            let old = memory.fetch_add(at, 3);
            model(&mut |words| {
                assert_eq!(old, words[index], "fetch_add of word {word}");
                words[index] = old.wrapping_add(3);
            });
        }
        _ => {
            let expected = memory.load(at);
            let exchanged = memory.compare_exchange(at, expected, expected ^ 5);
            model(&mut |words| {
                assert_eq!(exchanged.unwrap_or_else(|old| old), words[index]);
                if exchanged.is_ok() {
                    words[index] ^= 5;
                }
            });
        }
    }
}

fn persistent_step(
    memory: &Hosted,
    at: PersistentAddress,
    word: u64,
    random: &mut fastrand::Rng,
    model: Model<'_>,
) {
    match random.u16(..400) {
        0..80 => memory.write_back(at, Step::CommitWriteBack),
        80..100 => memory.fence(Step::CommitFence),
        100 => {
            memory.write_back_all(Step::BulkDataWriteBack);
        }
        101..110 => {
            let value = random.u64(..);
            memory.store_non_temporal(at, value);
            // Others see the store when it leaves its buffer, which the atomic operation causes.
            let _ = memory.compare_exchange(VolatileAddress::new(0), 1, 1);
            model(&mut |words| words[word as usize] = value);
        }
        _ => {}
    }
}

/// With store queues a thread sees its own stores immediately, and others' in order; atomic counters lose nothing.
#[test]
fn store_queues_keep_program_order() {
    for description in shapes() {
        let mut description = description;
        description.cores.store_queue = 8;
        description.cores.kind = strandline_sim::description::CoreKind::OutOfOrder;
        let machine = machine_of(&description);
        let bodies = (0..6u64)
            .map(|thread| {
                Box::new(move |memory: &Hosted| {
                    let mut random = fastrand::Rng::with_seed(thread);
                    // Each thread increments two words of its own on shared lines: first a, then b.
                    let own = |who: u64, which: u64| PersistentAddress::new(8 * (who + 8 * (1 + which)));
                    let counter = PersistentAddress::new(0);
                    let mut seen = [0; 6];
                    for i in 1..1_500u64 {
                        memory.store(own(thread, 0), i);
                        memory.store(own(thread, 1), i);
                        assert_eq!(memory.load(own(thread, 1)), i, "its own store");
                        let other = random.u64(..6);
                        let b = memory.load(own(other, 1));
                        let a = memory.load(own(other, 0));
                        assert!(a >= b, "the earlier store is seen no later");
                        assert!(b >= seen[other as usize], "time does not run backwards");
                        seen[other as usize] = b;
                        memory.load(PersistentAddress::new(64 * random.u64(8..96)));
                        if random.u8(..4) == 0 {
                            memory.fetch_add(counter, 1);
                            memory.fetch_add(counter, u64::MAX);
                        }
                        if random.u8(..16) == 0 {
                            memory.fetch_add(counter, 1);
                            memory.write_back(own(thread, 0), Step::CommitWriteBack);
                            memory.fence(Step::CommitFence);
                        }
                    }
                    memory.write_back(own(thread, 0), Step::CommitWriteBack);
                    memory.write_back(own(thread, 1), Step::CommitWriteBack);
                    memory.fence(Step::CommitFence);
                }) as Thread<'_>
            })
            .collect();
        machine.run(bodies);
        let image = machine.survivors();
        for thread in 0..6 {
            assert_eq!((image[8 + thread], image[16 + thread]), (1_499, 1_499), "fenced, so durable");
        }
    }
}
