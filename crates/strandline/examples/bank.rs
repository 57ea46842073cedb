//! A bank that survives being killed: accounts and a count of transfers in an ordinary file.
//!
//! ```text
//! cargo run --release -p strandline --example bank -- /tmp/bank.pool
//! ```
//!
//! Let it run, kill it with `kill -9`, and start it again: it checks that no money was lost or made, and that
//! every transfer that it had acknowledged on its output is there.

use std::io::Write;
use std::path::PathBuf;

use strandline::collections::HashTable;
use strandline::{Abort, Error, Options, Pool, Read, Result, Runner, Transaction};

const ACCOUNTS: u64 = 100;
const OPENING_BALANCE: u64 = 1000;

/// Moves `amount` and counts the transfer, or does nothing at all.
fn transfer(
    tx: &mut impl Transaction,
    accounts: HashTable<u64, u64>,
    from: u64,
    to: u64,
    amount: u64,
) -> Result<u64, Abort> {
    let balance = accounts.get(tx, from)?.unwrap_or(0);
    // Not enough money: nothing of this transaction happens.
    let rest = balance.checked_sub(amount).ok_or(Abort::User)?;
    accounts.insert(tx, from, &rest)?;
    let balance = accounts.get(tx, to)?.unwrap_or(0);
    accounts.insert(tx, to, &(balance + amount))?;
    let counter = tx.root(1);
    let count = tx.read(counter)? + 1;
    tx.write(counter, count)?;
    Ok(count)
}

fn main() -> Result<()> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: bank FILE");
        std::process::exit(2);
    };
    // The default domain, Sync: durable on any file system when `run` returns.
    let options = Options { layout_name: "bank".into(), ..Options::default() };
    let pool = if path.exists() { Pool::open(&path, &options)? } else { Pool::create(&path, &options)? };
    let mut worker = pool.worker()?;
    // Makes the table, finishes making it, or opens it.
    let accounts = HashTable::<u64, u64>::create(&mut worker, pool.layout().root(0), 128, 1)?;
    worker.run(|tx| {
        for account in 0..ACCOUNTS {
            if !accounts.contains_key(tx, account)? {
                accounts.insert(tx, account, &OPENING_BALANCE)?;
            }
        }
        Ok(())
    })?;

    let (total, transfers) = worker.view(|tx| {
        let mut total = 0;
        accounts.for_each(tx, |_, balance| {
            total += balance;
            Ok(())
        })?;
        Ok((total, tx.read(tx.root(1))?))
    })?;
    println!("found {transfers} transfers and {total} in all accounts");
    assert_eq!(total, ACCOUNTS * OPENING_BALANCE, "money was lost or made");

    let mut random = fastrand::Rng::new();
    let mut output = std::io::stdout();
    loop {
        let (from, to) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS));
        match worker.run(|tx| transfer(tx, accounts, from, to, 10)) {
            // Acknowledged: from here on this transfer survives a power failure.
            Ok(count) => {
                if writeln!(output, "transfer {count}").and_then(|()| output.flush()).is_err() {
                    // Nobody reads any more.
                    return Ok(());
                }
            }
            Err(Error::Aborted) => {}
            Err(error) => return Err(error),
        }
    }
}
