//! `strandline list`: what can be named on the command line, with its source.

use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::json;
use strandline_sim::{Description, file, scheme};
use strandline_workloads::{Entry, REFERENCES, Workloads, schemes};

use crate::failure::{Failure, Outcome};

/// List every scheme, workload, domain and machine, with its source.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline list --json")]
pub struct Arguments {
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

/// Anything that can be named.
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

/// Runs it.
///
/// # Errors
/// A machine that ships with the command is broken, which a test excludes.
pub fn run(arguments: &Arguments, workloads: Workloads) -> Result<Outcome, Failure> {
    let schemes = schemes();
    let workloads: Vec<_> = workloads.iter().map(|kind| kind.entry()).collect();
    let machines = file::presets().map_err(|error| Failure::Other(error.to_string()))?;
    let machines: Vec<_> = machines.iter().map(Line::from).collect();
    let hardware: Vec<_> = scheme::SCHEMES.iter().map(Line::from).collect();
    let lines = |entries: &'static [Entry]| entries.iter().map(Line::from).collect::<Vec<_>>();
    let kinds = [
        ("schemes", schemes.iter().map(Line::from).collect()),
        ("hardware", hardware),
        ("workloads", workloads.iter().map(Line::from).collect()),
        ("domains", lines(&DOMAINS)),
        ("machines", machines),
        ("references", lines(&REFERENCES)),
    ];
    if arguments.json {
        let object: serde_json::Map<_, _> =
            kinds.iter().map(|(kind, entries)| ((*kind).into(), json!(entries))).collect();
        say!("{:#}", serde_json::Value::Object(object));
        return Ok(Outcome::Success);
    }
    for (kind, entries) in kinds {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for line in entries {
            table.add_row([line.name, line.description, line.source]);
        }
        say!("{kind}\n{table}\n");
    }
    Ok(Outcome::Success)
}
