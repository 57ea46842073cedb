//! A bank that survives being killed: accounts and a count of transfers in an ordinary file.
//!
//! ```text
//! cargo run --release -p strandline --example bank -- /tmp/bank.pool
//! ```
//!
//! Let it run, kill it with `kill -9`, and start it again: it checks that no money was lost or made, and that
//! every transfer that it had acknowledged on its output is there.

use std::io::Write;

use strandline::{HashMap, Persist, Ptr, Store, Tx};
use strandline_core::{Error, Options};

const ACCOUNTS: u64 = 100;
const OPENING_BALANCE: u64 = 1000;

#[derive(Persist)]
struct Bank<'p> {
    accounts: HashMap<'p, u64, Account>,
    transfers: u64,
}

#[derive(Clone, Copy, Persist)]
struct Account {
    balance: u64,
}

/// Why a transfer was not made.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("there is no account {0}")]
    NoAccount(u64),
    #[error("account {account} has only {balance}")]
    NotEnough { account: u64, balance: u64 },
    #[error(transparent)]
    Store(#[from] Error),
}

/// Moves `amount` and counts the transfer, or does nothing at all: an error ends the transaction.
fn transfer<'p>(
    tx: &Tx<'p>,
    root: Ptr<'p, Bank<'p>>,
    from: u64,
    to: u64,
    amount: u64,
) -> Result<u64, Refusal> {
    let accounts = root.get(tx)?.accounts;
    let mut payer = accounts.get(tx, &from)?.ok_or(Refusal::NoAccount(from))?;
    payer.balance = payer
        .balance
        .checked_sub(amount)
        .ok_or(Refusal::NotEnough { account: from, balance: payer.balance })?;
    accounts.insert(tx, &from, &payer)?;
    let mut payee = accounts.get(tx, &to)?.ok_or(Refusal::NoAccount(to))?;
    payee.balance += amount;
    accounts.insert(tx, &to, &payee)?;
    Ok(root.update(tx, |bank| {
        bank.transfers += 1;
        bank.transfers
    })?)
}

fn main() -> Result<(), Refusal> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: bank FILE");
        std::process::exit(2);
    };
    // The default domain, Sync: durable on any file system when `update` returns.
    let options = Options { layout_name: "bank".into(), ..Options::default() };
    let bank = Store::<Bank>::open_or_create(path, &options, |tx| {
        let accounts = HashMap::new(tx)?;
        for account in 0..ACCOUNTS {
            accounts.insert(tx, &account, &Account { balance: OPENING_BALANCE })?;
        }
        Ok(Bank { accounts, transfers: 0 })
    })?;

    let (total, transfers) = bank.view(|tx, root| {
        let Bank { accounts, transfers } = root.get(tx)?;
        let mut total = 0;
        for account in accounts.iter(tx) {
            total += account?.1.balance;
        }
        Ok((total, transfers))
    })?;
    println!("found {transfers} transfers and {total} in all accounts");
    assert_eq!(total, ACCOUNTS * OPENING_BALANCE, "money was lost or made");

    let mut random = fastrand::Rng::new();
    let mut output = std::io::stdout();
    loop {
        let (from, to) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS));
        match bank.try_update(|tx, root| transfer(tx, root, from, to, 10)) {
            // Acknowledged: from here on this transfer survives a power failure.
            Ok(count) => {
                if writeln!(output, "transfer {count}").and_then(|()| output.flush()).is_err() {
                    // Nobody reads any more.
                    return Ok(());
                }
            }
            Err(Refusal::NotEnough { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}
