//! The twelve tasks of `docs/first-week.md`, written as by somebody who knows only the guide: without type annotations that the compiler does not
//! need, without unsafe code, and without taking handles apart.

use std::collections::BTreeMap;

use strandline::{
    Database, DatabaseSnapshot, Domain, Error, Geometry, Key, OldFiles, Options, Persist, Table, Tx,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn task_1_count_visits_over_restarts() -> strandline::Result<()> {
    let folder = folder();
    for run in 1..=3 {
        let db = Database::open(folder.path().join("visits.db"))?;
        let visits = db.table::<String, u64>("visits")?;
        let count = db.write(|tx| visits.entry(tx, "home".into())?.and_modify(|n| *n += 1)?.or_insert(1))?;
        assert_eq!(count, run);
        db.close()?;
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Reading {
    level: f64,
    note: Option<String>,
    tags: Vec<String>,
}

#[derive(Clone, Key)]
struct At {
    place: String,
    hour: u64,
}

#[test]
fn task_2_look_up_structs_by_place_and_time() -> strandline::Result<()> {
    let db = Database::in_memory()?;
    let readings = db.table::<At, _>("readings")?;
    let reading = |level| Reading { level, note: None, tags: vec!["tide".into()] };
    db.write(|tx| {
        for hour in 0..24 {
            readings.insert(tx, &At { place: "Bergen".into(), hour }, &reading(hour as f64))?;
        }
        readings.insert(
            tx,
            &At { place: "Oslo".into(), hour: 3 },
            &Reading { note: Some("calm".into()), ..reading(0.5) },
        )
    })?;
    let at = |hour| At { place: "Bergen".into(), hour };
    let morning = db.read(|tx| {
        readings.range(tx, at(6)..at(12))?.map(|row| Ok(row?.1.level)).collect::<Result<Vec<_>, Error>>()
    })?;
    assert_eq!(morning, [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    let latest = db.read(|tx| readings.range(tx, at(0)..=at(23))?.next_back().transpose())?;
    assert_eq!(latest.map(|(key, _)| key.hour), Some(23));
    Ok(())
}

#[test]
fn task_3_limit_memory_and_refuse_a_wrong_file() -> strandline::Result<()> {
    let folder = folder();
    let path = folder.path().join("shop.db");
    let options = Options { layout_name: "shop".into(), memory: Some(64 << 20), ..Options::default() };
    Database::open_with(&path, &options)?.close()?;
    let other = Options { layout_name: "diary".into(), ..options };
    let refused = Database::open_with(&path, &other);
    assert!(matches!(refused, Err(Error::WrongLayout { .. })));
    let missing = Database::open_existing(folder.path().join("shpo.db"), &other);
    assert!(
        matches!(missing, Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound)
    );
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0} has no account")]
    NoAccount(String),
    #[error("only {0} are left")]
    NotEnough(u64),
    #[error(transparent)]
    Database(#[from] Error),
}

fn transfer(
    tx: &Tx,
    accounts: &Table<String, u64>,
    from: &str,
    to: &str,
    amount: u64,
) -> Result<(), Refusal> {
    let balance = accounts.get(tx, from)?.ok_or_else(|| Refusal::NoAccount(from.into()))?;
    accounts.insert(tx, from, &balance.checked_sub(amount).ok_or(Refusal::NotEnough(balance))?)?;
    let balance = accounts.get(tx, to)?.ok_or_else(|| Refusal::NoAccount(to.into()))?;
    accounts.insert(tx, to, &(balance + amount))?;
    Ok(())
}

#[test]
fn task_4_move_money_or_refuse_it_whole() -> Result<(), Refusal> {
    let db = Database::in_memory()?;
    let accounts = db.table("accounts")?;
    db.write(|tx| {
        accounts.insert(tx, "ann", &10)?;
        accounts.insert(tx, "bob", &0)
    })?;
    db.write_with_error(|tx| transfer(tx, &accounts, "ann", "bob", 7))?;
    let refused = db.write_with_error(|tx| transfer(tx, &accounts, "ann", "bob", 7));
    assert!(matches!(refused, Err(Refusal::NotEnough(3))));
    // Ann's account was changed before Eve's was found missing, and has its old value again.
    let refused = db.write_with_error(|tx| transfer(tx, &accounts, "ann", "eve", 1));
    assert!(matches!(refused, Err(Refusal::NoAccount(name)) if name == "eve"));
    let balances = db.read(|tx| accounts.iter(tx)?.collect::<Result<Vec<_>, _>>())?;
    assert_eq!(balances, [("ann".into(), 3), ("bob".into(), 7)]);
    Ok(())
}

#[test]
fn task_5_count_words_with_eight_threads() -> strandline::Result<()> {
    let db = Database::in_memory()?;
    let words = db.table::<String, u64>("words")?;
    let text = "the sea the shore the tide";
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (db, words) = (db.clone(), words.clone());
            std::thread::spawn(move || {
                for word in text.split(' ') {
                    db.write(|tx| words.entry(tx, word.to_string())?.and_modify(|n| *n += 1)?.or_insert(1))?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap()?;
    }
    let counts = db.read(|tx| words.iter(tx)?.collect::<Result<BTreeMap<_, _>, _>>())?;
    assert_eq!(
        counts.iter().map(|(word, n)| (word.as_str(), *n)).collect::<Vec<_>>(),
        [("sea", 8), ("shore", 8), ("the", 24), ("tide", 8)]
    );
    db.close()
}

#[test]
fn task_6_take_a_job_and_store_its_result() -> strandline::Result<()> {
    let db = Database::in_memory()?;
    let (jobs, results) = (db.queue("jobs")?, db.table::<u64, _>("results")?);
    db.write(|tx| (1..=3u64).try_for_each(|number| jobs.push(tx, &(number, format!("job {number}")))))?;
    let work = |is_working| {
        db.write(|tx| {
            let Some((number, text)) = jobs.pop(tx)? else { return Ok(false) };
            results.insert(tx, &number, &text.len())?;
            if is_working { Ok(true) } else { Err(Error::Aborted) }
        })
    };
    assert!(work(true)?);
    assert!(matches!(work(false), Err(Error::Aborted)));
    assert_eq!(db.read(|tx| jobs.front(tx))?.map(|(number, _)| number), Some(2));
    while work(true)? {}
    assert_eq!(db.read(|tx| results.len(tx))?, 3);
    Ok(())
}

/// An export that another thread reads later.
struct Export {
    at: DatabaseSnapshot,
    names: Table<u64, String>,
}

#[test]
fn task_7_export_while_others_write() -> strandline::Result<()> {
    let db = Database::in_memory()?;
    let names = db.table::<u64, _>("names")?;
    db.write(|tx| (0..1000).try_for_each(|n| names.insert(tx, &n, &format!("name {n}")).map(drop)))?;
    let export = Export { at: db.snapshot()?, names: names.clone() };
    let exporting = std::thread::spawn(move || {
        export.at.rows(&export.names).map(|row| Ok(row?.0)).collect::<Result<Vec<_>, Error>>()
    });
    for n in 0..1000 {
        db.write(|tx| names.remove(tx, &n))?;
    }
    assert_eq!(exporting.join().unwrap()?, (0..1000).collect::<Vec<_>>());
    assert!(db.read(|tx| names.is_empty(tx))?);
    Ok(())
}

#[test]
fn task_8_load_many_rows_and_page_backwards() -> strandline::Result<()> {
    let db = Database::in_memory()?;
    let articles = db.table::<u64, String>("articles")?;
    db.write(|tx| articles.load(tx, (0..50_000u64).map(|n| (n, format!("article {n}")))))?;
    // Returns the page of ten articles before a given one, newest first.
    let page = |before| {
        db.read(|tx| {
            articles
                .range(tx, ..before)?
                .rev()
                .take(10)
                .map(|row| Ok(row?.0))
                .collect::<Result<Vec<_>, Error>>()
        })
    };
    assert_eq!(page(50_000)?, (49_990..50_000).rev().collect::<Vec<_>>());
    assert_eq!(page(5)?, [4, 3, 2, 1, 0]);
    Ok(())
}

mod before {
    #[derive(strandline::Persist)]
    pub struct Book {
        pub name: String,
        pub pages: u16,
    }
}

#[derive(Debug, PartialEq, Persist)]
#[persist(version = 2)]
struct Book {
    #[persist(was = "name")]
    title: String,
    pages: u32,
    #[persist(default)]
    authors: Vec<String>,
}

#[test]
fn task_9_change_a_struct_and_a_key() -> strandline::Result<()> {
    let folder = folder();
    let path = folder.path().join("books.db");
    let db = Database::open(&path)?;
    let books = db.table::<u64, _>("books")?;
    db.write(|tx| books.insert(tx, &7u64, &before::Book { name: "Tides".into(), pages: 320 }))?;
    db.close()?;

    // The next release of the program.
    let db = Database::open(&path)?;
    let books = db.table::<u64, _>("books")?;
    let tides = db.read(|tx| books.get(tx, &7u64))?;
    assert_eq!(tides, Some(Book { title: "Tides".into(), pages: 320, authors: vec![] }));
    // The release after that has the articles by title.
    let by_title = db.migrate(
        "books",
        |number: u64, book: Book| Ok(Some((book.title.clone(), (number, book)))),
        |_| {},
    )?;
    assert_eq!(db.read(|tx| by_title.get(tx, "Tides"))?.map(|(number, _)| number), Some(7));
    assert!(matches!(db.read(|tx| books.get(tx, &7)), Err(Error::NoTable { .. })));
    Ok(())
}

#[test]
fn task_10_back_up_and_restore() -> strandline::Result<()> {
    let folder = folder();
    let (path, backup) = (folder.path().join("shop.db"), folder.path().join("monday.db"));
    let db = Database::open(&path)?;
    let sold = db.table::<String, u64>("sold")?;
    db.write(|tx| sold.insert(tx, "bolt", &7))?;
    db.backup(&backup)?;
    db.write(|tx| sold.clear(tx))?; // a mistake
    db.close()?;

    let report = Database::restore(&backup, &path, OldFiles::Keep)?;
    let db = Database::open(&path)?;
    let sold = db.table::<String, u64>("sold")?;
    assert_eq!(db.read(|tx| sold.get(tx, "bolt"))?, Some(7));
    assert!(db.check()?.is_empty());
    let old = Database::open(&report.kept[0])?;
    assert!(old.table::<String, u64>("sold").and_then(|sold| old.read(|tx| sold.is_empty(tx)))?);
    Ok(())
}

#[test]
fn task_11_say_how_the_database_is() -> strandline::Result<()> {
    let folder = folder();
    let db = Database::open(folder.path().join("shop.db"))?;
    let sold = db.table::<String, u64>("sold")?;
    db.write(|tx| sold.insert(tx, "bolt", &7))?;
    let _snapshot = db.snapshot()?;
    let (usage, space) = (db.usage()?, db.space()?);
    let status = format!(
        "{} of {} bytes in use, {} on disk, tables: {:?}, {} snapshots, {} transactions recovered",
        usage.allocated_bytes,
        usage.total_bytes,
        space.disk_bytes,
        db.list()?
            .iter()
            .map(|table| format!("{}: {} -> {}", table.name, table.key, table.value))
            .collect::<Vec<_>>(),
        db.snapshot_usage()?.snapshots,
        db.recovery().replayed(),
    );
    assert!(status.contains("[\"sold: String -> u64\"], 1 snapshots, 0 transactions recovered"), "{status}");
    Ok(())
}

#[test]
fn task_12_go_on_after_failures() -> strandline::Result<()> {
    let folder = folder();
    let path = folder.path().join("small.db");
    let geometry = Geometry { size: 16 << 20, logs: 2, ..Geometry::default() };
    let options = Options { geometry, domain: Domain::Process, ..Options::default() };
    let db = Database::open_with(&path, &options)?;
    let second = Database::open_with(&path, &options);
    assert!(matches!(second, Err(Error::Locked { .. })));

    let rows = db.table::<u64, _>("rows")?;
    let mut stored = 0u64;
    let full = loop {
        match db.write(|tx| rows.insert(tx, &stored, &"x".repeat(100_000))) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert_eq!(db.read(|tx| rows.len(tx))?, stored);
    // Makes room, and continues.
    db.write(|tx| rows.drain(tx, ..stored / 2)?.try_for_each(|row| row.map(drop)))?;
    db.write(|tx| rows.insert(tx, &stored, &"y".repeat(50_000)))?;

    // Events, which need not be durable one by one.
    let events = db.queue("events")?;
    let mut last = None;
    for number in 0..100u64 {
        last = Some(db.later().write(|tx| events.push(tx, &number))?.1);
    }
    if let Some(ticket) = last {
        ticket.wait()?;
    }
    db.close()?;
    assert!(matches!(db.read(|tx| rows.len(tx)), Err(Error::Closed)));
    Ok(())
}
