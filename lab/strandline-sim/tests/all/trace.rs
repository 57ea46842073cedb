//! Traces of users' programs, as valgrind's lackey prints them and in the binary format: what the machine counts, and what is refused.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use strandline_sim::Description;
use strandline_sim::addresses::PAGE_BYTES;
use strandline_sim::file::load;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::scheme::find;
use strandline_sim::trace::lackey::record;
use strandline_sim::trace::{Finished, Header, Outcome, Record, TraceError, Writer, binary, run, run_with};
use strandline_workloads::{HASH, Sizes};

fn trace(text: &str) -> Result<Finished, TraceError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, text).unwrap();
    run_on(&path, "loc", "none")
}

fn run_on(path: &Path, machine: &str, hardware: &str) -> Result<Finished, TraceError> {
    let hardware = find(hardware).unwrap();
    run(path, &load(machine, &[""; 0]).unwrap(), hardware)
}

#[test]
fn hits_and_misses_of_a_trace_by_hand() {
    let text =
        "==1== Lackey\nI  0401,3\n L 1ffefff000,8\n S 1ffefff008,8\nI  0404,2\n M 1ffefff03c,8\n L 20,4\n";
    let finished = trace(text).unwrap();
    let outcome = finished.outcome;
    // The modification crosses a line: two words are loaded and two stored.
    let core = outcome.statistics.cores[0];
    assert_eq!((core.loads, core.stores), (4, 3));
    assert_eq!(finished.accesses, 7);
    assert_eq!(core.instructions, 2, "those that lackey counts, whatever they access");
    // The line of 1ffefff000, the next one, and that of 20.
    assert_eq!(outcome.statistics.levels[0].total.misses, 3);
    assert_eq!(outcome.statistics.levels[0].total.hits, 4);
    assert_eq!((outcome.records, outcome.pages), (6, 2));
}

/// Two transactions on two lines of the pool. A word outside the pool is not in the pool's memory.
const MARKED: &str = "**1** strandline persistent 0x10000,4096\n S 10000,8\n**1** strandline begin\n S 10008,8\n \
                      S 20000,8\n S 10040,4\n**1** strandline commit\n**1** strandline begin\n S 10008,8\n\
                      **1** strandline abort\n**1** strandline begin\n L 10000,8\n**1** strandline commit\n";

#[test]
fn hardware_sees_the_transactions_of_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, MARKED).unwrap();
    let lines = |machine, hardware| {
        let outcome = run_on(&path, machine, hardware).unwrap().outcome;
        assert_eq!((outcome.transactions, outcome.pages, outcome.hardware), (2, 2, hardware));
        let traffic = outcome.statistics.traffic;
        (traffic.scheme.total(), traffic.forced_write_back.total())
    };
    assert_eq!(lines("wrap", "none"), (0, 0));
    // There is a record for each of the three stores to the pool in transactions, and the entry that closes a wrap.
    let (records, flushes) = lines("wrap", "wrap");
    assert!(records > 3 && flushes == 0, "{records}");
    // ATOM's programs write back what they stored: two lines, and once more the line that was rolled back.
    assert_eq!(lines("atom", "atom").1, 3);
    assert_eq!(lines("atom", "none"), (0, 0));
}

#[test]
fn what_comes_before_the_start_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let started =
        MARKED.replacen("**1** strandline begin\n", "**1** strandline start\n**1** strandline begin\n", 1);
    let before = format!("I  10,3\n S 90000,8\n{started}");
    let run = |text: &str| {
        std::fs::write(&path, text).unwrap();
        run_on(&path, "wrap", "wrap").unwrap().outcome
    };
    let (all, rest) = (run(MARKED), run(&before));
    assert_eq!((rest.transactions, rest.pages, rest.records), (2, 2, all.records - 2));
    assert_eq!(rest.statistics.cores[0].stores, all.statistics.cores[0].stores - 1);
    assert_eq!(rest.statistics.cores[0].instructions, 0);
}

#[test]
fn a_trace_of_lackey_becomes_a_binary_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("trace"), folder.path().join("copy"));
    let text = MARKED.replace(" S 20000,8\n", " S 20000,8\nI  1,1\nI  2,1\nI  3,1\n");
    std::fs::write(&path, text).unwrap();
    let mut machine = load("wrap", &[""; 0]).unwrap();
    let hardware = find("wrap").unwrap();
    let writer = Rc::new(RefCell::new(None));
    let first = run_with(&path, &machine, hardware, |machine, header| {
        *writer.borrow_mut() = Some(Writer::new(File::create(&copy).unwrap(), header).unwrap());
        let tape = writer.clone();
        machine.record(Box::new(move |thread, taped| {
            tape.borrow_mut().as_mut().unwrap().add(thread, taped);
        }));
    });
    writer.take().unwrap().finish().unwrap();
    let (_, steps) = binary::read(&std::fs::read(&copy).unwrap()).unwrap();
    let work: Vec<_> = steps[0].iter().filter(|step| matches!(step, binary::Step::Work(_))).collect();
    // The third instruction makes the following access.
    assert_eq!(work, [&binary::Step::Work(2)], "instructions one after the other are one record");
    // A binary trace lists its instructions at the machine's charges.
    machine.cores.instructions_per_access = Some(0.0);
    let again = run(&copy, &machine, hardware).unwrap().outcome;
    let first = first.unwrap().outcome;
    assert_eq!(again.statistics.cycles, first.statistics.cycles);
    assert_eq!(again.transactions, first.transactions);
}

#[test]
fn what_hardware_cannot_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let refused = |text: &str| {
        std::fs::write(&path, text).unwrap();
        run_on(&path, "wrap", "wrap").err().unwrap().to_string()
    };
    assert!(refused(" L 10,8\n").contains("no transaction begins"));
    assert!(refused("**1** strandline begin\n**1** strandline begin\n").contains("trace:2: "));
    assert!(refused(" L 10,8\n**1** strandline commit\n").contains("trace:2: "));
}

#[test]
fn a_walk_misses_once_a_line_and_is_the_same_each_time() {
    let text: String = (0..4096).map(|i| format!(" L {:x},8\n", 0x10_0000 + 8 * i)).collect();
    let (first, second) = (trace(&text).unwrap().outcome, trace(&text).unwrap().outcome);
    assert_eq!(first.statistics, second.statistics);
    assert_eq!(first.statistics.levels[0].total.misses, 512);
    // A load at 1 GHz takes lookups of 1, 8 and 21 cycles and at least 168 of the memory.
    assert!(first.statistics.cycles >= 512 * (1 + 8 + 21 + 168));
}

#[test]
fn a_recorded_run_takes_the_same_cycles_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded");
    let sizes = PoolSizes { log_bytes: 65536, chunk_bytes: 16384, lock_bits: 12 };
    let prepared = Prepared::new(&HASH, &Sizes::small(), sizes, 1).unwrap();
    let run_of = |scheme: &str| Run {
        scheme: scheme.parse().unwrap(),
        threads: 1,
        transactions: 200,
        warm_up: 10,
        idle_percent: 0,
        seed: 3,
    };
    for (name, scheme) in [("loc", "bppm"), ("atom", "bppm"), ("opteron", "base")] {
        let mut machine = load(name, &[""; 0]).unwrap();
        // A trace does not use the counts of its program's instructions.
        machine.cores.instructions_per_access = Some(40.0);
        let file = std::io::BufWriter::new(File::create(&path).unwrap());
        let writer = Rc::new(RefCell::new(Some(Writer::new(file, &prepared.header(1)).unwrap())));
        let (tape, kept) = (writer.clone(), RefCell::new(None));
        let none = find("none").unwrap();
        let finished = prepared.run_with(&machine, none, &run_of(scheme), Vec::new(), |machine| {
            *kept.borrow_mut() = Some(machine.clone());
            machine.record(Box::new(move |thread, taped| {
                tape.borrow_mut().as_mut().unwrap().add(thread, taped);
            }));
        });
        writer.take().unwrap().finish().unwrap();
        let again = run(&path, &machine, none).unwrap();
        assert_eq!(again.accesses, finished.unwrap().accesses, "{name}");
        let clock = kept.take().unwrap().clock(0);
        assert_eq!(again.outcome.statistics.cycles, clock.number(), "{name}");
    }
}

#[test]
fn mistakes_in_a_binary_trace_are_told_with_their_place() {
    let refused = |records: &[u8]| {
        let header = Header {
            threads: 2,
            persistent_bytes: 4096,
            volatile_bytes: 64,
            logs: 0..0,
            pool_pages: Vec::new(),
            volatile_pages: Vec::new(),
        };
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, &header).unwrap().finish().unwrap();
        bytes.extend_from_slice(records);
        binary::read(&bytes).unwrap_err()
    };
    assert_eq!(refused(&[7, 99]).0, 49);
    assert!(refused(&[99]).1.contains("no kind 99"));
    assert!(refused(&[18, 0]).1.contains("own memory"));
    assert!(refused(&[17, 0, 0]).1.contains("not in a space"));
    assert!(refused(&[0, 2]).1.contains("thread 2"));
    assert!(refused(&[1]).1.contains("cut off"));
    assert!(refused(&[1, 0x80]).1.contains("cut off"));
    // Word 512 of a space of 512 words, and word -1.
    assert!(refused(&[3, 0x80, 0x08]).1.contains("not in a space"));
    assert!(refused(&[3, 1]).1.contains("not in a space"));
    assert!(refused(&[0x81, 16]).1.contains("not in a space"));
    assert!(refused(&[0x86, 0]).1.contains("no volatile address"));
    assert!(refused(&[2, 0, 0]).1.contains("not in a space"));
    assert!(refused(&[12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).1.contains("64 bits"));
    assert!(binary::read(b"STRLTRC1abc").unwrap_err().1.contains("header"));
    assert!(binary::read(b"STRLTRC2abc").unwrap_err().1.contains("header"));
}

#[test]
fn a_binary_trace_says_where_its_pages_were() {
    let header = Header {
        threads: 1,
        persistent_bytes: 3 * PAGE_BYTES,
        volatile_bytes: PAGE_BYTES + 64,
        logs: 0..0,
        pool_pages: vec![0x1f_fe00, 3, (1 << 52) - 1],
        volatile_pages: vec![4, 0],
    };
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, &header).unwrap().finish().unwrap();
    assert_eq!(binary::read(&bytes).unwrap().0, header);
    assert!(binary::read(&bytes[..bytes.len() - 1]).unwrap_err().1.contains("cut off"));
    let beyond = Header { pool_pages: vec![0, 0, 1 << 52], ..header };
    bytes.clear();
    Writer::new(&mut bytes, &beyond).unwrap().finish().unwrap();
    assert!(binary::read(&bytes).unwrap_err().1.contains("0x10000000000000"));
}

/// Returns a machine whose only cache has two ways of four pages each, over rows of two pages.
fn small_cache() -> Description {
    let mut machine = load("pcm", &["controllers.pages=\"in-order\""]).unwrap();
    machine.caches.truncate(1);
    (machine.caches[0].bytes, machine.caches[0].ways, machine.caches[0].banks) = (8 * PAGE_BYTES, 2, 1);
    machine.nvm.row_buffer_bytes = 2 * PAGE_BYTES;
    machine
}

/// Returns loads of these addresses, repeated so many times.
fn rounds(addresses: &[u64], times: usize) -> String {
    let round: String = addresses.iter().map(|at| format!(" L {at:x},8\n")).collect();
    round.repeat(times)
}

fn misses_of(outcome: &Outcome) -> u64 {
    outcome.statistics.levels[0].total.misses
}

/// Pages whose numbers differ by multiples of four share sets, wherever they are stored.
#[test]
fn pages_conflict_by_their_own_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("trace"), folder.path().join("copy"));
    let (machine, none) = (small_cache(), find("none").unwrap());
    let run_text = |text: &str| {
        std::fs::write(&path, text).unwrap();
        run(&path, &machine, none).unwrap().outcome
    };
    // With three lines in two ways, the next line is always the least recently used one: each of 30 loads misses.
    let conflicting = [0x1ff_e000_1040, 0x1ff_e000_5040, 0x1ff_e001_1040];
    assert_eq!(misses_of(&run_text(&rounds(&conflicting, 10))), 30);
    // If they were stored contiguously, they would miss once each, like consecutive pages.
    assert_eq!(misses_of(&run_text(&rounds(&[0x1ff_e000_1040, 0x1ff_e000_2040, 0x1ff_e000_3040], 10))), 3);
    // Two of the pages are in the pool and one is outside: the spaces are separate, but share a set.
    let in_pool =
        "**1** strandline persistent 0x1ffe0001000,8192\n**1** strandline persistent 0x1ffe0011000,4096\n";
    assert_eq!(misses_of(&run_text(&format!("{in_pool}{}", rounds(&conflicting, 10)))), 30);
    // A page that is partly in the pool is stored twice. Its halves are not in one set; lines that differ by the size of a way are.
    let halves = "**1** strandline persistent 0x1000,2048\n";
    assert_eq!(
        misses_of(&run_text(&format!("{halves}{}", rounds(&[0x1000, 0x1800, 0x5000, 0x5800], 10)))),
        4
    );
    assert_eq!(misses_of(&run_text(&format!("{halves}{}", rounds(&[0x1800, 0x5800, 0x9800], 10)))), 30);

    // The binary trace made from the text behaves in the same way.
    std::fs::write(&path, format!("{in_pool}{}", rounds(&conflicting, 10))).unwrap();
    let writer = Rc::new(RefCell::new(None));
    let first = run_with(&path, &machine, none, |machine, header| {
        *writer.borrow_mut() = Some(Writer::new(File::create(&copy).unwrap(), header).unwrap());
        let tape = writer.clone();
        machine.record(Box::new(move |thread, taped| {
            tape.borrow_mut().as_mut().unwrap().add(thread, taped);
        }));
    });
    writer.take().unwrap().finish().unwrap();
    let again = run(&copy, &machine, none).unwrap().outcome;
    assert_eq!((misses_of(&again), again.pages), (30, 4));
    assert_eq!(again.statistics.channels, first.unwrap().outcome.statistics.channels);
}

/// Two pages share a row if their numbers differ only in the lowest bit.
#[test]
fn rows_follow_the_addresses_of_pages() {
    let (machine, none) = (small_cache(), find("none").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let row_hits = |addresses: &[u64]| {
        std::fs::write(&path, rounds(addresses, 1)).unwrap();
        let outcome = run(&path, &machine, none).unwrap().outcome;
        let banks = outcome.statistics.channels.iter().flat_map(|channel| &channel.banks);
        banks.map(|bank| bank.row_hits).sum::<u64>()
    };
    assert_eq!(row_hits(&[0x7f00_0000_4000, 0x7f00_0000_5000]), 1);
    assert_eq!(row_hits(&[0x7f00_0000_5000, 0x7f00_0000_6000]), 0);
    // Scattered pages are a permutation of the address space, however sparse.
    let mut scattered = machine.clone();
    scattered.controllers.pages = strandline_sim::description::Pages::Scattered;
    run(&path, &scattered, none).unwrap();
}

#[test]
fn mistakes_are_told_with_their_line() {
    let refused = |text: &str| trace(text).err().unwrap().to_string();
    let message = refused(" L 10,8\n L 10\n");
    assert!(message.contains("trace:2: ") && message.contains("ADDRESS,SIZE"), "{message}");
    assert!(refused("I  10,3\n").contains("no load and no store"));
    assert!(refused("").contains("no load and no store"));
    assert!(refused(" L ffffffffffffffff,8\n").contains(":1: "));
}

#[test]
fn lines_of_lackey_are_read() {
    assert_eq!(record("I  04001090,3\n"), Ok(Some(Record::Instruction)));
    assert_eq!(record(" L 1ffefff0a8,8"), Ok(Some(Record::Load(0x1f_fefff0a8, 8))));
    assert_eq!(record(" S 10,16\r\n"), Ok(Some(Record::Store(16, 16))));
    assert_eq!(record(" M a,4"), Ok(Some(Record::Modify(10, 4))));
    assert_eq!(record(""), Ok(None));
    assert_eq!(record("==123== Command: ls"), Ok(None));
    assert_eq!(record("**123** strandline begin\n"), Ok(Some(Record::Begin)));
    assert_eq!(record("**123** strandline start"), Ok(Some(Record::Start)));
    assert_eq!(record("**123** strandline commit"), Ok(Some(Record::Commit)));
    assert_eq!(record("**123** strandline abort"), Ok(Some(Record::Abort)));
    for range in ["0x10,4096", "10,4096"] {
        let line = format!("**1** strandline persistent {range}");
        assert_eq!(record(&line), Ok(Some(Record::Persistent(16, 4096))));
    }
    assert_eq!(record("**123** hello"), Ok(None));
    for wrong in ["end", "persistent", "persistent 10", "persistent g,1", "persistent ffffffffffffffff,1"] {
        assert!(record(&format!("**123** strandline {wrong}")).is_err(), "{wrong}");
    }
    for wrong in [" X 10,8", "L", " L 10", " L 1g,8", " L 10,eight", " L 10,0", " L 10,-1", " L 10,513"] {
        assert!(record(wrong).is_err(), "{wrong}");
    }
    assert!(record(" L ffffffffffffffff,1").is_err());
}
