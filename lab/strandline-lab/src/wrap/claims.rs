//! Judges claims W1 to W14.

use strandline_core::memory::LINE_BYTES;

use super::structures::{self, B_TREE, BESIDE, BY_CACHE, BY_SIZE, STRUCTURES, points};
use super::synthetic::{self, FIGURE, PER_STORE};
use super::systems::{machine, number};
use crate::claim::Claim;
use crate::error::Error;
use crate::finding::{Finding, Order};
use crate::measurements::Measurements;
use crate::session::Session;
use crate::verdict::{Baseline, MARGIN, Verdict, above, meets};

const SYNTHETIC: &str = "Fig. 6: sequential stores on the simulated machine.";
const PERIOD: &str = "Cycles from one store to the next in the middle of twenty sequential stores to a cold cache, a log \
                      buffer of one, on the machine `wrap` with hits that take no time, as the formulas have no term for \
                      them. Numbers are how many CPU delays were equal to the formula.";
const STRUCTURED: &str = "Figs. 7 to 12: structures on the simulated machine, deterministic for a seed. Set and MultiSet: a trace of std::set and \
     std::multiset; B Tree and B+ Tree: sorted arrays of 11 keys.";

fn order(text: impl Into<String>, holds: Option<bool>) -> Order {
    Order { order: text.into(), holds }
}

/// Returns Tr and Tw of the machine used for the measurement.
fn times(session: &Session) -> Result<(f64, f64), Error> {
    let machine = machine(session, &[])?;
    Ok((machine.cycles(machine.nvm.read_ns) as f64, machine.cycles(machine.nvm.write_ns) as f64))
}

/// Judges a formula, which holds if every comparison is equal.
fn equalities(compared: Vec<(String, Vec<bool>)>, method: &str) -> Finding {
    let all: Vec<bool> = compared.iter().flat_map(|(_, equal)| equal.iter().copied()).collect();
    let verdict = match all.len() {
        0 => Verdict::NotRun,
        _ if all.iter().all(|equal| *equal) => Verdict::Holds,
        _ => Verdict::Contradicts,
    };
    let mut measured = Vec::new();
    for (name, equal) in compared {
        let same = equal.iter().filter(|equal| **equal).count();
        measured.push((format!("{name}: equal"), Some(same as f64)));
        measured.push((format!("{name}: not equal"), Some((equal.len() - same) as f64)));
    }
    Finding { verdict, ..Finding::trend(measured, Vec::new(), method) }
}

pub fn w1(_: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (read, write) = times(session)?;
    let compare = |system, formula: &dyn Fn(f64) -> f64| {
        let points = points(all, FIGURE, "cold", system, PER_STORE);
        points.into_iter().map(|(delay, measured)| measured == formula(delay)).collect()
    };
    let undo = compare("undo-log", &|delay| read + write + delay.max(write));
    let wrap = compare("wrap", &|delay| read + delay.max(write));
    Ok(equalities(vec![("undo log".into(), undo), ("WrAP".into(), wrap)], PERIOD))
}

pub fn w10(_: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (read, write) = times(session)?;
    let speedups = points(all, FIGURE, "cold", "wrap", "speedup/store");
    let formula = 1.0 + write / (read + write);
    let within: Vec<bool> = speedups
        .iter()
        .filter(|(delay, _)| *delay <= write)
        .map(|(_, speedup)| *speedup == formula)
        .collect();
    let beyond: Vec<f64> = speedups.iter().filter(|(delay, _)| *delay >= write).map(|(_, s)| *s).collect();
    let falling = beyond.windows(2).map(|pair| pair[0] > pair[1] && pair[1] > 1.0).collect();
    Ok(equalities(vec![("up to Tw".into(), within), ("beyond, falling towards 1".into(), falling)], PERIOD)
        .note(format!("1 + Tw / (Tr + Tw) is {formula:.3} at Tr = {read} and Tw = {write}.")))
}

pub fn w2(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let largest = |setting| {
        let points = points(all, FIGURE, setting, "wrap", synthetic::SPEEDUP);
        points.into_iter().map(|(_, speedup)| speedup).reduce(f64::max)
    };
    let finding = Finding::headline(claim, vec![largest("cold"), largest("hot")], Baseline::One, SYNTHETIC);
    Ok(finding
        .note("Both systems end a transaction with one more durable write: WrAP's entry in the Log, the undo log's mark. \
               The formulas leave it out."))
}

/// Judges W3 by W1's formulas, which determine how close the three systems come at the largest delay.
pub fn w3(_: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (read, write) = times(session)?;
    let time = |system| points(all, FIGURE, "cold", system, synthetic::TIME);
    let (plain, undo, wrap) = (time("non-transactional"), time("undo-log"), time("wrap"));
    let over = |above: &[(f64, f64)]| -> Vec<f64> {
        above.iter().zip(&plain).map(|((_, time), (_, plain))| time / plain).collect()
    };
    let (undo, wrap) = (over(&undo), over(&wrap));
    let last = |of: &[f64]| of.last().copied();
    let falls = |of: &[f64]| {
        let steadily = of.windows(2).all(|pair| pair[1] <= pair[0] + 1e-9);
        of.first().zip(of.last()).map(|(&first, &last)| steadily && above(first, last))
    };
    // W1: Tr + Tc without transactions, and the times of the two systems.
    let delay = plain.last().map(|&(delay, _)| delay);
    let formula = |store: f64| delay.map(|delay| (store + delay.max(write)) / (read + delay));
    let (undo_formula, wrap_formula) = (formula(read + write), formula(read));
    // The systems end a transaction with one more durable write, which the formulas ignore.
    let as_near = |of: &[f64], formula: Option<f64>| {
        last(of).zip(formula).map(|(ratio, formula)| (ratio / formula - 1.0).abs() <= MARGIN)
    };
    let orders = vec![
        order("WrAP's time over the non-transactional one falls with the delay", falls(&wrap)),
        order("the undo log's does", falls(&undo)),
        order(
            "WrAP is as near at the largest delay as W1's formula says, within 2%",
            as_near(&wrap, wrap_formula),
        ),
        order("the undo log is, within 2%", as_near(&undo, undo_formula)),
    ];
    let numbers = vec![
        ("WrAP at the smallest delay".into(), wrap.first().copied()),
        ("WrAP at the largest".into(), last(&wrap)),
        ("WrAP at the largest by W1's formula".into(), wrap_formula),
        ("undo log at the smallest".into(), undo.first().copied()),
        ("undo log at the largest".into(), last(&undo)),
        ("undo log at the largest by W1's formula".into(), undo_formula),
    ];
    let finding = Finding::trend(numbers, orders, SYNTHETIC);
    let Some((delay, undo_formula)) = delay.zip(undo_formula) else { return Ok(finding) };
    Ok(finding.note(format!(
        "By W1 the undo log takes (Tr + Tw + max(Tc, Tw)) / (Tr + Tc) = {:.0} / {:.0} = {undo_formula:.3} of the non-transactional \
         time at Tc = {delay}, Tr = {read} and Tw = {write}, and nears it as Tc grows: that is what the paper's \"meet\" can mean.",
        read + write + delay.max(write),
        read + delay,
    )))
}

/// Returns whether a series rises: no point is below the one before by more than a thousandth, and the last is above the first.
fn rises(points: &[(f64, f64)]) -> Option<bool> {
    let (first, last) = (points.first()?.1, points.last()?.1);
    let steadily = points.windows(2).all(|pair| pair[1].1 >= 0.999 * pair[0].1);
    Some(steadily && above(last, first))
}

pub fn w4(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    let by_size = synthetic::SIZES.map(|size| {
        let setting = format!("{size} stores");
        (size, points(all, FIGURE, &setting, "wrap", synthetic::SPEEDUP))
    });
    for (size, points) in &by_size {
        // A transaction that fits the smallest cache cannot gain from a larger one.
        if *size > synthetic::CACHES[0] {
            orders.push(order(format!("{size} stores: rises with the cache"), rises(points)));
        }
        let largest = points.last().map(|point| point.1);
        orders.push(order(
            format!("{size} stores: a gain of 0.75 at the largest cache, within a tenth"),
            largest.map(|speedup| meets(speedup, 1.75, Baseline::One)),
        ));
        numbers.push((format!("{size} stores, smallest cache"), points.first().map(|point| point.1)));
        numbers.push((format!("{size} stores, largest cache"), largest));
    }
    let smallest: Vec<f64> = by_size.iter().filter_map(|(_, points)| Some(points.first()?.1)).collect();
    let slower =
        (smallest.len() == by_size.len()).then(|| smallest.windows(2).all(|pair| above(pair[0], pair[1])));
    orders.push(order("larger transactions are slowed in the smallest cache", slower));
    Ok(Finding::trend(numbers, orders, SYNTHETIC))
}

fn speedups(all: &Measurements, figure: &str, setting: &str) -> Vec<(f64, f64)> {
    points(all, figure, setting, "wrap", structures::SPEEDUP)
}

pub fn w5(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let every: Vec<f64> = STRUCTURES
        .iter()
        .flat_map(|(structure, _)| speedups(all, BY_SIZE, structure))
        .map(|(_, speedup)| speedup)
        .collect();
    let least = every.iter().copied().reduce(f64::min);
    let most = every.iter().copied().reduce(f64::max);
    let mut finding = Finding::headline(claim, vec![least, most], Baseline::One, STRUCTURED);
    for (structure, name) in STRUCTURES.into_iter().chain(BESIDE) {
        let points = speedups(all, BY_SIZE, structure);
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            finding =
                finding.note(format!("{name}: {:.2} with one operation, {:.2} with ten.", first.1, last.1));
        }
    }
    Ok(finding)
}

fn at_five(all: &Measurements, structure: &str, quantity: &str) -> Option<f64> {
    let points = points(all, BY_CACHE, structure, "wrap", quantity);
    points.last().map(|point| point.1)
}

pub fn w6(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let at = |structure: &str| {
        let points = points(all, BY_SIZE, structure, "wrap", structures::STORES);
        // Five operations, or the nearest measured size.
        points.into_iter().min_by(|a, b| (a.0 - 5.0).abs().total_cmp(&(b.0 - 5.0).abs())).map(|point| point.1)
    };
    let btree = at(B_TREE);
    let numbers =
        STRUCTURES.map(|(structure, name)| (format!("{name}: stores per transaction"), at(structure)));
    let orders = STRUCTURES.iter().filter(|(structure, _)| *structure != B_TREE).map(|(structure, name)| {
        let ratio = btree.zip(at(structure)).map(|(btree, other)| btree / other);
        order(
            format!("B Tree makes almost twice (1.5 to 2.5 times) the stores of {name}"),
            ratio.map(|ratio| (1.5..=2.5).contains(&ratio)),
        )
    });
    Ok(Finding::trend(numbers.into(), orders.collect(), STRUCTURED))
}

pub fn w7(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (structure, name) in STRUCTURES {
        let time = |system| points(all, BY_SIZE, structure, system, structures::TIME);
        let (plain, undo, wrap) = (time("non-transactional"), time("undo-log"), time("wrap"));
        let nearer = !wrap.is_empty() && wrap.len() == undo.len() && wrap.len() == plain.len();
        let each = || plain.iter().zip(&undo).zip(&wrap).map(|((p, u), w)| (p.1, u.1, w.1));
        orders.push(order(
            format!("{name}: WrAP nearer to non-transactional than to the undo log, at every size"),
            nearer.then(|| each().all(|(plain, undo, wrap)| above(undo - wrap, wrap - plain))),
        ));
        orders.push(order(
            format!("{name}: WrAP below the undo log at every size"),
            nearer.then(|| each().all(|(_, undo, wrap)| above(undo, wrap))),
        ));
        if let Some((plain, undo, wrap)) = each().next_back() {
            numbers.push((format!("{name}, largest size: WrAP / non-transactional"), Some(wrap / plain)));
            numbers.push((format!("{name}, largest size: undo log / non-transactional"), Some(undo / plain)));
        }
    }
    Ok(Finding::trend(numbers, orders, STRUCTURED))
}

/// Returns the largest value of a quantity for each structure, and the cache size with it.
fn largest(all: &Measurements, structure: &str, quantity: &str) -> Option<(f64, f64)> {
    points(all, BY_CACHE, structure, "wrap", quantity).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))
}

pub fn w8(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let of = |structure: &str| largest(all, structure, structures::LOG_BUFFER);
    let numbers: Vec<_> = STRUCTURES
        .map(|(structure, name)| (format!("{name}: log writes waiting"), of(structure).map(|l| l.1)))
        .into();
    let btree = of(B_TREE).map(|largest| largest.1);
    let others: Vec<f64> =
        STRUCTURES.iter().filter(|s| s.0 != B_TREE).filter_map(|(s, _)| of(s).map(|l| l.1)).collect();
    let orders = vec![
        order("largest for the B Tree", btree.map(|btree| others.iter().all(|&other| above(btree, other)))),
        order(
            "of the order of 50 (25 to 100) for the B Tree",
            btree.map(|btree| (25.0..=100.0).contains(&btree)),
        ),
    ];
    Ok(Finding::trend(numbers, orders, STRUCTURED))
}

pub fn w9(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (structure, name) in STRUCTURES {
        let points = points(all, BY_CACHE, structure, "wrap", structures::VICTIMS);
        let ends = points.first().zip(points.last());
        let falls = ends.map(|(first, last)| {
            above(first.1, last.1) && points.windows(2).all(|pair| pair[1].1 <= pair[0].1)
        });
        orders.push(order(format!("{name}: falls with the cache's size"), falls));
        numbers.push((format!("{name}: lines at the smallest cache"), ends.map(|ends| ends.0.1)));
        numbers.push((format!("{name}: lines at the largest cache"), ends.map(|ends| ends.1.1)));
    }
    Ok(Finding::trend(numbers, orders, STRUCTURED))
}

pub fn w11(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (structure, name) in STRUCTURES {
        let by_cache = speedups(all, BY_CACHE, structure);
        orders.push(order(format!("{name}: rises with the cache"), rises(&by_cache)));
        let mut by_delay = speedups(all, BY_CACHE, &structures::delayed(structure));
        by_delay.reverse();
        orders.push(order(format!("{name}: rises with less time between stores"), rises(&by_delay)));
        numbers.push((format!("{name}, smallest cache"), by_cache.first().map(|point| point.1)));
        numbers.push((format!("{name}, largest cache"), by_cache.last().map(|point| point.1)));
        numbers
            .push((format!("{name}, 1000 cycles between accesses"), by_delay.first().map(|point| point.1)));
    }
    Ok(Finding::trend(numbers, orders, STRUCTURED))
}

pub fn w12(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let points = speedups(all, BY_SIZE, B_TREE);
    let ends = points.first().zip(points.last()).map(|(first, last)| (first.1, last.1));
    let orders = vec![
        order(
            "B Tree: higher with the largest transactions than with the smallest",
            ends.map(|(a, b)| above(b, a)),
        ),
        order("B Tree: above 1.75 there", ends.map(|(_, last)| above(last, 1.75))),
    ];
    let numbers = vec![
        ("one operation".to_owned(), ends.map(|ends| ends.0)),
        ("ten operations".to_owned(), ends.map(|ends| ends.1)),
    ];
    Ok(Finding::trend(numbers, orders, STRUCTURED))
}

pub fn w13(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (structure, name) in STRUCTURES {
        let points = points(all, BY_CACHE, structure, "wrap", structures::LOG_BUFFER);
        let at_largest = points
            .first()
            .zip(points.last())
            .map(|(first, last)| above(last.1, first.1) && points.iter().all(|point| point.1 <= last.1));
        orders.push(order(format!("{name}: the log buffer is largest at the largest cache"), at_largest));
        numbers.push((format!("{name}: at the smallest cache"), points.first().map(|point| point.1)));
        numbers.push((format!("{name}: at the largest cache"), points.last().map(|point| point.1)));
    }
    let stores = at_five(all, B_TREE, structures::STORES);
    orders.push(order(
        "B Tree: hundreds of stores per transaction",
        stores.map(|stores| (100.0..1000.0).contains(&stores)),
    ));
    numbers.push(("B Tree: stores per transaction of five".into(), stores));
    Ok(Finding::trend(numbers, orders, STRUCTURED))
}

pub fn w14(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let machine = machine(session, &[])?;
    let dram = machine.dram.as_ref().map(|dram| machine.cycles(dram.read_ns) as f64);
    let (read, write) = times(session)?;
    let strandline_workloads::Mix::InsertFindDelete { elements } = strandline_workloads::Sizes::wrap(1).mix
    else {
        return Ok(Finding::not_run("the sizes of WrAP's benchmark have another mix"));
    };
    let measured = vec![
        dram,
        Some(read),
        Some(write),
        Some(synthetic::STORES as f64),
        Some(elements as f64),
        Some(machine.cores.cycles_per_instruction),
    ];
    // Skip systems without measurements.
    let any = number(all, FIGURE, "cold", "wrap", synthetic::TIME, "0").is_some();
    let blocks = machine.caches[0].bytes / LINE_BYTES;
    Ok(if any {
        Finding::exact(claim, measured, "The machine `wrap` and the set-up of all figures here.")
            .note(format!("The machine's cache has {blocks} blocks where it is not varied."))
    } else {
        Finding::not_run("nothing was measured")
    })
}

#[cfg(test)]
mod tests {
    use super::super::PAPER;
    use super::super::systems::add;
    use super::*;
    use crate::session::Effort;
    use crate::verdict::Basis;

    /// At 10,000 cycles W1's formula for the undo log is more than a tenth above the time without transactions.
    #[test]
    fn systems_meet_as_nearly_as_the_papers_own_formula_says() {
        let judged = |undo_at_last: f64| {
            let mut all = Measurements::default();
            for (delay, undo, wrap) in [(0, 2.0, 1.5), (10_000, undo_at_last, 1.01)] {
                for (system, time) in [("non-transactional", 1.0), ("undo-log", undo), ("wrap", wrap)] {
                    add(&mut all, (FIGURE, "cold", system, synthetic::TIME), delay, time);
                }
            }
            let claim = PAPER.data().find(|claim| claim.id == "W3").unwrap();
            w3(claim, &Session::for_tests(Effort::Quick), &all).unwrap()
        };
        let finding = judged(1.127);
        assert_eq!(finding.verdict, Verdict::Holds);
        assert!(finding.notes[0].contains("1.115"), "{:?}", finding.notes);
        assert_eq!(judged(1.2).verdict, Verdict::Short);
        assert_eq!(PAPER.claim("W3").unwrap().basis, Basis::ClosedForm);
    }
}
