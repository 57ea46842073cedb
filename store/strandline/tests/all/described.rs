//! Walks over pools by the pools' own descriptions of their types.

use std::path::Path;

use strandline::{
    Bytes, Checker, Database, Domain, Dynamic, DynamicStore, Error, HashMap, Invalid, Options, OrderedMap,
    Persist, Ptr, Queue, Result, Shown, Store, Stored, Tables, Text, Types, Vector,
};

#[derive(Clone, Copy, Persist)]
struct Node<'p> {
    number: u64,
    next: Option<Ptr<'p, Node<'p>>>,
}

#[derive(Persist)]
struct Shop<'p> {
    title: Text<'p>,
    stock: OrderedMap<'p, String, u64>,
    shelves: HashMap<'p, u8, Vector<'p, Option<Ptr<'p, Node<'p>>>>>,
    first: Option<Ptr<'p, Node<'p>>>,
    jobs: Queue<'p, Vec<u8>>,
    tables: Tables<'p>,
}

fn options() -> Options {
    Options { domain: Domain::Process, ..Options::default() }
}

fn shop(path: &Path) -> Store<Shop<'static>> {
    Store::<Shop>::create_new(path, &options(), |tx| {
        let stock = OrderedMap::new(tx)?;
        stock.insert(tx, &"apples and other fruit".to_string(), &40)?;
        stock.insert(tx, &"apples".to_string(), &2)?;
        stock.insert(tx, &"apples and nuts".to_string(), &3)?;
        // A cycle of two nodes.
        let second = Ptr::new(tx, &Node { number: 2, next: None })?;
        let first = Ptr::new(tx, &Node { number: 1, next: Some(second) })?;
        second.update(tx, |node| node.next = Some(first))?;
        let shelf = Vector::new(tx)?;
        shelf.extend(tx, [None, Some(first)])?;
        let shelves = HashMap::new(tx)?;
        shelves.insert(tx, &7, &shelf)?;
        let jobs = Queue::new(tx)?;
        jobs.push(tx, &vec![1, 2])?;
        let tables = Tables::new(tx)?;
        tables.table::<u64, String>(tx, "names")?.insert(tx, &1, &"one".to_string())?;
        let title = Text::new(tx, "At the corner")?;
        Ok(Shop { title, stock, shelves, first: Some(first), jobs, tables })
    })
    .unwrap()
}

fn open(path: &Path) -> DynamicStore {
    DynamicStore::open_read_only(path, &options()).unwrap()
}

/// Returns one line for each part that is shown. Addresses are numbered in the order in which they are met.
fn shown(pool: &DynamicStore) -> Vec<String> {
    let (mut lines, mut known) = (Vec::new(), Vec::new());
    let damage = pool
        .dump(|shown| {
            lines.push(match shown {
                Shown::Value { at, type_name, value } => {
                    format!("{}: {type_name} = {}", number(&mut known, at), text(&mut known, &value))
                }
                Shown::Collection { at, type_name } => format!("{}: {type_name}", number(&mut known, at)),
                Shown::Table { table, .. } => format!("table {}", table.name),
                Shown::Row { key: Some(key), value } => {
                    format!("  {} -> {}", text(&mut known, &key), text(&mut known, &value))
                }
                Shown::Row { key: None, value } => format!("  {}", text(&mut known, &value)),
                other => panic!("{other:?}"),
            });
            Ok(())
        })
        .unwrap();
    assert_eq!(damage, [""; 0]);
    lines
}

fn number(known: &mut Vec<u64>, at: u64) -> String {
    let place = known.iter().position(|other| *other == at).unwrap_or_else(|| {
        known.push(at);
        known.len() - 1
    });
    format!("#{place}")
}

fn text(known: &mut Vec<u64>, value: &Dynamic) -> String {
    match value {
        Dynamic::Handle(_, at) => number(known, *at),
        Dynamic::Optional(None) => "none".into(),
        Dynamic::Optional(Some(inside)) => text(known, inside),
        Dynamic::Unsigned(number) => number.to_string(),
        Dynamic::Text(text) => text.clone(),
        Dynamic::Record(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{name}: {}", text(known, value))).collect();
            fields.join(", ")
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_pool_is_shown_without_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop");
    shop(&path).close().unwrap();
    let pool = open(&path);
    assert_eq!(pool.schema().unwrap().root, "Shop");
    assert_eq!((pool.check().unwrap(), pool.lost_memory().unwrap().blocks), (vec![], 0));
    // Each part is shown once, after the value that first refers to it, and maps are shown in the order of their keys.
    assert_eq!(
        shown(&pool),
        [
            "#0: Shop = title: #1, stock: #2, shelves: #3, first: #4, jobs: #5, tables: named: #6, last: #7",
            "#1: Text = At the corner",
            "#2: OrderedMap<String, u64>",
            "  apples -> 2",
            "  apples and nuts -> 3",
            "  apples and other fruit -> 40",
            "#3: HashMap<u8, Vector<Option<Ptr<Node>>>>",
            "  7 -> #8",
            "#8: Vector<Option<Ptr<Node>>>",
            "  none",
            "  #4",
            "#4: Node = number: 1, next: #9",
            "#9: Node = number: 2, next: #4",
            "#5: Queue<Vec<u8>>",
            "  Bytes([1, 2])",
            "#6: strandline::Tables",
            "table names",
            "  1 -> one",
            "#7: u64 = 1",
        ]
    );
    // The caller's error ends the dump.
    let ended = pool.dump(|_| Err(Error::Aborted));
    assert!(matches!(ended, Err(Error::Aborted)), "{ended:?}");
}

#[test]
fn what_is_lost_and_what_is_damaged_is_told_without_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop");
    let store = shop(&path);
    // The list becomes unreachable, and the shelf with it.
    store
        .write(|tx, root| {
            let shop = root.get(tx)?;
            shop.shelves.clear_all(tx)?;
            root.update(tx, |shop| shop.first = None)
        })
        .unwrap();
    let lost = store.lost_memory().unwrap();
    assert_eq!(lost.blocks, 2);
    store.close().unwrap();
    assert_eq!(open(&path).lost_memory().unwrap(), lost);
    assert_eq!(open(&path).check().unwrap(), [""; 0], "no damage");

    // The value was freed, but the pointer to it is still there.
    let store = Store::<Shop>::open_existing(&path, &options()).unwrap();
    store.write(|tx, root| root.get(tx)?.title.destroy(tx)).unwrap();
    let damage = store.check().unwrap();
    store.close().unwrap();
    let pool = open(&path);
    assert_eq!(pool.check().unwrap(), damage);
    assert!(damage[0].starts_with("Text should be at"), "{damage:?}");
    assert!(matches!(pool.lost_memory(), Err(Error::Damaged { .. })));
    // The parts without damage are shown.
    let mut rows = 0;
    let told = pool.dump(|shown| {
        rows += u64::from(matches!(shown, Shown::Row { .. }));
        Ok(())
    });
    assert_eq!((told.unwrap(), rows), (damage, 5));
}

trait ClearAll<'p> {
    fn clear_all(self, tx: &strandline::Tx<'p>) -> Result<()>;
}

impl<'p, V: Persist<'p>> ClearAll<'p> for HashMap<'p, u8, V> {
    fn clear_all(self, tx: &strandline::Tx<'p>) -> Result<()> {
        let keys: Vec<u8> = self.iter(tx).map(|pair| Ok(pair?.0)).collect::<Result<_>>()?;
        keys.iter().try_for_each(|key| self.remove(tx, key).map(drop))
    }
}

/// Texts, bytes and pointers in the rows of tables are checked like those elsewhere.
#[test]
fn what_hangs_from_rows_is_looked_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop");
    #[derive(Persist)]
    struct Root<'p> {
        tables: Tables<'p>,
    }
    fn rows<'p>(tx: &strandline::Tx<'p>, tables: Tables<'p>) -> Result<()> {
        let texts = tables.table::<u64, Text>(tx, "texts")?;
        texts.insert(tx, &1, &Text::new(tx, "one")?)?;
        let nodes = tables.table::<String, Vec<Ptr<Node>>>(tx, "nodes")?;
        nodes.insert(tx, &"a".to_string(), &vec![Ptr::new(tx, &Node { number: 1, next: None })?])?;
        tables.queue::<Option<Bytes>>(tx, "bytes")?.push(tx, &Some(Bytes::new(tx, [1, 2, 3])?))
    }
    let store = Store::<Root>::create_new(&path, &options(), |tx| {
        let tables = Tables::new(tx)?;
        rows(tx, tables)?;
        Ok(Root { tables })
    })
    .unwrap();
    assert_eq!((store.check().unwrap(), store.lost_memory().unwrap().blocks), (vec![], 0));
    // A removed row leaves the text to which it referred, which takes two blocks.
    let text = store.write(|tx, root| {
        let texts = root.get(tx)?.tables.table::<u64, Text>(tx, "texts")?;
        texts.remove(tx, &1)?;
        Ok(())
    });
    text.unwrap();
    assert_eq!(store.lost_memory().unwrap().blocks, 2);
    // A text that is freed while a row refers to it is damage.
    store
        .write(|tx, root| {
            let nodes = root.get(tx)?.tables.table::<String, Vec<Ptr<Node>>>(tx, "nodes")?;
            nodes.get(tx, "a")?.unwrap()[0].free(tx).map(drop)
        })
        .unwrap();
    let damage = store.check().unwrap();
    assert!(damage[0].starts_with("Node should be at"), "{damage:?}");
    store.close().unwrap();
    assert_eq!(open(&path).check().unwrap(), damage);
}

/// A database with pointers in its rows can be checked and dumped, but its rows cannot be loaded into another database.
#[test]
fn a_database_with_pointers_in_its_rows_is_no_copy_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open_with(&path, &options()).unwrap();
    db.write(|tx| {
        let texts = db.catalogue(tx)?.table::<u64, Text>(tx, "texts")?;
        texts.insert(tx, &1, &Text::new(tx, "one")?).map(drop)
    })
    .unwrap();
    assert_eq!((db.check().unwrap(), db.lost_memory().unwrap().blocks), (vec![], 0));
    let mut rows = Vec::new();
    db.dump("texts", |key, value| {
        rows.push((key, value));
        Ok(())
    })
    .unwrap();
    assert!(
        matches!(&rows[..], [(Dynamic::Unsigned(1), Dynamic::Handle(to, _))] if **to == *"Text"),
        "{rows:?}"
    );
    let refused = Database::in_memory().unwrap().load(&db.list().unwrap()[0], rows.into_iter().map(Ok));
    assert!(matches!(&refused, Err(Error::Unsupported(what)) if what.contains("texts")), "{refused:?}");
    db.write(|tx| {
        let texts = db.catalogue(tx)?.table::<u64, Text>(tx, "texts")?;
        texts.get(tx, &1)?.unwrap().destroy(tx)
    })
    .unwrap();
    assert_eq!(db.check().unwrap().len(), 1);
}

/// A type without a description.
struct Own(u64);

// SAFETY: the value is a number, with a layout of its own.
unsafe impl Persist<'_> for Own {
    const NAME: &'static str = "Own";
    const LAYOUT: u64 = 0x1234;
    const SIZE: Option<usize> = Some(1);
    fn describe(_: &mut Types) -> String {
        "Own".into()
    }
    fn words(&self) -> usize {
        1
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.0.store(into)
    }
    fn load(from: &mut &[u64], stored: Stored<'_>) -> Result<Self, Invalid> {
        u64::load(from, stored).map(Self)
    }
    fn visit(&self, _: &mut Checker<'_, '_>) -> Result<()> {
        Ok(())
    }
}

// SAFETY: the value always has one word.
unsafe impl strandline::Fixed<'_> for Own {}

#[test]
fn what_only_the_program_can_read_is_told() {
    #[derive(Persist)]
    struct Root<'p> {
        own: Ptr<'p, Own>,
        title: Text<'p>,
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let store = Store::<Root>::create_new(&path, &options(), |tx| {
        Ok(Root { own: Ptr::new(tx, &Own(5))?, title: Text::new(tx, "x")? })
    })
    .unwrap();
    assert_eq!(store.check().unwrap(), [""; 0]);
    store.close().unwrap();
    let told = open(&path).check();
    assert!(matches!(&told, Err(Error::Unsupported(what)) if what.contains("Ptr<Own>")), "{told:?}");
    assert!(matches!(open(&path).lost_memory(), Err(Error::Unsupported(_))));
    // Damage elsewhere is still found.
    let store = Store::<Root>::open_existing(&path, &options()).unwrap();
    store.write(|tx, root| root.get(tx)?.title.destroy(tx)).unwrap();
    store.close().unwrap();
    assert_eq!(open(&path).check().unwrap().len(), 1);
}

/// If a row of a table has a value of such a type, the program can still check the table, but lost memory cannot be determined.
#[test]
fn what_a_row_leads_to_may_be_unknown() {
    let db = Database::in_memory().unwrap();
    db.write(|tx| {
        let owns = db.catalogue(tx)?.table::<u64, Ptr<Own>>(tx, "owns")?;
        owns.insert(tx, &1, &Ptr::new(tx, &Own(5))?).map(drop)
    })
    .unwrap();
    assert_eq!(db.check().unwrap(), [""; 0]);
    let told = db.lost_memory();
    assert!(matches!(&told, Err(Error::Unsupported(what)) if what.contains("Ptr<Own>")), "{told:?}");
}

/// A catalogue is destroyed with the value that holds it, including its tables.
#[test]
fn a_catalogue_is_destroyed_with_its_value() {
    #[derive(Persist)]
    struct Root<'p> {
        users: HashMap<'p, u64, Tables<'p>>,
    }
    let store =
        Store::<Root>::in_memory(&Options::default(), |tx| Ok(Root { users: HashMap::new(tx)? })).unwrap();
    let add = |user: u64| {
        store
            .write(|tx, root| {
                let tables = Tables::new(tx)?;
                tables.table::<u64, String>(tx, "names")?.insert(tx, &user, &"x".repeat(99))?;
                tables.queue::<u64>(tx, "jobs")?.push(tx, &user)?;
                root.get(tx)?.users.insert(tx, &user, &tables).map(drop)
            })
            .unwrap();
    };
    add(1);
    let objects = store.usage().unwrap().objects;
    add(2);
    add(2);
    // Storing the same catalogue again keeps it.
    store
        .write(|tx, root| {
            let users = root.get(tx)?.users;
            let tables = users.get(tx, &2)?.unwrap();
            users.insert(tx, &2, &tables).map(drop)
        })
        .unwrap();
    assert_eq!((store.check().unwrap(), store.lost_memory().unwrap().blocks), (vec![], 0));
    store.write(|tx, root| root.get(tx)?.users.remove(tx, &2).map(drop)).unwrap();
    assert_eq!((store.lost_memory().unwrap().blocks, store.usage().unwrap().objects), (0, objects));
}

#[test]
fn a_collection_that_a_value_holds_twice_goes_once() {
    #[derive(Persist)]
    struct Root<'p> {
        pairs: OrderedMap<'p, u64, (Vector<'p, u64>, [Vector<'p, u64>; 2])>,
    }
    let store =
        Store::<Root>::in_memory(&Options::default(), |tx| Ok(Root { pairs: OrderedMap::new(tx)? })).unwrap();
    let removed = store.write(|tx, root| {
        let pairs = root.get(tx)?.pairs;
        let (one, other) = (Vector::new(tx)?, Vector::new(tx)?);
        one.push(tx, &1)?;
        pairs.insert(tx, &1, &(one, [other, one]))?;
        pairs.remove(tx, &1).map(|old| old.is_some())
    });
    assert!(removed.unwrap());
    assert_eq!((store.check().unwrap(), store.lost_memory().unwrap().blocks), (vec![], 0));
}
