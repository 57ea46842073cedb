//! Histograms of the durations of repeated operations.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The number of significant digits in a histogram: each duration is exact to one per cent.
const DIGITS: u8 = 2;

fn empty() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("so many digits are possible")
}

/// A histogram of measured durations. Each is exact to one per cent.
///
/// ```
/// # use strandline_core::example::*;
/// # let db = pool();
/// let writes = db.statistics()?.writes;
/// println!("median {:?}, one in a hundred {:?}, longest {:?}", writes.quantile(0.5), writes.quantile(0.99), writes.max());
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Durations(Histogram<u64>);

impl Default for Durations {
    /// Returns an empty histogram.
    fn default() -> Self {
        Self(empty())
    }
}

impl Durations {
    /// Returns the number of measured durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the mean; zero if none were measured.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }

    /// Returns the longest duration; zero if none were measured.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Returns the duration that the fraction `quantile` of them did not exceed: 0.5 for the median, 0.99 for the 99th percentile. Zero if none were
    /// measured.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile).min(self.0.max()))
    }

    /// Returns the number of durations that did not exceed `bound`, for the buckets of a monitoring system.
    pub fn up_to(&self, bound: Duration) -> u64 {
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let classes = self.0.iter_recorded();
        let within = classes.take_while(|class| self.0.lowest_equivalent(class.value_iterated_to()) <= bound);
        within.map(|class| class.count_at_value()).sum()
    }
}

impl fmt::Debug for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durations")
            .field("count", &self.count())
            .field("median", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

/// Collects durations from several threads.
pub(crate) struct Stopwatch(Mutex<Histogram<u64>>);

impl Default for Stopwatch {
    fn default() -> Self {
        Self(Mutex::new(empty()))
    }
}

impl Stopwatch {
    fn lock(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // The histogram grows as necessary. It fails only for durations of centuries, which do not occur.
        let _ = self.lock().record(nanos);
    }

    pub fn durations(&self) -> Durations {
        Durations(self.lock().clone())
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.durations().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact_to_a_hundredth() {
        let watch = Stopwatch::default();
        assert_eq!(watch.durations(), Durations::default());
        assert_eq!(watch.durations().quantile(0.99), Duration::ZERO);
        for micros in 1..=1000 {
            watch.record(Duration::from_micros(micros));
        }
        watch.record(Duration::from_secs(100_000));
        let durations = watch.durations();
        assert_eq!((durations.count(), durations.up_to(Duration::from_micros(100))), (1001, 100));
        let near = |found: Duration, expected: Duration| {
            assert!(found.abs_diff(expected) <= expected / 100, "{found:?} is not {expected:?}");
        };
        near(durations.quantile(0.5), Duration::from_micros(501));
        near(durations.max(), Duration::from_secs(100_000));
        assert!(durations.mean() > Duration::from_secs(99));
    }
}
