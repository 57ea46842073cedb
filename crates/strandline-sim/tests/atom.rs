//! ATOM's mechanisms, one by one, and power failures with many updates in flight.

mod support;

use std::rc::Rc;

use strandline::memory::hosted::Thread;
use strandline::memory::{Event, Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_sim::controller::Regions;
use strandline_sim::description::{Description, PersistenceDomain};

use strandline_sim::scheme::atom::{Atom, Design, Parameters, recover_with};
use strandline_sim::scheme::{self, HardwareScheme, Setup};
use strandline_sim::{Announced, Contents, Crash, Machine};

const CORES: u64 = 4;
const DESIGNS: [Design; 3] = [Design::Base, Design::Posted, Design::Source];
/// Logs that overflow easily.
const TIGHT: Parameters =
    Parameters { structures: 4, buckets: 6, records: 1, grants: 400, grant_cycles: 100 };
const WORDS: u64 = 8 * 512;

/// Four out-of-order cores whose caches are far too small, and two controllers.
fn machine() -> Description {
    let mut machine = support::mesh(CORES as usize);
    machine.caches = vec![support::private("L1", 512, 2, 3), support::shared("L2", 4096, 4, 30, 4)];
    machine.controllers.count = 2;
    machine.controllers.interleave_bytes = 256;
    machine
}

fn line(number: u64) -> PersistentAddress {
    PersistentAddress::new(64 * number)
}

fn run_on(
    description: &Description,
    scheme: Option<Box<dyn HardwareScheme>>,
    crash_at: Vec<u64>,
    threads: Vec<Thread<'_>>,
) -> Rc<Machine> {
    let contents =
        Contents { persistent: vec![0; WORDS as usize], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(description, contents, scheme, None).unwrap());
    machine.record_events();
    machine.crash_at(crash_at);
    machine.run(threads);
    machine
}

fn run(design: Design, parameters: Parameters, threads: Vec<Thread<'_>>) -> Rc<Machine> {
    let description = machine();
    let setup = Setup { machine: &description, omitted: None };
    let scheme = Atom::new(design, parameters, &setup).unwrap();
    run_on(&description, Some(Box::new(scheme)), Vec::new(), threads)
}

fn count(machine: &Machine, name: &str) -> u64 {
    let all = machine.statistics().scheme;
    all.iter().find(|(other, _)| other == name).unwrap_or_else(|| panic!("no {name} in {all:?}")).1
}

fn flush(memory: &Hosted, lines: impl Iterator<Item = u64>) {
    for number in lines {
        memory.write_back(line(number), Step::HomeWriteBack);
    }
    memory.fence(Step::HomeFence);
}

/// An update that stores to these lines, and flushes them.
fn update(memory: &Hosted, lines: std::ops::Range<u64>) {
    memory.event(Event::Begin);
    for number in lines.clone() {
        memory.store(line(number), 1);
    }
    flush(memory, lines);
    memory.event(Event::Commit(1));
}

fn one(body: impl FnOnce(&Hosted) + 'static) -> Vec<Thread<'static>> {
    vec![Box::new(body)]
}

#[test]
fn seven_entries_share_a_header_but_for_base() {
    // Lines 0 to 3 and 8 to 11 have controller 0.
    let seven = || {
        one(|memory| {
            memory.event(Event::Begin);
            for number in [0, 1, 2, 3, 8, 9, 10] {
                memory.store(line(number), 1);
            }
            memory.event(Event::Commit(1));
        })
    };
    for (design, records, writes) in [(Design::Base, 7, 14), (Design::Posted, 1, 8)] {
        let machine = run(design, Parameters::default(), seven());
        assert_eq!(count(&machine, "log entries"), 7, "{design:?}");
        assert_eq!(count(&machine, "log records"), records, "{design:?}");
        assert_eq!(machine.statistics().traffic.scheme.log, writes, "{design:?}");
        assert_eq!(count(&machine, "headers written early"), 0, "{design:?}");
    }
}

#[test]
fn a_line_is_logged_once_while_it_stays_in_the_first_level() {
    let logged = |lines: u64| {
        let machine = run(
            Design::Posted,
            Parameters::default(),
            one(move |memory| {
                memory.event(Event::Begin);
                for _ in 0..2 {
                    // Four of them in one set of two ways; the first set of 4 is that of the lines 0, 4, 8...
                    for i in 0..lines {
                        memory.store(line(4 * i), 1);
                        memory.store(line(4 * i).word(1), 1);
                    }
                }
                memory.event(Event::Commit(1));
            }),
        );
        count(&machine, "log entries")
    };
    assert_eq!(logged(2), 2);
    assert_eq!(logged(4), 8, "evicted, they lost their log bits");
}

#[test]
fn nothing_is_logged_outside_updates_and_inner_ends_end_nothing() {
    let machine = run(
        Design::Posted,
        Parameters::default(),
        one(|memory| {
            memory.store(line(0), 1);
            memory.event(Event::Begin);
            memory.event(Event::Begin);
            memory.store(line(1), 1);
            memory.event(Event::Commit(1));
            memory.store(line(2), 1);
            memory.event(Event::Commit(2));
            memory.store(line(3), 1);
            memory.store(VolatileAddress::new(64), 1);
        }),
    );
    assert_eq!(count(&machine, "log entries"), 2);
    assert_eq!(count(&machine, "atomic updates"), 1);
}

#[test]
fn the_next_update_logs_a_line_again() {
    let machine = run(
        Design::Posted,
        Parameters::default(),
        one(|memory| {
            update(memory, 0..1);
            update(memory, 0..1);
        }),
    );
    assert_eq!(count(&machine, "log entries"), 2);
}

/// Cycles of one store to a line in the first level.
fn store_cycles(design: Option<Design>) -> u64 {
    let description = machine();
    let setup = Setup { machine: &description, omitted: None };
    let scheme = design.map(|design| Atom::new(design, Parameters::default(), &setup).unwrap());
    let cycles = Rc::new(std::cell::Cell::new(0));
    let told = cycles.clone();
    let clock = |memory: &Hosted| memory.fetch_add(VolatileAddress::new(0), 1);
    let machine = run_on(
        &description,
        scheme.map(|scheme| Box::new(scheme) as Box<dyn HardwareScheme>),
        Vec::new(),
        one(move |memory| {
            memory.load(line(0));
            memory.event(Event::Begin);
            clock(memory);
            memory.store(line(0), 1);
            // Drains the store queue.
            clock(memory);
            memory.event(Event::Abort);
            told.set(1);
        }),
    );
    assert_eq!(cycles.get(), 1);
    machine.clock(0)
}

#[test]
fn a_posted_entry_does_not_wait_for_the_medium() {
    let plain = store_cycles(None);
    let posted = store_cycles(Some(Design::Posted));
    let base = store_cycles(Some(Design::Base));
    let write = 360;
    assert!(posted > plain && posted < plain + write / 2, "{plain} {posted}");
    assert!(base >= plain + write, "{plain} {base}");
}

#[test]
fn a_line_on_its_way_home_forces_its_header_out() {
    let machine = run(Design::Posted, Parameters::default(), one(|memory| update(memory, 0..2)));
    assert_eq!(count(&machine, "headers written early"), 1, "the other line finds the header written");
    assert_eq!(count(&machine, "lines held back behind the log"), 2);
}

#[test]
fn what_a_store_fetches_from_memory_is_logged_there() {
    let source_logged = |design, load_first: bool| {
        let machine = run(
            design,
            Parameters::default(),
            one(move |memory| {
                if load_first {
                    memory.load(line(0));
                }
                update(memory, 0..1);
            }),
        );
        assert_eq!(count(&machine, "log entries"), 1);
        count(&machine, "of them source-logged")
    };
    assert_eq!(source_logged(Design::Source, false), 1);
    assert_eq!(source_logged(Design::Source, true), 0);
    assert_eq!(source_logged(Design::Posted, false), 0);
}

#[test]
fn without_a_free_structure_updates_wait() {
    let threads = (0..CORES).map(|i| Box::new(move |memory: &Hosted| update(memory, 8 * i..8 * i + 3)));
    let parameters = Parameters { structures: 1, ..TIGHT };
    let machine = run(Design::Posted, parameters, threads.map(|body| body as Thread<'_>).collect());
    assert!(count(&machine, "structural overflows") > 0);
    assert_eq!(count(&machine, "atomic updates"), CORES);
}

#[test]
fn a_log_without_free_buckets_is_granted_pages() {
    let machine = run(Design::Posted, TIGHT, one(|memory| update(memory, 0..200)));
    assert!(count(&machine, "log overflows") > 5);
    assert!((0..200).all(|number| machine.newest_word(8 * number) == 1));
}

#[test]
fn impossible_sizes_are_refused() {
    let description = machine();
    let setup = Setup { machine: &description, omitted: None };
    for parameters in [
        Parameters { structures: 33, ..Parameters::default() },
        Parameters { buckets: 257, ..Parameters::default() },
        Parameters { buckets: 32, ..Parameters::default() },
        Parameters { records: 0, ..Parameters::default() },
        Parameters { grants: 10_000, ..Parameters::default() },
    ] {
        assert!(Atom::new(Design::Posted, parameters, &setup).is_err(), "{parameters:?}");
    }
}

/// Lines of each thread, and lines that all share under a lock.
const OWN: u64 = 20;
const SHARED: u64 = 3;
const UPDATES: u64 = 12;

/// Update `number` stores its number to all lines of its thread, each twice, and a ticket to the shared ones.
fn work(memory: &Hosted, thread: u64) {
    let first = thread * 2 * OWN;
    let lock = VolatileAddress::new(64);
    let shared = || (0..SHARED).map(|i| CORES * 2 * OWN + 5 * i);
    for number in 1..=UPDATES {
        memory.lock(lock);
        memory.event(Event::Begin);
        let ticket = memory.load(line(CORES * 2 * OWN)) + 1;
        for at in shared() {
            memory.store(line(at), ticket);
        }
        for value in [1 << 40 | number, number] {
            for i in 0..OWN {
                memory.store(line(first + 2 * i), value);
            }
        }
        flush(memory, (0..OWN).map(|i| first + 2 * i).chain(shared()));
        memory.event(Event::Commit(number));
        memory.event(Event::Acknowledged(number));
        memory.unlock(lock);
    }
}

/// The same without what is shared, so that updates of all threads are in flight together.
fn work_alone(memory: &Hosted, thread: u64) {
    let first = thread * 2 * OWN;
    for number in 1..=UPDATES {
        memory.event(Event::Begin);
        for value in [1 << 40 | number, number] {
            for i in 0..OWN {
                memory.store(line(first + 2 * i), value);
            }
        }
        flush(memory, (0..OWN).map(|i| first + 2 * i));
        memory.event(Event::Commit(number));
        memory.event(Event::Acknowledged(number));
    }
}

/// What is wrong with the pool after a crash and recovery.
fn judge(pool: &[u64], crash: &Crash, events: &[Announced], shared: bool) -> Result<(), String> {
    let before = &events[..crash.events];
    let (mut all_acknowledged, mut all_entered) = (0, 0);
    for thread in 0..CORES {
        let last = |of: fn(Event) -> Option<u64>| {
            let own = before.iter().filter(|told| told.thread as u64 == thread);
            own.filter_map(|told| of(told.event)).max().unwrap_or(0)
        };
        let acknowledged = last(|event| if let Event::Acknowledged(n) = event { Some(n) } else { None });
        let entered = last(|event| if let Event::Commit(n) = event { Some(n) } else { None });
        let values: Vec<u64> = (0..OWN).map(|i| pool[8 * (thread * 2 * OWN + 2 * i) as usize]).collect();
        if values.iter().any(|&value| value != values[0]) {
            return Err(format!("torn at {}: {values:x?}", crash.at));
        }
        if values[0] < acknowledged || values[0] > entered {
            return Err(format!("at {}: {} of {acknowledged}..{entered}", crash.at, values[0]));
        }
        all_acknowledged += acknowledged;
        all_entered += entered;
    }
    if shared {
        let tickets: Vec<u64> = (0..SHARED).map(|i| pool[8 * (CORES * 2 * OWN + 5 * i) as usize]).collect();
        let whole = tickets.iter().all(|&ticket| ticket == tickets[0]);
        if !whole || tickets[0] < all_acknowledged || tickets[0] > all_entered {
            return Err(format!("at {}: tickets {tickets:?} of {all_acknowledged}..{all_entered}", crash.at));
        }
    }
    Ok(())
}

/// Lets power fail at many cycles; how many crashes were judged, and the first that was wrong.
fn crash(
    description: &Description,
    design: Design,
    parameters: Parameters,
    omitted: Option<&'static str>,
    shared: bool,
) -> (usize, Option<String>) {
    let setup = Setup { machine: description, omitted };
    let scheme = Atom::new(design, parameters, &setup).unwrap();
    let bodies = (0..CORES).map(|thread| {
        Box::new(
            move |memory: &Hosted| if shared { work(memory, thread) } else { work_alone(memory, thread) },
        ) as Thread<'_>
    });
    let crash_at = (1..1500).map(|i| i * 211).collect();
    let machine = run_on(description, Some(Box::new(scheme)), crash_at, bodies.collect());
    let events = machine.take_events();
    let crashes = machine.take_crashes();
    let judged = crashes.len();
    let wrong = crashes.into_iter().find_map(|crash| {
        let mut image = crash.image.clone();
        let (pool, reserved) = image.split_at_mut(WORDS as usize);
        let recovered = recover_with(parameters, &setup, pool, reserved)
            // A second time: nothing is left to do.
            .and_then(|()| recover_with(parameters, &setup, pool, reserved));
        recovered.and_then(|()| judge(pool, &crash, &events, shared)).err()
    });
    (judged, wrong)
}

#[test]
fn power_may_fail_at_any_cycle_with_many_updates_in_flight() {
    let mut judged = 0;
    for design in DESIGNS {
        for parameters in [TIGHT, Parameters { structures: 3, ..Parameters::default() }] {
            for shared in [false, true] {
                for domain in [PersistenceDomain::Media, PersistenceDomain::Adr] {
                    let mut description = machine();
                    description.persistence.domain = domain;
                    let (crashes, wrong) = crash(&description, design, parameters, None, shared);
                    assert_eq!(wrong, None, "{design:?} {parameters:?} {domain:?} shared {shared}");
                    judged += crashes;
                }
            }
        }
    }
    assert!(judged > 5000, "{judged}");
}

#[test]
fn every_mutant_is_found_broken() {
    for (design, entry) in
        [(Design::Base, "atom-base"), (Design::Posted, "atom"), (Design::Source, "atom-opt")]
    {
        for mutant in scheme::find(entry).unwrap().mutants {
            let found = [TIGHT, Parameters::default()].into_iter().any(|parameters| {
                crash(&machine(), design, parameters, Some(mutant.name), false).1.is_some()
            });
            assert!(found, "{entry} without: {}", mutant.rule);
        }
    }
}
