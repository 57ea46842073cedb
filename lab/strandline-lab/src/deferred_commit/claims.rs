//! How claims D1 to D14 are judged.

use strandline_persistency::throughput::{Curve, break_even, largest_ratio};

use super::curves::{self, FIGURE, INDEXED, LONGEST_US, MODELS, RECORDED, Rates, WORKLOADS, both, curve};
use super::{barriers, table1};
use crate::claim::{Claim, claims};
use crate::error::Error;
use crate::finding::{Finding, Measured, Order};
use crate::measurements::{Key, Measurements};
use crate::session::Session;
use crate::verdict::{self, Baseline, Verdict};

const US: f64 = 1e-6;
const TREES: &str = "on hash tables and B+ trees";
const METHOD: &str = "Fig. 6: volatile rate from the simulated machine, critical path per transaction from recorded executions, \
                      throughput by the paper's method (section 7.1).";

fn order(text: impl Into<String>, holds: Option<bool>) -> Order {
    Order { order: text.into(), holds }
}

/// A claim that measured paths equal formulas.
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
    // Met by each design under each model where commits come as early as the ideal graph has them, and not as it runs.
    let is_met = |&(setting, system): &(&str, &str)| {
        let drained = table1::DRAINED.iter().filter(|(_, other)| *other == system);
        std::iter::once(&(setting, system))
            .chain(drained)
            .any(|(setting, system)| table1::is_the_formulas(all, setting, system))
    };
    if finding.verdict == Verdict::Contradicts && table1::CONFLICTING.iter().all(is_met) {
        finding.verdict = Verdict::Short;
    }
    Ok(finding
        .note(
            "Table 1 takes x + 2 from the ideal graph (section 3.3), where a commit comes right behind its data and its \
             predecessor's commit. DCT's commits wait for a barrier of the thread's next transaction, which itself is \
             one of the x: with t threads in turn transaction n commits beside the log entry of transaction n + t. \
             Under epoch persistency that is x + 2 for two threads and x + t for more; under eager sync it is longer \
             still. Beside: three threads and more that commit before their next transaction, as at a quiescent point.",
        )
        .beside("drained after each transaction", drained.measured, Some(drained.verdict)))
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

pub fn d14(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
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
        // The set-up is the paper's, the run was shorter.
        finding.verdict = Verdict::Short;
    }
    Ok(WORKLOADS.iter().zip(recorded).fold(finding, |finding, ((_, name), recorded)| match recorded {
        Some(recorded) => finding.note(format!("{name}: {recorded} transactions were recorded.")),
        None => finding,
    }))
}

fn break_even_us(rates: Rates, all: &Measurements, workload: &str, model: &str) -> Option<f64> {
    let (sct, dct) = rates.both(all, workload, model)?;
    break_even(&sct, &dct).map(|at| at / US)
}

/// A headline by the rates that it is judged by, and beside it by the native ones.
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
        if both(all, workload, model).is_some_and(|(sct, dct)| break_even(&sct, &dct).is_none()) {
            finding.verdict = Verdict::Contradicts;
            finding = finding.note(format!("{name}: DCT does not overtake SCT at any latency."));
        }
    }
    let always = MODELS.iter().filter(|(model, _)| {
        both(all, workload, model).is_some_and(|(sct, dct)| break_even(&sct, &dct) == Some(0.0))
    });
    let finding = finding.beside(
        "the first multiple of 0.5 us at which DCT is ahead",
        Measured::Numbers(on_the_grid(all, workload)),
        None,
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
    Ok(match d4_excluded(claim) {
        Some(why) => finding.inconsistent(why),
        None => finding,
    })
}

/// Why Table 1 and D6 exclude D4, if they do. Update Location's transactions hardly ever meet: Table 1's paths without conflicts,
/// D6's rates. Then the break-even latencies of the models have a fixed proportion, and under strand persistency there is none.
fn d4_excluded(claim: &Claim) -> Option<String> {
    let sct_over_dct = *claims().iter().find(|claim| claim.id == "D6")?.value.numbers().first()?;
    let &[epoch, eager, strand] = claim.value.numbers() else { return None };
    let threads = curves::THREADS as f64;
    let of = |volatile_rate, epochs, stalls| Curve {
        volatile_rate,
        epochs_per_transaction: epochs / threads,
        stalls,
    };
    // SCT: 3x/t. DCT: 2x/t under epoch persistency, x/t under eager sync, 3x/st as SCT under strand. Any rate will do.
    let at = |dct, stalls| break_even(&of(sct_over_dct, 3.0, stalls), &of(1.0, dct, stalls));
    let implied = at(1.0, true)? / at(2.0, false)?;
    let excluded = (eager / epoch - implied).abs() > verdict::TOLERANCE * implied && at(3.0, false).is_none();
    excluded.then(|| {
        format!(
            "By Table 1 a transaction without conflicts has 3/t epochs under SCT, and under DCT 2/t (epoch) and 1/t (eager sync), t \
             being {threads}; by D6 SCT is {sct_over_dct} times as fast without waiting. Where the curves meet follows: under \
             eager sync at {implied:.2} of the latency under epoch persistency, whatever the rate. D4 has {eager} of {epoch} us. Under \
             strand persistency Table 1 gives both 3/(s t): DCT, slower without waiting, never gets ahead, and D4 has \
             {strand} us. All of Table 2 are multiples of 0.5 us, so that they may be the first points of a grid of 0.5 us at which DCT \
             was ahead: beside, what was measured on such a grid.",
        )
    })
}

/// The first multiple of half a microsecond at which DCT is ahead.
fn on_the_grid(all: &Measurements, workload: &str) -> Vec<Option<f64>> {
    let first = |model: &str| {
        let (sct, dct) = both(all, workload, model)?;
        let grid = (0..).map(|half| f64::from(half) / 2.0).take_while(|&at| at <= LONGEST_US);
        grid.into_iter().find(|&at| dct.at(at * US) > sct.at(at * US))
    };
    MODELS.map(|(model, _)| first(model)).to_vec()
}

pub fn d5(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    Ok(break_evens(claim, all, 1))
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
    Ok(finding.beside("each model alone", Measured::Named(alone.to_vec()), None))
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
        "New Order, DCT: epoch breaks even with volatile execution at 2.5 us (within a tenth)",
        knee.map(|knee| (knee - 2.5).abs() <= 0.25),
    ));
    orders.push(order(
        "New Order, DCT: epoch above eager sync from the first latency on",
        over(of(tpcc, "epoch", "dct"), of(tpcc, "eager-sync", "dct"), true, |at| at > 0.0),
    ));
    Ok(Finding::trend(vec![("New Order, DCT, epoch: knee in us".into(), knee)], orders, METHOD))
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
                break_even(&sct, &dct)
                    .is_some_and(|at| at > 0.0 && verdict::above(sct.at(at / 2.0), dct.at(at / 2.0)))
            });
            orders.push(order(format!("{name}, {model}: SCT ahead below the break-even latency"), ahead));
            let after = pair.map(|(sct, dct)| {
                break_even(&sct, &dct)
                    .is_some_and(|at| verdict::above(dct.at(2.0 * at + US), sct.at(2.0 * at + US)))
            });
            orders.push(order(format!("{name}, {model}: DCT ahead above it"), after));
        }
    }
    Ok(Finding::trend(numbers, orders, METHOD))
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
    Ok(Finding::trend(numbers, orders, METHOD))
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
    Ok(Finding::trend(numbers, orders, METHOD))
}
