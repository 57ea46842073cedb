//! Findings: the measured numbers of a claim, its verdict, and the reasons.

use crate::claim::{Claim, readable};
use crate::reading::Reading;
use crate::verdict::{self, Baseline, Verdict};

/// A measurement for a claim.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Measured {
    /// Numbers in the claim's order; `None` for numbers that were not measured.
    Numbers(Vec<Option<f64>>),
    /// Numbers with names, if there are more than in the claim.
    Named(Vec<(String, Option<f64>)>),
}

impl Measured {
    /// Returns the numbers in one line, without their names.
    pub fn in_short(&self) -> String {
        let number = |number: Option<f64>| number.map_or("–".into(), readable);
        let texts: Vec<String> = match self {
            Self::Numbers(numbers) => numbers.iter().copied().map(number).collect(),
            Self::Named(numbers) => numbers.iter().map(|(_, value)| number(*value)).collect(),
        };
        if texts.is_empty() { "–".into() } else { texts.join(", ") }
    }
}

/// An order that a trend states, and whether it is true of the medians.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Order {
    /// The order, in words.
    pub order: String,
    /// True if the order holds; `None` if it could not be measured.
    pub holds: Option<bool>,
}

/// The same numbers under another setting, shown beside the claim's.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The setting that differs from that of the claim.
    pub setting: String,
    /// The numbers, as in [`Finding::measured`].
    pub measured: Measured,
    /// The verdict that these numbers would give, if numbers decide the verdict.
    pub verdict: Option<Verdict>,
}

/// A claim's finding with another setting of the paper's machine.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    /// The setting.
    pub setting: Setting,
    /// The finding with this setting.
    pub finding: Finding,
}

/// Another setting of a paper's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// One key with another value, as requested by the user.
    Key {
        /// The key of the machine's description.
        key: String,
        /// Its value.
        value: String,
    },
    /// Several keys with other values (`key=value`), as requested by the user.
    Keys(Vec<String>),
    /// A reading of the paper's text.
    Reading(&'static Reading),
}

impl Setting {
    /// Returns the overrides of the machine's description (`key=value`).
    pub fn set(&self) -> Vec<String> {
        match self {
            Self::Key { key, value } => vec![format!("{key}={value}")],
            Self::Keys(set) => set.clone(),
            Self::Reading(reading) => reading.set.clone(),
        }
    }

    /// Returns whether the figure is measured again with this setting.
    pub fn bears_on(&self, figure: &str) -> bool {
        let figures = self.reading().and_then(|reading| reading.figures.as_ref());
        figures.is_none_or(|figures| figures.iter().any(|id| id == figure))
    }

    /// Returns the reading, if it is one.
    pub fn reading(&self) -> Option<&'static Reading> {
        match self {
            Self::Reading(reading) => Some(reading),
            _ => None,
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.set().join(", "))
    }
}

/// A claim's verdict, with what led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The measured numbers.
    pub measured: Measured,
    /// True if the claim holds according to the measurement.
    pub verdict: Verdict,
    /// True if it was measured natively while other programs ran.
    pub noisy: bool,
    /// The orders that a trend states, each with whether it holds.
    pub orders: Vec<Order>,
    /// The same numbers under other settings, for display only.
    pub beside: Vec<Beside>,
    /// The findings with other settings of the paper's machine, in the order in which they were run.
    pub interval: Vec<At>,
    /// The seeds that a trend's simulated numbers were judged with: an order must hold with each.
    pub seeds: Vec<u64>,
    /// How it was measured and judged.
    pub method: String,
    /// Other notes: reasons, limits.
    pub notes: Vec<String>,
}

impl Finding {
    fn new(measured: Measured, verdict: Verdict, method: impl Into<String>) -> Self {
        Self {
            measured,
            verdict,
            noisy: false,
            orders: Vec::new(),
            beside: Vec::new(),
            interval: Vec::new(),
            seeds: Vec::new(),
            method: method.into(),
            notes: Vec::new(),
        }
    }

    /// Judges a headline by the claim's numbers.
    pub fn headline(
        claim: &Claim,
        measured: Vec<Option<f64>>,
        baseline: Baseline,
        method: impl Into<String>,
    ) -> Self {
        let verdict = verdict::headline(&measured, claim.value.numbers(), baseline);
        Self::new(Measured::Numbers(measured), verdict, method)
    }

    /// Judges a headline whose numbers have a baseline each.
    pub fn mixed_headline(
        claim: &Claim,
        measured: Vec<Option<f64>>,
        baselines: &[Baseline],
        method: impl Into<String>,
    ) -> Self {
        let verdict = verdict::mixed_headline(&measured, claim.value.numbers(), baselines);
        Self::new(Measured::Numbers(measured), verdict, method)
    }

    /// Judges an exact claim by the claim's numbers.
    pub fn exact(claim: &Claim, measured: Vec<Option<f64>>, method: impl Into<String>) -> Self {
        let verdict = verdict::exact(&measured, claim.value.numbers());
        Self::new(Measured::Numbers(measured), verdict, method)
    }

    /// Judges a trend by its orders; the numbers are only shown.
    pub fn trend(
        measured: Vec<(String, Option<f64>)>,
        orders: Vec<Order>,
        method: impl Into<String>,
    ) -> Self {
        let verdict = verdict::trend(&orders.iter().map(|order| order.holds).collect::<Vec<_>>());
        Self { orders, ..Self::new(Measured::Named(measured), verdict, method) }
    }

    /// Judges the orders also by the findings with several seeds: an order must hold with each seed. The numbers stay.
    #[must_use]
    pub fn in_seeds(mut self, found: &[(u64, Self)]) -> Self {
        for (at, order) in self.orders.iter_mut().enumerate() {
            let same = |other: &Self| other.orders.get(at).filter(|same| same.order == order.order)?.holds;
            let each: Vec<_> = found.iter().map(|(seed, other)| (seed, same(other))).collect();
            for (seed, _) in each.iter().filter(|(_, holds)| *holds != Some(true)) {
                self.notes.push(format!("With seed {seed} an order does not hold: {}.", order.order));
            }
            order.holds = verdict::in_all(each.into_iter().map(|(_, holds)| holds).chain([order.holds]));
        }
        self.verdict = verdict::trend(&self.orders.iter().map(|order| order.holds).collect::<Vec<_>>());
        self.seeds = found.iter().map(|(seed, _)| *seed).collect();
        self
    }

    /// Returns the finding of a claim that was not run.
    pub fn not_run(why: impl Into<String>) -> Self {
        Self::new(Measured::Numbers(Vec::new()), Verdict::NotRun, why)
    }

    /// Returns the finding in a few words: how many of a trend's orders are true, or the numbers of other claims.
    pub fn in_short(&self) -> String {
        match &self.measured {
            Measured::Named(_) if !self.orders.is_empty() => {
                let known = self.orders.iter().filter(|order| order.holds.is_some()).count();
                let holding = self.orders.iter().filter(|order| order.holds == Some(true)).count();
                let unknown = self.orders.len() - known;
                let rest = if unknown == 0 { String::new() } else { format!(", {unknown} not measured") };
                format!("{holding} of {} orders{rest}", self.orders.len())
            }
            measured => measured.in_short(),
        }
    }

    /// Returns the verdict, and whether other programs ran meanwhile.
    pub fn verdict_in_short(&self) -> String {
        let noisy = if self.noisy && self.verdict != Verdict::Noisy { ", noisy" } else { "" };
        format!("{}{noisy}", self.verdict.name())
    }

    /// Returns whether the claim is contradicted by a measurement that no other program disturbed.
    pub fn is_contradicted(&self) -> bool {
        self.verdict == Verdict::Contradicts && !self.noisy
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Marks the claim as excluded by the paper's own numbers, for this reason, whatever was measured.
    #[must_use]
    pub fn inconsistent(mut self, because: impl Into<String>) -> Self {
        if self.verdict != Verdict::NotRun {
            let alone = Beside {
                setting: "judged by itself".into(),
                measured: self.measured.clone(),
                verdict: Some(self.verdict),
            };
            self.beside.insert(0, alone);
            self.verdict = Verdict::Inconsistent;
        }
        self.notes.insert(0, because.into());
        self
    }

    /// Notes that other programs used so many processors during a native measurement.
    #[must_use]
    pub fn beside_others(mut self, others: f64) -> Self {
        self.noisy = true;
        self.note(format!(
            "Other programs took {} processors meanwhile. Processor time does not show what they do to shared caches and memory: \
             measure again on a machine that does nothing else.",
            readable(others)
        ))
    }

    /// Makes the verdict noisy if it depends on the spread of the repetitions; `draws` are the verdicts of other draws of them.
    #[must_use]
    pub fn decided_by_noise(mut self, draws: &[Verdict]) -> Self {
        let (setting, measured) = ("by the medians".into(), self.measured.clone());
        self.beside.insert(0, Beside { setting, measured, verdict: Some(self.verdict) });
        self.verdict = Verdict::Noisy;
        let count = |verdict: Verdict| draws.iter().filter(|&&drawn| drawn == verdict).count();
        let counts = Verdict::ALL.into_iter().map(|verdict| (verdict.name(), count(verdict)));
        let counts: Vec<_> =
            counts.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
        self.note(format!(
            "The spread of the repetitions decides: of {} draws of them {}.",
            draws.len(),
            counts.join(", ")
        ))
    }

    /// Marks the claim as not judged because its place was not run, for this reason; results from elsewhere stay beside it.
    #[must_use]
    pub fn elsewhere(mut self, why: impl Into<String>) -> Self {
        if self.verdict != Verdict::NotRun {
            let measured = std::mem::replace(&mut self.measured, Measured::Numbers(Vec::new()));
            let setting = "on the machine chosen".into();
            self.beside.insert(0, Beside { setting, measured, verdict: Some(self.verdict) });
        }
        self.orders.clear();
        self.verdict = Verdict::NotRun;
        self.notes.insert(0, why.into());
        self
    }

    /// Marks the claim as one by which a parameter was chosen.
    #[must_use]
    pub fn calibrated(mut self) -> Self {
        if self.verdict != Verdict::NotRun {
            self.verdict = Verdict::Calibrated;
        }
        self
    }

    /// Returns, for each varied parameter, the values for which the claim holds.
    pub fn holds_for(&self) -> Vec<(&str, Vec<&str>)> {
        let mut keys: Vec<(&str, Vec<&str>)> = Vec::new();
        for At { setting, finding } in &self.interval {
            let Setting::Key { key, value } = setting else { continue };
            let at = keys.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
                keys.push((key, Vec::new()));
                keys.len() - 1
            });
            if finding.verdict == Verdict::Holds {
                keys[at].1.push(value);
            }
        }
        keys
    }

    /// Returns the findings under each reading of the paper's text, with the reading's letter.
    pub fn with_readings(&self) -> impl Iterator<Item = (char, &'static Reading, &Self)> {
        let with = self.interval.iter().filter_map(|at| Some((at.setting.reading()?, &at.finding)));
        ('a'..='z').zip(with).map(|(letter, (reading, finding))| (letter, reading, finding))
    }

    /// Also judges the claim under readings of the paper's text: if it does not hold by default but does under one of them, it holds within the text.
    pub(crate) fn within_text(&mut self) {
        let is_open = matches!(self.verdict, Verdict::Short | Verdict::Contradicts);
        if is_open && self.with_readings().any(|(_, _, finding)| finding.verdict == Verdict::Holds) {
            self.verdict = Verdict::WithinText;
        }
    }

    /// Returns the text of [`Finding::in_short`] as a range, from the least to the greatest over the default and all readings of the paper's text: of
    /// each number, or of how many of a trend's orders are true. Returns `None` if there are no readings, or if they make no difference.
    pub fn range(&self) -> Option<String> {
        let all = || [self].into_iter().chain(self.with_readings().map(|(_, _, finding)| finding));
        let of = |number: &dyn Fn(&Self) -> Option<f64>| {
            let known = || all().filter_map(number);
            let (least, most) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
            let (least, most) = (readable(least), readable(most));
            Some(if least == most { least } else { format!("{least} to {most}") })
        };
        let text = match &self.measured {
            Measured::Named(_) if !self.orders.is_empty() => {
                of(&|finding| {
                    Some(finding.orders.iter().filter(|order| order.holds == Some(true)).count() as f64)
                })? + &format!(" of {} orders", self.orders.len())
            }
            Measured::Named(_) => return None,
            Measured::Numbers(numbers) => {
                let each = (0..numbers.len()).map(|index| {
                    of(&|finding| match &finding.measured {
                        Measured::Numbers(numbers) => *numbers.get(index)?,
                        Measured::Named(_) => None,
                    })
                    .unwrap_or("–".into())
                });
                each.collect::<Vec<_>>().join(", ")
            }
        };
        (text != self.in_short()).then_some(text)
    }

    /// Adds the numbers of another setting, if there are any.
    #[must_use]
    pub fn beside(
        mut self,
        setting: impl Into<String>,
        measured: Measured,
        verdict: Option<Verdict>,
    ) -> Self {
        let any = match &measured {
            Measured::Numbers(numbers) => numbers.iter().any(Option::is_some),
            Measured::Named(numbers) => numbers.iter().any(|(_, number)| number.is_some()),
        };
        if any {
            self.beside.push(Beside { setting: setting.into(), measured, verdict });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_one_seed_does_not_have_does_not_hold() {
        let trend = |holds: [bool; 2]| {
            let order = |(order, holds): (&str, bool)| Order { order: order.into(), holds: Some(holds) };
            Finding::trend(Vec::new(), ["a rises", "b falls"].into_iter().zip(holds).map(order).collect(), "")
        };
        let seeds = |third: [bool; 2]| [(1, trend([true; 2])), (2, trend([true; 2])), (3, trend(third))];
        let found = trend([true; 2]).in_seeds(&seeds([true; 2]));
        assert_eq!((found.verdict, found.seeds, found.notes), (Verdict::Holds, vec![1, 2, 3], Vec::new()));
        let found = trend([true; 2]).in_seeds(&seeds([true, false]));
        assert_eq!(found.verdict, Verdict::Short);
        assert_eq!(found.notes, ["With seed 3 an order does not hold: b falls."]);
        assert_eq!(trend([true; 2]).in_seeds(&seeds([false; 2])).verdict, Verdict::Contradicts);
    }
    fn with(setting: Setting, finding: Finding) -> At {
        At { setting, finding }
    }

    fn numbers(measured: f64, verdict: Verdict) -> Finding {
        Finding::new(Measured::Numbers(vec![Some(measured)]), verdict, "")
    }

    #[test]
    fn what_holds_with_a_reading_holds_within_the_text() {
        let reading = &crate::reading::readings()[0];
        let key = || Setting::Key { key: "nvm.write_ns".into(), value: "1".into() };
        for (by_default, with_reading, with_key, judged) in [
            (Verdict::Short, Verdict::Holds, Verdict::Short, Verdict::WithinText),
            (Verdict::Contradicts, Verdict::Holds, Verdict::Short, Verdict::WithinText),
            (Verdict::Short, Verdict::Short, Verdict::Holds, Verdict::Short),
            (Verdict::Holds, Verdict::Short, Verdict::Short, Verdict::Holds),
            (Verdict::Calibrated, Verdict::Holds, Verdict::Holds, Verdict::Calibrated),
            (Verdict::Inconsistent, Verdict::Holds, Verdict::Holds, Verdict::Inconsistent),
        ] {
            let mut finding = numbers(0.5, by_default);
            finding.interval = vec![
                with(Setting::Reading(reading), numbers(0.3, with_reading)),
                with(key(), numbers(0.1, with_key)),
            ];
            finding.within_text();
            assert_eq!(finding.verdict, judged);
            assert_eq!(finding.range().unwrap(), "0.3 to 0.5", "what somebody asked for does not count");
        }
    }

    #[test]
    fn the_range_of_a_trend_is_how_many_orders_are_true() {
        let reading = &crate::reading::readings()[0];
        let trend = |holds: [bool; 2]| {
            let order = |holds| Order { order: String::new(), holds: Some(holds) };
            Finding::trend(vec![("n".into(), Some(1.0))], holds.map(order).to_vec(), "")
        };
        let mut finding = trend([true, false]);
        finding.interval = vec![with(Setting::Reading(reading), trend([true; 2]))];
        assert_eq!(finding.range().unwrap(), "1 to 2 of 2 orders");
        finding.interval = vec![with(Setting::Reading(reading), trend([false, true]))];
        assert_eq!(finding.range(), None, "as many");
    }
}
