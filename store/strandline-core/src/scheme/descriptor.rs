//! What is to be known of a scheme, in one value that stands in the scheme's own file.
//!
//! Registries of schemes ([`Schemes`]) are values, which a program may extend: the command, the crash checker, the counts
//! and the documentation are made from them.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::erased::AnyScheme;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::Step;
use crate::transaction::Concurrency;

/// A scheme, by what is to be known of it.
pub type SchemeKind = &'static SchemeDescriptor;

/// Who makes what a scheme acknowledges durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nobody: it is lost in a crash.
    Nobody,
    /// The scheme's own log.
    Software,
    /// A hardware scheme of the simulated machine, which it runs beside.
    Hardware,
}

/// A mode of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// How its transactions are isolated.
    pub concurrency: Concurrency,
    /// The name in `strandline-lab list`.
    pub name: &'static str,
    /// Steps that may be left out in this mode, and why: the crash checker does not find their mutants. `docs/crash-checking.md`
    /// says more.
    pub redundant: &'static [(Step, &'static str)],
}

/// Lines written back, fences and bytes past the cache that a commit costs, by the lines that its data take where they are at home,
/// those that its records take, and those that its records and the commit record take.
pub type CommitCost = fn(home: u64, data_lines: u64, log_lines: u64) -> (u64, u64, u64);

/// Fills the place of a log with what another life of the memory may have left there; the function given draws a number
/// below its argument.
pub type Leftover = fn(&Layout, &mut dyn FnMut(u64) -> u64, &mut [u64]);

/// Memory persistency models as software meets them (deferred-commit paper, section 4): which barriers a program
/// issues so that its stores persist in the order that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistency {
    /// Stores persist in the order of the consistency model; no barriers.
    Strict,
    /// Persist barriers order, and do not stall; strong persist atomicity orders threads.
    Epoch,
    /// Sync barriers stall until all that was written back is durable; no strong persist atomicity.
    EagerSync,
    /// Epoch persistency within strands, of which a thread has several.
    Strand,
}

/// A barrier of a scheme under a persistency model.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// The step that the barrier is.
    pub step: Step,
    /// The paper's name for it.
    pub name: &'static str,
    /// Whether it stands within the transaction, and not in a later one.
    pub within: bool,
}

/// What is to be known of a scheme.
///
/// ```
/// use strandline_core::Concurrency;
/// use strandline_core::scheme::BPPM;
///
/// assert_eq!(BPPM.name(Concurrency::Stm), "bppm");
/// assert_eq!(BPPM.name(Concurrency::SingleWriter), "bppm+single-writer");
/// ```
pub struct SchemeDescriptor {
    /// Its number in a pool's state word, which says who can recover an uncleanly closed pool. The numbers are part of the pool
    /// format (`docs/pool-format.md`): none is ever used for something else.
    pub code: u64,
    /// The modes that it runs in, at least one.
    pub modes: &'static [Mode],
    /// Where it is taken from.
    pub source: &'static str,
    /// What it is, in a line of `strandline-lab list`.
    pub description: &'static str,
    /// Who makes what it acknowledges durable.
    pub durability: Durability,
    /// Whether it runs on real memory. The others issue persist barriers, or count on an order of persists or on
    /// hardware, that no processor has; they exist for the recorder, the crash checker and the simulator.
    pub is_native: bool,
    /// Whether the `Sync` domain carries it.
    pub in_sync: bool,
    /// The persistency model that it is written for, where it is written for one: the checker explores it under that too.
    pub persistency: Option<Persistency>,
    /// The steps that its durability rests on, each of which makes a mutant; in groups, some of which schemes share.
    pub steps: &'static [&'static [Step]],
    /// The barriers that the paper calls necessary, where a persistency model gives them their meaning.
    pub barriers: &'static [Barrier],
    /// What may lie where a pool has no log of it yet: logs are made when they are first needed.
    pub leftover: Leftover,
    /// What a commit costs, where that is a matter of lines.
    pub commit_cost: Option<CommitCost>,
    /// The type of the scheme, as a value: [`Of::NEW`](super::Of::NEW).
    pub scheme: &'static dyn AnyScheme,
}

impl SchemeDescriptor {
    /// The name in `strandline-lab list`, in one of its modes; in a mode that it does not have, in its first one.
    pub fn name(&self, concurrency: Concurrency) -> &'static str {
        self.mode(concurrency).unwrap_or(&self.modes[0]).name
    }

    /// What is to be known of one of its modes.
    pub fn mode(&self, concurrency: Concurrency) -> Option<&'static Mode> {
        self.modes.iter().find(|mode| mode.concurrency == concurrency)
    }

    /// All steps that its durability rests on.
    pub fn all_steps(&self) -> impl Iterator<Item = Step> + use<> {
        self.steps.iter().copied().flatten().copied()
    }

    /// Returns whether it says only when a worker is drained that commits are durable: under persistency models whose barriers
    /// order and do not wait.
    pub fn acknowledges_when_drained(&self) -> bool {
        self.persistency.is_some_and(|model| model != Persistency::EagerSync)
    }

    /// Returns whether what it acknowledges survives without a hardware scheme.
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Software
    }
}

impl PartialEq for SchemeDescriptor {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for SchemeDescriptor {}

impl Hash for SchemeDescriptor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.code.hash(state);
    }
}

impl fmt::Debug for SchemeDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.modes[0].name)
    }
}

/// Schemes that a program knows: those that it runs, and whose pools it recovers.
///
/// ```
/// use strandline_core::scheme::{BPPM, SchemeKind, Schemes};
///
/// // An application's, and those of a program that lists its own.
/// assert_eq!(Schemes::default().of_code(BPPM.code)?, &BPPM);
/// static MINE: [SchemeKind; 1] = [&BPPM];
/// assert_eq!(Schemes::new(&MINE).of_name("bppm+single-writer").unwrap().0, &BPPM);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Schemes(&'static [SchemeKind]);

impl Schemes {
    /// A registry of these schemes, in the order in which they are shown.
    pub const fn new(schemes: &'static [SchemeKind]) -> Self {
        Self(schemes)
    }

    /// The schemes, in the order in which they are shown.
    pub fn iter(self) -> impl Iterator<Item = SchemeKind> {
        self.0.iter().copied()
    }

    /// The scheme with this number in a pool's state word.
    ///
    /// # Errors
    /// Returns [`Error::OtherScheme`] if there is none among these.
    pub fn of_code(self, code: u64) -> Result<SchemeKind> {
        self.iter().find(|kind| kind.code == code).ok_or(Error::OtherScheme { path: None, code })
    }

    /// The scheme and the mode of this name.
    pub fn of_name(self, name: &str) -> Option<(SchemeKind, Concurrency)> {
        let modes = self.iter().flat_map(|kind| kind.modes.iter().map(move |mode| (kind, mode)));
        modes.into_iter().find(|(_, mode)| mode.name == name).map(|(kind, mode)| (kind, mode.concurrency))
    }
}

impl Default for Schemes {
    /// What an application needs.
    fn default() -> Self {
        static APPLICATION: [SchemeKind; 1] = [&super::BPPM];
        Self(&APPLICATION)
    }
}
