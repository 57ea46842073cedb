//! Databases: named tables of any types, which are found again, refused with other types, and usable only with their own database.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use proptest::prelude::*;
use strandline::{
    Database, Dynamic, Error, Key, Options, OrderedMap, Persist, Ptr, SingleWriter, Store, TableKind, Tables,
};

#[derive(Clone, Debug, PartialEq, Persist)]
struct Person {
    name: String,
    born: Option<u16>,
    likes: Vec<Like>,
}

#[derive(Clone, Debug, PartialEq, Persist)]
enum Like {
    Nothing,
    Town(String),
    Numbers(Vec<u32>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Id {
    Number(u64),
    Name(String),
}

fn ann() -> Person {
    let likes = vec![Like::Nothing, Like::Town("Bergen".into()), Like::Numbers(vec![1, 2, 3])];
    Person { name: "Ann".into(), born: Some(1970), likes }
}

/// Code as applications write it: no type is annotated, and `Database` without a parameter is the type in a signature.
#[test]
fn opening_needs_no_annotation() -> strandline::Result<()> {
    fn keep(db: Database) -> Database {
        db
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let options = Options::default();
    let db = Database::open_with(&path, &options)?;
    db.table::<u64, u64>("numbers")?;
    keep(db).close()?;
    let db = Database::open_read_only(&path, &options)?;
    assert_eq!(db.list()?.len(), 1);
    drop(keep(db));
    let db = Database::open_single_writer(&path, &options)?;
    assert_eq!(db.list()?.len(), 1);
    keep(Database::in_memory_with(&options)?);
    Ok(())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A mistake in a path creates no file, and an existing database is not created again.
#[test]
fn existing_and_new_ones_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (path, options) = (folder.path().join("db"), Options::default());
    let kind = |error: Error| match error {
        Error::Io { source, .. } => source.kind(),
        other => panic!("{other}"),
    };
    let opened = Database::open_existing(&path, &options);
    assert_eq!(kind(opened.unwrap_err()), ErrorKind::NotFound);
    let opened = Store::<u64>::open_existing(&path, &options);
    assert_eq!(kind(opened.err().unwrap()), ErrorKind::NotFound);
    assert_eq!(kind(Database::open_read_only(&path, &options).unwrap_err()), ErrorKind::NotFound);
    assert_eq!(names(folder.path()), [""; 0]);

    let db = Database::create_new(&path, &options).unwrap();
    db.table::<u64, u64>("numbers").unwrap();
    db.close().unwrap();
    assert_eq!(kind(Database::create_new(&path, &options).unwrap_err()), ErrorKind::AlreadyExists);
    let created = Store::<u64>::create_new(&path, &options, |_| Ok(0));
    assert_eq!(kind(created.err().unwrap()), ErrorKind::AlreadyExists);
    for open in [Database::open_existing, Database::open_with] {
        let db = open(&path, &options).unwrap();
        assert_eq!(db.list().unwrap().len(), 1);
        db.close().unwrap();
    }

    // A pool without tables, as `strandline pool create` creates it.
    let path = folder.path().join("empty");
    strandline_core::file::Pool::create(&path, &options).unwrap().close().unwrap();
    assert!(matches!(Store::<u64>::open_existing(&path, &options), Err(Error::Missing { .. })));
    let db = Database::open_existing(&path, &options).unwrap();
    assert!(db.list().unwrap().is_empty());
}

#[test]
fn tables_are_found_again_with_all_that_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people");
    {
        let db = Database::open(&path).unwrap();
        let people = db.table::<Id, Person>("people").unwrap();
        let towns = db.multimap::<String, Id>("towns").unwrap();
        let jobs = db.queue::<(u64, String)>("jobs").unwrap();
        db.write(|tx| {
            people.insert(tx, &Id::Name("ann".into()), &ann())?;
            towns.insert(tx, "Bergen", &Id::Name("ann".into()))?;
            towns.insert(tx, "Bergen", &Id::Number(7))?;
            jobs.push(tx, &(3, "write".to_string()))
        })
        .unwrap();
        // The database is not closed explicitly: dropping it closes it.
    }
    let db = Database::open_single_writer(&path, &Options::default()).unwrap();
    let people = db.table::<Id, Person>("people").unwrap();
    let towns = db.multimap::<String, Id>("towns").unwrap();
    let jobs = db.queue::<(u64, String)>("jobs").unwrap();
    let found = db.read(|tx| {
        let in_bergen: Vec<Id> = towns.get(tx, "Bergen")?.collect::<Result<_, _>>()?;
        Ok((people.get(tx, &Id::Name("ann".into()))?, in_bergen, jobs.front(tx)?))
    });
    let (person, in_bergen, job) = found.unwrap();
    assert_eq!(person, Some(ann()));
    assert_eq!(in_bergen, [Id::Number(7), Id::Name("ann".into())]);
    assert_eq!(job, Some((3, "write".into())));
    let described = db.list().unwrap();
    let kinds: Vec<_> = described.iter().map(|table| (table.name.as_str(), table.kind)).collect();
    assert_eq!(
        kinds,
        [("jobs", TableKind::Queue), ("people", TableKind::Table), ("towns", TableKind::Multimap)]
    );
    assert_eq!(described[1].types.get("Person").unwrap().variants[0].fields[2].type_name, "Vec<Like>");
    assert_eq!(db.check().unwrap(), [""; 0]);
    // The program itself can check each table, too.
    let damage = db.read(|tx| Ok([people.check(tx)?, towns.check(tx)?, jobs.check(tx)?].concat()));
    assert_eq!(damage.unwrap(), [""; 0]);
    db.close().unwrap();
    // A database can be opened as a store.
    let store = Store::<Tables>::open_existing(&path, &Options::default()).unwrap();
    let born = store.read(|tx, root| {
        let people = root.get(tx)?.find_table::<Id, Person>(tx, "people")?.unwrap();
        Ok(people.get(tx, &Id::Name("ann".into()))?.unwrap().born)
    });
    assert_eq!(born.unwrap(), Some(1970));
}

#[test]
fn other_types_are_refused_with_what_differs() {
    mod later {
        #[derive(strandline::Persist)]
        pub struct Person {
            pub name: String,
            pub born: u16,
            pub likes: Vec<super::Like>,
            pub mail: String,
        }
    }
    let db = Database::in_memory().unwrap();
    db.table::<u64, Person>("people").unwrap();
    let said = |refused: strandline::Result<()>| match refused {
        Err(Error::TableTypes { table, differences }) => {
            assert_eq!(table, "people");
            differences
        }
        other => panic!("{other:?}"),
    };
    let fields = said(db.table::<u64, later::Person>("people").map(drop));
    assert_eq!(
        fields,
        "\n  Person.born: Option<u16> became u16\n  Person.mail: String: new\
         \nand cannot be converted to the expected types:\
         \n  Person: it has changed: raise its version with #[persist(version = 2)]\
         \n  Person.born: only numbers can become wider, and a value can become an option\
         \n  Person.mail: the field is new: add #[persist(default)], or if it was renamed #[persist(was = \"…\")]"
    );
    let key = said(db.table::<u32, Person>("people").map(drop));
    assert_eq!(key, "\n  key: u64 is expected to be u32");
    let kind = said(db.queue::<Person>("people").map(drop));
    assert_eq!(kind, "\n  kind: table is expected to be queue\n  key: u64 is expected to be ()");
    db.table::<u64, Person>("people").unwrap();
}

mod second {
    /// The second version of the type.
    #[derive(Clone, Debug, PartialEq, strandline::Persist)]
    #[persist(version = 2)]
    pub struct Person {
        #[persist(default = "unknown".to_string())]
        pub mail: String,
        #[persist(was = "name")]
        pub called: String,
        pub born: Option<u32>,
    }
}

#[test]
fn values_of_an_earlier_version_become_those_of_the_present_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open(&path).unwrap();
    let people = db.table::<u64, Person>("people").unwrap();
    for some in 0..4 {
        db.write(|tx| (0..500).try_for_each(|n| people.insert(tx, &(500 * some + n), &ann()).map(drop)))
            .unwrap();
    }
    let numbers = db.table::<u64, u16>("numbers").unwrap();
    db.write(|tx| numbers.insert(tx, &1, &65535)).unwrap();
    let waiting = db.queue::<Person>("waiting").unwrap();
    for _ in 0..3 {
        db.write(|tx| (0..400).try_for_each(|_| waiting.push(tx, &ann()))).unwrap();
    }
    db.write(|tx| waiting.push(tx, &Person { born: None, ..ann() })).unwrap();
    db.close().unwrap();
    // The table cannot be converted while the database is open for reading only.
    let db =
        Database::from(Store::<Tables, SingleWriter>::open_read_only(&path, &Options::default()).unwrap());
    assert!(matches!(db.table::<u64, second::Person>("people"), Err(Error::TableTypes { .. })));
    db.close().unwrap();

    let db = Database::open(&path).unwrap();
    let old = db.table::<u64, Person>("people").unwrap();
    let people = db.table::<u64, second::Person>("people").unwrap();
    let expected = second::Person { mail: "unknown".into(), called: "Ann".into(), born: Some(1970) };
    let all: Vec<_> = db.read(|tx| people.iter(tx)?.collect::<Result<_, _>>()).unwrap();
    assert_eq!(all.len(), 2000);
    assert!(all.iter().zip(0..).all(|((key, person), number)| *key == number && *person == expected));
    let old_queue = db.queue::<Person>("waiting").unwrap();
    let waiting = db.queue::<second::Person>("waiting").unwrap();
    let items: Vec<_> = db.read(|tx| waiting.iter(tx)?.collect::<Result<_, _>>()).unwrap();
    assert_eq!(items.len(), 1201);
    assert!(items[..1200].iter().all(|person| *person == expected), "in their order");
    assert_eq!(items[1200].born, None);
    assert!(matches!(db.write(|tx| old_queue.pop(tx)), Err(Error::NoTable { .. })));
    // A type without a version does not say that it was meant to change.
    assert!(matches!(db.table::<u64, u32>("numbers"), Err(Error::TableTypes { .. })));
    let numbers =
        db.migrate("numbers", |key: u64, n: u16| Ok(Some((key, Some(i64::from(n))))), |_| {}).unwrap();
    assert_eq!(db.read(|tx| numbers.get(tx, &1)).unwrap(), Some(Some(65535)));
    // Neither a handle from before nor a program of the earlier version can use the table now.
    assert!(matches!(db.read(|tx| old.get(tx, &1)), Err(Error::NoTable { .. })));
    let older = db.table::<u64, Person>("people").map(drop).unwrap_err().to_string();
    assert!(
        older.contains("Person: a newer program wrote version 2, and this program has version 1"),
        "{older}"
    );
    assert!(!older.contains("#[persist"), "{older}");
    assert_eq!(db.check().unwrap(), [""; 0]);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
}

#[test]
fn a_function_takes_values_of_an_earlier_version_as_those_of_its_own() {
    let db = Database::in_memory().unwrap();
    let people = db.table::<u64, Person>("people").unwrap();
    let waiting = db.queue::<Person>("waiting").unwrap();
    let tags = db.multimap::<u64, u32>("tags").unwrap();
    db.write(|tx| {
        people.insert(tx, &1, &ann())?;
        waiting.push(tx, &ann())?;
        tags.insert(tx, &1, &2)
    })
    .unwrap();
    // Stored as the first version, read as the second, and stored as a text.
    let name = |person: second::Person| format!("{} {}", person.called, person.mail);
    for _ in 0..2 {
        let people = db.migrate("people", |key: u64, person| Ok(Some((key, name(person)))), |_| {}).unwrap();
        assert_eq!(db.read(|tx| people.get(tx, &1)).unwrap().as_deref(), Some("Ann unknown"));
        let waiting = db.migrate_queue("waiting", |person| Ok(Some(name(person))), |_| {}).unwrap();
        assert_eq!(db.read(|tx| waiting.front(tx)).unwrap().as_deref(), Some("Ann unknown"));
    }
    // A table that has neither type, and whose values cannot become the first type, stays as it is.
    let refused = db.migrate("people", |key: u64, n: u16| Ok(Some((key, u64::from(n)))), |_| {});
    assert!(matches!(refused, Err(Error::TableTypes { .. })));
    let refused = db.migrate_multimap("tags", |key: u64, tag: u64| Ok(Some((tag, key.to_string()))), |_| {});
    assert!(matches!(refused, Err(Error::TableTypes { .. })));
    let people = db.table::<u64, String>("people").unwrap();
    assert_eq!(db.read(|tx| people.len(tx)).unwrap(), 1);
    assert_eq!(db.read(|tx| tags.len(tx)).unwrap(), 1);
    assert_eq!(db.check().unwrap(), [""; 0]);
}

mod nested {
    pub mod first {
        #[derive(Clone, Debug, PartialEq, strandline::Persist)]
        pub struct Address {
            pub town: String,
            pub number: u8,
        }
        #[derive(Clone, Debug, PartialEq, strandline::Persist)]
        pub struct Customer {
            pub name: String,
            pub addresses: Vec<Address>,
        }
    }
    pub mod second {
        #[derive(Clone, Debug, PartialEq, strandline::Persist)]
        #[persist(version = 2)]
        pub struct Address {
            pub town: String,
            pub number: u16,
            #[persist(default)]
            pub letter: Option<char>,
        }
        #[derive(Clone, Debug, PartialEq, strandline::Persist)]
        pub struct Customer {
            pub name: String,
            pub addresses: Vec<Address>,
        }
    }
}

#[test]
fn a_type_follows_those_in_it() {
    use nested::{first, second};
    let db = Database::in_memory().unwrap();
    let customers = db.table::<u64, first::Customer>("customers").unwrap();
    let address = first::Address { town: "Bergen".into(), number: 7 };
    let ann = first::Customer { name: "Ann".into(), addresses: vec![address.clone(), address] };
    db.write(|tx| customers.insert(tx, &1, &ann)).unwrap();
    let customers = db.table::<u64, second::Customer>("customers").unwrap();
    let address = second::Address { town: "Bergen".into(), number: 7, letter: None };
    let expected = second::Customer { name: "Ann".into(), addresses: vec![address.clone(), address] };
    assert_eq!(db.read(|tx| customers.get(tx, &1)).unwrap(), Some(expected));
    // A program of the first version cannot convert the table back.
    let refused = db.table::<u64, first::Customer>("customers").map(drop).unwrap_err().to_string();
    assert!(refused.contains("Address: a newer program wrote version 2"), "{refused}");
}

#[test]
fn multimaps_and_queues_are_migrated_too() {
    let db = Database::in_memory().unwrap();
    let (tags, jobs) = (db.multimap::<u64, u64>("tags").unwrap(), db.queue::<u64>("jobs").unwrap());
    for some in 0..3 {
        db.write(|tx| {
            (1000 * some..1000 * (some + 1)).try_for_each(|n| {
                tags.insert(tx, &(n / 10), &n)?;
                jobs.push(tx, &n)
            })
        })
        .unwrap();
    }
    let interrupted = |stop_after: u64| {
        let migrate = || {
            let convert = |job: u64| Ok((!job.is_multiple_of(3)).then(|| job.to_string()));
            db.migrate_queue("jobs", convert, |moved| assert!(moved < stop_after, "interrupted")).unwrap()
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(migrate)).ok()
    };
    assert!(interrupted(1500).is_none());
    let Err(Error::TableTypes { differences, .. }) = db.queue::<u64>("jobs") else {
        panic!("it is being migrated")
    };
    assert!(differences.contains("a migration to String is under way, 1500 items so far"), "{differences}");
    let jobs = interrupted(u64::MAX).unwrap();
    let left: Vec<_> = db.read(|tx| jobs.iter(tx)?.collect::<Result<_, _>>()).unwrap();
    let expected: Vec<_> =
        (0..3000).filter(|job: &u64| !job.is_multiple_of(3)).map(|job: u64| job.to_string()).collect();
    assert_eq!(left, expected);
    // Of several pairs that become the same, one is kept.
    let halve = |key: u64, value: u64| Ok(Some((key.to_string(), (value % 5) as u32)));
    let tags = db.migrate_multimap("tags", halve, |_| {}).unwrap();
    let of_seven: Vec<u32> = db.read(|tx| tags.get(tx, "7")?.collect()).unwrap();
    assert_eq!(of_seven, [0, 1, 2, 3, 4]);
    assert_eq!(db.read(|tx| Ok(tags.iter(tx)?.count())).unwrap(), 1500);
    // A table of one kind cannot be migrated to another kind.
    assert!(matches!(
        db.migrate::<u64, u64, u64, u64>("jobs", |key, value| Ok(Some((key, value))), |_| {}),
        Err(Error::TableTypes { .. })
    ));
    assert_eq!(db.check().unwrap(), [""; 0]);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
}

#[test]
fn a_migration_that_was_interrupted_goes_on_where_it_was() {
    let db = Database::in_memory().unwrap();
    let numbers = db.table::<u64, String>("numbers").unwrap();
    for some in 0..4 {
        let each = |n: u64| (1000 * some + n, n.to_string());
        db.write(|tx| {
            (0..1000).map(each).try_for_each(|(key, text)| numbers.insert(tx, &key, &text).map(drop))
        })
        .unwrap();
    }
    let seen = std::cell::RefCell::new(BTreeMap::new());
    let migrate = |stop_after: u64| {
        let convert = |key: u64, text: String| {
            *seen.borrow_mut().entry(key).or_insert(0) += 1;
            // Only even keys are kept, each under another key.
            Ok(key.is_multiple_of(2).then(|| (format!("{key:05}"), (key, text.len() as u64))))
        };
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.migrate("numbers", convert, |moved| assert!(moved < stop_after, "interrupted"))
        }));
        stopped.ok().map(Result::unwrap)
    };
    assert!(migrate(1000).is_none());
    assert!(migrate(2500).is_none());
    // During a migration the table can be opened neither with its old types nor with others.
    let Err(Error::TableTypes { differences, .. }) = db.table::<u64, String>("numbers") else {
        panic!("it is being migrated")
    };
    assert!(
        differences.contains("a migration to (u64, u64) by String is under way, 2500 keys so far"),
        "{differences}"
    );
    assert!(db.table::<u64, u64>("numbers").is_err());
    let other = db.migrate::<u64, String, u64, u64>("numbers", |key, _| Ok(Some((key, 1))), |_| {});
    assert!(matches!(other, Err(Error::TableTypes { .. })));
    assert_eq!(db.check().unwrap(), [""; 0]);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);

    let new = migrate(u64::MAX).unwrap();
    let all: Vec<_> = db.read(|tx| new.iter(tx)?.collect::<Result<_, _>>()).unwrap();
    let expected: Vec<_> = (0..4000)
        .step_by(2)
        .map(|key: u64| (format!("{key:05}"), (key, (key % 1000).to_string().len() as u64)))
        .collect();
    assert_eq!(all, expected);
    assert_eq!(seen.borrow().len(), 4000);
    assert_eq!(db.lost_memory().unwrap().blocks, 0);
    // Another call does nothing.
    seen.borrow_mut().clear();
    migrate(0).unwrap();
    assert!(seen.borrow().is_empty());
    // If there is no table, it is created.
    db.migrate::<u64, u8, u64, u16>("none", |_, _| unreachable!(), |_| {}).unwrap();

    let two = db.table::<u64, u64>("two").unwrap();
    db.write(|tx| {
        two.insert(tx, &1, &1)?;
        two.insert(tx, &2, &2)
    })
    .unwrap();
    let same = db.migrate("two", |_: u64, value: u64| Ok(Some((7u8, value))), |_| {});
    assert!(matches!(same, Err(Error::Parameter(what)) if what.contains("same key")));
    assert_eq!(db.read(|tx| two.len(tx)).unwrap(), 2, "nothing has happened");
}

#[test]
fn a_table_is_of_its_own_database_and_gone_when_it_was_deleted() {
    let (db, other) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let numbers = db.table::<u64, u64>("numbers").unwrap();
    let own = other.table::<u64, u64>("numbers").unwrap();
    other.write(|tx| own.insert(tx, &1, &1)).unwrap();
    assert!(matches!(other.read(|tx| numbers.get(tx, &1)), Err(Error::Parameter(_))));
    assert!(matches!(other.write(|tx| numbers.insert(tx, &1, &1)), Err(Error::Parameter(_))));
    // A table cannot be used in a transaction of a store either, even if the store has the same root.
    let store = Store::<Tables>::in_memory(&Options::default(), |tx| Tables::new(tx)).unwrap();
    assert!(matches!(store.write(|tx, _| numbers.insert(tx, &1, &1)), Err(Error::Parameter(_))));

    db.write(|tx| numbers.insert(tx, &1, &10)).unwrap();
    assert!(db.delete("numbers").unwrap());
    assert!(!db.delete("numbers").unwrap());
    // The memory of the deleted table may be another table's now, but the old handle does not refer to that.
    let again = db.table::<u64, u64>("numbers").unwrap();
    db.write(|tx| again.insert(tx, &1, &20)).unwrap();
    assert!(matches!(db.read(|tx| numbers.get(tx, &1)), Err(Error::NoTable { name }) if name == "numbers"));
    assert!(matches!(db.write(|tx| numbers.insert(tx, &1, &1)), Err(Error::NoTable { .. })));
    assert_eq!(db.read(|tx| again.get(tx, &1)).unwrap(), Some(20));
}

#[test]
fn what_is_open_for_reading_has_the_tables_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open(&path).unwrap();
    let numbers = db.table::<u64, String>("numbers").unwrap();
    db.write(|tx| numbers.insert(tx, &1, "one")).unwrap();
    db.close().unwrap();
    let db =
        Database::from(Store::<Tables, SingleWriter>::open_read_only(&path, &Options::default()).unwrap());
    let numbers = db.table::<u64, String>("numbers").unwrap();
    assert_eq!(db.read(|tx| numbers.read_with(tx, &1, str::len)).unwrap(), Some(3));
    assert!(matches!(db.table::<u64, u64>("others"), Err(Error::NoTable { name }) if name == "others"));
    assert!(matches!(db.write(|tx| numbers.remove(tx, &1)), Err(Error::ReadOnly)));
}

#[test]
fn a_store_of_another_root_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    Store::<u64>::create_new(&path, &Options::default(), |_| Ok(1)).unwrap().close().unwrap();
    assert!(matches!(Database::open(&path), Err(Error::RootLayout { .. })));
    std::fs::write(folder.path().join("text"), "no pool at all, but a text").unwrap();
    assert!(matches!(Database::open(folder.path().join("text")), Err(Error::NotAPool { .. })));
}

#[test]
fn nothing_remains_of_a_database_in_memory() {
    let db = Database::in_memory().unwrap();
    let blobs = db.table::<u64, Vec<u8>>("blobs").unwrap();
    db.write(|tx| (0..100).try_for_each(|n| blobs.insert(tx, &n, &vec![7; 100_000]).map(drop))).unwrap();
    let (path, name) = (db.path().to_owned(), db.path().file_name().unwrap().to_string_lossy().into_owned());
    let is_left = || {
        let mut all = std::fs::read_dir(path.parent().unwrap()).unwrap();
        all.any(|file| file.unwrap().file_name().to_string_lossy().contains(&name))
    };
    assert!(!is_left(), "while it is open");
    db.close().unwrap();
    assert!(!is_left());
}

/// An operation on a table or a multimap.
#[derive(Clone, Debug)]
enum Operation {
    Insert(u8, Vec<u8>),
    Remove(u8),
    PopFirst,
    PopLast,
    Retain(u8),
    Drain(u8, u8),
    Tag(u8, u8),
    Untag(u8, u8),
    UntagAll(u8),
    Seek(u8, Vec<bool>),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{Drain, Insert, PopFirst, PopLast, Remove, Retain, Seek, Tag, Untag, UntagAll};
    prop_oneof![
        4 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(k, v)| Insert(k, v)),
        1 => any::<u8>().prop_map(Remove),
        1 => Just(PopFirst),
        1 => Just(PopLast),
        1 => (1u8..).prop_map(Retain),
        1 => (any::<u8>(), 0u8..40).prop_map(|(from, more)| Drain(from, from.saturating_add(more))),
        4 => (0u8..6, any::<u8>()).prop_map(|(k, v)| Tag(k, v)),
        1 => (0u8..6, any::<u8>()).prop_map(|(k, v)| Untag(k, v)),
        1 => (0u8..6).prop_map(UntagAll),
        1 => (any::<u8>(), prop::collection::vec(any::<bool>(), 0..12)).prop_map(|(k, way)| Seek(k, way)),
    ]
}

/// Returns a name of one or several words. Some have zeros, and their order does not follow from their lengths.
fn name(number: u8) -> String {
    format!("{}{}", ["", "a", "\0", "a long name "][usize::from(number) % 4], number)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn tables_do_as_volatile_maps(operations in prop::collection::vec(operation(), 0..120)) {
        let db = Database::in_memory().unwrap();
        let table = db.table::<String, Vec<u8>>("table").unwrap();
        let tags = db.multimap::<String, u8>("tags").unwrap();
        let mut expected: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut tagged: BTreeSet<(String, u8)> = BTreeSet::new();
        for operation in operations {
            match operation {
                Operation::Insert(key, value) => {
                    let before = db.write(|tx| table.insert(tx, &name(key), &value)).unwrap();
                    prop_assert_eq!(before, expected.insert(name(key), value));
                }
                Operation::Remove(key) => {
                    let gone = db.write(|tx| table.remove(tx, &name(key))).unwrap();
                    prop_assert_eq!(gone, expected.remove(&name(key)));
                }
                Operation::PopFirst => {
                    prop_assert_eq!(db.write(|tx| table.pop_first(tx)).unwrap(), expected.pop_first());
                }
                Operation::PopLast => {
                    prop_assert_eq!(db.write(|tx| table.pop_last(tx)).unwrap(), expected.pop_last());
                }
                Operation::Retain(number) => {
                    let keep = |key: &String| key.len() % usize::from(number) != 1;
                    db.write(|tx| table.retain(tx, |key, _| keep(key))).unwrap();
                    expected.retain(|key, _| keep(key));
                }
                Operation::Drain(from, to) => {
                    let range = format!("a{from}")..format!("a{to}");
                    let gone: Vec<_> = db
                        .write(|tx| table.drain(tx, range.clone())?.collect::<Result<_, _>>())
                        .unwrap();
                    // The standard library's map refuses a range that begins after its end.
                    let inside = |key: &String| range.contains(key);
                    let expected_gone: Vec<_> =
                        expected.clone().into_iter().filter(|(key, _)| inside(key)).collect();
                    expected.retain(|key, _| !inside(key));
                    prop_assert_eq!(gone, expected_gone);
                }
                Operation::Tag(key, value) => {
                    let is_new = db.write(|tx| tags.insert(tx, &name(key), &value)).unwrap();
                    prop_assert_eq!(is_new, tagged.insert((name(key), value)));
                }
                Operation::Untag(key, value) => {
                    let was = db.write(|tx| tags.remove(tx, &name(key), &value)).unwrap();
                    prop_assert_eq!(was, tagged.remove(&(name(key), value)));
                }
                Operation::UntagAll(key) => {
                    let count = db.write(|tx| tags.remove_all(tx, &name(key))).unwrap();
                    let before = tagged.len();
                    tagged.retain(|(tag, _)| *tag != name(key));
                    prop_assert_eq!(count, (before - tagged.len()) as u64);
                }
                Operation::Seek(key, way) => {
                    let sorted: Vec<_> = expected.clone().into_iter().collect();
                    let mut at = sorted.partition_point(|(known, _)| *known < name(key));
                    db.read(|tx| {
                        let mut cursor = table.cursor(tx)?;
                        cursor.seek(&name(key));
                        for &ahead in &way {
                            if ahead {
                                assert_eq!(cursor.next()?.as_ref(), sorted.get(at));
                                at = (at + 1).min(sorted.len());
                            } else {
                                let before = at.checked_sub(1);
                                assert_eq!(cursor.previous()?.as_ref(), before.map(|at| &sorted[at]));
                                at = before.unwrap_or(0);
                            }
                        }
                        Ok(())
                    })
                    .unwrap();
                }
            }
            let begin: String = name(3).chars().take(2).collect();
            let count = db.read(|tx| Ok(table.prefix(tx, begin.as_str())?.count())).unwrap();
            prop_assert_eq!(count, expected.keys().filter(|key| key.starts_with(&begin)).count());
            for key in 0..6 {
                let values: Vec<u8> = db.read(|tx| tags.get(tx, &name(key))?.collect()).unwrap();
                let expected: Vec<u8> =
                    tagged.iter().filter(|(tag, _)| *tag == name(key)).map(|(_, value)| *value).collect();
                prop_assert_eq!(values, expected);
            }
        }
        let all: Vec<_> = db.read(|tx| table.iter(tx)?.collect()).unwrap();
        prop_assert_eq!(all, expected.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(db.check().unwrap(), [""; 0]);
        prop_assert_eq!(db.lost_memory().unwrap().blocks, 0);
        db.delete("table").unwrap();
        db.delete("tags").unwrap();
        prop_assert_eq!(db.lost_memory().unwrap().blocks, 0);
    }
}

/// A root of the program's own type that has tables among other fields.
#[derive(Persist)]
struct Shop<'p> {
    sold: Ptr<'p, u64>,
    tables: Tables<'p>,
    stock: OrderedMap<'p, String, u64>,
}

#[test]
fn tables_are_fields_too() {
    let shop = Store::<Shop>::in_memory(&Options::default(), |tx| {
        Ok(Shop { sold: Ptr::new(tx, &0)?, tables: Tables::new(tx)?, stock: OrderedMap::new(tx)? })
    })
    .unwrap();
    shop.write(|tx, root| {
        let Shop { sold, tables, stock } = root.get(tx)?;
        stock.insert(tx, &"apples".into(), &40)?;
        tables.table::<u64, String>(tx, "names")?.insert(tx, &1, &"one".into())?;
        tables.queue::<String>(tx, "orders")?.push(tx, &"apples".into())?;
        sold.set(tx, &1)
    })
    .unwrap();
    assert_eq!(shop.check().unwrap(), [""; 0]);
    let before = shop.usage().unwrap();
    shop.write(|tx, root| {
        let tables = root.get(tx)?.tables;
        assert!(tables.find_table::<u64, String>(tx, "orders").is_err());
        assert!(tables.find_queue::<String>(tx, "names of others")?.is_none());
        tables.table::<u64, u64>(tx, "more")?;
        tables.delete(tx, "more").map(drop)
    })
    .unwrap();
    assert_eq!(shop.usage().unwrap().objects, before.objects);
    assert_eq!(shop.lost_memory().unwrap().blocks, 0);
    assert_eq!(shop.check().unwrap(), [""; 0]);
}

#[test]
fn tables_are_shown_and_copied_without_their_types() {
    let db = Database::in_memory().unwrap();
    let people = db.table::<Id, Person>("people").unwrap();
    let numbers = db.table::<i64, u64>("numbers").unwrap();
    let towns = db.multimap::<String, Id>("towns").unwrap();
    let jobs = db.queue::<(u64, String)>("jobs").unwrap();
    db.write(|tx| {
        for number in 0..700 {
            people.insert(tx, &Id::Number(number), &ann())?;
            numbers.insert(tx, &(number as i64 - 350), &number)?;
        }
        people.insert(tx, &Id::Name("a\0b".into()), &ann())?;
        towns.insert(tx, "Bergen", &Id::Number(7))?;
        towns.insert(tx, "Bergen", &Id::Name("ann".into()))?;
        jobs.push(tx, &(1, "first".to_string()))?;
        jobs.push(tx, &(2, "second".to_string()))
    })
    .unwrap();
    let rows = |db: &Database, table: &str| {
        let mut rows = Vec::new();
        db.dump(table, |key, value| {
            rows.push((key, value));
            Ok(())
        })
        .unwrap();
        rows
    };
    assert_eq!(rows(&db, "numbers")[0], (Dynamic::Signed(-350), Dynamic::Unsigned(0)));
    assert_eq!(rows(&db, "jobs")[1].0, Dynamic::Unit);

    let copy = Database::in_memory().unwrap();
    for table in db.list().unwrap() {
        let all = rows(&db, &table.name);
        let count = all.len() as u64;
        assert_eq!(copy.load(&table, all.into_iter().map(Ok)).unwrap().rows, count);
        assert_eq!(rows(&copy, &table.name), rows(&db, &table.name));
    }
    assert_eq!(copy.list().unwrap(), db.list().unwrap());
    // The program finds its own types in the copy.
    let people = copy.table::<Id, Person>("people").unwrap();
    let numbers = copy.table::<i64, u64>("numbers").unwrap();
    let towns = copy.multimap::<String, Id>("towns").unwrap();
    let jobs = copy.queue::<(u64, String)>("jobs").unwrap();
    copy.write(|tx| {
        assert_eq!(people.get(tx, &Id::Name("a\0b".into()))?, Some(ann()));
        assert_eq!(numbers.get(tx, &-1)?, Some(349));
        assert!(towns.contains(tx, "Bergen", &Id::Number(7))?);
        jobs.push(tx, &(3, "third".to_string()))?;
        assert_eq!(jobs.pop(tx)?, Some((1, "first".into())));
        Ok(())
    })
    .unwrap();
    let damage = copy
        .read(|tx| Ok([people.check(tx)?, numbers.check(tx)?, towns.check(tx)?, jobs.check(tx)?].concat()));
    assert_eq!(damage.unwrap(), [""; 0]);
    assert_eq!((copy.check().unwrap(), copy.lost_memory().unwrap().blocks), (vec![], 0));

    // A row that does not have the table's types is refused, together with the rows before it in the same transaction.
    let about = db.list().unwrap().into_iter().find(|table| table.name == "numbers").unwrap();
    let wrong =
        [Ok((Dynamic::Signed(1000), Dynamic::Unsigned(1))), Ok((Dynamic::Unsigned(1), Dynamic::Unit))];
    assert!(matches!(copy.load(&about, wrong), Err(Error::Parameter(what)) if what.contains("numbers")));
    let other = strandline::TableDescription { value: "u32".into(), ..about.clone() };
    assert!(
        matches!(copy.load(&other, []), Err(Error::Parameter(what)) if what.contains("contradicts itself"))
    );
    // A description alone cannot turn a number into a pointer.
    let layouts = (about.layouts.0, <Ptr<'_, u64> as Persist<'_>>::LAYOUT);
    let forged = strandline::TableDescription { name: "forged".into(), layouts, ..about.clone() };
    assert!(matches!(copy.load(&forged, []), Err(Error::Parameter(_))));
    let pointers = strandline::TableDescription { value: "Ptr<u64>".into(), ..forged };
    assert!(matches!(copy.load(&pointers, []), Err(Error::Unsupported(_))));
    assert!(matches!(db.dump("none", |_, _| Ok(())), Err(Error::NoTable { .. })));
}

#[test]
fn a_table_cannot_be_taken_for_another() {
    let db = Database::in_memory().unwrap();
    let texts = db.table::<u64, String>("texts").unwrap();
    let jobs = db.queue::<u64>("jobs").unwrap();
    db.write(|tx| texts.insert(tx, &1, "one")).unwrap();
    // The catalogue owns the table's map, and only the catalogue can destroy it.
    let destroyed = db.write(|tx| texts.collection(tx)?.destroy(tx));
    assert!(matches!(destroyed, Err(Error::Parameter(what)) if what.contains("Tables::delete")));
    let destroyed = db.write(|tx| db.catalogue(tx)?.queue::<u64>(tx, "jobs")?.destroy(tx));
    assert!(matches!(destroyed, Err(Error::Parameter(_))));
    assert_eq!(db.read(|tx| texts.get(tx, &1)).unwrap().as_deref(), Some("one"));
    // A rename cannot replace another table, even if the transaction ignores the error.
    db.table::<u64, u64>("numbers").unwrap();
    db.write(|tx| {
        assert!(db.catalogue(tx)?.rename(tx, "texts", "numbers").is_err());
        db.catalogue(tx)?.rename(tx, "texts", "texts")
    })
    .unwrap();
    assert_eq!(db.list().unwrap().len(), 3);
    db.write(|tx| jobs.push(tx, &1)).unwrap();
    assert_eq!((db.check().unwrap(), db.lost_memory().unwrap().blocks), (vec![], 0));
}

/// A folder has a map of folders.
#[derive(Clone, Copy, Persist)]
struct Folder<'p> {
    inside: OrderedMap<'p, u64, Folder<'p>>,
}

#[derive(Persist)]
struct Tree<'p> {
    top: Option<Folder<'p>>,
}

#[test]
fn what_is_too_deep_or_runs_in_a_circle_is_refused() {
    let store = Store::<Tree>::in_memory(&Options::default(), |tx| {
        Ok(Tree { top: Some(Folder { inside: OrderedMap::new(tx)? }) })
    })
    .unwrap();
    let circle = store.write(|tx, root| {
        let top = root.get(tx)?.top.unwrap();
        top.inside.insert(tx, &1, &top)?;
        root.set(tx, &Tree { top: None })
    });
    assert!(matches!(circle, Err(Error::Dangling { .. })));
    let deep = store.write(|tx, root| {
        let bottom = root.get(tx)?.top.unwrap();
        let mut inner = bottom;
        for _ in 0..5000 {
            let outer = Folder { inside: OrderedMap::new(tx)? };
            outer.inside.insert(tx, &1, &inner)?;
            inner = outer;
        }
        inner.inside.remove(tx, &1).map(drop)
    });
    assert!(matches!(deep, Err(Error::Parameter(what)) if what.contains("100 deep")));
}

#[test]
fn who_reads_a_value_in_its_place_cannot_use_the_transaction_meanwhile() {
    let db = Database::in_memory().unwrap();
    let names = db.table::<u64, String>("names").unwrap();
    let length = db.write(|tx| {
        names.insert(tx, &1, "Ann")?;
        let inside = names.read_with(tx, &1, |name| (name.len(), names.get(tx, &1)))?.unwrap();
        assert!(matches!(inside.1, Err(Error::Parameter(_))), "{:?}", inside.1);
        // The transaction can continue.
        names.insert(tx, &2, "Bob")?;
        Ok(inside.0)
    });
    assert_eq!(length.unwrap(), 3);
    assert_eq!(db.read(|tx| names.len(tx)).unwrap(), 2);

    /// A reader or writer of bytes that uses a transaction while it is called.
    struct Uses<F>(F);
    impl<F: FnMut()> std::io::Write for Uses<F> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let films = db.table::<u64, Vec<u8>>("films").unwrap();
    db.write(|tx| films.set(tx, &1, &[7; 20_000])).unwrap();
    let written = db.read(|tx| {
        let uses = Uses(|| assert!(matches!(names.get(tx, &1), Err(Error::Parameter(_)))));
        films.reader(tx, &1)?.unwrap().write_to(uses)
    });
    assert_eq!(written.unwrap(), 20_000);
    // Rows of a range are copies.
    let both =
        db.read(|tx| names.iter(tx)?.next_with(|_, name| Ok((name.len(), names.len(tx)?))).unwrap()?);
    assert_eq!(both.unwrap(), (3, 2));
}
