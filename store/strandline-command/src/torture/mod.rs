//! Torture: kills a child that runs transactions, again and again, and verifies after each kill that no acknowledged transaction is lost and no other
//! is half there.
//!
//! A killed process keeps its caches and the page cache, so torture cannot find a missing write-back. It finds faults of recovery, locks, leases and
//! logs after a death at any instruction. A [`Subject`] defines what the pool holds and how transactions run.

mod acknowledged;
mod child;
mod life;
mod setting;
mod verify;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

pub use child::{Child, Worker, run_child};
use life::{Life, Lives};
pub use setting::Setting;
use verify::Verifier;
pub use verify::{Verdict, follow};

use crate::arguments::number;
use crate::output::SCHEMA;
use crate::{Failure, Outcome, Place, interrupt, progress};

/// The content of a pool under torture, as the parent's model.
pub trait Subject: Sized {
    /// The way in which the transactions of a life run: a scheme or a control.
    type Way: Copy;
    /// The flag that tells a child its way.
    const FLAG: &'static str;
    /// The field of the JSON object that lists the ways.
    const WAYS: &'static str;

    /// Returns the way's name on the command line.
    fn name(way: Self::Way) -> &'static str;

    /// Creates a pool in which no operation has happened, and closes it.
    ///
    /// # Errors
    /// Returns an error if the pool exists or cannot be created.
    fn create(setting: &Setting, pool: &Path) -> Result<Self, Failure>;

    /// Returns the last operation of each thread that the parent knows of.
    fn counters(&self) -> &[u64];

    /// Opens the pool, which recovers it; compares its content with the model, using [`follow`]; and closes it.
    fn judge(&mut self, pool: &Path, way: Self::Way, acknowledged: &[u64]) -> Verdict;
}

/// The flags of a torture, without the one that selects the ways.
#[derive(clap::Args)]
pub struct Flags {
    /// How often to kill, 1 to 1000000000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number(1..=1_000_000_000u64))]
    kills: u64,
    /// The flags that parent and child share.
    #[command(flatten)]
    pub setting: Setting,
    /// The pool's file, which must not exist and is kept [default: a temporary file]
    #[arg(long)]
    pool: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The longest time between a child's report that it runs and its kill.
const LONGEST_LIFE: Duration = Duration::from_millis(60);

/// The counts so far.
#[derive(Default)]
struct Tally {
    kills: u64,
    /// Kills before the child said that it runs.
    kills_while_opening: u64,
    recoveries: u64,
    replayed: u64,
}

/// Runs the torture. Each life draws one of `ways`.
///
/// # Errors
/// Returns an error if the pool cannot be created, or a child failed by itself.
pub fn run<S: Subject>(arguments: &Flags, ways: &[S::Way]) -> Result<Outcome, Failure> {
    let place = Place::on_disk().map_err(Failure::io("create a temporary folder"))?;
    let pool = arguments.pool.clone().unwrap_or_else(|| place.folder().join("pool"));
    let acknowledged = place.folder().join("acknowledged");
    interrupt::watch(interrupt::First::Ask)?;
    let started = Instant::now();
    let mut tally = Tally::default();
    let mut verifier = Verifier::<S>::create(&arguments.setting, &pool, &acknowledged)?;
    let wrong = match kill_all(arguments, ways, (&pool, &acknowledged), &mut verifier, &mut tally) {
        Ok(wrong) => wrong,
        // The user's signal may have ended the child too, which is not a failure.
        Err(_) if interrupt::is_asked() => Vec::new(),
        Err(failure) => {
            // The pool is kept so that the user can look into it.
            let _ = place.keep();
            return Err(Failure::Other(format!("{failure}\nThe pool is kept: {}", pool.display())));
        }
    };
    let outcome = if wrong.is_empty() { Outcome::Success } else { Outcome::Finding };
    let transactions: u64 = verifier.transactions();
    if arguments.json {
        let mut object = json!({
            "schema": SCHEMA, "kills": tally.kills, "kills_while_opening": tally.kills_while_opening,
            "recoveries": tally.recoveries, "transactions": transactions,
            "replayed": tally.replayed, "seconds": started.elapsed().as_secs_f64(),
            "domain": arguments.setting.domain.domain(0).name(), "threads": arguments.setting.threads,
            "seed": arguments.setting.seed, "violations": wrong,
            "pool": (outcome == Outcome::Finding).then_some(&pool),
        });
        object[S::WAYS] = ways.iter().map(|&way| Value::from(S::name(way))).collect();
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

/// Kills children until the wanted number is reached or something is wrong. Returns what is wrong.
fn kill_all<S: Subject>(
    arguments: &Flags,
    ways: &[S::Way],
    (pool, acknowledged): (&Path, &Path),
    verifier: &mut Verifier<S>,
    tally: &mut Tally,
) -> Result<Vec<String>, Failure> {
    let setting = &arguments.setting;
    let mut random = Rng::with_seed(setting.seed);
    let mut lives = Lives::new(setting, pool, acknowledged, S::FLAG)?;
    let progress = progress::bar(arguments.kills, "kills");
    while tally.kills < arguments.kills && !interrupt::is_asked() {
        let mut draw = || ways[random.usize(..ways.len())];
        let (life, judge) = (Life { way: S::name(draw()), recover_only: false }, draw());
        if random.u8(..5) == 0 {
            lives.kill_while_opening(life, &mut random)?;
            tally.kills_while_opening += 1;
        } else {
            lives.kill_while_running(life, LONGEST_LIFE.mul_f64(random.f64()))?;
        }
        tally.kills += 1;
        // Kills some children during recovery, and some during the recovery after that.
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
