//! Right and wrong code over databases: what the checker finds, and how it reports it.

use std::collections::BTreeMap;

use strandline::{Database, Error, Persist, Result, Tx};
use strandline_check::{BadReplay, Check, Checked, Crashed, Db, Finding, FindingKind, OnDatabase, store};

fn found(check: &Check<'_, OnDatabase>) -> Finding {
    let finding = check.exhaustive().finding.expect("nothing was found");
    let again = check.replay(&finding.replay).unwrap().finding.expect("the replay shows nothing");
    assert_eq!((again.kind, &again.what, &again.history), (finding.kind, &finding.what, &finding.history));
    assert_eq!((&again.lost, &again.replay), (&finding.lost, &finding.replay));
    assert_eq!((&again.recovery, &again.tables), (&finding.recovery, &finding.tables));
    finding
}

/// Asserts that sampling also yields a finding, of the same kind.
fn sampled(check: &Check<'_, OnDatabase>, runs: u64, kind: FindingKind) {
    let finding = check.sampled(runs).finding.expect("sampling finds nothing");
    assert_eq!(finding.kind, kind, "{finding}");
    assert!(check.replay(&finding.replay).unwrap().finding.is_some());
}

const NAMES: [&str; 2] = ["ann", "bob"];

fn open_accounts(db: &Db<'_>) -> Checked {
    let accounts = db.table::<String, u64>("accounts")?;
    Ok(db.write(|tx| NAMES.iter().try_for_each(|name| accounts.insert(tx, *name, &100).map(drop)))?)
}

fn balances(db: &Database) -> Result<BTreeMap<String, u64>> {
    let accounts = db.table::<String, u64>("accounts")?;
    db.read(|tx| accounts.iter(tx)?.collect())
}

fn nothing_appears(db: &Db<'_>, _: &Crashed) -> Checked {
    match balances(db)?.values().sum() {
        200 => Ok(()),
        sum => Err(format!("the balances add up to {sum}").into()),
    }
}

/// Transfers money; a program's ordinary function, written without the checker in mind.
fn transfer(db: &Database, [from, to]: [&str; 2], amount: u64) -> Result<()> {
    let accounts = db.table::<String, u64>("accounts")?;
    db.write(|tx| {
        let (has, gets) = (accounts.get(tx, from)?.unwrap_or(0), accounts.get(tx, to)?.unwrap_or(0));
        accounts.insert(tx, from, &has.checked_sub(amount).ok_or(Error::Aborted)?)?;
        accounts.insert(tx, to, &(gets + amount)).map(drop)
    })
}

/// The line of the first transaction of `transfer_by_halves`.
const FIRST_HALF: u32 = line!() + 5;

/// Transfers money in two transactions.
fn transfer_by_halves(db: &Database, [from, to]: [&str; 2], amount: u64) -> Result<()> {
    let accounts = db.table::<String, u64>("accounts")?;
    db.write(|tx| {
        let has = accounts.get(tx, from)?.unwrap_or(0);
        accounts.insert(tx, from, &(has - amount)).map(drop)
    })?;
    db.write(|tx| {
        let has = accounts.get(tx, to)?.unwrap_or(0);
        accounts.insert(tx, to, &(has + amount)).map(drop)
    })
}

#[test]
fn transfers_in_one_transaction_are_right() {
    let bank = store(|db| {
        transfer(db, NAMES, 30)?;
        db.acknowledge(0);
        transfer(db, ["bob", "ann"], 20)?;
        db.acknowledge(1);
        // A refused transfer changes nothing.
        assert!(transfer(db, NAMES, 1000).is_err());
        Ok(())
    })
    .set_up(open_accounts)
    .invariant(nothing_appears)
    .invariant(|db, crashed| {
        let ann = balances(db)?["ann"];
        let may: &[u64] = [&[100, 70, 90][..], &[70, 90], &[90]][crashed.acknowledged.len()];
        if may.contains(&ann) { Ok(()) } else { Err(format!("{crashed:?}, and ann has {ann}").into()) }
    });
    let outcome = bank.exhaustive();
    outcome.assert_clean();
    assert!(outcome.counts.states >= 3, "{:?}", outcome.counts);
    bank.sampled(10).assert_clean();
}

#[test]
fn a_transfer_in_two_transactions_is_found() {
    let bank = store(|db| Ok(transfer_by_halves(db, NAMES, 30)?)).set_up(open_accounts);
    let bank = bank.invariant(nothing_appears);
    let finding = found(&bank);
    assert_eq!(finding.kind, FindingKind::NotAtomic, "{finding}");
    assert_eq!(finding.what, "the balances add up to 170");
    let first = format!("thread 0: transaction 1 ({}:{FIRST_HALF}): accounts[\"ann\"]: 100 → 70", file!());
    assert_eq!(finding.history, [first, "power fails".into()]);
    assert_eq!(finding.lost, [""; 0]);
    assert_eq!(finding.tables, [r#"accounts["ann"] = 70"#, r#"accounts["bob"] = 100"#]);
    sampled(&bank, 10, FindingKind::NotAtomic);
}

/// The line of the transactions of `order_later`.
const ORDERED: u32 = line!() + 5;

/// Makes three orders and waits for the first one's ticket, for the last one's, or for none.
fn order_later(db: &Db<'_>, waits_for: Option<usize>) -> Checked {
    let orders = db.queue::<u64>("orders")?;
    let tickets = (0..3).map(|order| db.later().write(|tx| orders.push(tx, &order)));
    let tickets = tickets.map(|done| done.map(|(_, ticket)| ticket)).collect::<Result<Vec<_>>>()?;
    if let Some(which) = waits_for {
        tickets[which].wait()?;
    }
    (0..3).for_each(|order| db.acknowledge(order));
    Ok(())
}

fn all_orders(db: &Db<'_>, crashed: &Crashed) -> Checked {
    let orders = db.queue::<u64>("orders")?;
    let orders: Vec<u64> = db.read(|tx| orders.iter(tx)?.collect())?;
    match crashed.acknowledged.iter().find(|order| !orders.contains(order)) {
        None => Ok(()),
        Some(order) => Err(format!("order {order} was acknowledged and is lost").into()),
    }
}

#[test]
fn a_ticket_that_is_not_waited_for_is_found() {
    let set_up = |db: &Db<'_>| Ok(db.queue::<u64>("orders").map(drop)?);
    let shop = |waits_for| store(move |db| order_later(db, waits_for)).set_up(set_up).invariant(all_orders);
    shop(Some(2)).exhaustive().assert_clean();
    let none = shop(None);
    let finding = found(&none);
    assert_eq!(finding.kind, FindingKind::NotDurable, "{finding}");
    assert_eq!(finding.lost.len(), 3, "{finding}");
    assert!(finding.lost[0].ends_with("orders: [] → [0]"), "{finding}");
    // The finding shows the database after that crash, not after others that were tried.
    assert_eq!(finding.tables, [""; 0], "{finding}");
    sampled(&none, 10, FindingKind::NotDurable);
    // The wait for the first order does not cover the others.
    let finding = found(&shop(Some(0)));
    assert_eq!(finding.kind, FindingKind::NotDurable, "{finding}");
    assert_eq!(finding.what, "order 1 was acknowledged and is lost");
    assert!(finding.lost[0].ends_with("orders: [0] → [0, 1]"), "{finding}");
    assert_eq!(finding.tables, ["orders = [0]"], "{finding}");
    let lines = [finding.places.store, finding.places.crash].map(|place| place.unwrap().line());
    assert_eq!(lines, [ORDERED, ORDERED + 5], "{finding}");
}

#[test]
fn who_has_read_what_is_not_durable_waits_for_it() {
    let shop = |reads: bool| {
        store(move |db| {
            let (orders, other) = (db.queue::<u64>("orders")?, db.table::<u64, u64>("other")?);
            let _ticket = db.later().write(|tx| orders.push(tx, &0))?;
            let is_empty = db.read(|tx| if reads { orders.is_empty(tx) } else { other.is_empty(tx) })?;
            assert_eq!(is_empty, !reads);
            db.acknowledge(0);
            Ok(())
        })
        .set_up(|db| {
            db.queue::<u64>("orders")?;
            Ok(db.table::<u64, u64>("other").map(drop)?)
        })
        .invariant(all_orders)
    };
    shop(true).exhaustive().assert_clean();
    assert_eq!(found(&shop(false)).kind, FindingKind::NotDurable);
}

#[derive(Persist)]
struct Order {
    customer: String,
    item: u64,
}

#[test]
fn two_tables_that_belong_together_are_written_together() {
    let shop = |together: bool| {
        store(move |db| {
            let (orders, stock) = (db.table::<u64, Order>("orders")?, db.table::<u64, u64>("stock")?);
            for number in 0..2 {
                let order = Order { customer: "ann".into(), item: 7 };
                let take = |tx: &Tx<'_>| {
                    let left = stock.get(tx, &7)?.unwrap_or(0);
                    stock.insert(tx, &7, &(left - 1)).map(drop)
                };
                if together {
                    db.write(|tx| orders.insert(tx, &number, &order).and_then(|_| take(tx)))?;
                } else {
                    db.write(|tx| orders.insert(tx, &number, &order).map(drop))?;
                    db.write(take)?;
                }
            }
            Ok(())
        })
        .set_up(|db| {
            db.table::<u64, Order>("orders")?;
            let stock = db.table::<u64, u64>("stock")?;
            Ok(db.write(|tx| stock.insert(tx, &7, &10).map(drop))?)
        })
        .invariant(|db, _| {
            let (orders, stock) = (db.table::<u64, Order>("orders")?, db.table::<u64, u64>("stock")?);
            let (sold, left) = db.read(|tx| Ok((orders.len(tx)?, stock.get(tx, &7)?.unwrap_or(0))))?;
            let items =
                db.read(|tx| orders.iter(tx)?.map(|row| Ok(row?.1.item)).collect::<Result<Vec<_>>>())?;
            assert!(items.iter().all(|&item| item == 7));
            if sold + left == 10 { Ok(()) } else { Err(format!("{sold} sold, {left} left of 10").into()) }
        })
    };
    shop(true).exhaustive().assert_clean();
    let finding = found(&shop(false));
    assert_eq!((finding.kind, &finding.what[..]), (FindingKind::NotAtomic, "1 sold, 10 left of 10"));
    assert_eq!(finding.tables[0], r#"orders[0] = { customer: "ann", item: 7 }"#);
}

/// Recovery works through a list: it adds 1 for each entry and removes the entry, in one transaction or in two.
fn to_do<'a>(together: bool) -> Check<'a, OnDatabase> {
    fn done(db: &Database) -> Result<u64> {
        let numbers = db.table::<String, u64>("numbers")?;
        db.read(|tx| Ok(numbers.get(tx, "done")?.unwrap_or(0)))
    }
    store(|db| {
        let to_do = db.queue::<u64>("to do")?;
        db.write(|tx| to_do.push(tx, &1))?;
        db.acknowledge(1);
        Ok(())
    })
    .set_up(|db| {
        db.queue::<u64>("to do")?;
        Ok(db.table::<String, u64>("numbers").map(drop)?)
    })
    .recovery(move |db| {
        let (to_do, numbers) = (db.queue::<u64>("to do")?, db.table::<String, u64>("numbers")?);
        while let Some(number) = db.read(|tx| to_do.front(tx))? {
            let sum = done(db)? + number;
            if together {
                db.write(|tx| {
                    numbers.insert(tx, "done", &sum)?;
                    to_do.pop(tx).map(drop)
                })?;
            } else {
                db.write(|tx| numbers.insert(tx, "done", &sum).map(drop))?;
                db.write(|tx| to_do.pop(tx).map(drop))?;
            }
        }
        Ok(())
    })
    .invariant(|db, crashed| {
        let done = done(db)?;
        let is_right = done == 1 || (done == 0 && crashed.acknowledged.is_empty());
        if is_right { Ok(()) } else { Err(format!("done: {done}").into()) }
    })
}

#[test]
fn a_recovery_that_is_not_idempotent_is_found() {
    let outcome = to_do(true).exhaustive();
    outcome.assert_clean();
    assert!(outcome.counts.nested > 0);
    let finding = found(&to_do(false));
    assert_eq!(finding.kind, FindingKind::NonIdempotentRecovery, "{finding}");
    assert!(finding.what.starts_with("done: 2"), "{finding}");
    assert_eq!(finding.lost, [""; 0], "{finding}");
    assert_eq!(finding.tables, [r#"numbers["done"] = 2"#], "{finding}");
    assert!(finding.recovery[0].ends_with(r#"numbers["done"] = 1"#), "{finding}");
    assert!(finding.recovery[1].starts_with("power fails in recovery"), "{finding}");
    assert!(finding.recovery[2].ends_with(r#"numbers["done"]: 1 → 2"#), "{finding}");
    to_do(false).crashes_in_recovery(0).exhaustive().assert_clean();
}

#[test]
fn a_recovery_that_fails_is_found() {
    let check = to_do(true).recovery(|db| {
        let to_do = db.queue::<u64>("to do")?;
        if db.read(|tx| to_do.is_empty(tx))? { Ok(()) } else { Err("there is something to do".into()) }
    });
    let finding = found(&check);
    assert_eq!(finding.kind, FindingKind::FailingRecovery, "{finding}");
    assert_eq!(finding.what, "recovery stops: it fails: there is something to do");
}

/// Two threads count, in one transaction or by reading in one and writing in another.
fn counters<'a>(together: bool) -> Check<'a, OnDatabase> {
    store(move |db| {
        let counters = db.table::<String, u64>("counters")?;
        if together {
            db.write(|tx| {
                let count = counters.get(tx, "all")?.unwrap_or(0);
                counters.insert(tx, "all", &(count + 1)).map(drop)
            })?;
        } else {
            let count = db.read(|tx| counters.get(tx, "all"))?.unwrap_or(0);
            db.write(|tx| counters.insert(tx, "all", &(count + 1)).map(drop))?;
        }
        db.acknowledge(db.thread() as u64);
        Ok(())
    })
    .set_up(|db| Ok(db.table::<String, u64>("counters").map(drop)?))
    .threads(2)
    .invariant(|db, crashed| {
        let counters = db.table::<String, u64>("counters")?;
        let count = db.read(|tx| counters.get(tx, "all"))?.unwrap_or(0);
        if count < crashed.acknowledged.len() as u64 {
            Err(format!("a count is lost: {count}").into())
        } else {
            Ok(())
        }
    })
}

#[test]
fn threads_are_interleaved() {
    let outcome = counters(true).exhaustive();
    outcome.assert_clean();
    assert!(outcome.counts.histories > 2, "{:?}", outcome.counts);
    counters(true).sampled(200).assert_clean();
    counters(true).threads(3).preemptions(1).exhaustive().assert_clean();
    let finding = found(&counters(false));
    assert_eq!(finding.kind, FindingKind::Race, "{finding}");
    assert_eq!(finding.what, "a count is lost: 1");
    counters(false).preemptions(0).exhaustive().assert_clean();
    sampled(&counters(false), 200, FindingKind::Race);
    assert_eq!(
        counters(true).replay(&found(&transfers()).replay).unwrap_err(),
        BadReplay::Threads { found: 1, threads: 2 }
    );
}

fn transfers<'a>() -> Check<'a, OnDatabase> {
    store(|db| Ok(transfer_by_halves(db, NAMES, 30)?)).set_up(open_accounts).invariant(nothing_appears)
}

#[test]
fn what_others_have_not_made_durable_is_acknowledged_by_nobody() {
    // Each thread pushes later, and only the second one waits.
    let shop = |waits: bool| {
        store(move |db| {
            let orders = db.queue::<u64>("orders")?;
            let order = db.thread() as u64;
            let (_, ticket) = db.later().write(|tx| orders.push(tx, &order))?;
            if waits || order == 1 {
                ticket.wait()?;
            }
            db.acknowledge(order);
            Ok(())
        })
        .threads(2)
        .set_up(|db| Ok(db.queue::<u64>("orders").map(drop)?))
        .invariant(all_orders)
    };
    shop(true).exhaustive().assert_clean();
    let finding = found(&shop(false));
    assert_eq!(
        (finding.kind, &finding.what[..]),
        (FindingKind::NotDurable, "order 0 was acknowledged and is lost")
    );
}

#[test]
fn a_model_says_what_there_must_be() {
    let check = |is_right: bool| {
        let scores = store(move |db| {
            let scores = db.table::<u64, u64>("scores")?;
            for number in 0..4 {
                if is_right || number != 2 {
                    db.write(|tx| scores.insert(tx, &(number % 3), &number).map(drop))?;
                } else {
                    db.write(|tx| scores.remove(tx, &(number % 3)).map(drop))?;
                }
                db.acknowledge(number);
            }
            Ok(())
        });
        scores.set_up(|db| Ok(db.table::<u64, u64>("scores").map(drop)?)).model(
            BTreeMap::new(),
            |scores, number| {
                scores.insert(number % 3, number);
            },
            |db| {
                let scores = db.table::<u64, u64>("scores")?;
                Ok(db.read(|tx| scores.iter(tx)?.collect::<Result<BTreeMap<_, _>>>())?)
            },
        )
    };
    check(true).exhaustive().assert_clean();
    let finding = found(&check(false));
    assert!(finding.what.contains("the first 3 operations were acknowledged"), "{finding}");
    assert!(finding.what.contains("{0: 0, 1: 1, 2: 2}"), "{finding}");
}

#[test]
fn programs_that_stop_are_found() {
    let fails = store(|db| Ok(transfer(db, NAMES, 500)?)).set_up(open_accounts);
    let finding = found(&fails);
    assert_eq!(finding.kind, FindingKind::Panic);
    assert!(finding.what.starts_with("thread 0 fails: "), "{finding}");
    let panics = store(|db| {
        transfer(db, NAMES, 5)?;
        db.write(|_| -> Result<()> { panic!("inside") })?;
        Ok(())
    });
    let finding = found(&panics.set_up(open_accounts));
    assert!(finding.kind == FindingKind::Panic && finding.what.starts_with("inside ("), "{finding}");
    assert_eq!(finding.history.len(), 1);
    let inside = store(|db| {
        let accounts = db.table::<String, u64>("accounts")?;
        Ok(db.write(|tx| {
            db.acknowledge(7);
            accounts.insert(tx, "ann", &1).map(drop)
        })?)
    });
    let finding = found(&inside);
    assert!(finding.what.starts_with("7 is acknowledged inside a transaction's closure"), "{finding}");
    let nested = store(|db| {
        db.write(|_| {
            assert!(matches!(db.read(|_| Ok(())), Err(Error::Nested)));
            Ok(())
        })?;
        Ok(())
    });
    nested.exhaustive().assert_clean();
    let waits = store(|db| {
        let accounts = db.table::<String, u64>("accounts")?;
        while db.read(|tx| accounts.is_empty(tx))? {
            db.pause();
        }
        Ok(())
    });
    assert_eq!(found(&waits).kind, FindingKind::Deadlock);
}

#[test]
fn snapshots_compaction_and_threads_of_its_own() {
    let check = store(|db| {
        let orders = db.queue::<u64>("orders")?;
        let _ticket = db.later().write(|tx| orders.push(tx, &0))?;
        // The program waits for what it reads.
        let snapshot = db.snapshot()?;
        assert!(!orders.is_empty(&snapshot.read())?);
        db.acknowledge(0);
        db.compact()?;
        let (_, ticket) = db.later().write(|tx| orders.push(tx, &1))?;
        assert!(ticket.is_durable()?);
        db.acknowledge(1);
        let database: &Database = db;
        let other = std::thread::scope(|scope| scope.spawn(|| database.read(|_| Ok(()))).join());
        assert!(
            other.unwrap_err().downcast_ref::<String>().is_none_or(|what| what.contains("with `threads`"))
        );
        Ok(())
    });
    check.invariant(all_orders).exhaustive().assert_clean();
}

#[test]
fn what_a_judge_panics_with_is_a_finding() {
    let check = transfers().invariant(|db, _| {
        assert_eq!(balances(db)?["ann"], 100, "ann has less");
        Ok(())
    });
    assert!(
        found(&check).what.contains("the balances add up to") || found(&check).what.contains("ann has less")
    );
}

#[test]
#[should_panic(expected = "the set-up of the database that is checked fails: ")]
fn a_wrong_set_up_says_so() {
    store(|_| Ok(())).set_up(|_| Err("there is no such account".into())).exhaustive().assert_clean();
}

#[test]
#[should_panic(expected = "the set-up of the database that is checked stops: no accounts")]
fn a_set_up_that_panics_says_so() {
    store(|_| Ok(())).set_up(|_| panic!("no accounts")).exhaustive().assert_clean();
}

#[test]
#[should_panic(expected = "give it an invariant instead")]
fn a_model_is_of_one_thread() {
    store(|_| Ok(())).model((), |(), _| (), |_| Ok(())).threads(2).exhaustive().assert_clean();
}

#[test]
fn what_is_too_much_is_said() {
    let check = store(|db| {
        let numbers = db.table::<u64, u64>("numbers")?;
        (0..2000).try_for_each(|number| db.write(|tx| numbers.insert(tx, &number, &0).map(drop)))?;
        Ok(())
    });
    let finding = check.exhaustive().finding.unwrap();
    assert!(finding.what.contains("too many to check"), "{finding}");
    let texts = |count: u64, bytes: usize| {
        store(move |db| {
            let texts = db.table::<u64, String>("texts")?;
            Ok((0..count)
                .try_for_each(|n| db.write(|tx| texts.insert(tx, &n, &"x".repeat(bytes)).map(drop)))?)
        })
    };
    let finding = texts(1000, 10_000).bytes(4 << 20).exhaustive().finding.unwrap();
    assert!(finding.what.starts_with("thread 0 fails: ") && finding.what.contains("full"), "{finding}");
    let finding = texts(1, 200_000).exhaustive().finding.unwrap();
    assert!(
        finding.what.starts_with("thread 0 fails: ") && finding.what.contains("transaction"),
        "{finding}"
    );
    texts(1, 200_000).bytes(64 << 20).exhaustive().assert_clean();
}
