//! `strandline-lab check`: the crash checker, on schemes.

mod device;
mod machine;
mod persist_order;
mod rows;
mod schemes;

use std::sync::atomic::AtomicBool;

use serde_json::json;
use strandline_check::Session;
use strandline_command::say;
use strandline_sim::Registry;

use strandline_command::interrupt;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};

/// Explore the states that a power failure can leave, and judge what recovery makes of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  strandline-lab check --samples 500\n  \
    strandline-lab check --scheme bppm --workload sps --threads 2 --exhaustive --preemptions 2\n  \
    strandline-lab check --mutants\n  \
    strandline-lab check --world device --samples 2000\n  \
    strandline-lab check --world persist-order --mutants\n  \
    strandline-lab check --world machine --samples 20\n\n\
    Exit code 1 says that a state was found that recovery does not repair (or, with --mutants, that a mutant \
    was not found out).")]
pub struct Arguments {
    /// How crash states come about
    #[arg(long, value_delimiter = ',', value_enum, default_value = "x86")]
    world: Vec<World>,
    #[command(flatten)]
    schemes: schemes::Arguments,
}

impl Arguments {
    /// From now on the exploration ends when `flag` becomes true, rather than by a signal.
    pub fn stopped_by(&mut self, flag: &'static AtomicBool) {
        self.schemes.session = Session::stopped_by(flag);
    }
}

/// The worlds, each a module with a `run`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum World {
    /// Power failures as x86 persistency allows them
    X86,
    /// Persist memory order: sct-* and dct-* under strict, epoch and strand persistency and eager sync
    PersistOrder,
    /// Power failures of the simulated machine at any cycle: hardware schemes, and software schemes on it
    Machine,
    /// The `Sync` domain on a device that loses power, tears writes and fails
    Device,
}

/// A world's exploration, its rows printed as they came unless JSON was asked for.
struct Finished {
    outcome: Outcome,
    /// For JSON.
    rows: Vec<serde_json::Value>,
}

/// Runs it.
///
/// # Errors
/// The flags ask for something that cannot be.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    interrupt::watch(interrupt::First::Ask)?;
    let (outcome, object) = find(arguments, registry)?;
    if arguments.schemes.json {
        say!("{object:#}");
    }
    Ok(outcome)
}

/// As [`run`], for a program that is not the command: what `--json` prints.
///
/// # Errors
/// As there.
pub fn answer(arguments: &Arguments, registry: Registry) -> Result<serde_json::Value, Failure> {
    find(arguments, registry).map(|(_, object)| object)
}

/// Explores, and prints what it finds unless JSON is asked for.
fn find(arguments: &Arguments, registry: Registry) -> Result<(Outcome, serde_json::Value), Failure> {
    if let Some(set) = arguments.schemes.set.first()
        && arguments.world.iter().any(|world| !matches!(world, World::Machine))
    {
        return Err(Failure::Usage(format!(
            "--set {set} is about hardware schemes, which --world machine alone has: leave it out"
        )));
    }
    let (mut rows, mut outcome) = (Vec::new(), Outcome::Success);
    for world in arguments.world.iter().take_while(|_| !arguments.schemes.session.is_stopped()) {
        let finished = match world {
            World::X86 => schemes::run(&arguments.schemes, registry),
            World::PersistOrder => persist_order::run(&arguments.schemes, registry),
            World::Machine => machine::run(&arguments.schemes, registry),
            World::Device => device::run(&arguments.schemes, registry),
        }?;
        rows.extend(finished.rows);
        if finished.outcome == Outcome::Finding {
            outcome = Outcome::Finding;
        }
    }
    Ok((outcome, json!({ "schema": SCHEMA, "rows": rows, "seed": arguments.schemes.seed })))
}
