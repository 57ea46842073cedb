//! Schemes and workloads by name: what `strandline list` shows and the command line takes.

use std::fmt;
use std::str::FromStr;

use strandline_core::Concurrency;
use strandline_core::scheme::{SchemeDescriptor, SchemeKind};

/// Something that has a name in `strandline list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Entry {
    /// The name on the command line and in JSON.
    pub name: &'static str,
    /// The paper, or what else it is taken from.
    pub source: &'static str,
    /// What it is, in a line of `strandline list`.
    pub description: &'static str,
}

/// All workloads, in the order in which they are shown.
pub const WORKLOADS: &[Entry] = &[
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
        name: "btree",
        source: "ATOM, Table II; WrAP, 4.2",
        description: "deletes or inserts random keys of a B-tree with sorted arrays in its nodes: sizes as bplustree",
    },
    Entry {
        name: "set",
        source: "WrAP, 4.2 (std::set)",
        description: "deletes or inserts random keys of an ordered set: sizes as rbtree",
    },
    Entry {
        name: "multiset",
        source: "WrAP, 4.2 (std::multiset)",
        description: "deletes or inserts random keys of an ordered multiset: sizes as rbtree",
    },
    Entry {
        name: "queue",
        source: "ATOM, Table II (copy while locked)",
        description: "inserts or deletes entries of a bounded queue: 65,536 entries, half full",
    },
    Entry {
        name: "sdg",
        source: "Loose-Ordering Consistency, Table 2; ATOM, Table II",
        description: "deletes or inserts edges of a scale-free graph: 131,072 vertices, 500,000 edges, half present",
    },
    Entry {
        name: "tpcc-new-order",
        source: "TPC-C 5.11; Deferred Commit, 7.1; ATOM, V",
        description: "enters an order of 5 to 15 lines: one warehouse of the specification's size, tables in B+ trees",
    },
    Entry {
        name: "tatp-update-location",
        source: "TATP; Deferred Commit, 7.1",
        description: "stores where a subscriber's handset is: 100,000 subscribers, tables in hash tables",
    },
    #[cfg(feature = "sqlite")]
    Entry {
        name: "sqlite",
        source: "Loose-Ordering Consistency, Table 2",
        description: "deletes or inserts rows of an SQLite table in the pool, one thread: keys below 100,000, half present",
    },
];

/// The pseudo-scheme that others are measured against.
const VOLATILE: Entry = Entry {
    name: "volatile",
    source: "reference",
    description: "plain loads and stores under one lock: no transactions, nothing survives",
};

/// All schemes, in the modes that they run in, in the order of [`SchemeName::all`].
pub fn schemes() -> Vec<Entry> {
    SchemeName::all().map(SchemeName::entry).collect()
}

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

/// A scheme in one of its modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchemeName {
    /// The scheme; `None` for `volatile`, which has no transactions.
    pub kind: Option<SchemeKind>,
    /// How its transactions are isolated.
    pub concurrency: Concurrency,
}

impl SchemeName {
    /// `volatile`, then all of [`strandline_schemes::ALL`] in all their modes.
    pub fn all() -> impl Iterator<Item = Self> {
        let volatile = Self { kind: None, concurrency: Concurrency::Stm };
        let modes = |kind: SchemeKind| {
            kind.modes.iter().map(move |mode| Self { kind: Some(kind), concurrency: mode.concurrency })
        };
        std::iter::once(volatile).chain(strandline_schemes::ALL.iter().flat_map(modes))
    }

    /// The name in `strandline list`.
    pub fn name(self) -> &'static str {
        self.kind.map_or(VOLATILE.name, |kind| kind.name(self.concurrency))
    }

    /// What `strandline list` says of it.
    pub fn entry(self) -> Entry {
        let Some(kind) = self.kind else { return VOLATILE };
        let description = match self.concurrency {
            mode if kind.modes[0].concurrency == mode => kind.description,
            Concurrency::SingleWriter => "the same, one writer at a time instead of STM",
            Concurrency::Locks => "the same, transactions isolated by locks",
            Concurrency::Stm => "the same, with STM",
        };
        Entry { name: self.name(), source: kind.source, description }
    }

    /// Whether the `sync` domain carries it.
    pub fn in_sync(self) -> bool {
        self.kind.is_some_and(|kind| kind.in_sync)
    }

    /// Whether it runs on real memory; the others exist for the recorder, the crash checker and the simulator.
    pub fn is_native(self) -> bool {
        self.kind.is_none_or(|kind| kind.is_native)
    }

    /// Whether what it acknowledges survives.
    pub fn is_durable(self) -> bool {
        self.kind.is_some_and(SchemeDescriptor::is_durable)
    }
}

impl FromStr for SchemeName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::all().find(|scheme| scheme.name() == name);
        found.ok_or_else(|| UnknownName::new("scheme", name, &schemes()))
    }
}

/// A workload, by its name on the command line.
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
    /// B-tree.
    BTree,
    /// Ordered set.
    Set,
    /// Ordered multiset.
    MultiSet,
    /// Bounded queue.
    Queue,
    /// Scale-free graph.
    Sdg,
    /// TPC-C's New Order.
    TpccNewOrder,
    /// TATP's Update Location.
    TatpUpdateLocation,
    /// SQLite on the pool.
    #[cfg(feature = "sqlite")]
    Sqlite,
}

impl WorkloadName {
    /// All workloads, in the order of [`WORKLOADS`].
    pub const ALL: &[Self] = &[
        Self::Sps,
        Self::Hash,
        Self::RbTree,
        Self::BPlusTree,
        Self::KvStore,
        Self::BTree,
        Self::Set,
        Self::MultiSet,
        Self::Queue,
        Self::Sdg,
        Self::TpccNewOrder,
        Self::TatpUpdateLocation,
        #[cfg(feature = "sqlite")]
        Self::Sqlite,
    ];

    /// Those of Blurred Persistence (Table I).
    pub const BLURRED: [Self; 5] = [Self::Sps, Self::Hash, Self::RbTree, Self::BPlusTree, Self::KvStore];

    /// The name in `strandline list`.
    pub fn name(self) -> &'static str {
        WORKLOADS[self as usize].name
    }
}

impl FromStr for WorkloadName {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let index = WORKLOADS.iter().position(|entry| entry.name == name);
        index.map(|index| Self::ALL[index]).ok_or_else(|| UnknownName::new("workload", name, WORKLOADS))
    }
}
