//! Hardware schemes: what a machine does for atomic durability beyond its caches and controllers.
//!
//! A scheme is one file that implements [`HardwareScheme`], and an [`Entry`] in a registry: [`SCHEMES`], or a program's own
//! ([`Registry`](crate::Registry)). The machine calls it at each point where the papers' hardware acts; software under it issues plain stores between the boundaries of
//! transactions. A callback that must wait answers [`Reply::Wait`]: the core does nothing else, and the same
//! callback comes again when something may have changed.
//!
//! # A scheme that does nothing
//!
//! It counts commits, and is complete:
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
//!         Reply::Go(now) // Reply::Wait: the core asks again later
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

/// What a run ends with when a scheme's log cannot hold what a program does: why, and what helps.
/// [`Prepared::run`](crate::run::Prepared::run) gives it as an error.
#[derive(Debug)]
pub struct Exhausted(pub String);

/// Ends the run, without a panic's message: see [`Exhausted`].
pub fn exhausted(why: String) -> ! {
    std::panic::resume_unwind(Box::new(Exhausted(why)))
}

/// Counts by name.
fn named<const N: usize>(counts: [(&str, u64); N]) -> Vec<(String, u64)> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

/// The answer of a callback on a core's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The core goes on at this time.
    Go(Cycle),
    /// Not yet: ask again at this time, or when the core's outstanding persists have begun on the medium.
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
    /// It has made its last store: TxCommit, Atomic_End, the closing of a wrap. With the TxID.
    Commit(u64),
    /// It is given up.
    Abort,
    /// Outside any transaction: all that the core has committed must be durable before it goes on. A persistence
    /// fence, TxFlush.
    Flush,
}

/// A hardware scheme in a running machine. The caches call what it does at their port to memory; the machine calls the rest, while no
/// access is under way. All times are cycles; `core` is the hardware thread.
pub trait HardwareScheme: MemoryPort {
    /// The name in `strandline-lab list`.
    fn name(&self) -> &'static str;

    /// Bytes of persistent memory behind the pool's that software cannot address: the hardware's log.
    /// A multiple of interleaving and controllers ([`MemorySide::reserved_line`]).
    fn reserved_bytes(&self) -> u64 {
        0
    }

    /// A transaction's boundary on `core` at `now`.
    fn boundary(&mut self, caches: &mut Hierarchy, core: CoreId, boundary: Boundary, now: Cycle) -> Reply;

    /// Returns whether [`Boundary::Abort`] takes the transaction's stores back (TxAbort). Otherwise the software stores the old values
    /// again before.
    fn takes_stores_back(&self) -> bool {
        false
    }

    /// A store of `core` is about to change the first level at `now`: its line is there, writable, at `entry`.
    fn store(
        &mut self,
        caches: &mut Hierarchy,
        core: CoreId,
        stored: StoredWord,
        entry: usize,
        now: Cycle,
    ) -> Reply;

    /// A persist barrier or a new strand of `core`, at its place among the core's stores.
    fn orders(&mut self, _core: CoreId, _ordering: Ordering, _now: Cycle) {}

    /// `core` is about to load from a line or, if `stores`, to store to it, with all permission that this needs.
    fn accessed(&mut self, _core: CoreId, _line: LineNumber, _stores: bool) {}

    /// When its engine has something to do next; [`Cycle::NEVER`] for nothing, as of a scheme without an engine.
    fn next_event(&self) -> Cycle {
        Cycle::NEVER
    }

    /// Does what its engine has to do at `now`, the time that [`HardwareScheme::next_event`] named.
    fn act(&mut self, _caches: &mut Hierarchy, _now: Cycle) {}

    /// Power fails at `now`: writes into `image`, the words of the pool and the reserved ones that survive so far,
    /// what the scheme's own hardware saves: nothing, if all that it has is volatile. The run may go on after it.
    fn power_fails(&mut self, _caches: &mut Hierarchy, _image: &mut [u64], _now: Cycle) {}

    /// At `now`, up to which TxID transactions are acknowledged as durable, if it is the hardware that tells.
    /// `None`: a transaction is acknowledged when its commit boundary has let the core go on.
    fn acknowledged(&self, _now: Cycle) -> Option<u64> {
        None
    }

    /// Returns whether the hardware still has work to do for what `core` has committed, which a measurement is to contain.
    fn is_busy(&self, _core: CoreId) -> bool {
        false
    }

    /// The scheme's own copy of a line, past all timing, if home is not the newest.
    fn copy(&self, _line: LineNumber) -> Option<Line> {
        None
    }

    /// What of its work the measured part of a run has not reached, a sentence each: its cost is not in the figures.
    fn unreached(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it counts, by name.
    fn statistics(&self) -> Vec<(String, u64)>;

    /// Sets all counts to zero: the region of interest begins.
    fn reset_statistics(&mut self);
}

/// The port of a machine with a hardware scheme, or without one: then each line comes from home and goes there.
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

/// What a scheme's hardware is built into, and what its recovery knows.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The machine that it is built into.
    pub machine: &'a Description,
    /// The [mutant](Mutant) that is to be built, by name; `None`: all rules hold.
    pub omitted: Option<&'static str>,
}

impl Setup<'_> {
    /// Returns whether the rule of this mutant is left out.
    pub fn omits(&self, mutant: &str) -> bool {
        self.omitted == Some(mutant)
    }
}

/// Makes a scheme's hardware for a machine.
///
/// # Errors
/// Why the scheme cannot be on this machine.
pub type Make = fn(&Setup<'_>) -> Result<Box<dyn HardwareScheme>, String>;

/// Repairs the pool's words that a power failure has left, before any software runs, from the reserved ones. The pool's
/// words become durable before the reserved ones; in between and among themselves power may fail at any place, and
/// recovery begins anew.
///
/// # Errors
/// What is damaged.
pub type Recover = fn(&Setup<'_>, pool: &mut [u64], reserved: &mut [u64]) -> Result<(), String>;

/// A scheme with one rule left out, which crash tests must find broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The name on the command line.
    pub name: &'static str,
    /// The rule that is left out.
    pub rule: &'static str,
    /// Why nothing is lost without it, where that is so.
    pub redundant: Option<&'static str>,
}

/// The mutants that only a second life shows, which begins on what recovery has left: what makes sure that no life's leavings
/// complete another's records.
pub const BETWEEN_LIVES: [&str; 4] = ["life-number", "life-start", "stale-entries", "grant-life"];

/// A hardware scheme that can be chosen. Software under it is `hardware` (plain stores in place between the boundaries) or
/// `hardware-flushed` (which writes them back before the commit).
pub struct Entry {
    /// The name on the command line.
    pub name: &'static str,
    /// The paper it is from.
    pub source: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// Makes one for a machine; `None` for no hardware beside caches and controllers.
    pub make: Option<Make>,
    /// What runs on the memory that a power failure leaves.
    pub recover: Recover,
    /// The software that belongs beside it, by the names of `strandline-lab list`.
    pub software: &'static [&'static str],
    /// Whether it promises that acknowledged transactions survive.
    pub is_durable: bool,
    /// What can be varied of it, in the machine's `[scheme]` table.
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
    /// Builds it into the setup's machine; `None` where there is nothing to build.
    ///
    /// # Errors
    /// The machine's `[scheme]` table names what is no parameter of it, or a value that is out of range; why the scheme cannot be on this
    /// machine.
    pub fn build(&self, setup: &Setup<'_>) -> Result<Option<Box<dyn HardwareScheme>>, String> {
        self.check_parameters(&setup.machine.scheme)?;
        self.make.map(|make| make(setup)).transpose()
    }

    /// Refuses values of parameters that it does not have, or that are out of range.
    ///
    /// # Errors
    /// The key, its value, and what is allowed.
    pub fn check_parameters(&self, values: &BTreeMap<String, u64>) -> Result<(), String> {
        parameter::check(self, values)
    }

    /// Returns whether this is what runs beside the hardware: its own software, and the plain programs that mark their transactions as that
    /// does. Anything runs where there is no hardware.
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
    /// What does.
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

/// Hardware schemes that a program knows.
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
    /// A registry of these, in the order in which they are shown.
    pub const fn new(schemes: &'static [&'static Entry]) -> Self {
        Self(schemes)
    }

    /// The schemes, in the order in which they are shown.
    pub fn iter(self) -> impl Iterator<Item = &'static Entry> {
        self.0.iter().copied()
    }

    /// The scheme of this name.
    ///
    /// # Errors
    /// There is none; it says which there are.
    pub fn of_name(self, name: &str) -> Result<&'static Entry, UnknownName> {
        let names = || self.iter().map(|entry| entry.name);
        self.iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| UnknownName::new("hardware scheme", name, names()))
    }
}

/// All hardware schemes of the papers, in the order in which they are shown.
pub const SCHEMES: Hardware = Hardware::new(LIST);

/// No hardware beside caches and controllers.
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

/// The paper's scheme with this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    SCHEMES.iter().find(|entry| entry.name == name)
}
