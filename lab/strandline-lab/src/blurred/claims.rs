//! Judges claims B1 to B20 by the figures' measurements.

use strandline_workloads::{BLURRED, WorkloadKind};

use super::systems::label;
use super::throughputs::{
    Throughputs, bulk_note, constant, determination, falling, fig7_note, headline, known, order, rising,
    trend, weaker,
};
use super::{figures, recovery};
use crate::cells::ABORTS;
use crate::claim::Claim;
use crate::error::Error;
use crate::finding::{Finding, Measured};
use crate::measurements::{Key, Measurements};
use crate::session::Session;
use crate::verdict::{self, Baseline};

const FIG7: &str = "Fig. 7: medians of the interleaved repetitions, divided for each workload.";

pub fn b1(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let finding =
        headline(claim, rates, Baseline::One, FIG7, |rates| rates.range("bppm", "base")[..2].to_vec());
    Ok(fig7_note(finding, rates, &["bppm"]))
}

pub fn b2(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let finding = headline(claim, rates, Baseline::One, FIG7, |rates| vec![rates.mean("bppm", "base")]);
    Ok(fig7_note(finding, rates, &["bppm"]))
}

pub fn b3(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let method =
        "Fig. 7: medians divided for each workload, then the mean. MNE truncates synchronously (mne-sync).";
    let rates = Throughputs::judged(claim, all);
    let finding = headline(claim, rates, Baseline::One, method, |rates| vec![rates.mean("bppm", "mne-sync")]);
    Ok(fig7_note(finding, rates, &["bppm"]))
}

pub fn b4(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    Ok(headline(claim, rates, Baseline::One, FIG7, |rates| vec![rates.mean("base", "np")]))
}

pub fn b5(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    Ok(headline(claim, rates, Baseline::One, FIG7, |rates| rates.range("xil", "base").to_vec()))
}

pub fn b6(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let finding = headline(claim, rates, Baseline::One, FIG7, |rates| rates.range("vcbp", "base").to_vec());
    Ok(fig7_note(finding, rates, &["vcbp"]))
}

pub fn b18(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let method = "Fig. 7: (B2 - 1) / (1 / B4 - 1) of the measured averages, as the paper's B2 and B4 give 0.527: BASE \
                  over NP is averaged as in B4.";
    let rates = Throughputs::judged(claim, all);
    let finding = headline(claim, rates, Baseline::Zero, method, |rates| {
        let share = |gain: f64, base_over_np: f64| (gain - 1.0) / (base_over_np.recip() - 1.0);
        vec![rates.mean("bppm", "base").zip(rates.mean("base", "np")).map(|(gain, left)| share(gain, left))]
    });
    Ok(fig7_note(finding, rates, &["bppm"]))
}

pub fn b19(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let orders = |rates: Throughputs| {
        let above = |workload: WorkloadKind| {
            let holds = rates.ratio("vcbp", "xil", workload.name).map(|ratio| verdict::above(ratio, 1.0));
            order(format!("{}: BP(VCBP) > BP(XIL)", workload.name), holds)
        };
        let mut orders: Vec<_> = BLURRED.into_iter().map(above).collect();
        for (upper, lower) in [("np", "bppm"), ("bppm", "vcbp"), ("vcbp", "xil"), ("xil", "base")] {
            let pair = rates.mean(upper, "base").zip(rates.mean(lower, "base"));
            let text = format!("on average {} > {}", label(upper), label(lower));
            orders.push(order(text, pair.map(|(upper, lower)| verdict::above(upper, lower))));
        }
        orders
    };
    let means = |rates: Throughputs| {
        let systems = ["np", "bppm", "vcbp", "xil", "mne-sync"];
        systems.map(|system| (format!("mean {} / BASE", label(system)), rates.mean(system, "base"))).to_vec()
    };
    let finding = trend(Throughputs::judged(claim, all), FIG7, means, orders);
    Ok(fig7_note(finding, Throughputs::judged(claim, all), &["vcbp", "bppm"]))
}

pub fn b7(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    const SYSTEMS: [&str; 4] = ["base", "mne-sync", "bppm", "np"];
    const WORKLOADS: [&str; 2] = ["hash", "rbtree"];
    let each = || WORKLOADS.into_iter().flat_map(|workload| SYSTEMS.map(|system| (workload, system)));
    let orders = |rates: Throughputs| {
        let both = |(workload, system): (&str, &str)| {
            let over = |xs: &[&str]| known(xs.iter().map(|x| rates.of(Some(workload), system, x)));
            let name = format!("{workload}, {}", label(system));
            let rises = over(&["1", "2", "4"]).map(|v| rising(&v));
            let falls = over(&["4", "8"]).map(|v| falling(&v));
            [
                order(format!("{name}: rises to 4 threads"), rises),
                order(format!("{name}: falls at 8 threads"), falls),
            ]
        };
        each().flat_map(both).collect()
    };
    let aborts = |rates: Throughputs| {
        let at = |(workload, x): (&str, &str)| {
            let aborts = rates.quantity(Some(workload), "bppm", ABORTS, x);
            (format!("{workload}, BPPM: abort ratio at {x} threads"), aborts)
        };
        WORKLOADS.into_iter().flat_map(|workload| ["4", "8"].map(|x| at((workload, x)))).collect()
    };
    let method = "Fig. 8: orders of the medians; the abort ratios are shown.";
    Ok(trend(Throughputs::judged(claim, all), method, aborts, orders))
}

pub fn b8(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    // For each workload and each measured number of threads the measured number and the paper's.
    let measured = |rates: Throughputs| -> Vec<(String, Option<f64>, f64)> {
        let of = |(workload, paper): (&str, f64), threads: u64| {
            let x = threads.to_string();
            let share = rates.regained(Some(workload), "bppm", &x)?;
            let name = format!("{workload}, {x} {}", if threads == 1 { "thread" } else { "threads" });
            Some((name, Some(share), paper))
        };
        let papers = ["hash", "rbtree"].into_iter().zip(claim.value.numbers().iter().copied());
        papers
            .flat_map(|each| figures::THREADS.into_iter().filter_map(move |threads| of(each, threads)))
            .collect()
    };
    let judge = |measured: &[(String, Option<f64>, f64)]| {
        let values: Vec<_> = measured.iter().map(|(_, value, _)| *value).collect();
        let expected: Vec<_> = measured.iter().map(|(.., paper)| *paper).collect();
        verdict::headline(&values, &expected, Baseline::Zero)
    };
    let named =
        |measured: Vec<(String, Option<f64>, f64)>| measured.into_iter().map(|(n, v, _)| (n, v)).collect();
    let here = measured(rates);
    let verdict = judge(&here);
    let complete = here.len() == 2 * figures::THREADS.len();
    let method = "Fig. 8: (BPPM - BASE) / (NP - BASE) of the medians at each number of threads.";
    let mut finding = Finding { verdict, ..Finding::trend(named(here), Vec::new(), method) }.note(
        "The paper has one number for all numbers of threads. At eight threads most attempts abort (B7), NP's too, and what BPPM regains is \
         a share of what is left.",
    );
    if !complete {
        finding = finding.note("Judged at the numbers of threads that were run.");
    }
    Ok(rates.others().fold(finding, |finding, other| {
        let numbers = measured(other);
        let verdict = judge(&numbers);
        finding.beside(other.name(), Measured::Named(named(numbers)), Some(verdict))
    }))
}

pub fn b9(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let xs = all.xs("fig9");
    let method = "Fig. 9: (BPPM - BASE) / (NP - BASE) of the medians, at values of 8 and of 4096 bytes. The orders are \
                  shown, the numbers judged.";
    let mut finding = headline(claim, rates, Baseline::Zero, method, |rates| {
        ["8", "4096"].map(|x| rates.regained(None, "bppm", x)).to_vec()
    });
    let shares = known(xs.iter().map(|x| rates.regained(None, "bppm", x)));
    let per_second = known(xs.iter().map(|x| rates.of(None, "bppm", x)));
    let bytes = known(xs.iter().map(|x| Some(rates.of(None, "bppm", x)? * x.parse::<f64>().ok()?)));
    finding.orders = vec![
        order("the overhead removed falls with the value size", shares.map(|v| falling(&v))),
        order("BPPM: transactions per second fall", per_second.map(|v| falling(&v))),
        order("BPPM: bytes per second rise", bytes.map(|v| rising(&v))),
    ];
    Ok(weaker(finding, session))
}

pub fn b10(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let xs = all.xs("fig10");
    let rate =
        |rates: Throughputs, system: &str, x: &str| Some(rates.of(None, system, x)? * x.parse::<f64>().ok()?);
    let orders = |rates: Throughputs| {
        let values = |system: &str| known(xs.iter().map(|x| rate(rates, system, x)));
        let rises = |system| order(format!("{} rises", label(system)), values(system).map(|v| rising(&v)));
        let flat = values("np").map(|v| constant(&v));
        let mut orders = vec![order("NP stays constant (within 10% of its mean)", flat)];
        orders.extend(["base", "mne-sync", "bppm"].map(rises));
        orders
    };
    let growth = |rates: Throughputs| {
        let grown = |system: &str| Some(rate(rates, system, xs.last()?)? / rate(rates, system, xs.first()?)?);
        ["np", "base", "mne-sync", "bppm"]
            .map(|system| (format!("{}: last / first", label(system)), grown(system)))
            .to_vec()
    };
    let method =
        "Fig. 10: operations per second (transactions per second times operations in each), medians.";
    Ok(weaker(trend(Throughputs::judged(claim, all), method, growth, orders), session))
}

pub fn b11(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let xs = all.xs("fig11");
    let over =
        |rates: Throughputs, workload: &str| known(xs.iter().map(|x| rates.of(Some(workload), "bppm", x)));
    let growth = |rates: Throughputs, workload: &str| over(rates, workload).map(|v| v[v.len() - 1] / v[0]);
    let names = BLURRED.map(|workload| workload.name);
    let orders = |rates: Throughputs| {
        let both = |workload: &str| {
            let little = over(rates, workload).as_deref().map(constant);
            let higher = growth(rates, workload).map(|growth| verdict::above(growth, 1.0));
            [
                order(format!("{workload}: little change (within 10% of its mean)"), little),
                order(format!("{workload}: higher with the largest log"), higher),
            ]
        };
        names.into_iter().flat_map(both).collect()
    };
    let numbers = |rates: Throughputs| {
        let of = |workload: &str| (format!("{workload}: largest log / smallest"), growth(rates, workload));
        names.map(of).to_vec()
    };
    let method = "Fig. 11: medians of BPPM over the log size.";
    Ok(weaker(trend(Throughputs::judged(claim, all), method, numbers, orders), session))
}

pub fn b12(_: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let sizes: Vec<_> = all
        .xs("fig12")
        .into_iter()
        .filter_map(|x| Some((x, figures::LOGS.iter().find(|(_, name)| *name == x)?.0 as f64)))
        .collect();
    let at = |instruction: &str, x: &str| {
        let key = Key {
            figure: "fig12",
            setting: instruction,
            system: recovery::TOTAL,
            quantity: recovery::MILLISECONDS,
        };
        all.median(key, x)
    };
    let numbers = |instruction: &str| {
        let ends = sizes.first().zip(sizes.last());
        let ends = ends.map(|((small, _), (large, _))| (at(instruction, small), at(instruction, large)));
        let (small, large) = ends.unwrap_or_default();
        vec![
            ("smallest log, ms".to_owned(), small),
            ("largest log, ms".to_owned(), large),
            ("growth".to_owned(), large.zip(small).map(|(large, small)| large / small)),
        ]
    };
    let times = known(sizes.iter().map(|(x, _)| at("clflush", x)));
    let bytes: Vec<_> = sizes.iter().map(|(_, bytes)| *bytes).collect();
    let fit = times.as_deref().map(|times| determination(&bytes, times));
    let mut measured = numbers("clflush");
    measured.push(("linear fit, R2".into(), fit));
    let orders = vec![
        order("recovery takes longer with each larger log", times.as_deref().map(rising)),
        order("almost linearly: a straight line explains 95% of the variance", fit.map(|fit| fit >= 0.95)),
    ];
    let mut finding = Finding::trend(
        measured,
        orders,
        "Fig. 12: medians of the four steps of recovery together, logs 95% full. Growth and linearity are judged.",
    );
    for instruction in all.settings("fig12").into_iter().filter(|&instruction| instruction != "clflush") {
        finding = finding.beside(instruction, Measured::Named(numbers(instruction)), None);
    }
    Ok(weaker(finding, session))
}

/// The reason why the search for BP(VCBP) above BPPM is closed.
const CLOSED: &str = "Closed. The paper explains BP(VCBP) above BPPM by uncommitted log lines that bulk persistence writes back. But the latency is \
                      not added to evictions (V-C4), and a wbinvd finds the lines of one uncommitted transaction at most, among the thousands that \
                      fill a log. With B6 and five times BASE, BASE would flush about 14 times in a transaction on hash, and BPPM, by B13 and \
                      B14, about four times: twice as often as BP(VCBP), whose technique it contains. The text does not say by what program.";

const FIG13: &str = "Fig. 13: medians of the interleaved repetitions.";

pub fn b13(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let finding =
        headline(claim, rates, Baseline::One, FIG13, |rates| vec![rates.ratio("bppm", "base", "35")]);
    Ok(bulk_note(finding, rates, &["bppm"], &["35"], 35.0))
}

pub fn b14(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let finding =
        headline(claim, rates, Baseline::One, FIG13, |rates| vec![rates.ratio("bppm", "base", "2000")]);
    Ok(bulk_note(finding, rates, &["bppm"], &["2000"], 2000.0))
}

pub fn b15(claim: &Claim, _: &Session, all: &Measurements) -> Result<Finding, Error> {
    let rates = Throughputs::judged(claim, all);
    let mut finding =
        headline(claim, rates, Baseline::One, FIG13, |rates| vec![rates.ratio("vcbp", "base", "2000")]);
    let above = rates.ratio("vcbp", "bppm", "2000").map(|ratio| verdict::above(ratio, 1.0));
    finding.orders = vec![order("BP(VCBP) > BPPM at 2000 ns", above)];
    let finding = finding.note(CLOSED);
    Ok(bulk_note(finding, rates, &["vcbp", "bppm"], &["2000"], 2000.0))
}

pub fn b20(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let xs = all.xs("fig13");
    let gains = |rates: Throughputs| (rates.ratio("bppm", "base", "35"), rates.ratio("bppm", "base", "2000"));
    let orders = |rates: Throughputs| {
        let values = |system: &str| known(xs.iter().map(|x| rates.of(None, system, x)));
        let falls = |system| {
            order(format!("{} falls with the latency", label(system)), values(system).map(|v| falling(&v)))
        };
        let mut orders = ["base", "mne-sync", "xil", "vcbp", "bppm"].map(falls).to_vec();
        let constant = values("np").map(|v| constant(&v));
        orders.push(order("NP hardly changes (within 10% of its mean)", constant));
        let (low, high) = gains(rates);
        let rises = low.zip(high).map(|(low, high)| verdict::above(high, low));
        orders.push(order("BPPM / BASE is higher at 2000 ns than at 35", rises));
        let below = rates.ratio("bppm", "vcbp", "2000").map(|ratio| verdict::above(1.0, ratio));
        orders.push(order("BPPM < BP(VCBP) at 2000 ns", below));
        orders
    };
    let numbers = |rates: Throughputs| {
        let (low, high) = gains(rates);
        vec![
            ("BPPM / BASE at 35 ns".to_owned(), low),
            ("BPPM / BASE at 2000 ns".to_owned(), high),
            ("BP(VCBP) / BPPM at 2000 ns".to_owned(), rates.ratio("vcbp", "bppm", "2000")),
        ]
    };
    Ok(weaker(trend(Throughputs::judged(claim, all), FIG13, numbers, orders), session).note(CLOSED))
}

pub fn b16(claim: &Claim, session: &Session, all: &Measurements) -> Result<Finding, Error> {
    let xs = all.xs("fig14");
    let orders = |rates: Throughputs| {
        let rises = |system| {
            let values = known(xs.iter().map(|x| rates.of(None, system, x)));
            order(format!("{} rises as idle time falls", named(system)), values.map(|v| rising(&v)))
        };
        let mut orders = ["np", "base", "mne-sync", "mne-async", "bppm"].map(rises).to_vec();
        let below = rates.ratio("mne-async", "mne-sync", "0").map(|ratio| verdict::above(1.0, ratio));
        orders.push(order("MNE-ASYNC < MNE-SYNC without idle time", below));
        for other in ["mne-sync", "mne-async"] {
            let ratios: Option<Vec<_>> = xs.iter().map(|x| rates.ratio("bppm", other, x)).collect();
            let above = ratios
                .filter(|all| !all.is_empty())
                .map(|all| all.iter().all(|&ratio| verdict::above(ratio, 1.0)));
            orders.push(order(format!("BPPM > {} at every idle time", named(other)), above));
        }
        orders
    };
    let numbers = |rates: Throughputs| {
        vec![
            ("BPPM / MNE-SYNC without idle time".to_owned(), rates.ratio("bppm", "mne-sync", "0")),
            ("MNE-ASYNC / MNE-SYNC without idle time".to_owned(), rates.ratio("mne-async", "mne-sync", "0")),
            ("MNE-ASYNC / MNE-SYNC at 90% idle time".to_owned(), rates.ratio("mne-async", "mne-sync", "90")),
        ]
    };
    let method = "Fig. 14: medians over the share of idle time.";
    let finding = weaker(trend(Throughputs::judged(claim, all), method, numbers, orders), session);
    Ok(finding
        .note(
            "The paper's machine has four cores, on which the helper would have one of its own and MNE-ASYNC be ahead. One core, \
             which it shares, was chosen because the claim says that it competes.",
        )
        .calibrated())
}

/// Returns the paper's name; only Fig. 14 distinguishes the two MNEs.
fn named(system: &str) -> &'static str {
    if system == "mne-sync" { "MNE-SYNC" } else { label(system) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{BY_LINE, SIMULATED, THROUGHPUT};
    use crate::measurements::Spread;
    use crate::session::Effort;
    use crate::verdict::Verdict;

    /// Creates a Fig. 7 in which every system's throughput is this factor on every workload.
    fn fig7(factors: &[(&str, f64)]) -> Measurements {
        let mut all = Measurements::default();
        for &(system, factor) in factors {
            for (at, workload) in BLURRED.into_iter().enumerate() {
                let key = Key { figure: "fig7", setting: SIMULATED, system, quantity: THROUGHPUT };
                all.add(key, workload.name, Spread::exactly(factor * (at + 1) as f64));
            }
        }
        all
    }

    fn judge(id: &str, all: &Measurements) -> Finding {
        let session = Session::for_tests(Effort::Full);
        let claim = super::super::PAPER.data().find(|claim| claim.id == id).unwrap();
        (super::super::PAPER.claim(id).unwrap().judge)(claim, &session, all).unwrap()
    }

    #[test]
    fn ratios_follow_from_the_measurements() {
        let all = fig7(&[("base", 100.0), ("bppm", 186.3), ("np", 264.0), ("xil", 90.0), ("vcbp", 163.0)]);
        let finding = judge("B2", &all);
        assert_eq!(finding.verdict, Verdict::Holds);
        assert!(matches!(finding.measured, Measured::Numbers(n) if (n[0].unwrap() - 1.863).abs() < 1e-9));
        assert_eq!(judge("B4", &all).verdict, Verdict::Holds);
        assert_eq!(judge("B18", &all).verdict, Verdict::Holds, "0.863 / 1.64 = 0.526");
        assert_eq!(judge("B5", &all).verdict, Verdict::Contradicts, "XIL below BASE");
        assert_eq!(judge("B1", &all).verdict, Verdict::Short, "no spread over the workloads");
        assert_eq!(judge("B3", &all).verdict, Verdict::NotRun, "no MNE");
        let orders = judge("B19", &all);
        assert_eq!(orders.verdict, Verdict::Short);
        let broken: Vec<_> = orders.orders.iter().filter(|order| order.holds != Some(true)).collect();
        assert!(matches!(broken[..], [order] if order.order.contains("BP(XIL) > BASE")), "{broken:?}");
    }

    /// NP is twice BASE on four workloads and ten times on one. The mean of NP / BASE (3.6) is not the reciprocal of B4's mean of BASE / NP (0.42).
    #[test]
    fn the_share_regained_follows_from_the_averages_of_b2_and_b4() {
        let mut all = fig7(&[("base", 100.0), ("bppm", 150.0)]);
        for (at, workload) in BLURRED.into_iter().enumerate() {
            let key = Key { figure: "fig7", setting: SIMULATED, system: "np", quantity: THROUGHPUT };
            let factor = if at == 0 { 1000.0 } else { 200.0 };
            all.add(key, workload.name, Spread::exactly(factor * (at + 1) as f64));
        }
        let number = |id: &str| match judge(id, &all).measured {
            Measured::Numbers(numbers) => numbers[0].unwrap(),
            Measured::Named(_) => unreachable!("{id} is a headline"),
        };
        assert!((number("B4") - 0.42).abs() < 1e-9);
        assert!((number("B18") - (number("B2") - 1.0) / (1.0 / number("B4") - 1.0)).abs() < 1e-9);
    }

    /// The paper's machine judges the claim. The results of this processor are shown beside it: with each bulk persistence charged once, and as it
    /// ran.
    #[test]
    fn natives_stand_beside_charged_once_and_by_line() {
        let mut all = fig7(&[("base", 100.0), ("bppm", 186.3)]);
        for (quantity, factor) in [(THROUGHPUT, 2.5), (BY_LINE, 1.3)] {
            for (system, rate) in [("base", 100.0), ("bppm", 100.0 * factor)] {
                for workload in BLURRED {
                    let key = Key { figure: "fig7", setting: "clflush", system, quantity };
                    all.add(key, workload.name, Spread::exactly(rate));
                }
            }
        }
        let finding = judge("B2", &all);
        assert_eq!(finding.verdict, Verdict::Holds);
        let [once, by_line] = &finding.beside[..] else { panic!("{:?}", finding.beside) };
        assert_eq!((&*once.setting, &*once.measured.in_short()), ("clflush", "2.5"));
        assert_eq!(
            (&*by_line.setting, &*by_line.measured.in_short()),
            ("clflush, bulk charged by line", "1.3")
        );
        assert_eq!(by_line.verdict, Some(Verdict::Short));
    }

    #[test]
    fn nothing_measured_is_not_run() {
        for number in 1..=22 {
            let id = format!("B{number}");
            if !["B17", "B21", "B22"].contains(&id.as_str()) {
                assert_eq!(judge(&id, &Measurements::default()).verdict, Verdict::NotRun, "{id}");
            }
        }
    }

    #[test]
    fn shapes() {
        assert!(rising(&[1.0, 2.0]) && !rising(&[1.0, 1.0]) && falling(&[2.0, 1.0]));
        assert!(constant(&[95.0, 100.0, 105.0]) && !constant(&[80.0, 100.0, 120.0]));
        assert!(determination(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]) > 0.999);
        assert!(determination(&[1.0, 2.0, 3.0], &[1.0, 9.0, 2.0]) < 0.5);
    }
}
