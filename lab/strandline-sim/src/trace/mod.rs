//! Runs traces of users' programs on the machine: the accesses of one thread as valgrind's lackey prints them, with marks of transactions if the
//! program prints them; or accesses of several threads with write-backs, fences and transactions, in a format of our own. Hardware schemes see these
//! transactions like those of workloads.

pub mod binary;
pub mod lackey;
pub mod operations;

pub use binary::{Header, Writer};
pub use operations::{Grouping, Operations};

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{
    Event, Hosted, LINE_BYTES, Memory, PersistentAddress, Space, Step, VolatileAddress,
};

use crate::addresses::PAGE_BYTES;
use crate::controller::Regions;
use crate::description::{Description, Impossible};
use crate::machine::{Contents, Machine};
use crate::numbers::LineNumber;
use crate::scheme::{Entry, HardwareScheme, Setup};
use crate::statistics::Statistics;

/// The number of pages that a trace may touch: 4 GB, all of which the simulator keeps. Pages are stored in the order of their first accesses, so that
/// sparse address spaces fit; caches and memory controllers see the original addresses.
const PAGES: usize = 1 << 20;

/// A record of a trace.
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
    /// So many bytes at an address are in the pool.
    Persistent(u64, u64),
    /// The trace begins after this record.
    Start,
    /// A transaction begins.
    Begin,
    /// The transaction commits.
    Commit,
    /// The transaction ends without effect; the program has restored its stores.
    Abort,
}

/// The reason why a trace cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace {}: {error}", path.display())]
    Read {
        /// The trace's path.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A line is malformed.
    #[error("{}:{line}: {message}", path.display())]
    Malformed {
        /// The trace's path.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The fault, and what the format permits.
        message: String,
    },
    /// A record of a binary trace is malformed.
    #[error("{}: at byte {at}: {message}", path.display())]
    MalformedAt {
        /// The trace's path.
        path: PathBuf,
        /// The position at which the record begins.
        at: usize,
        /// The fault.
        message: String,
    },
    /// The machine has too few cores.
    #[error("{}: {threads} threads on a machine of {cores} cores (--set cores.count=N gives it more)", path.display())]
    Cores {
        /// The trace's path.
        path: PathBuf,
        /// The number of threads that the trace has.
        threads: usize,
        /// The number of cores that the machine has.
        cores: usize,
    },
    /// The trace has no access.
    #[error("{}: there is no load and no store in it (valgrind --tool=lackey --trace-mem=yes writes them)", path.display())]
    Empty {
        /// The trace's path.
        path: PathBuf,
    },
    /// There are no transactions for the hardware scheme.
    #[error("{}: {hardware} makes transactions durable, and no transaction begins in it (docs/machines.md says how a program marks them)", path.display())]
    NoTransactions {
        /// The trace's path.
        path: PathBuf,
        /// The hardware scheme.
        hardware: &'static str,
    },
    /// The hardware scheme cannot be built into this machine.
    #[error("{hardware} on this machine: {why}")]
    Hardware {
        /// The hardware scheme.
        hardware: &'static str,
        /// The reason.
        why: String,
    },
    /// The machine cannot be built.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// The result of a trace's run, which is the same to the byte for the same machine and trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The trace's path.
    pub trace: String,
    /// The number of records that the trace has.
    pub records: u64,
    /// The number of pages of 4096 bytes that it touches; for a binary trace, that its spaces have.
    pub pages: usize,
    /// Transactions that commit in it.
    pub transactions: u64,
    /// The hardware scheme.
    pub hardware: &'static str,
    /// Seconds of simulated time.
    pub seconds: f64,
    /// Everything that the machine counted.
    pub statistics: Statistics,
    /// The machine's description, with all defaults filled in.
    pub machine: Description,
}

/// A trace's run, with data that is not part of its result.
pub struct Finished {
    /// The results of the run.
    pub outcome: Outcome,
    /// Word operations simulated.
    pub accesses: u64,
    /// How long the host took, in elapsed time, including reading the file.
    pub host_time: Duration,
}

/// Runs the trace in `path` on `machine`, with `hardware` built into it.
///
/// A trace of lackey's runs on the first core. All its addresses are in the memory behind the pool (`nvm`) or, if the trace says what is in the pool,
/// only those. It lists its instructions, so `cores.instructions_per_access` counts as 0: an instruction that accesses memory takes the time of its
/// accesses, and any other one `cores.cycles_per_instruction`. If the hardware's paper requires programs to write back what they stored, that happens
/// at the end of each transaction.
///
/// # Errors
/// Returns an error if the file cannot be read, if a line is malformed, if there is no access, if the trace touches more than 4 GB, if there is
/// hardware but no transaction, or if the machine is impossible.
pub fn run(path: &Path, machine: &Description, hardware: &Entry) -> Result<Finished, TraceError> {
    run_with(path, machine, hardware, |_, _| ())
}

/// Like [`run`], but passes `with` the machine before anything runs on it, and the header of a binary trace of the run.
///
/// # Errors
/// As for [`run`].
pub fn run_with(
    path: &Path,
    machine: &Description,
    hardware: &Entry,
    with: impl FnOnce(&Machine, &Header),
) -> Result<Finished, TraceError> {
    let read = |error| TraceError::Read { path: path.to_path_buf(), error };
    let mut magic = Vec::new();
    File::open(path).map_err(read)?.take(8).read_to_end(&mut magic).map_err(read)?;
    if [binary::MAGIC, binary::MAGIC_WITH_PAGES].iter().any(|known| magic == known) {
        return run_binary(path, machine, hardware, with);
    }
    let Survey { order, pool, records, instructions, transactions, has_begun, left_out, .. } =
        Survey::of(path)?;
    let scheme = build(hardware, machine, has_begun, path)?;
    let pages = Pages::new(&order, pool.sorted());
    let mut machine = machine.clone();
    machine.cores.instructions_per_access = Some(0.0);
    let header = Header {
        threads: 1,
        persistent_bytes: pages.persistent.len().max(1) as u64 * PAGE_BYTES,
        volatile_bytes: (1 + pages.volatile.len() as u64) * PAGE_BYTES,
        logs: 0..0,
        pool_pages: pages.pool_pages(),
        volatile_pages: pages.volatile_pages(),
    };
    let simulated = machine_of(&machine, &header, scheme)?;
    with(&simulated, &header);
    let began = std::time::Instant::now();
    let result = RefCell::new(Ok(()));
    simulated.run(vec![Box::new(|memory: &Hosted| {
        let writes_back = hardware.software.iter().any(|software| software.starts_with(FLUSHED));
        let mut player = Player::new(memory, &pages, writes_back);
        let mut skipped = 0;
        *result.borrow_mut() = each(path, |record| {
            skipped += 1;
            if skipped > left_out {
                player.play(record);
            }
            Ok(())
        });
        player.instruction_ends();
    })]);
    let host_time = began.elapsed();
    result.into_inner()?;
    let mut statistics = simulated.statistics();
    // The core counts an instruction for each word accessed; the trace has the actual number.
    statistics.cores[0].instructions = instructions;
    let outcome = Outcome {
        trace: path.display().to_string(),
        records,
        pages: order.len(),
        transactions,
        hardware: hardware.name,
        seconds: machine.seconds(statistics.cycles),
        statistics,
        machine,
    };
    Ok(Finished { outcome, accesses: simulated.accesses(), host_time })
}

/// The result of the first pass over a trace: every mistake and every page, before any time passes.
#[derive(Default)]
struct Survey {
    touched: HashSet<u64>,
    /// The pages in the order of their first accesses.
    order: Vec<u64>,
    pool: Pool,
    records: u64,
    instructions: u64,
    transactions: u64,
    is_in_transaction: bool,
    /// True if a transaction has begun.
    has_begun: bool,
    /// The number of records that precede the last mark of a start.
    left_out: u64,
}

impl Survey {
    fn of(path: &Path) -> Result<Self, TraceError> {
        let mut survey = Self::default();
        each(path, |record| survey.add(record))?;
        if survey.order.is_empty() {
            return Err(TraceError::Empty { path: path.to_path_buf() });
        }
        Ok(survey)
    }

    fn add(&mut self, record: Record) -> Result<(), String> {
        self.records += 1;
        match record {
            Record::Instruction => self.instructions += 1,
            Record::Load(at, bytes) | Record::Store(at, bytes) | Record::Modify(at, bytes) => {
                for page in at / PAGE_BYTES..=(at + (bytes - 1)) / PAGE_BYTES {
                    if self.touched.insert(page) {
                        self.order.push(page);
                    }
                }
                if self.order.len() > PAGES {
                    return Err(format!("the trace touches more than {PAGES} pages of {PAGE_BYTES} bytes"));
                }
            }
            Record::Persistent(at, bytes) => self.pool.ranges.push(at..at + bytes),
            Record::Start if self.is_in_transaction => return Err("a trace starts in a transaction".into()),
            Record::Start => {
                self.touched.clear();
                self.order.clear();
                self.left_out += self.records;
                (self.records, self.instructions, self.transactions, self.has_begun) = (0, 0, 0, false);
            }
            Record::Begin if self.is_in_transaction => {
                return Err("a transaction begins in another one".into());
            }
            Record::Begin => (self.is_in_transaction, self.has_begun) = (true, true),
            Record::Commit | Record::Abort if !self.is_in_transaction => {
                return Err("a transaction ends that has not begun".into());
            }
            Record::Commit => (self.is_in_transaction, self.transactions) = (false, self.transactions + 1),
            Record::Abort => self.is_in_transaction = false,
        }
        Ok(())
    }
}

/// Builds the hardware for a trace with or without transactions.
fn build(
    hardware: &Entry,
    machine: &Description,
    has_transactions: bool,
    path: &Path,
) -> Result<Option<Box<dyn HardwareScheme>>, TraceError> {
    if hardware.make.is_some() && !has_transactions {
        return Err(TraceError::NoTransactions { path: path.to_path_buf(), hardware: hardware.name });
    }
    let setup = Setup { machine, omitted: None };
    hardware.build(&setup).map_err(|why| TraceError::Hardware { hardware: hardware.name, why })
}

/// Runs a trace in our own format, with each thread on a core of its own.
fn run_binary(
    path: &Path,
    machine: &Description,
    hardware: &Entry,
    with: impl FnOnce(&Machine, &Header),
) -> Result<Finished, TraceError> {
    let file = || path.to_path_buf();
    let began = std::time::Instant::now();
    let bytes = std::fs::read(path).map_err(|error| TraceError::Read { path: file(), error })?;
    let (header, steps) = binary::read(&bytes).map_err(|(at, message)| TraceError::MalformedAt {
        path: file(),
        at,
        message,
    })?;
    if steps.len() > machine.cores.count {
        return Err(TraceError::Cores { path: file(), threads: steps.len(), cores: machine.cores.count });
    }
    let has_transactions = steps.iter().flatten().any(|step| matches!(step, binary::Step::Begin));
    let scheme = build(hardware, machine, has_transactions, path)?;
    let simulated = machine_of(machine, &header, scheme)?;
    with(&simulated, &header);
    let threads = steps.iter().map(|steps| {
        Box::new(move |memory: &Hosted| steps.iter().for_each(|&step| perform(memory, step))) as Thread<'_>
    });
    simulated.run(threads.collect());
    let statistics = simulated.statistics();
    let commits = steps.iter().flatten().filter(|step| matches!(step, binary::Step::Commit(_)));
    let outcome = Outcome {
        trace: path.display().to_string(),
        records: steps.iter().map(|steps| steps.len() as u64).sum(),
        pages: ((header.persistent_bytes + header.volatile_bytes) / PAGE_BYTES) as usize,
        transactions: commits.count() as u64,
        hardware: hardware.name,
        seconds: machine.seconds(statistics.cycles),
        statistics,
        machine: machine.clone(),
    };
    Ok(Finished { outcome, accesses: simulated.accesses(), host_time: began.elapsed() })
}

/// Creates a machine with the memory that the header describes.
fn machine_of(
    description: &Description,
    header: &Header,
    scheme: Option<Box<dyn HardwareScheme>>,
) -> Result<Rc<Machine>, TraceError> {
    let logs = LineNumber::containing(header.logs.start)..LineNumber::containing(header.logs.end);
    let contents = Contents {
        persistent: vec![0; (header.persistent_bytes / 8) as usize],
        volatile_bytes: header.volatile_bytes,
        regions: Regions { metadata: LineNumber::default()..logs.start, logs },
    };
    let machine = Machine::new(description, contents, scheme, None)?;
    if header.has_pages() {
        machine.place_pages(&header.pool_pages, &header.volatile_pages);
    }
    Ok(Rc::new(machine))
}

/// Performs a record; the values do not matter.
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
        S::StoreRange(space, at, words) => {
            let from = vec![at; words as usize];
            match space {
                Space::Persistent => memory.store_range(pool(at), &from),
                Space::Volatile => memory.store_range(other(at), &from),
            }
        }
        S::LoadOwn(words) => memory.loaded_own(words),
        S::StoreOwn(words) => memory.stored_own(words),
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
    let read = |error| TraceError::Read { path: path.to_path_buf(), error };
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

/// The part of memory that a trace declares to be the pool; everything if it declares nothing.
#[derive(Default)]
struct Pool {
    ranges: Vec<Range<u64>>,
}

impl Pool {
    /// Sorts the ranges and merges adjacent ones.
    fn sorted(mut self) -> Self {
        self.ranges.sort_unstable_by_key(|range| range.start);
        self.ranges.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            if touches {
                last.end = last.end.max(next.end);
            }
            touches
        });
        self
    }

    fn holds(&self, at: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.start <= at);
        self.ranges.is_empty() || next > 0 && at < self.ranges[next - 1].end
    }
}

/// The places of a trace's pages. A page that is partly in the pool is stored in both spaces.
struct Pages {
    pool: Pool,
    persistent: HashMap<u64, u64>,
    volatile: HashMap<u64, u64>,
}

impl Pages {
    fn new(order: &[u64], pool: Pool) -> Self {
        let (mut persistent, mut volatile) = (HashMap::new(), HashMap::new());
        for &page in order {
            let mut words = (page * PAGE_BYTES..(page + 1).saturating_mul(PAGE_BYTES)).step_by(8);
            if words.clone().any(|word| pool.holds(word)) {
                persistent.insert(page, persistent.len() as u64);
            }
            if words.any(|word| !pool.holds(word)) {
                // The first volatile page is not the program's.
                volatile.insert(page, 1 + volatile.len() as u64);
            }
        }
        Self { pool, persistent, volatile }
    }

    /// Returns for each page of the pool its number in the trace.
    fn pool_pages(&self) -> Vec<u64> {
        in_order(&self.persistent, 0)
    }

    /// Returns for each page of volatile memory its number in the trace, including the page that is not the program's.
    fn volatile_pages(&self) -> Vec<u64> {
        in_order(&self.volatile, 1)
    }
}

/// Returns the numbers of pages in the order in which they are stored; the first `unused` places have no page.
fn in_order(places: &HashMap<u64, u64>, unused: usize) -> Vec<u64> {
    let mut pages = vec![0; (unused + places.len()).max(1)];
    for (&page, &place) in places {
        pages[place as usize] = page;
    }
    pages
}

/// The software scheme of hardware whose programs write back what they stored.
const FLUSHED: &str = "hardware-flushed";

/// Performs the records of a trace.
struct Player<'a> {
    memory: &'a Hosted,
    pages: &'a Pages,
    /// True if each transaction writes back what it stored.
    writes_back: bool,
    /// The lines that the running transaction has stored to.
    stored_to: BTreeSet<u64>,
    /// The number of stores so far, used as values because traces have none.
    stored: u64,
    /// The number of transactions that have committed.
    committed: u64,
    is_in_transaction: bool,
    /// True if the last record is an instruction, which may still access memory.
    instruction: bool,
}

impl<'a> Player<'a> {
    fn new(memory: &'a Hosted, pages: &'a Pages, writes_back: bool) -> Self {
        Self {
            memory,
            pages,
            writes_back,
            stored_to: BTreeSet::new(),
            stored: 0,
            committed: 0,
            is_in_transaction: false,
            instruction: false,
        }
    }

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
            Record::Persistent(..) | Record::Start => {}
            Record::Begin => {
                self.memory.event(Event::Begin);
                self.is_in_transaction = true;
            }
            Record::Commit => {
                self.write_back();
                self.committed += 1;
                self.memory.event(Event::Executed(self.committed));
                self.memory.event(Event::Commit(self.committed));
                self.memory.event(Event::Acknowledged(self.committed));
                self.is_in_transaction = false;
            }
            Record::Abort => {
                self.write_back();
                self.memory.event(Event::Abort);
                self.is_in_transaction = false;
            }
        }
    }

    fn write_back(&mut self) {
        if self.writes_back {
            for &line in &self.stored_to {
                self.memory.write_back(PersistentAddress::new(line * LINE_BYTES), Step::HomeWriteBack);
            }
            self.memory.fence(Step::HomeFence);
        }
        self.stored_to.clear();
    }

    /// Charges an instruction that has accessed no memory; one that does takes the time of its accesses.
    fn instruction_ends(&mut self) {
        if std::mem::take(&mut self.instruction) {
            self.memory.work(1);
        }
    }

    /// Calls `with` for the words that contain the `bytes` bytes at `at`.
    fn each_word(&mut self, at: u64, bytes: u64, mut with: impl FnMut(&mut Self, Word)) {
        self.instruction = false;
        for word in at / 8..=(at + (bytes - 1)) / 8 {
            let (page, inside) = (word * 8 / PAGE_BYTES, word * 8 % PAGE_BYTES);
            let place = |pages: &HashMap<u64, u64>| pages.get(&page).map(|page| page * PAGE_BYTES + inside);
            let word = if self.pages.pool.holds(word * 8) {
                place(&self.pages.persistent).map(|at| Word::Persistent(PersistentAddress::new(at)))
            } else {
                place(&self.pages.volatile).map(|at| Word::Volatile(VolatileAddress::new(at)))
            };
            // The first pass found every page.
            word.into_iter().for_each(|word| with(self, word));
        }
    }

    fn load(&mut self, at: u64, bytes: u64) {
        self.each_word(at, bytes, |player, word| match word {
            Word::Persistent(at) => drop(player.memory.load(at)),
            Word::Volatile(at) => drop(player.memory.load(at)),
        });
    }

    fn store(&mut self, at: u64, bytes: u64) {
        self.each_word(at, bytes, |player, word| {
            player.stored += 1;
            match word {
                Word::Persistent(at) => {
                    player.memory.store(at, player.stored);
                    if player.is_in_transaction {
                        player.stored_to.insert(at.offset() / LINE_BYTES);
                    }
                }
                Word::Volatile(at) => player.memory.store(at, player.stored),
            }
        });
    }
}

/// The place of a word of the trace.
enum Word {
    Persistent(PersistentAddress),
    Volatile(VolatileAddress),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_the_pool_are_joined() {
        let pool = Pool { ranges: vec![30..40, 0..10, 10..20, 5..8] }.sorted();
        assert_eq!(pool.ranges, [0..20, 30..40]);
        assert_eq!(
            [0, 19, 20, 29, 30, 39, 40].map(|at| pool.holds(at)),
            [true, true, false, false, true, true, false]
        );
    }
}
