//! Keeps noise from deciding native verdicts: detects whether other programs ran meanwhile, and whether a verdict would change if other repetitions
//! were drawn.

use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;
use crate::measurements::Measurements;
use crate::verdict::Verdict;

/// The number of processors that other programs may use, on average, without the machine counting as loaded; an idle system's services need a
/// fraction of that.
const OTHERS: f64 = 0.1;
/// How often repetitions are redrawn.
const DRAWS: usize = 100;
/// The share of the draws that must give the same verdict.
const AGREEING: f64 = 0.9;
/// How often a figure is measured, at most.
pub const ROUNDS: u64 = 3;

/// Watches how much processor time other programs use.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    since: Instant,
    of_all: Option<Duration>,
    own: Duration,
}

impl Watch {
    /// Starts the watch.
    pub fn begin() -> Self {
        Self { since: Instant::now(), of_all: processor_time_of_all(), own: own_processor_time() }
    }

    /// Returns how many processors other programs, and other guests of a virtual machine's host, have used on average since the start; `None` if the
    /// system does not report it.
    pub fn others(&self) -> Option<f64> {
        let of_all = processor_time_of_all()?.checked_sub(self.of_all?)?;
        let own = own_processor_time().saturating_sub(self.own);
        Some(of_all.saturating_sub(own).as_secs_f64() / self.since.elapsed().as_secs_f64())
    }
}

/// Returns whether a machine counts as loaded if other programs use so many processors.
pub fn is_loaded(others: f64) -> bool {
    others > OTHERS
}

/// Returns the processor time that this program has used.
pub fn own_processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn processor_time_of_all() -> Option<Duration> {
    busy(&std::fs::read_to_string("/proc/stat").ok()?, clock_ticks_per_second())
}

/// Returns the time in which processors were not idle, according to `/proc/stat`.
fn busy(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; the fields after them are included in the first two.
    let [user, nice, system, _, _, irq, softirq, steal, ..] = numbers[..] else { return None };
    let ticks = user + nice + system + irq + softirq + steal;
    Some(Duration::from_secs_f64(ticks as f64 / ticks_per_second as f64))
}

/// Returns the verdicts that other draws of the repetitions would give.
///
/// # Errors
/// Returns the errors of `judge`.
pub fn redrawn(
    all: &Measurements,
    seed: u64,
    judge: impl Fn(&Measurements) -> Result<Verdict, Error>,
) -> Result<Vec<Verdict>, Error> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..DRAWS).map(|_| judge(&all.redrawn(&mut random))).collect()
}

/// Returns whether the verdict depends on the spread of the repetitions, because too few of the draws give the same one.
pub fn decides(verdict: Verdict, draws: &[Verdict]) -> bool {
    let agreeing = draws.iter().filter(|&&drawn| drawn == verdict).count();
    (agreeing as f64) < AGREEING * draws.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Key;
    use crate::verdict::{Baseline, headline};

    #[test]
    fn a_machine_is_loaded_by_what_others_do() {
        assert!(is_loaded(0.5) && is_loaded(0.11));
        assert!(!is_loaded(0.0) && !is_loaded(0.05));
    }

    #[test]
    fn idle_time_and_guests_are_not_counted_and_stolen_time_is() {
        let stat = "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(busy(stat, 100), Some(Duration::from_millis(1710)));
        assert_eq!(busy("intr 5\n", 100), None);
        assert_eq!(busy("cpu  1 2 3\n", 100), None);
    }

    /// Returns whether noise decides a claim of 1.8 with these repetitions.
    fn is_decided_by_noise(repetitions: &[f64]) -> bool {
        let key = Key { figure: "f", setting: "s", system: "a", quantity: "q" };
        let mut all = Measurements::default();
        all.add_repetitions(key, "1", repetitions);
        let judge = |all: &Measurements| Ok(headline(&[all.median(key, "1")], &[1.8], Baseline::One));
        decides(judge(&all).unwrap(), &redrawn(&all, 1, judge).unwrap())
    }

    #[test]
    fn a_margin_below_the_spread_is_noise() {
        // 1.72 is the smallest number with which the claim holds.
        assert!(!is_decided_by_noise(&[1.79, 1.8, 1.81]));
        assert!(is_decided_by_noise(&[1.65, 1.75, 1.85]));
        // The spread is the same, but further away from where the verdict changes.
        assert!(!is_decided_by_noise(&[1.35, 1.45, 1.55]));
        // More repetitions decide the claim, where three do not.
        assert!(is_decided_by_noise(&[1.7, 1.8, 1.85]));
        assert!(!is_decided_by_noise(&[1.7, 1.8, 1.85, 1.8, 1.79, 1.81, 1.82, 1.8, 1.83]));
    }

    #[test]
    fn nine_of_ten_draws_decide() {
        use Verdict::{Holds, Short};
        let draws = |holding: usize| [vec![Holds; holding], vec![Short; 100 - holding]].concat();
        assert!(!decides(Holds, &draws(90)) && decides(Holds, &draws(89)));
        assert!(!decides(Short, &draws(0)) && decides(Holds, &draws(0)));
    }
}
