//! Schemes and workloads by name: what `strandline list` shows and the command line takes.

use std::fmt;
use std::str::FromStr;

/// Something that has a name in `strandline list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    /// The paper, or what else it is taken from.
    pub source: &'static str,
    /// What it is.
    pub description: &'static str,
}

const BLURRED: &str = "Lu, Shu, Sun: Blurred Persistence";

/// All workloads.
pub const WORKLOADS: [Entry; 6] = [
    Entry {
        name: "sps",
        source: "Blurred Persistence, Table I (from Mnemosyne/NV-Heaps)",
        description: "swaps two random entries of an array of 1,000,000 words",
    },
    Entry {
        name: "hash",
        source: "Blurred Persistence, Table I",
        description: "deletes or inserts random keys of a hash table: 500,000 buckets, keys below 1,000,000, half present",
    },
    Entry {
        name: "rbtree",
        source: "Blurred Persistence, Table I",
        description: "deletes or inserts random keys of a red-black tree: keys below 200,000, half present",
    },
    Entry {
        name: "bplustree",
        source: "Blurred Persistence, Table I",
        description: "deletes or inserts random keys of a B+ tree with 4 KB nodes: keys below 1,000,000, half present",
    },
    Entry {
        name: "kvstore",
        source: "Blurred Persistence, Table I (there Tokyo Cabinet)",
        description: "deletes or inserts random 16-byte keys of a key-value store: sizes as hash",
    },
    Entry {
        name: "tpcc-new-order",
        source: "TPC-C 5.11; Deferred Commit, 7.1; ATOM, V",
        description: "enters an order of 5 to 15 lines: one warehouse of the specification's size, tables in B+ trees",
    },
];

/// All schemes, in the modes that they run in.
pub const SCHEMES: [Entry; 5] = [
    Entry {
        name: "volatile",
        source: "reference",
        description: "plain loads and stores under one lock: no transactions, nothing survives",
    },
    Entry {
        name: "np",
        source: BLURRED,
        description: "transactions (STM) without persistence: the upper bound",
    },
    Entry {
        name: "np+single-writer",
        source: BLURRED,
        description: "the same, one writer at a time instead of STM",
    },
    Entry {
        name: "bppm",
        source: BLURRED,
        description: "execution in the log with torn bits, one fence per commit, bulk persistence (STM)",
    },
    Entry {
        name: "bppm+single-writer",
        source: BLURRED,
        description: "the same, one writer at a time instead of STM",
    },
];

/// What is measured beside the schemes, in rows of the same form.
pub const REFERENCES: [Entry; 2] = [
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

/// A name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl UnknownName {
    fn new(what: &str, name: &str, entries: &[Entry]) -> Self {
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        Self(format!("there is no {what} {name:?}; choose from {}", names.join(", ")))
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnknownName {}

/// A scheme without its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeKind {
    /// Plain loads and stores under one lock.
    Volatile,
    /// Transactions without persistence.
    NoPersistence,
    /// Blurred Persistence.
    Blurred,
}

/// A scheme in one of its modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeName {
    /// The scheme.
    pub kind: SchemeKind,
    /// Whether it runs in single-writer mode; `volatile` has no modes.
    pub single_writer: bool,
}

impl SchemeName {
    /// All schemes, in the order of [`SCHEMES`].
    pub const ALL: [Self; 5] = [
        Self { kind: SchemeKind::Volatile, single_writer: false },
        Self { kind: SchemeKind::NoPersistence, single_writer: false },
        Self { kind: SchemeKind::NoPersistence, single_writer: true },
        Self { kind: SchemeKind::Blurred, single_writer: false },
        Self { kind: SchemeKind::Blurred, single_writer: true },
    ];

    /// The name in `strandline list`.
    pub fn name(self) -> &'static str {
        let index = Self::ALL.iter().position(|&scheme| scheme == self);
        SCHEMES[index.unwrap_or_default()].name
    }
}

impl FromStr for SchemeName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let index = SCHEMES.iter().position(|entry| entry.name == name);
        index.map(|index| Self::ALL[index]).ok_or_else(|| UnknownName::new("scheme", name, &SCHEMES))
    }
}

/// A workload's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadName {
    /// Random swaps.
    Sps,
    /// Hash table.
    Hash,
    /// Red-black tree.
    RbTree,
    /// B+ tree.
    BPlusTree,
    /// Key-value store.
    KvStore,
    /// TPC-C's New Order.
    TpccNewOrder,
}

impl WorkloadName {
    /// All workloads, in the order of [`WORKLOADS`].
    pub const ALL: [Self; 6] =
        [Self::Sps, Self::Hash, Self::RbTree, Self::BPlusTree, Self::KvStore, Self::TpccNewOrder];

    /// The name in `strandline list`.
    pub fn name(self) -> &'static str {
        WORKLOADS[self as usize].name
    }
}

impl FromStr for WorkloadName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let index = WORKLOADS.iter().position(|entry| entry.name == name);
        index.map(|index| Self::ALL[index]).ok_or_else(|| UnknownName::new("workload", name, &WORKLOADS))
    }
}
