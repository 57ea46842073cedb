//! Loose-Ordering Consistency (Lu, Shu, Sun, Mutlu: *Improving Performance and Endurance of Persistent Memory with Loose-Ordering Consistency*, TPDS
//! 2017): H-WAL, EC-WAL, LOC-WAL, Kiln and LOC-Kiln.
//!
//! All five share one implementation; [`Parameters`] hold the differences. A transaction's stores stay in the caches. Until their speculation window
//! is durable, blocks leave the caches only for the memory log area, never for home.
//!
//! | | commit is marked by | transactions in a window | home |
//! |---|---|---|---|
//! | H-WAL | a record, written when the blocks are durable | 1 | after each transaction, before the next one's log |
//! | EC-WAL | a count of blocks (Eager Commit) | 1 | when evicted, or when TxIDs run short |
//! | LOC-WAL | a count of blocks, and dependency pairs | SD, 16 by default | likewise |
//! | Kiln | a flag, set when all blocks are in the non-volatile last level | 1 | when evicted |
//! | LOC-Kiln | likewise | 16 | likewise |
//!
//! The Tx Dirty Block Table (TID, TxID, TxDirty of each cached block) is `LooseOrdering::lines`, kept by line instead of in each level's tags; the Tx
//! State Table is the windows' `Transaction`s. `docs/papers/loose-ordering.md` lists the decisions where the paper leaves things open.
//!
//! *A block with several versions.* If a transaction stores to a block that an earlier one of its window has written, and that is not in the log, the
//! older version stays in the last level, in a way of the same set. If the transaction commits, a dependency pair is noted. If it aborts, the version
//! becomes the block again and is written to the log (the rescue of preceding transactions). A version is dropped when a succeeding one has been
//! committed (section 3.3), that is, when LastCommittedTxID passes it at the window's end. A version for which the set has no way is written to the
//! log instead (version overflow), and is then in no pair. LOC-Kiln drops a version that a committed transaction has overwritten, since its windows
//! become valid as a whole.
//!
//! *An aborted transaction* frees its TxID, unless blocks of it are in the log. In that case the window ends with it, so that recovery finds
//! uncommitted transactions only at the end of a window.

mod area;
pub mod format;
mod last_level;
mod recovery;
mod transaction;
mod window;

use std::collections::{HashMap, VecDeque};

use super::{
    Boundary, Entry, HardwareScheme, MemoryPort, Mutant, Parameter, Reply, Setup, StoredWord, WayHome, named,
};
use crate::cache::Hierarchy;
use crate::controller::{Line, MemorySide};
use crate::description::WindowCompletes;
use crate::numbers::{CoreId, Cycle, LineNumber};
use area::LogArea;
use transaction::{LineState, LogCopy, Running};
use window::Window;

/// How recovery recognises a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// By a commit record.
    Record,
    /// By the number of its blocks.
    Count,
}

/// The properties of one of the paper's systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The name in `strandline-lab list`.
    pub name: &'static str,
    /// How recovery recognises a commit.
    pub commit: Commit,
    /// The speculation degree: how many transactions a window has.
    pub speculation: u64,
    /// True if blocks go home after each window, before the next window's log (the phases of Fig. 2 (a)).
    pub home_each: bool,
    /// True if the last cache level is non-volatile (Kiln).
    pub non_volatile: bool,
}

impl Parameters {
    /// H-WAL (section 5.2).
    pub const H_WAL: Self =
        Self { name: "h-wal", commit: Commit::Record, speculation: 1, home_each: true, non_volatile: false };
    /// EC-WAL (section 5.3).
    pub const EC_WAL: Self = Self { name: "ec-wal", commit: Commit::Count, home_each: false, ..Self::H_WAL };
    /// LOC-WAL with speculation degree 16 (section 5.1).
    pub const LOC_WAL: Self = Self { name: "loc-wal", speculation: 16, ..Self::EC_WAL };
    /// Kiln (section 5.2; Zhao et al., MICRO 2013).
    pub const KILN: Self = Self { name: "kiln", home_each: false, non_volatile: true, ..Self::H_WAL };
    /// LOC-Kiln (section 5.2).
    pub const LOC_KILN: Self = Self { name: "loc-kiln", non_volatile: true, ..Self::LOC_WAL };

    /// Builds it into a machine.
    fn make(self, setup: &Setup<'_>) -> Result<Box<dyn HardwareScheme>, String> {
        let machine = setup.machine;
        if machine.cores.count != 1 {
            return Err(format!(
                "its transactions are those of one core, and the machine has {}",
                machine.cores.count
            ));
        }
        if machine.controllers.count * machine.controllers.channels != 1 {
            return Err("its log needs all blocks behind one channel".into());
        }
        if machine.caches.last().is_none_or(|level| level.sharing != crate::description::Sharing::Shared) {
            return Err("it keeps versions in a shared last cache level, and the machine has none".into());
        }
        let rule = setup.omitted.and_then(Rule::of);
        let speculation = if self.speculation > 1 { SPECULATION.of(machine) } else { 1 };
        Ok(Box::new(LooseOrdering::new(Self { speculation, ..self }, machine, rule)))
    }

    fn recover(self, setup: &Setup<'_>, pool: &mut [u64], area: &mut [u64]) -> Result<(), String> {
        recovery::recover(self.commit, setup, pool, area)
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal, $text:literal;)*) => {
        /// A rule on which recovery depends, and which a mutant leaves out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule { $($(#[$doc])* $rule,)* }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            /// Returns its mutant's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)* }
            }

            const fn mutant(self) -> Mutant {
                match self { $(Self::$rule => Mutant { name: $name, rule: $text, redundant: None },)* }
            }

            fn of(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|rule| rule.name() == name)
            }
        }
    };
}

rules! {
    /// Counting.
    TxCnt = "tx-count", "a transaction is committed only if as many of its blocks are in the log as its TxCnt says";
    /// Pairs.
    PairCommit = "pair-commit", "a pair's blocks count for Ta only if Tb is committed";
    /// From tail to head.
    PairOrder = "pair-order", "pairs are gone through from tail to head";
    /// Steps 2 and 3 until neither changes anything.
    Recount = "recount", "a pair's blocks do not count when Tb follows a transaction that is not committed";
    /// In order.
    InOrder = "in-order-commit", "what follows a transaction that is not committed is not committed";
    /// Strict order of windows.
    WindowOrder = "window-order", "a window begins when the one before is durable";
    /// Order in a group.
    GroupOrder = "group-order", "a group's metadata is not durable before its data";
    /// The rescue.
    Rescue = "rescue", "when a transaction aborts, preceding ones write their versions of its blocks to the log";
    /// Versions.
    Versions = "versions", "a block that a later transaction overwrites keeps its older version until that one commits";
    /// Log before home.
    HomeAfterLog = "home-after-log", "a block does not go home before its window is durable";
    /// Lives.
    LifeStart = "life-start", "recovery moves the log head behind all groups of the life that has ended";
    /// The commit record.
    RecordOrder = "record-order", "the commit record is written when the blocks are durable, not before them";
    /// Home before truncation.
    TruncateAfterHome = "truncate-after-home", "the log head passes a window only when its blocks are durable at home";
    /// Kiln's flag.
    FlagOrder = "flag-order", "a transaction's flag is set when its blocks have been written back into the last level";
    /// Kiln's evictions.
    NoEviction = "no-eviction", "a block of a transaction that is not committed does not leave the last level for home";
    /// Kiln's old versions.
    OldInLastLevel = "old-in-last-level", "the committed version of a block stays in the last level until the next one's commit";
}

const fn mutants<const N: usize>(rules: [Rule; N]) -> [Mutant; N] {
    let mut mutants = [Rule::TxCnt.mutant(); N];
    let mut at = 0;
    while at < N {
        mutants[at] = rules[at].mutant();
        at += 1;
    }
    mutants
}

const COMMON: [Rule; 5] =
    [Rule::WindowOrder, Rule::GroupOrder, Rule::HomeAfterLog, Rule::TruncateAfterHome, Rule::LifeStart];
const H_WAL_MUTANTS: &[Mutant] = &mutants([Rule::RecordOrder, Rule::HomeAfterLog, Rule::LifeStart]);
const EC_WAL_MUTANTS: &[Mutant] =
    &mutants([Rule::TxCnt, COMMON[0], COMMON[1], COMMON[2], COMMON[3], COMMON[4]]);
const LOC_WAL_MUTANTS: &[Mutant] = &mutants([
    Rule::TxCnt,
    Rule::PairCommit,
    Rule::PairOrder,
    Rule::Recount,
    Rule::InOrder,
    Rule::Rescue,
    Rule::Versions,
    COMMON[0],
    COMMON[1],
    COMMON[2],
    COMMON[3],
    COMMON[4],
]);
// The rules of the last level, and those of the log to which blocks fall back that do not fit.
const KILN_MUTANTS: &[Mutant] = &mutants([
    Rule::FlagOrder,
    Rule::NoEviction,
    Rule::OldInLastLevel,
    Rule::RecordOrder,
    Rule::TruncateAfterHome,
    Rule::LifeStart,
]);
const LOC_KILN_MUTANTS: &[Mutant] = &mutants([
    Rule::FlagOrder,
    Rule::NoEviction,
    Rule::OldInLastLevel,
    Rule::TxCnt,
    Rule::PairCommit,
    Rule::PairOrder,
    Rule::Recount,
    Rule::InOrder,
    Rule::Versions,
    Rule::WindowOrder,
    Rule::GroupOrder,
    Rule::TruncateAfterHome,
    Rule::LifeStart,
]);

// H-WAL's commit record waits for the data, so that the order within its groups is redundant; its blocks are home long before the log head passes
// them.

const SOURCE: &str = "Loose-Ordering Consistency";

macro_rules! entry {
    ($parameters:expr, $source:expr, $mutants:expr, $description:expr) => {
        Entry {
            name: $parameters.name,
            source: $source,
            description: $description,
            make: Some(|setup| $parameters.make(setup)),
            recover: |setup, pool, area| $parameters.recover(setup, pool, area),
            is_durable: true,
            software: &["hardware+single-writer"],
            parameters: if $parameters.speculation > 1 { &[SPECULATION] } else { &[] },
            mutants: $mutants,
        }
    };
}

/// The speculation degree (section 5.4). A window has at most half of the TxIDs that are valid at a time.
pub const SPECULATION: Parameter = Parameter {
    name: "speculation",
    unit: "transactions",
    range: 2..=format::RUNNING / 2,
    default: Parameters::LOC_WAL.speculation,
    description: "speculation degree: how many transactions a window holds, which become durable in any order",
};

/// H-WAL.
pub const H_WAL: Entry = entry!(
    Parameters::H_WAL,
    SOURCE,
    H_WAL_MUTANTS,
    "write-ahead log kept by hardware: blocks, then a commit record, then home, transaction by transaction"
);
/// EC-WAL: LOC-WAL with speculation degree 1.
pub const EC_WAL: Entry = entry!(
    Parameters::EC_WAL,
    SOURCE,
    EC_WAL_MUTANTS,
    "Eager Commit: recovery counts a transaction's blocks, no commit record"
);
/// LOC-WAL.
pub const LOC_WAL: Entry = entry!(
    Parameters::LOC_WAL,
    SOURCE,
    LOC_WAL_MUTANTS,
    "Eager Commit and Speculative Persistence: a window of transactions becomes durable in any order"
);
/// Kiln.
pub const KILN: Entry = entry!(
    Parameters::KILN,
    "Loose-Ordering Consistency, 5.2 (Zhao et al., MICRO 2013)",
    KILN_MUTANTS,
    "non-volatile last cache level that a commit flushes to; a write-ahead log for what does not fit"
);
/// LOC-Kiln.
pub const LOC_KILN: Entry = entry!(
    Parameters::LOC_KILN,
    SOURCE,
    LOC_KILN_MUTANTS,
    "the same with windows of transactions that become durable in any order"
);

/// The hardware of one of these systems.
pub struct LooseOrdering {
    parameters: Parameters,
    /// True if a window begins only when the previous one's blocks are durable at home.
    waits_for_home: bool,
    /// The rule that a mutant leaves out.
    omitted: Option<Rule>,
    /// True if the log head has been read.
    started: bool,
    log: LogArea,
    log_bytes: u64,
    /// Cycles from a core's first level to the controller.
    path: u64,
    /// The number of write-backs to the log that the commit logic has in flight, at most; and the last ones that it has sent.
    write_backs: usize,
    in_flight: VecDeque<LineNumber>,
    /// The number of write-backs home that it has in flight, and the last ones; without a limit they are sent like evicted lines.
    home_write_backs: Option<usize>,
    home_in_flight: VecDeque<LineNumber>,
    /// Lines whose newest version is not known to be home.
    lines: HashMap<LineNumber, LineState>,
    /// Lines whose newest version outside the caches is in the log.
    in_log: HashMap<LineNumber, LogCopy>,
    running: Option<Running>,
    /// The line of each version in the last level, by the version's number there.
    versions: HashMap<u32, LineNumber>,
    version_number: u32,
    /// The open window.
    window: Window,
    /// Closed windows that the log head has not passed, oldest first.
    closed: VecDeque<Window>,
    /// The next transaction's number; its TxID is the lowest 8 bits.
    next: u64,
    /// The first transaction of the log, which the durable head names.
    first: u64,
    /// The software's TxID up to which transactions are acknowledged (LastCommittedTxID).
    acknowledged: u64,
    /// The saved data in the last level for lines that the open window writes (Kiln).
    saved: HashMap<LineNumber, last_level::Saved>,
    /// Lines that are moving from a non-volatile last level to home.
    leaving: HashMap<LineNumber, Line>,
    counts: Counts,
}

/// Its counts.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    transactions: u64,
    blocks: u64,
    aborted: u64,
    windows: u64,
    full_windows: u64,
    pairs: u64,
    overlapped: u64,
    versions: u64,
    version_overflows: u64,
    logged: u64,
    log_metadata: u64,
    evicted_to_log: u64,
    rescued: u64,
    home: u64,
    heads: u64,
    fallbacks: u64,
    begin_stalls: u64,
    home_stalls: u64,
}

impl LooseOrdering {
    /// Creates the hardware in `machine`, without the rule `omitted`.
    pub fn new(parameters: Parameters, machine: &crate::Description, omitted: Option<Rule>) -> Self {
        // A machine with smaller caches, as in tests, gets a proportionally smaller log.
        let last = machine.caches.last().map_or(0, |level| level.bytes);
        let log_bytes = (last * 32).clamp(1 << 15, format::LOG_BYTES);
        let log_bytes = log_bytes.next_multiple_of(machine.controllers.interleave_bytes);
        let ordered = omitted != Some(Rule::GroupOrder);
        let completes_home = machine.persistence.window_completes == WindowCompletes::Home;
        let waits_for_home = completes_home && !parameters.non_volatile;
        Self {
            parameters: Parameters { home_each: parameters.home_each || waits_for_home, ..parameters },
            waits_for_home,
            omitted,
            started: false,
            log: LogArea::new(log_bytes, machine.cycles(machine.nvm.write_ns), ordered),
            log_bytes,
            path: machine.caches.iter().map(|level| level.latency).sum(),
            write_backs: machine.commit_write_backs(),
            in_flight: VecDeque::new(),
            home_write_backs: machine.persistence.home_write_backs,
            home_in_flight: VecDeque::new(),
            lines: HashMap::new(),
            in_log: HashMap::new(),
            running: None,
            versions: HashMap::new(),
            version_number: 0,
            window: Window::default(),
            closed: VecDeque::new(),
            next: 0,
            first: 0,
            acknowledged: 0,
            saved: HashMap::new(),
            leaving: HashMap::new(),
            counts: Counts::default(),
        }
    }

    fn omits(&self, rule: Rule) -> bool {
        self.omitted == Some(rule)
    }

    /// Begins where the log head says: at the beginning, or after an earlier life's log.
    fn start(&mut self, memory: &MemorySide) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let first = memory.pool_end().first_word();
        let heads: Vec<u64> =
            (first..first + 8 * format::HEADS as usize).map(|word| memory.peek(word)).collect();
        let head = format::Head::newest(&heads);
        self.log.begin_at(head);
        self.next = head.first.into();
        self.first = self.next;
        self.window.begin_at(self.next, head.start);
    }
}

impl MemoryPort for LooseOrdering {
    fn read(&mut self, memory: &mut MemorySide, line: LineNumber, now: Cycle) -> Option<(Cycle, Line)> {
        let copy = self.in_log.get(&line)?;
        let (done, _) = memory.read(copy.place, now);
        Some((done, copy.data))
    }

    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, data: &Line, now: Cycle) -> WayHome {
        self.leaves_caches(memory, line, data, now)
    }

    fn version_overflow(&mut self, memory: &mut MemorySide, version: u32, now: Cycle) {
        self.evict_version(memory, version, now);
    }
}

impl HardwareScheme for LooseOrdering {
    fn name(&self) -> &'static str {
        self.parameters.name
    }

    fn reserved_bytes(&self) -> u64 {
        self.log_bytes
    }

    fn boundary(&mut self, caches: &mut Hierarchy, _: CoreId, boundary: Boundary, now: Cycle) -> Reply {
        self.start(&caches.memory);
        match boundary {
            Boundary::Begin => self.begin(caches, now),
            Boundary::Commit(transaction) => self.commit(caches, transaction, now),
            Boundary::Abort => {
                self.abort(caches, now);
                Reply::Go(now)
            }
            Boundary::Flush => self.flush(caches, now),
        }
    }

    fn takes_stores_back(&self) -> bool {
        true
    }

    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        word: StoredWord,
        entry: usize,
        now: Cycle,
    ) -> Reply {
        if word.line < caches.memory.pool_end() && self.running.is_some() {
            self.transactional_store(caches, core, word.line, entry);
        }
        Reply::Go(now)
    }

    fn next_event(&self) -> Cycle {
        self.next_completion()
    }

    fn act(&mut self, caches: &mut Hierarchy, now: Cycle) {
        self.complete_windows(caches, now);
    }

    fn power_fails(&mut self, caches: &mut Hierarchy, image: &mut [u64], now: Cycle) {
        if self.parameters.non_volatile {
            self.save_last_level(caches, image, now);
        }
    }

    fn acknowledged(&self, now: Cycle) -> Option<u64> {
        Some(self.acknowledged_at(now))
    }

    fn copy(&self, line: LineNumber) -> Option<Line> {
        self.in_log.get(&line).map(|copy| copy.data)
    }

    fn unreached(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.counts.full_windows == 0 {
            let degree = self.parameters.speculation;
            all.push(format!("no speculation window was filled, which takes {degree} transactions"));
        }
        if self.counts.heads == 0 && !self.parameters.non_volatile {
            all.push("the log head has not moved: no window had to be brought home to free its TxIDs".into());
        }
        all
    }

    fn statistics(&self) -> Vec<(String, u64)> {
        let counts = &self.counts;
        let [blocks, metadata] = self.log.written;
        named([
            ("transactions", counts.transactions),
            ("blocks", counts.blocks),
            ("aborted", counts.aborted),
            ("windows", counts.windows),
            ("dependency_pairs", counts.pairs),
            ("blocks_overlapped", counts.overlapped),
            ("versions", counts.versions),
            ("version_overflows", counts.version_overflows),
            ("log_blocks", blocks - counts.logged),
            ("log_metadata", metadata - counts.log_metadata),
            ("blocks_evicted_to_log", counts.evicted_to_log),
            ("blocks_rescued", counts.rescued),
            ("blocks_home", counts.home),
            ("log_heads", counts.heads),
            ("fallbacks_to_log", counts.fallbacks),
            ("begin_stall_cycles", counts.begin_stalls),
            ("begin_stalls_for_home", counts.home_stalls),
        ])
    }

    fn reset_statistics(&mut self) {
        let [logged, log_metadata] = self.log.written;
        self.counts = Counts { logged, log_metadata, ..Counts::default() };
    }
}
