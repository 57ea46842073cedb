//! A bank that survives being killed: accounts and a count of transfers, in tables of a database.
//!
//! ```text
//! cargo run --release -p strandline --example bank -- /tmp/bank.db
//! ```
//!
//! Let it run, kill it with `kill -9`, and start it again: it checks that no money has appeared or disappeared, and shows how many
//! transfers it has found. These are all that it had acknowledged on its output, and perhaps one more.

use std::ffi::OsString;
use std::io::Write;

use strandline::{Database, Error, Table, Tx};

const ACCOUNTS: u64 = 100;
const OPENING_BALANCE: u64 = 1000;
/// The count of transfers.
const TRANSFERS: &str = "transfers";

/// Why a transfer was not made.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("there is no account {0}")]
    NoAccount(u64),
    #[error("account {account} has only {balance}")]
    NotEnough { account: u64, balance: u64 },
    #[error(transparent)]
    Database(#[from] Error),
}

struct Bank {
    db: Database,
    /// Balances.
    accounts: Table<u64, u64>,
    counts: Table<String, u64>,
}

impl Bank {
    fn open(path: OsString) -> Result<Self, Error> {
        // The default domain, Sync: durable on any file system when `write` returns.
        let db = Database::open(path)?;
        let (accounts, counts) = (db.table::<u64, u64>("accounts")?, db.table("counts")?);
        db.write(|tx| {
            if accounts.is_empty(tx)? {
                for account in 0..ACCOUNTS {
                    accounts.insert(tx, &account, &OPENING_BALANCE)?;
                }
            }
            Ok(())
        })?;
        Ok(Self { db, accounts, counts })
    }

    /// The money in all accounts, and the transfers so far, at one moment.
    fn look(&self) -> Result<(u64, u64), Error> {
        self.db.read(|tx| {
            let mut total = 0;
            for account in self.accounts.iter(tx)? {
                total += account?.1;
            }
            Ok((total, self.counts.get(tx, TRANSFERS)?.unwrap_or(0)))
        })
    }

    fn balance(&self, tx: &Tx, account: u64) -> Result<u64, Refusal> {
        self.accounts.get(tx, &account)?.ok_or(Refusal::NoAccount(account))
    }

    /// Moves `amount` and counts the transfer, or does nothing at all: an error rolls the transaction back.
    fn transfer(&self, from: u64, to: u64, amount: u64) -> Result<u64, Refusal> {
        self.db.write_with_error(|tx| {
            let balance = self.balance(tx, from)?;
            let left = balance.checked_sub(amount).ok_or(Refusal::NotEnough { account: from, balance })?;
            self.accounts.insert(tx, &from, &left)?;
            let balance = self.balance(tx, to)?;
            self.accounts.insert(tx, &to, &(balance + amount))?;
            let transfers = self.counts.get(tx, TRANSFERS)?.unwrap_or(0) + 1;
            self.counts.insert(tx, TRANSFERS, &transfers)?;
            Ok(transfers)
        })
    }
}

fn main() -> Result<(), Refusal> {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: bank FILE");
        std::process::exit(2);
    };
    let bank = Bank::open(path)?;
    let (total, transfers) = bank.look()?;
    println!("found {transfers} transfers and {total} in all accounts");
    assert_eq!(total, ACCOUNTS * OPENING_BALANCE, "money has appeared or disappeared");

    let mut random = fastrand::Rng::new();
    let mut output = std::io::stdout();
    loop {
        let (from, to) = (random.u64(..ACCOUNTS), random.u64(..ACCOUNTS));
        match bank.transfer(from, to, 10) {
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
