//! Draws the figures.

use strandline_workloads::{BLURRED, WorkloadKind};

use super::systems::SYSTEMS;
use super::{figures, recovery};
use crate::cells::{ABORTS, BY_LINE, THROUGHPUT};
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Mark, Panel};

/// The data that is drawn for one setting of a figure.
#[derive(Clone, Copy)]
struct Source<'a> {
    all: &'a Measurements,
    figure: &'static str,
    setting: &'a str,
    by_line: bool,
}

impl<'a> Source<'a> {
    /// Returns the same setting with bulk persistence charged by line.
    fn by_line(self) -> Self {
        Self { by_line: true, ..self }
    }

    fn title(self, what: &str) -> String {
        let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
        let charge = if self.by_line { ", bulk persistence charged by line" } else { "" };
        format!("{what}{}{charge}", self.setting)
    }

    fn throughput(self, system: &str, x: &str) -> Option<Spread> {
        self.spread(system, if self.by_line { BY_LINE } else { THROUGHPUT }, x)
    }

    fn spread(self, system: &str, quantity: &str, x: &str) -> Option<Spread> {
        self.all.spread(Key { figure: self.figure, setting: self.setting, system, quantity }, x)
    }

    /// Returns a curve for each measured system; `value` computes a point.
    fn curves(self, xs: &[String], value: impl Fn(&str, &str) -> Option<Spread>) -> Vec<Curve> {
        let curve = |(system, name, colour): (&str, &str, usize)| Curve {
            name: name.into(),
            colour,
            values: xs.iter().map(|x| value(system, x)).collect(),
        };
        let any = |curve: &Curve| curve.values.iter().any(Option::is_some);
        SYSTEMS.into_iter().map(curve).filter(any).collect()
    }

    /// Returns the throughput in thousands of transactions.
    fn thousands(self, system: &str, x: &str) -> Option<Spread> {
        self.throughput(system, x).map(|spread| spread.scaled(1e-3))
    }

    /// Returns the throughput relative to BASE's median.
    fn normalised(self, system: &str, x: &str) -> Option<Spread> {
        let base = self.throughput("base", x)?.median;
        Some(self.throughput(system, x)?.scaled(base.recip()))
    }

    /// Returns the share of BASE's loss that a system regains.
    fn regained(self, system: &str, x: &str) -> Option<Spread> {
        if matches!(system, "base" | "np") {
            return None;
        }
        let base = self.throughput("base", x)?.median;
        let np = self.throughput("np", x)?.median;
        let Spread { low, median, high } = self.throughput(system, x)?;
        let share = |value: f64| (value - base) / (np - base);
        Some(Spread { low: share(low), median: share(median), high: share(high) })
    }
}

fn sources<'a>(all: &'a Measurements, figure: &'static str) -> impl Iterator<Item = Source<'a>> {
    all.settings(figure).into_iter().map(move |setting| Source { all, figure, setting, by_line: false })
}

fn lines(title: String, x_label: &str, y_label: &str, x: &[String], curves: Vec<Curve>) -> Panel {
    Panel {
        title,
        form: Form::Lines,
        x_label: x_label.into(),
        y_label: y_label.into(),
        x: x.to_vec(),
        curves,
        marks: Vec::new(),
    }
}

fn mark(curve: &str, x: &str, value: f64) -> Mark {
    Mark { curve: Some(curve.into()), x: x.into(), value, range: None }
}

fn owned(xs: Vec<&str>) -> Vec<String> {
    xs.into_iter().map(Into::into).collect()
}

const MEAN: &str = "mean";

pub fn fig7(all: &Measurements) -> Vec<Panel> {
    let mut x = owned(all.xs("fig7"));
    x.push(MEAN.into());
    let panel = |source: Source| {
        let mean = |system: &str| {
            let values = BLURRED.map(|workload| source.normalised(system, workload.name));
            let values: Option<Vec<_>> = values.into_iter().collect();
            let mean = |of: fn(&Spread) -> f64| {
                values.as_ref().map(|all| all.iter().map(of).sum::<f64>() / all.len() as f64)
            };
            Some(Spread { low: mean(|s| s.low)?, median: mean(|s| s.median)?, high: mean(|s| s.high)? })
        };
        let value =
            |system: &str, x: &str| if x == MEAN { mean(system) } else { source.normalised(system, x) };
        let range = |curve: &str, value: f64, low: f64, high: f64| Mark {
            range: Some((low, high)),
            ..mark(curve, MEAN, value)
        };
        Panel {
            title: source.title(""),
            form: Form::Bars,
            x_label: String::new(),
            y_label: "throughput / BASE".into(),
            curves: source.curves(&x, value),
            x: x.clone(),
            // The numbers of B1, B2, B4, B5, B6 and B19. For NP and MNE the paper's text gives only averages.
            marks: vec![
                mark("MNE", MEAN, 1.067),
                range("BP(XIL)", 1.213, 1.097, 1.505),
                range("BP(VCBP)", 1.635, 1.522, 1.848),
                range("BPPM", 1.863, 1.563, 2.437),
                mark("NP", MEAN, 1.0 / 0.379),
            ],
        }
    };
    let panels = sources(all, "fig7").flat_map(|source| [source, source.by_line()]).map(panel);
    panels.filter(|panel| !panel.curves.is_empty()).collect()
}

pub fn fig8(all: &Measurements) -> Vec<Panel> {
    let x: Vec<String> = figures::THREADS.iter().map(u64::to_string).collect();
    let (mut throughput, mut aborts, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources(all, "fig8") {
        let title = |what: &str| source.title(what);
        let curves = source.curves(&x, |system, x| source.thousands(system, x));
        throughput.push(lines(title("Throughput"), "threads", "1000 tx/s", &x, curves));
        let percent =
            |system: &str, x: &str| source.spread(system, ABORTS, x).map(|spread| spread.scaled(100.0));
        let mut panel = lines(title("Aborts"), "threads", "% of attempts", &x, source.curves(&x, percent));
        panel.marks = [("4", 1.0), ("8", 50.0)]
            .map(|(x, value)| Mark { curve: None, x: x.into(), value, range: None })
            .to_vec();
        aborts.push(panel);
        let curves = source.curves(&x, |system, x| source.regained(system, x));
        let mut panel = lines(title("Overhead removed"), "threads", "share of BASE's loss", &x, curves);
        let paper = if source.setting.starts_with("hash") { 0.4 } else { 0.43 };
        panel.marks = x.iter().map(|x| mark("BPPM", x, paper)).collect();
        shares.push(panel);
    }
    throughput.into_iter().chain(shares).chain(aborts).collect()
}

pub fn fig9(all: &Measurements) -> Vec<Panel> {
    let x = owned(all.xs("fig9"));
    let panels = |source: Source| {
        let curves = source.curves(&x, |system, x| source.thousands(system, x));
        let throughput = lines(source.title("Throughput"), "bytes in a value", "1000 tx/s", &x, curves);
        let megabytes = |system: &str, x: &str| {
            let bytes: f64 = x.parse().ok()?;
            source.throughput(system, x).map(|spread| spread.scaled(1e-6 * bytes))
        };
        let curves = source.curves(&x, megabytes);
        let bytes = lines(source.title("Bytes"), "bytes in a value", "MB/s", &x, curves);
        let curves = source.curves(&x, |system, x| source.regained(system, x));
        let title = source.title("Overhead removed");
        let mut share = lines(title, "bytes in a value", "share of BASE's loss", &x, curves);
        share.marks = vec![mark("BPPM", "8", 0.397), mark("BPPM", "4096", 0.23)];
        [throughput, share, bytes]
    };
    sources(all, "fig9").flat_map(panels).collect()
}

pub fn fig10(all: &Measurements) -> Vec<Panel> {
    let x = owned(all.xs("fig10"));
    let panel = |source: Source| {
        let operations = |system: &str, x: &str| {
            let operations: f64 = x.parse().ok()?;
            source.thousands(system, x).map(|spread| spread.scaled(operations))
        };
        let curves = source.curves(&x, operations);
        lines(source.title("I/O throughput"), "operations in a transaction", "1000 operations/s", &x, curves)
    };
    sources(all, "fig10").map(panel).collect()
}

pub fn fig11(all: &Measurements) -> Vec<Panel> {
    let x = owned(all.xs("fig11"));
    let mut instructions: Vec<&str> = Vec::new();
    for instruction in all.settings("fig11").iter().filter_map(|setting| setting.rsplit(", ").next()) {
        if !instructions.contains(&instruction) {
            instructions.push(instruction);
        }
    }
    let panel = |instruction: &str| {
        let curve = |(colour, workload): (usize, WorkloadKind)| {
            let setting = format!("{}, {instruction}", workload.name);
            let source = Source { all, figure: "fig11", setting: &setting, by_line: false };
            let first = x.first().and_then(|x| source.throughput("bppm", x));
            let relative = |x: &String| Some(source.throughput("bppm", x)?.scaled(first?.median.recip()));
            Curve { name: workload.name.into(), colour, values: x.iter().map(relative).collect() }
        };
        let curves = BLURRED.into_iter().enumerate().map(curve).collect();
        lines(format!("BPPM: {instruction}"), "log size", "throughput / that of the smallest log", &x, curves)
    };
    instructions.into_iter().map(panel).collect()
}

pub fn fig12(all: &Measurements) -> Vec<Panel> {
    let x = owned(all.xs("fig12"));
    let panels = |source: Source| {
        let curve = |(colour, step): (usize, &str)| Curve {
            name: step.into(),
            colour,
            values: x.iter().map(|x| source.spread(step, recovery::MILLISECONDS, x)).collect(),
        };
        let steps = ["truncate", "replay", "scan", "sort"].into_iter().enumerate();
        let total = (5, recovery::TOTAL);
        let curves = std::iter::once(total).chain(steps).map(curve).collect();
        let time = lines(source.title("Recovery"), "log size", "ms", &x, curves);
        let at = |x: &String| source.spread(recovery::TOTAL, recovery::MILLISECONDS, x);
        let first = x.first().and_then(at);
        let growth = |x: &String| Some(at(x)?.scaled(first?.median.recip()));
        let curve = Curve { name: recovery::TOTAL.into(), colour: 5, values: x.iter().map(growth).collect() };
        let title = source.title("Growth");
        let mut relative = lines(title, "log size", "time / that of the smallest log", &x, vec![curve]);
        relative.marks = vec![mark(recovery::TOTAL, "2 MB", 49.8 / 3.2)];
        [time, relative]
    };
    sources(all, "fig12").flat_map(panels).collect()
}

pub fn fig13(all: &Measurements) -> Vec<Panel> {
    const X_LABEL: &str = "write latency, ns";
    let x = owned(all.xs("fig13"));
    let throughput = |source: Source| {
        // NP is far above all others and hardly changes; the paper leaves it out, too.
        let curves =
            source.curves(&x, |system, x| (system != "np").then(|| source.thousands(system, x)).flatten());
        lines(source.title("Throughput"), X_LABEL, "1000 tx/s", &x, curves)
    };
    let gain = |source: Source| {
        let curves = source.curves(&x, |system, x| {
            (!matches!(system, "base" | "np")).then(|| source.normalised(system, x)).flatten()
        });
        let mut gain = lines(source.title("Gain"), X_LABEL, "throughput / BASE", &x, curves);
        gain.marks =
            vec![mark("BPPM", "35", 1.741), mark("BPPM", "2000", 3.0), mark("BP(VCBP)", "2000", 5.0)];
        gain
    };
    let panels = |source: Source| {
        let by_line = source.by_line();
        [throughput(source), gain(source), throughput(by_line), gain(by_line)]
    };
    sources(all, "fig13").flat_map(panels).filter(|panel| !panel.curves.is_empty()).collect()
}

pub fn fig14(all: &Measurements) -> Vec<Panel> {
    let x = owned(all.xs("fig14"));
    let panel = |source: Source| {
        let mut curves = source.curves(&x, |system, x| source.thousands(system, x));
        for curve in curves.iter_mut().filter(|curve| curve.name == "MNE") {
            curve.name = "MNE-SYNC".into();
        }
        lines(source.title("Throughput"), "idle time, %", "1000 tx/s", &x, curves)
    };
    sources(all, "fig14").map(panel).collect()
}
