//! `strandline-lab list`: everything that can be named on the command line, with its source.

use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::json;
use strandline_command::say;
use strandline_sim::scheme::{self, Parameter};
use strandline_sim::{Description, Registry, file};
use strandline_workloads::{Entry, REFERENCES, schemes};

use crate::options::option;
use crate::simulate::LOG_SIZE;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};

/// List every scheme, workload, domain and machine, with its source.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  strandline-lab list --json\n  strandline-lab list loc-wal")]
pub struct Arguments {
    /// Only the entries with this name, with their parameters
    name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const DOMAINS: [Entry; 5] = [
    Entry {
        name: "flush",
        source: "x86",
        description: "clwb (clflushopt, clflush) and sfence: NVDIMM, DAX, ADR",
    },
    Entry {
        name: "flush-on-fail",
        source: "x86, CXL",
        description: "sfence only, caches survive: eADR, CXL global persistent flush, battery-backed memory",
    },
    Entry {
        name: "sync",
        source: "Strandline",
        description: "any ordinary file system: the acknowledgement waits for a log that all threads share",
    },
    Entry { name: "process", source: "Strandline", description: "survives kill -9, not a power failure" },
    Entry {
        name: "emulated",
        source: "Lu, Shu, Sun: Blurred Persistence",
        description: "flush plus a latency for each line written back, as the paper emulates NVM",
    },
];

/// A named entry of the list.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    source: &'a str,
    description: &'a str,
}

impl<'a> From<&'a Entry> for Line<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self { name: entry.name, source: entry.source, description: entry.description }
    }
}

impl<'a> From<&'a Description> for Line<'a> {
    fn from(machine: &'a Description) -> Self {
        Self { name: &machine.name, source: &machine.source, description: &machine.description }
    }
}

impl<'a> From<&'a scheme::Entry> for Line<'a> {
    fn from(entry: &'a scheme::Entry) -> Self {
        Self { name: entry.name, source: entry.source, description: entry.description }
    }
}

/// Prints the list.
///
/// # Errors
/// Returns an error if nothing has the name, or if a machine that ships with the command is invalid, which a test excludes.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    let object = answer(arguments, registry)?;
    if arguments.json {
        say!("{object:#}");
    }
    Ok(Outcome::Success)
}

/// Like [`run`], but returns what `--json` prints. Tables are printed unless JSON is requested.
///
/// # Errors
/// As for [`run`].
pub fn answer(arguments: &Arguments, registry: Registry) -> Result<serde_json::Value, Failure> {
    let schemes = schemes(registry.schemes);
    let workloads: Vec<_> = registry.workloads.iter().map(|kind| kind.entry()).collect();
    let machines = file::presets().map_err(|error| Failure::Other(error.to_string()))?;
    let machines: Vec<_> = machines.iter().map(Line::from).collect();
    let hardware: Vec<_> = registry.hardware.iter().map(Line::from).collect();
    let lines = |entries: &'static [Entry]| entries.iter().map(Line::from).collect::<Vec<_>>();
    let kinds: [(&str, Vec<Line<'_>>); 6] = [
        ("schemes", schemes.iter().map(Line::from).collect()),
        ("hardware", hardware),
        ("workloads", workloads.iter().map(Line::from).collect()),
        ("domains", lines(&DOMAINS)),
        ("machines", machines),
        ("references", lines(&REFERENCES)),
    ];
    if let Some(name) = &arguments.name {
        return show(arguments, name, &kinds, registry);
    }
    let mut object: serde_json::Map<_, _> =
        kinds.iter().map(|(kind, entries)| ((*kind).into(), json!(entries))).collect();
    object.insert("schema".into(), json!(SCHEMA));
    if arguments.json {
        return Ok(object.into());
    }
    for (kind, entries) in kinds {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for line in entries {
            table.add_row([line.name, line.description, line.source]);
        }
        say!("{kind}\n{table}\n");
    }
    say!(
        "`strandline-lab list NAME` says all of one: parameters, what runs beside it, rules that the checker leaves out."
    );
    Ok(object.into())
}

/// Describes everything with this name: a scheme and hardware may share one.
fn show(
    arguments: &Arguments,
    name: &str,
    kinds: &[(&str, Vec<Line<'_>>)],
    registry: Registry,
) -> Result<serde_json::Value, Failure> {
    let found = |entries: &[Line<'_>]| entries.iter().position(|line| line.name == name);
    let found: Vec<_> =
        kinds.iter().filter_map(|(kind, entries)| Some((*kind, &entries[found(entries)?]))).collect();
    if found.is_empty() {
        return Err(Failure::Usage(format!(
            "nothing is called {name:?}; `strandline-lab list` shows every name"
        )));
    }
    let mut all = Vec::new();
    for (kind, line) in found {
        let mut object =
            json!({"kind": kind, "name": name, "description": line.description, "source": line.source});
        let details = match kind {
            "hardware" => hardware_details(name, registry, &mut object)?,
            "schemes" => scheme_details(name, registry, &mut object)?,
            "workloads" => workload_details(name, registry, &mut object)?,
            _ => Vec::new(),
        };
        if !arguments.json {
            say!("{name} ({kind})\n  {}\n  {}", line.description, line.source);
            for (title, rows) in details {
                if rows.iter().all(|row| row.iter().all(String::is_empty)) {
                    continue;
                }
                let mut table = Table::new();
                table.load_style(presets::NOTHING);
                table.add_rows(rows);
                say!("\n{title}\n{table}");
            }
            say!("");
        }
        all.push(object);
    }
    Ok(json!({"schema": SCHEMA, "found": all}))
}

/// Tables about one name, with their titles.
type Details = Vec<(&'static str, Vec<Vec<String>>)>;

/// Returns parameters and rules of hardware; adds them to `object`, too.
fn hardware_details(
    name: &str,
    registry: Registry,
    object: &mut serde_json::Value,
) -> Result<Details, Failure> {
    let mut details = Details::new();
    let entry = registry.hardware.of_name(name).map_err(Failure::usage)?;
    object["software"] = json!(entry.software);
    object["durable"] = json!(entry.is_durable);
    object["parameters"] = json!(entry.parameters.iter().map(parameter).collect::<Vec<_>>());
    let mutants = entry.mutants.iter().map(|mutant| json!({"name": mutant.name, "rule": mutant.rule}));
    object["mutants"] = json!(mutants.collect::<Vec<_>>());
    details.push(("software beside it", vec![vec![entry.software.join(", ")]]));
    details.push(("parameters (--set scheme.NAME=VALUE)", entry.parameters.iter().map(row).collect()));
    let rules = entry.mutants.iter().map(|mutant| vec![mutant.name.into(), mutant.rule.into()]);
    details.push(("rules that check --mutants leaves out", rules.collect()));
    Ok(details)
}

/// Returns parameters and steps of a scheme, and what runs beside it; adds them to `object`, too.
fn scheme_details(
    name: &str,
    registry: Registry,
    object: &mut serde_json::Value,
) -> Result<Details, Failure> {
    let mut details = Details::new();
    let scheme = registry.scheme(name).map_err(Failure::usage)?;
    let steps: Vec<String> =
        scheme.kind.map_or(Vec::new(), |kind| kind.all_steps().map(|step| format!("{step:?}")).collect());
    let beside = registry.hardware.iter().filter(|entry| entry.make.is_some() && entry.takes(scheme));
    let beside: Vec<_> = beside.map(|entry| entry.name).collect();
    let parameters: &[Parameter] = if scheme.is_durable() { &[LOG_SIZE] } else { &[] };
    object["parameters"] = json!(parameters.iter().map(parameter).collect::<Vec<_>>());
    object["native"] = json!(scheme.is_native());
    object["steps"] = json!(steps);
    object["hardware"] = json!(beside);
    let native = if scheme.is_native() { "on real memory, too" } else { "on the simulated machine alone" };
    details.push(("runs", vec![vec![native.to_owned()]]));
    details.push(("parameters (--NAME VALUE, --sweep NAME=VALUE,…)", parameters.iter().map(row).collect()));
    details.push(("hardware that it runs beside", beside.iter().map(|&name| vec![name.into()]).collect()));
    details
        .push(("steps that check --mutants leaves out", steps.into_iter().map(|step| vec![step]).collect()));
    Ok(details)
}

/// Returns the options of a workload; adds them to `object`, too.
fn workload_details(
    name: &str,
    registry: Registry,
    object: &mut serde_json::Value,
) -> Result<Details, Failure> {
    let mut details = Details::new();
    let takes: Vec<_> = registry
        .workloads
        .of_name(name)
        .map_err(Failure::usage)?
        .takes
        .iter()
        .map(|&taken| option(taken))
        .collect();
    object["options"] = json!(takes);
    details.push(("options that it takes", takes.iter().map(|&option| vec![option.into()]).collect()));
    Ok(details)
}

fn parameter(of: &Parameter) -> serde_json::Value {
    json!({
        "name": of.name, "unit": of.unit, "least": of.range.start(), "most": of.range.end(), "default": of.default,
        "description": of.description,
    })
}

fn row(of: &Parameter) -> Vec<String> {
    let range = format!("{} to {} {}", of.range.start(), of.range.end(), of.unit);
    vec![of.name.into(), range, format!("default {}", of.default), of.description.into()]
}
