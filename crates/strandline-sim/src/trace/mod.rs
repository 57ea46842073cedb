//! Traces of people's own programs on the machine: the accesses of one thread, as valgrind's lackey prints them, or
//! those of several with write-backs, fences and transactions, in a format of our own.

pub mod binary;
pub mod lackey;

pub use binary::{Header, Writer};

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Space, Step, VolatileAddress};

use crate::controller::Regions;
use crate::description::{Description, Impossible};
use crate::machine::{Contents, Machine};
use crate::statistics::Statistics;

/// Addresses are mapped page by page, in the order of their first access, so that sparse address spaces fit.
const PAGE_BYTES: u64 = 4096;
/// Pages that a trace may touch: 4 GB, all of which the simulator keeps.
const PAGES: usize = 1 << 20;

/// What a line of a trace says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An instruction. Fetching it is not modelled.
    Instruction,
    /// A load of so many bytes at an address.
    Load(u64, u64),
    /// A store of so many bytes at an address.
    Store(u64, u64),
    /// A load and a store of the same bytes by one instruction.
    Modify(u64, u64),
}

/// Why a trace cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace {}: {source}", path.display())]
    Read {
        /// The trace's path.
        path: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// A line is no record.
    #[error("{}:{line}: {message}", path.display())]
    Malformed {
        /// The trace's path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// A record of a binary trace is none.
    #[error("{}: at byte {at}: {message}", path.display())]
    MalformedAt {
        /// The trace's path.
        path: PathBuf,
        /// Where the record begins.
        at: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The machine has too few cores.
    #[error("{}: {threads} threads on a machine of {cores} cores (--set cores.count=N gives it more)", path.display())]
    Cores {
        /// The trace's path.
        path: PathBuf,
        /// How many threads the trace has.
        threads: usize,
        /// How many cores the machine has.
        cores: usize,
    },
    /// The trace has no access.
    #[error("{}: there is no load and no store in it (valgrind --tool=lackey --trace-mem=yes writes them)", path.display())]
    Empty {
        /// The trace's path.
        path: PathBuf,
    },
    /// The machine cannot be built.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// What a trace's run found: the same for the same machine and trace, to the byte.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The trace's path.
    pub trace: String,
    /// How many records the trace has.
    pub records: u64,
    /// Pages of 4096 bytes that it touches; of a binary trace, those of its spaces.
    pub pages: usize,
    /// Seconds of simulated time.
    pub seconds: f64,
    /// Everything that the machine counted.
    pub statistics: Statistics,
    /// The machine's description, with all defaults filled in.
    pub machine: Description,
}

/// A trace's run with what is not part of its result.
pub struct Finished {
    /// What the run found.
    pub outcome: Outcome,
    /// Word operations simulated.
    pub accesses: u64,
    /// How long the host took, in wall time; reading the file is part of it.
    pub host_time: Duration,
}

/// Runs the trace in `path` on `machine`.
///
/// Lackey's runs on the first core, and all its addresses lie in the memory behind the pool (`nvm`). It names its
/// instructions, so `cores.instructions_per_access` is taken as 0: one that accesses memory takes the time of its
/// accesses, each other one `cores.cycles_per_instruction`.
///
/// # Errors
/// The file cannot be read, a line is malformed, there is no access, it touches more than 4 GB; the machine is impossible.
pub fn run(path: &Path, machine: &Description) -> Result<Finished, TraceError> {
    let read = |source| TraceError::Read { path: path.to_path_buf(), source };
    let mut magic = Vec::new();
    File::open(path).map_err(read)?.take(8).read_to_end(&mut magic).map_err(read)?;
    if magic == binary::MAGIC {
        return run_binary(path, machine);
    }
    // The first pass finds every mistake and every page before any time passes.
    let (mut pages, mut records, mut instructions) = (HashMap::new(), 0, 0);
    each(path, |record| {
        records += 1;
        instructions += u64::from(record == Record::Instruction);
        let (Record::Load(at, bytes) | Record::Store(at, bytes) | Record::Modify(at, bytes)) = record else {
            return Ok(());
        };
        for page in at / PAGE_BYTES..=(at + (bytes - 1)) / PAGE_BYTES {
            let next = pages.len() as u64;
            pages.entry(page).or_insert(next);
        }
        if pages.len() > PAGES {
            return Err(format!("the trace touches more than {PAGES} pages of {PAGE_BYTES} bytes"));
        }
        Ok(())
    })?;
    if pages.is_empty() {
        return Err(TraceError::Empty { path: path.to_path_buf() });
    }
    let mut machine = machine.clone();
    machine.cores.instructions_per_access = 0.0;
    let contents = Contents {
        persistent: vec![0; pages.len() * (PAGE_BYTES / 8) as usize],
        volatile_bytes: PAGE_BYTES,
        regions: Regions { logs: 0..0, metadata: 0..0 },
    };
    let simulated = Rc::new(Machine::new(&machine, contents, None, None)?);
    let began = std::time::Instant::now();
    let result = RefCell::new(Ok(()));
    simulated.run(vec![Box::new(|memory: &Hosted| {
        let mut player = Player { memory, pages: &pages, stored: 0, instruction: false };
        *result.borrow_mut() = each(path, |record| {
            player.play(record);
            Ok(())
        });
        player.instruction_ends();
    })]);
    let host_time = began.elapsed();
    result.into_inner()?;
    let mut statistics = simulated.statistics();
    // The core counts one for each word accessed; the trace says how many there were.
    statistics.cores[0].instructions = instructions;
    let outcome = Outcome {
        trace: path.display().to_string(),
        records,
        pages: pages.len(),
        seconds: machine.seconds(statistics.cycles),
        statistics,
        machine,
    };
    Ok(Finished { outcome, accesses: simulated.accesses(), host_time })
}

/// A trace in the format of our own, each thread on a core of its own.
fn run_binary(path: &Path, machine: &Description) -> Result<Finished, TraceError> {
    let file = || path.to_path_buf();
    let began = std::time::Instant::now();
    let bytes = std::fs::read(path).map_err(|source| TraceError::Read { path: file(), source })?;
    let (header, steps) = binary::read(&bytes).map_err(|(at, message)| TraceError::MalformedAt {
        path: file(),
        at,
        message,
    })?;
    if steps.len() > machine.cores.count {
        return Err(TraceError::Cores { path: file(), threads: steps.len(), cores: machine.cores.count });
    }
    let line = |at: u64| (at / 64) as u32;
    let logs = line(header.logs.start)..line(header.logs.end);
    let contents = Contents {
        persistent: vec![0; (header.persistent_bytes / 8) as usize],
        volatile_bytes: header.volatile_bytes,
        regions: Regions { metadata: 0..logs.start, logs },
    };
    let simulated = Rc::new(Machine::new(machine, contents, None, None)?);
    let threads = steps.iter().map(|steps| {
        Box::new(move |memory: &Hosted| steps.iter().for_each(|&step| perform(memory, step))) as Thread<'_>
    });
    simulated.run(threads.collect());
    let statistics = simulated.statistics();
    let outcome = Outcome {
        trace: path.display().to_string(),
        records: steps.iter().map(|steps| steps.len() as u64).sum(),
        pages: ((header.persistent_bytes + header.volatile_bytes) / PAGE_BYTES) as usize,
        seconds: machine.seconds(statistics.cycles),
        statistics,
        machine: machine.clone(),
    };
    Ok(Finished { outcome, accesses: simulated.accesses(), host_time: began.elapsed() })
}

/// Performs a record; the values are of no account.
fn perform(memory: &Hosted, step: binary::Step) {
    use binary::Step as S;
    let (pool, other) = (PersistentAddress::new, VolatileAddress::new);
    match step {
        S::Load(Space::Persistent, at) => drop(memory.load(pool(at))),
        S::Load(Space::Volatile, at) => drop(memory.load(other(at))),
        S::LoadRange(space, at, words) => {
            let mut into = vec![0; words as usize];
            match space {
                Space::Persistent => memory.load_range(pool(at), &mut into),
                Space::Volatile => memory.load_range(other(at), &mut into),
            }
        }
        S::Store(Space::Persistent, at) => memory.store(pool(at), at),
        S::Store(Space::Volatile, at) => memory.store(other(at), at),
        S::Atomic(Space::Persistent, at) => drop(memory.fetch_add(pool(at), 1)),
        S::Atomic(Space::Volatile, at) => drop(memory.fetch_add(other(at), 1)),
        S::NonTemporal(at) => memory.store_non_temporal(pool(at), at),
        S::WriteBack(at) => memory.write_back(pool(at), Step::HomeWriteBack),
        S::Fence => memory.fence(Step::CommitFence),
        S::WriteBackAll => drop(memory.write_back_all(Step::BulkDataWriteBack)),
        S::Pause => memory.pause(),
        S::Work(instructions) => memory.work(instructions),
        S::Begin => memory.event(Event::Begin),
        S::Commit(id) => memory.event(Event::Commit(id)),
        S::Acknowledged(id) => memory.event(Event::Acknowledged(id)),
        S::Abort => memory.event(Event::Abort),
        S::PersistBarrier => memory.event(Event::PersistBarrier(Step::SynchronousPrepareBarrier)),
        S::NewStrand => memory.event(Event::NewStrand(Step::BeginStrand)),
    }
}

/// Calls `with` for each record of the file.
fn each(path: &Path, mut with: impl FnMut(Record) -> Result<(), String>) -> Result<(), TraceError> {
    let read = |source| TraceError::Read { path: path.to_path_buf(), source };
    let mut file = BufReader::new(File::open(path).map_err(read)?);
    let (mut text, mut line) = (Vec::new(), 0);
    loop {
        text.clear();
        line += 1;
        if file.read_until(b'\n', &mut text).map_err(read)? == 0 {
            return Ok(());
        }
        let record = match std::str::from_utf8(&text) {
            Ok(text) => lackey::record(text),
            Err(_) => Err("this is no text: expected what valgrind's lackey prints".into()),
        };
        record
            .and_then(|record| record.map_or(Ok(()), &mut with))
            .map_err(|message| TraceError::Malformed { path: path.to_path_buf(), line, message })?;
    }
}

/// The words that `bytes` bytes at `at` lie in.
fn words(pages: &HashMap<u64, u64>, at: u64, bytes: u64) -> impl Iterator<Item = PersistentAddress> {
    (at / 8..=(at + (bytes - 1)) / 8).filter_map(move |word| {
        let page = pages.get(&(word * 8 / PAGE_BYTES))?;
        Some(PersistentAddress::new(page * PAGE_BYTES + word * 8 % PAGE_BYTES))
    })
}

/// Performs records.
struct Player<'a> {
    memory: &'a Hosted,
    pages: &'a HashMap<u64, u64>,
    /// Stores so far: traces carry no values.
    stored: u64,
    /// Whether the last record is an instruction, which may access memory or not.
    instruction: bool,
}

impl Player<'_> {
    fn play(&mut self, record: Record) {
        match record {
            Record::Instruction => {
                self.instruction_ends();
                self.instruction = true;
            }
            Record::Load(at, bytes) => self.load(at, bytes),
            Record::Store(at, bytes) => self.store(at, bytes),
            Record::Modify(at, bytes) => {
                self.load(at, bytes);
                self.store(at, bytes);
            }
        }
    }

    /// Charges an instruction that accesses no memory; one that does takes the time of its accesses.
    fn instruction_ends(&mut self) {
        if std::mem::take(&mut self.instruction) {
            self.memory.work(1);
        }
    }

    fn load(&mut self, at: u64, bytes: u64) {
        self.instruction = false;
        for word in words(self.pages, at, bytes) {
            self.memory.load(word);
        }
    }

    fn store(&mut self, at: u64, bytes: u64) {
        self.instruction = false;
        for word in words(self.pages, at, bytes) {
            self.stored += 1;
            self.memory.store(word, self.stored);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Result<Finished, TraceError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, text).unwrap();
        run(&path, &crate::file::load("loc", &[""; 0]).unwrap())
    }

    #[test]
    fn hits_and_misses_of_a_trace_by_hand() {
        let text = "==1== Lackey\nI  0401,3\n L 1ffefff000,8\n S 1ffefff008,8\nI  0404,2\n M 1ffefff03c,8\n L 20,4\n";
        let finished = trace(text).unwrap();
        let outcome = finished.outcome;
        // The modification crosses a line: two words loaded, two stored.
        let core = outcome.statistics.cores[0];
        assert_eq!((core.loads, core.stores), (4, 3));
        assert_eq!(finished.accesses, 7);
        assert_eq!(core.instructions, 2, "those that lackey counts, whatever they access");
        // 1ffefff000's line, the next, and 20's.
        assert_eq!(outcome.statistics.levels[0].total.misses, 3);
        assert_eq!(outcome.statistics.levels[0].total.hits, 4);
        assert_eq!((outcome.records, outcome.pages), (6, 2));
    }

    #[test]
    fn a_walk_misses_once_a_line_and_is_the_same_each_time() {
        let text: String = (0..4096).map(|i| format!(" L {:x},8\n", 0x10_0000 + 8 * i)).collect();
        let (first, second) = (trace(&text).unwrap().outcome, trace(&text).unwrap().outcome);
        assert_eq!(first.statistics, second.statistics);
        assert_eq!(first.statistics.levels[0].total.misses, 512);
        // A load at 1 GHz: lookups of 1, 8 and 21 cycles and 168 of the memory at least.
        assert!(first.statistics.cycles >= 512 * (1 + 8 + 21 + 168));
    }

    #[test]
    fn a_recorded_run_takes_the_same_cycles_again() {
        use crate::run::{PoolSizes, Prepared, Run};
        use strandline_workloads::{HASH, Sizes};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recorded");
        let sizes = PoolSizes { log_bytes: 65536, chunk_bytes: 16384, lock_bits: 12 };
        let prepared = Prepared::new(&HASH, &Sizes::small(), sizes, 1).unwrap();
        let run_of =
            Run { scheme: "bppm".parse().unwrap(), threads: 1, transactions: 200, warm_up: 10, seed: 3 };
        for name in ["loc", "atom"] {
            let machine = crate::file::load(name, &[""; 0]).unwrap();
            let file = std::io::BufWriter::new(File::create(&path).unwrap());
            let writer = Rc::new(RefCell::new(Some(Writer::new(file, &prepared.header(1)).unwrap())));
            let (tape, kept) = (writer.clone(), RefCell::new(None));
            let none = crate::scheme::find("none").unwrap();
            let finished = prepared.run_with(&machine, none, &run_of, Vec::new(), |machine| {
                *kept.borrow_mut() = Some(machine.clone());
                machine.record(Box::new(move |thread, taped| {
                    tape.borrow_mut().as_mut().unwrap().add(thread, taped);
                }));
            });
            writer.take().unwrap().finish().unwrap();
            let again = run(&path, &machine).unwrap();
            assert_eq!(again.accesses, finished.unwrap().accesses, "{name}");
            let clock = kept.take().unwrap().clock(0);
            assert_eq!(again.outcome.statistics.cycles, clock, "{name}");
        }
    }

    #[test]
    fn mistakes_in_a_binary_trace_are_told_with_their_place() {
        let refused = |records: &[u8]| {
            let header = Header { threads: 2, persistent_bytes: 4096, volatile_bytes: 64, logs: 0..0 };
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, &header).unwrap().finish().unwrap();
            bytes.extend_from_slice(records);
            binary::read(&bytes).unwrap_err()
        };
        assert_eq!(refused(&[7, 99]).0, 49);
        assert!(refused(&[99]).1.contains("no kind 99"));
        assert!(refused(&[0, 2]).1.contains("thread 2"));
        assert!(refused(&[1]).1.contains("cut off"));
        assert!(refused(&[1, 0x80]).1.contains("cut off"));
        // Word 512 of a space of 512 words; word -1.
        assert!(refused(&[3, 0x80, 0x08]).1.contains("not in a space"));
        assert!(refused(&[3, 1]).1.contains("not in a space"));
        assert!(refused(&[0x81, 16]).1.contains("not in a space"));
        assert!(refused(&[0x86, 0]).1.contains("no volatile address"));
        assert!(refused(&[2, 0, 0]).1.contains("not in a space"));
        assert!(
            refused(&[12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).1.contains("64 bits")
        );
        assert!(binary::read(b"STRLTRC1abc").unwrap_err().1.contains("header"));
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
}
