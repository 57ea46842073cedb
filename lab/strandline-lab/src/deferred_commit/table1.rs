//! Table 1 and Fig. 1: compares critical paths of synthetic transactions with the closed forms.

use std::num::NonZeroU32;

use strandline_persistency::Model;
use strandline_persistency::ideal::Ideal;

use super::synthetic::Synthetic;
use super::trace::{Recording, trace_scheme};
use crate::error::Error;
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Panel};
use crate::session::{Effort, Session};

pub const FIGURE: &str = "table1";
const MEASURED: &str = "persist epochs";
const FORMULA: &str = "persist epochs by the formula";

/// The settings and systems of D1's rows.
pub const NON_CONFLICTING: [(&str, &str); 6] = [
    ("non-conflicting", "sct-epoch"),
    ("non-conflicting", "sct-eager-sync"),
    ("non-conflicting", "sct-strand"),
    ("non-conflicting", "dct-epoch"),
    ("non-conflicting", "dct-eager-sync"),
    ("non-conflicting", "dct-strand"),
];
/// The settings and systems of D2's rows.
pub const CONFLICTING: [(&str, &str); 6] = [
    ("conflicting", "sct-epoch"),
    ("conflicting", "sct-eager-sync"),
    ("conflicting", "sct-strand"),
    ("conflicting", "dct-epoch"),
    ("conflicting", "dct-eager-sync"),
    ("conflicting", "dct-strand"),
];
/// Designs whose commits wait for barriers of later transactions, with a setting in which they do not wait: each thread commits what it has deferred
/// before its next transaction.
pub const DRAINED: [(&str, &str); 2] =
    [("conflicting, drained", "dct-epoch"), ("conflicting, drained", "dct-eager-sync")];
/// The settings and systems of D3's rows.
pub const IDEAL: [(&str, &str); 2] = [("non-conflicting", "ideal"), ("conflicting", "ideal")];

/// One run of the table.
#[derive(Clone, Copy)]
struct Run {
    setting: &'static str,
    scheme: &'static str,
    conflicting: bool,
    /// True if a thread commits what it has deferred after each transaction.
    drained: bool,
    threads: u64,
    /// The number of strands that a thread has; 1 if the model has none.
    strands: u64,
    transactions: u64,
}

impl Run {
    fn model(self) -> Model {
        match self.scheme {
            "sct-eager-sync" | "dct-eager-sync" => Model::EagerSync,
            "sct-strand" | "dct-strand" => Model::Strand { strands: NonZeroU32::new(self.strands as u32) },
            _ => Model::Epoch,
        }
    }

    fn formula(self) -> u64 {
        formula(self.scheme, self.conflicting, (self.transactions, self.threads, self.strands))
    }

    fn x(self) -> String {
        format!("x={} t={} s={}", self.transactions, self.threads, self.strands)
    }

    fn measure(self, session: &Session) -> Result<u32, Error> {
        let workload = Synthetic::new(self.transactions, self.threads, self.conflicting, self.drained);
        let recording = Recording {
            model: self.model(),
            threads: self.threads,
            transactions: self.transactions,
            log_bytes: 64 << 10,
            seed: session.seed,
            in_turn: true,
        };
        Ok(trace_scheme(self.scheme, &workload, recording, &|_| ())?.critical_path)
    }
}

/// Returns Table 1's length of the path of x transactions on t threads with s strands each.
pub fn formula(scheme: &str, conflicting: bool, (x, t, s): (u64, u64, u64)) -> u64 {
    let deferred = scheme.starts_with("dct");
    match (conflicting, deferred, scheme) {
        (true, false, _) => 3 * x,
        (true, true, _) => x + 2,
        (false, _, "sct-strand" | "dct-strand") => 3 * x / (s * t),
        (false, false, _) => 3 * x / t,
        (false, true, "dct-eager-sync") => x / t + 2,
        (false, true, _) => 2 * x / t + 1,
    }
}

fn runs(session: &Session) -> Vec<Run> {
    let each: &[u64] = if session.effort == Effort::Full { &[1, 2, 3, 7, 20, 100] } else { &[1, 2, 7, 20] };
    let mut runs = Vec::new();
    for &each in each {
        for (setting, scheme) in NON_CONFLICTING {
            for threads in 1..=4 {
                let strands: &[u64] = if scheme.ends_with("strand") { &[1, 2, 3, 4] } else { &[1] };
                for &strands in strands {
                    let transactions = each * threads * strands;
                    let (conflicting, drained) = (false, false);
                    runs.push(Run { setting, scheme, conflicting, drained, threads, strands, transactions });
                }
            }
        }
        for (setting, scheme) in CONFLICTING.into_iter().chain(DRAINED) {
            let drained = setting != CONFLICTING[0].0;
            let threads = match scheme {
                // With two threads in turn, a thread's drained commit still overlaps its own next transaction.
                _ if drained => 3..=6,
                // Threads conflict with one another; the deferred commits of a single thread are ordered with its own transactions.
                "dct-epoch" | "dct-eager-sync" => 2..=4,
                _ => 1..=4,
            };
            for threads in threads {
                let (conflicting, transactions) = (true, each * threads);
                let strands = transactions;
                runs.push(Run { setting, scheme, conflicting, drained, threads, strands, transactions });
            }
        }
    }
    runs
}

pub fn steps(session: &Session) -> u64 {
    runs(session).len() as u64
}

pub fn run(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    let mut add = |setting: &str, system: &str, x: &str, measured: f64, formula: f64| {
        let key = |quantity| Key { figure: FIGURE, setting, system, quantity };
        into.add(key(MEASURED), x, Spread::exactly(measured));
        into.add(key(FORMULA), x, Spread::exactly(formula));
    };
    for run in runs(session) {
        let measured = run.measure(session)?;
        add(run.setting, run.scheme, &run.x(), measured.into(), run.formula() as f64);
        session.progress.inc(1);
    }
    for x in 1..=200u32 {
        let (mut apart, mut together) = (Ideal::new(), Ideal::new());
        for lock in 0..x {
            apart.transaction(&[lock.into()]);
            together.transaction(&[0]);
        }
        let name = format!("x={x}");
        add("non-conflicting", "ideal", &name, apart.critical_path().into(), 3.0);
        add("conflicting", "ideal", &name, together.critical_path().into(), f64::from(x + 2));
    }
    Ok(())
}

/// Returns the measured path and the formula's, for each x, t and s.
pub fn compared(all: &Measurements, setting: &str, system: &str) -> Vec<(f64, f64)> {
    let key = |quantity| Key { figure: FIGURE, setting, system, quantity };
    let xs = all.xs(FIGURE);
    let pair = |x: &&str| Some((all.median(key(MEASURED), x)?, all.median(key(FORMULA), x)?));
    xs.iter().filter_map(pair).collect()
}

/// Returns whether all paths of a row equal the formula.
pub fn is_the_formulas(all: &Measurements, setting: &str, system: &str) -> bool {
    let compared = compared(all, setting, system);
    !compared.is_empty() && compared.iter().all(|(measured, formula)| measured == formula)
}

/// Computes D13's number: from how many strands on DCT's path is shorter under strand than under epoch persistency, for all x and t measured under
/// both with at least two transactions of a thread.
pub fn strands_from_which_strand_wins(all: &Measurements) -> Option<f64> {
    let key = |system| Key { figure: FIGURE, setting: "non-conflicting", system, quantity: MEASURED };
    let wins = |strands: u64| {
        let mut pairs = 0;
        for threads in 1..=4u64 {
            for transactions in (2 * threads..=2000).step_by(threads as usize) {
                let strand = format!("x={transactions} t={threads} s={strands}");
                let epoch = format!("x={transactions} t={threads} s=1");
                let strand = all.median(key("dct-strand"), &strand);
                let Some((strand, epoch)) = strand.zip(all.median(key("dct-epoch"), &epoch)) else {
                    continue;
                };
                pairs += 1;
                if strand >= epoch {
                    return Some(false);
                }
            }
        }
        (pairs > 0).then_some(true)
    };
    let results: Vec<_> = (1..=4).map(|strands| (strands, wins(strands))).collect();
    // Strand persistency must win from this number on, and not below.
    let first = results.iter().find(|(_, wins)| *wins == Some(true))?.0;
    let consistent =
        results.iter().all(|(strands, wins)| wins.is_none_or(|wins| wins == (*strands >= first)));
    consistent.then_some(first as f64)
}

pub fn draw(all: &Measurements) -> Vec<Panel> {
    let panel = |title: &str, rows: &[(&str, &str)]| {
        let value = |&(setting, system): &(&str, &str), x: &str| {
            all.spread(Key { figure: FIGURE, setting, system, quantity: MEASURED }, x)
        };
        // The figure has others, of conflicting transactions.
        let is_drawn = |x: &&str| {
            (x.ends_with("t=4 s=1") || x.ends_with("t=4 s=4"))
                && rows.iter().any(|row| value(row, x).is_some())
        };
        let xs: Vec<String> = all.xs(FIGURE).into_iter().filter(is_drawn).map(str::to_owned).collect();
        let curves = rows.iter().enumerate().map(|(colour, row)| Curve {
            name: row.1.into(),
            colour,
            values: xs.iter().map(|x| value(row, x)).collect(),
        });
        Panel {
            title: title.into(),
            form: Form::Bars,
            x_label: "transactions, threads, strands".into(),
            y_label: "persist epochs".into(),
            x: xs.clone(),
            curves: curves.collect(),
            marks: Vec::new(),
        }
    };
    vec![panel("Non-conflicting, four threads", &NON_CONFLICTING)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::claims;
    use crate::verdict::Verdict;

    /// Claims D1, D2, D3 and D13 on the schemes themselves.
    #[test]
    fn measured_paths_equal_the_formulas() {
        let session = Session::for_tests(Effort::Quick);
        let mut all = Measurements::default();
        run(&session, &mut all).unwrap();
        let deferring = |row: &&(&str, &str)| DRAINED.iter().any(|(_, system)| *system == row.1);
        let undeferred = CONFLICTING.iter().filter(|row| !deferring(row));
        for (setting, system) in NON_CONFLICTING.iter().chain(undeferred).chain(&DRAINED).chain(&IDEAL) {
            let compared = compared(&all, setting, system);
            assert!(compared.len() >= 8, "{setting} {system}");
            assert!(is_the_formulas(&all, setting, system), "{setting} {system}: {compared:?}");
        }
        // In real runs, commits that wait for a barrier of the thread's next transaction come later than the formula.
        let equal = |system| compared(&all, "conflicting", system).iter().filter(|(m, f)| m == f).count();
        // Each place on the axis has values.
        for panel in draw(&all) {
            let has_value = |at: usize| panel.curves.iter().any(|curve| curve.values[at].is_some());
            assert!(panel.x.len() > 3 && (0..panel.x.len()).all(has_value), "{:?}", panel.x);
        }
        assert_eq!(equal("dct-epoch"), 6, "with two threads, or one transaction of each");
        assert!(!is_the_formulas(&all, "conflicting", "dct-eager-sync"));
        let claim = claims().iter().find(|claim| claim.id == "D2").unwrap();
        let finding = super::super::claims::d2(claim, &session, &all).unwrap();
        assert_eq!(finding.verdict, Verdict::Inconsistent);
        assert_eq!(
            (finding.beside[0].setting.as_str(), finding.beside[0].verdict),
            ("judged by itself", Some(Verdict::Short))
        );
        assert!(finding.beside.iter().any(|beside| beside.verdict == Some(Verdict::Holds)), "drained");
        assert_eq!(strands_from_which_strand_wins(&all), Some(2.0));
    }

    /// The reason why D2 excludes D1: a single thread's path is not shorter if its transactions conflict. More than two threads in turn have x + t:
    /// the commit of transaction x - t waits for a barrier of transaction x, and t commits follow one another.
    #[test]
    fn conflicts_do_not_shorten_the_path_of_a_thread() {
        let session = Session::for_tests(Effort::Quick);
        let path = |conflicting, threads, transactions| {
            let (setting, scheme, drained, strands) = ("", "dct-epoch", false, 1);
            let run = Run { setting, scheme, conflicting, drained, threads, strands, transactions };
            (u64::from(run.measure(&session).unwrap()), run.formula())
        };
        for transactions in [2, 7, 20] {
            let ((apart, formula), (together, excluded)) =
                (path(false, 1, transactions), path(true, 1, transactions));
            assert_eq!((apart, together), (formula, formula), "{transactions} transactions");
            assert!(together > excluded);
            for threads in 3..=4 {
                let (path, _) = path(true, threads, threads * transactions);
                assert_eq!(path, threads * transactions + threads);
            }
        }
    }
}
