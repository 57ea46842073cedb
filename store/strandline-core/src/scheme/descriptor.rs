//! The description of a scheme in one value, which is in the scheme's own file.
//!
//! Registries of schemes ([`Schemes`]) are values that a program may extend. The command, the crash checker, the counts and the documentation are
//! derived from them.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::erased::AnyScheme;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::Step;
use crate::transaction::Concurrency;

/// A scheme, represented by its descriptor.
pub type SchemeKind = &'static SchemeDescriptor;

/// The mechanism that makes acknowledged transactions of a scheme durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// None: a crash loses them.
    Nobody,
    /// The scheme's own log.
    Software,
    /// A hardware scheme of the simulated machine, beside which this scheme runs.
    Hardware,
}

/// A mode of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// The control that isolates its transactions.
    pub concurrency: Concurrency,
    /// The name in `strandline-lab list`.
    pub name: &'static str,
    /// Steps that are redundant in this mode, with the reasons. The crash checker cannot find their mutants. `docs/crash-checking.md` explains this.
    pub redundant: &'static [(Step, &'static str)],
}

/// The cost of a commit: lines written back, fences, and bytes stored past the cache. The arguments are the numbers of lines that its data take at
/// home, that its records take, and that its records and the commit record take.
pub type CommitCost = fn(home: u64, data_lines: u64, log_lines: u64) -> (u64, u64, u64);

/// Fills the place of a log with what another life of the memory may have left there. The function argument draws a number below its own argument.
pub type Leftover = fn(&Layout, &mut dyn FnMut(u64) -> u64, &mut [u64]);

/// Memory persistency models from the software's point of view (deferred-commit paper, section 4): the barriers that a program issues so that its
/// stores persist in the necessary order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Persistency {
    /// Stores persist in the order of the consistency model, without barriers.
    Strict,
    /// Persist barriers order persists but do not stall. Strong persist atomicity orders the persists of different threads.
    Epoch,
    /// Sync barriers stall until all that was written back is durable. There is no strong persist atomicity.
    EagerSync,
    /// Epoch persistency within strands. A thread has several strands.
    Strand,
}

/// A barrier of a scheme under a persistency model.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// The step that performs the barrier.
    pub step: Step,
    /// The paper's name for the barrier.
    pub name: &'static str,
    /// True if the barrier is in the transaction itself, and not in a later one.
    pub within: bool,
}

/// The description of a scheme.
///
/// ```
/// use strandline_core::Concurrency;
/// use strandline_core::scheme::BPPM;
///
/// assert_eq!(BPPM.name(Concurrency::Stm), "bppm");
/// assert_eq!(BPPM.name(Concurrency::SingleWriter), "bppm+single-writer");
/// ```
pub struct SchemeDescriptor {
    /// The scheme's number in a pool's state word, which determines who can recover the pool after a crash. The numbers are part of the pool format
    /// (`docs/pool-format.md`) and are never reused.
    pub code: u64,
    /// The modes in which it runs, at least one.
    pub modes: &'static [Mode],
    /// The publication or other source from which it is taken.
    pub source: &'static str,
    /// A description of one line, for `strandline-lab list`.
    pub description: &'static str,
    /// The mechanism that makes its acknowledged transactions durable.
    pub durability: Durability,
    /// True if it runs on real memory. Other schemes issue persist barriers, or rely on an order of persists or on hardware that no processor has.
    /// They exist for the recorder, the crash checker and the simulator.
    pub is_native: bool,
    /// True if it can run in the `Sync` domain.
    pub in_sync: bool,
    /// The persistency model for which it is written, if any. The checker explores it under that model as well.
    pub persistency: Option<Persistency>,
    /// The steps on which its durability depends, each of which yields a mutant. They are in groups, because schemes share some of them.
    pub steps: &'static [&'static [Step]],
    /// The barriers that the paper calls necessary, if the scheme is written for a persistency model.
    pub barriers: &'static [Barrier],
    /// Fills a place where a log will be with what may be there before the log is created, which happens when it is first needed.
    pub leftover: Leftover,
    /// The cost of a commit, if the numbers of lines determine it.
    pub commit_cost: Option<CommitCost>,
    /// The scheme's type as a value: [`Of::NEW`](super::Of::NEW).
    pub scheme: &'static dyn AnyScheme,
}

impl SchemeDescriptor {
    /// Returns the name in `strandline-lab list` in this mode, or in the first mode if the scheme does not have this one.
    pub fn name(&self, concurrency: Concurrency) -> &'static str {
        self.mode(concurrency).unwrap_or(&self.modes[0]).name
    }

    /// Returns one of its modes.
    pub fn mode(&self, concurrency: Concurrency) -> Option<&'static Mode> {
        self.modes.iter().find(|mode| mode.concurrency == concurrency)
    }

    /// Returns all steps on which its durability depends.
    pub fn all_steps(&self) -> impl Iterator<Item = Step> + use<> {
        self.steps.iter().copied().flatten().copied()
    }

    /// Returns whether commits are acknowledged only when a worker is drained, as under persistency models whose barriers order persists but do not
    /// wait for them.
    pub fn acknowledges_when_drained(&self) -> bool {
        self.persistency.is_some_and(|model| model != Persistency::EagerSync)
    }

    /// Returns whether its acknowledged transactions survive without a hardware scheme.
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

/// The schemes that a program knows. It can run them and recover their pools.
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
    /// Creates a registry of these schemes, in the order in which they are shown.
    pub const fn new(schemes: &'static [SchemeKind]) -> Self {
        Self(schemes)
    }

    /// Returns the schemes in the order in which they are shown.
    pub fn iter(self) -> impl Iterator<Item = SchemeKind> {
        self.0.iter().copied()
    }

    /// Returns the scheme with this number in a pool's state word.
    ///
    /// # Errors
    /// Returns [`Error::OtherScheme`] if the registry has none with this number.
    pub fn of_code(self, code: u64) -> Result<SchemeKind> {
        self.iter().find(|kind| kind.code == code).ok_or(Error::OtherScheme { path: None, code })
    }

    /// Returns the scheme and the mode with this name.
    pub fn of_name(self, name: &str) -> Option<(SchemeKind, Concurrency)> {
        let modes = self.iter().flat_map(|kind| kind.modes.iter().map(move |mode| (kind, mode)));
        modes.into_iter().find(|(_, mode)| mode.name == name).map(|(kind, mode)| (kind, mode.concurrency))
    }
}

impl Default for Schemes {
    /// Returns the schemes that an application needs.
    fn default() -> Self {
        static APPLICATION: [SchemeKind; 1] = [&super::BPPM];
        Self(&APPLICATION)
    }
}
