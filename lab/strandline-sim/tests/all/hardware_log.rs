//! Compares the bytes that hardware schemes write to their logs with counts derived by reasoning, for a transaction that stores a word in each of ten
//! lines. A line has 64 bytes.

use std::rc::Rc;

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step};
use strandline_sim::controller::Regions;
use strandline_sim::description::Description;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme::{SCHEMES, Setup};
use strandline_sim::{Contents, Machine, Statistics};
use strandline_workloads::{SPS, Sizes};

use super::support;

const LINES: u64 = 10;

fn line(number: u64) -> PersistentAddress {
    PersistentAddress::new(64 * number)
}

/// Runs a program under the hardware scheme of this name, until the hardware has nothing left to do.
fn run(description: &Description, scheme: &str, program: impl Fn(&Hosted)) -> Statistics {
    let setup = Setup { machine: description, omitted: None };
    let scheme = SCHEMES.of_name(scheme).unwrap().build(&setup).unwrap();
    let contents =
        Contents { persistent: vec![0; 8 * 64], volatile_bytes: 4096, regions: Regions::default() };
    let machine = Rc::new(Machine::new(description, contents, scheme, None).unwrap());
    let inside = machine.clone();
    let thread: Thread<'_> = Box::new(move |memory: &Hosted| {
        program(memory);
        while inside.is_busy(0) {
            memory.work(100);
        }
    });
    machine.run(vec![thread]);
    machine.statistics()
}

fn store(memory: &Hosted, lines: std::ops::Range<u64>) {
    memory.event(Event::Begin);
    lines.for_each(|number| memory.store(line(number), 1));
}

/// Runs a transaction of ten lines, which is durable at its end.
fn transaction(memory: &Hosted) {
    store(memory, 0..LINES);
    memory.event(Event::Commit(1));
    memory.fence(Step::CommitFence);
}

/// Like [`transaction`], for a program that writes its lines back before it commits.
fn flushed_transaction(memory: &Hosted) {
    store(memory, 0..LINES);
    (0..LINES).for_each(|number| memory.write_back(line(number), Step::HomeWriteBack));
    memory.fence(Step::HomeFence);
    memory.event(Event::Commit(1));
}

#[test]
fn atom_writes_old_values_and_headers() {
    let bytes = |scheme| run(&support::small(1), scheme, flushed_transaction).hardware_log_bytes;
    // Ten old values, a header for the first seven, and one for the other three when the first of them goes home.
    assert_eq!(bytes("atom"), 64 * (10 + 2));
    assert_eq!(bytes("atom-opt"), 64 * (10 + 2));
    // There is a header for each old value.
    assert_eq!(bytes("atom-base"), 64 * (10 + 10));
}

#[test]
fn redo_combines_four_entries_in_a_line() {
    // Ten words and the commit are eleven entries, which fill three lines; one more line holds the commit up to which all are home.
    assert_eq!(run(&support::small(1), "atom-redo", transaction).hardware_log_bytes, 64 * (3 + 1));
}

#[test]
fn wrap_writes_records_and_an_entry_of_the_log() {
    for scheme in ["wrap", "wrap-combined", "wrap-evaluated", "wrap-buffer-of-one"] {
        // Ten records of an address and a value, and an entry of one word.
        let bytes = run(&support::small(1), scheme, transaction).hardware_log_bytes;
        assert_eq!(bytes, 16 * 10 + 8, "{scheme}");
    }
    // A bucket has 63 records, one to a line. The 64th is in a second bucket, which one word links.
    let stores = |memory: &Hosted| {
        memory.event(Event::Begin);
        (0..64).for_each(|number| memory.store(line(number % LINES).word(number / LINES), 1));
        memory.event(Event::Commit(1));
    };
    assert_eq!(run(&support::small(1), "wrap", stores).hardware_log_bytes, 16 * 64 + 8 + 8);
}

#[test]
fn the_undo_log_writes_an_entry_for_each_store_and_a_mark() {
    // An entry has three words, and the mark of the commit one.
    assert_eq!(run(&support::small(1), "undo-log", transaction).hardware_log_bytes, 24 * 10 + 8);
}

#[test]
fn loose_ordering_writes_blocks_and_the_metadata_of_their_groups() {
    let bytes = |scheme| run(&support::three_levels(), scheme, transaction).hardware_log_bytes;
    // Groups of seven blocks have a line of metadata each; H-WAL's commit record is one more.
    assert_eq!(bytes("h-wal"), 64 * (10 + 2 + 1));
    assert_eq!(bytes("ec-wal"), 64 * (10 + 2));
    assert_eq!(bytes("loc-wal"), 64 * (10 + 2));
    // The last level keeps the blocks.
    assert_eq!(bytes("kiln"), 0);
    assert_eq!(bytes("loc-kiln"), 0);
    // A second transaction of the window stores to the first line again: its new version takes the old one's place, and a block of dependency pairs
    // is added.
    let overlapping = |memory: &Hosted| {
        store(memory, 0..LINES);
        memory.event(Event::Commit(1));
        store(memory, 0..1);
        memory.event(Event::Commit(2));
        memory.fence(Step::CommitFence);
    };
    let found = run(&support::three_levels(), "loc-wal", overlapping);
    assert_eq!(found.hardware_log_bytes, 64 * (9 + 1 + 1 + 2));
}

/// Nothing is counted before the region of interest; the result includes the count beside that of software's logs.
#[test]
fn the_result_has_the_logs_of_hardware_and_of_software() {
    let machine = strandline_sim::file::load("loc", &[""; 0]).unwrap();
    let pool = PoolSizes { log_bytes: 1 << 16, chunk_bytes: 1 << 14, lock_bits: 8 };
    let prepared = Prepared::new(&SPS, &Sizes::small(), pool, 1).unwrap();
    let find = |hardware: &str, scheme: &str, transactions| {
        let scheme = scheme.parse().unwrap();
        let run = Run { scheme, threads: 1, transactions, warm_up: 50, idle_percent: 0, seed: 3 };
        let hardware = SCHEMES.of_name(hardware).unwrap();
        prepared.run(&machine, hardware, &run, Vec::new()).unwrap().outcome
    };
    let undo = find("undo-log", "plain", 100);
    assert_eq!(undo.statistics.cores[0].stores, 200, "a swap stores two words");
    assert_eq!(undo.statistics.hardware_log_bytes, 100 * (2 * 24 + 8));
    assert_eq!(undo.log_bytes_per_tx, 56.0);
    // Persist buffers have no log of their own: they order the software's log.
    let buffered = find("persist-epoch", "sct-epoch", 100);
    assert_eq!(buffered.statistics.hardware_log_bytes, 0);
    assert!(buffered.log_bytes_per_tx >= 32.0, "{}", buffered.log_bytes_per_tx);
    let alone = find("none", "volatile", 100);
    assert_eq!(alone.log_bytes_per_tx, 0.0);
}
