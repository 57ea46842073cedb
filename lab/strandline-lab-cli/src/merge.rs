//! `strandline-lab merge`: what shards of a sweep have found, put together.

use std::path::PathBuf;
use strandline_command::say;

use strandline_lab::sweep;
use strandline_sim::Registry;

use crate::simulate;
use strandline_command::{Failure, Outcome};

/// Put the shards of a sweep together, as if one machine had run it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    strandline-lab simulate --sweep nvm.write_ns=100,200,400 --shard 1/2 --out first\n  \
    strandline-lab simulate --sweep nvm.write_ns=100,200,400 --shard 2/2 --out second\n  \
    strandline-lab merge latency first second\n\n\
    points.jsonl and points.csv are those of the same sweep in one go, to the byte. Shards may be under way still: what is there is merged, exit \
    code 3 says that runs are missing, and the same command later adds them.")]
pub struct Arguments {
    /// The folder for the sweep, as --out of simulate
    out: PathBuf,
    /// The shards' folders
    #[arg(required = true)]
    shards: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// The folders have no shards of one sweep; a file cannot be read or written; runs are missing.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    let merged = merge(arguments, registry)?;
    let (points, swept) = (&merged.plan.points, &merged.swept);
    match arguments.json {
        true => say!("{:#}", simulate::object(points, swept)),
        false => simulate::show(points, swept, &arguments.out),
    }
    let missing = points.len() - swept.known;
    if missing > 0 {
        return Err(Failure::Other(format!(
            "{missing} of {} runs are missing: run the shards that have ended early again, or the sweep without --shard and with --out {}",
            points.len(),
            arguments.out.display()
        )));
    }
    Ok(Outcome::Success)
}

/// Puts them together, and writes the table and the plots.
///
/// # Errors
/// As [`run`], but for missing runs.
pub fn merge(arguments: &Arguments, registry: Registry) -> Result<sweep::Merged, Failure> {
    let Arguments { out, shards, .. } = arguments;
    let merged = sweep::merge(out, shards, &registry).map_err(Failure::Usage)?;
    let names: Vec<_> = shards.iter().map(|shard| shard.display().to_string()).collect();
    let command = format!("strandline-lab merge {} {}", out.display(), names.join(" "));
    simulate::finish(&merged.plan.points, &merged.swept, out, &command)?;
    Ok(merged)
}
