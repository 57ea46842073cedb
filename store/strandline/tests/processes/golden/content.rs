//! The contents of golden pools. One description serves both the version that writes the pools and later versions that check them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use strandline::{
    Bytes, Database, HashMap, Key, Options, OrderedMap, Persist, Ptr, Queue, Result, Store, Text, Tx, Value,
    Vector, View,
};

/// Selects whether the contents are written, or compared with those of a pool.
#[derive(Clone, Copy, PartialEq)]
pub enum Pass {
    Write,
    Compare,
}

/// Writes or compares a table with these rows, in the order of their keys.
fn table<K, V>(db: &Database, pass: Pass, name: &str, rows: &[(K, V)]) -> Result<()>
where
    K: Key + PartialEq + Debug,
    V: Value + PartialEq + Debug,
{
    let table = db.table::<K, V>(name)?;
    if pass == Pass::Write {
        return db
            .write(|tx| rows.iter().try_for_each(|(key, value)| table.insert(tx, key, value).map(drop)));
    }
    let found: Vec<(K, V)> = db.read(|tx| table.iter(tx)?.collect())?;
    assert!(found == rows, "table {name}: {found:?} in place of {rows:?}");
    Ok(())
}

/// Returns row `number` of version `version`, which has up to `bytes` bytes.
fn row(version: u64, number: u64, bytes: u64) -> Vec<u8> {
    let bytes = 1 + (number * 7919 + version) % bytes;
    (0..bytes).map(|at| (version * 29 + number * 13 + at / 64) as u8 | 1).collect()
}

/// Writes or compares the table `name` with `count` rows of one version. They replace those of the previous version.
pub fn rows(db: &Database, pass: Pass, name: &str, version: u64, count: u64, bytes: u64) -> Result<()> {
    let rows: Vec<_> = (0..count).map(|number| (number, row(version, number, bytes))).collect();
    table(db, pass, name, &rows)
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Numbers {
    unsigned: (u8, u16, u32, u64, u128, usize),
    signed: (i8, i16, i32, i64, i128, isize),
    floats: (f32, f64),
    others: (bool, char, (), NonZero<u32>, Option<NonZero<i64>>),
}

#[derive(Clone, Debug, PartialEq, Persist)]
enum Shape {
    Point,
    Circle(f64),
    Polygon { corners: Vec<(i32, i32)>, name: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Composed {
    text: String,
    bytes: Vec<u8>,
    packed: Vec<u16>,
    nested: Vec<Vec<Option<String>>>,
    array: [(u8, bool); 3],
    shapes: Vec<Shape>,
    map: BTreeMap<String, u8>,
    set: BTreeSet<u16>,
    range: std::ops::Range<u32>,
    closed: std::ops::RangeInclusive<i64>,
    outcome: std::result::Result<u8, String>,
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Standard {
    duration: Duration,
    at: SystemTime,
    addresses: (IpAddr, Ipv4Addr, Ipv6Addr),
    order: std::cmp::Ordering,
    path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Crates {
    id: uuid::Uuid,
    bytes: bytes::Bytes,
    chrono: (chrono::NaiveDate, chrono::NaiveTime, chrono::NaiveDateTime, chrono::DateTime<chrono::Utc>),
    jiff: (jiff::civil::Date, jiff::civil::Time, jiff::Timestamp, jiff::SignedDuration),
    time: (time::Date, time::Time, time::OffsetDateTime, time::Duration),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Id {
    Number(u64),
    Name { family: String, given: Option<String> },
}

fn numbers() -> [Numbers; 2] {
    [
        Numbers {
            unsigned: (0, 0, 0, 0, 0, 0),
            signed: (i8::MIN, i16::MIN, i32::MIN, i64::MIN, i128::MIN, isize::MIN),
            floats: (f32::MIN, -0.0),
            others: (false, '\0', (), NonZero::<u32>::MIN, None),
        },
        Numbers {
            unsigned: (u8::MAX, u16::MAX, u32::MAX, u64::MAX, u128::MAX, usize::MAX),
            signed: (-1, -1, -1, -1, -1, -1),
            floats: (1.5, f64::INFINITY),
            others: (true, '\u{10ffff}', (), NonZero::<u32>::MAX, NonZero::new(-7)),
        },
    ]
}

fn composed() -> Composed {
    let corners = vec![(-1, 1), (0, i32::MAX)];
    Composed {
        text: "sea\0 Bodø".into(),
        bytes: vec![0, 255, 7],
        packed: vec![1, 2, u16::MAX],
        nested: vec![vec![], vec![None, Some("x".into())]],
        array: [(1, true), (2, false), (3, true)],
        shapes: vec![Shape::Point, Shape::Circle(0.25), Shape::Polygon { corners, name: Some("P".into()) }],
        map: BTreeMap::from([("a".into(), 1), ("b".into(), 2)]),
        set: BTreeSet::from([3, 300]),
        range: 1..9,
        closed: -4..=4,
        outcome: Err("no".into()),
    }
}

fn standard() -> Standard {
    Standard {
        duration: Duration::new(3, 999_999_999),
        at: SystemTime::UNIX_EPOCH - Duration::from_millis(1500),
        addresses: (Ipv6Addr::LOCALHOST.into(), Ipv4Addr::BROADCAST, Ipv6Addr::UNSPECIFIED),
        order: std::cmp::Ordering::Less,
        path: "a/b c".into(),
    }
}

fn crates() -> Crates {
    let day = chrono::NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let leap = day.and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap();
    let date = time::Date::from_calendar_date(2024, time::Month::February, 29).unwrap();
    let clock = time::Time::from_hms_nano(12, 34, 56, 7).unwrap();
    let offset = time::UtcOffset::from_hms(-2, -30, 0).unwrap();
    Crates {
        id: uuid::Uuid::from_u128(0xff << 120 | 1),
        bytes: bytes::Bytes::from_static(b"bytes"),
        chrono: (day, leap.time(), leap, leap.and_utc()),
        jiff: (
            jiff::civil::date(-1, 2, 3),
            jiff::civil::time(1, 2, 3, 4),
            jiff::Timestamp::from_nanosecond(-1_500_000_000).unwrap(),
            jiff::SignedDuration::from_millis(-1500),
        ),
        time: (date, clock, date.with_time(clock).assume_offset(offset), time::Duration::new(-1, -5)),
    }
}

/// Writes or compares all types as values and, where possible, as keys; a multimap, a queue, and a value that takes many pages.
pub fn database(db: &Database, pass: Pass) -> Result<()> {
    let [lowest, highest] = numbers();
    table(db, pass, "numbers", &[(1u64, lowest), (2, highest)])?;
    table(db, pass, "composed", &[(1u64, composed())])?;
    table(db, pass, "standard", &[(1u64, standard())])?;
    table(db, pass, "crates", &[(1u64, crates())])?;
    table(db, pass, "large", &[(1u64, row(1, 3, 40_000)), (2, vec![7; 20_000])])?;

    let [(a, b, c, d, e, _), (f, g, h, i, j, _)] =
        [(0u8, 1u16, 2u32, 3u64, 4u128, 0), (255, 256, 1 << 31, 5, 6, 0)];
    table(db, pass, "unsigned keys", &[((a, b, c, d, e), ()), ((f, g, h, i, j), ())])?;
    table(
        db,
        pass,
        "signed keys",
        &[((i8::MIN, -1i16, -1i32, -1i64, i128::MIN), ()), ((0, 1, 2, 3, 4), ())],
    )?;
    table(db, pass, "float keys", &[(f64::NEG_INFINITY, 1.5f32), (-0.0, 0.0), (0.0, -1.0), (2.5, 0.5)])?;
    let text = |text: &str| text.to_owned();
    table(
        db,
        pass,
        "text keys",
        &[((text(""), 'a'), 1u64), ((text("a\0b"), 'b'), 2), ((text("ab"), 'a'), 3)],
    )?;
    table(
        db,
        pass,
        "byte keys",
        &[((vec![0u8], None), 1u64), ((vec![0, 0], Some(true)), 2), ((vec![1], None), 3)],
    )?;
    let name = |given: Option<&str>| Id::Name { family: text("Bee"), given: given.map(text) };
    table(db, pass, "derived keys", &[(Id::Number(7), 1u64), (name(None), 2), (name(Some("Ann")), 3)])?;
    let reversed = |number: u16| (std::cmp::Reverse(number), [number as u8; 2]);
    table(db, pass, "reversed keys", &[(reversed(9), Duration::ZERO), (reversed(7), Duration::MAX)])?;
    let Standard { duration, at, addresses, order, .. } = standard();
    table(db, pass, "standard keys", &[((duration, at, addresses, order), 1u64)])?;
    let Crates { id, chrono, jiff, time, .. } = crates();
    table(db, pass, "keys of crates", &[((id, chrono, jiff, time.0, time.1), 1u64)])?;

    let pairs = [("sea", 1u32), ("sea", 7), ("town", 0)].map(|(tag, page)| (text(tag), page));
    let items: Vec<String> = (0..40).map(|number| format!("item {number}")).collect();
    let (tags, jobs) = (db.multimap::<String, u32>("tags")?, db.queue::<String>("jobs")?);
    if pass == Pass::Write {
        return db.write(|tx| {
            pairs.iter().try_for_each(|(tag, page)| tags.insert(tx, tag, page).map(drop))?;
            items.iter().try_for_each(|item| jobs.push(tx, item))
        });
    }
    let found: Vec<(String, u32)> = db.read(|tx| tags.iter(tx)?.collect())?;
    assert_eq!(found, pairs);
    let found: Vec<String> = db.read(|tx| jobs.iter(tx)?.collect())?;
    assert_eq!(found, items);
    Ok(())
}

#[derive(Persist)]
struct Root<'p> {
    ordered: OrderedMap<'p, String, u64>,
    hashed: HashMap<'p, u64, Shape>,
    vector: Vector<'p, (u32, bool)>,
    queue: Queue<'p, String>,
    title: Text<'p>,
    image: Option<Bytes<'p>>,
    first: Option<Ptr<'p, Node<'p>>>,
    groups: OrderedMap<'p, u8, Vector<'p, u64>>,
}

#[derive(Persist)]
struct Node<'p> {
    number: u64,
    next: Option<Ptr<'p, Node<'p>>>,
}

fn ordered() -> impl Iterator<Item = (String, u64)> {
    (0..150).map(|number| (format!("key {number:03}"), number * number))
}

fn hashed(number: u64) -> Shape {
    if number.is_multiple_of(3) { Shape::Point } else { Shape::Circle(number as f64) }
}

fn make<'p>(tx: &Tx<'p>) -> Result<Root<'p>> {
    let last = Ptr::new(tx, &Node { number: 2, next: None })?;
    let root = Root {
        ordered: OrderedMap::new(tx)?,
        hashed: HashMap::new(tx)?,
        vector: Vector::new(tx)?,
        queue: Queue::new(tx)?,
        title: Text::new(tx, "At the corner")?,
        image: Some(Bytes::new(tx, row(1, 1, 9000))?),
        first: Some(Ptr::new(tx, &Node { number: 1, next: Some(last) })?),
        groups: OrderedMap::new(tx)?,
    };
    ordered().try_for_each(|(key, value)| root.ordered.insert(tx, &key, &value).map(drop))?;
    (0..150).try_for_each(|number| root.hashed.insert(tx, &number, &hashed(number)).map(drop))?;
    root.vector.extend(tx, (0..100).map(|number| (number, number % 2 == 0)))?;
    ["one", "two"].iter().try_for_each(|item| root.queue.push(tx, &item.to_string()))?;
    let group = Vector::new(tx)?;
    group.extend(tx, 0..9)?;
    root.groups.insert(tx, &7, &group)?;
    Ok(root)
}

fn compare<'p>(tx: &View<'p>, root: Ptr<'p, Root<'p>>) -> Result<()> {
    let root = root.get(tx)?;
    assert!(root.ordered.iter(tx).collect::<Result<Vec<_>>>()?.into_iter().eq(ordered()));
    for number in 0..150 {
        assert_eq!(root.hashed.get(tx, &number)?, Some(hashed(number)));
    }
    let vector: Vec<_> = root.vector.iter(tx)?.collect::<Result<_>>()?;
    assert!(vector.into_iter().eq((0..100).map(|number| (number, number % 2 == 0))));
    assert_eq!(root.queue.iter(tx)?.collect::<Result<Vec<_>>>()?, ["one", "two"]);
    assert_eq!(root.title.get(tx)?, "At the corner");
    assert_eq!(root.image.unwrap().get(tx)?, row(1, 1, 9000));
    let first = root.first.unwrap().get(tx)?;
    assert_eq!((first.number, first.next.unwrap().get(tx)?.number), (1, 2));
    let group = root.groups.get(tx, &7)?.unwrap();
    assert!(group.iter(tx)?.collect::<Result<Vec<_>>>()?.into_iter().eq(0..9));
    Ok(())
}

/// Writes or compares all collections in a store.
pub fn store(path: &std::path::Path, options: &Options, pass: Pass) -> Result<()> {
    let store = match pass {
        Pass::Write => Store::<Root>::create_new(path, options, make)?,
        Pass::Compare => Store::<Root>::open_existing(path, options)?,
    };
    store.read(compare)?;
    store.usage()?;
    store.close()
}
