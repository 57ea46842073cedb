//! Snapshots beside writers, under random schedules and with delayed stores: each snapshot sees exactly the commits up to its time. The tests leave
//! out each rule of the protocol, and find the omission.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_check::Setting;
use strandline_check::x86::{Policy, X86World};
use strandline_core::engine::{Control, Over, SingleWriter, Snapshot, Stm};
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, PersistentAddress, Step};
use strandline_core::scheme::Product;
use strandline_core::{Abort, Error, Read, Runner, Transaction};

use super::histories::lease;

const GEOMETRY: Geometry = Geometry { size: 16 << 12, logs: 4, log_bytes: 4096, chunk_bytes: 4096 };
/// Words on three lines, two of them on the first; the second line shares a chain with another if there are few chains.
const WORDS: [u64; 4] = [0, 8, 256, 576];
const WRITERS: usize = 2;
const READERS: usize = 2;

/// Returns the address of word `which`.
fn word(tx: &impl Read, which: usize) -> PersistentAddress {
    tx.root(0).byte(256 + WORDS[which])
}

/// A snapshot's view: its time, the last commit before it began, and words with their values.
#[derive(Default)]
struct Seen {
    time: u64,
    committed: Vec<u64>,
    values: Vec<(usize, u64)>,
}

/// Returns the size of room for so many versions; if it is small, snapshots end early.
fn version_bytes(entries: u64) -> u64 {
    // The words are those of registrations and the like, the heads, and entries of twelve words each.
    8 * (11 * 8 + entries * 13 + 2)
}

/// Runs one history. Returns what is wrong with it.
fn history<C>(control: C, omitted: Option<Step>, seed: u64) -> Result<(), String>
where
    C: Control<Scheme = Product>,
{
    let mut random = Rng::with_seed(seed);
    let layout = Layout::new(GEOMETRY).unwrap();
    // To show that used entries are refilled in the wrong order, there are few entries and few threads: a reader has to be at an entry while it is
    // reused.
    let refills = omitted == Some(Step::SnapshotRefill);
    let bytes = version_bytes(if refills { 2 } else { [2, 3, 6, 40][random.usize(..4)] });
    let (writers, readers) = if refills { (1, 1) } else { (WRITERS, READERS) };
    let shared = SharedLayout::new(&layout, 7, 0).with_versions(bytes);
    let data = (layout.data.offset() / 8) as usize..(layout.end().offset() / 8) as usize;
    let image = vec![0; (GEOMETRY.size / 8) as usize];
    let threads = writers + readers;
    let world = Rc::new(X86World::new(image, shared.bytes(), data, threads, Setting::Line, omitted));
    let seen: RefCell<Vec<Seen>> = RefCell::default();
    let committed: RefCell<Vec<u64>> = RefCell::default();
    let (seen_by_all, committed_by_all) = (&seen, &committed);
    let mut bodies: Vec<Thread> = Vec::new();
    for writer in 0..writers {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            let mut worker = lease(View { memory, layout, shared }, control);
            for number in 1..=random.u64(2..=8) {
                let unique = (writer as u64 + 1) << 32 | number << 8;
                let chosen: Vec<usize> = (0..random.usize(1..=2)).map(|_| random.usize(..4)).collect();
                worker
                    .run(|tx| {
                        for &which in &chosen {
                            let at = word(tx, which);
                            tx.read(at)?;
                            tx.write(at, unique | which as u64)?;
                        }
                        Ok(())
                    })
                    .unwrap();
                committed_by_all.borrow_mut().push(unique | chosen[chosen.len() - 1] as u64);
            }
        }));
    }
    for _ in 0..readers {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            for _ in 0..random.u64(1..=3) {
                let committed = committed_by_all.borrow().clone();
                if random.u8(..4) == 0 && !refills {
                    // The second run of a view is at a snapshot, whose time it does not report.
                    let mut reader = lease(View { memory, layout, shared }, control);
                    let values = reader
                        .view(|tx| (0..4).map(|which| Ok((which, tx.read(word(tx, which))?))).collect())
                        .unwrap();
                    seen_by_all.borrow_mut().push(Seen { time: u64::MAX, committed, values });
                    continue;
                }
                let mut snapshot =
                    Snapshot::begin(View { memory, layout, shared }, Over::new(control), None).unwrap();
                let mut found = Seen { time: snapshot.time(), committed, values: Vec::new() };
                for _ in 0..random.usize(1..=6) {
                    let which = random.usize(..4);
                    let read: Result<u64, Error> =
                        snapshot.read(|tx| -> Result<u64, Abort> { tx.read(word(tx, which)) });
                    match read {
                        Ok(value) => found.values.push((which, value)),
                        Err(Error::SnapshotEnded { .. }) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                drop(snapshot);
                seen_by_all.borrow_mut().push(found);
            }
        }));
    }
    let policy = match random.u8(..3) {
        _ if refills => Policy::Priorities { every: random.u32(5..40), critical: 10, stalls: true },
        0 => Policy::Random { every: random.u32(1..20) },
        1 => Policy::Priorities { every: 40, critical: 12, stalls: false },
        _ => Policy::Priorities { every: 30, critical: 10, stalls: true },
    };
    if random.bool() {
        world.delay_stores(random.u64(..));
    }
    world.run(bodies, policy, random.u64(..));
    let trace = world.finish();

    // The words after each commit, in the order of TxIDs.
    let root = layout.root(0).byte(256).offset();
    let number = |which: usize| ((root + WORDS[which]) / 8) as u32;
    let mut updates: Vec<_> = trace.updates.iter().filter(|update| update.entered != u32::MAX).collect();
    updates.sort_by_key(|update| update.id);
    let at = |time: u64| {
        let mut words = [0; 4];
        for update in updates.iter().take_while(|update| update.id <= time) {
            for (which, word) in words.iter_mut().enumerate() {
                let written = update.writes.iter().find(|&&(written, _)| written == number(which));
                *word = written.map_or(*word, |&(_, value)| value);
            }
        }
        words
    };
    let fits = |seen: &Seen, time: u64| {
        let words = at(time);
        seen.values.iter().all(|&(which, value)| words[which] == value)
    };
    for seen in seen.borrow().iter() {
        // A snapshot has at least the newest of the commits that had returned when it began.
        let of = |&value: &u64| updates.iter().find(|update| update.writes.iter().any(|&(_, v)| v == value));
        let least = seen.committed.iter().filter_map(of).map(|update| update.id).max().unwrap_or(0);
        let last = updates.last().map_or(0, |update| update.id);
        let good = match seen.time {
            u64::MAX => (least..=last).any(|time| fits(seen, time)),
            time => time >= least && fits(seen, time),
        };
        if !good {
            return Err(format!(
                "a snapshot at {} begun after {least} read {:x?} where {:x?} is right",
                seen.time,
                seen.values,
                at(seen.time)
            ));
        }
    }
    Ok(())
}

/// Returns the number of the first of these histories in which something is wrong.
fn first_wrong<C>(control: C, omitted: Option<Step>, mut histories: Range<u64>) -> Option<(u64, String)>
where
    C: Control<Scheme = Product>,
{
    histories.find_map(|seed| history(control, omitted, seed).err().map(|why| (seed, why)))
}

#[test]
fn snapshots_see_the_commits_up_to_their_time() {
    assert_eq!(first_wrong(Stm, None, 0..1500), None);
    assert_eq!(first_wrong(SingleWriter, None, 0..1500), None);
}

/// The rules of both controls.
const RULES: [Step; 12] = [
    Step::SnapshotEverything,
    Step::SnapshotWait,
    Step::SnapshotLookFirst,
    Step::SnapshotOldest,
    Step::SnapshotMark,
    Step::SnapshotCount,
    Step::SnapshotKeep,
    Step::SnapshotNewest,
    Step::SnapshotBound,
    Step::SnapshotGiveBackNone,
    Step::SnapshotGiveBackWait,
    Step::SnapshotGiveBackBegin,
];

fn assert_found<C>(control: C, step: Step, histories: Range<u64>)
where
    C: Control<Scheme = Product>,
{
    let found = first_wrong(control, Some(step), histories);
    println!("{step:?}: {found:?}");
    assert!(found.is_some(), "{step:?} is not found");
}

#[test]
fn each_rule_of_a_snapshot_that_is_left_out_is_found() {
    for step in RULES {
        assert_found(Stm, step, 0..20_000);
    }
    for step in RULES.into_iter().chain([Step::SnapshotInCommit]) {
        assert_found(SingleWriter, step, 0..20_000);
    }
}

/// A reader has to stop at an entry until that is reused, while the writer is in the middle of refilling it. The search begins shortly before the
/// first history that shows it. If another history becomes the first, the search only takes longer.
#[test]
fn an_entry_that_is_refilled_in_the_wrong_order_is_found() {
    assert_found(Stm, Step::SnapshotRefill, 228_000..828_000);
    assert_found(SingleWriter, Step::SnapshotRefill, 899_000..1_499_000);
}
