//! The systems of Loose-Ordering Consistency: power failures at any cycle, aborts, and tests that every rule is necessary.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::support;
use fastrand::Rng;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step};
use strandline_sim::controller::Regions;
use strandline_sim::description::{Description, WindowCompletes};
use strandline_sim::numbers::Cycle;
use strandline_sim::scheme::{BETWEEN_LIVES, Entry, Mutant, SCHEMES, Setup};
use strandline_sim::{Contents, Machine};

/// The number of lines that transactions use; the first ones are used more often.
const LINES: u64 = 96;
const WORDS: usize = 8 * LINES as usize;

/// Returns a machine with one core and caches so small that lines are evicted constantly.
fn machine(row_bytes: u64) -> Description {
    let mut machine = support::small(1);
    machine.name = "tiny".into();
    machine.nvm.row_buffer_bytes = row_bytes;
    machine.nvm.row_hit_ns = machine.nvm.read_ns;
    machine.caches = vec![
        support::private("L1", 512, 2, 1),
        support::private("L2", 1024, 2, 4),
        support::shared("LLC", 4096, 4, 10, 1),
    ];
    machine
}

/// The expected states of a history.
struct History {
    /// The words after each commit; the first state precedes all commits.
    states: RefCell<Vec<Vec<u64>>>,
    /// The number of loads that returned a wrong value.
    wrong: Cell<u64>,
}

/// Runs random transactions, some of which the hardware aborts and some of which TxFlush makes durable immediately. Loads between them keep banks
/// busy, so that the writes of a commit overtake one another.
fn program(memory: &Hosted, history: &History, seed: u64, transactions: u64) {
    let mut random = Rng::with_seed(seed);
    let mut now = history.states.borrow()[0].clone();
    let word = |random: &mut Rng| {
        let lines = if random.u8(..3) > 0 { 10 } else { LINES };
        8 * random.u64(..lines) + random.u64(..2)
    };
    let at = |word: u64| PersistentAddress::new(8 * word);
    let mut committed = 0;
    for number in 1..=transactions {
        for _ in 0..random.u64(..4) {
            let word = 8 * random.u64(..LINES);
            let found = memory.load(at(word));
            history.wrong.set(history.wrong.get() + u64::from(found != now[word as usize]));
        }
        let mut next = now.clone();
        memory.event(Event::Begin);
        // Some transactions fill several block groups.
        let stores = if random.u8(..4) == 0 { 24 } else { 7 };
        for _ in 0..random.u64(1..stores) {
            let word = word(&mut random);
            let value = number << 16 | word;
            memory.store(at(word), value);
            next[word as usize] = value;
            for _ in 0..random.u64(..4) {
                let word = 8 * random.u64(..LINES) + random.u64(..2);
                let found = memory.load(at(word));
                history.wrong.set(history.wrong.get() + u64::from(found != next[word as usize]));
            }
        }
        if random.u8(..8) == 0 {
            memory.event(Event::Abort);
        } else {
            committed += 1;
            memory.event(Event::Commit(committed));
            now = next;
            history.states.borrow_mut().push(now.clone());
        }
        if random.u8(..10) == 0 {
            memory.fence(Step::CommitFence);
            memory.event(Event::Acknowledged(committed));
        }
    }
}

/// Runs histories and counts what is wrong: loads, images that recovery refuses, and images that are not a state of the history at or after the last
/// acknowledged one.
fn violations(
    entry: &Entry,
    degree: Option<u64>,
    omitted: Option<&'static str>,
    seeds: std::ops::Range<u64>,
) -> Result<u64, String> {
    violations_on(|_| (), entry, degree, omitted, seeds)
}

/// Like [`violations`], on a changed machine.
fn violations_on(
    change: impl Fn(&mut Description),
    entry: &Entry,
    degree: Option<u64>,
    omitted: Option<&'static str>,
    seeds: std::ops::Range<u64>,
) -> Result<u64, String> {
    let mut judged = 0;
    for seed in seeds {
        // With rows of eight lines the blocks of a group share a bank, and those of the next group have another one.
        let mut machine = machine(if seed % 2 == 0 { 0 } else { 512 });
        change(&mut machine);
        machine.scheme.extend(degree.map(|degree| ("speculation".into(), degree)));
        let setup = Setup { machine: &machine, omitted };
        let make = entry.make.ok_or("no hardware")?;
        let persistent: Vec<u64> = (0..WORDS as u64).collect();
        let history = History { states: RefCell::new(vec![persistent.clone()]), wrong: Cell::new(0) };
        let contents = Contents { persistent, volatile_bytes: 4096, regions: Regions::default() };
        let running =
            Machine::new(&machine, contents, Some(make(&setup)?), None).map_err(|e| e.to_string())?;
        let running = Rc::new(running);
        let mut random = Rng::with_seed(seed ^ 0xc4a5);
        running.record_events();
        running.crash_at((0..250).map(|_| Cycle::new(random.u64(..400_000))).collect());
        let thread: Thread<'_> = Box::new(|memory: &Hosted| program(memory, &history, seed, 400));
        running.run(vec![thread]);
        if history.wrong.get() > 0 {
            return Err(format!("seed {seed}: {} loads gave something else", history.wrong.get()));
        }
        let events = running.take_events();
        let states = history.states.borrow();
        for mut crash in running.take_crashes() {
            let acknowledged = events[..crash.events].iter().filter_map(|announced| match announced.event {
                Event::Acknowledged(transaction) => Some(transaction as usize),
                _ => None,
            });
            let acknowledged = acknowledged.max().unwrap_or(0);
            for again in [false, true] {
                let (pool, reserved) = crash.image.split_at_mut(WORDS);
                (entry.recover)(&setup, pool, reserved)
                    .map_err(|why| format!("seed {seed}, cycle {}: {why}", crash.at))?;
                let found = states.iter().position(|state| state[..] == *pool);
                if found.is_none_or(|found| found < acknowledged) {
                    return Err(format!(
                        "seed {seed}, cycle {}, again {again}: {found:?} of {} with {acknowledged} acknowledged",
                        crash.at,
                        states.len()
                    ));
                }
            }
            judged += 1;
        }
    }
    Ok(judged)
}

fn count(machine: &Machine, name: &str) -> u64 {
    let all = machine.statistics().scheme;
    all.iter().find(|(other, _)| other == name).unwrap_or_else(|| panic!("no {name} in {all:?}")).1
}

/// Runs `body` with a scheme on the paper's machine, changed.
fn run(
    name: &str,
    change: impl Fn(&mut Description),
    body: impl FnOnce(&Hosted, &dyn Fn() -> u64),
) -> Rc<Machine> {
    let mut machine = support::three_levels();
    change(&mut machine);
    let setup = Setup { machine: &machine, omitted: None };
    let contents =
        Contents { persistent: vec![0; 8 * 4096], volatile_bytes: 4096, regions: Regions::default() };
    let made = (find(name).make.unwrap())(&setup).unwrap();
    let running = Rc::new(Machine::new(&machine, contents, Some(made), None).unwrap());
    let clock = running.clone();
    let thread: Thread<'_> = Box::new(move |memory: &Hosted| body(memory, &|| clock.clock(0).number()));
    running.run(vec![thread]);
    running
}

/// Versions stay until LastCommittedTxID passes them when the window closes: those of 32 transactions do not fit 16 ways.
#[test]
fn versions_stay_until_the_window_closes() {
    let rewrites = |name: &str, transactions: u64| {
        let machine = run(
            name,
            |machine| machine.scheme.extend([("speculation".into(), transactions)]),
            |memory, _| {
                for number in 1..=transactions {
                    memory.event(Event::Begin);
                    memory.store(PersistentAddress::new(64), number);
                    memory.event(Event::Commit(number));
                }
                memory.fence(Step::CommitFence);
            },
        );
        (
            count(&machine, "version_overflows"),
            count(&machine, "log_blocks"),
            count(&machine, "dependency_pairs"),
        )
    };
    // The log has the block, and two blocks of pairs: each other transaction has a pair with its successor, and one that counts its blocks.
    assert_eq!(rewrites("loc-wal", 16), (0, 1 + 2, 15));
    let (overflows, blocks, pairs) = rewrites("loc-wal", 32);
    // With 16 ways: the block, which is evicted to the log once, and 15 versions.
    assert_eq!((overflows, pairs), (15, 15));
    assert!(blocks > 1 + 1 + overflows, "{blocks}");
    // A window of LOC-Kiln becomes valid as a whole: overwritten versions are dropped, not logged.
    assert_eq!(rewrites("loc-kiln", 16), (0, 0, 0));
}

/// Measures the cycles of a commit of eight blocks, for several limits of write-backs in flight.
#[test]
fn the_commit_logic_has_so_many_write_backs_in_flight() {
    let commit = |write_backs: usize| {
        let cycles = Cell::new(0);
        let machine = |machine: &mut Description| machine.persistence.commit_write_backs = Some(write_backs);
        run("h-wal", machine, |memory, clock| {
            memory.event(Event::Begin);
            for number in 0..8 {
                memory.store(PersistentAddress::new(64 * number), 1);
            }
            let before = clock();
            memory.event(Event::Commit(1));
            cycles.set(clock() - before);
        });
        cycles.get()
    };
    // Each block takes 30 cycles through the levels and 168 to be written; the record is written when the last block is there.
    assert_eq!(commit(1), 8 * (30 + 168) + 168);
    let (two, eight) = (commit(2), commit(8));
    assert!(3 * two < 2 * commit(1) && eight < two, "{two} {eight}");
}

/// Counts the blocks written home, and how often a transaction waited for some, after transactions of a block each.
#[test]
fn a_window_completes_when_the_machine_says() {
    const TRANSACTIONS: u64 = 64;
    let counts = |name, completes| {
        let machine = run(
            name,
            |machine| machine.persistence.window_completes = completes,
            |memory, _| {
                for number in 1..=TRANSACTIONS {
                    memory.event(Event::Begin);
                    memory.store(PersistentAddress::new(64 * number), number);
                    memory.event(Event::Commit(number));
                }
                memory.fence(Step::CommitFence);
            },
        );
        (count(&machine, "blocks_home"), count(&machine, "begin_stalls_for_home"))
    };
    use WindowCompletes::{Home, Logged};
    // H-WAL writes home in any case; the others leave that to evictions, of which there are none.
    assert_eq!(counts("h-wal", Logged), (TRANSACTIONS, 0));
    assert_eq!(counts("loc-wal", Logged), (0, 0));
    for (name, window) in [("h-wal", 1), ("ec-wal", 1), ("loc-wal", 16)] {
        // The transactions wait for all windows except the last, whose blocks are being written when the run ends, or have not been sent.
        let (home, waits) = counts(name, Home);
        assert!(home >= TRANSACTIONS - window, "{name}: {home}");
        assert_eq!(waits, TRANSACTIONS / window - 1, "{name}");
    }
    // Kiln's last level is non-volatile, so there is nothing to write home.
    assert_eq!(counts("loc-kiln", Home), counts("loc-kiln", Logged));
}

/// Windows that complete at home, with their blocks written one at a time, also survive power failures.
#[test]
fn windows_that_complete_at_home_are_recovered() {
    let change = |machine: &mut Description| {
        machine.persistence.window_completes = WindowCompletes::Home;
        machine.persistence.home_write_backs = Some(1);
    };
    for name in LOGS {
        let judged = violations_on(change, find(name), None, None, 0..4);
        assert!(judged.as_ref().is_ok_and(|&judged| judged > 500), "{name}: {judged:?}");
    }
}

/// Measures the cycles from the commit of eight blocks to the beginning of the next transaction, for several limits of write-backs home in flight.
#[test]
fn so_many_write_backs_home_are_in_flight() {
    let home = |write_backs| {
        let cycles = Cell::new(0);
        let machine = |machine: &mut Description| {
            machine.persistence.window_completes = WindowCompletes::Home;
            machine.persistence.home_write_backs = write_backs;
        };
        run("h-wal", machine, |memory, clock| {
            memory.event(Event::Begin);
            for number in 0..8 {
                memory.store(PersistentAddress::new(64 * number), 1);
            }
            memory.event(Event::Commit(1));
            let before = clock();
            memory.event(Event::Begin);
            cycles.set(clock() - before);
            memory.event(Event::Commit(2));
        });
        cycles.get()
    };
    // Each block takes 30 cycles through the levels and 168 to be written.
    assert_eq!(home(Some(1)), 8 * (30 + 168));
    assert_eq!(home(Some(2)), 4 * (30 + 168));
    assert_eq!(home(Some(8)), 30 + 168);
    // Sent like evicted lines, they go to eight banks at once.
    assert_eq!(home(None), 168);
}

/// A transaction that the hardware aborts reverts only its own stores, and none from outside transactions.
#[test]
fn an_abort_leaves_what_was_stored_outside_transactions() {
    for name in ["h-wal", "loc-wal"] {
        let machine = run(
            name,
            |_| (),
            |memory, _| {
                memory.store(PersistentAddress::new(64), 7);
                memory.event(Event::Begin);
                memory.store(PersistentAddress::new(72), 8);
                memory.event(Event::Abort);
                assert_eq!(memory.load(PersistentAddress::new(64)), 7, "{name}");
                assert_eq!(memory.load(PersistentAddress::new(72)), 0, "{name}");
            },
        );
        assert_eq!(machine.newest_word(8), 7, "{name}");
    }
}

const LOGS: [&str; 3] = ["h-wal", "ec-wal", "loc-wal"];
/// Speculation degrees besides the paper's.
const DEGREES: [u64; 5] = [2, 4, 8, 32, 64];

fn find(name: &str) -> &'static Entry {
    SCHEMES.iter().find(|entry| entry.name == name).expect("it is in the table")
}

fn survives(name: &str, degree: Option<u64>) {
    match violations(find(name), degree, None, 0..24) {
        Ok(judged) => assert!(judged > 1500, "{name}: {judged}"),
        Err(why) => panic!("{name} {degree:?}: {why}"),
    }
}

#[test]
fn power_may_fail_at_any_cycle() {
    LOGS.into_iter().for_each(|name| survives(name, None));
    DEGREES.into_iter().for_each(|degree| survives("loc-wal", Some(degree)));
}

#[test]
fn kiln_survives() {
    survives("kiln", None);
}

#[test]
fn loc_kiln_survives() {
    survives("loc-kiln", None);
    survives("loc-kiln", Some(4));
}

#[test]
fn every_rule_is_needed_in_every_system() {
    let mut missed = Vec::new();
    for entry in LOGS.into_iter().chain(["kiln", "loc-kiln"]).map(find) {
        // The others need a second life (`strandline-scheme-check/tests/all/machine.rs`).
        let alone = |mutant: &&Mutant| !BETWEEN_LIVES.contains(&mutant.name);
        for mutant in entry.mutants.iter().filter(alone) {
            if violations(entry, None, Some(mutant.name), 0..100).is_ok() {
                missed.push(format!("{} without {}", entry.name, mutant.name));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}
