//! What native code executes between two accesses of a program: counted, and charged by the machine.
//!
//! The counts are in `data/instructions.toml` and `data/transactions.toml`; `examples/instructions.rs` makes these files. A plain program has
//! counts of its own for each workload. Transactions in software have counts of their own for each scheme and workload that claims are judged
//! by, and two figures for all others, the medians of six schemes: for an access, on five workloads, and for a further word of a range, at which the
//! library looks too, on long entries of an array.
//!
//! `data/copies.toml` has what it takes to copy a word with stores of each width (`examples/copy.c`).

use std::sync::LazyLock;

use crate::description::Compiled;

use serde::{Deserialize, Serialize};

/// Instructions, private loads and private stores beside a program's accesses to shared memory. An access is an operation of
/// waist 2: a word, a range or a line, counted as one instruction itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// Instructions beside each access.
    pub access: f64,
    /// Instructions beside each further word of a range.
    pub word: f64,
    /// Loads of the program's own memory, its stack above all, among the instructions of an access.
    pub private_loads: f64,
    /// Stores to it, likewise.
    pub private_stores: f64,
}

/// A row of the table.
#[derive(Debug, Deserialize)]
struct Count {
    workload: String,
    value_bytes: u64,
    #[serde(flatten)]
    instructions: Instructions,
}

/// A row of the table of transactions. It also has the instructions, accesses and words of a transaction, of which these are made.
#[derive(Debug, Deserialize)]
struct OfTransactions {
    workload: String,
    scheme: String,
    access: f64,
    word: f64,
}

#[derive(Deserialize)]
struct TransactionsTable {
    transactions: Vec<OfTransactions>,
}

const TRANSACTIONS_TABLE: &str = include_str!("../data/transactions.toml");

static TRANSACTIONS: LazyLock<Vec<OfTransactions>> = LazyLock::new(|| {
    let table: TransactionsTable =
        toml::from_str(TRANSACTIONS_TABLE).expect("the table of transactions can be read");
    table.transactions
});

#[derive(Deserialize)]
struct Table {
    plain: Vec<Count>,
}

/// A row of the table of copies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Copied {
    compiled: Compiled,
    store_bytes: u64,
    instructions: f64,
    /// The same loop in Rust, which the machine does not use.
    #[serde(default, rename = "rust")]
    _rust: f64,
}

#[derive(Deserialize)]
struct Copies {
    copy: Vec<Copied>,
}

static COPIES: LazyLock<Vec<Copied>> = LazyLock::new(|| {
    let copies: Copies =
        toml::from_str(include_str!("../data/copies.toml")).expect("the table of copies can be read");
    copies.copy
});

/// Instructions in which a loop of loads and stores of `store_bytes` bytes copies a word, these included.
pub fn copied_word(store_bytes: u64, compiled: Compiled) -> Option<f64> {
    let row = COPIES.iter().find(|row| (row.store_bytes, row.compiled) == (store_bytes, compiled))?;
    Some(row.instructions)
}

/// Instructions that each access to a word that is copied has beyond those counted of the workloads, which copy word by word in optimised
/// code: a word that is copied is loaded and stored, so half of what the copy takes more.
pub(crate) fn beyond_counted(store_bytes: u64, compiled: Compiled) -> f64 {
    let of = |store_bytes, compiled| copied_word(store_bytes, compiled).unwrap_or_default();
    ((of(store_bytes, compiled) - of(8, Compiled::Optimised)) / 2.0).max(0.0)
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/instructions.toml")).expect("the table of counts can be read")
});

impl Instructions {
    /// Transactions in software that were not counted: the medians of six schemes on five workloads.
    pub const TRANSACTIONS: Self = Self { access: 43.6, word: 31.2, ..Self::constant(0.0) };

    /// So many beside each word.
    pub const fn constant(instructions: f64) -> Self {
        Self { access: instructions, word: instructions, private_loads: 0.0, private_stores: 0.0 }
    }

    /// Those counted for the transactions of a workload under a scheme, by its name in `strandline-lab list`, if they were.
    pub fn of_transactions(workload: &str, scheme: &str) -> Option<Self> {
        // Under persistency models that no processor has, the program is the same but for its barriers.
        let scheme = match scheme.split_once('-') {
            Some(("sct", _)) => "sct-eager-sync",
            Some(("dct", _)) => "dct-eager-sync",
            _ => scheme,
        };
        let row = TRANSACTIONS.iter().find(|row| row.workload == workload && row.scheme == scheme)?;
        Some(Self { access: row.access, word: row.word, ..Self::constant(0.0) })
    }

    /// Those counted for the plain program of a workload, with values of this size or the nearest smaller one that was counted.
    pub fn of_plain(workload: &str, value_bytes: u64) -> Option<Self> {
        let rows = TABLE.plain.iter().filter(|row| row.workload == workload);
        let fits = rows.filter(|row| row.value_bytes <= value_bytes);
        fits.max_by_key(|row| row.value_bytes).map(|row| row.instructions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_stores_and_unoptimised_loops_take_more_instructions() {
        for compiled in [Compiled::Optimised, Compiled::Unoptimised] {
            let of = [8, 4, 2, 1].map(|bytes| copied_word(bytes, compiled).unwrap());
            assert!(of.is_sorted_by(|wide, narrow| 1.7 * wide < *narrow), "{of:?}");
        }
        assert_eq!(beyond_counted(8, Compiled::Optimised), 0.0);
        assert_eq!(copied_word(3, Compiled::Optimised), None);
    }

    #[test]
    fn every_workload_has_counts() {
        for workload in strandline_workloads::ALL.iter() {
            let count = Instructions::of_plain(workload.name, 8).expect(workload.name);
            assert!(count.access > 0.0 && count.word > 0.0, "{}: {count:?}", workload.name);
            assert!(
                count.private_loads + count.private_stores < count.access,
                "{}: {count:?}",
                workload.name
            );
        }
    }

    /// What claims of Blurred Persistence and of deferred commit are judged by.
    #[test]
    fn what_claims_are_judged_by_was_counted() {
        let of_b = strandline_workloads::BLURRED.map(|workload| workload.name);
        let of_d = ["tatp-update-location-arrays", "tpcc-new-order-arrays"];
        let b = [
            "np",
            "base",
            "base-tail",
            "mne-sync",
            "mne-sync-fenced",
            "xil",
            "xil-unmarked",
            "vcbp",
            "vcbp-tail",
            "bppm",
        ];
        let d = ["sct-eager-sync", "sct-epoch", "sct-strand", "dct-eager-sync", "dct-epoch", "dct-strand"];
        let of_papers = [(&of_b[..], &b[..]), (&of_d[..], &d[..])];
        for (workloads, schemes) in of_papers {
            for (workload, scheme) in workloads.iter().flat_map(|w| schemes.iter().map(move |s| (w, s))) {
                let counted = Instructions::of_transactions(workload, scheme);
                assert!(counted.is_some(), "{workload} under {scheme}");
            }
        }
        assert_eq!(Instructions::of_transactions("hash", "wrap"), None);
    }

    /// Each row charges a transaction what was counted.
    #[test]
    fn a_row_charges_what_was_counted() {
        let table: toml::Table = toml::from_str(TRANSACTIONS_TABLE).unwrap();
        let rows = table["transactions"].as_array().unwrap();
        assert_eq!(rows.len(), TRANSACTIONS.len());
        for row in rows {
            let [instructions, accesses, words, access, word] =
                ["instructions", "accesses", "words", "access", "word"]
                    .map(|key| row[key].as_float().unwrap());
            let charged = accesses * access + words + (words - accesses) * word;
            assert!((charged / instructions - 1.0).abs() < 2e-3, "{row:?}: {charged}");
            assert!(access > 0.0 && word > 0.0, "{row:?}");
        }
    }
}
