//! Fig. 6: throughput over the persist epoch latency (section 7).

use std::num::NonZeroU32;

use strandline_core::{Concurrency, Domain};
use strandline_persistency::Model;
use strandline_sim::run::PoolSizes;
use strandline_sim::scheme;
use strandline_workloads::{
    ALL, PoolSetting, Prepared, Run, SchemeName, Selection, Sizes, TpccScale, WorkloadKind,
};

use super::curves::{
    ANY, DESIGNS, DEVIATION, EPOCHS, FIGURE, FIRST_EPOCHS, INDEXED, MODELS, RECORDED, Rates, STRANDS,
    THREADS, WORKLOADS, latencies_us, setting, x,
};
use super::trace::{Recording, Traced, trace_scheme};
use crate::error::Error;
use crate::measurements::{Key, Measurements, Spread};
use crate::panel::{Curve, Form, Panel};
use crate::session::{Effort, Session};

/// Bytes in each log.
const LOG_BYTES: u64 = 1 << 20;
/// The recorded models. Strict persistency is recorded for D12.
const ALL_MODELS: [&str; 4] = ["strict", "epoch", "eager-sync", "strand"];

fn transactions(session: &Session) -> u64 {
    if let Some(transactions) = session.transactions {
        return transactions;
    }
    match session.effort {
        Effort::Full => 10_000_000,
        Effort::Quick => 50_000,
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

/// The number of steps of progress that one recording has.
const STEPS: u64 = 20;

pub fn steps(session: &Session) -> u64 {
    let native = if session.natively { session.repetitions(FIGURE).count() as u64 } else { 0 };
    let of_workload = |(name, _): (&str, _)| {
        let rates = native + simulated_runs(session, name).0;
        DESIGNS.len() as u64 * (ALL_MODELS.len() as u64 * STEPS + rates)
    };
    WORKLOADS.into_iter().chain(INDEXED).map(of_workload).sum()
}

/// Returns whether claims are judged by a workload; otherwise it is only shown.
fn is_judged(workload: &str) -> bool {
    WORKLOADS.iter().any(|(name, _)| *name == workload)
}

/// The number of items that New Order's tables have: as many as the authors' published program.
const ITEMS: u64 = 10_000;
/// The maximum of recorded transactions of workloads that are only shown, in full and quickly. With indexes a New Order has ten times as many events.
const BESIDE: [u64; 2] = [20_000, 5_000];
/// The maximum of recorded transactions under strict persistency, which is not a curve of the figure: every other model is faster from the first
/// latency on, and its paths are many times as long.
const OF_STRICT: u64 = 1_000_000;

fn sizes(session: &Session) -> Sizes {
    let sizes = session.sizes();
    let tpcc = TpccScale { items: sizes.tpcc.items.min(ITEMS), ..sizes.tpcc };
    let subscriber_draws =
        session.machine.as_ref().map(|machine| machine.program.subscriber_draws).unwrap_or_default();
    Sizes { tpcc, subscriber_draws, ..sizes }
}

pub fn run(session: &Session, into: &mut Measurements) -> Result<(), Error> {
    for (name, _) in WORKLOADS.into_iter().chain(INDEXED) {
        let workload = ALL.of_name(name).map_err(|error| Error::Usage(format!("{error}")))?;
        let selection = Selection::new(workload, &sizes(session))?;
        if session.natively {
            volatile_rates(session, &selection, into)?;
        }
        simulated_rates(session, workload, into)?;
        for (design, _) in DESIGNS {
            for model in ALL_MODELS {
                record(session, &selection, design, model, into)?;
            }
        }
    }
    // Compute the curves for drawing.
    for (workload, _) in WORKLOADS.into_iter().chain(INDEXED) {
        for (design, _) in DESIGNS {
            for model in ALL_MODELS {
                for rates in [Rates::Native, Rates::Simulated] {
                    let Some(curve) = rates.curve(into, workload, model, design) else { continue };
                    for latency in latencies_us() {
                        let (setting, quantity) = (setting(workload, model), rates.throughput());
                        let key = Key { figure: FIGURE, setting: &setting, system: design, quantity };
                        into.add(key, &x(latency), Spread::exactly(curve.at(latency * 1e-6)));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Measures both designs natively, in turn, without waiting for persists. The barriers of epoch and strand persistency then cost nothing, and eager
/// sync's fences and write-backs are left out, so one variant stands for all.
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
    for repetition in session.repetitions(FIGURE) {
        for ((design, _), rates) in DESIGNS.iter().zip(&mut rates) {
            let name = format!("{design}-eager-sync");
            let scheme: SchemeName = name.parse().map_err(|error| Error::Usage(format!("{error}")))?;
            let run = Run {
                threads: THREADS,
                length: pace.length(),
                seed: session.seed.wrapping_add(repetition),
                idle_percent: 0,
                latency: false,
            };
            let row = selection.measure(prepared.pool(), domain, scheme, &run)?;
            rates.push(row.tx_per_processor_s);
            session.progress.inc(1);
        }
    }
    for ((design, _), rates) in DESIGNS.iter().zip(&rates) {
        if let Some(spread) = Spread::of(rates) {
            let workload = selection.name();
            let key =
                Key { figure: FIGURE, setting: workload, system: design, quantity: Rates::Native.quantity() };
            into.add(key, ANY, spread);
        }
    }
    Ok(())
}

/// Returns how many runs a workload has on a simulated machine, and how many transactions of each thread: more in full if claims are judged by it.
fn simulated_runs(session: &Session, workload: &str) -> (u64, u64) {
    let runs = session.simulated_repetitions(FIGURE);
    match session.effort {
        Effort::Full if is_judged(workload) => (runs, 20_000),
        Effort::Quick if !is_judged(workload) => (runs.min(1), 1_000),
        Effort::Full | Effort::Quick => (runs.min(1), 4_000),
        Effort::Trial => (runs, 40),
    }
}

/// Measures both designs on the session's machine, if it has one, with each thread on a core of its own. Under epoch persistency neither design
/// writes back or fences, and barriers cost nothing on a machine that ignores them.
fn simulated_rates(session: &Session, workload: WorkloadKind, into: &mut Measurements) -> Result<(), Error> {
    let Some(machine) = &session.machine else { return Ok(()) };
    if (machine.cores.count as u64) < THREADS {
        return Err(Error::Usage(format!(
            "the paper's transactions run on {THREADS} threads, and {} has {} cores: choose a machine with more",
            machine.name, machine.cores.count
        )));
    }
    let none =
        scheme::find("none").ok_or_else(|| Error::Usage("the machine has no plain hardware".into()))?;
    let pool_sizes = PoolSizes { log_bytes: LOG_BYTES, ..PoolSizes::default() };
    let pool = strandline_sim::run::Prepared::new(workload, &sizes(session), pool_sizes, THREADS as usize)?;
    for (design, _) in DESIGNS {
        let name = format!("{design}-epoch");
        let scheme: SchemeName = name.parse().map_err(|error| Error::Usage(format!("{error}")))?;
        let mut rates = Vec::new();
        let (runs, transactions) = simulated_runs(session, workload.name);
        for repetition in 0..runs {
            let run = strandline_sim::run::Run {
                scheme,
                threads: THREADS as usize,
                transactions,
                warm_up: transactions / 5,
                idle_percent: 0,
                seed: session.seed.wrapping_add(repetition),
            };
            rates.push(pool.run(machine, none, &run, Vec::new())?.outcome.tx_per_s);
            session.progress.inc(1);
        }
        let (setting, quantity) = (workload.name, Rates::Simulated.quantity());
        into.add_seeds(Key { figure: FIGURE, setting, system: design, quantity }, ANY, &rates);
    }
    Ok(())
}

/// A quantity's name, and how it is computed from a recorded run.
type Quantity = (&'static str, fn(&Traced) -> f64);
const QUANTITIES: [Quantity; 6] = [
    (EPOCHS, Traced::epochs_per_transaction),
    (FIRST_EPOCHS, Traced::epochs_per_transaction_at_first),
    (DEVIATION, Traced::deviation_of_a_tenth),
    (RECORDED, |traced| traced.transactions as f64),
    ("events/tx", |traced| traced.events as f64 / traced.transactions as f64),
    ("persists/tx", |traced| traced.persists as f64 / traced.transactions as f64),
];

fn record(
    session: &Session,
    selection: &Selection,
    design: &str,
    model_name: &str,
    into: &mut Measurements,
) -> Result<(), Error> {
    let most = match model_name {
        _ if !is_judged(selection.name()) => BESIDE[usize::from(session.effort != Effort::Full)],
        "strict" => OF_STRICT,
        _ => u64::MAX,
    };
    let transactions = transactions(session).min(most);
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
    // The result depends on a machine only in how it draws subscribers.
    let name = format!("{scheme} {} {:?} {recording:?}", selection.name(), sizes(session));
    let numbers = session.runs.get(name, || {
        let traced = trace_scheme(&scheme, selection.workload(), recording, &progress)?;
        Ok(QUANTITIES.iter().map(|(_, of)| of(&traced)).collect())
    })?;
    session.progress.set_position(begun + STEPS);
    let setting = setting(selection.name(), model_name);
    for ((quantity, _), number) in QUANTITIES.into_iter().zip(numbers) {
        let key = Key { figure: FIGURE, setting: &setting, system: design, quantity };
        into.add(key, ANY, Spread::exactly(number));
    }
    Ok(())
}

pub fn draw(all: &Measurements) -> Vec<Panel> {
    let xs: Vec<String> = latencies_us().map(x).collect();
    let panel = |rates: Rates, (workload, workload_name): (&str, &str), (design, label): (&str, &str)| {
        let quantity = rates.throughput();
        let curves = MODELS.iter().enumerate().map(|(colour, (model, name))| {
            let setting = setting(workload, model);
            let key = Key { figure: FIGURE, setting: &setting, system: design, quantity };
            Curve {
                name: (*name).into(),
                colour,
                values: xs.iter().map(|x| all.spread(key, x).map(|spread| spread.scaled(1e-6))).collect(),
            }
        });
        Panel {
            title: match rates {
                Rates::Native => format!("{workload_name}, {label}, this processor"),
                Rates::Simulated => format!("{workload_name}, {label}, simulated machine"),
            },
            form: Form::Lines,
            x_label: "average persist epoch latency in us".into(),
            y_label: "million tx/s".into(),
            x: xs.clone(),
            curves: curves.collect(),
            marks: Vec::new(),
        }
    };
    let mut panels = Vec::new();
    for rates in [Rates::Native, Rates::Simulated] {
        if !all.of(FIGURE).any(|series| series.key().quantity == rates.quantity()) {
            continue;
        }
        for workload in WORKLOADS.into_iter().chain(INDEXED) {
            panels.extend(DESIGNS.map(|design| panel(rates, workload, design)));
        }
    }
    panels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same curves are drawn by the rates of two processors.
    #[test]
    fn each_panel_says_whose_rates_it_shows() {
        let mut all = Measurements::default();
        let setting = setting(WORKLOADS[0].0, MODELS[0].0);
        for rates in [Rates::Native, Rates::Simulated] {
            let key =
                Key { figure: FIGURE, setting: &setting, system: DESIGNS[0].0, quantity: rates.quantity() };
            all.add(key, ANY, Spread::exactly(1.0));
        }
        let titles: Vec<String> = draw(&all).into_iter().map(|panel| panel.title).collect();
        let of = |place: &str| titles.iter().filter(|title| title.ends_with(place)).count();
        assert_eq!((of("this processor"), of("simulated machine")), (titles.len() / 2, titles.len() / 2));
        assert!(!titles.is_empty());
    }
}
