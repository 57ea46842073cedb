//! Throughput over the persist latency, from what was measured: Fig. 6 and what follows from it.

use strandline_persistency::throughput::Curve;

use crate::measurements::{Key, Measurements};

/// The figure that everything here is measured for.
pub const FIGURE: &str = "fig6";
/// Transactions per second of volatile execution, of all threads.
pub const VOLATILE_RATE: &str = "volatile tx/s";
/// Persist epochs on the critical path, per transaction.
pub const EPOCHS: &str = "epochs/tx";
/// Transactions recorded for the critical path.
pub const RECORDED: &str = "transactions recorded";
/// Transactions per second at a latency.
pub const THROUGHPUT: &str = "tx/s";
/// The x of quantities that do not depend on the latency.
pub const ANY: &str = "any";

/// The designs: scheme and the paper's name.
pub const DESIGNS: [(&str, &str); 2] = [("sct", "SCT"), ("dct", "DCT")];
/// The models of the figure: name and the paper's name.
pub const MODELS: [(&str, &str); 3] =
    [("epoch", "epoch persistency"), ("eager-sync", "eager sync"), ("strand", "strand persistency")];
/// The workloads: name and the paper's.
pub const WORKLOADS: [(&str, &str); 2] =
    [("tatp-update-location", "Update Location"), ("tpcc-new-order", "New Order")];
/// The largest latency, in microseconds (D14).
pub const LONGEST_US: f64 = 4.0;

/// The latencies of the figure, in microseconds.
pub fn latencies_us() -> impl Iterator<Item = f64> {
    (0..=16).map(|quarter| f64::from(quarter) / 4.0)
}

/// A latency as an x.
pub fn x(latency_us: f64) -> String {
    format!("{latency_us}")
}

/// The setting of a workload under a model.
pub fn setting(workload: &str, model: &str) -> String {
    format!("{workload}, {model}")
}

/// The measured curve of a design.
pub fn curve(all: &Measurements, workload: &str, model: &str, design: &str) -> Option<Curve> {
    let of =
        |setting: &str, quantity| all.median(Key { figure: FIGURE, setting, system: design, quantity }, ANY);
    Some(Curve {
        volatile_rate: of(workload, VOLATILE_RATE)?,
        epochs_per_transaction: of(&setting(workload, model), EPOCHS)?,
        stalls: model == "eager-sync",
    })
}

/// Both designs, SCT first.
pub fn both(all: &Measurements, workload: &str, model: &str) -> Option<(Curve, Curve)> {
    Some((curve(all, workload, model, "sct")?, curve(all, workload, model, "dct")?))
}
