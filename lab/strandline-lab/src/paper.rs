//! Papers: their figures, and how their claims are judged. Adding one is adding a module with a [`Paper`] to
//! [`PAPERS`].

use crate::claim::{Claim, claims, readable};
use crate::measurements::{Measurements, Spread};
use crate::session::{Error, Session};
use crate::verdict::{self, Baseline, Verdict};

/// All papers that can be reproduced.
pub const PAPERS: &[&Paper] = &[
    &crate::blurred::PAPER,
    &crate::loose_ordering::PAPER,
    &crate::deferred_commit::PAPER,
    &crate::atom::PAPER,
    &crate::wrap::PAPER,
    &crate::compare::PAPER,
];

/// A paper whose evaluation is measured again.
#[derive(Debug)]
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// The letter that its claims' ids begin with.
    pub letter: char,
    /// The paper's title.
    pub title: &'static str,
    /// Authors, venue and year.
    pub citation: &'static str,
    /// The page about it, from the project's first one.
    pub page: &'static str,
    /// What was built, on what, and how that differs from the paper's machine.
    pub setting: &'static str,
    /// Its figures, in the paper's order.
    pub figures: &'static [FigureSpec],
    /// How its claims are judged: one entry for each claim of the data file.
    pub claims: &'static [ClaimSpec],
    /// Whether its figures run natively too, and on a simulated machine of one's choice beside.
    pub natively: bool,
    /// The simulated machine that its figures run on, by name, if there is one: the keys of that can be varied.
    pub machine: Option<&'static str>,
}

impl Paper {
    /// The paper of this name.
    ///
    /// # Errors
    /// There is none; the error lists what there is.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        PAPERS.iter().copied().find(|paper| paper.name == name).ok_or_else(|| {
            let names: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
            Error::Usage(format!("there is no paper {name:?} here; choose from: {}", names.join(", ")))
        })
    }

    /// The paper's claims in the data file.
    pub fn data(&self) -> impl Iterator<Item = &'static Claim> + use<> {
        let letter = self.letter;
        claims().iter().filter(move |claim| claim.id.starts_with(letter))
    }

    /// How the claim of this id is judged.
    pub fn claim(&self, id: &str) -> Option<&'static ClaimSpec> {
        self.claims.iter().find(|claim| claim.id == id)
    }
}

/// A figure, or a table.
#[derive(Debug)]
pub struct FigureSpec {
    /// The id that series and claims use.
    pub id: &'static str,
    /// The number in the paper.
    pub number: &'static str,
    /// What the figure shows, in a few words.
    pub title: &'static str,
    /// How it is measured here.
    pub method: &'static str,
    /// Measurements that [`FigureSpec::run`] makes, for showing progress.
    pub steps: fn(&Session) -> u64,
    /// Measures the figure, and adds its series.
    pub run: fn(&Session, &mut Measurements) -> Result<(), Error>,
    /// Draws it from what was measured.
    pub draw: fn(&Measurements) -> Vec<Panel>,
}

/// Where a claim is judged, which no flag changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Site {
    /// Nowhere in particular: by what the code does, the same on all machines.
    Code,
    /// On the processor at hand.
    Native,
    /// On the paper's simulated machine.
    Simulated,
}

impl Site {
    /// Whether a claim is judged here by a figure that is measured both natively and on a machine.
    pub(crate) fn judges(self, figure: &str) -> bool {
        let claims = PAPERS.iter().filter(|paper| paper.natively).flat_map(|paper| paper.claims);
        claims.into_iter().any(|claim| claim.figure == Some(figure) && claim.venue.site == self)
    }
}

/// Where a claim is judged, and why there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Venue {
    /// Where.
    pub site: Site,
    /// The reason, in a sentence.
    pub because: &'static str,
}

impl Venue {
    /// What a paper's claim about its own hardware is judged by; a claim without a figure is about the code.
    pub const fn of_hardware(figure: Option<&'static str>) -> Self {
        match figure {
            Some(_) => {
                Self { site: Site::Simulated, because: "The paper's hardware exists in simulation alone." }
            }
            None => Self::BY_CODE,
        }
    }

    /// What holds of the code.
    pub const BY_CODE: Self =
        Self { site: Site::Code, because: "What the code does is the same on every machine." };
}

/// How one claim is judged.
#[derive(Debug)]
pub struct ClaimSpec {
    /// The claim's id in `papers/claims.toml`.
    pub id: &'static str,
    /// The figure it stands beside, which has to be measured for it; `None` for claims about the code.
    pub figure: Option<&'static str>,
    /// Where it is judged.
    pub venue: Venue,
    /// Judges the claim by what was measured.
    pub judge: fn(&Claim, &Session, &Measurements) -> Result<Finding, Error>,
}

/// What was measured for a claim.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Measured {
    /// Numbers, as the claim lists them; `None` where one was not measured.
    Numbers(Vec<Option<f64>>),
    /// Numbers by what they are, where they are more than the claim's.
    Named(Vec<(String, Option<f64>)>),
}

impl Measured {
    /// The numbers in a line, without their names.
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
    /// Whether it is true; `None` if it could not be measured.
    pub holds: Option<bool>,
}

/// The same numbers under another setting: shown beside the claim's.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The setting that differs from that of the claim.
    pub setting: String,
    /// The numbers, as in [`Finding::measured`].
    pub measured: Measured,
    /// What the verdict would be with these numbers, where numbers decide it.
    pub verdict: Option<Verdict>,
}

/// What a claim would be at another value of an open parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct At {
    /// The key of the machine's description.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The claim's numbers there.
    pub measured: Measured,
    /// And its verdict.
    pub verdict: Verdict,
}

/// A claim's verdict, with what led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was measured.
    pub measured: Measured,
    /// Whether the claim holds by that.
    pub verdict: Verdict,
    /// Whether it was measured natively while other programs ran.
    pub noisy: bool,
    /// The orders that a trend states, each with whether it holds.
    pub orders: Vec<Order>,
    /// The same numbers under other settings, which are shown and not judged.
    pub beside: Vec<Beside>,
    /// What it would be at other values of open parameters, in the order in which they were varied.
    pub interval: Vec<At>,
    /// How it was measured and judged.
    pub method: String,
    /// What else is known: reasons, limits.
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
            method: method.into(),
            notes: Vec::new(),
        }
    }

    /// A headline, against the claim's numbers.
    pub fn headline(
        claim: &Claim,
        measured: Vec<Option<f64>>,
        baseline: Baseline,
        method: impl Into<String>,
    ) -> Self {
        let verdict = verdict::headline(&measured, claim.value.numbers(), baseline);
        Self::new(Measured::Numbers(measured), verdict, method)
    }

    /// An exact claim, against the claim's numbers.
    pub fn exact(claim: &Claim, measured: Vec<Option<f64>>, method: impl Into<String>) -> Self {
        let verdict = verdict::exact(&measured, claim.value.numbers());
        Self::new(Measured::Numbers(measured), verdict, method)
    }

    /// A trend: its orders decide, its numbers are shown. Zeros are in no order.
    pub fn trend(
        measured: Vec<(String, Option<f64>)>,
        mut orders: Vec<Order>,
        method: impl Into<String>,
    ) -> Self {
        if verdict::is_all_zero(measured.iter().map(|(_, number)| *number)) {
            orders.iter_mut().for_each(|order| order.holds = None);
        }
        let verdict = verdict::trend(&orders.iter().map(|order| order.holds).collect::<Vec<_>>());
        Self { orders, ..Self::new(Measured::Named(measured), verdict, method) }
    }

    /// A claim that was not run.
    pub fn not_run(why: impl Into<String>) -> Self {
        Self::new(Measured::Numbers(Vec::new()), Verdict::NotRun, why)
    }

    /// What was found in a few words: how many of a trend's orders are true, the numbers of other claims.
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

    /// The verdict, and whether other programs ran meanwhile.
    pub fn verdict_in_short(&self) -> String {
        let noisy = if self.noisy && self.verdict != Verdict::Noisy { ", noisy" } else { "" };
        format!("{}{noisy}", self.verdict.name())
    }

    /// Whether the claim is contradicted by what no other program has disturbed.
    pub fn is_contradicted(&self) -> bool {
        self.verdict == Verdict::Contradicts && !self.noisy
    }

    /// With a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// A claim that the paper's own numbers exclude, for this reason, whatever was found.
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

    /// Measured natively while other programs took so many processors.
    #[must_use]
    pub fn beside_others(mut self, others: f64) -> Self {
        self.noisy = true;
        self.note(format!(
            "Other programs took {} processors meanwhile. Processor time does not show what they do to shared caches and memory: \
             measure again on a machine that does nothing else.",
            readable(others)
        ))
    }

    /// Decided by the spread of the repetitions, by these verdicts of other draws of them.
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

    /// A claim whose place was not run, for this reason: what was found elsewhere stands beside.
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

    /// A claim by which a parameter was chosen.
    #[must_use]
    pub fn calibrated(mut self) -> Self {
        if self.verdict != Verdict::NotRun {
            self.verdict = Verdict::Calibrated;
        }
        self
    }

    /// For which values of each varied parameter the claim holds.
    pub fn holds_for(&self) -> Vec<(&str, Vec<&str>)> {
        let mut keys: Vec<(&str, Vec<&str>)> = Vec::new();
        for at in &self.interval {
            let values = match keys.iter_mut().position(|(key, _)| *key == at.key) {
                Some(index) => &mut keys[index].1,
                None => {
                    keys.push((&at.key, Vec::new()));
                    &mut keys.last_mut().expect("one was added").1
                }
            };
            if at.verdict == Verdict::Holds {
                values.push(&at.value);
            }
        }
        keys
    }

    /// With numbers of another setting, if there are any.
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

/// How a panel is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Groups of bars.
    Bars,
    /// Lines over a parameter.
    Lines,
}

/// One plot of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What the figure shows, in a few words.
    pub title: String,
    /// Bars or lines.
    pub form: Form,
    /// The name of the parameter on the horizontal axis.
    pub x_label: String,
    /// The name of the quantity on the vertical axis, with its unit.
    pub y_label: String,
    /// The parameter's values, evenly spaced as in the paper.
    pub x: Vec<String>,
    /// The measured systems, a curve or a colour of bars each.
    pub curves: Vec<Curve>,
    /// The numbers that the paper states, drawn as marks.
    pub marks: Vec<Mark>,
}

/// One system's values in a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name of the system that it shows.
    pub name: String,
    /// Which colour it has: the same in all panels of a paper.
    pub colour: usize,
    /// A value for each of the panel's x.
    pub values: Vec<Option<Spread>>,
}

/// A number of the paper, drawn where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The curve it belongs to; `None` for all.
    pub curve: Option<String>,
    /// The x it belongs to.
    pub x: String,
    /// The number that the paper states.
    pub value: f64,
    /// The paper's smallest and largest value, where it gives a range.
    pub range: Option<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_of_a_paper_is_judged_by_a_figure_that_exists() {
        for paper in PAPERS {
            let mut ids: Vec<_> = paper.data().map(|claim| claim.id.as_str()).collect();
            let mut judged: Vec<_> = paper.claims.iter().map(|claim| claim.id).collect();
            ids.sort_unstable();
            judged.sort_unstable();
            assert_eq!(ids, judged, "{}", paper.name);
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            assert!(root.join(paper.page).exists(), "{}", paper.page);
            for claim in paper.claims {
                let exists = |id| paper.figures.iter().any(|figure| figure.id == id);
                assert!(claim.figure.is_none_or(exists), "{}", claim.id);
                let Venue { site, because } = claim.venue;
                assert!(
                    because.ends_with('.') && because.matches(". ").count() == 0,
                    "{}: a sentence",
                    claim.id
                );
                let is_possible = match site {
                    Site::Code => true,
                    Site::Native => paper.natively && claim.figure.is_some(),
                    Site::Simulated => paper.machine.is_some() && claim.figure.is_some(),
                };
                assert!(is_possible, "{}", claim.id);
            }
        }
    }

    #[test]
    fn an_unknown_paper_lists_what_there_is() {
        let error = Paper::named("blured").unwrap_err().to_string();
        assert!(error.contains("blured") && error.contains("blurred"), "{error}");
    }
}
