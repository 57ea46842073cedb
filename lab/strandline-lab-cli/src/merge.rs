//! `strandline-lab merge`: combines the results of a sweep's or a check's shards.

use std::path::PathBuf;
use strandline_command::say;

use serde_json::Value;
use strandline_lab::sweep;
use strandline_sim::Registry;

use crate::{check, simulate};
use strandline_command::{Failure, Outcome};

/// Combine the shards of a sweep or a check, as if one machine had run it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    strandline-lab simulate --sweep nvm.write_ns=100,200 --shard 1/2 --out first\n  \
    strandline-lab simulate --sweep nvm.write_ns=100,200 --shard 2/2 --out second\n  \
    strandline-lab merge latency first second\n\n  \
    strandline-lab check --samples 600 --shard 1/2 --out one\n  \
    strandline-lab check --samples 600 --shard 2/2 --out two\n  \
    strandline-lab merge both one two\n\n\
    points.jsonl and points.csv are to the byte those of the same sweep without shards. The rows of a check, and exit code 1 \
    for a finding, are those of the same check without shards. Shards may still be running: the command merges what \
    is there, exit code 4 says that something is missing, and the same command adds it later.")]
pub struct Arguments {
    /// The folder for the sweep or the check, like their --out
    out: PathBuf,
    /// The shards' folders
    #[arg(required = true)]
    shards: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Returns whether the shards belong to a check.
    fn is_check(&self) -> bool {
        self.shards.iter().any(|shard| shard.join(check::PLAN).exists())
    }
}

/// Merges the shards and prints the result.
///
/// # Errors
/// Returns an error if the folders have no shards of one sweep or check, or if a file cannot be read or written.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    let Arguments { out, shards, json } = arguments;
    if arguments.is_check() {
        let checked = check::merge(out, shards, *json)?;
        if *json {
            say!("{:#}", checked.object);
        }
        return match checked.outcome {
            Outcome::Success => Ok(complete(checked.missing, "parts of the check", arguments)),
            finding => Ok(finding),
        };
    }
    let merged = merge(arguments, registry)?;
    let (points, swept) = (&merged.plan.points, &merged.swept);
    match json {
        true => say!("{:#}", simulate::object(points, swept)),
        false => simulate::show(points, swept, out),
    }
    Ok(complete((points.len() - swept.known, points.len()), "runs", arguments))
}

/// Returns whether the work is complete. If not, prints how much is missing, and how to get it.
fn complete((missing, all): (usize, usize), what: &str, arguments: &Arguments) -> Outcome {
    if missing == 0 {
        return Outcome::Success;
    }
    eprintln!(
        "{missing} of {all} {what} are missing: run the shards that have ended early again, or the whole without --shard and with --out {}",
        arguments.out.display()
    );
    Outcome::Unfinished
}

/// Merges the shards. Returns what `--json` prints: of a sweep with the number of points that are `missing`, or of a check.
///
/// # Errors
/// As for [`run`]; missing work is not an error here.
pub fn answer(
    arguments: &Arguments,
    registry: Registry,
    sweep: impl Fn(&sweep::Merged) -> Value,
) -> Result<Value, Failure> {
    if arguments.is_check() {
        return Ok(check::merge(&arguments.out, &arguments.shards, true)?.object);
    }
    merge(arguments, registry).map(|merged| sweep(&merged))
}

/// Merges the shards of a sweep, and writes the table and the plots.
fn merge(arguments: &Arguments, registry: Registry) -> Result<sweep::Merged, Failure> {
    let Arguments { out, shards, .. } = arguments;
    let merged = sweep::merge(out, shards, &registry).map_err(Failure::Usage)?;
    let names: Vec<_> = shards.iter().map(|shard| shard.display().to_string()).collect();
    let command = format!("strandline-lab merge {} {}", out.display(), names.join(" "));
    simulate::finish(&merged.plan.points, &merged.swept, out, &command)?;
    Ok(merged)
}
