//! Hardware schemes: the parts of a machine, besides caches and controllers, that provide atomic durability.
//!
//! A scheme is one file that implements [`HardwareScheme`], and an [`Entry`] in a registry: [`SCHEMES`], or a program's own
//! ([`Registry`](crate::Registry)). The machine calls it at each point where the papers' hardware acts. Software under it issues plain stores between
//! the boundaries of transactions. A callback that must wait returns [`Reply::Wait`]: the core does nothing else, and the machine repeats the
//! callback when something may have changed.
//!
//! # A scheme that does nothing
//!
//! This complete example only counts commits:
//!
//! ```
//! use strandline_sim::cache::Hierarchy;
//! use strandline_sim::controller::{Line, MemorySide};
//! use strandline_sim::numbers::{CoreId, Cycle, LineNumber};
//! use strandline_sim::scheme::{Boundary, Entry, HardwareScheme, MemoryPort, Reply, StoredWord, WayHome};
//!
//! struct Idle {
//!     commits: u64,
//! }
//!
//! impl MemoryPort for Idle {
//!     fn way_home(&mut self, _: &mut MemorySide, _: LineNumber, _: &Line, now: Cycle) -> WayHome {
//!         WayHome::Home(now) // WayHome::Taken: into a log, or a victim cache
//!     }
//! }
//!
//! impl HardwareScheme for Idle {
//!     fn name(&self) -> &'static str {
//!         "idle"
//!     }
//!     fn boundary(&mut self, _: &mut Hierarchy, _: CoreId, boundary: Boundary, now: Cycle) -> Reply {
//!         self.commits += u64::from(matches!(boundary, Boundary::Commit(_)));
//!         Reply::Go(now) // Reply::Wait: the machine calls again later
//!     }
//!     fn store(&mut self, _: &mut Hierarchy, _: CoreId, _: StoredWord, _: usize, now: Cycle) -> Reply {
//!         Reply::Go(now)
//!     }
//!     fn statistics(&self) -> Vec<(String, u64)> {
//!         vec![("commits".into(), self.commits)]
//!     }
//!     fn reset_statistics(&mut self) {
//!         self.commits = 0;
//!     }
//! }
//!
//! const IDLE: Entry = Entry {
//!     name: "idle",
//!     source: "an example",
//!     description: "counts commits",
//!     make: Some(|_| Ok(Box::new(Idle { commits: 0 }))),
//!     recover: |_, _, _| Ok(()),
//!     software: &["hardware+single-writer"],
//!     is_durable: false,
//!     parameters: &[],
//!     mutants: &[],
//! };
//!
//! # use strandline_sim::run::{PoolSizes, Prepared, Run};
//! # use strandline_workloads::{SPS, Sizes};
//! let machine = strandline_sim::file::load("loc", &[] as &[&str]).unwrap();
//! let sizes = Sizes { array_words: 1000, ..Sizes::default() };
//! let pool = PoolSizes { log_bytes: 1 << 14, chunk_bytes: 1 << 14, lock_bits: 10 };
//! let prepared = Prepared::new(&SPS, &sizes, pool, 1)?;
//! let scheme = "hardware+single-writer".parse().unwrap();
//! let run = Run { scheme, threads: 1, transactions: 100, warm_up: 10, idle_percent: 0, seed: 1 };
//! let finished = prepared.run(&machine, &IDLE, &run, vec![])?;
//! assert_eq!(finished.outcome.hardware, "idle");
//! # Ok::<(), strandline_core::Error>(())
//! ```

pub mod atom;
pub mod loc;
mod parameter;
mod persist_buffers;
mod undo_log;
mod wrap;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

pub use parameter::Parameter;
use strandline_workloads::{SchemeName, UnknownName};

use crate::Description;
use crate::cache::Hierarchy;
pub use crate::cache::{MemoryPort, WayHome};
use crate::controller::{Line, MemorySide};
pub use crate::core::Ordering;
use crate::numbers::{CoreId, Cycle, LineNumber};

/// Ends a run whose program does not fit a scheme's log: the text says why, and what helps. [`Prepared::run`](crate::run::Prepared::run) returns it
/// as an error.
#[derive(Debug)]
pub struct Exhausted(pub String);

/// Ends the run without a panic's message: see [`Exhausted`].
pub fn exhausted(why: String) -> ! {
    std::panic::resume_unwind(Box::new(Exhausted(why)))
}

/// Returns counts with their names.
fn named<const N: usize>(counts: [(&str, u64); N]) -> Vec<(String, u64)> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

/// The result of a callback on behalf of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The core continues at this time.
    Go(Cycle),
    /// The core waits: call again at this time, or when the core's outstanding persists have begun on the medium.
    Wait(Cycle),
}

/// A word that a core stores.
#[derive(Clone, Copy, Debug)]
pub struct StoredWord {
    /// The line's number in memory: its address / 64.
    pub line: LineNumber,
    /// Number of the word in it.
    pub word: u8,
    /// The word's value after the store.
    pub value: u64,
}

/// A transaction's boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// It begins: TxBegin, Atomic_Begin, the opening of a wrap.
    Begin,
    /// It has made its last store: TxCommit, Atomic_End, the closing of a wrap. The number is the TxID.
    Commit(u64),
    /// It is given up.
    Abort,
    /// Outside any transaction: everything that the core has committed must be durable before it continues. A persistence fence, TxFlush.
    Flush,
}

/// A hardware scheme in a running machine. The caches call the methods of its port to memory; the machine calls the others, while no access is in
/// progress. All times are cycles; `core` is the hardware thread.
pub trait HardwareScheme: MemoryPort {
    /// Returns the name in `strandline-lab list`.
    fn name(&self) -> &'static str;

    /// Returns how many bytes of persistent memory behind the pool's the hardware needs for its log; software cannot address them. They must be a
    /// multiple of interleaving and controllers ([`MemorySide::reserved_line`]).
    fn reserved_bytes(&self) -> u64 {
        0
    }

    /// Called at a transaction's boundary on `core` at `now`.
    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply;

    /// Returns whether [`Boundary::Abort`] undoes the transaction's stores (TxAbort). If not, the software restores the old values before it.
    fn takes_stores_back(&self) -> bool {
        false
    }

    /// Called before a store of `core` changes the first level at `now`: its line is there, writable, at `entry`.
    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        stored: StoredWord,
        entry: usize,
        now: Cycle,
    ) -> Reply;

    /// Called for a persist barrier or a new strand of `core`, in its place among the core's stores.
    fn orders(&mut self, _core: CoreId, _ordering: Ordering, _now: Cycle) {}

    /// Called before `core` loads from a line or, if `stores`, stores to it, with all permissions that this needs.
    fn accessed(&mut self, _core: CoreId, _line: LineNumber, _stores: bool) {}

    /// Returns when its engine has something to do next; [`Cycle::NEVER`] for nothing, or for a scheme without an engine.
    fn next_event(&self) -> Cycle {
        Cycle::NEVER
    }

    /// Does its engine's work at `now`, the time that [`HardwareScheme::next_event`] returned.
    fn act(&mut self, _caches: &mut Hierarchy, _now: Cycle) {}

    /// Called when power fails at `now`: writes what the scheme's own hardware saves into `image`, the surviving words of the pool and the reserved
    /// ones. It writes nothing if its state is volatile. The run may continue afterwards.
    fn power_fails(&mut self, _caches: &mut Hierarchy, _image: &mut [u64], _now: Cycle) {}

    /// Returns the TxID up to which transactions are acknowledged as durable at `now`, if the hardware acknowledges them. `None`: a transaction is
    /// acknowledged when its commit boundary has let the core continue.
    fn acknowledged(&self, _now: Cycle) -> Option<u64> {
        None
    }

    /// Returns whether the hardware still has work to do for commits of `core`, which a measurement should include.
    fn is_busy(&self, _core: CoreId) -> bool {
        false
    }

    /// Returns the scheme's own copy of a line, without taking time, if home is not the newest.
    fn copy(&self, _line: LineNumber) -> Option<Line> {
        None
    }

    /// Returns a sentence for each kind of its work that the measured part of a run has not reached: its cost is missing from the figures.
    fn unreached(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns its counts, by name.
    fn statistics(&self) -> Vec<(String, u64)>;

    /// Sets all counts to zero: the region of interest begins.
    fn reset_statistics(&mut self);
}

/// The port of a machine with or without a hardware scheme. Without one each line comes from home and goes there.
impl MemoryPort for Option<Box<dyn HardwareScheme>> {
    fn read(&mut self, memory: &mut MemorySide, line: LineNumber, now: Cycle) -> Option<(Cycle, Line)> {
        self.as_mut()?.read(memory, line, now)
    }

    fn fetched(
        &mut self,
        memory: &mut MemorySide,
        core: CoreId,
        exclusive: bool,
        line: LineNumber,
        data: &Line,
        at: Cycle,
    ) {
        if let Some(scheme) = self {
            scheme.fetched(memory, core, exclusive, line, data, at);
        }
    }

    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, data: &Line, now: Cycle) -> WayHome {
        match self {
            Some(scheme) => scheme.way_home(memory, line, data, now),
            None => WayHome::Home(now),
        }
    }

    fn version_overflow(&mut self, memory: &mut MemorySide, version: u32, now: Cycle) {
        if let Some(scheme) = self {
            scheme.version_overflow(memory, version, now);
        }
    }
}

/// The machine and rules for which a scheme's hardware is built, or recovers.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The machine.
    pub machine: &'a Description,
    /// The name of the [mutant](Mutant) to build; `None`: all rules hold.
    pub omitted: Option<&'static str>,
}

impl Setup<'_> {
    /// Returns whether the rule of this mutant is left out.
    pub fn omits(&self, mutant: &str) -> bool {
        self.omitted == Some(mutant)
    }
}

/// Builds a scheme's hardware for a machine.
///
/// # Errors
/// Returns the reason why the scheme is impossible on this machine.
pub type Make = fn(&Setup<'_>) -> Result<Box<dyn HardwareScheme>, String>;

/// Repairs the pool's words that a power failure has left, from the reserved ones, before any software runs. The pool's words become durable before
/// the reserved ones. Power may fail at any point, after any part of either, and recovery restarts.
///
/// # Errors
/// Returns what is damaged.
pub type Recover = fn(&Setup<'_>, pool: &mut [u64], reserved: &mut [u64]) -> Result<(), String>;

/// A scheme with one rule left out, which crash tests must find broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The name on the command line.
    pub name: &'static str,
    /// The rule that is left out.
    pub rule: &'static str,
    /// The reason why nothing is lost without it, if that is so.
    pub redundant: Option<&'static str>,
}

/// The mutants that only show in a second life, which begins on what recovery has left: their rules keep the remains of one life from completing
/// records of another.
pub const BETWEEN_LIVES: [&str; 4] = ["life-number", "life-start", "stale-entries", "grant-life"];

/// A hardware scheme that can be chosen. Software under it is `hardware` (plain stores in place between the boundaries) or `hardware-flushed` (which
/// writes them back before the commit).
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// The paper that it comes from.
    pub source: &'static str,
    /// A description in one line.
    pub description: &'static str,
    /// Builds the hardware for a machine; `None` if there is no hardware besides caches and controllers.
    pub make: Option<Make>,
    /// The recovery that runs on the memory after a power failure.
    pub recover: Recover,
    /// The software that belongs to it, by the names of `strandline-lab list`.
    pub software: &'static [&'static str],
    /// True if it promises that acknowledged transactions survive.
    pub is_durable: bool,
    /// Its parameters in the machine's `[scheme]` table.
    pub parameters: &'static [Parameter],
    /// The rules that crash tests leave out, one at a time.
    pub mutants: &'static [Mutant],
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Entry {
    /// Builds it into the setup's machine. Returns `None` if there is nothing to build.
    ///
    /// # Errors
    /// Returns an error if the machine's `[scheme]` table names an unknown parameter or a value that is out of range, or if the scheme is impossible
    /// on this machine.
    pub fn build(&self, setup: &Setup<'_>) -> Result<Option<Box<dyn HardwareScheme>>, String> {
        self.check_parameters(&setup.machine.scheme)?;
        self.make.map(|make| make(setup)).transpose()
    }

    /// Refuses unknown parameters, and values that are out of range.
    ///
    /// # Errors
    /// Returns the key, its value, and the permitted values.
    pub fn check_parameters(&self, values: &BTreeMap<String, u64>) -> Result<(), String> {
        parameter::check(self, values)
    }

    /// Returns whether this software runs beside the hardware: the hardware's own software, and plain programs that mark their transactions in the
    /// same way. Without hardware any software runs.
    pub fn takes(&self, software: SchemeName) -> bool {
        let own = |name: &&str| {
            let own = SchemeName::from_str(name).ok();
            *name == software.name()
                || software.plain.is_some() && own.is_some_and(|own| own.kind == software.kind)
        };
        self.make.is_none() || self.software.iter().any(own)
    }

    /// Refuses software that does not run beside it.
    ///
    /// # Errors
    /// Returns an error that lists the software that does.
    pub fn check_software(&self, software: SchemeName) -> Result<(), String> {
        if self.takes(software) {
            return Ok(());
        }
        let own = self.software.join(", ");
        Err(format!(
            "{} beside the hardware {} makes no sense: the hardware makes durable what its own software marks as transactions, \
             which {} does not; choose {own}, or a plain program, or leave the scheme out",
            software.name(),
            self.name,
            software.name(),
        ))
    }
}

/// A program's registry of hardware schemes.
///
/// ```
/// use strandline_sim::scheme::SCHEMES;
///
/// assert_eq!(SCHEMES.of_name("loc-wal")?.software, ["hardware+single-writer"]);
/// assert!(SCHEMES.of_name("magic").is_err());
/// # Ok::<(), strandline_workloads::UnknownName>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hardware(&'static [&'static Entry]);

impl Hardware {
    /// Creates a registry of these schemes, in the order in which they are shown.
    pub const fn new(schemes: &'static [&'static Entry]) -> Self {
        Self(schemes)
    }

    /// Returns the schemes, in the order in which they are shown.
    pub fn iter(self) -> impl Iterator<Item = &'static Entry> {
        self.0.iter().copied()
    }

    /// Returns the scheme with this name.
    ///
    /// # Errors
    /// Returns an error that lists the known names if there is none.
    pub fn of_name(self, name: &str) -> Result<&'static Entry, UnknownName> {
        let names = || self.iter().map(|entry| entry.name);
        self.iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| UnknownName::new("hardware scheme", name, names()))
    }
}

/// All hardware schemes of the papers, in the order in which they are shown.
pub const SCHEMES: Hardware = Hardware::new(LIST);

/// No hardware besides caches and controllers.
pub const NONE: Entry = Entry {
    name: "none",
    source: "",
    description: "caches and controllers only: the software scheme does it all",
    make: None,
    recover: |_, _, _| Ok(()),
    software: &[],
    is_durable: false,
    parameters: &[],
    mutants: &[],
};

static LIST: &[&Entry] = &[
    &NONE,
    &atom::BASE,
    &atom::POSTED,
    &atom::SOURCE_LOGGED,
    &atom::redo::REDO,
    &loc::H_WAL,
    &loc::EC_WAL,
    &loc::LOC_WAL,
    &loc::KILN,
    &loc::LOC_KILN,
    &wrap::WRAP,
    &wrap::WRAP_COMBINED,
    &wrap::WRAP_EVALUATED,
    &wrap::WRAP_BUFFER_OF_ONE,
    &undo_log::UNDO_LOG,
    &persist_buffers::STRICT,
    &persist_buffers::EPOCH,
    &persist_buffers::STRAND,
];

/// Returns the paper's scheme with this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    SCHEMES.iter().find(|entry| entry.name == name)
}
