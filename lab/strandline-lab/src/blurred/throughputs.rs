//! The numbers by which claims B1 to B20 are judged: a figure's throughputs under one setting, and the orders that trends state.

use strandline_workloads::{BLURRED, DEFAULT_WRITE_LATENCY_NS};

use super::PAPER;
use super::systems::label;
use crate::cells::{BY_LINE, SIMULATED, THROUGHPUT};
use crate::claim::{Claim, readable};
use crate::finding::{Finding, Measured, Order};
use crate::measurements::{Key, Measurements};
use crate::session::{Effort, Session};
use crate::venue::Site;
use crate::verdict::{self, Baseline, TOLERANCE};

/// A figure's throughputs under one instruction, with bulk persistence charged once or by line.
#[derive(Clone, Copy)]
pub struct Throughputs<'a> {
    all: &'a Measurements,
    figure: &'static str,
    instruction: &'a str,
    by_line: bool,
}

impl<'a> Throughputs<'a> {
    /// Returns the throughputs by which a claim is judged: its figure at its venue; natively under the paper's instruction. Each bulk persistence is
    /// charged once.
    pub fn judged(claim: &Claim, all: &'a Measurements) -> Self {
        let spec = PAPER.claim(&claim.id);
        let simulated = spec.is_some_and(|spec| spec.venue.site == Site::Simulated);
        let instruction = if simulated { SIMULATED } else { "clflush" };
        Self {
            all,
            figure: spec.and_then(|spec| spec.figure).unwrap_or_default(),
            instruction,
            by_line: false,
        }
    }

    /// Returns the figure's other settings.
    pub fn others(self) -> impl Iterator<Item = Self> {
        let mut instructions = vec![self.instruction];
        for setting in self.all.settings(self.figure) {
            let instruction = setting.rsplit(", ").next().unwrap_or(setting);
            if !instructions.contains(&instruction) {
                instructions.push(instruction);
            }
        }
        instructions
            .into_iter()
            .flat_map(move |instruction| {
                // A simulated wbinvd is one instruction, however many lines it writes back.
                let charges = if instruction == SIMULATED { &[false][..] } else { &[false, true] };
                charges.iter().map(move |&by_line| Self { instruction, by_line, ..self })
            })
            .skip(1)
    }

    pub fn name(self) -> String {
        let charge = if self.by_line { ", bulk charged by line" } else { "" };
        format!("{}{charge}", self.instruction)
    }

    /// Returns a quantity of a system; `workload` is needed if the figure has several.
    pub fn quantity(self, workload: Option<&str>, system: &str, quantity: &str, x: &str) -> Option<f64> {
        let setting = workload.map(|workload| format!("{workload}, {}", self.instruction));
        let setting = setting.as_deref().unwrap_or(self.instruction);
        self.all.median(Key { figure: self.figure, setting, system, quantity }, x)
    }

    /// Returns the transactions per second.
    pub fn of(self, workload: Option<&str>, system: &str, x: &str) -> Option<f64> {
        let quantity = if self.by_line { BY_LINE } else { THROUGHPUT };
        self.quantity(workload, system, quantity, x)
    }

    /// Returns the ratio of one system's throughput to another's.
    pub fn ratio(self, system: &str, over: &str, x: &str) -> Option<f64> {
        Some(self.of(None, system, x)? / self.of(None, over, x)?)
    }

    /// Returns the share that a system regains of the throughput that BASE loses against NP.
    pub fn regained(self, workload: Option<&str>, system: &str, x: &str) -> Option<f64> {
        let base = self.of(workload, "base", x)?;
        Some((self.of(workload, system, x)? - base) / (self.of(workload, "np", x)? - base))
    }

    /// Returns [`Throughputs::ratio`] on each of Fig. 7's workloads.
    fn ratios(self, system: &str, over: &str) -> Option<Vec<f64>> {
        BLURRED.into_iter().map(|workload| self.ratio(system, over, workload.name)).collect()
    }

    pub fn mean(self, system: &str, over: &str) -> Option<f64> {
        self.ratios(system, over).map(|ratios| mean(&ratios))
    }

    /// Returns the smallest, the largest and the mean of [`Throughputs::ratios`].
    pub fn range(self, system: &str, over: &str) -> [Option<f64>; 3] {
        let ratios = self.ratios(system, over);
        let ratios = ratios.as_deref();
        [
            ratios.map(|all| all.iter().copied().fold(f64::INFINITY, f64::min)),
            ratios.map(|all| all.iter().copied().fold(0.0, f64::max)),
            ratios.map(mean),
        ]
    }
}

fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len() as f64
}

/// Judges a headline by the figure's judging rates, and adds the others beside it.
pub fn headline<'a>(
    claim: &Claim,
    rates: Throughputs<'a>,
    baseline: Baseline,
    method: &str,
    numbers: impl Fn(Throughputs<'a>) -> Vec<Option<f64>>,
) -> Finding {
    let finding = Finding::headline(claim, numbers(rates), baseline, method);
    rates.others().fold(finding, |finding, other| {
        let numbers = numbers(other);
        let verdict = verdict::headline(&numbers, claim.value.numbers(), baseline);
        finding.beside(other.name(), Measured::Numbers(numbers), Some(verdict))
    })
}

/// Judges a trend by the figure's judging rates, and adds the others beside it.
pub fn trend<'a>(
    rates: Throughputs<'a>,
    method: &str,
    numbers: impl Fn(Throughputs<'a>) -> Vec<(String, Option<f64>)>,
    orders: impl Fn(Throughputs<'a>) -> Vec<Order>,
) -> Finding {
    let finding = Finding::trend(numbers(rates), orders(rates), method);
    rates.others().fold(finding, |finding, other| {
        let verdict = Finding::trend(Vec::new(), orders(other), "").verdict;
        finding.beside(other.name(), Measured::Named(numbers(other)), Some(verdict))
    })
}

/// Adds a note on the cost of bulk persistence if it were charged by line, to show how much the charge matters.
pub fn bulk_note(
    finding: Finding,
    rates: Throughputs,
    systems: &[&str],
    xs: &[&str],
    latency_ns: f64,
) -> Finding {
    let rates = Throughputs { instruction: "clflush", ..rates };
    let of = |system: &str| -> Option<String> {
        let share = |x: &&str| {
            let lines = rates.quantity(None, system, "bulk lines/tx", x)?;
            let rate = Throughputs { by_line: true, ..rates }.of(None, system, x)?;
            Some((lines, lines * latency_ns * 1e-9 * rate))
        };
        let all: Vec<(f64, f64)> = xs.iter().map(share).collect::<Option<_>>()?;
        let mean = |of: fn(&(f64, f64)) -> f64| mean(&all.iter().map(of).collect::<Vec<_>>());
        let (lines, share) = (readable(mean(|pair| pair.0)), readable((100.0 * mean(|pair| pair.1)).round()));
        Some(format!("{}: {lines} lines per transaction, {share}% of its time", label(system)))
    };
    let texts: Option<Vec<_>> = systems.iter().map(|system| of(system)).collect();
    match texts {
        None => finding,
        Some(texts) => finding.note(format!(
            "Natively bulk persistence writes its lines back one by one and is charged {latency_ns} ns once, as the paper's \
             wbinvd. Charged by line, as it stands beside, its waiting is: {}.",
            texts.join("; ")
        )),
    }
}

/// Adds [`bulk_note`] for Fig. 7.
pub fn fig7_note(finding: Finding, rates: Throughputs, systems: &[&str]) -> Finding {
    let xs = BLURRED.map(|workload| workload.name);
    bulk_note(finding, rates, systems, &xs, DEFAULT_WRITE_LATENCY_NS as f64)
}

pub fn order(text: impl Into<String>, holds: Option<bool>) -> Order {
    Order { order: text.into(), holds }
}

/// Returns all the values, if all were measured and there are at least two.
pub fn known(values: impl Iterator<Item = Option<f64>>) -> Option<Vec<f64>> {
    values.collect::<Option<Vec<_>>>().filter(|values| values.len() > 1)
}

/// Returns whether the values rise from step to step, and overall by a trend's margin.
pub fn rising(values: &[f64]) -> bool {
    let ends = values.first().zip(values.last());
    values.windows(2).all(|pair| pair[0] < pair[1])
        && ends.is_some_and(|(&first, &last)| verdict::above(last, first))
}

pub fn falling(values: &[f64]) -> bool {
    let ends = values.first().zip(values.last());
    values.windows(2).all(|pair| pair[0] > pair[1])
        && ends.is_some_and(|(&first, &last)| verdict::above(first, last))
}

/// Returns whether no value is further from the mean than a headline may be from the paper's number.
pub fn constant(values: &[f64]) -> bool {
    let mean = mean(values);
    values.iter().all(|value| (value - mean).abs() <= TOLERANCE * mean)
}

/// Adds a note that a trend was judged at fewer points and repetitions, unless the effort is full.
pub fn weaker(finding: Finding, session: &Session) -> Finding {
    if session.effort == Effort::Full {
        finding
    } else {
        finding
            .note("--quick: judged by the parameter's first, middle and last value, and by few repetitions.")
    }
}

/// Returns the coefficient of determination of a straight line through the points: 1 if they are on the line.
pub fn determination(x: &[f64], y: &[f64]) -> f64 {
    let (mean_x, mean_y) = (mean(x), mean(y));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| of(x - mean_x, y - mean_y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 || yy == 0.0 { 0.0 } else { xy * xy / (xx * yy) }
}
