//! `strandline list`: what can be named on the command line, with its source.

use comfy_table::{Table, presets};
use serde_json::json;
use strandline_workloads::{Entry, REFERENCES, WORKLOADS, schemes};

use crate::failure::{Failure, Outcome};

/// List every scheme, workload and domain, with its source.
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

/// Runs it.
///
/// # Errors
/// None.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let schemes = schemes();
    let kinds: [(&str, &[Entry]); 4] = [
        ("schemes", &schemes),
        ("workloads", &WORKLOADS),
        ("domains", &DOMAINS),
        ("references", &REFERENCES),
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
        for entry in entries {
            table.add_row([entry.name, entry.description, entry.source]);
        }
        say!("{kind}\n{table}\n");
    }
    Ok(Outcome::Success)
}
