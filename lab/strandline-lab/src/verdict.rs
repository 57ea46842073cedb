//! How a claim fares: computed from what was measured, never typed.

/// What a run says about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is met.
    Holds,
    /// It points the same way, and is not met.
    Short,
    /// The opposite was found.
    Contradicts,
    /// The paper's own numbers or formulas exclude it; the finding has the arithmetic and each reading.
    Inconsistent,
    /// A parameter was chosen by it: shown, not counted.
    Calibrated,
    /// The spread of what was measured decides, however often it was repeated.
    Noisy,
    /// It was not measured, for a reason that the finding names, or all numbers are zero.
    NotRun,
}

impl Verdict {
    /// All, best first.
    pub const ALL: [Self; 7] = [
        Self::Holds,
        Self::Short,
        Self::Contradicts,
        Self::Inconsistent,
        Self::Calibrated,
        Self::Noisy,
        Self::NotRun,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Short => "short",
            Self::Contradicts => "contradicts",
            Self::Inconsistent => "inconsistent",
            Self::Calibrated => "calibrated",
            Self::Noisy => "noisy",
            Self::NotRun => "not-run",
        }
    }
}

/// How far a headline's number may be from the paper's.
pub const TOLERANCE: f64 = 0.10;

/// By how much one number must be above another where a trend states that it is.
pub const MARGIN: f64 = 0.02;

/// Whether `one` is above `other`, neither of them negative, by [`MARGIN`] or more.
///
/// ```
/// use strandline_lab::above;
///
/// assert!(above(1.03, 1.0) && above(1.0, 0.0));
/// assert!(!above(1.01, 1.0) && !above(0.0, 0.0));
/// ```
pub fn above(one: f64, other: f64) -> bool {
    one > other && one >= (1.0 + MARGIN) * other
}

/// Whether something was measured, and nothing but zeros.
pub(crate) fn is_all_zero(measured: impl IntoIterator<Item = Option<f64>>) -> bool {
    let mut known = measured.into_iter().flatten().peekable();
    known.peek().is_some() && known.all(|number| number == 0.0)
}

/// What a headline's numbers are measured against: where "the other side" begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Ratios to a baseline: 1 is no difference.
    One,
    /// Shares of a loss: 0 is no difference.
    Zero,
}

/// An exact claim: equal, or contradicted. Numbers that were not measured (`None`) are not judged, but some
/// must have been.
pub fn exact(measured: &[Option<f64>], paper: &[f64]) -> Verdict {
    let pairs: Vec<_> = measured.iter().zip(paper).filter_map(|(m, p)| m.map(|m| (m, *p))).collect();
    if pairs.is_empty() {
        Verdict::NotRun
    } else if measured.len() == paper.len() && pairs.iter().all(|(m, p)| m == p) {
        Verdict::Holds
    } else {
        Verdict::Contradicts
    }
}

/// A trend: every stated order true, some, or none. An order that could not be measured (`None`) is not
/// known to be true.
pub fn trend(orders: &[Option<bool>]) -> Verdict {
    let is_true = |order: &&Option<bool>| **order == Some(true);
    if orders.iter().all(Option::is_none) {
        Verdict::NotRun
    } else if orders.iter().all(|order| is_true(&order)) {
        Verdict::Holds
    } else if orders.iter().any(|order| is_true(&order)) {
        Verdict::Short
    } else {
        Verdict::Contradicts
    }
}

/// A headline: every number within [`TOLERANCE`] of the paper's; otherwise contradicted if one lies on the
/// other side of the baseline, else short. Not run unless every number was measured, and if all are zero.
pub fn headline(measured: &[Option<f64>], paper: &[f64], baseline: Baseline) -> Verdict {
    let known: Option<Vec<f64>> = measured.iter().copied().collect();
    let Some(known) = known.filter(|known| !known.is_empty() && known.len() == paper.len()) else {
        return Verdict::NotRun;
    };
    if is_all_zero(measured.iter().copied()) {
        return Verdict::NotRun;
    }
    let even = match baseline {
        Baseline::One => 1.0,
        Baseline::Zero => 0.0,
    };
    let mut pairs = known.iter().zip(paper);
    if pairs.clone().all(|(m, p)| (m - p).abs() <= TOLERANCE * p.abs()) {
        Verdict::Holds
    } else if pairs.any(|(m, p)| (m - even) * (p - even) < 0.0) {
        Verdict::Contradicts
    } else {
        Verdict::Short
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::*;

    #[test]
    fn exact_claims_are_met_to_the_digit() {
        assert_eq!(exact(&[Some(63.0), Some(1.0)], &[63.0, 1.0]), Holds);
        assert_eq!(exact(&[Some(63.0), Some(2.0)], &[63.0, 1.0]), Contradicts);
        assert_eq!(exact(&[Some(63.0)], &[63.0, 1.0]), Contradicts);
        assert_eq!(exact(&[Some(63.0), None], &[63.0, 1.0]), Holds);
        assert_eq!(exact(&[Some(62.0), None], &[63.0, 1.0]), Contradicts);
        assert_eq!(exact(&[None, None], &[63.0, 1.0]), NotRun);
    }

    #[test]
    fn trends_count_the_orders() {
        assert_eq!(trend(&[Some(true), Some(true)]), Holds);
        assert_eq!(trend(&[Some(true), Some(false)]), Short);
        assert_eq!(trend(&[Some(true), None]), Short);
        assert_eq!(trend(&[Some(false), Some(false)]), Contradicts);
        assert_eq!(trend(&[None, None]), NotRun);
        assert_eq!(trend(&[]), NotRun);
    }

    #[test]
    fn headlines_are_within_a_tenth_or_at_least_on_the_same_side() {
        let one = |measured: f64, paper: f64| headline(&[Some(measured)], &[paper], Baseline::One);
        assert_eq!(one(1.1 * 1.863 - 1e-9, 1.863), Holds);
        assert_eq!(one(0.9 * 1.863 + 1e-9, 1.863), Holds);
        assert_eq!(one(1.1 * 1.863 + 1e-3, 1.863), Short);
        assert_eq!(one(1.01, 1.863), Short);
        assert_eq!(one(0.99, 1.863), Contradicts);
        assert_eq!(one(1.2, 0.379), Contradicts);
        // Within a tenth counts, on whichever side.
        assert_eq!(one(0.99, 1.05), Holds);
        let share = |measured: f64| headline(&[Some(measured)], &[0.4], Baseline::Zero);
        assert_eq!([share(0.43), share(0.6), share(-0.1)], [Holds, Short, Contradicts]);
        let two = |a, b| headline(&[a, b], &[1.5, 2.5], Baseline::One);
        assert_eq!(two(Some(1.5), Some(2.0)), Short);
        assert_eq!(two(Some(0.9), Some(2.5)), Contradicts);
        assert_eq!(two(Some(1.5), None), NotRun);
        assert_eq!(two(Some(0.0), Some(0.0)), NotRun, "all are zero");
    }
}
