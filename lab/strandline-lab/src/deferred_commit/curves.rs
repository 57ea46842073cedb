//! Throughput as a function of the persist latency, from the measurements: Fig. 6 and what follows from it.

use strandline_persistency::throughput::{Curve, break_even};

use crate::measurements::{Key, Measurements};
use crate::verdict;

/// The id of the figure whose measurements are used here.
pub const FIGURE: &str = "fig6";
/// Threads (D14).
pub const THREADS: u64 = 4;
/// Strands of a thread (D14).
pub const STRANDS: u32 = 4;
/// Persist epochs on the critical path, per transaction.
pub const EPOCHS: &str = "epochs/tx";
/// Persist epochs per transaction of the first tenth of the transactions.
pub const FIRST_EPOCHS: &str = "epochs/tx of the first tenth";
/// The standard deviation of a tenth's persist epochs per transaction.
pub const DEVIATION: &str = "epochs/tx, deviation of a tenth";
/// The least number of recorded transactions with which the path of the first tenth can be compared with the rest's: the run's start then matters
/// little.
pub const COMPARABLE: f64 = 50_000.0;
/// If a first tenth's path differs from the rest's by more than this many standard deviations of a tenth, it depends on the length of the run. The
/// deviation is estimated from eight tenths; of normally scattered paths, about one in a hundred differs by more.
const DEVIATIONS: f64 = 4.0;
/// Transactions recorded for the critical path.
pub const RECORDED: &str = "transactions recorded";
/// The x of quantities that do not depend on the latency.
pub const ANY: &str = "any";

/// The designs: scheme and the paper's name.
pub const DESIGNS: [(&str, &str); 2] = [("sct", "SCT"), ("dct", "DCT")];
/// The models of the figure: name and the paper's name.
pub const MODELS: [(&str, &str); 3] =
    [("epoch", "epoch persistency"), ("eager-sync", "eager sync"), ("strand", "strand persistency")];
/// The workloads: name and the paper's name. Their tables are arrays: by the paper's own rates and epochs a New Order took about 5 µs and only a few
/// persists, which leaves no time for trees, and the authors' published program uses arrays.
pub const WORKLOADS: [(&str, &str); 2] =
    [("tatp-update-location-arrays", "Update Location"), ("tpcc-new-order-arrays", "New Order")];
/// The same workloads on hash tables and B+ trees, as the benchmarks' specifications require; shown beside, not judged.
pub const INDEXED: [(&str, &str); 2] =
    [("tatp-update-location", "Update Location, indexed"), ("tpcc-new-order", "New Order, indexed")];
/// The largest latency, in microseconds (D14).
pub const LONGEST_US: f64 = 4.0;

/// Returns the latencies of the figure, in microseconds.
pub fn latencies_us() -> impl Iterator<Item = f64> {
    (0..=16).map(|quarter| f64::from(quarter) / 4.0)
}

/// The origin of the rates of volatile execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// This processor.
    Native,
    /// The simulated machine.
    Simulated,
}

impl Rates {
    /// Returns the quantity: transactions per second of volatile execution, of all threads.
    pub fn quantity(self) -> &'static str {
        match self {
            Self::Native => "volatile tx/s",
            Self::Simulated => "volatile tx/s, simulated",
        }
    }

    /// The rates by which claims are judged.
    pub const JUDGED: Self = Self::Simulated;

    /// Returns the quantity of throughput at a latency, in transactions per second.
    pub fn throughput(self) -> &'static str {
        match self {
            Self::Native => "tx/s",
            Self::Simulated => "tx/s, simulated",
        }
    }

    /// Returns the measured curve of a design.
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

    /// Returns the curves of both designs, SCT first.
    pub fn both(self, all: &Measurements, workload: &str, model: &str) -> Option<(Curve, Curve)> {
        Some((self.curve(all, workload, model, "sct")?, self.curve(all, workload, model, "dct")?))
    }
}

/// Formats a latency as an x.
pub fn x(latency_us: f64) -> String {
    format!("{latency_us}")
}

/// Returns the setting of a workload under a model.
pub fn setting(workload: &str, model: &str) -> String {
    format!("{workload}, {model}")
}

/// Returns the curve of a design by which claims are judged.
pub fn curve(all: &Measurements, workload: &str, model: &str, design: &str) -> Option<Curve> {
    Rates::JUDGED.curve(all, workload, model, design)
}

/// Returns both curves by which claims are judged, SCT first.
pub fn both(all: &Measurements, workload: &str, model: &str) -> Option<(Curve, Curve)> {
    Rates::JUDGED.both(all, workload, model)
}

/// Returns the latency, in seconds, from which on DCT is ahead. If its path is as long as SCT's, returns the latency from which on both "provide the
/// same performance" (7.2, Table 2): where SCT's persists take as long as DCT's volatile execution. Returns `None` if SCT is ahead at every latency.
pub fn meeting(sct: &Curve, dct: &Curve) -> Option<f64> {
    let is_longer = verdict::above(dct.epochs_per_transaction, sct.epochs_per_transaction);
    let same = (!sct.stalls && !is_longer).then(|| 1.0 / (dct.volatile_rate * sct.epochs_per_transaction));
    break_even(sct, dct).or(same)
}

/// Returns whether the path of a run's first tenth differs from the rest's by more than [`verdict::MARGIN`], and by more than the scatter of the
/// tenths. All are in epochs per transaction.
fn differs(first: f64, rest: f64, deviation: f64) -> bool {
    let is_beyond_margin = verdict::above(first, rest) || verdict::above(rest, first);
    is_beyond_margin && (first - rest).abs() > DEVIATIONS * deviation
}

/// Returns the judged paths that grow or shrink with the length of the run: the setting, and the epochs per transaction of the first tenth
/// of the transactions and of the rest.
pub fn unsteady(all: &Measurements) -> Vec<(String, f64, f64)> {
    let mut found = Vec::new();
    for (workload, _) in WORKLOADS {
        for (model, _) in MODELS {
            for (design, label) in DESIGNS {
                let setting = setting(workload, model);
                let of = |quantity| {
                    all.median(Key { figure: FIGURE, setting: &setting, system: design, quantity }, ANY)
                };
                let paths = of(FIRST_EPOCHS).zip(of(EPOCHS)).zip(of(DEVIATION));
                let Some(((first, whole), deviation)) = paths else { continue };
                let rest = (10.0 * whole - first) / 9.0;
                let is_long = of(RECORDED).is_some_and(|recorded| recorded >= COMPARABLE);
                if is_long && differs(first, rest, deviation) {
                    found.push((format!("{setting}, {label}"), first, rest));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deferred_commit::trace::{TENTHS, Traced};
    use crate::measurements::Spread;

    /// Returns the unsteady paths of a run of 50,000 transactions whose path grows by these epochs in each tenth.
    fn unsteady_of(increments: [u32; TENTHS]) -> Vec<(String, f64, f64)> {
        let traced = Traced::of_increments(increments, COMPARABLE as u64);
        let mut all = Measurements::default();
        for (quantity, value) in [
            (EPOCHS, traced.epochs_per_transaction()),
            (FIRST_EPOCHS, traced.epochs_per_transaction_at_first()),
            (DEVIATION, traced.deviation_of_a_tenth()),
            (RECORDED, COMPARABLE),
        ] {
            let setting = setting(WORKLOADS[1].0, "strand");
            let key = Key { figure: FIGURE, setting: &setting, system: "sct", quantity };
            all.add(key, ANY, Spread::exactly(value));
        }
        unsteady(&all)
    }

    /// New Order under SCT and strand persistency: the first tenth is 3.2% below the rest, but tenths differ by as much from one another.
    #[test]
    fn scatter_is_not_growth() {
        assert_eq!(unsteady_of([2475, 2580, 2514, 2529, 2596, 2527, 2554, 2545, 2537, 2634]), []);
    }

    /// A path that stops growing early: 0.389 epochs per transaction of 5,000, 0.415 of 20,000, and 0.419 of 80,000.
    #[test]
    fn growth_that_ends_is_found() {
        let found = unsteady_of([1945, 2140, 2097, 2118, 2090, 2112, 2085, 2120, 2101, 2102]);
        assert!(matches!(&found[..], [(_, first, rest)] if *first == 0.389 && *rest > 0.419), "{found:?}");
    }

    /// The deviation from the mean of the tenths would grow with the slope, and hide every slope.
    #[test]
    fn steady_growth_and_steady_shrinking_are_found() {
        for slope in [25, -25, 100, -100] {
            let scatter = [7, -12, 3, 10, -9, 0, 6, -8, 11, -5];
            let increments = std::array::from_fn(|tenth| 2500 + slope * tenth as i32 + scatter[tenth]);
            assert_eq!(
                unsteady_of(increments.map(i32::unsigned_abs)).len(),
                1,
                "{slope} epochs more in each tenth"
            );
        }
    }

    #[test]
    fn growth_within_the_margin_is_none() {
        assert_eq!(unsteady_of([2460, 2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500, 2500]), []);
    }
}
