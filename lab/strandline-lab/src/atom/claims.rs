//! Judges claims A1 to A16.

use strandline_sim::scheme::atom::{ENTRIES as RECORD_ENTRIES, Parameters, RECORD_LINES};
use strandline_workloads::TpccScale;

use super::figures::{
    ANY, DESIGNS, ENTRIES, LATENCIES, OF_LATENCIES, QUEUE_FULL, SOURCE_LOGGED, THROUGHPUT, TPCC, mean, ratio,
    setting, value,
};
use super::systems::{
    ATOM, ATOM_OPT, ATOM_OPT_2C, BASE, DRAM_CYCLES, NON_ATOMIC, REDO, REDO_2C, SIZES, System, WORKLOADS,
    machine,
};
use crate::claim::{Claim, claims};
use crate::error::Error;
use crate::finding::{Finding, Measured, Order};
use crate::measurements::Measurements;
use crate::session::Session;
use crate::verdict::{self, Baseline, above};

type Judged = Result<Finding, Error>;

const SIMULATED: &str = "Simulated machine atom, 32 threads; mean over the six micro-benchmarks.";
const SMALL: u64 = SIZES[0];
const LARGE: u64 = SIZES[1];

fn order(text: impl Into<String>, holds: Option<bool>) -> Order {
    Order { order: text.into(), holds }
}

fn each(all: &Measurements, bytes: u64, quantity: &str, system: System, over: System) -> Measured {
    Measured::Named(
        WORKLOADS
            .iter()
            .map(|&workload| (workload.to_owned(), ratio(all, (workload, bytes), quantity, system, over)))
            .collect(),
    )
}

/// Judges the ratios of ATOM, ATOM-OPT and NON-ATOMIC to BASE.
fn designs(claim: &Claim, all: &Measurements, bytes: u64) -> Judged {
    let systems = [ATOM, ATOM_OPT, NON_ATOMIC];
    let measured = systems.iter().map(|&system| mean(all, bytes, THROUGHPUT, system, BASE)).collect();
    let finding = Finding::headline(claim, measured, Baseline::One, SIMULATED);
    Ok(systems.iter().fold(finding, |finding, &system| {
        finding.beside(format!("{} over BASE", system.name), each(all, bytes, THROUGHPUT, system, BASE), None)
    }))
}

pub fn a1(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    designs(claim, all, SMALL)
}

pub fn a2(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    designs(claim, all, LARGE)
}

pub fn a3(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |workload| ratio(all, (workload, SMALL), THROUGHPUT, ATOM_OPT, BASE);
    Ok(Finding::headline(claim, ["queue", "rbtree", "sps"].map(of).to_vec(), Baseline::One, SIMULATED))
}

/// Judges reductions over BASE, and a ratio to NON-ATOMIC, by their numbers; their orders are shown.
pub fn a4(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |workload| ratio(all, (workload, SMALL), QUEUE_FULL, ATOM_OPT, BASE);
    let average = mean(all, SMALL, QUEUE_FULL, ATOM_OPT, BASE);
    let large = mean(all, LARGE, QUEUE_FULL, ATOM_OPT, BASE);
    let over_none = mean(all, SMALL, QUEUE_FULL, ATOM_OPT, NON_ATOMIC);
    let higher = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| above(one, other));
    let others: Option<Vec<f64>> = WORKLOADS.into_iter().filter(|other| *other != "sps").map(of).collect();
    let highest = others.map(|others| others.into_iter().fold(0.0, f64::max));
    let orders = vec![
        order("ATOM-OPT has fewer than BASE on average", average.map(|average| above(1.0, average))),
        order("queue is reduced more than the average", higher(average, of("queue"))),
        order("rbtree is reduced more than the average", higher(average, of("rbtree"))),
        order("sps is reduced least", higher(of("sps"), highest)),
        order("4 KB is reduced less than 512 bytes", higher(large, average)),
        order("ATOM-OPT has more than NON-ATOMIC", over_none.map(|over| above(over, 1.0))),
    ];
    let kept = [average, of("queue"), of("rbtree"), of("sps"), large];
    let reduced = kept.map(|kept| kept.map(|kept| 1.0 - kept)).into_iter();
    let measured = reduced.chain([over_none]).collect();
    let baselines = [[Baseline::Zero; 5].as_slice(), &[Baseline::One]].concat();
    let finding = Finding { orders, ..Finding::mixed_headline(claim, measured, &baselines, SIMULATED) };
    Ok(finding.beside("ATOM-OPT over BASE", each(all, SMALL, QUEUE_FULL, ATOM_OPT, BASE), None))
}

fn source_logged(all: &Measurements, workload: &str, bytes: u64) -> Option<f64> {
    value(all, DESIGNS, &setting(workload, bytes), ATOM_OPT, SOURCE_LOGGED, ANY)
}

fn shares(all: &Measurements, bytes: u64) -> Vec<(String, Option<f64>)> {
    WORKLOADS.iter().map(|&workload| (workload.to_owned(), source_logged(all, workload, bytes))).collect()
}

/// Returns the shares, if all are known.
fn all_known(shares: &[Option<f64>]) -> Option<Vec<f64>> {
    shares.iter().copied().collect()
}

pub fn a5(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |workload| source_logged(all, workload, SMALL);
    let known = all_known(&WORKLOADS.map(of));
    let lowest = || {
        let two = of("rbtree")?.max(of("sps")?);
        let others: Option<Vec<f64>> = ["btree", "hash", "queue", "sdg"].into_iter().map(of).collect();
        Some(others?.into_iter().all(|other| above(other, two)))
    };
    let orders = vec![
        order("all below 1%", known.map(|known| known.into_iter().all(|share| share < 1.0))),
        order("rbtree and sps lowest", lowest()),
    ];
    Ok(Finding::trend(shares(all, SMALL), orders, SIMULATED))
}

pub fn a6(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |workload| source_logged(all, workload, LARGE);
    let others = |of_all: &'static str| {
        let others: Vec<&str> = WORKLOADS.iter().copied().filter(|other| *other != of_all).collect();
        others.into_iter().map(of).collect::<Option<Vec<f64>>>()
    };
    let highest = others("queue")
        .zip(of("queue"))
        .map(|(others, queue)| others.iter().all(|&share| above(queue, share)));
    let lowest =
        others("sps").zip(of("sps")).map(|(others, sps)| others.iter().all(|&share| above(share, sps)));
    let no_less = || {
        let pairs: Option<Vec<bool>> = WORKLOADS
            .iter()
            .map(|workload| Some(of(workload)? >= source_logged(all, workload, SMALL)?))
            .collect();
        Some(pairs?.into_iter().all(|holds| holds))
    };
    let orders = vec![
        order("queue highest", highest),
        order("sps lowest", lowest),
        order("none below its share with 512 bytes", no_less()),
    ];
    Ok(Finding::trend(shares(all, LARGE), orders, SIMULATED))
}

pub fn a7(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let measured = vec![
        mean(all, SMALL, THROUGHPUT, REDO, ATOM_OPT),
        mean(all, SMALL, THROUGHPUT, REDO_2C, ATOM_OPT),
        mean(all, SMALL, ENTRIES, REDO, ATOM_OPT),
    ];
    let finding = Finding::headline(claim, measured, Baseline::One, SIMULATED)
        .beside("REDO over ATOM-OPT", each(all, SMALL, THROUGHPUT, REDO, ATOM_OPT), None)
        .beside("REDO-2C over ATOM-OPT-2C", each(all, SMALL, THROUGHPUT, REDO_2C, ATOM_OPT_2C), None)
        .beside("log entries, REDO over ATOM-OPT", each(all, SMALL, ENTRIES, REDO, ATOM_OPT), None);
    Ok(finding.note(
        "An entry of REDO is a store, of ATOM a line. The program's stores here are of 8 bytes, so that a line that is \
         stored whole makes 8 entries of REDO.",
    ))
}

pub fn a8(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let xs: Vec<f64> = all.xs(LATENCIES).into_iter().filter_map(|x| x.parse().ok()).collect();
    let of = |system, x: f64| value(all, LATENCIES, OF_LATENCIES, system, THROUGHPUT, &x.to_string());
    let mut numbers = Vec::new();
    for system in [ATOM_OPT, REDO] {
        for &x in &xs {
            numbers.push((format!("{} at {x} times DRAM's latency, tx/s", system.name), of(system, x)));
        }
    }
    let ahead = |system, than, x| of(system, x).zip(of(than, x)).map(|(own, other)| above(own, other));
    // The time per transaction in the middle, relative to a straight line between the ends.
    let middle = |system| {
        let (first, last) = (*xs.first()?, *xs.last()?);
        let x = *xs.get(xs.len() / 2)?;
        let time = |x| of(system, x).map(|rate| 1.0 / rate);
        let line = time(first)? + (time(last)? - time(first)?) * (x - first) / (last - first);
        Some(time(x)? / line)
    };
    for system in [ATOM_OPT, REDO] {
        numbers.push((
            format!("{}: time per transaction over the straight line's", system.name),
            middle(system),
        ));
    }
    let grows = |system| Some(of(system, *xs.first()?)? / of(system, *xs.last()?)?);
    let orders = vec![
        order("REDO ahead at DRAM's latency", ahead(REDO, ATOM_OPT, 1.0)),
        order("ATOM-OPT ahead at 10 times that", ahead(ATOM_OPT, REDO, 10.0)),
        order(
            "ATOM-OPT within 10% of a straight line",
            middle(ATOM_OPT).map(|over| (over - 1.0).abs() < 0.1),
        ),
        order("REDO slows down more", grows(REDO).zip(grows(ATOM_OPT)).map(|(redo, atom)| above(redo, atom))),
    ];
    Ok(Finding::trend(numbers, orders, "Simulated machine atom; time per transaction is 1 / throughput."))
}

fn tpcc(all: &Measurements, quantity: &str, system: System) -> Option<f64> {
    value(all, TPCC, TPCC, system, quantity, ANY)
}

fn tpcc_over(all: &Measurements, quantity: &str, system: System, over: System) -> Option<f64> {
    let other = tpcc(all, quantity, over).filter(|other| *other != 0.0)?;
    Some(tpcc(all, quantity, system)? / other)
}

pub fn a9(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |system| tpcc_over(all, THROUGHPUT, system, BASE);
    let full = tpcc_over(all, QUEUE_FULL, ATOM_OPT, BASE).map(|ratio| 1.0 - ratio);
    let baselines = [Baseline::One, Baseline::One, Baseline::One, Baseline::Zero];
    let measured = vec![of(ATOM), of(ATOM_OPT), of(REDO), full];
    let finding = Finding::mixed_headline(claim, measured, &baselines, "TPC-C New Order.");
    Ok(finding.beside("NON-ATOMIC over BASE", Measured::Numbers(vec![of(NON_ATOMIC)]), None))
}

pub fn a10(claim: &Claim, _: &Session, _: &Measurements) -> Judged {
    let parameters = Parameters::PAPER;
    let measured = [
        64 * RECORD_LINES,
        RECORD_ENTRIES as u64,
        RECORD_LINES - RECORD_ENTRIES as u64,
        RECORD_LINES,
        2 * RECORD_ENTRIES as u64,
        parameters.register_bytes() as u64,
        parameters.critical_bytes() as u64,
        parameters.structures as u64,
    ];
    let method = "The log manager's own sizes; a test counts the writes.";
    Ok(Finding::exact(claim, measured.map(|number| Some(number as f64)).to_vec(), method))
}

pub fn a11(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let closed = |bytes| {
        let of = |system| mean(all, bytes, THROUGHPUT, system, BASE);
        Some((of(ATOM_OPT)? - 1.0) / (of(NON_ATOMIC)? - 1.0))
    };
    Ok(Finding::headline(claim, vec![closed(SMALL), closed(LARGE)], Baseline::Zero, SIMULATED))
}

pub fn a12(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let ratios: Option<Vec<f64>> = SIZES
        .iter()
        .flat_map(|&bytes| WORKLOADS.iter().map(move |&workload| (workload, bytes)))
        .map(|setting| ratio(all, setting, THROUGHPUT, NON_ATOMIC, BASE))
        .collect();
    let average = ratios.as_ref().map(|all| all.iter().sum::<f64>() / all.len() as f64);
    let largest = ratios.map(|all| all.into_iter().fold(0.0, f64::max));
    Ok(Finding::headline(claim, vec![average, largest], Baseline::One, SIMULATED))
}

pub fn a13(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |workload, bytes| ratio(all, (workload, bytes), THROUGHPUT, ATOM_OPT, ATOM);
    let measured = vec![of("btree", SMALL), of("hash", SMALL), of("queue", LARGE), of("sps", SMALL)];
    let bounds = vec![
        source_logged(all, "btree", SMALL),
        source_logged(all, "hash", SMALL),
        source_logged(all, "queue", LARGE),
        source_logged(all, "sps", SMALL),
    ];
    let bounds = bounds.into_iter().map(|share| share.map(most_gained)).collect();
    let finding = Finding::headline(claim, measured, Baseline::One, SIMULATED)
        .beside("sps, 4 KB", Measured::Numbers(vec![of("sps", LARGE)]), None)
        .beside("at most, by the entries that were source-logged here", Measured::Numbers(bounds), None);
    Ok(match a13_excluded(claim) {
        Some(why) => finding.inconsistent(why),
        None => finding,
    })
}

/// Returns the most that source logging can gain when `percent` of the log entries need not be waited for: time before over time after, for
/// transactions that do nothing but wait for log entries of equal cost.
fn most_gained(percent: f64) -> f64 {
    1.0 / (1.0 - percent / 100.0)
}

/// Returns the reason why A5 and A6 exclude A13, if they do: even the largest possible gains from their shares do not reach its ratios.
fn a13_excluded(claim: &Claim) -> Option<String> {
    let share = |id: &str, workload: usize| {
        let claim = claims().iter().find(|claim| claim.id == id)?;
        claim.value.numbers().get(workload).copied()
    };
    // The order of both is: btree, hash and sps with 512 bytes, queue with 4 KB.
    let shares = [share("A5", 0)?, share("A5", 1)?, share("A6", 2)?, share("A5", 5)?];
    let stated = claim.value.numbers();
    let beyond = stated.iter().zip(shares).any(|(&ratio, share)| ratio > most_gained(2.0 * share));
    let bounds: Vec<String> = shares.iter().map(|&share| format!("{:.4}", most_gained(share))).collect();
    beyond.then(|| {
        format!(
            "Source logging spares the wait for the entries that are source-logged: by A5 and A6 {shares:?} percent of them. Should \
             a transaction do nothing but wait for its entries, each as long, that gains factors of {}; even with waits twice as \
             long A13's {stated:?} are beyond. So A13 is not a consequence of source logging as A5 and A6 count it.",
            bounds.join(", ")
        )
    })
}

/// Judges the text's bound, and the number that it states.
pub fn a14(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let share = tpcc(all, SOURCE_LOGGED, ATOM_OPT);
    let mut orders = vec![order("below 1%", share.map(|share| share < 1.0))];
    orders.extend(claim.value.numbers().iter().map(|&stated| {
        let meets = share.map(|share| verdict::meets(share, stated, Baseline::Zero));
        order(format!("{stated}%, within a tenth"), meets)
    }));
    Ok(Finding::trend(vec![("percent".into(), share)], orders, "TPC-C New Order."))
}

pub fn a15(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |system| tpcc_over(all, THROUGHPUT, system, BASE);
    let micro = |system| mean(all, SMALL, THROUGHPUT, system, BASE);
    let more = |system| of(system).zip(micro(system)).map(|(tpcc, micro)| above(tpcc, micro));
    let numbers = [ATOM, REDO]
        .into_iter()
        .flat_map(|system| {
            [
                (format!("{}, TPC-C over BASE", system.name), of(system)),
                (format!("{}, micro-benchmarks over BASE", system.name), micro(system)),
            ]
        })
        .collect();
    let orders = vec![
        order("ATOM gains more in TPC-C", more(ATOM)),
        order("REDO gains more in TPC-C", more(REDO)),
        order("REDO below ATOM-OPT", of(REDO).zip(of(ATOM_OPT)).map(|(redo, atom)| above(atom, redo))),
    ];
    Ok(Finding::trend(
        numbers,
        orders,
        "TPC-C New Order beside the micro-benchmarks with 512 bytes, if these were run.",
    ))
}

pub fn a16(claim: &Claim, session: &Session, _: &Measurements) -> Judged {
    let machine = machine(session, &[])?;
    let write = machine.cycles(machine.nvm.write_ns);
    let measured = [
        machine.controllers.match_latency as f64,
        write as f64 / DRAM_CYCLES[1] as f64,
        machine.controllers.channels as f64,
        TpccScale::default().warehouses as f64,
        SMALL as f64,
        LARGE as f64,
    ];
    let method = "The machine's description, the workloads' sizes, and the latency that Fig. 8 begins with.";
    Ok(Finding::exact(claim, measured.map(Some).to_vec(), method))
}

#[cfg(test)]
mod tests {
    use super::super::PAPER;
    use super::*;
    use crate::measurements::{Key, Spread};
    use crate::session::Effort;
    use crate::verdict::Verdict;

    fn judged(id: &str, all: &Measurements) -> Finding {
        let claim = PAPER.data().find(|claim| claim.id == id).unwrap();
        (PAPER.claim(id).unwrap().judge)(claim, &Session::for_tests(Effort::Quick), all).unwrap()
    }

    fn shares(of: impl Fn(&str) -> f64) -> Measurements {
        let mut all = Measurements::default();
        for workload in WORKLOADS {
            for bytes in SIZES {
                let setting = setting(workload, bytes);
                let key = Key {
                    figure: DESIGNS,
                    setting: &setting,
                    system: ATOM_OPT.name,
                    quantity: SOURCE_LOGGED,
                };
                all.add(key, ANY, Spread::exactly(of(workload)));
            }
        }
        all
    }

    #[test]
    fn zeros_are_below_any_bound_and_in_no_order() {
        let zeros = shares(|_| 0.0);
        assert_eq!([judged("A5", &zeros).verdict, judged("A6", &zeros).verdict], [Verdict::Short; 2]);
        let some = shares(|workload| match workload {
            "rbtree" => 0.02,
            "sps" => 0.01,
            "queue" => 0.7,
            _ => 0.1,
        });
        assert_eq!([judged("A5", &some).verdict, judged("A6", &some).verdict], [Verdict::Holds; 2]);
    }

    /// Reductions that differ much from the paper's may still be in its orders.
    #[test]
    fn full_cycles_are_judged_by_their_numbers() {
        let cycles = |[average, queue, rbtree, sps, large]: [f64; 5], over_none: f64| {
            let mut all = Measurements::default();
            // The other three workloads complete the average of the six.
            let other = (6.0 * average - queue - rbtree - sps) / 3.0;
            for (workload, bytes) in
                WORKLOADS.iter().flat_map(|workload| SIZES.map(|bytes| (*workload, bytes)))
            {
                let reduced = match workload {
                    _ if bytes == LARGE => large,
                    "queue" => queue,
                    "rbtree" => rbtree,
                    "sps" => sps,
                    _ => other,
                };
                let kept = 100.0 * (1.0 - reduced);
                let setting = setting(workload, bytes);
                for (system, full) in [(BASE, 100.0), (ATOM_OPT, kept), (NON_ATOMIC, kept / over_none)] {
                    let key =
                        Key { figure: DESIGNS, setting: &setting, system: system.name, quantity: QUEUE_FULL };
                    all.add(key, ANY, Spread::exactly(full));
                }
            }
            judged("A4", &all)
        };
        assert_eq!(cycles([0.21, 0.43, 0.35, 0.01, 0.11], 1.1).verdict, Verdict::Holds);
        let orders_alone = cycles([0.85, 0.87, 0.9, 0.72, 0.68], 2.16);
        assert_eq!(orders_alone.verdict, Verdict::Short);
        assert!(orders_alone.orders.iter().all(|order| order.holds == Some(true)), "{orders_alone:?}");
        assert_eq!(cycles([0.21, 0.43, 0.35, 0.01, -0.11], 1.1).verdict, Verdict::Contradicts);
        assert_eq!(judged("A4", &Measurements::default()).verdict, Verdict::NotRun);
    }

    #[test]
    fn a_share_that_is_stated_is_judged_and_not_its_bound_alone() {
        let of = |share: f64| {
            let mut all = Measurements::default();
            let key = Key { figure: TPCC, setting: TPCC, system: ATOM_OPT.name, quantity: SOURCE_LOGGED };
            all.add(key, ANY, Spread::exactly(share));
            judged("A14", &all).verdict
        };
        assert_eq!([of(0.02), of(0.39), of(1.5)], [Verdict::Holds, Verdict::Short, Verdict::Contradicts]);
    }

    #[test]
    fn so_few_entries_cannot_gain_so_much() {
        let mut all = shares(|_| 0.1);
        for workload in WORKLOADS {
            for bytes in SIZES {
                let setting = setting(workload, bytes);
                for system in [ATOM, ATOM_OPT] {
                    let key =
                        Key { figure: DESIGNS, setting: &setting, system: system.name, quantity: THROUGHPUT };
                    all.add(key, ANY, Spread::exactly(1.0));
                }
            }
        }
        let finding = judged("A13", &all);
        assert_eq!(finding.verdict, Verdict::Inconsistent);
        assert!(finding.notes[0].contains("1.0012"), "{:?}", finding.notes);
        assert!(finding.beside.iter().any(|beside| beside.setting == "judged by itself"));
    }
}
