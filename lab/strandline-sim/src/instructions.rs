//! What native code executes between two accesses of a program: counted, and charged by the machine.
//!
//! The counts are in `data/instructions.toml`; `examples/instructions.rs` makes that file. A plain program has counts of its own for
//! each workload. Transactions in software have two figures for all, the medians of six schemes: for an access, on five workloads, and
//! for a further word of a range, at which the library looks too, on long entries of an array.

use std::sync::LazyLock;

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

#[derive(Deserialize)]
struct Table {
    plain: Vec<Count>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/instructions.toml")).expect("the table of counts can be read")
});

impl Instructions {
    /// Transactions in software: the medians of six schemes.
    pub const TRANSACTIONS: Self = Self { access: 43.6, word: 31.2, ..Self::constant(0.0) };

    /// So many beside each word.
    pub const fn constant(instructions: f64) -> Self {
        Self { access: instructions, word: instructions, private_loads: 0.0, private_stores: 0.0 }
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
}
