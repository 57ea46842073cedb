//! Compares hits and misses, access by access, with an independent cache simulator; `reference/generate.py` says how its counts were made.

use std::cell::Cell;
use std::rc::Rc;

use super::support;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, Memory, PersistentAddress};
use strandline_sim::controller::Regions;
use strandline_sim::description::{CacheLevel, Inclusion};
use strandline_sim::{Contents, Machine};

/// Sets and ways of each level with the hits and misses that pycachesim counted in it, and a digest of the levels that served each load.
type Recorded = (&'static [(u64, u64, u64, u64)], u64);

const RECORDED: &[Recorded] = &[
    (&[(16, 2, 38358, 61642)], 0x8540_ecfb_f1b0_eacd),
    (&[(64, 1, 39336, 60664)], 0x9a9d_e522_c517_d433),
    (&[(8, 8, 39347, 60653)], 0x89e5_757e_bcfb_30b4),
    (&[(1, 64, 39330, 60670)], 0xf054_426b_a6d3_41ab),
    (&[(16, 2, 38358, 61642), (32, 4, 3062, 58580), (64, 8, 11776, 46804)], 0xaed4_5afe_33c7_3d3d),
    (&[(4, 4, 37822, 62178), (8, 16, 3596, 58582)], 0xb1a9_f366_8479_d293),
];

const LINES: u64 = 2048;

#[test]
fn hits_and_misses_are_those_of_an_independent_simulator() {
    for &(recorded, digest) in RECORDED {
        let mut machine = support::small(1);
        machine.caches = recorded
            .iter()
            .enumerate()
            .map(|(number, &(sets, ways, ..))| CacheLevel {
                inclusion: Inclusion::NonInclusive,
                // The time of a load reveals which level had the line.
                ..support::private(&format!("L{}", number + 1), 64 * sets * ways, ways as usize, 1000)
            })
            .collect();
        // The last level may also be a shared one, with the same counts.
        for share_last in [false, true] {
            if share_last && recorded.len() > 1 {
                let last = machine.caches.last_mut().unwrap();
                last.sharing = strandline_sim::description::Sharing::Shared;
            }
            let contents = Contents {
                persistent: vec![0; 8 * LINES as usize],
                volatile_bytes: 64,
                regions: Regions::default(),
            };
            let machine = Rc::new(Machine::new(&machine, contents, None, None).unwrap());
            let found = Cell::new(0xcbf2_9ce4_8422_2325u64);
            let body = |memory: &Hosted| {
                let (mut random, mut at) = (88172645463325252u64, 0);
                for _ in 0..100_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    at = if random & 3 == 0 {
                        (random >> 8) % LINES
                    } else {
                        (at + (random >> 40 & 1)) % LINES
                    };
                    let before = machine.clock(0);
                    memory.load(PersistentAddress::new(64 * at));
                    let lookups = (machine.clock(0) - before) / 1000;
                    let in_memory = !(machine.clock(0) - before).is_multiple_of(1000);
                    let level = lookups - 1 + u64::from(in_memory);
                    found.set((found.get() ^ level).wrapping_mul(0x100_0000_01b3));
                }
            };
            machine.run(vec![Box::new(body) as Thread<'_>]);
            let had = found.get();
            let levels = machine.statistics().levels;
            let found: Vec<_> = levels.iter().map(|level| (level.total.hits, level.total.misses)).collect();
            let expected: Vec<_> = recorded.iter().map(|&(_, _, hits, misses)| (hits, misses)).collect();
            assert_eq!(found, expected);
            assert_eq!(had, digest, "load for load");
        }
    }
}
