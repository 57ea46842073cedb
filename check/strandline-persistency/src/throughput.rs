//! Transactions per second as a function of the persist latency, by the paper's method (section 7.1).
//!
//! Two measured figures characterise a run: the transactions per second of its volatile execution, and the persist epochs per transaction on its
//! critical path. Each epoch costs one average persist latency. Under strict, epoch and strand persistency persists drain while the program executes,
//! and the slower of the two limits throughput. Under eager sync the thread stalls, and the latencies add to the time of volatile execution.

use serde::{Deserialize, Serialize};

/// The throughput of one design under one model, as a function of the persist latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Transactions per second at latency zero.
    pub volatile_rate: f64,
    /// Persist epochs on the critical path, per transaction.
    pub epochs_per_transaction: f64,
    /// True if persists stall execution (eager sync).
    pub stalls: bool,
}

impl Curve {
    /// Returns the transactions per second if a persist epoch takes `latency` seconds on average.
    pub fn at(&self, latency: f64) -> f64 {
        let persist_time = self.epochs_per_transaction * latency;
        let volatile_time = 1.0 / self.volatile_rate;
        1.0 / if self.stalls { volatile_time + persist_time } else { volatile_time.max(persist_time) }
    }

    /// Returns the knee of the curve: the latency, in seconds, up to which throughput is that of volatile execution. It is zero if persists stall
    /// execution.
    pub fn knee(&self) -> f64 {
        if self.stalls { 0.0 } else { 1.0 / (self.volatile_rate * self.epochs_per_transaction) }
    }
}

/// Returns the latency, in seconds, from which on `other` is faster than `ahead`, where `other` has the shorter critical path and `ahead` is faster
/// at latency zero. Returns zero if `other` is at least as fast at latency zero, too, and `None` if its critical path is not shorter, because then it
/// never gets ahead. Persists must stall both or neither.
pub fn break_even(ahead: &Curve, other: &Curve) -> Option<f64> {
    // A critical path that is not shorter never overtakes.
    if other.epochs_per_transaction >= ahead.epochs_per_transaction {
        return None;
    }
    if other.volatile_rate >= ahead.volatile_rate {
        return Some(0.0);
    }
    Some(if ahead.stalls {
        (1.0 / other.volatile_rate - 1.0 / ahead.volatile_rate)
            / (ahead.epochs_per_transaction - other.epochs_per_transaction)
    } else {
        // At this latency the persists of `ahead` limit it to the volatile rate of `other`.
        1.0 / (other.volatile_rate * ahead.epochs_per_transaction)
    })
}

/// Returns the latency from zero to `longest` at which `one` / `other` is largest, and that ratio.
pub fn largest_ratio(one: &Curve, other: &Curve, longest: f64) -> (f64, f64) {
    // The ratio is monotone between knees.
    let within = [0.0, one.knee(), other.knee(), longest].into_iter().filter(|&at| at <= longest);
    let ratios = within.map(|at| (at, one.at(at) / other.at(at)));
    ratios.fold((0.0, f64::MIN), |best, next| if next.1 > best.1 { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: f64 = 1e-6;

    fn curve(volatile_rate: f64, epochs_per_transaction: f64, stalls: bool) -> Curve {
        Curve { volatile_rate, epochs_per_transaction, stalls }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
    }

    #[test]
    fn flat_up_to_the_knee_then_falling_with_the_latency() {
        let epoch = curve(2e6, 0.75, false);
        assert!(close(epoch.knee(), 1.0 / 1.5e6));
        assert!(close(epoch.at(0.0), 2e6) && close(epoch.at(0.999 * epoch.knee()), 2e6));
        assert!(close(epoch.at(2.0 * epoch.knee()), 1e6));
    }

    #[test]
    fn eager_sync_falls_at_once() {
        let eager = curve(2e6, 0.75, true);
        assert!(close(eager.at(0.0), 2e6) && eager.at(0.001 * US) < 2e6);
        assert!(close(eager.at(1.0 * US), 1.0 / 1.25e-6));
    }

    #[test]
    fn curves_meet_where_break_even_says() {
        for stalls in [false, true] {
            let (sct, dct) = (curve(2.4e6, 0.75, stalls), curve(2e6, 0.5, stalls));
            let at = break_even(&sct, &dct).expect("they meet");
            assert!(close(sct.at(at), dct.at(at)));
            assert!(sct.at(0.99 * at) > dct.at(0.99 * at) && sct.at(1.01 * at) < dct.at(1.01 * at));
        }
        assert_eq!(break_even(&curve(2e6, 0.5, false), &curve(1e6, 0.5, false)), None);
        assert_eq!(break_even(&curve(1e6, 0.6, false), &curve(2e6, 0.5, false)), Some(0.0));
        // The first is faster without latency, perhaps by noise, and slower with it.
        assert_eq!(break_even(&curve(1e6, 0.5, false), &curve(2e6, 0.6, false)), None);
    }

    #[test]
    fn the_largest_ratio_is_that_of_a_fine_search() {
        for stalls in [false, true] {
            let (sct, dct) = (curve(2.4e6, 0.75, stalls), curve(2e6, 0.3, stalls));
            let (_, largest) = largest_ratio(&dct, &sct, 4.0 * US);
            let search = (0..=40_000).map(|i| f64::from(i) * 1e-4 * US).map(|at| dct.at(at) / sct.at(at));
            let found = search.fold(f64::MIN, f64::max);
            assert!(largest > 0.999999 * found && largest < 1.001 * found, "{largest} {found}");
        }
    }
}
