//! Throughput over the persist latency, from what was measured: Fig. 6 and what follows from it.

use strandline_persistency::throughput::Curve;

use crate::measurements::{Key, Measurements};

/// The figure that everything here is measured for.
pub const FIGURE: &str = "fig6";
/// Threads (D14).
pub const THREADS: u64 = 4;
/// Strands of a thread (D14).
pub const STRANDS: u32 = 4;
/// Persist epochs on the critical path, per transaction.
pub const EPOCHS: &str = "epochs/tx";
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
