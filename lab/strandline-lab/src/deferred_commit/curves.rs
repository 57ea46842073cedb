//! Throughput over the persist latency, from what was measured: Fig. 6 and what follows from it.

use strandline_persistency::throughput::{Curve, break_even};

use crate::measurements::{Key, Measurements};
use crate::verdict;

/// The figure that everything here is measured for.
pub const FIGURE: &str = "fig6";
/// Threads (D14).
pub const THREADS: u64 = 4;
/// Strands of a thread (D14).
pub const STRANDS: u32 = 4;
/// Persist epochs on the critical path, per transaction.
pub const EPOCHS: &str = "epochs/tx";
/// The same of the first tenth of the transactions.
pub const FIRST_EPOCHS: &str = "epochs/tx of the first tenth";
/// From so many recorded transactions on, the first tenth of them has a path that can be compared with the whole's.
pub const COMPARABLE: f64 = 50_000.0;
/// Transactions recorded for the critical path.
pub const RECORDED: &str = "transactions recorded";
/// The x of quantities that do not depend on the latency.
pub const ANY: &str = "any";

/// The designs: scheme and the paper's name.
pub const DESIGNS: [(&str, &str); 2] = [("sct", "SCT"), ("dct", "DCT")];
/// The models of the figure: name and the paper's name.
pub const MODELS: [(&str, &str); 3] =
    [("epoch", "epoch persistency"), ("eager-sync", "eager sync"), ("strand", "strand persistency")];
/// The workloads: name and the paper's. Their tables are arrays: by the paper's own rates and epochs a New Order took some
/// 5 us and few persists, which leaves no time for trees, and what its authors have published keeps arrays.
pub const WORKLOADS: [(&str, &str); 2] =
    [("tatp-update-location-arrays", "Update Location"), ("tpcc-new-order-arrays", "New Order")];
/// The same on hash tables and B+ trees, as the benchmarks' specifications would have it: shown beside, not judged.
pub const INDEXED: [(&str, &str); 2] =
    [("tatp-update-location", "Update Location, indexed"), ("tpcc-new-order", "New Order, indexed")];
/// The largest latency, in microseconds (D14).
pub const LONGEST_US: f64 = 4.0;

/// The latencies of the figure, in microseconds.
pub fn latencies_us() -> impl Iterator<Item = f64> {
    (0..=16).map(|quarter| f64::from(quarter) / 4.0)
}

/// Where the rate of volatile execution is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// This processor.
    Native,
    /// The simulated machine.
    Simulated,
}

impl Rates {
    /// Transactions per second of volatile execution, of all threads.
    pub fn quantity(self) -> &'static str {
        match self {
            Self::Native => "volatile tx/s",
            Self::Simulated => "volatile tx/s, simulated",
        }
    }

    /// Those that claims are judged by.
    pub const JUDGED: Self = Self::Simulated;

    /// The quantity of throughput at a latency, transactions per second.
    pub fn throughput(self) -> &'static str {
        match self {
            Self::Native => "tx/s",
            Self::Simulated => "tx/s, simulated",
        }
    }

    /// The measured curve of a design.
    pub fn curve(self, all: &Measurements, workload: &str, model: &str, design: &str) -> Option<Curve> {
        let of = |setting: &str, quantity| {
            all.median(Key { figure: FIGURE, setting, system: design, quantity }, ANY)
        };
        Some(Curve {
            volatile_rate: of(workload, self.quantity())?,
            epochs_per_transaction: of(&setting(workload, model), EPOCHS)?,
            stalls: model == "eager-sync",
        })
    }

    /// Both designs, SCT first.
    pub fn both(self, all: &Measurements, workload: &str, model: &str) -> Option<(Curve, Curve)> {
        Some((self.curve(all, workload, model, "sct")?, self.curve(all, workload, model, "dct")?))
    }
}

/// A latency as an x.
pub fn x(latency_us: f64) -> String {
    format!("{latency_us}")
}

/// The setting of a workload under a model.
pub fn setting(workload: &str, model: &str) -> String {
    format!("{workload}, {model}")
}

/// The curve of a design that claims are judged by.
pub fn curve(all: &Measurements, workload: &str, model: &str, design: &str) -> Option<Curve> {
    Rates::JUDGED.curve(all, workload, model, design)
}

/// Both designs, SCT first.
pub fn both(all: &Measurements, workload: &str, model: &str) -> Option<(Curve, Curve)> {
    Rates::JUDGED.both(all, workload, model)
}

/// The latency, in seconds, from which on DCT is ahead, or, where its path is as long as SCT's, from which on both "provide the
/// same performance" (7.2, Table 2): where SCT's persists take as long as DCT's volatile execution. `None`: SCT is ahead at every
/// latency.
pub fn meeting(sct: &Curve, dct: &Curve) -> Option<f64> {
    let is_longer = verdict::above(dct.epochs_per_transaction, sct.epochs_per_transaction);
    let same = (!sct.stalls && !is_longer).then(|| 1.0 / (dct.volatile_rate * sct.epochs_per_transaction));
    break_even(sct, dct).or(same)
}

/// The judged paths that grow or shrink with the length of the run: their setting, the path of the first tenth of the transactions,
/// and that of all.
pub fn unsteady(all: &Measurements) -> Vec<(String, f64, f64)> {
    let mut found = Vec::new();
    for (workload, _) in WORKLOADS {
        for (model, _) in MODELS {
            for (design, label) in DESIGNS {
                let setting = setting(workload, model);
                let of = |quantity| {
                    all.median(Key { figure: FIGURE, setting: &setting, system: design, quantity }, ANY)
                };
                let Some((first, whole)) = of(FIRST_EPOCHS).zip(of(EPOCHS)) else { continue };
                let is_long = of(RECORDED).is_some_and(|recorded| recorded >= COMPARABLE);
                if is_long && (verdict::above(first, whole) || verdict::above(whole, first)) {
                    found.push((format!("{setting}, {label}"), first, whole));
                }
            }
        }
    }
    found
}
