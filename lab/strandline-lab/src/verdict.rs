//! Verdicts on claims. They are always computed from measurements.

/// The verdict of a run on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim is met.
    Holds,
    /// The claim is not met by default, but is met under another reading of what the paper leaves open.
    #[serde(rename = "holds-within-the-text")]
    WithinText,
    /// The result points in the claim's direction, but does not meet it.
    Short,
    /// The result is the opposite.
    Contradicts,
    /// The paper's own numbers or formulas exclude the claim; the finding has the arithmetic and each reading.
    Inconsistent,
    /// A parameter was chosen by the claim, which is shown and not counted.
    Calibrated,
    /// The verdict depends on the spread of the measurements, however often they were repeated.
    Noisy,
    /// The claim was not measured, for a reason in the finding.
    NotRun,
}

impl Verdict {
    /// All verdicts, best first.
    pub const ALL: [Self; 8] = [
        Self::Holds,
        Self::WithinText,
        Self::Short,
        Self::Contradicts,
        Self::Inconsistent,
        Self::Calibrated,
        Self::Noisy,
        Self::NotRun,
    ];

    /// Returns the verdict's key in `results.json`.
    pub fn key(self) -> &'static str {
        match self {
            Self::WithinText => "holds-within-the-text",
            other => other.name(),
        }
    }

    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::WithinText => "holds within the text",
            Self::Short => "short",
            Self::Contradicts => "contradicts",
            Self::Inconsistent => "inconsistent",
            Self::Calibrated => "calibrated",
            Self::Noisy => "noisy",
            Self::NotRun => "not-run",
        }
    }
}

/// The basis on which a claim is judged. Only a claim that is [`Measured`](Basis::Measured) counts as a reproduced result. The others
/// hold whatever a run measures, unless the implementation is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A run decides the verdict.
    Measured,
    /// The claim is a size, a format or a setting that the implementation took from the paper.
    Constant,
    /// The claim is a formula of the paper's, with which a run is compared.
    ClosedForm,
    /// The laboratory is constructed so that the claim is true.
    Construction,
    /// A parameter was chosen by the claim.
    Calibrated,
}

impl Basis {
    /// Returns the basis in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Constant => "constant",
            Self::ClosedForm => "closed form",
            Self::Construction => "construction",
            Self::Calibrated => "calibrated",
        }
    }
}

/// The number of claims with each verdict. Measured claims are counted apart from constants, closed forms and constructions, and from those by which
/// parameters were chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Score {
    measured: Vec<Verdict>,
    given: Vec<Verdict>,
    calibrated: usize,
}

impl Score {
    /// The verdicts of measured claims.
    pub const VERDICTS: [Verdict; 7] = [
        Verdict::Holds,
        Verdict::WithinText,
        Verdict::Short,
        Verdict::Contradicts,
        Verdict::Inconsistent,
        Verdict::Noisy,
        Verdict::NotRun,
    ];

    /// Counts claims.
    pub fn of(claims: impl IntoIterator<Item = (Basis, Verdict)>) -> Self {
        let mut score = Self::default();
        for (basis, verdict) in claims {
            match basis {
                Basis::Measured => score.measured.push(verdict),
                Basis::Constant | Basis::ClosedForm | Basis::Construction => score.given.push(verdict),
                Basis::Calibrated => score.calibrated += 1,
            }
        }
        score
    }

    /// Returns how many claims were measured.
    pub fn measured(&self) -> usize {
        self.measured.len()
    }

    /// Returns how many measured claims have this verdict.
    pub fn with(&self, verdict: Verdict) -> usize {
        self.measured.iter().filter(|&&other| other == verdict).count()
    }

    /// Returns how many claims are constants, closed forms and constructions.
    pub fn given(&self) -> usize {
        self.given.len()
    }

    /// Returns how many constants, closed forms and constructions hold.
    pub fn given_that_hold(&self) -> usize {
        self.given.iter().filter(|&&verdict| verdict == Verdict::Holds).count()
    }

    /// Returns how many claims a parameter was chosen by.
    pub fn calibrated(&self) -> usize {
        self.calibrated
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Measured: {} of {} hold", self.with(Verdict::Holds), self.measured())?;
        let others = Self::VERDICTS.into_iter().skip(1).map(|verdict| (self.with(verdict), verdict.name()));
        for (count, name) in others.filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {name}")?;
        }
        write!(
            f,
            ". Constants, closed forms and constructions: {} of {} hold.",
            self.given_that_hold(),
            self.given()
        )?;
        write!(f, " Calibrated: {}.", self.calibrated)
    }
}

/// By how much a headline's number may differ from the paper's, as a share: see [`meets`].
pub const TOLERANCE: f64 = 0.10;

/// By how much one number must exceed another for a trend's order to hold.
pub const MARGIN: f64 = 0.02;

/// The number of seeds that an order must hold with if its numbers are simulated.
pub const SEEDS: u64 = 3;

/// Returns whether `one` is above `other`, neither of them negative, by [`MARGIN`] or more.
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

/// Combines the results of an order with each seed. The order holds if it holds with every seed. The result is `None` if no seed contradicts it and
/// one could not be judged.
pub fn in_all(seeds: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for holds in seeds {
        match holds {
            Some(false) => return Some(false),
            Some(true) => {}
            None => all = None,
        }
    }
    all
}

/// The baseline of a headline's numbers, which separates gains from losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Numbers are ratios to a baseline: 1 is no difference.
    One,
    /// Numbers are shares of a loss: 0 is no difference.
    Zero,
}

impl Baseline {
    fn even(self) -> f64 {
        match self {
            Self::One => 1.0,
            Self::Zero => 0.0,
        }
    }
}

/// Judges one number of a headline. It meets the paper's if the two differ by at most [`TOLERANCE`] times the gain or loss that the paper
/// states, or times the paper's number if that is smaller. For example, the paper's 1.064 is a gain of 0.064: 1.06 meets it, and 1.0 does
/// not. The paper's 0.1 is met from 0.09 to 0.11. Where the paper states no difference, the number may differ from 1 by [`MARGIN`].
///
/// ```
/// use strandline_lab::{Baseline, meets};
///
/// assert!(meets(1.06, 1.064, Baseline::One) && !meets(1.0, 1.064, Baseline::One));
/// ```
pub fn meets(measured: f64, paper: f64, baseline: Baseline) -> bool {
    let gain = (paper - baseline.even()).abs();
    let allowed =
        if baseline == Baseline::One && gain == 0.0 { MARGIN } else { TOLERANCE * gain.min(paper.abs()) };
    (measured - paper).abs() <= allowed
}

/// Judges an exact claim: the numbers are equal, or the claim is contradicted. Numbers that were not measured (`None`) are ignored, but some must
/// have been measured.
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

/// Judges a trend by whether all, some or none of its orders are true. An order that could not be measured (`None`) does not count as true.
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

/// Judges a headline: it holds if every number [`meets`] the paper's. Otherwise it is contradicted if one is on the other side of the baseline, and
/// short if not. It is not run unless every number was measured.
pub fn headline(measured: &[Option<f64>], paper: &[f64], baseline: Baseline) -> Verdict {
    mixed_headline(measured, paper, &vec![baseline; paper.len()])
}

/// Judges a [`headline`] whose numbers have a baseline each, such as ratios and shares.
pub fn mixed_headline(measured: &[Option<f64>], paper: &[f64], baselines: &[Baseline]) -> Verdict {
    let known: Option<Vec<f64>> = measured.iter().copied().collect();
    let Some(known) = known.filter(|all| !all.is_empty() && [paper.len(), baselines.len()] == [all.len(); 2])
    else {
        return Verdict::NotRun;
    };
    let mut each = known.iter().zip(paper).zip(baselines);
    if each.clone().all(|((&m, &p), &baseline)| meets(m, p, baseline)) {
        Verdict::Holds
    } else if each.any(|((m, p), baseline)| (m - baseline.even()) * (p - baseline.even()) < 0.0) {
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

    fn ratio(measured: f64, paper: f64) -> Verdict {
        headline(&[Some(measured)], &[paper], Baseline::One)
    }

    #[test]
    fn headlines_are_within_a_tenth_of_the_gain() {
        // The paper states a gain of 0.863.
        assert_eq!([ratio(1.94, 1.863), ratio(1.78, 1.863)], [Holds; 2]);
        assert_eq!([ratio(1.96, 1.863), ratio(1.77, 1.863), ratio(1.01, 1.863)], [Short; 3]);
        assert_eq!([ratio(0.99, 1.863), ratio(1.2, 0.379)], [Contradicts; 2]);
        let share = |measured: f64| headline(&[Some(measured)], &[0.4], Baseline::Zero);
        assert_eq!([share(0.43), share(0.6), share(0.0), share(-0.1)], [Holds, Short, Short, Contradicts]);
        let two = |a, b| headline(&[a, b], &[1.5, 2.5], Baseline::One);
        assert_eq!(two(Some(1.5), Some(2.0)), Short);
        assert_eq!(two(Some(0.9), Some(2.5)), Contradicts);
        assert_eq!(two(Some(1.5), None), NotRun);
    }

    #[test]
    fn no_gain_does_not_meet_a_small_one() {
        assert_eq!([ratio(1.0, 1.064), ratio(1.05, 1.064), ratio(1.074, 1.064)], [Short; 3]);
        assert_eq!([ratio(1.06, 1.064), ratio(1.069, 1.064)], [Holds; 2]);
        // The numbers are within a tenth of the paper's, but on the other side.
        assert_eq!([ratio(0.99, 1.05), ratio(1.01, 0.95)], [Contradicts; 2]);
        assert_eq!([ratio(0.956, 0.95), ratio(0.99, 0.95)], [Short; 2]);
    }

    #[test]
    fn a_large_factor_has_two_bounds() {
        // 52 times instead of 10 times, as slowdowns and as remaining shares.
        assert_eq!([ratio(52.0, 10.0), ratio(1.0 / 52.0, 0.1)], [Short; 2]);
        assert_eq!([ratio(10.5, 10.0), ratio(0.105, 0.1), ratio(17.5, 19.0)], [Holds; 3]);
        assert_eq!(ratio(0.115, 0.1), Short);
    }

    #[test]
    fn zero_is_a_measurement_and_no_difference_is_told_from_one() {
        assert_eq!(headline(&[Some(0.0)], &[0.008], Baseline::Zero), Short);
        assert_eq!([ratio(1.015, 1.0), ratio(0.97, 1.0), ratio(1.09, 1.0)], [Holds, Short, Short]);
    }

    #[test]
    fn shares_and_ratios_of_a_claim_have_baselines_of_their_own() {
        let mixed = |share: f64, over: f64| {
            mixed_headline(&[Some(share), Some(over)], &[0.21, 1.1], &[Baseline::Zero, Baseline::One])
        };
        assert_eq!([mixed(0.2, 1.1), mixed(0.2, 1.0), mixed(0.85, 2.16)], [Holds, Short, Short]);
        assert_eq!([mixed(-0.2, 1.1), mixed(0.2, 0.99)], [Contradicts; 2]);
        assert_eq!(mixed_headline(&[Some(1.0)], &[1.0], &[]), NotRun);
    }

    #[test]
    fn an_order_holds_with_all_seeds_or_not() {
        assert_eq!(in_all([Some(true); 3]), Some(true));
        assert_eq!(in_all([Some(true), None, Some(false)]), Some(false));
        assert_eq!(in_all([Some(true), None]), None);
    }

    #[test]
    fn what_was_given_is_not_counted_as_measured() {
        use Basis::*;
        let score = Score::of([
            (Measured, Holds),
            (Measured, Short),
            (Constant, Holds),
            (ClosedForm, Short),
            (Construction, Holds),
            (Basis::Calibrated, Verdict::Calibrated),
        ]);
        assert_eq!(
            (score.measured(), score.with(Holds), score.given(), score.given_that_hold()),
            (2, 1, 3, 2)
        );
        assert_eq!(
            score.to_string(),
            "Measured: 1 of 2 hold, 1 short. Constants, closed forms and constructions: 2 of 3 hold. Calibrated: 1."
        );
    }
}
