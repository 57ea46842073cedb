//! Measures how fast code over databases is checked: `cargo bench -p strandline-check --bench databases`. Each program is explored repeatedly for
//! some seconds.

use std::time::{Duration, Instant};

use strandline::{Database, Result};
use strandline_check::{Check, Checked, Crashed, Db, OnDatabase, Outcome, store};

const LONG: Duration = Duration::from_secs(3);

const NAMES: [&str; 4] = ["ann", "bob", "cy", "dan"];

fn transfer(db: &Database, [from, to]: [&str; 2]) -> Result<()> {
    let accounts = db.table::<String, u64>("accounts")?;
    db.write(|tx| {
        let (has, gets) = (accounts.get(tx, from)?.unwrap_or(0), accounts.get(tx, to)?.unwrap_or(0));
        accounts.insert(tx, from, &(has - 1))?;
        accounts.insert(tx, to, &(gets + 1)).map(drop)
    })
}

fn set_up(db: &Db<'_>) -> Checked {
    let accounts = db.table::<String, u64>("accounts")?;
    Ok(db.write(|tx| NAMES.iter().try_for_each(|name| accounts.insert(tx, *name, &100).map(drop)))?)
}

fn sum(db: &Db<'_>, _: &Crashed) -> Checked {
    let accounts = db.table::<String, u64>("accounts")?;
    let rows = db.read(|tx| accounts.iter(tx)?.collect::<Result<Vec<_>>>())?;
    let sum: u64 = rows.iter().map(|(_, balance)| balance).sum();
    if sum == 400 { Ok(()) } else { Err(format!("the balances add up to {sum}").into()) }
}

/// Returns a check of this many threads, each of which makes this many transfers.
fn bank<'a>(threads: usize, transfers: u64) -> Check<'a, OnDatabase> {
    store(move |db| {
        for number in 0..transfers {
            let from = db.thread() + number as usize;
            transfer(db, [NAMES[from % 4], NAMES[(from + 1) % 4]])?;
            db.acknowledge(number);
        }
        Ok(())
    })
    .set_up(set_up)
    .invariant(sum)
    .threads(threads)
}

fn measure(name: &str, check: impl Fn() -> Outcome) {
    let began = Instant::now();
    let (mut runs, mut states, mut checks) = (0, 0, 0);
    while began.elapsed() < LONG {
        let outcome = check();
        outcome.assert_clean();
        (runs, states, checks) =
            (runs + outcome.counts.histories, states + outcome.counts.states, checks + 1);
    }
    let seconds = began.elapsed().as_secs_f64();
    let (runs_each, states_each) = (runs / checks, states / checks);
    println!(
        "{name}: {runs_each} runs and {states_each} states in {:.1} ms; {:.0} runs and {:.0} states a second",
        1000.0 * seconds / checks as f64,
        runs as f64 / seconds,
        states as f64 / seconds
    );
}

fn main() {
    measure("one thread, 10 transactions, exhaustive", || bank(1, 10).exhaustive());
    measure("two threads, 2 transactions each, exhaustive", || bank(2, 2).exhaustive());
    measure("three threads, 2 transactions each, exhaustive", || bank(3, 2).exhaustive());
    measure("four threads, 10 transactions each, 100 samples", || bank(4, 10).sampled(100));
    let recovers = || bank(2, 2).recovery(|db| Ok(transfer(db, ["dan", "ann"])?)).crashes_in_recovery(2);
    measure("two threads, 2 transactions each, recovery with a transaction, exhaustive", || {
        recovers().exhaustive()
    });
}
