//! Judges claims D1 to D14.

use strandline_persistency::throughput::{Curve, break_even, largest_ratio};

use super::curves::{self, FIGURE, INDEXED, LONGEST_US, MODELS, RECORDED, Rates, WORKLOADS, both, curve};
use super::{barriers, table1};
use crate::claim::{Claim, claims};
use crate::error::Error;
use crate::finding::{Finding, Measured, Order};
use crate::measurements::{Key, Measurements};
use crate::session::{Effort, Session};
use crate::verdict::{self, Baseline, Verdict};

const US: f64 = 1e-6;
/// The knee of New Order's curve under DCT and epoch persistency according to D8, in microseconds.
const D8_KNEE_US: f64 = 2.5;
const TREES: &str = "on hash tables and B+ trees";
const METHOD: &str = "Fig. 6: volatile rate from the simulated machine, critical path per transaction from recorded executions, \
                      throughput by the paper's method (section 7.1).";

fn order(text: impl Into<String>, holds: Option<bool>) -> Order {
    Order { order: text.into(), holds }
}

/// Judges a claim that measured paths equal formulas.
fn formulas(all: &Measurements, rows: &[(&str, &str)], method: &str) -> Finding {
    let mut measured = Vec::new();
    let (mut equal, mut other) = (0u32, 0u32);
    for (setting, system) in rows {
        let compared = table1::compared(all, setting, system);
        let same = compared.iter().filter(|(measured, formula)| measured == formula).count();
        equal += same as u32;
        other += (compared.len() - same) as u32;
        measured.push((format!("{system}, {setting}: equal"), Some(same as f64)));
        measured.push((format!("{system}, {setting}: not equal"), Some((compared.len() - same) as f64)));
    }
    let verdict = match (equal, other) {
        (0, 0) => Verdict::NotRun,
        (_, 0) => Verdict::Holds,
        _ => Verdict::Contradicts,
    };
    Finding { verdict, ..Finding::trend(measured, Vec::new(), method) }
}

const TABLE1: &str = "Table 1: the schemes themselves, recorded on synthetic transactions; the measured critical path \
                      is compared with the formula for every x, t and s tried. Numbers are how many were equal.";

pub fn d1(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    Ok(formulas(all, &table1::NON_CONFLICTING, TABLE1))
}

pub fn d2(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let mut finding = formulas(all, &table1::CONFLICTING, TABLE1);
    let drained = formulas(all, &table1::DRAINED, TABLE1);
    // Designs whose commits wait for later barriers meet the formula in the drained setting, where commits come as early as in the ideal graph.
    let is_met = |&(setting, system): &(&str, &str)| {
        let drained = table1::DRAINED.iter().filter(|(_, other)| *other == system);
        std::iter::once(&(setting, system))
            .chain(drained)
            .any(|(setting, system)| table1::is_the_formulas(all, setting, system))
    };
    if finding.verdict == Verdict::Contradicts && table1::CONFLICTING.iter().all(is_met) {
        finding.verdict = Verdict::Short;
    }
    let finding = finding
        .note(
            "Table 1 takes x + 2 from the ideal graph (section 3.3), where a commit comes right behind its data and its \
             predecessor's commit. DCT's commits wait for a barrier of the thread's next transaction, which itself is \
             one of the x: with t threads in turn transaction n commits beside the log entry of transaction n + t. \
             Under epoch persistency that is x + 2 for two threads and x + t for more; under eager sync it is longer \
             still. Beside: three threads and more that commit before their next transaction, as at a quiescent point.",
        )
        .beside("drained after each transaction", drained.measured, Some(drained.verdict));
    Ok(match d2_excluded() {
        Some(why) => finding.inconsistent(why),
        None => finding,
    })
}

/// Returns the reason why D1 excludes D2, if it does: conflicts only add to the order of persists.
fn d2_excluded() -> Option<String> {
    let alone = (100, 1, 1);
    let [apart, together] = [false, true].map(|conflicting| table1::formula("dct-epoch", conflicting, alone));
    (together < apart).then(|| {
        format!(
            "By D1 a thread alone has a path of 2x + 1 under epoch persistency if its transactions do not conflict, {apart} for x = \
             100. Conflicts add to the order of persists and take nothing away, so that it cannot be x + 2, {together}, if they \
             do. With t > 2 threads the commit of transaction x - t waits for PBz in transaction x, whose log entry comes behind \
             those of all before it: x + t."
        )
    })
}

pub fn d3(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    Ok(formulas(
        all,
        &table1::IDEAL,
        "Section 3's dependence graph, equations 1 to 5, for every x up to 200.",
    ))
}

pub fn d13(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let first = table1::strands_from_which_strand_wins(all);
    Ok(Finding::exact(claim, vec![first], TABLE1))
}

pub fn d9(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let necessary = barriers::counts(all);
    let mut finding = Finding::exact(
        claim,
        necessary.to_vec(),
        "Crash exploration over cuts of the persist graph: barriers within a transaction without which a violation was \
         found, none with all of them (strandline-lab check --world persist-order). In the claim's order: SCT epoch, SCT \
         eager sync, DCT epoch, DCT eager sync.",
    );
    finding.orders = barriers::orders(all);
    if finding.orders.iter().any(|order| order.holds == Some(false)) {
        finding.verdict = Verdict::Contradicts;
    }
    Ok(finding)
}

pub fn d14(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let recorded = WORKLOADS.map(|(workload, _)| {
        let setting = curves::setting(workload, MODELS[0].0);
        all.median(Key { figure: FIGURE, setting: &setting, system: "sct", quantity: RECORDED }, curves::ANY)
    });
    let fewest =
        recorded.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().reduce(f64::min));
    let measured = vec![
        Some(curves::THREADS as f64),
        Some(f64::from(curves::STRANDS)),
        fewest,
        Some(LONGEST_US),
        Some(strandline_core::memory::WORD_BYTES as f64),
    ];
    let mut finding = Finding::exact(claim, measured, "The set-up of Fig. 6.");
    if finding.verdict == Verdict::Contradicts {
        // The set-up is the paper's, but the run was shorter.
        finding.verdict = Verdict::Short;
    }
    if session.effort != Effort::Full {
        finding = finding.note("The number of transactions needs the full run, without --quick.");
    }
    Ok(WORKLOADS.iter().zip(recorded).fold(finding, |finding, ((_, name), recorded)| match recorded {
        Some(recorded) => finding.note(format!("{name}: {recorded} transactions were recorded.")),
        None => finding,
    }))
}

fn break_even_us(rates: Rates, all: &Measurements, workload: &str, model: &str) -> Option<f64> {
    let (sct, dct) = rates.both(all, workload, model)?;
    curves::meeting(&sct, &dct).map(|at| at / US)
}

/// Judges a headline by the rates that count, and shows the native ones beside it.
fn by_rates(
    claim: &Claim,
    baseline: Baseline,
    method: &str,
    measured: impl Fn(Rates) -> Vec<Option<f64>>,
) -> Finding {
    let finding = Finding::headline(claim, measured(Rates::JUDGED), baseline, method);
    let native = measured(Rates::Native);
    let verdict = verdict::headline(&native, claim.value.numbers(), baseline);
    finding.beside("native rates", Measured::Numbers(native), Some(verdict))
}

fn break_evens(claim: &Claim, all: &Measurements, index: usize) -> Finding {
    let [workload, indexed] = [WORKLOADS, INDEXED].map(|workloads| workloads[index].0);
    let mut finding = by_rates(claim, Baseline::Zero, METHOD, |rates| {
        MODELS.map(|(model, _)| break_even_us(rates, all, workload, model)).to_vec()
    });
    for (model, name) in MODELS {
        let Some((sct, dct)) = both(all, workload, model) else { continue };
        if curves::meeting(&sct, &dct).is_none() {
            finding.verdict = Verdict::Contradicts;
            finding = finding.note(format!("{name}: SCT is ahead at every latency."));
        } else if break_even(&sct, &dct).is_none() {
            finding = finding.note(format!("{name}: from there on both are as fast as each other."));
        }
    }
    let always = MODELS.iter().filter(|(model, _)| {
        both(all, workload, model).is_some_and(|(sct, dct)| break_even(&sct, &dct) == Some(0.0))
    });
    let grid = MODELS.map(|(model, _)| {
        let (sct, dct) = both(all, workload, model)?;
        on_the_grid(&sct, &dct)
    });
    let on_grid = verdict::headline(&grid, claim.value.numbers(), Baseline::Zero);
    let finding = finding.beside(
        "the first multiple of 0.5 us at which SCT is no longer ahead",
        Measured::Numbers(grid.to_vec()),
        Some(on_grid),
    );
    let of_indexed = MODELS.map(|(model, _)| break_even_us(Rates::JUDGED, all, indexed, model));
    let finding = finding.beside(TREES, Measured::Numbers(of_indexed.to_vec()), None);
    always.fold(finding, |finding, (_, name)| {
        finding
            .note(format!("{name}: DCT is as fast as SCT without any latency, so it is ahead from zero on."))
    })
}

pub fn d4(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let finding = break_evens(claim, all, 0);
    let finding = match d4_excluded(claim) {
        Some(why) => finding.inconsistent(why),
        None => finding,
    };
    let finding = match d4_on_the_grid(claim) {
        Some((from, to)) => finding.note(format!(
            "All of Table 2 are multiples of 0.5 us. As the first points of such a grid at which SCT is no longer ahead they are \
             consistent with Table 1 and D6, where a DCT transaction takes {from:.2} to {to:.2} us of a core: beside, what was \
             measured on that grid."
        )),
        None => finding,
    };
    Ok(steady(finding, all))
}

/// Returns Update Location's curves under each model, SCT first, if a DCT transaction of all threads together takes so many microseconds. Its
/// transactions rarely conflict, so Table 1's paths without conflicts and D6's rates apply.
fn by_table1(microseconds: f64) -> Option<[(Curve, Curve); 3]> {
    let sct_over_dct = *claims().iter().find(|claim| claim.id == "D6")?.value.numbers().first()?;
    let dct_rate = 1.0 / (microseconds * US);
    Some(MODELS.map(|(model, _)| {
        let of = |design: &str, volatile_rate| {
            // With so many transactions the formulas' constants do not matter.
            let many = (12_000_000, curves::THREADS, u64::from(curves::STRANDS));
            let path = table1::formula(&format!("{design}-{model}"), false, many) as f64;
            let epochs_per_transaction = path / many.0 as f64;
            Curve { volatile_rate, epochs_per_transaction, stalls: model == "eager-sync" }
        };
        (of("sct", sct_over_dct * dct_rate), of("dct", dct_rate))
    }))
}

/// Returns the reason why Table 1 and D6 exclude D4's numbers, if they do: the break-even latencies under epoch persistency and eager sync have a
/// fixed ratio, whatever the rate.
fn d4_excluded(claim: &Claim) -> Option<String> {
    let &[epoch, eager, _] = claim.value.numbers() else { return None };
    let [by_epoch, by_eager, _] = by_table1(1.0)?;
    let implied = break_even(&by_eager.0, &by_eager.1)? / break_even(&by_epoch.0, &by_epoch.1)?;
    let ratio = by_epoch.0.volatile_rate / by_epoch.1.volatile_rate;
    let excluded = (eager / epoch - implied).abs() > verdict::TOLERANCE * implied;
    excluded.then(|| {
        format!(
            "By Table 1 a transaction without conflicts has 3/t epochs under SCT, and under DCT 2/t (epoch) and 1/t (eager sync); by \
             D6 SCT is {ratio} times as fast without waiting. Where the curves meet follows: under eager sync at {implied:.2} of the \
             latency under epoch persistency, whatever the rate. D4 has {eager} of {epoch} us. Under strand persistency Table 1 gives \
             both 3/(s t), so that from DCT's knee on they provide the same performance."
        )
    })
}

/// Returns the range of microseconds of a core that a DCT transaction may take for D4's numbers to be, under every model, the first multiples of half
/// a microsecond at which SCT is no longer ahead. Returns `None` if there is no such time.
fn d4_on_the_grid(claim: &Claim) -> Option<(f64, f64)> {
    let of_core = |step: u32| f64::from(step) / 100.0;
    let fits = |step: &u32| {
        let Some(curves) = by_table1(of_core(*step) / curves::THREADS as f64) else { return false };
        let grid = curves.map(|(sct, dct)| on_the_grid(&sct, &dct));
        grid.iter().zip(claim.value.numbers()).all(|(at, number)| *at == Some(*number))
    };
    let mut fitting = (1..=400).filter(fits);
    let first = fitting.next()?;
    Some((of_core(first), of_core(fitting.next_back().unwrap_or(first))))
}

/// Returns the first multiple of half a microsecond within the figure at which SCT is no longer ahead.
fn on_the_grid(sct: &Curve, dct: &Curve) -> Option<f64> {
    let mut grid = (0..).map(|half| f64::from(half) / 2.0).take_while(|&at| at <= LONGEST_US);
    grid.find(|&at| !verdict::above(sct.at(at * US), dct.at(at * US)))
}

pub fn d5(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let finding = break_evens(claim, all, 1);
    let finding = match d5_excluded(claim) {
        Some(why) => finding.inconsistent(why),
        None => finding,
    };
    Ok(steady(finding, all))
}

/// Returns the reason why Table 1 and D8 exclude D5's number under epoch persistency, if they do. The curves meet where SCT's persists take as long
/// as DCT's volatile execution; DCT's knee is where its own persists do.
fn d5_excluded(claim: &Claim) -> Option<String> {
    let epoch = *claim.value.numbers().first()?;
    let many = (12_000_000, curves::THREADS, 1);
    let ratio = |conflicting| {
        let of = |scheme| table1::formula(scheme, conflicting, many) as f64;
        of("dct-epoch") / of("sct-epoch")
    };
    let largest = ratio(false).max(ratio(true));
    let most = largest * D8_KNEE_US;
    (epoch > most * (1.0 + verdict::TOLERANCE)).then(|| {
        let on_grid = ((most / 0.5).floor() + 1.0) * 0.5;
        format!(
            "Under epoch persistency the curves meet at the latency at which SCT's persists take as long as DCT's volatile execution, and \
             DCT's knee is where its own do. So the one over the other is DCT's path over SCT's, by Table 1 at most {largest:.2}: with \
             D8's knee at {D8_KNEE_US} us DCT breaks even at {most:.2} us at the latest, and D5 has {epoch} us. As for D4, the number \
             may be the first point of a grid of 0.5 us at which SCT is no longer ahead, which for the latest is {on_grid} us: \
             beside, what was measured on that grid."
        )
    })
}

/// Judges a finding by critical paths, which holds only if they do not grow with the run.
fn steady(mut finding: Finding, all: &Measurements) -> Finding {
    for (setting, first, rest) in curves::unsteady(all) {
        if finding.verdict == Verdict::Holds {
            finding.verdict = Verdict::Short;
        }
        finding = finding.note(format!(
            "{setting}: {first:.3} epochs per transaction in the first tenth of the run and {rest:.3} in the rest, by more than tenths \
             scatter, so that the path depends on how long the run is."
        ));
    }
    finding
}

pub fn d6(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let ratio = |rates: Rates, workload: &str| {
        let (sct, dct) = rates.both(all, workload, "epoch")?;
        Some(sct.volatile_rate / dct.volatile_rate)
    };
    let method = "Runs where no persist is waited for, on the simulated machine.";
    let finding = by_rates(claim, Baseline::One, method, |rates| {
        WORKLOADS.map(|(workload, _)| ratio(rates, workload)).to_vec()
    });
    let indexed = INDEXED.map(|(workload, _)| ratio(Rates::JUDGED, workload));
    let finding = finding.beside(TREES, Measured::Numbers(indexed.to_vec()), None);
    Ok(if session.natively && session.cores < curves::THREADS {
        finding.note(format!(
            "Native rates: four threads on {} cores, per second of the threads' own processor time.",
            session.cores
        ))
    } else {
        finding
    })
}

pub fn d7(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let largest = |rates: Rates, model: &str| {
        let gains = WORKLOADS.map(|(workload, _)| {
            let (sct, dct) = rates.both(all, workload, model)?;
            Some(largest_ratio(&dct, &sct, LONGEST_US * US).1)
        });
        gains.into_iter().collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)
    };
    let measured = |rates: Rates| {
        let (epoch, strand) = (largest(rates, "epoch"), largest(rates, "strand"));
        vec![epoch.zip(strand).map(|(epoch, strand)| epoch.max(strand)), largest(rates, "eager-sync")]
    };
    let alone = ["epoch", "strand"].map(|model| (model.to_owned(), largest(Rates::JUDGED, model)));
    let finding = by_rates(claim, Baseline::One, METHOD, measured);
    Ok(steady(finding.beside("each model alone", Measured::Named(alone.to_vec()), None), all))
}

/// Compares two curves at those latencies of the figure that `within` accepts. `above` must not be lower than `below` at any of them; if
/// `strictly`, it must be higher by [`verdict::MARGIN`].
fn over(
    above: Option<Curve>,
    below: Option<Curve>,
    strictly: bool,
    within: impl Fn(f64) -> bool,
) -> Option<bool> {
    let (above, below) = (above?, below?);
    Some(curves::latencies_us().filter(|&at| within(at)).all(|at| {
        let (high, low) = (above.at(at * US), below.at(at * US));
        if strictly { verdict::above(high, low) } else { high >= low }
    }))
}

pub fn d8(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let of = |workload: &str, model: &str, design: &str| curve(all, workload, model, design);
    let mut orders = Vec::new();
    for (workload, name) in WORKLOADS {
        let sct = |model| of(workload, model, "sct");
        let dct = |model| of(workload, model, "dct");
        orders.push(order(
            format!("{name}, SCT: strand >= epoch everywhere"),
            over(sct("strand"), sct("epoch"), false, |_| true),
        ));
        orders.push(order(
            format!("{name}, SCT: epoch >= eager sync everywhere"),
            over(sct("epoch"), sct("eager-sync"), false, |_| true),
        ));
        for other in ["epoch", "eager-sync"] {
            orders.push(order(
                format!("{name}, DCT: strand >= {other} everywhere"),
                over(dct("strand"), dct(other), false, |_| true),
            ));
        }
    }
    let (tatp, tpcc) = (WORKLOADS[0].0, WORKLOADS[1].0);
    orders.push(order(
        "Update Location, DCT: eager sync above epoch beyond 1 us",
        over(of(tatp, "eager-sync", "dct"), of(tatp, "epoch", "dct"), true, |at| at > 1.0),
    ));
    let knee = of(tpcc, "epoch", "dct").map(|curve| curve.knee() / US);
    orders.push(order(
        "New Order, DCT: epoch above eager sync from the first latency on",
        over(of(tpcc, "epoch", "dct"), of(tpcc, "eager-sync", "dct"), true, |at| at > 0.0),
    ));
    let finding = Finding::trend(vec![("New Order, DCT, epoch: knee in us".into(), knee)], orders, METHOD);
    let finding =
        finding.note(format!("The paper has New Order's knee at {D8_KNEE_US} us: shown, not judged."));
    Ok(steady(finding, all))
}

pub fn d10(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (workload, name) in WORKLOADS {
        for (model, _) in MODELS {
            for (design, label) in curves::DESIGNS {
                let Some(curve) = curve(all, workload, model, design) else { continue };
                let rates: Vec<f64> = curves::latencies_us().map(|at| curve.at(at * US)).collect();
                let falling = rates.windows(2).all(|pair| verdict::above(pair[0], pair[1]));
                if curve.stalls {
                    orders.push(order(
                        format!("{name}, {label}, {model}: falls from the first latency"),
                        Some(falling),
                    ));
                } else {
                    numbers.push((format!("{name}, {label}, {model}: knee in us"), Some(curve.knee() / US)));
                    orders.push(order(
                        format!("{name}, {label}, {model}: flat, then a knee within 0..4 us"),
                        Some(curve.knee() > 0.0 && curve.knee() < LONGEST_US * US),
                    ));
                }
            }
            let pair = both(all, workload, model);
            let ahead = pair.map(|(sct, dct)| {
                curves::meeting(&sct, &dct)
                    .is_some_and(|at| at > 0.0 && verdict::above(sct.at(at / 2.0), dct.at(at / 2.0)))
            });
            orders.push(order(format!("{name}, {model}: SCT ahead below the break-even latency"), ahead));
            let after = pair.map(|(sct, dct)| {
                curves::meeting(&sct, &dct)
                    .is_some_and(|at| verdict::above(dct.at(2.0 * at + US), sct.at(2.0 * at + US)))
            });
            orders.push(order(format!("{name}, {model}: DCT ahead above it"), after));
        }
    }
    Ok(steady(Finding::trend(numbers, orders, METHOD), all))
}

pub fn d11(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Rates::JUDGED;
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (model, name) in MODELS {
        let [tatp, tpcc] = WORKLOADS.map(|(workload, _)| break_even_us(rates, all, workload, model));
        numbers.push((format!("Update Location, {name}: break-even in us"), tatp));
        numbers.push((format!("New Order, {name}: break-even in us"), tpcc));
        let later = tatp.zip(tpcc).map(|(tatp, tpcc)| verdict::above(tpcc, tatp));
        orders.push(order(format!("{name}: later for New Order"), later));
    }
    for (workload, name) in WORKLOADS {
        let at = |model| break_even_us(rates, all, workload, model);
        let latest = at("strand").zip(at("epoch")).zip(at("eager-sync"));
        orders.push(order(
            format!("{name}: latest under strand"),
            latest.map(|((strand, epoch), eager)| verdict::above(strand, epoch.max(eager))),
        ));
    }
    Ok(steady(Finding::trend(numbers, orders, METHOD), all))
}

pub fn d12(_: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let (mut orders, mut numbers) = (Vec::new(), Vec::new());
    for (workload, name) in WORKLOADS {
        for (design, label) in curves::DESIGNS {
            let strict = curve(all, workload, "strict", design);
            for (model, _) in MODELS {
                orders.push(order(
                    format!("{name}, {label}: strict below {model} from the first latency on"),
                    over(curve(all, workload, model, design), strict, true, |at| at > 0.0),
                ));
            }
            let epoch = curve(all, workload, "epoch", design);
            let longer = strict.zip(epoch).map(|(s, e)| s.epochs_per_transaction / e.epochs_per_transaction);
            numbers.push((format!("{name}, {label}: strict's critical path over epoch's"), longer));
        }
    }
    Ok(steady(Finding::trend(numbers, orders, METHOD), all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Spread;

    fn claim(id: &str) -> &'static Claim {
        claims().iter().find(|claim| claim.id == id).unwrap()
    }

    #[test]
    fn table_1_excludes_x_plus_2() {
        assert!(
            d2_excluded().is_some_and(|why| why.contains("201 for x = 100") && why.contains("x + 2, 102"))
        );
    }

    /// Eager sync's break-even is a quarter of that under epoch persistency, but the column is consistent on a grid of half a microsecond.
    #[test]
    fn update_locations_column_is_consistent_on_the_grid() {
        assert!(d4_excluded(claim("D4")).is_some_and(|why| why.contains("at 0.25 of the latency")));
        let (from, to) = d4_on_the_grid(claim("D4")).unwrap();
        assert!((0.75..0.78).contains(&from) && (1.1..1.16).contains(&to), "{from} to {to}");
    }

    /// The break-even latency is at most two thirds of the knee.
    #[test]
    fn new_orders_break_even_is_excluded_by_its_knee() {
        let why = d5_excluded(claim("D5")).unwrap();
        assert!(
            why.contains("at most 0.67")
                && why.contains("at 1.67 us at the latest")
                && why.contains("is 2 us"),
            "{why}"
        );
    }

    #[test]
    fn equal_paths_meet_at_the_knee() {
        let [_, _, (sct, dct)] = by_table1(0.25).unwrap();
        assert_eq!(break_even(&sct, &dct), None);
        let at = curves::meeting(&sct, &dct).unwrap();
        assert!((at - dct.knee()).abs() < 1e-12);
        let longer = Curve { epochs_per_transaction: 1.05 * dct.epochs_per_transaction, ..dct };
        assert_eq!(curves::meeting(&sct, &longer), None);
    }

    /// A claim does not hold if a run's path grows by more than 2%, and by more than the scatter of its tenths.
    #[test]
    fn a_path_that_grows_is_a_fault() {
        let finding = |whole: f64, deviation: f64| {
            let mut all = Measurements::default();
            let setting = curves::setting(WORKLOADS[0].0, MODELS[0].0);
            let mut add = |quantity, value| {
                let key = Key { figure: FIGURE, setting: &setting, system: "dct", quantity };
                all.add(key, curves::ANY, Spread::exactly(value));
            };
            add(curves::FIRST_EPOCHS, 0.5);
            add(curves::EPOCHS, whole);
            add(curves::DEVIATION, deviation);
            add(RECORDED, curves::COMPARABLE);
            steady(Finding::trend(Vec::new(), vec![order("an order", Some(true))], METHOD), &all)
        };
        assert_eq!(finding(0.505, 0.001).verdict, Verdict::Holds);
        assert_eq!(finding(0.52, 0.008).verdict, Verdict::Holds);
        let growing = finding(0.52, 0.001);
        assert_eq!((growing.verdict, growing.notes.len()), (Verdict::Short, 1));
    }
}
