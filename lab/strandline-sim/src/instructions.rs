//! The instructions that native code executes between two accesses of a program, which were counted, and which the machine charges.
//!
//! The counts are in `data/instructions.toml` and `data/transactions.toml`, which `examples/instructions.rs` makes. Each workload's plain program has
//! its own counts. Transactions in software have their own counts for each scheme and workload by which claims are judged. All others use two
//! figures, the medians of six schemes: one for an access, on five workloads, and one for a further word of a range, on long entries of an array,
//! since the library checks each word.
//!
//! `data/copies.toml` has the cost of copying a word with stores of each width (`examples/copy.c`).

use std::sync::LazyLock;

use crate::description::Compiled;

use serde::{Deserialize, Serialize};

/// Instructions, private loads and private stores in addition to a program's accesses to shared memory. An access is an operation of waist 2 (a word,
/// a range or a line), and is one instruction itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// Instructions in addition to each access.
    pub access: f64,
    /// Instructions in addition to each further word of a range.
    pub word: f64,
    /// Loads of the program's own memory, mostly its stack, for each access.
    pub private_loads: f64,
    /// Stores to the program's own memory for each access.
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

/// A row of the table of transactions. It also has the instructions, accesses and words of a transaction, from which the charges are computed.
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

/// Returns in how many instructions a loop copies a word with loads and stores of `store_bytes` bytes, these included.
pub fn copied_word(store_bytes: u64, compiled: Compiled) -> Option<f64> {
    let row = COPIES.iter().find(|row| (row.store_bytes, row.compiled) == (store_bytes, compiled))?;
    Some(row.instructions)
}

/// Returns how many more instructions each access to a copied word has than was counted for the workloads, which copy word by word in optimised code.
/// A copied word is loaded and stored, so each access gets half of the difference.
pub(crate) fn beyond_counted(store_bytes: u64, compiled: Compiled) -> f64 {
    let of = |store_bytes, compiled| copied_word(store_bytes, compiled).unwrap_or_default();
    ((of(store_bytes, compiled) - of(8, Compiled::Optimised)) / 2.0).max(0.0)
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/instructions.toml")).expect("the table of counts can be read")
});

impl Instructions {
    /// The charges for transactions in software that were not counted: the medians of six schemes on five workloads.
    pub const TRANSACTIONS: Self = Self { access: 43.6, word: 31.2, ..Self::constant(0.0) };

    /// Returns charges of this many instructions for each word.
    pub const fn constant(instructions: f64) -> Self {
        Self { access: instructions, word: instructions, private_loads: 0.0, private_stores: 0.0 }
    }

    /// Returns the charges counted for the transactions of a workload under a scheme, named as in `strandline-lab list`, if they were counted.
    pub fn of_transactions(workload: &str, scheme: &str) -> Option<Self> {
        // Under persistency models that no processor has, the program differs only in its barriers.
        let scheme = match scheme.split_once('-') {
            Some(("sct", _)) => "sct-eager-sync",
            Some(("dct", _)) => "dct-eager-sync",
            _ => scheme,
        };
        let row = TRANSACTIONS.iter().find(|row| row.workload == workload && row.scheme == scheme)?;
        Some(Self { access: row.access, word: row.word, ..Self::constant(0.0) })
    }

    /// Returns the charges counted for the plain program of a workload, with values of this size or the nearest smaller one that was counted.
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

    /// Each row charges a transaction as many instructions as were counted.
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
