//! Names of schemes and references, for `strandline-lab list` and the command line.

use std::fmt;
use std::str::FromStr;

use strandline_core::Concurrency;
use strandline_core::scheme::{SchemeDescriptor, SchemeKind, Schemes};
use strandline_schemes::{HARDWARE, HARDWARE_FLUSHED, Locking, Program};

/// A named entry of `strandline-lab list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    /// The paper, or another source.
    pub source: &'static str,
    /// Its description in `strandline-lab list`.
    pub description: &'static str,
}

/// The pseudo-scheme that serves as the reference for others.
const VOLATILE: Entry = Entry {
    name: "volatile",
    source: "reference",
    description: "plain loads and stores under one lock: no transactions, nothing survives",
};

/// Plain programs, for the simulated machine's hardware schemes.
static PLAIN: [(SchemeName, Entry); 6] = [
    plain(
        &HARDWARE,
        Locking::One,
        "plain",
        "a plain program under one lock: its critical sections are the hardware's transactions",
    ),
    plain(
        &HARDWARE,
        Locking::Declared,
        "plain+locks",
        "the same, under the locks that its critical sections declare",
    ),
    plain(
        &HARDWARE_FLUSHED,
        Locking::One,
        "plain-flushed",
        "a plain program under one lock that writes back what it has stored before a critical section ends (ATOM's software)",
    ),
    plain(
        &HARDWARE_FLUSHED,
        Locking::Declared,
        "plain-flushed+locks",
        "the same, under the locks that its critical sections declare",
    ),
    plain(&HARDWARE, Locking::OfParts, "plain+parts", PARTS),
    plain(&HARDWARE_FLUSHED, Locking::OfParts, "plain-flushed+parts", PARTS),
];

const PARTS: &str = "the same, and each use of a table that is written is a critical section of its own, under its lock: tpcc-new-order alone";

const fn plain(
    kind: SchemeKind,
    locking: Locking,
    name: &'static str,
    description: &'static str,
) -> (SchemeName, Entry) {
    let scheme = SchemeName {
        kind: Some(kind),
        concurrency: Concurrency::SingleWriter,
        plain: Some(locking),
        retries_at_once: false,
    };
    (scheme, Entry { name, source: HARDWARE.source, description })
}

/// Returns all schemes of a registry in their modes, in the order of [`SchemeName::all_of`].
pub fn schemes(schemes: Schemes) -> Vec<Entry> {
    SchemeName::all_of(schemes).map(SchemeName::entry).collect()
}

const WORDS: Entry = Entry {
    name: "strandline",
    source: "reference",
    description: "bppm compiled into the workload, as applications have it; other schemes are called through dynamic dispatch",
};

const SINGLE_WRITER: Entry = Entry {
    name: "strandline+single-writer",
    source: "reference",
    description: "strandline with one writer at a time instead of STM",
};

const TYPES: Entry = Entry {
    name: "strandline-types",
    source: "reference",
    description: "the operations of strandline on the collections of the typed interface",
};

const TYPES_SINGLE_WRITER: Entry = Entry {
    name: "strandline-types+single-writer",
    source: "reference",
    description: "strandline-types with one writer at a time instead of STM",
};

/// References that are measured beside the schemes, in rows of the same form.
pub const REFERENCES: [Entry; 6] = [
    WORDS,
    SINGLE_WRITER,
    TYPES,
    TYPES_SINGLE_WRITER,
    Entry {
        name: "floor",
        source: "reference",
        description: "4 KB appends to a zero-filled file, one flush each: no durable commit on this disk can be faster",
    },
    Entry {
        name: "group-floor",
        source: "reference",
        description: "n threads whose payloads one leader appends with one flush, no transactions",
    },
];

/// An unknown name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl UnknownName {
    /// Creates the error that there is no `what` with this name, with a list of the known names.
    pub fn new(what: &str, name: &str, names: impl Iterator<Item = &'static str>) -> Self {
        let names: Vec<_> = names.collect();
        Self(format!("there is no {what} {name:?}; choose from {}", names.join(", ")))
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownName {}

/// A scheme in one of its modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemeName {
    /// The scheme; `None` for `volatile`, which has no transactions.
    pub kind: Option<SchemeKind>,
    /// How its transactions are isolated.
    pub concurrency: Concurrency,
    /// The locks of a plain program that runs instead of transactions; `kind` then says what it does at the end of a critical section.
    pub plain: Option<Locking>,
    /// Under STM: whether a transaction that meets a conflict immediately runs again
    /// ([`Worker::retry_at_once`](strandline_core::engine::Worker::retry_at_once)). It is not part of a name; the code that runs a paper's programs
    /// sets it.
    pub retries_at_once: bool,
}

impl SchemeName {
    /// `volatile`.
    pub const VOLATILE: Self =
        Self { kind: None, concurrency: Concurrency::Stm, plain: None, retries_at_once: false };

    /// Returns `volatile`, then all of [`strandline_schemes::ALL`] in all their modes, then plain programs.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::all_of(strandline_schemes::ALL)
    }

    /// Like [`SchemeName::all`], for the schemes of another registry.
    pub fn all_of(schemes: Schemes) -> impl Iterator<Item = Self> {
        let schemes = schemes
            .iter()
            .flat_map(|kind| kind.modes.iter().map(move |mode| Self::of(kind, mode.concurrency)));
        std::iter::once(Self::VOLATILE).chain(schemes).chain(PLAIN.iter().map(|&(scheme, _)| scheme))
    }

    /// Returns the scheme with this name, among the schemes of a registry.
    ///
    /// # Errors
    /// Returns an error that lists the known names if there is none.
    pub fn of_name(schemes: Schemes, name: &str) -> Result<Self, UnknownName> {
        let found = Self::all_of(schemes).find(|scheme| scheme.name() == name);
        found.ok_or_else(|| UnknownName::new("scheme", name, Self::all_of(schemes).map(Self::name)))
    }

    /// Returns the name of a scheme in one of its modes.
    pub fn of(kind: SchemeKind, concurrency: Concurrency) -> Self {
        Self { kind: Some(kind), concurrency, plain: None, retries_at_once: false }
    }

    /// Returns the plain program that runs instead of transactions beside other threads; `None` if transactions run.
    pub fn program(self) -> Option<Program> {
        match (self.kind, self.plain) {
            (None, _) => Some(Program::VOLATILE),
            (Some(_), None) => None,
            (Some(kind), locking) => {
                Some(Program { locking, in_regions: true, flushes: *kind == HARDWARE_FLUSHED })
            }
        }
    }

    fn plain_entry(self) -> Option<Entry> {
        PLAIN.iter().find(|(scheme, _)| *scheme == self).map(|&(_, entry)| entry)
    }

    /// Returns the name in `strandline-lab list`.
    pub fn name(self) -> &'static str {
        if let Some(entry) = self.plain_entry() {
            return entry.name;
        }
        self.kind.map_or(VOLATILE.name, |kind| kind.name(self.concurrency))
    }

    /// Returns its entry of `strandline-lab list`.
    pub fn entry(self) -> Entry {
        if let Some(entry) = self.plain_entry() {
            return entry;
        }
        let Some(kind) = self.kind else { return VOLATILE };
        let description = match self.concurrency {
            mode if kind.modes[0].concurrency == mode => kind.description,
            Concurrency::SingleWriter => "the same, one writer at a time instead of STM",
            Concurrency::Locks => "the same, transactions isolated by locks",
            Concurrency::Stm => "the same, with STM",
        };
        Entry { name: self.name(), source: kind.source, description }
    }

    /// Returns whether the `sync` domain supports it.
    pub fn in_sync(self) -> bool {
        self.kind.is_some_and(|kind| kind.in_sync)
    }

    /// Returns whether it runs on real memory; others exist only for the recorder, the crash checker and the simulator.
    pub fn is_native(self) -> bool {
        self.kind.is_none_or(|kind| kind.is_native)
    }

    /// Returns whether acknowledged transactions survive.
    pub fn is_durable(self) -> bool {
        self.kind.is_some_and(SchemeDescriptor::is_durable)
    }
}

impl FromStr for SchemeName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::of_name(strandline_schemes::ALL, name)
    }
}

/// The system that a row of `bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// A scheme, or `volatile`, on the laboratory's type-erased path.
    Scheme(SchemeName),
    /// The product's path with words: BPPM with STM on native memory, inlined.
    Words,
    /// The product's path with words and a single writer.
    SingleWriter,
    /// The product's path with types and STM.
    Types,
    /// The product's path with types and a single writer.
    TypesSingleWriter,
}

impl System {
    /// Returns all of [`SchemeName::all`], and the product's path.
    pub fn all() -> impl Iterator<Item = Self> {
        let product = [Self::Words, Self::SingleWriter, Self::Types, Self::TypesSingleWriter];
        SchemeName::all().map(Self::Scheme).chain(product)
    }

    /// Returns the name in `strandline-lab list`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheme(scheme) => scheme.name(),
            Self::Words => WORDS.name,
            Self::SingleWriter => SINGLE_WRITER.name,
            Self::Types => TYPES.name,
            Self::TypesSingleWriter => TYPES_SINGLE_WRITER.name,
        }
    }

    /// Returns how its transactions are isolated.
    pub fn concurrency(self) -> Concurrency {
        match self {
            Self::Scheme(scheme) => scheme.concurrency,
            Self::Words | Self::Types => Concurrency::Stm,
            Self::SingleWriter | Self::TypesSingleWriter => Concurrency::SingleWriter,
        }
    }

    /// Returns whether its transactions use typed collections.
    pub fn is_typed(self) -> bool {
        matches!(self, Self::Types | Self::TypesSingleWriter)
    }

    /// Returns whether the `sync` domain supports it.
    pub fn in_sync(self) -> bool {
        match self {
            Self::Scheme(scheme) => scheme.in_sync(),
            _ => true,
        }
    }

    /// Returns whether it runs on real memory.
    pub fn is_native(self) -> bool {
        match self {
            Self::Scheme(scheme) => scheme.is_native(),
            _ => true,
        }
    }
}

impl FromStr for System {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::all().find(|system| system.name() == name);
        found.ok_or_else(|| UnknownName::new("scheme", name, Self::all().map(Self::name)))
    }
}
