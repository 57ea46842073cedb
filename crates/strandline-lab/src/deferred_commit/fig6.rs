//! Fig. 6: throughput over the persist epoch latency (section 7).

use std::num::NonZeroU32;

use strandline::{Concurrency, Domain};
use strandline_persistency::Model;
use strandline_workloads::{
    PoolSetting, Prepared, Run, SchemeName, Selection, Workload, WorkloadName, WorkloadVisitor,
};

use super::curves::{
    ANY, DESIGNS, EPOCHS, FIGURE, MODELS, RECORDED, THROUGHPUT, VOLATILE_RATE, WORKLOADS, curve,
    latencies_us, setting, x,
};
use super::trace::{Recording, Traced, trace_scheme};
use super::{STRANDS, THREADS};
use crate::measurements::{Key, Measurements, Spread};
use crate::paper::{Curve, Form, Panel};
use crate::session::{Effort, Error, Session};

/// Bytes in each log.
const LOG_BYTES: u64 = 1 << 20;
/// Strict persistency is recorded too, for D12.
const ALL_MODELS: [&str; 4] = ["strict", "epoch", "eager-sync", "strand"];

fn transactions(session: &Session) -> u64 {
    if let Some(transactions) = session.transactions {
        return transactions;
    }
    match session.effort {
        Effort::Full => 10_000_000,
        Effort::Quick => 20_000,
        Effort::Trial => 40,
    }
}

fn model(name: &str) -> Model {
    match name {
        "strict" => Model::Strict,
        "epoch" => Model::Epoch,
        "strand" => Model::Strand { strands: NonZeroU32::new(STRANDS) },
        _ => Model::EagerSync,
    }
}

/// Steps of one recording.
const STEPS: u64 = 20;

pub fn steps(session: &Session) -> u64 {
    let each = DESIGNS.len() as u64 * (ALL_MODELS.len() as u64 * STEPS + session.pace().repetitions);
    WORKLOADS.len() as u64 * each
}

pub fn run(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for (name, _) in WORKLOADS {
        let workload: WorkloadName = name.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let selection = Selection::new(workload, &session.sizes())?;
        volatile_rates(session, &selection, into)?;
        for (design, _) in DESIGNS {
            for model in ALL_MODELS {
                record(session, &selection, design, model, into)?;
            }
        }
    }
    // The curves, for drawing.
    for (workload, _) in WORKLOADS {
        for (design, _) in DESIGNS {
            for model in ALL_MODELS {
                let Some(curve) = curve(into, workload, model, design) else { continue };
                for latency in latencies_us() {
                    let setting = setting(workload, model);
                    let key = Key { figure: FIGURE, setting: &setting, system: design, quantity: THROUGHPUT };
                    into.add(key, &x(latency), Spread::exactly(curve.at(latency * 1e-6)));
                }
            }
        }
    }
    Ok(())
}

/// Both designs natively, in turn, where nothing waits for a persist. The barriers of epoch and strand persistency
/// cost nothing there, and eager sync's fences and write-backs are left out, so one variant stands for all.
fn volatile_rates(session: &Session, selection: &Selection, into: &mut Measurements) -> Result<(), Error> {
    let place = session.place()?;
    let domain = Domain::Process;
    let pool_setting = PoolSetting {
        logs: 2 * THREADS,
        log_bytes: LOG_BYTES,
        domain,
        instruction: None,
        concurrency: Concurrency::Locks,
    };
    let prepared = Prepared::new(&place.folder().join("pool"), selection, pool_setting)?;
    let pace = session.pace();
    let mut rates = [Vec::new(), Vec::new()];
    for repetition in 0..pace.repetitions {
        for ((design, _), rates) in DESIGNS.iter().zip(&mut rates) {
            let name = format!("{design}-eager-sync");
            let scheme: SchemeName = name.parse().map_err(|error| Error::Usage(format!("{error}")))?;
            let run = Run {
                threads: THREADS,
                warm_up: pace.warm_up,
                duration: pace.duration,
                seed: session.seed.wrapping_add(repetition),
                idle_percent: 0,
            };
            let row = selection.measure(prepared.pool(), domain, scheme, &run)?;
            rates.push(row.tx_per_processor_s);
            session.progress.inc(1);
        }
    }
    for ((design, _), rates) in DESIGNS.iter().zip(&rates) {
        if let Some(spread) = Spread::of(rates) {
            let workload = selection.name().name();
            let key = Key { figure: FIGURE, setting: workload, system: design, quantity: VOLATILE_RATE };
            into.add(key, ANY, spread);
        }
    }
    Ok(())
}

struct Visitor<'a> {
    scheme: &'a str,
    recording: Recording,
    progress: &'a dyn Fn(u64),
}

impl WorkloadVisitor for Visitor<'_> {
    type Output = Result<Traced, Error>;
    fn visit<W: Workload>(self, workload: &W) -> Self::Output {
        trace_scheme(self.scheme, workload, self.recording, self.progress)
    }
}

fn record(
    session: &Session,
    selection: &Selection,
    design: &str,
    model_name: &str,
    into: &mut Measurements,
) -> Result<(), Error> {
    let transactions = transactions(session);
    let recording = Recording {
        model: model(model_name),
        threads: THREADS,
        transactions,
        log_bytes: LOG_BYTES,
        seed: session.seed,
        in_turn: false,
    };
    let begun = session.progress.position();
    let done = std::cell::Cell::new(0);
    let progress = |more: u64| {
        done.set(done.get() + more);
        session.progress.set_position(begun + STEPS * done.get().min(transactions) / transactions);
    };
    let scheme = format!("{design}-{model_name}");
    let traced = selection.visit(Visitor { scheme: &scheme, recording, progress: &progress })?;
    session.progress.set_position(begun + STEPS);
    let setting = setting(selection.name().name(), model_name);
    let mut add = |quantity, value: f64| {
        into.add(
            Key { figure: FIGURE, setting: &setting, system: design, quantity },
            ANY,
            Spread::exactly(value),
        );
    };
    add(EPOCHS, traced.epochs_per_transaction());
    add("epochs/tx of the first tenth", traced.epochs_per_transaction_at_first());
    add(RECORDED, traced.transactions as f64);
    add("events/tx", traced.events as f64 / traced.transactions as f64);
    add("persists/tx", traced.persists as f64 / traced.transactions as f64);
    Ok(())
}

pub fn draw(all: &Measurements) -> Vec<Panel> {
    let xs: Vec<String> = latencies_us().map(x).collect();
    let panel = |(workload, workload_name): (&str, &str), (design, label): (&str, &str)| {
        let curves = MODELS.iter().enumerate().map(|(colour, (model, name))| {
            let setting = setting(workload, model);
            let key = Key { figure: FIGURE, setting: &setting, system: design, quantity: THROUGHPUT };
            Curve {
                name: (*name).into(),
                colour,
                values: xs.iter().map(|x| all.spread(key, x).map(|spread| spread.scaled(1e-6))).collect(),
            }
        });
        Panel {
            title: format!("{workload_name}, {label}"),
            form: Form::Lines,
            x_label: "average persist epoch latency in us".into(),
            y_label: "million tx/s".into(),
            x: xs.clone(),
            curves: curves.collect(),
            marks: Vec::new(),
        }
    };
    WORKLOADS
        .iter()
        .flat_map(|&workload| DESIGNS.iter().map(move |&design| (workload, design)))
        .map(|(w, d)| panel(w, d))
        .collect()
}
