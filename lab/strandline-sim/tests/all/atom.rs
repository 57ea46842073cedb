//! ATOM's mechanisms one by one, and power failures with many updates in flight.

use std::cell::RefCell;
use std::rc::Rc;

use super::support;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_sim::controller::Regions;
use strandline_sim::description::{Description, PersistenceDomain, Placement};
use strandline_sim::numbers::Cycle;

use strandline_sim::scheme::atom::redo::{self, Redo};
use strandline_sim::scheme::atom::{Atom, Design, Parameters, recover_with};
use strandline_sim::scheme::{self, BETWEEN_LIVES, HardwareScheme, Mutant, Setup};
use strandline_sim::{Announced, Contents, Machine};

const CORES: u64 = 4;
const DESIGNS: [Design; 3] = [Design::Base, Design::Posted, Design::Source];
/// Parameters with which logs overflow easily.
const TIGHT: Parameters =
    Parameters { structures: 4, buckets: 6, records: 1, grants: 400, grant_cycles: 100 };
const WORDS: u64 = 8 * 512;

/// Returns a machine with four out-of-order cores whose caches are far too small, and two controllers.
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
    threads: Vec<Thread<'_>>,
) -> Rc<Machine> {
    let contents =
        Contents { persistent: vec![0; WORDS as usize], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(description, contents, scheme, None).unwrap());
    machine.run(threads);
    machine
}

fn run(design: Design, parameters: Parameters, threads: Vec<Thread<'_>>) -> Rc<Machine> {
    let description = machine();
    let setup = Setup { machine: &description, omitted: None };
    let scheme = Atom::new(design, parameters, &setup).unwrap();
    run_on(&description, Some(Box::new(scheme)), threads)
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

/// Runs an update that stores to these lines, and flushes them.
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
    // Lines 0 to 3 and 8 to 11 belong to controller 0.
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
        let machine = run(design, Parameters::PAPER, seven());
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
            Parameters::PAPER,
            one(move |memory| {
                memory.event(Event::Begin);
                for _ in 0..2 {
                    // Every four of these lines compete for one set of two ways; the first of the 4 sets has the lines 0, 4, 8...
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
        Parameters::PAPER,
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
        Parameters::PAPER,
        one(|memory| {
            update(memory, 0..1);
            update(memory, 0..1);
        }),
    );
    assert_eq!(count(&machine, "log entries"), 2);
}

/// Returns the cycles of one store to a line in the first level.
fn store_cycles(design: Option<Design>) -> u64 {
    let description = machine();
    let setup = Setup { machine: &description, omitted: None };
    let scheme = design.map(|design| Atom::new(design, Parameters::PAPER, &setup).unwrap());
    let cycles = Rc::new(std::cell::Cell::new(0));
    let told = cycles.clone();
    let clock = |memory: &Hosted| memory.fetch_add(VolatileAddress::new(0), 1);
    let machine = run_on(
        &description,
        scheme.map(|scheme| Box::new(scheme) as Box<dyn HardwareScheme>),
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
    machine.clock(0).number()
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
    let machine = run(Design::Posted, Parameters::PAPER, one(|memory| update(memory, 0..2)));
    assert_eq!(count(&machine, "headers written early"), 1, "the other line finds the header written");
    assert_eq!(count(&machine, "lines held back behind the log"), 2);
}

#[test]
fn what_a_store_fetches_from_memory_is_logged_there() {
    let source_logged = |design, load_first: bool| {
        let machine = run(
            design,
            Parameters::PAPER,
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
        Parameters { structures: 33, ..Parameters::PAPER },
        Parameters { buckets: 257, ..Parameters::PAPER },
        Parameters { buckets: 32, ..Parameters::PAPER },
        Parameters { records: 0, ..Parameters::PAPER },
        Parameters { grants: 10_000, ..Parameters::PAPER },
    ] {
        assert!(Atom::new(Design::Posted, parameters, &setup).is_err(), "{parameters:?}");
    }
}

/// The load of each thread.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The number of lines of its own that an update stores to.
    own: u64,
    /// True if it also takes a lock and stores a ticket to lines that all threads share.
    shared: bool,
    updates: u64,
}

/// An update has more lines than records and caches hold; updates of all threads are in flight together.
const LONG: Load = Load { own: 20, shared: false, updates: 12 };
const SHARED: Load = Load { shared: true, ..LONG };
/// Updates that follow one another before REDO has copied them.
const SHORT: Load = Load { own: 2, shared: false, updates: 100 };

/// Returns the lines of a thread, which are interleaved with those of others.
fn own(load: Load, thread: u64) -> impl Iterator<Item = u64> + Clone {
    (0..load.own).map(move |i| thread * 40 + 2 * i)
}

fn shared() -> impl Iterator<Item = u64> + Clone {
    (0..3).map(|i| 200 + 5 * i)
}

/// Runs updates. Each stores its number to all lines of its thread, twice, and a ticket to the shared ones.
fn work(memory: &Hosted, load: Load, thread: u64, flushes: bool) {
    let lock = VolatileAddress::new(64);
    for number in 1..=load.updates {
        if load.shared {
            memory.lock(lock);
        }
        memory.event(Event::Begin);
        if load.shared {
            let ticket = memory.load(line(200)) + 1;
            shared().for_each(|at| memory.store(line(at), ticket));
        }
        for value in [1 << 40 | number, number] {
            own(load, thread).for_each(|at| memory.store(line(at), value));
        }
        if flushes {
            flush(memory, own(load, thread).chain(shared().filter(|_| load.shared)));
        }
        memory.event(Event::Commit(number));
        memory.event(Event::Acknowledged(number));
        if load.shared {
            memory.unlock(lock);
        }
    }
}

/// The state after a crash and recovery.
struct Left {
    at: Cycle,
    events: usize,
    pool: Result<Vec<u64>, String>,
}

/// Returns what is wrong with the state.
fn judge(left: &Left, events: &[Announced], load: Load) -> Result<(), String> {
    let pool = left.pool.as_ref().map_err(|why| format!("at {}: {why}", left.at))?;
    let before = &events[..left.events];
    let values = |lines: &mut dyn Iterator<Item = u64>| lines.map(|at| pool[8 * at as usize]).collect();
    let (mut all_acknowledged, mut all_entered) = (0, 0);
    let check = |values: Vec<u64>, acknowledged: u64, entered: u64| {
        let whole = values.iter().all(|&value| value == values[0]);
        if whole && (acknowledged..=entered).contains(&values[0]) {
            return Ok(());
        }
        Err(format!("at {}: {values:x?}, of {acknowledged} to {entered}", left.at))
    };
    for thread in 0..CORES {
        let last = |of: fn(Event) -> Option<u64>| {
            let own = before.iter().filter(|told| told.thread as u64 == thread);
            own.filter_map(|told| of(told.event)).max().unwrap_or(0)
        };
        let acknowledged = last(|event| if let Event::Acknowledged(n) = event { Some(n) } else { None });
        let entered = last(|event| if let Event::Commit(n) = event { Some(n) } else { None });
        check(values(&mut own(load, thread)), acknowledged, entered)?;
        all_acknowledged += acknowledged;
        all_entered += entered;
    }
    if load.shared { check(values(&mut shared()), all_acknowledged, all_entered) } else { Ok(()) }
}

/// The system to crash.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Atom(Design, Parameters),
    /// REDO with rings of so many lines.
    Redo(u64),
}

/// Fails the power at regular intervals. Returns how many crashes were judged, and the first wrong one.
fn crash(
    description: &Description,
    subject: Subject,
    omitted: Option<&'static str>,
    load: Load,
    step: usize,
) -> (usize, Option<String>) {
    let setup = Setup { machine: description, omitted };
    let scheme: Box<dyn HardwareScheme> = match subject {
        Subject::Atom(design, parameters) => Box::new(Atom::new(design, parameters, &setup).unwrap()),
        Subject::Redo(lines) => Box::new(Redo::new(lines, &setup).unwrap()),
    };
    let flushes = matches!(subject, Subject::Atom(..));
    let contents =
        Contents { persistent: vec![0; WORDS as usize], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(description, contents, Some(scheme), None).unwrap());
    machine.record_events();
    machine.crash_at((1..300_000).step_by(step).map(Cycle::new).collect());
    let found = Rc::new(RefCell::new(Vec::new()));
    let (into, own_description) = (found.clone(), description.clone());
    machine.on_crash(move |crash| {
        let setup = Setup { machine: &own_description, omitted };
        let mut image = crash.image;
        let (pool, reserved) = image.split_at_mut(WORDS as usize);
        let recover = |pool: &mut [u64], reserved: &mut [u64]| match subject {
            Subject::Atom(_, parameters) => recover_with(parameters, &setup, pool, reserved),
            Subject::Redo(lines) => redo::recover_with(lines, &setup, pool, reserved),
        };
        // The second recovery has nothing left to do.
        let recovered = recover(pool, reserved).and_then(|()| recover(pool, reserved));
        let pool = recovered.map(|()| pool.to_vec());
        into.borrow_mut().push(Left { at: crash.at, events: crash.events, pool });
    });
    let bodies = (0..CORES)
        .map(|thread| Box::new(move |memory: &Hosted| work(memory, load, thread, flushes)) as Thread<'_>);
    machine.run(bodies.collect());
    let events = machine.take_events();
    let found = found.borrow();
    (found.len(), found.iter().find_map(|left| judge(left, &events, load).err()))
}

const ROOMY: Parameters = Parameters { structures: 3, buckets: 40, records: 8, grants: 8, grant_cycles: 100 };

/// Returns what all designs lose in a domain.
fn losses(domain: PersistenceDomain) -> Vec<String> {
    let atoms = DESIGNS.into_iter().flat_map(|design| [TIGHT, ROOMY].map(|p| Subject::Atom(design, p)));
    let (mut judged, mut losses) = (0, Vec::new());
    for subject in atoms.chain([Subject::Redo(64), Subject::Redo(600)]) {
        for load in [LONG, SHARED, SHORT] {
            let mut description = machine();
            description.persistence.domain = domain;
            if let Subject::Redo(64) = subject {
                description.controllers.backend_window = 1;
            }
            let (crashes, wrong) = crash(&description, subject, None, load, 449);
            losses.extend(wrong.map(|wrong| format!("{subject:?} {load:?}: {wrong}")));
            judged += crashes;
        }
    }
    assert!(judged > 2500, "{judged}");
    losses
}

#[test]
fn power_may_fail_at_any_cycle_with_many_updates_in_flight() {
    assert_eq!(losses(PersistenceDomain::Media), Vec::<String>::new());
}

#[test]
fn power_may_fail_at_any_cycle_where_the_controllers_queues_survive() {
    assert_eq!(losses(PersistenceDomain::Adr), Vec::<String>::new());
}

/// REDO-2C and ATOM-OPT-2C: a second channel of each controller, for the log.
#[test]
fn power_may_fail_at_any_cycle_with_a_channel_for_the_log() {
    let mut description = machine();
    description.controllers.channels = 2;
    description.controllers.log_channel = true;
    let (mut judged, mut losses) = (0, Vec::new());
    for subject in
        [Subject::Atom(Design::Source, TIGHT), Subject::Atom(Design::Source, ROOMY), Subject::Redo(64)]
    {
        for domain in [PersistenceDomain::Media, PersistenceDomain::Adr] {
            description.persistence.domain = domain;
            for load in [LONG, SHARED, SHORT] {
                let (crashes, wrong) = crash(&description, subject, None, load, 449);
                losses.extend(wrong.map(|wrong| format!("{subject:?} {load:?} {domain:?}: {wrong}")));
                judged += crashes;
            }
        }
    }
    assert!(judged > 1200, "{judged}");
    assert_eq!(losses, Vec::<String>::new());
}

/// Returns after how many cycles a core's updates of one of eight lines each are home. So many controllers' back ends copy them, and wait long for
/// the log.
fn copied(controllers: usize, window: usize, domain: PersistenceDomain) -> u64 {
    let mut description = machine();
    description.persistence.domain = domain;
    description.controllers.match_latency = u64::from(domain == PersistenceDomain::Media);
    description.controllers.count = controllers;
    description.controllers.backend_window = window;
    description.nvm.read_ns = 4000.0;
    let setup = Setup { machine: &description, omitted: None };
    let redo: Box<dyn HardwareScheme> = Box::new(Redo::new(1024, &setup).unwrap());
    let contents =
        Contents { persistent: vec![0; WORDS as usize], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(&description, contents, Some(redo), None).unwrap());
    let until = Rc::new(std::cell::Cell::new(0));
    let (running, ended) = (machine.clone(), until.clone());
    machine.run(one(move |memory| {
        for number in 0..64 {
            memory.event(Event::Begin);
            memory.store(line(number % 8), number);
            memory.event(Event::Commit(number + 1));
        }
        while running.is_busy(0) {
            memory.work(10);
        }
        ended.set(running.clock(0).number());
    }));
    until.get()
}

#[test]
fn each_controller_has_a_back_end_of_its_own() {
    let copied_on = |controllers, window| copied(controllers, window, PersistenceDomain::Media);
    let (alone, four, wide) = (copied_on(1, 1), copied_on(4, 1), copied_on(1, 8));
    assert!(2 * four < alone, "{four} with four controllers, {alone} with one");
    assert!(2 * wide < alone, "{wide} with eight updates at a time, {alone} with one");
}

/// If write queues survive, they hold durable data and answer immediately.
#[test]
fn a_back_end_reads_logs_that_are_still_in_the_queues() {
    let (media, queues) = (copied(2, 32, PersistenceDomain::Media), copied(2, 32, PersistenceDomain::Adr));
    assert!(queues < media, "{queues} {media}");
}

/// A run ends with advice if its updates do not fit, even with grants.
#[test]
fn a_log_that_is_full_ends_the_run() {
    let description = machine();
    let setup = Setup { machine: &description, omitted: None };
    let parameters = Parameters { structures: 1, buckets: 2, records: 1, grants: 1, grant_cycles: 100 };
    let redo: Box<dyn HardwareScheme> = Box::new(Redo::new(8, &setup).unwrap());
    let atom: Box<dyn HardwareScheme> = Box::new(Atom::new(Design::Posted, parameters, &setup).unwrap());
    for scheme in [atom, redo] {
        let run = std::panic::AssertUnwindSafe(|| {
            run_on(&description, Some(scheme), one(|memory| update(memory, 0..200)));
        });
        let ended = std::panic::catch_unwind(run).expect_err("the log is too small");
        let why = ended.downcast::<scheme::Exhausted>().expect("the log says why");
        assert!(why.0.contains("smaller"), "{}", why.0);
    }
}

#[test]
fn every_mutant_is_found_broken() {
    let mut description = machine();
    // Not at the same distance from every core.
    description.controllers.placement = Placement::Edge;
    let atom = |design| [TIGHT, ROOMY].map(|parameters| Subject::Atom(design, parameters));
    let mut survivors = Vec::new();
    for (subjects, entry) in [
        (atom(Design::Base), "atom-base"),
        (atom(Design::Posted), "atom"),
        (atom(Design::Source), "atom-opt"),
        ([Subject::Redo(600), Subject::Redo(64)], "atom-redo"),
    ] {
        // The others need a second life (`strandline-scheme-check/tests/all/machine.rs`, `atom/recovery.rs`).
        let alone = |mutant: &&Mutant| !BETWEEN_LIVES.contains(&mutant.name);
        for mutant in scheme::find(entry).unwrap().mutants.iter().filter(alone) {
            // This mutant shows only in a few cycles of an update.
            let step = if mutant.name == "end-flag" { 41 } else { 211 };
            let found = subjects.into_iter().any(|subject| {
                [LONG, SHORT, SHARED]
                    .into_iter()
                    .any(|load| crash(&description, subject, Some(mutant.name), load, step).1.is_some())
            });
            if !found {
                survivors.push((entry, mutant.name));
            }
        }
    }
    assert_eq!(survivors, []);
}
