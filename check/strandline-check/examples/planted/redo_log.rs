//! Accounts with a redo log: the program logs the new balances, makes the log valid, and then writes the balances in place. Recovery writes them
//! again.

use strandline_check::{Check, Pmem, check as program};

const ACCOUNTS: u64 = 3;
/// The number of entries of the log that are valid.
const VALID: u64 = 64 * ACCOUNTS;
/// Entries: an account, and its new balance or the amount by which it changes.
const LOG: u64 = VALID + 64;

fn balance(account: u64) -> u64 {
    64 * account
}

fn set_valid(pmem: &Pmem, entries: u64) {
    pmem.store(VALID, entries);
    pmem.persist(VALID, 8);
}

fn transfer(pmem: &Pmem, (from, to): (u64, u64), amount: u64, bug: u32) {
    let changes = [(from, amount.wrapping_neg()), (to, amount)];
    for (entry, (account, change)) in (LOG..).step_by(16).zip(changes) {
        let logged = if bug == 4 { change } else { pmem.load(balance(account)).wrapping_add(change) };
        pmem.store(entry, account);
        pmem.store(entry + 8, logged);
    }
    pmem.flush(LOG);
    if bug != 7 {
        pmem.fence();
    }
    set_valid(pmem, 2);
    write_in_place(pmem, 2, bug, true);
    set_valid(pmem, 0);
}

fn write_in_place(pmem: &Pmem, entries: u64, bug: u32, flushes: bool) {
    for entry in (LOG..).step_by(16).take(entries as usize) {
        let (account, logged) = (balance(pmem.load(entry)), pmem.load(entry + 8));
        let new = if bug == 4 { pmem.load(account).wrapping_add(logged) } else { logged };
        pmem.store(account, new);
        if flushes {
            pmem.flush(account);
        }
    }
    if flushes {
        pmem.fence();
    }
}

fn recover(pmem: &Pmem, bug: u32) {
    let entries = pmem.load(VALID);
    if entries == 0 {
        return;
    }
    if bug == 6 {
        set_valid(pmem, 0);
    }
    write_in_place(pmem, entries, bug, bug != 5);
    if bug != 6 {
        set_valid(pmem, 0);
    }
}

/// The balances after 0, 1 and 2 transfers.
const STATES: [[u64; 3]; 3] = [[100, 100, 100], [70, 130, 100], [70, 80, 150]];

pub fn check(bug: u32) -> Check<'static> {
    program(move |pmem| {
        for (number, from, amount) in [(1, 0, 30), (2, 1, 50)] {
            transfer(pmem, (from, from + 1), amount, bug);
            pmem.acknowledge(number);
        }
    })
    .set_up(|pmem| (0..ACCOUNTS).for_each(|account| pmem.store(balance(account), 100)))
    .recovery(move |pmem| recover(pmem, bug))
    .invariant(|pmem, crashed| {
        let found = std::array::from_fn(|account| pmem.load(balance(account as u64)));
        let done = crashed.acknowledged.len();
        match STATES[done..].iter().take(2).any(|state| *state == found) {
            true => Ok(()),
            false => Err(format!("after {done} transfers the balances are {found:?}")),
        }
    })
    .label("first", balance(0))
    .label("second", balance(1))
    .label("third", balance(2))
    .label("valid", VALID)
    .label_range("log", LOG, 64)
}
