//! `strandline-lab check`: the crash checker for schemes.

mod campaign;
mod device;
mod machine;
mod persist_order;
mod rows;
mod schemes;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use strandline_check::Session;
use strandline_command::say;
use strandline_lab::ledger::Shard;
use strandline_sim::Registry;

use campaign::{Asked, Checked, Kept, Unit};
use strandline_command::interrupt;
use strandline_command::{Failure, Outcome};

pub use campaign::{PLAN, merge};

/// Explore the states that a power failure can leave, and judge what recovery makes of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  strandline-lab check --samples 500\n  \
    strandline-lab check --scheme bppm --workload sps --threads 2 --exhaustive\n  \
    strandline-lab check --mutants\n  \
    strandline-lab check --world device --samples 2000\n  \
    strandline-lab check --world persist-order --mutants\n  \
    strandline-lab check --world machine --samples 20\n  \
    strandline-lab check --samples 600 --shard 2/16 --out part-2\n\n\
    Exit code 1: a state was found that recovery does not repair or, with --mutants, a mutant was not noticed.")]
pub struct Arguments {
    /// The models of power failures
    #[arg(long, value_delimiter = ',', value_enum, default_value = "x86")]
    world: Vec<World>,
    /// Keep the results in this folder; the same command continues with what is missing there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Explore one part of several, such as 2/16, in a folder of its own; `merge` combines the folders
    #[arg(long, value_name = "N/OF", requires = "out")]
    shard: Option<Shard>,
    #[command(flatten)]
    schemes: schemes::Arguments,
}

/// The worlds, each of which is a module.
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

impl Arguments {
    /// Ends the exploration when `flag` becomes true, instead of on a signal.
    pub fn stopped_by(&mut self, flag: &'static AtomicBool) {
        self.schemes.session = Session::stopped_by(flag);
    }
}

impl World {
    /// Returns the world with this name.
    fn of_name(name: &str) -> Option<Self> {
        clap::ValueEnum::from_str(name, false).ok()
    }
}

/// Explores, and prints the results.
///
/// # Errors
/// Returns an error if the flags ask for something impossible.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    interrupt::watch(interrupt::First::Ask)?;
    let checked = find(arguments, registry)?;
    if arguments.schemes.json {
        say!("{:#}", checked.object);
    }
    if checked.known > 0 {
        eprintln!("note: {} parts of the check were explored already", checked.known);
    }
    Ok(checked.outcome)
}

/// Like [`run`], but returns what `--json` prints.
///
/// # Errors
/// As for [`run`].
pub fn answer(arguments: &Arguments, registry: Registry) -> Result<serde_json::Value, Failure> {
    find(arguments, registry).map(|checked| checked.object)
}

/// Explores, and prints the findings unless JSON is requested.
fn find(arguments: &Arguments, registry: Registry) -> Result<Checked, Failure> {
    let flags = &arguments.schemes;
    if let Some(set) = flags.set.first()
        && arguments.world.iter().any(|world| !matches!(world, World::Machine))
    {
        return Err(Failure::Usage(format!(
            "--set {set} is about hardware schemes, which --world machine alone has: leave it out"
        )));
    }
    let asked = Asked {
        mutants: flags.mutants,
        seed: flags.seed,
        one: flags.is_replay(),
        json: flags.json,
        session: flags.session.clone(),
    };
    let mut units: Vec<Unit<'_>> = Vec::new();
    for world in &arguments.world {
        let rows = units.last().map_or(0, |last| last.row + 1);
        let more = match world {
            World::X86 => schemes::units(flags, registry),
            World::PersistOrder => persist_order::units(flags, registry),
            World::Machine => machine::units(flags, registry),
            World::Device => device::units(flags, registry),
        }?;
        units.extend(more.into_iter().map(|unit| Unit { row: rows + unit.row, ..unit }));
    }
    let kept = match &arguments.out {
        Some(folder) => Some(Kept::open(folder, arguments.shard, &units, &asked)?),
        None => None,
    };
    campaign::explore(&units, &asked, kept)
}
