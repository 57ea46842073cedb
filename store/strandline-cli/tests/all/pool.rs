//! `strandline pool`, as a user runs it.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use strandline_core::{Domain, Options, Pool, Read, Runner, Transaction};

/// Asserts that a run ends with this exit code, and returns its output.
#[track_caller]
fn ends(arguments: &[&str], code: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline")).arg("pool").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(!err.contains("panicked"), "{err}");
    out + &err
}

fn create(folder: &Path, domain: &str) -> String {
    let path = folder.join(domain).display().to_string();
    ends(&["create", &path, "--size", "4M", "--logs", "2", "--log-size", "64K", "--domain", domain], 0);
    path
}

fn damage(path: &str, at: u64, bytes: &[u8]) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn what_loses_nothing_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), "process");
    assert!(ends(&["check", &path], 0).contains("no damage found"));
    let whole = std::fs::read(&path).unwrap();
    // Damages the magic number.
    damage(&path, 0, &[0; 8]);
    let damaged = std::fs::read(&path).unwrap();
    assert!(ends(&["info", &path], 1).contains("not a Strandline pool"));
    ends(&["check", &path], 1);
    assert_eq!(std::fs::read(&path).unwrap(), damaged, "only looked at");

    let told = ends(&["check", &path, "--repair"], 0);
    assert!(told.contains("repaired") && told.contains("no damage found"), "{told}");
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    let kept: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains(".damaged"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(std::fs::read(&kept[0]).unwrap(), damaged, "the file as it was");
    assert!(ends(&["check", &path, "--repair"], 0).contains("no damage found"), "nothing is left to repair");
}

#[test]
fn what_would_lose_something_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), "process");
    // Writes an impossible state, from which nobody can tell who had the pool in use.
    damage(&path, 3 * 4096, &[0xff; 8]);
    let damaged = std::fs::read(&path).unwrap();
    let told = ends(&["check", &path, "--repair"], 1);
    assert!(told.contains("backup"), "says what to do: {told}");
    assert_eq!(std::fs::read(&path).unwrap(), damaged);
    ends(&["check", &folder.path().join("nothing").display().to_string(), "--repair"], 2);
}

#[test]
fn a_backup_is_a_pool_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for domain in ["sync", "process"] {
        let (path, copy) = (create(folder.path(), domain), folder.path().join(format!("copy of {domain}")));
        let copy = copy.display().to_string();
        assert!(ends(&["backup", &path, &copy], 0).contains("copied"));
        assert!(ends(&["check", &copy], 0).contains("no damage found"));
        assert!(ends(&["backup", &path, &copy], 2).contains("exist"), "nothing is overwritten");
        assert!(
            !Path::new(&format!("{copy}.log")).exists() && !Path::new(&format!("{copy}.partial")).exists()
        );
    }
}

#[test]
fn an_emptied_pool_gives_its_space_back() {
    let folder = tempfile::tempdir().unwrap();
    for domain in ["sync", "process"] {
        let path = folder.path().join(domain).display().to_string();
        ends(&["create", &path, "--size", "64M", "--logs", "2", "--log-size", "64K", "--domain", domain], 0);
        let options = Options { domain: Domain::Process, ..Options::default() };
        let pool = Pool::open(&path, &options).unwrap();
        let mut worker = pool.worker().unwrap();
        let blocks: Vec<_> = (0..9000).map(|_| worker.run(|tx| tx.alloc(3000)).unwrap()).collect();
        for block in blocks {
            worker.run(|tx| tx.free(block)).unwrap();
        }
        assert!(ends(&["compact", &path], 3).contains("in use"), "somebody has it open");
        drop(worker);
        pool.close().unwrap();
        if domain == "sync" {
            ends(&["resize-log", &path, "16M"], 0);
        }
        let field = |text: &str, name: &str| {
            let object: serde_json::Value = serde_json::from_str(text).unwrap();
            object[name].as_u64().unwrap()
        };
        assert!(field(&ends(&["info", &path, "--json"], 0), "disk_bytes") > 26 << 20);
        assert!(field(&ends(&["compact", &path, "--json"], 0), "disk_bytes_before") > 26 << 20);
        assert!(field(&ends(&["info", &path, "--json"], 0), "disk_bytes") < 8 << 20);
        assert!(
            std::fs::metadata(&path).unwrap().len() < 4 << 20,
            "the file ends where there is something in it"
        );
        let log = std::fs::metadata(format!("{path}.log")).map_or(0, |log| log.len());
        assert!(log <= (4 << 20) + 4096, "{log}");
        assert!(ends(&["check", &path], 0).contains("no damage found"));
    }
}

#[test]
fn a_pool_needs_no_size_and_its_log_gets_another() {
    use std::os::unix::fs::MetadataExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool").display().to_string();
    assert!(ends(&["create", &path], 0).contains("at most"));
    let log = format!("{path}.log");
    let on_disk = [&path, &log].map(|file| 512 * std::fs::metadata(file).unwrap().blocks());
    assert!(on_disk.iter().sum::<u64>() < 8 << 20, "{on_disk:?}");
    for (size, bytes) in [("16M", 16 << 20), ("256K", 256 << 10)] {
        ends(&["resize-log", &path, size], 0);
        assert_eq!(std::fs::metadata(&log).unwrap().len(), bytes + 4096);
        assert!(ends(&["info", &path], 0).contains(&format!("{bytes} bytes")));
        assert!(ends(&["check", &path], 0).contains("no damage found"));
    }
    // A pool that was not closed needs its log.
    let options = Options { domain: Domain::Sync, ..Options::default() };
    let pool = Pool::open(&path, &options).unwrap();
    assert!(ends(&["resize-log", &path, "1M"], 3).contains("in use"));
    let mut worker = pool.worker().unwrap();
    worker.run(|tx| tx.alloc(64)).unwrap();
    drop(pool);
    drop(worker);
    assert!(ends(&["resize-log", &path, "1M"], 2).contains("recover"));
    assert!(ends(&["resize-log", &path, "4K"], 2).contains("from 12K to 1T, a multiple of 4K"));
    assert_eq!(Pool::open(&path, &options).unwrap().usage().unwrap().objects, 1);
}

#[test]
fn a_pool_with_checksums_notices_what_others_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = create(folder.path(), "sync");
    let options = Options { domain: Domain::Sync, ..Options::default() };
    let pool = Pool::open(&path, &options).unwrap();
    let block = pool
        .worker()
        .unwrap()
        .run(|tx| {
            let block = tx.alloc(64)?;
            tx.write(block, 7)?;
            tx.write(tx.root(1), block.offset())?;
            Ok(block)
        })
        .unwrap();
    assert!(ends(&["checksum", &path], 3).contains("in use"));
    pool.close().unwrap();
    assert!(ends(&["checksum", &path], 0).contains("sync.sums"));
    assert!(ends(&["check", &path], 0).contains("no damage found"));
    damage(&path, block.offset(), &[8]);
    let found = ends(&["check", &path], 1);
    assert!(found.contains("are not what was written there"), "{found}");
    let backup = folder.path().join("backup").display().to_string();
    let refused = ends(&["backup", &path, &backup], 1);
    assert!(refused.contains("no copy is made"), "{refused}");
    damage(&path, block.offset(), &[7]);
    ends(&["backup", &path, &backup], 0);
    assert!(ends(&["check", &backup], 0).contains("no damage found"));
    assert!(std::fs::exists(format!("{backup}.sums")).unwrap());
}

#[derive(strandline::Persist)]
struct Person {
    name: String,
    born: Option<u16>,
    likes: Vec<Like>,
}

#[derive(strandline::Persist)]
enum Like {
    Nothing,
    Town(String),
}

#[test]
fn a_database_goes_out_as_json_and_in_again() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    let (path, copy, rows) = (in_folder("people.db"), in_folder("copy.db"), in_folder("rows.jsonl"));
    let db = strandline::Database::open(&path).unwrap();
    let people = db.table::<(u64, String), Person>("people").unwrap();
    let tags = db.multimap::<String, u64>("tags").unwrap();
    let jobs = db.queue::<Vec<u8>>("jobs").unwrap();
    db.write(|tx| {
        let likes = || vec![Like::Nothing, Like::Town("Bergen".into())];
        people.insert(
            tx,
            &(7, "a".into()),
            &Person { name: "Ann".into(), born: Some(1970), likes: likes() },
        )?;
        people.insert(tx, &(7, "b".into()), &Person { name: "Bob".into(), born: None, likes: vec![] })?;
        tags.insert(tx, "sea", &u64::MAX)?;
        jobs.push(tx, &vec![0, 255])
    })
    .unwrap();
    db.close().unwrap();

    assert!(ends(&["check", &path], 0).contains("no damage found"));
    assert!(ends(&["dump", &path], 0).contains("table \"people\": (u64, String) -> Person"));
    let shown = ends(&["dump", &path, "--json", "--table", "people"], 0);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[1..],
        [
            r#"{"key":[7,"a"],"value":{"born":1970,"likes":["Nothing",{"Town":["Bergen"]}],"name":"Ann"}}"#,
            r#"{"key":[7,"b"],"value":{"born":null,"likes":[],"name":"Bob"}}"#
        ]
    );
    let none = ends(&["dump", &path, "--json", "--table", "persons"], 2);
    assert!(none.contains("there are `jobs`, `people`, `tags`"), "{none}");

    let all = ends(&["dump", &path, "--json"], 0);
    assert!(
        all.contains(r#"{"value":"00ff"}"#) && all.contains(r#"{"key":"sea","value":18446744073709551615}"#)
    );
    std::fs::write(&rows, &all).unwrap();
    assert!(ends(&["load", &copy, &rows], 0).contains("4 rows of 3 tables"));
    assert_eq!(ends(&["dump", &copy, "--json"], 0), all);
    let db = strandline::Database::open(&copy).unwrap();
    let people = db.table::<(u64, String), Person>("people").unwrap();
    assert_eq!(db.read(|tx| Ok(people.get(tx, &(7, "a".into()))?.unwrap().born)).unwrap(), Some(1970));
    db.close().unwrap();

    let packed = in_folder("packed.db");
    assert!(ends(&["copy", &path, &packed], 0).contains("4 rows of 3 tables"));
    assert_eq!(ends(&["dump", &packed, "--json"], 0), all);
    assert!(ends(&["copy", &path, &packed], 2).contains("there is something"));

    // Lines that are no rows, no descriptions or no JSON.
    for (wrong, said) in [
        (all.replace("[\"Nothing\"", "[\"Other\""), "not a valid value of the table `people`"),
        (all.replace("1970", "70000"), "not a valid value of the table `people`"),
        (all.replacen("\"table\"", "\"tables\"", 1), "line 1: expected the description of a table"),
        (all.replace("\"key\":\"sea\"", "\"kee\":1"), "expected a row with a key and a value"),
        (all.replace("{\"key\":\"sea\"", "{key"), "is no JSON"),
        (all.replace("Option<u16>", "u16"), "contradicts itself"),
    ] {
        std::fs::write(&rows, wrong).unwrap();
        let told = ends(&["load", &copy, &rows], 2);
        assert!(told.contains(said), "{told}");
    }
    // A pool of another kind has no tables.
    let other = create(folder.path(), "process");
    assert!(ends(&["dump", &other, "--json"], 2).contains("does not say of which types"));
    let refused = ends(&["copy", &other, &in_folder("nothing")], 2);
    assert!(refused.contains("is no database with tables"), "{refused}");
}

/// Creates rows of 0 bytes to 4 MB. Some of them fill a batch of an iteration alone.
fn large_rows(path: &str) -> std::collections::BTreeMap<u64, Vec<u8>> {
    let near = [-40, -8, -1, 0, 1, 8].map(|off| ((1i64 << 19) + off) as usize);
    let sizes: Vec<usize> = [0, 1, 7, 8, 9, 64, 600].into_iter().chain(near).chain([30, 4 << 20]).collect();
    let model: std::collections::BTreeMap<_, _> =
        (0..200u64).map(|key| (key, vec![key as u8; *sizes.get(key as usize).unwrap_or(&30)])).collect();
    let db = strandline::Database::open(path).unwrap();
    let (rows, names) =
        (db.table::<u64, Vec<u8>>("rows").unwrap(), db.table::<(String, u64), String>("names").unwrap());
    let jobs = db.queue::<Vec<u8>>("jobs").unwrap();
    db.write(|tx| {
        model.iter().try_for_each(|(key, value)| {
            // Inserts the keys in another order.
            let other = key * 77 % 200;
            rows.insert(tx, &other, &model[&other])?;
            let text = "x".repeat(value.len().min(1 << 19));
            names.insert(tx, &("long".repeat(*key as usize % 5), *key), &text)?;
            jobs.push(tx, value)
        })
    })
    .unwrap();
    db.close().unwrap();
    model
}

#[test]
fn rows_of_any_size_are_dumped_loaded_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    let (path, lines) = (in_folder("large.db"), in_folder("rows.jsonl"));
    let model = large_rows(&path);
    let all = ends(&["dump", &path, "--json"], 0);
    std::fs::write(&lines, &all).unwrap();
    let (loaded, copied) = (in_folder("loaded.db"), in_folder("copied.db"));
    assert!(ends(&["load", &loaded, &lines], 0).contains("600 rows of 3 tables"));
    assert!(ends(&["copy", &path, &copied], 0).contains("600 rows of 3 tables"));
    for path in [path, loaded, copied] {
        assert!(ends(&["dump", &path, "--json"], 0) == all, "{path}");
        assert!(ends(&["check", &path], 0).contains("no damage found"));
        let db = strandline::Database::open(&path).unwrap();
        let (rows, jobs) = (db.table::<u64, Vec<u8>>("rows").unwrap(), db.queue::<Vec<u8>>("jobs").unwrap());
        let (found, items) = db
            .read(|tx| {
                Ok((
                    rows.iter(tx)?.collect::<strandline::Result<Vec<_>>>()?,
                    jobs.iter(tx)?.collect::<strandline::Result<Vec<_>>>()?,
                ))
            })
            .unwrap();
        assert!(found.iter().map(|(key, value)| (key, value)).eq(&model), "{path}");
        assert!(items.iter().eq(model.values()), "{path}");
    }
    let names = |folder: &Path| {
        std::fs::read_dir(folder)
            .unwrap()
            .any(|name| name.unwrap().file_name().to_string_lossy().starts_with(".strandline-"))
    };
    assert!(!names(folder.path()));

    // Loads a file that ends too early, after a whole line.
    let cut: Vec<_> = all.lines().collect();
    std::fs::write(&lines, cut[..cut.len() - 1].join("\n")).unwrap();
    let half = in_folder("half.db");
    let told = ends(&["load", &half, &lines], 2);
    assert!(told.contains("has 200 rows, and 199 follow"), "{told}");
    assert!(!Path::new(&half).exists() && !names(folder.path()), "nothing is left of it");
}

/// Damages a leaf so that it loses slots: iteration does not see their rows, but reports no error. Does the same with an item of a queue.
#[test]
fn what_a_walk_misses_is_missed_by_no_copy() {
    use strandline::Database;

    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    let path = in_folder("db");
    let db = Database::open_single_writer(&path, &Options::default()).unwrap();
    let rows = db.table::<u64, u64>("rows").unwrap();
    let jobs = db.queue::<u64>("jobs").unwrap();
    let job = |number: u64| 0xfeed_0000_0000 + number;
    db.write(|tx| {
        (0..9).try_for_each(|number| jobs.push(tx, &job(number)))?;
        (0..500).try_for_each(|key| rows.insert(tx, &key, &key).map(drop))
    })
    .unwrap();
    db.close().unwrap();
    // A leaf of 512 words has its kind in the first word, below the number of its heads; then its counts, with the number of rows in the highest bits; then its slots, at most four
    // in a word.
    let leaf = 0x5b_1e_9a_6e_u64 << 24 | 512 << 8;
    let bytes = std::fs::read(&path).unwrap();
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let leaves: Vec<_> = (0..words.len())
        .filter(|&at| words[at] & (u64::MAX >> 8) == leaf && words[at + 1] >> 48 > 50)
        .collect();
    let slots = leaves[leaves.len() / 2] + 2;
    damage(&path, 8 * slots as u64, &(words[slots] & 0xffff).to_le_bytes());
    // An item of a queue follows its tag, the address of the next item, and its length.
    let item = words.iter().position(|&word| word == job(4)).unwrap();
    damage(&path, 8 * (item as u64 - 2), &[0; 8]);

    let db = Database::open_single_writer(&path, &Options::default()).unwrap();
    let (rows, jobs) = (db.table::<u64, u64>("rows").unwrap(), db.queue::<u64>("jobs").unwrap());
    let (found, count) = db.read(|tx| Ok((rows.iter(tx)?.count(), rows.len(tx)?))).unwrap();
    assert!(found < 500 && count == 500, "{found}, {count}");
    assert_eq!(db.read(|tx| Ok(jobs.iter(tx)?.count())).unwrap(), 5);
    let migrated = db.migrate_queue("jobs", |job: u64| Ok(Some((job, 1u8))), |_| {});
    let refused = migrated.err().map(|error| error.to_string());
    assert!(refused.as_deref().is_some_and(|told| told.contains("ends before its last item")), "{refused:?}");
    assert!(db.delete("jobs").unwrap());
    db.close().unwrap();

    let told = ends(&["copy", &path, &in_folder("copy")], 1);
    assert!(told.contains("there are 500, and"), "{told}");
    let names = std::fs::read_dir(folder.path()).unwrap().map(|name| name.unwrap().file_name());
    let left: Vec<_> = names
        .filter(|name| {
            name.to_string_lossy().contains("copy") || name.to_string_lossy().starts_with(".strandline-")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(ends(&["dump", &path, "--json", "--table", "rows"], 1).contains("there are 500, and"));
    assert!(ends(&["check", &path], 1).contains("a page with impossible slots"));
}

#[derive(Clone, Copy, strandline::Persist)]
struct Step<'p> {
    name: strandline::Text<'p>,
    next: Option<strandline::Ptr<'p, Step<'p>>>,
}

#[derive(strandline::Persist)]
struct Route<'p> {
    length: u32,
    first: Option<strandline::Ptr<'p, Step<'p>>>,
    towns: strandline::OrderedMap<'p, String, Option<u16>>,
    tables: strandline::Tables<'p>,
}

/// A pool with a user's own root type is checked and shown without the program that defines the type.
#[test]
fn a_root_of_ones_own_needs_no_program() {
    use strandline::{OrderedMap, Ptr, Store, Tables, Text};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("route").display().to_string();
    let options = Options::default();
    let store = Store::<Route>::create_new(&path, &options, |tx| {
        let towns = OrderedMap::new(tx)?;
        towns.insert(tx, &"Bergen".to_string(), &Some(1070))?;
        let tables = Tables::new(tx)?;
        tables.queue::<u64>(tx, "jobs")?.push(tx, &5)?;
        let first = Ptr::new(tx, &Step { name: Text::new(tx, "north")?, next: None })?;
        // Makes the pointers a cycle.
        first.update(tx, |step| step.next = Some(first))?;
        Ok(Route { length: 7, first: Some(first), towns, tables })
    })
    .unwrap();
    store.close().unwrap();
    let told = ends(&["check", &path], 0);
    assert!(
        told.contains("no damage found") && !told.contains("lost") && !told.contains("unchecked"),
        "{told}"
    );
    let told = ends(&["dump", &path], 0);
    assert!(told.contains("the root is a Route"), "{told}");
    assert!(told.contains("type Step = { name: Text, next: Option<Ptr<Step>> }"), "{told}");

    let told = ends(&["dump", &path, "--json"], 0);
    let lines: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["root"], &lines[1]["type"]), (&"Route".into(), &"Route".into()));
    let root = &lines[1]["value"];
    assert_eq!(root["length"], 7);
    let step = lines.iter().find(|line| line["at"] == root["first"]["at"]).unwrap();
    assert_eq!((&step["type"], &step["value"]["next"]), (&"Step".into(), &root["first"]));
    let name = lines.iter().find(|line| line["at"] == step["value"]["name"]["at"]).unwrap();
    assert_eq!(name["value"], "north");
    let towns = lines.iter().position(|line| line["at"] == root["towns"]["at"]).unwrap();
    assert_eq!(lines[towns + 1], serde_json::json!({"key": "Bergen", "value": 1070}));
    assert!(!lines[0].to_string().contains("strandline::Table\""), "types of the library's own");
    let jobs = lines.iter().position(|line| line["table"] == "jobs").unwrap();
    assert_eq!(lines[jobs + 1], serde_json::json!({"value": 5}));
    assert_eq!(lines.len(), 10, "{told}");

    // Memory that no pointer refers to any more is lost, but is not damage.
    let store = Store::<Route>::open_existing(&path, &options).unwrap();
    store.write(|tx, root| root.update(tx, |route| route.first = None)).unwrap();
    store.close().unwrap();
    assert!(ends(&["check", &path], 0).contains("in 3 blocks are allocated, and nothing leads to them"));
    let told: serde_json::Value = serde_json::from_str(&ends(&["check", &path, "--json"], 0)).unwrap();
    assert_eq!((&told["lost_blocks"], &told["unchecked"]), (&3.into(), &serde_json::Value::Null));

    // Frees a map that a pointer still refers to.
    let store = Store::<Route>::open_existing(&path, &options).unwrap();
    store.write(|tx, root| root.get(tx)?.towns.destroy(tx)).unwrap();
    store.close().unwrap();
    let told = ends(&["check", &path], 1);
    assert!(told.contains("damage  OrderedMap<String, Option<u16>> should be at"), "{told}");
    assert!(ends(&["dump", &path, "--json"], 1).contains("damage  OrderedMap"));
    assert!(ends(&["dump", &path, "--json", "--table", "jobs"], 2).contains("is no database"));
}

/// Checks that values to which the rows of a database point are shown after the rows.
#[test]
fn pointers_in_rows_are_followed() {
    use strandline::{Database, Ptr, Text};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db").display().to_string();
    let db = Database::open_single_writer(&path, &Options::default()).unwrap();
    db.write(|tx| {
        let steps = db.catalogue(tx)?.table::<u64, Ptr<Step>>(tx, "steps")?;
        let step = Ptr::new(tx, &Step { name: Text::new(tx, "north")?, next: None })?;
        steps.insert(tx, &1, &step).map(drop)
    })
    .unwrap();
    db.close().unwrap();
    assert!(!ends(&["check", &path], 0).contains("lost"));
    let told = ends(&["dump", &path, "--json"], 0);
    let lines: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["table"]), (4, &"steps".into()));
    assert_eq!((&lines[1]["value"]["at"], &lines[2]["type"]), (&lines[2]["at"], &"Step".into()));
    assert_eq!(lines[3]["value"], "north");
    let copy = folder.path().join("copy").display().to_string();
    assert!(ends(&["copy", &path, &copy], 2).contains("copying pointers"));
}

/// Checks that each command that opens a pool accepts these options, and refuses values that the pool cannot have.
#[test]
fn memory_and_address_space_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (pool, rows) = (path("pool"), path("rows"));
    std::fs::write(&rows, "").unwrap();
    let words = create(folder.path(), "sync");
    ends(&["load", &pool, &rows], 0);
    let new = ["a", "b"].map(path);
    let commands: [&[&str]; 8] = [
        &["create", &new[0]],
        &["check", &pool],
        &["dump", &pool],
        &["dump", &pool, "--json"],
        &["load", &pool, &rows],
        &["copy", &pool, &new[1]],
        &["recover", &words],
        &["compact", &words],
    ];
    for command in commands {
        let told = ends(&[command, &["--memory", "1M"]].concat(), 2);
        assert!(told.contains("expected bytes from 4M to 128T"), "{told}");
        let told = ends(&[command, &["--address-space", "4095"]].concat(), 2);
        assert!(told.contains("a multiple of 4K"), "{told}");
        let told = ends(&[command, &["--memory", "much"]].concat(), 2);
        assert!(told.contains("K, M, G and T"), "{told}");
        ends(&[command, &["--memory", "16M", "--address-space", "256M"]].concat(), 0);
    }
}

#[test]
fn a_backup_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    for domain in ["sync", "process"] {
        let (path, copy) = (create(folder.path(), domain), folder.path().join(format!("copy of {domain}")));
        let copy = copy.display().to_string();
        ends(&["backup", &path, &copy], 0);
        let told = ends(&["restore", &copy, &path], 0);
        let kept = format!("{path}.replaced");
        assert!(told.contains(&format!("kept  {kept}")) && told.contains("bytes restored"), "{told}");
        for path in [&path, &kept, &copy] {
            assert!(ends(&["check", path], 0).contains("no damage found"));
        }
        assert!(ends(&["restore", &copy, &path], 2).contains("earlier restore"));
        ends(&["restore", &copy, &path, "--replace"], 0);
        ends(&["restore", &folder.path().join("nothing").display().to_string(), &path], 2);
        // Damages a word of the chunk table.
        let at = std::fs::metadata(&copy).unwrap().len();
        std::fs::File::options().write(true).open(&copy).unwrap().set_len(at / 2).unwrap();
        ends(&["restore", &copy, &path, "--replace"], 1);
        assert!(ends(&["check", &path], 0).contains("no damage found"));
    }
    let (log, path) = (folder.path().join("sync.log"), folder.path().join("sync").display().to_string());
    for command in ["create", "backup", "copy"] {
        let to = log.display().to_string();
        let arguments = if command == "create" { vec![command, &to] } else { vec![command, &path, &to] };
        assert!(ends(&arguments, 2).contains("cannot be named"));
    }
}

/// Runs the command as a user who may read the files but not change anything: on a read-only mount if one can be made, otherwise without one.
struct ReadOnly {
    folder: tempfile::TempDir,
    mounted: Option<std::path::PathBuf>,
    program: std::path::PathBuf,
}

impl ReadOnly {
    /// Prepares such runs for `folder`. Copies the command to a place where each user finds it.
    fn of(folder: &Path) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let own = tempfile::tempdir().unwrap();
        std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let program = own.path().join("strandline");
        std::fs::copy(env!("CARGO_BIN_EXE_strandline"), &program).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let at = own.path().join("mounted");
        std::fs::create_dir(&at).unwrap();
        let mount = |arguments: &[&std::ffi::OsStr]| {
            let run = Command::new("mount").args(arguments).stderr(std::process::Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        };
        let is_mounted = mount(&["--bind".as_ref(), folder.as_os_str(), at.as_os_str()])
            && mount(&["-o".as_ref(), "remount,bind,ro".as_ref(), at.as_os_str()]);
        if !is_mounted {
            println!("left out: a folder cannot be mounted for reading only here");
        }
        Self { folder: own, mounted: is_mounted.then_some(at), program }
    }

    fn ends(&self, user: Option<u32>, arguments: &[&str], code: i32) -> String {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(&self.program);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command.arg("pool").args(arguments).current_dir("/");
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{user:?}, {arguments:?}: {out}{err}");
        out
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted {
            let _ = Command::new("umount").arg(at).status();
        }
    }
}

/// Commands that only inspect or copy a pool write nothing, so neither the files nor their folder need be writable.
#[test]
fn pools_where_nothing_can_be_written_are_read() {
    use std::os::unix::fs::PermissionsExt;
    use strandline::Database;

    let folder = tempfile::tempdir().unwrap();
    let mut pools = Vec::new();
    for (domain, closed) in
        [(Domain::Sync, true), (Domain::Sync, false), (Domain::Process, true), (Domain::Process, false)]
    {
        let name = format!("{}-{closed}", domain.name());
        let path = folder.path().join(&name);
        let options = Options { domain, ..Options::default() };
        let db = Database::open_single_writer(&path, &options).unwrap();
        let rows = db.table::<u64, String>("rows").unwrap();
        db.write(|tx| rows.insert(tx, &1, "one").map(drop)).unwrap();
        if closed {
            db.close().unwrap();
        } else {
            // A kill leaves the files like this.
            let log = folder.path().join(format!("{name}.log"));
            let killed = [&path, &log].map(|file| (file.clone(), std::fs::read(file).ok()));
            db.close().unwrap();
            for (file, bytes) in killed {
                bytes.into_iter().for_each(|bytes| std::fs::write(&file, bytes).unwrap());
            }
        }
        pools.push(name);
    }
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::set_permissions(entry.unwrap().path(), PermissionsExt::from_mode(0o444)).unwrap();
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    let before: Vec<_> = pools.iter().map(|name| std::fs::read(folder.path().join(name)).unwrap()).collect();
    let read_only = ReadOnly::of(folder.path());
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder.path()).unwrap()) == 0;
    let mut ways: Vec<(&Path, Option<u32>)> = Vec::new();
    ways.extend(read_only.mounted.as_deref().map(|at| (at, None)));
    match is_root {
        true => ways.push((folder.path(), Some(65534))),
        false => ways.push((folder.path(), None)),
    }
    for (number, (at, user)) in ways.into_iter().enumerate() {
        for (name, original) in pools.iter().zip(&before) {
            let path = at.join(name).display().to_string();
            let run = |arguments: &[&str]| read_only.ends(user, arguments, 0);
            assert!(run(&["info", &path]).contains("state"));
            assert!(run(&["check", &path]).contains("no damage found"), "{path}");
            assert!(run(&["dump", &path]).contains("rows"));
            let rows = run(&["dump", &path, "--json"]);
            assert!(rows.contains("\"one\""), "{rows}");
            let copy = read_only.folder.path().join(format!("{name}-{number}")).display().to_string();
            run(&["backup", &path, &copy]);
            run(&["check", &copy]);
            assert_eq!(run(&["dump", &copy, "--json"]), rows);
            // The copy belongs to the user who made it, who can write it.
            run(&["recover", &copy]);
            assert!(std::fs::read(folder.path().join(name)).unwrap() == *original, "{path}");
            let restored = format!("{copy}-restored");
            run(&["restore", &path, &restored]);
            run(&["copy", &path, &format!("{copy}-packed")]);
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 6);
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
}

/// Kills the command at random moments while it creates a database, and checks that no files remain in the end.
#[test]
fn killed_creations_leave_nothing_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let names = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for round in 0..60 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_strandline"));
        let domain = ["sync", "process"][round % 2];
        let child = child.args(["pool", "create", "--domain", domain]).arg(&path);
        let mut child =
            child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(300 * round as u64));
        let _ = child.kill();
        child.wait().unwrap();
        if path.exists() {
            // If the kill came while the pool was open, only the domain that created it opens it.
            let used = [Domain::Sync, Domain::Process][round % 2];
            let options = Options { domain: used, ..Options::default() };
            Pool::open(&path, &options).unwrap().close().unwrap();
            // An earlier creation may have left a log.
            assert!(
                names().iter().all(|name| ["pool", "pool.log"].contains(&name.as_str())),
                "{:?}",
                names()
            );
            std::fs::remove_file(&path).unwrap();
            let _ = std::fs::remove_file(folder.path().join("pool.log"));
        }
    }
    ends(&["create", &path.display().to_string()], 0);
    assert_eq!(names(), ["pool", "pool.log"]);
}
