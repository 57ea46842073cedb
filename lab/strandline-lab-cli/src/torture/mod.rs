//! `strandline-lab torture`: kills a child that runs transactions, again and again, and verifies after each kill
//! that nothing acknowledged is lost and nothing unacknowledged half there.
//!
//! A killed process keeps its caches and the page cache, so this cannot see a missing write-back; it sees
//! what recovery, locks, leases and logs do after a death at any instruction.

mod acknowledged;
mod child;
mod data;
mod life;
mod model;
mod operation;
mod setting;
mod verify;

pub use child::{ChildArguments, run_child};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strandline_command::say;

use fastrand::Rng;
use serde_json::json;
use strandline_command::Place;
use strandline_core::{Concurrency, Domain};
use strandline_workloads::{SchemeName, UnknownName};

use life::{Life, Lives};
use setting::Setting;
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};
use strandline_command::{interrupt, progress};
use verify::Verifier;

/// Kill a process that runs transactions at random moments; verify that nothing is lost or torn.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline-lab torture --kills 1000 --domain sync --threads 8\n\n\
    Exit code 1 says that something was lost or torn; the pool is kept and its path printed.")]
pub struct Arguments {
    /// How often to kill
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    #[command(flatten)]
    setting: Setting,
    /// Schemes, separated by commas, of which each life draws one; names are those of `strandline-lab list`
    #[arg(long, value_delimiter = ',', value_parser = scheme, default_value = "bppm,bppm+single-writer")]
    scheme: Vec<SchemeName>,
    /// The pool's file, which must not exist and is kept; without it a temporary one
    #[arg(long)]
    pool: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A scheme that can be tortured.
fn scheme(name: &str) -> Result<SchemeName, String> {
    let scheme: SchemeName = name.parse().map_err(|error: UnknownName| error.to_string())?;
    if !scheme.is_durable() {
        return Err(format!("{name} keeps nothing durable: there is nothing to lose"));
    }
    if !scheme.is_native() {
        return Err(format!("{name} does not run on real memory; it exists for check and simulate"));
    }
    if scheme.concurrency == Concurrency::Locks {
        return Err(format!("{name} needs lock sets, which torture's transactions do not know beforehand"));
    }
    Ok(scheme)
}

/// The longest time that a child may run before it is killed.
const LONGEST_LIFE: Duration = Duration::from_millis(60);

/// What happened so far.
#[derive(Default)]
struct Tally {
    kills: u64,
    /// Kills before the child said that it had opened the pool.
    kills_while_opening: u64,
    recoveries: u64,
    replayed: u64,
}

/// Runs it.
///
/// # Errors
/// The pool cannot be created, or a child failed by itself.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let in_sync = arguments.setting.domain.domain(0) == Domain::Sync;
    if let Some(scheme) = arguments.scheme.iter().find(|scheme| in_sync && !scheme.in_sync()) {
        return Err(Failure::Usage(format!(
            "the sync domain carries bppm and bppm+single-writer, not {}",
            scheme.name()
        )));
    }
    let place = Place::on_disk().map_err(Failure::io("create a temporary folder"))?;
    let pool = arguments.pool.clone().unwrap_or_else(|| place.folder().join("pool"));
    let acknowledged = place.folder().join("acknowledged");
    interrupt::watch(interrupt::First::Ask)?;
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut verifier = Verifier::create(&arguments.setting, &pool, &acknowledged)?;
    let wrong = match kill_all(arguments, &pool, &acknowledged, &mut verifier, &mut tally) {
        Ok(wrong) => wrong,
        // A child that somebody else has ended says nothing.
        Err(_) if interrupt::is_asked() => Vec::new(),
        Err(failure) => {
            // Whoever looks into it needs what was there.
            let _ = place.keep();
            return Err(Failure::Other(format!("{failure}\nThe pool is kept: {}", pool.display())));
        }
    };
    let outcome = if wrong.is_empty() { Outcome::Success } else { Outcome::Finding };
    let transactions: u64 = verifier.transactions();
    if arguments.json {
        let object = json!({
            "schema": SCHEMA, "kills": tally.kills, "kills_while_opening": tally.kills_while_opening,
            "recoveries": tally.recoveries, "transactions": transactions,
            "replayed": tally.replayed, "seconds": started.elapsed().as_secs_f64(),
            "domain": arguments.setting.domain.domain(0).name(), "threads": arguments.setting.threads,
            "schemes": arguments.scheme.iter().map(|scheme| scheme.name()).collect::<Vec<_>>(),
            "seed": arguments.setting.seed, "violations": wrong,
            "pool": (outcome == Outcome::Finding).then_some(&pool),
        });
        say!("{object:#}");
    } else {
        for line in &wrong {
            say!("{line}");
        }
        say!(
            "{} kills ({} of them while the pool was being opened), {transactions} transactions, {} recoveries \
             that replayed {} transactions, {:.1} s: {}",
            tally.kills,
            tally.kills_while_opening,
            tally.recoveries,
            tally.replayed,
            started.elapsed().as_secs_f64(),
            if wrong.is_empty() { "nothing lost, nothing torn" } else { "VIOLATED" }
        );
    }
    if outcome == Outcome::Finding {
        let kept = place.keep();
        eprintln!("The pool is kept: {} (acknowledgements: {})", pool.display(), kept.display());
    }
    Ok(outcome)
}

/// Kills until it was often enough, or something is wrong. Returns what is wrong.
fn kill_all(
    arguments: &Arguments,
    pool: &Path,
    acknowledged: &Path,
    verifier: &mut Verifier,
    tally: &mut Tally,
) -> Result<Vec<String>, Failure> {
    let setting = &arguments.setting;
    let mut random = Rng::with_seed(setting.seed);
    let mut lives = Lives::new(setting, pool, acknowledged)?;
    let progress = progress::bar(arguments.kills, "{bar:30} {pos}/{len} kills, {msg}, {eta} to go");
    while tally.kills < arguments.kills && !interrupt::is_asked() {
        let mut draw = || arguments.scheme[random.usize(..arguments.scheme.len())];
        let (life, judge) = (Life { scheme: draw(), recover_only: false }, draw());
        if random.u8(..5) == 0 {
            lives.kill_while_opening(life, &mut random)?;
            tally.kills_while_opening += 1;
        } else {
            lives.kill_while_running(life, LONGEST_LIFE.mul_f64(random.f64()))?;
        }
        tally.kills += 1;
        // A crash inside recovery, and another inside the recovery after that.
        while tally.kills < arguments.kills && random.u8(..4) == 0 {
            lives.kill_while_opening(Life { recover_only: true, ..life }, &mut random)?;
            tally.kills += 1;
            tally.kills_while_opening += 1;
        }
        let verdict = verifier.verify(judge)?;
        tally.recoveries += 1;
        tally.replayed += verdict.replayed;
        if !verdict.wrong.is_empty() {
            progress.finish_and_clear();
            let mut wrong = vec![format!("After kill {} (seed {}):", tally.kills, setting.seed)];
            wrong.extend(verdict.wrong);
            return Ok(wrong);
        }
        progress.set_position(tally.kills);
        progress.set_message(format!("{} transactions", verifier.transactions()));
    }
    progress.finish_and_clear();
    Ok(Vec::new())
}
