//! Judges claims L1 to L22.

use strandline_sim::Description;
use strandline_sim::scheme::loc::{Parameters, format};
use strandline_structures::SortedShape;

use super::figures::{
    ANY, BLOCKS, DEGREES, FALLBACKS, LATENCIES, NANOSECONDS, NORMALISED, SIZES, SYSTEMS, TRAFFIC, UPDATES,
    WRITTEN, mean, values,
};
use super::systems::{
    ALL, ALL_DEGREES, EC_WAL, H_WAL, KILN, LOC_KILN, LOC_WAL, NONE, S_WAL, System, WORKLOADS, machine,
};
use crate::claim::{Claim, claims};
use crate::error::Error;
use crate::finding::{Finding, Measured, Order};
use crate::measurements::Measurements;
use crate::session::Session;
use crate::verdict::{self, Baseline, above};

type Judged = Result<Finding, Error>;

const SIMULATED: &str = "Simulated machine loc; mean over the workloads.";

fn order(text: impl Into<String>, holds: Option<bool>) -> Order {
    Order { order: text.into(), holds }
}

/// Adds a note about the paper's workloads that are missing.
fn with_missing(finding: Finding) -> Finding {
    let missing = WORKLOADS.iter().filter(|workload| workload.workload().is_none());
    missing.fold(finding, |finding, workload| {
        finding.note(format!(
            "This program was built without {}: the average leaves it out. `cargo run --release -p strandline-lab-cli --features {} -- …` has it.",
            workload.name, workload.key
        ))
    })
}

fn each(all: &Measurements, system: System, quantity: &str) -> Measured {
    let there = WORKLOADS.iter().filter(|workload| workload.workload().is_some());
    let values = values(all, SYSTEMS, system, quantity, ANY);
    Measured::Named(
        there.zip(values).map(|(workload, value)| (workload.name.to_owned(), Some(value))).collect(),
    )
}

fn throughput(claim: &Claim, all: &Measurements, system: System) -> Judged {
    let measured = mean(all, SYSTEMS, system, NORMALISED, ANY);
    let finding = Finding::headline(claim, vec![measured], Baseline::One, SIMULATED);
    Ok(with_missing(finding.beside("each workload", each(all, system, NORMALISED), None)))
}

pub fn l1(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    throughput(claim, all, S_WAL)
}

pub fn l2(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    throughput(claim, all, H_WAL)
}

pub fn l3(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    throughput(claim, all, LOC_WAL)
}

pub fn l4(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    throughput(claim, all, LOC_KILN)
}

/// Judges memory writes as a share of the program's writes, of which the paper's program has more: see [`super::PAPER`].
fn traffic(claim: &Claim, all: &Measurements, system: System) -> Judged {
    let measured = mean(all, SYSTEMS, system, TRAFFIC, ANY);
    let finding = Finding::headline(claim, vec![measured], Baseline::Zero, SIMULATED);
    let over = |base: System| {
        let ratio = |(own, base): (f64, f64)| own / base;
        let own = values(all, SYSTEMS, system, WRITTEN, ANY);
        let ratios: Vec<f64> =
            own.into_iter().zip(values(all, SYSTEMS, base, WRITTEN, ANY)).map(ratio).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        // Nothing is written to memory without transactions if the structures fit the caches.
        let mean = Some(mean).filter(|mean| mean.is_finite() && !ratios.is_empty());
        (format!("bytes written per transaction, over {}", base.name), mean)
    };
    // A line has 64 bytes and a store 8.
    let lines = measured.map(|bytes| bytes / 8.0);
    let by_lines = verdict::headline(&[lines], claim.value.numbers(), Baseline::Zero);
    let finding = finding
        .beside("lines written over stores", Measured::Numbers(vec![lines]), Some(by_lines))
        .beside("each workload", each(all, system, TRAFFIC), None)
        .beside("without counting stores", Measured::Named(vec![over(NONE), over(H_WAL)]), None)
        .note(
            "The program's stores here are those to the pool and to locks; the paper's are all of a compiled program's, \
             with its stack, which memory never sees.",
        );
    Ok(with_missing(finding))
}

pub fn l5(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    traffic(claim, all, S_WAL)
}

pub fn l6(claim: &Claim, session: &Session, all: &Measurements) -> Judged {
    let finding = traffic(claim, all, H_WAL)?;
    Ok(match l6_excluded(claim, &machine(session, &[])?) {
        Some(why) => finding.inconsistent(why),
        None => finding,
    })
}

/// The highest number of stores per instruction counted in programs in plain C (0.08 to 0.21).
const STORES_PER_INSTRUCTION: f64 = 0.21;

/// Returns the reason why L2 excludes L6 as bytes over bytes, if it does: so few lines cannot take so much time on this machine.
fn l6_excluded(claim: &Claim, machine: &Description) -> Option<String> {
    let number = |claim: &Claim| claim.value.numbers().first().copied();
    let (share, throughput) = (number(claim)?, number(claims().iter().find(|claim| claim.id == "L2")?)?);
    // The share of the time without transactions that is lost.
    let lost = 1.0 / throughput - 1.0;
    let instructions_per_line = 64.0 / (8.0 * share * STORES_PER_INSTRUCTION);
    let needed = lost * machine.cores.cycles_per_instruction * instructions_per_line;
    let path: u64 = machine.caches.iter().map(|level| level.latency).sum();
    let written = path + machine.cycles(machine.nvm.write_ns);
    (needed > written as f64).then(|| {
        format!(
            "L2's {throughput} is a loss of {lost:.2} of the time without transactions. If H-WAL wrote {share} bytes to memory for \
             each that the program stores, and the program stored 8 bytes with {STORES_PER_INSTRUCTION} of its instructions \
             (the most of the programs in plain C that were counted), it would write a line each {instructions_per_line:.0} \
             instructions, and each line would have to take {needed:.0} cycles or more. Table 1's machine takes {written} for a \
             line that is written alone. As lines over stores the number is possible."
        )
    })
}

/// Not counted, because the structures' size was chosen by it.
pub fn l7(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let over = mean(all, SYSTEMS, LOC_WAL, TRAFFIC, ANY).zip(mean(all, SYSTEMS, H_WAL, TRAFFIC, ANY));
    let ratio = over.map(|(loc, h)| loc / h);
    Ok(traffic(claim, all, LOC_WAL)?
        .beside(
            "over H-WAL's, for which the structures' size was chosen: 0.17 in the paper",
            Measured::Numbers(vec![ratio]),
            None,
        )
        .calibrated())
}

pub fn l8(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let finding = traffic(claim, all, KILN)?;
    let loc = mean(all, SYSTEMS, LOC_KILN, TRAFFIC, ANY);
    Ok(finding.beside("LOC-Kiln", Measured::Numbers(vec![loc]), None))
}

/// Judges L9. The paper's average is the ratio of the averages: L10's number for degree 1 is L2's times this.
pub fn l9(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |system| mean(all, SYSTEMS, system, NORMALISED, ANY);
    let measured = of(EC_WAL).zip(of(H_WAL)).map(|(ec, h)| ec / h);
    let of = |system| values(all, SYSTEMS, system, NORMALISED, ANY);
    let ratios: Vec<f64> = of(EC_WAL).into_iter().zip(of(H_WAL)).map(|(ec, h)| ec / h).collect();
    let mean_of_ratios = (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64);
    let there = WORKLOADS.iter().filter(|workload| workload.workload().is_some());
    let named =
        there.zip(&ratios).map(|(workload, &ratio)| (workload.name.to_owned(), Some(ratio))).collect();
    let finding = Finding::headline(claim, vec![measured], Baseline::One, SIMULATED)
        .beside("average of the workloads' ratios", Measured::Numbers(vec![mean_of_ratios]), None)
        .beside("each workload", Measured::Named(named), None)
        .note("Of the averages, as in the paper, where 0.331 (L2) times 1.064 is the 0.353 of L10.");
    Ok(with_missing(finding))
}

fn by_degree(all: &Measurements, quantity: &str) -> Vec<(u64, Option<f64>)> {
    let of =
        |(degree, _): (u64, System)| (degree, mean(all, DEGREES, LOC_WAL, quantity, &degree.to_string()));
    ALL_DEGREES.into_iter().map(of).collect()
}

fn named(values: &[(u64, Option<f64>)], what: &str) -> Vec<(String, Option<f64>)> {
    values.iter().map(|&(x, value)| (format!("{what} {x}"), value)).collect()
}

pub fn l10(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let degrees = by_degree(all, NORMALISED);
    let at = |wanted: u64| degrees.iter().find(|(degree, _)| *degree == wanted).and_then(|&(_, value)| value);
    let rises = degrees.windows(2).all(|two| two[0].1 <= two[1].1);
    let finding = Finding::headline(claim, vec![at(1), at(32)], Baseline::One, SIMULATED)
        .beside("each degree", Measured::Named(named(&degrees, "SD")), None)
        .note(if rises { "It rises with every step." } else { "It does not rise with every step." });
    Ok(with_missing(finding))
}

pub fn l11(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let degrees = by_degree(all, TRAFFIC);
    let pair = |from: usize, holds: fn(f64, f64) -> bool| match (degrees[from].1, degrees[from + 1].1) {
        (Some(one), Some(other)) => Some(holds(one, other)),
        _ => None,
    };
    let falls = (0..4).map(|i| {
        let text = format!("falls from {} to {}", degrees[i].0, degrees[i + 1].0);
        order(text, pair(i, above))
    });
    let slightly = order(
        "rises from 16 to 32, by a tenth at most",
        pair(4, |one, other| above(other, one) && other <= one * (1.0 + verdict::TOLERANCE)),
    );
    let orders = falls.chain([slightly]).collect();
    let finding = Finding::trend(named(&degrees, "SD"), orders, SIMULATED);
    let versions =
        "Versions that the last level had no way for are counted by the simulator (version_overflows).";
    Ok(with_missing(finding.note(versions)))
}

pub fn l12(_: &Claim, session: &Session, all: &Measurements) -> Judged {
    let points = session.points(&UPDATES);
    let at = |system: System, updates: u64| mean(all, SIZES, system, NORMALISED, &updates.to_string());
    let mut measured = Vec::new();
    for system in super::figures::OF_SIZES {
        let values: Vec<_> = points.iter().map(|&updates| (updates, at(system, updates))).collect();
        measured.extend(named(&values, system.name));
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    let fallbacks = mean(all, SIZES, KILN, FALLBACKS, &last.to_string());
    let gain = |system: System, updates| Some(at(system, updates)? / at(H_WAL, updates)?);
    let near = |system| at(system, last).map(|value| (value - 1.0).abs() <= verdict::TOLERANCE);
    let compare = |one: Option<f64>, other: Option<f64>| Some(above(one?, other?));
    let orders = vec![
        order(
            "LOC-WAL's gain over H-WAL falls with size",
            compare(gain(LOC_WAL, first), gain(LOC_WAL, last)),
        ),
        order("LOC-WAL at 32 within a tenth of no transactions", near(LOC_WAL)),
        order("LOC-Kiln at 32 within a tenth of no transactions", near(LOC_KILN)),
        order("Kiln's gain over H-WAL falls with size", compare(gain(KILN, first), gain(KILN, last))),
        order("at 32 Kiln gains less than LOC-WAL", compare(gain(LOC_WAL, last), gain(KILN, last))),
        order(
            "at 32 Kiln falls back to a log, with 2% of its transactions or more",
            fallbacks.map(|share| share >= verdict::MARGIN),
        ),
    ];
    measured.push(("Kiln, share of transactions that fall back to a log at 32".into(), fallbacks));
    Ok(Finding::trend(measured, orders, "Simulated machine loc, B+ tree."))
}

pub fn l13(_: &Claim, session: &Session, all: &Measurements) -> Judged {
    let points = session.points(&NANOSECONDS);
    let of = |system: System| -> Vec<(u64, Option<f64>)> {
        let at = |&latency: &u64| (latency, mean(all, LATENCIES, system, NORMALISED, &latency.to_string()));
        points.iter().map(at).collect()
    };
    let (h_wal, loc) = (of(H_WAL), of(LOC_WAL));
    let mut orders = Vec::new();
    for i in 1..points.len() {
        let (from, to) = (points[i - 1], points[i]);
        let compare = |one: Option<f64>, other: Option<f64>| Some(above(other?, one?));
        let gain = |i: usize| Some(loc[i].1? / h_wal[i].1?);
        orders
            .push(order(format!("H-WAL falls from {from} to {to} ns"), compare(h_wal[i].1, h_wal[i - 1].1)));
        orders.push(order(
            format!("LOC-WAL over H-WAL rises from {from} to {to} ns"),
            compare(gain(i - 1), gain(i)),
        ));
    }
    let mut measured = named(&h_wal, H_WAL.name);
    measured.extend(named(&loc, LOC_WAL.name));
    Ok(with_missing(Finding::trend(measured, orders, SIMULATED)))
}

pub fn l14(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let paper = claim.value.numbers();
    let mut values = values(all, SYSTEMS, LOC_WAL, BLOCKS, ANY).into_iter();
    let measured: Vec<Option<f64>> =
        WORKLOADS.iter().map(|workload| workload.workload().and_then(|_| values.next())).collect();
    let known: Vec<(Option<f64>, f64)> =
        measured.iter().copied().zip(paper.iter().copied()).filter(|(value, _)| value.is_some()).collect();
    let (found, wanted): (Vec<_>, Vec<_>) = known.into_iter().unzip();
    let verdict = verdict::headline(&found, &wanted, Baseline::Zero);
    let method = "Blocks that a committed transaction has written, counted by the hardware (loc-wal). The operations in a \
                  transaction, and the length of the array of SPS, were chosen for these numbers alone.";
    let finding = Finding { verdict, ..Finding::headline(claim, measured, Baseline::Zero, method) };
    Ok(with_missing(finding.calibrated()))
}

pub fn l15(claim: &Claim, _: &Session, _: &Measurements) -> Judged {
    let [cid, tid, tx_id, tx_cnt, _] = format::TAG_BITS;
    let (state, phase, writes, dirty) = (2, 2, tx_cnt, 1);
    let upper = tid + tx_id;
    let last = cid + tid + tx_id + dirty;
    let entry = cid + tid + tx_id + tx_cnt + state + phase + writes;
    let table = u64::from(entry) * format::RUNNING / 8;
    let measured = [upper, upper, last, entry].map(|bits| Some(f64::from(bits))).to_vec();
    let finding = Finding::exact(
        claim,
        measured,
        "The widths of the fields that the log format and the tables here have.",
    );
    Ok(finding.note(format!("The Tx State Table of {} entries is {table} bytes.", format::RUNNING)))
}

pub fn l16(claim: &Claim, _: &Session, _: &Measurements) -> Judged {
    let measured = [format::GROUP_LINES, format::GROUP_DATA, format::GROUP_LINES - format::GROUP_DATA];
    let measured = measured.map(|lines| Some(lines as f64)).into_iter();
    let measured = measured.chain([Some(format::BLOCK_BYTES as f64)]).collect();
    let note = "Metadata takes its place in the queue with its data and begins on the medium when the last of it has begun \
                (mutant group-order).";
    Ok(Finding::exact(claim, measured, "The log format of scheme/loc/format.rs.").note(note))
}

pub fn l17(claim: &Claim, _: &Session, all: &Measurements) -> Judged {
    let lowest = |system| values(all, SYSTEMS, system, NORMALISED, ANY).into_iter().reduce(f64::min);
    let strict: Vec<_> = [S_WAL, H_WAL].map(|system| (system.name.to_owned(), lowest(system))).to_vec();
    let least = strict.iter().filter_map(|(_, value)| *value).reduce(f64::min);
    let paper = claim.value.numbers().first().copied().unwrap_or_default();
    let orders = vec![
        order("some workload loses more than half", least.map(|least| above(0.5, least))),
        order(
            "the lowest is a tenth of no transactions, within a tenth of that",
            least.map(|least| verdict::meets(least, paper, Baseline::One)),
        ),
    ];
    Ok(with_missing(Finding::trend(strict, orders, "The lowest of the workloads in Fig. 7.")))
}

pub fn l18(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let of = |system| mean(all, SYSTEMS, system, NORMALISED, ANY);
    let less = |one: System, other: System| {
        let holds = match (of(one), of(other)) {
            (Some(one), Some(other)) => Some(above(other, one)),
            _ => None,
        };
        order(format!("{} < {}", one.name, other.name), holds)
    };
    let orders =
        vec![less(S_WAL, H_WAL), less(H_WAL, LOC_WAL), less(LOC_WAL, LOC_KILN), less(KILN, LOC_KILN)];
    let measured = ALL.map(|system| (system.name.to_owned(), of(system))).to_vec();
    Ok(with_missing(Finding::trend(measured, orders, SIMULATED)))
}

pub fn l19(claim: &Claim, _: &Session, _: &Measurements) -> Judged {
    let measured = [format::RUNNING, format::TX_IDS, format::LARGEST, format::REACH_GB];
    let measured = measured.map(|count| Some(count as f64)).to_vec();
    Ok(Finding::exact(claim, measured, "The widths of the fields of scheme/loc/format.rs, as they are used."))
}

pub fn l20(claim: &Claim, _: &Session, _: &Measurements) -> Judged {
    let degree = Parameters::LOC_WAL.speculation;
    let measured = [format::PAIR_BUFFER_BYTES, format::LOG_BYTES, degree];
    let measured = measured.map(|count| Some(count as f64)).to_vec();
    Ok(Finding::exact(claim, measured, "What the hardware of loc-wal has on the machine loc."))
}

pub fn l21(claim: &Claim, _: &Session, _: &Measurements) -> Judged {
    let SortedShape { bytes, keys, value_bytes, .. } = SortedShape::LOOSE_ORDERING;
    let measured = [bytes, keys, SortedShape::KEY_BYTES, value_bytes];
    let measured = measured.map(|number| Some(number as f64)).to_vec();
    let finding = Finding::exact(claim, measured, "The B+ tree's nodes as the workload uses them.");
    Ok(finding.note(
        "SQLite is the one that rusqlite bundles, not 3.7.17; its pages are of 1 KB, as that version's.",
    ))
}

pub fn l22(_: &Claim, _: &Session, all: &Measurements) -> Judged {
    let one = mean(all, DEGREES, LOC_WAL, NORMALISED, "1");
    let eager = mean(all, SYSTEMS, EC_WAL, NORMALISED, ANY).or(one);
    let equal = match (one, eager) {
        (Some(one), Some(eager)) => Some((one / eager - 1.0).abs() <= verdict::TOLERANCE),
        _ => None,
    };
    let measured = vec![("LOC-WAL, SD 1".into(), one), ("EC-WAL".into(), eager)];
    let orders = vec![order("equal within a tenth", equal)];
    let note = "Here EC-WAL is LOC-WAL with windows of one transaction, by construction.";
    Ok(Finding::trend(measured, orders, SIMULATED).note(note))
}

#[cfg(test)]
mod tests {
    use super::super::PAPER;
    use super::*;
    use crate::measurements::{Key, Spread};
    use crate::session::Effort;
    use crate::verdict::Verdict;

    fn add(
        into: &mut Measurements,
        figure: &str,
        workload: &str,
        system: System,
        quantity: &str,
        x: &str,
        value: f64,
    ) {
        into.add(Key { figure, setting: workload, system: system.key, quantity }, x, Spread::exactly(value));
    }

    fn judged(id: &str, all: &Measurements) -> Finding {
        let claim = PAPER.data().find(|claim| claim.id == id).unwrap();
        (PAPER.claim(id).unwrap().judge)(claim, &Session::for_tests(Effort::Quick), all).unwrap()
    }

    #[test]
    fn the_b_plus_tree_has_the_papers_nodes() {
        assert_eq!(judged("L21", &Measurements::default()).verdict, Verdict::Holds);
        assert_eq!(WORKLOADS[0].key, strandline_workloads::BPLUSTREE_SORTED.name);
    }

    /// The numbers of operations are those that Table 2 requires.
    #[test]
    fn shifted_nodes_and_whole_pages_are_as_many_blocks_as_in_table_2() {
        let session = Session::for_tests(Effort::Quick);
        let machine = machine(&session, &[]).unwrap();
        for (workload, blocks) in [(WORKLOADS[0], 89.6), (WORKLOADS[5], 309.34)] {
            let Some(ready) = workload.prepare(&session, Default::default()).unwrap() else { continue };
            let counted = ready.run(&machine, LOC_WAL).unwrap().blocks.unwrap();
            assert!((counted / blocks - 1.0).abs() < verdict::TOLERANCE, "{}: {counted}", workload.name);
        }
    }

    #[test]
    fn one_workload_does_not_decide_eager_commits_gain() {
        let mut all = Measurements::default();
        for (workload, h_wal, ec_wal) in [("B+ Tree", 0.9, 0.9), ("Hash", 0.9, 0.9), ("SPS", 0.1, 0.2)] {
            add(&mut all, SYSTEMS, workload, H_WAL, NORMALISED, ANY, h_wal);
            add(&mut all, SYSTEMS, workload, EC_WAL, NORMALISED, ANY, ec_wal);
        }
        let Measured::Numbers(measured) = judged("L9", &all).measured else { panic!("numbers") };
        assert!((measured[0].unwrap() - 2.0 / 1.9).abs() < 1e-9, "{measured:?}");
    }

    /// Without transactions, structures that fit the caches write nothing to memory.
    #[test]
    fn a_ratio_to_nothing_is_no_number() {
        let mut all = Measurements::default();
        for (system, bytes) in [(NONE, 0.0), (H_WAL, 50.0), (S_WAL, 100.0)] {
            add(&mut all, SYSTEMS, "SPS", system, WRITTEN, ANY, bytes);
        }
        let beside = judged("L5", &all).beside;
        let ratios = beside.into_iter().find(|beside| beside.setting == "without counting stores").unwrap();
        let Measured::Named(ratios) = ratios.measured else { panic!("names") };
        assert_eq!(ratios.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>(), [None, Some(2.0)]);
    }

    #[test]
    fn orders_by_less_than_the_margin_are_none() {
        let compared = |kiln: f64, fallbacks: f64| {
            let mut all = Measurements::default();
            for updates in session_points() {
                let x = updates.to_string();
                let small = updates == UPDATES[0];
                for (system, value) in [
                    (H_WAL, if small { 0.5 } else { 0.9 }),
                    (LOC_WAL, if small { 0.9 } else { 0.99497 }),
                    (LOC_KILN, 0.99),
                    (KILN, if small { 0.9 } else { kiln }),
                ] {
                    add(&mut all, SIZES, "B+ Tree", system, NORMALISED, &x, value);
                }
                add(&mut all, SIZES, "B+ Tree", KILN, FALLBACKS, &x, if small { 0.0 } else { fallbacks });
            }
            judged("L12", &all).verdict
        };
        assert_eq!(compared(0.99475, 0.5), Verdict::Short);
        assert_eq!(compared(0.96, 0.5), Verdict::Holds);
        assert_eq!(compared(0.96, 0.0), Verdict::Short, "Kiln never falls back");
    }

    fn session_points() -> Vec<u64> {
        Session::for_tests(Effort::Quick).points(&UPDATES)
    }

    #[test]
    fn strict_ordering_costs_a_factor_of_ten_and_not_of_52() {
        let lowest = |value| {
            let mut all = Measurements::default();
            add(&mut all, SYSTEMS, "SPS", S_WAL, NORMALISED, ANY, value);
            judged("L17", &all).verdict
        };
        assert_eq!(
            [lowest(0.095), lowest(0.019), lowest(0.3), lowest(0.6)],
            [Verdict::Holds, Verdict::Short, Verdict::Short, Verdict::Contradicts]
        );
    }

    #[test]
    fn memory_writes_of_h_wal_are_inconsistent_with_its_throughput() {
        let mut all = Measurements::default();
        add(&mut all, SYSTEMS, "SPS", H_WAL, TRAFFIC, ANY, 1.6);
        let finding = judged("L6", &all);
        assert_eq!(finding.verdict, Verdict::Inconsistent);
        let would_be = |setting: &str| {
            finding.beside.iter().find(|beside| beside.setting == setting).and_then(|beside| beside.verdict)
        };
        // 1.6 bytes for a byte are 0.2 lines for a store.
        assert_eq!(would_be("judged by itself"), Some(Verdict::Short));
        assert_eq!(would_be("lines written over stores"), Some(Verdict::Holds));
        // On a machine on which lines take that long, nothing is excluded.
        let claim = PAPER.data().find(|claim| claim.id == "L6").unwrap();
        let mut slow = machine(&Session::for_tests(Effort::Quick), &[]).unwrap();
        slow.nvm.write_ns = 1000.0;
        assert_eq!(l6_excluded(claim, &slow), None);
    }
}
