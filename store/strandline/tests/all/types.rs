//! The space that values of each type take in a table, and checks that they are loaded again unchanged.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ffi::OsString;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{NonZero, Wrapping};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use strandline::{
    Database, Dynamic, Error, Key, Options, Persist, TableDescription, TableKind, Tx, Types, Value, View,
    layout,
};

/// Returns the number of bytes of the heap that a row with such a value takes. Its key is a `u64`: the number of the row times `step`.
fn row_bytes<V: Value>(value: &V, step: u64) -> u64 {
    const ROWS: u64 = 10_000;
    let db = Database::in_memory().unwrap();
    let table = db.table::<u64, V>("rows").unwrap();
    let before = db.usage().unwrap().allocated_bytes;
    let insert = |first: u64| {
        let keys = (first..first + 100).map(|n| n.wrapping_mul(step));
        db.write(|tx| keys.clone().try_for_each(|key| table.insert(tx, &key, value).map(drop))).unwrap();
    };
    (0..ROWS).step_by(100).for_each(insert);
    (db.usage().unwrap().allocated_bytes - before) / ROWS
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Pixel {
    at: (u16, u16),
    colour: [u8; 3],
    shade: Option<Shade>,
}

#[derive(Clone, Debug, PartialEq, Persist)]
enum Shade {
    Light,
    Dark(u8),
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Image {
    name: String,
    digest: [u8; 32],
    before: Option<[u8; 32]>,
    pixels: Vec<Pixel>,
}

#[test]
fn lists_of_small_values_are_packed() {
    let bytes = |value: &dyn Fn() -> u64| value();
    let words = |value: &dyn Fn() -> usize| 8 * value() as u64;
    // As a value of a table, and inside a value: no more than the content and three words.
    assert_eq!(bytes(&|| Persist::bytes(&[7u8; 16])), 16);
    assert_eq!(bytes(&|| Persist::bytes(&[7u8; 100])), 104);
    assert_eq!(bytes(&|| Persist::bytes(&vec![7u16; 100])), 200);
    assert_eq!(bytes(&|| Persist::bytes(&vec![(7u8, 8u8); 100])), 200);
    assert_eq!(bytes(&|| Persist::bytes(&vec![Some(true); 100])), 200);
    assert_eq!(words(&|| Some([7u8; 16]).words()), 8 + 16);
    assert_eq!(words(&|| [[7u8; 3]; 5].words()), 16);
    assert_eq!(words(&|| vec!['a'; 3].words()), 8 + 16);
    assert_eq!(words(&|| vec![[7u64; 2]; 3].words()), 8 + 48);
    let pixel = Pixel { at: (1, 2), colour: [3, 4, 5], shade: Some(Shade::Dark(6)) };
    assert_eq!(bytes(&|| Persist::bytes(&vec![pixel.clone(); 100])), 100 * (4 + 3 + 1 + 2));
    let image = Image { name: "Ann".into(), digest: [1; 32], before: None, pixels: vec![pixel; 4] };
    assert_eq!(words(&|| image.words()), 8 + 16 + 32 + 40 + (8 + 40));
    let db = Database::in_memory().unwrap();
    let images = db.table::<u64, Image>("images").unwrap();
    db.write(|tx| images.insert(tx, &1, &image)).unwrap();
    assert_eq!(db.read(|tx| images.get(tx, &1)).unwrap(), Some(image));
}

#[test]
fn rows_take_what_is_in_them() {
    // Keys in order, and keys without an order, which leave pages less full.
    for (step, most) in [(1, [72, 140, 240]), (0x9e37_79b9_7f4a_7c15, [72, 180, 300])] {
        let (bytes, shorts) = (row_bytes(&vec![7u8; 16], step), row_bytes(&vec![7u16; 100], step));
        let (id, digest) = (row_bytes(&[7u8; 16], step), row_bytes(&[7u8; 100], step));
        let pairs = row_bytes(&vec![(7u8, 8u8); 100], step);
        println!("Vec<u8> of 16: {bytes}, [u8; 16]: {id}, [u8; 100]: {digest}");
        println!("Vec<u16> of 100: {shorts}, Vec<(u8, u8)> of 100: {pairs}");
        assert!(id <= bytes && pairs <= shorts);
        assert!(id <= most[0] && digest <= most[1] && pairs <= most[2]);
    }
}

/// Returns the description of a table whose values were stored by a version that did not pack them.
fn unpacked<V: Value>(name: &str, layout: u64) -> TableDescription {
    let mut types = Types::default();
    let value = V::describe(&mut types);
    TableDescription {
        name: name.into(),
        kind: TableKind::Table,
        key: "u64".into(),
        value,
        types,
        layouts: (layout::begin("u64", 0), layout),
    }
}

#[test]
fn tables_that_are_not_packed_are_converted() {
    let of_u8 = layout::begin("u8", 0);
    let pair = layout::field(layout::field(layout::begin("tuple", 0), "", of_u8), "", of_u8);
    let pairs = unpacked::<Vec<(u8, u8)>>("pairs", layout::field(layout::begin("Vec", 0), "", pair));
    let ids = unpacked::<[u8; 16]>("ids", layout::field(layout::begin("array", 16), "", of_u8));
    let number = |number: u8| Dynamic::Unsigned(number.into());
    let id = Dynamic::List((0..16).map(number).collect());
    let two = Dynamic::List((0..2).map(|n| Dynamic::List(vec![number(n), number(255)])).collect());

    let db = Database::in_memory().unwrap();
    for (about, value) in [(&pairs, &two), (&ids, &id)] {
        db.load(about, [Ok((number(7), value.clone()))]).unwrap();
        // Rows that were stored in the old form are shown, counted and checked as before.
        let mut shown = Vec::new();
        db.dump(&about.name, |_, value| {
            shown.push(value);
            Ok(())
        })
        .unwrap();
        assert_eq!(shown, std::slice::from_ref(value));
        assert!(db.check().unwrap().is_empty());
    }
    // The values cannot become those of another type.
    let error = db.table::<u64, [u8; 15]>("ids").unwrap_err();
    assert!(matches!(error, Error::TableTypes { .. }), "{error}");
    let table = db.table::<u64, Vec<(u8, u8)>>("pairs").unwrap();
    assert_eq!(db.read(|tx| table.get(tx, &7)).unwrap(), Some(vec![(0, 255), (1, 255)]));
    let table = db.table::<u64, [u8; 16]>("ids").unwrap();
    assert_eq!(db.read(|tx| table.get(tx, &7)).unwrap(), Some(std::array::from_fn(|n| n as u8)));
    assert!(db.list().unwrap().iter().all(|table| ![pairs.layouts, ids.layouts].contains(&table.layouts)));
    assert!(db.check().unwrap().is_empty());
}

mod before {
    #[derive(strandline::Persist)]
    pub struct Row {
        pub id: [u8; 4],
        pub marks: Vec<(u8, bool)>,
        pub grid: Option<[[u16; 3]; 2]>,
        pub name: String,
    }
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(version = 2)]
struct Row {
    name: String,
    #[persist(default = 7)]
    new: u8,
    id: [u16; 4],
    marks: Vec<(u64, Option<bool>)>,
    grid: Option<[[u16; 3]; 2]>,
}

#[test]
fn items_of_derived_types_that_are_not_packed_are_converted() {
    let field = layout::field;
    let scalar = |name| layout::begin(name, 0);
    let array = |count, inside| field(layout::begin("array", count), "", inside);
    let mark = field(field(scalar("tuple"), "", scalar("u8")), "", scalar("bool"));
    let grid = field(scalar("Option"), "", array(2, array(3, scalar("u16"))));
    let row = field(layout::begin_derived("Row", 1), "id", array(4, scalar("u8")));
    let row = field(row, "marks", field(scalar("Vec"), "", mark));
    let row = field(field(row, "grid", grid), "name", scalar("String"));
    let mut about = unpacked::<before::Row>("rows", row);
    let mut types = about.types.all().to_vec();
    types[0].layout = row;
    (about.types, about.kind, about.key) = (types.into(), TableKind::Queue, "()".into());
    about.layouts.0 = scalar("()");

    let number = |number: u8| Dynamic::Unsigned(number.into());
    let numbers = |all: &[u8]| Dynamic::List(all.iter().copied().map(number).collect());
    let shown = |grid: bool| {
        let grid = grid.then(|| Box::new(Dynamic::List(vec![numbers(&[1, 2, 3]), numbers(&[4, 5, 6])])));
        let mark = Dynamic::List(vec![number(255), Dynamic::Bool(true)]);
        let fields = [
            ("id", numbers(&[1, 2, 3, 4])),
            ("marks", Dynamic::List(vec![mark; 3])),
            ("grid", Dynamic::Optional(grid)),
            ("name", text("Ann")),
        ];
        Dynamic::Record(fields.map(|(name, value)| (name.to_owned(), value)).into())
    };
    let db = Database::in_memory().unwrap();
    db.load(&about, [true, false].map(|grid| Ok((Dynamic::Unit, shown(grid))))).unwrap();
    let mut found = Vec::new();
    db.dump("rows", |_, value| {
        found.push(value);
        Ok(())
    })
    .unwrap();
    assert_eq!(found, [shown(true), shown(false)]);
    let expected =
        |grid| Row { name: "Ann".into(), new: 7, id: [1, 2, 3, 4], marks: vec![(255, Some(true)); 3], grid };
    let rows = db.queue::<Row>("rows").unwrap();
    let first = db.write(|tx| rows.pop(tx)).unwrap();
    assert_eq!(first, Some(expected(Some([[1, 2, 3], [4, 5, 6]]))));
    assert_eq!(db.write(|tx| rows.pop(tx)).unwrap(), Some(expected(None)));
}

/// Runs a transaction. Like the other helpers without type parameters, this is compiled once, not for each of the types that come back.
fn write(db: &Database, body: &mut dyn FnMut(&Tx<'_>) -> Result<(), Error>) {
    db.write(body).unwrap();
}

fn read(db: &Database, body: &mut dyn FnMut(&View<'_>) -> Result<(), Error>) {
    db.read(body).unwrap();
}

/// Copies a table by its description, and returns its rows in the form in which they are shown.
fn copied(about: &TableDescription, from: &Database, to: &Database) -> Vec<(Dynamic, Dynamic)> {
    let mut shown = Vec::new();
    from.dump(&about.name, |key, value| {
        shown.push((key, value));
        Ok(())
    })
    .unwrap();
    to.load(about, shown.iter().cloned().map(Ok)).unwrap();
    shown
}

/// Stores the value, and loads it from its table and from a copy that was made by the table's description. Returns the form in which it is shown.
fn comes_back<V: Value + PartialEq + Debug>(value: &V) -> Dynamic {
    let (db, copy) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let tables = |db: &Database| {
        let lists = db.table::<u64, (u8, Vec<V>, Option<V>)>("lists").unwrap();
        (db.table::<u64, V>("values").unwrap(), lists)
    };
    let (table, lists) = tables(&db);
    write(&db, &mut |tx| table.insert(tx, &1, value).map(drop));
    write(&db, &mut |tx| {
        let list = (1, vec![table.get(tx, &1)?.unwrap()], table.get(tx, &1)?);
        lists.insert(tx, &1, &list).map(drop)
    });
    assert!(db.check().unwrap().is_empty());

    let shown = db.list().unwrap().iter().flat_map(|about| copied(about, &db, &copy)).last();
    for db in [&db, &copy] {
        let (table, lists) = tables(db);
        read(db, &mut |tx| {
            assert_eq!(table.get(tx, &1)?.as_ref(), Some(value));
            let (number, list, option) = lists.get(tx, &1)?.unwrap();
            assert_eq!((number, &list[0], option.as_ref()), (1, value, Some(value)));
            Ok(())
        });
    }
    shown.unwrap().1
}

/// Checks the keys in the same way, and their order. Returns the form in which the first key is shown.
fn is_ordered<K: Key + Value + Ord + Clone + Debug>(mut keys: Vec<K>) -> Dynamic {
    let (db, copy) = (Database::in_memory().unwrap(), Database::in_memory().unwrap());
    let table = db.table::<K, u64>("keys").unwrap();
    write(&db, &mut |tx| {
        for key in &keys {
            table.insert(tx, key, &1)?;
        }
        Ok(())
    });
    let first = comes_back(&keys[0]);
    keys.sort();
    keys.dedup();
    copied(&db.list().unwrap()[0], &db, &copy);
    for db in [&db, &copy] {
        let table = db.table::<K, u64>("keys").unwrap();
        read(db, &mut |tx| {
            let mut found = table.iter(tx)?;
            for key in &keys {
                assert_eq!(&found.next().unwrap()?.0, key);
            }
            assert!(found.next().is_none());
            Ok(())
        });
        assert!(db.check().unwrap().is_empty());
    }
    first
}

fn text(text: &str) -> Dynamic {
    Dynamic::Text(text.into())
}

#[test]
fn values_of_the_standard_library_come_back() {
    comes_back(&NonZero::new(7u64));
    comes_back(&Box::new(7u8));
    comes_back(&Some(Rc::new("Ann".to_string())));
    comes_back(&Arc::new(vec![1u16]));
    assert_eq!(comes_back::<Box<str>>(&"Ann".into()), text("Ann"));
    comes_back::<Arc<[u8]>>(&[1, 2][..].into());
    comes_back::<Cow<'static, str>>(&"Ann".into());
    comes_back::<Cow<'static, [(u8, u8)]>>(&vec![(1, 2)].into());
    comes_back(&VecDeque::from([1u64, 2]));
    comes_back(&BTreeMap::from([("b".to_string(), 1u8), ("a".to_string(), 2)]));
    comes_back(&std::collections::HashMap::from([(1u8, vec!["a".to_string()]), (2, vec![])]));
    comes_back(&BTreeSet::from([3u16, 1]));
    comes_back(&HashSet::from(["a".to_string()]));
    comes_back(&(1..5u8));
    comes_back(&(Wrapping(3i8), PhantomData::<String>, -1.5f32..=2.0));
    comes_back(&vec![Ok::<u8, String>(1), Err("no".into())]);
    comes_back(&(1u8, 2u8, 3u8, 4u8, 5u8, 6u8, 7u8, 8u8, 9u8, 10u8, 11u8, "twelve".to_string()));
    assert_eq!(comes_back(&PathBuf::from("a/b")), text("a/b"));
    let bytes = <OsString as OsStringExt>::from_vec(vec![0xff, b'a']);
    assert_eq!(comes_back(&PathBuf::from(bytes)), Dynamic::List(vec![Dynamic::Bytes(vec![0xff, b'a'])]));
    // A set or a map of one program may be another kind of set or map in the next.
    let db = Database::in_memory().unwrap();
    let table = db.table::<u8, std::collections::HashMap<u8, String>>("maps").unwrap();
    let one = std::collections::HashMap::from([(7, "a".to_string())]);
    db.write(|tx| table.insert(tx, &1, &one)).unwrap();
    let table = db.table::<u8, BTreeMap<u8, Box<str>>>("maps").unwrap();
    assert_eq!(db.read(|tx| table.get(tx, &1)).unwrap(), Some([(7, "a".into())].into()));
    assert!(db.table::<u8, Vec<(u8, String)>>("maps").is_err());
}

#[test]
fn keys_of_the_standard_library_are_ordered() {
    is_ordered([3i16, -5, 1].map(|n| NonZero::new(n).unwrap()).to_vec());
    is_ordered(vec![Duration::new(1, 5), Duration::new(0, 9), Duration::MAX]);
    is_ordered(vec![Wrapping(3u8), Wrapping(1)]);
    is_ordered(vec![Box::new((1u8, "b".to_string())), Box::new((1, "a".to_string()))]);
    is_ordered::<Cow<'static, str>>(vec!["b".into(), "a".into()]);
    is_ordered(vec![Reverse("ab".to_string()), Reverse("a".to_string()), Reverse("b".to_string())]);
    is_ordered(vec![(1u8, Reverse(7u64), 2i8), (1, Reverse(9), 1), (0, Reverse(1), 1)]);
    is_ordered(vec![Ordering::Greater, Ordering::Less]);
    is_ordered(vec![((), 1u8, 2u8, 3u8, 4u8, 5u8, 6u8, 7u8, 8u8, 9u8, 10u8, 12u8), Default::default()]);
    let addresses = ["::1", "10.0.0.1", "9.255.255.255", "ffff::"];
    let shown = is_ordered::<IpAddr>(addresses.map(|address| address.parse().unwrap()).to_vec());
    assert_eq!(shown, text("::1"));
    is_ordered(vec![Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST]);
    is_ordered(vec![Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED]);
    let sockets = ["[fe80::1%3]:80", "[fe80::1]:81", "9.0.0.1:443", "9.0.0.1:80", "10.0.0.1:1"];
    let shown = is_ordered::<SocketAddr>(sockets.map(|address| address.parse().unwrap()).to_vec());
    assert_eq!(shown, text("[fe80::1%3]:80"));
    let v4: Vec<SocketAddrV4> = sockets[2..].iter().map(|address| address.parse().unwrap()).collect();
    assert_eq!(is_ordered(v4), text("9.0.0.1:443"));
    let v6 = [(1, 0, 3), (1, 7, 0), (2, 0, 0)];
    let v6 = v6.map(|(port, flow, scope)| SocketAddrV6::new(Ipv6Addr::LOCALHOST, port, flow, scope));
    assert_eq!(is_ordered(v6.to_vec()), text("[::1%3]:1"));
    // An address with a flow label has no notation.
    assert!(matches!(comes_back(&v6[1]), Dynamic::List(_)));
    comes_back(&SocketAddr::from(v6[1]));
    let (epoch, part) = (SystemTime::UNIX_EPOCH, Duration::new(1, 500_000_000));
    let shown = is_ordered(vec![epoch - part, epoch, epoch + part, epoch - Duration::from_secs(1)]);
    assert_eq!(shown, text("1969-12-31T23:59:58.5Z"));
}

#[test]
fn floats_are_ordered_by_their_total_order() {
    let mut numbers =
        vec![1.5, -0.0, f64::NAN, f64::NEG_INFINITY, 0.0, -f64::NAN, 1e-30, -2.5, f64::INFINITY];
    let db = Database::in_memory().unwrap();
    let table = db.table::<f64, ()>("numbers").unwrap();
    let small = db.table::<(f32, u8), ()>("small").unwrap();
    db.write(|tx| {
        numbers.iter().try_for_each(|number| {
            small.insert(tx, &(*number as f32, 1), &())?;
            table.insert(tx, number, &()).map(drop)
        })
    })
    .unwrap();
    numbers.sort_by(f64::total_cmp);
    let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    let found: Vec<f64> = db.read(|tx| table.iter(tx)?.map(|row| Ok(row?.0)).collect()).unwrap();
    assert_eq!(bits(&found), bits(&numbers));
    let found: Vec<f32> = db.read(|tx| small.iter(tx)?.map(|row| Ok(row?.0.0)).collect()).unwrap();
    assert!(found.is_sorted_by(|one, other| one.total_cmp(other).is_lt()) && found.len() == numbers.len());
    assert_eq!(db.read(|tx| Ok(table.range(tx, 0.0..2.0)?.count())).unwrap(), 3);
}

#[test]
fn types_of_uuid_bytes_and_chrono_come_back() {
    use chrono::{NaiveDate, TimeDelta, TimeZone};

    let ids = [0xffu128 << 120 | 1, 7, 0xfe << 120].map(uuid::Uuid::from_u128);
    assert_eq!(is_ordered(ids.to_vec()), text("ff000000-0000-0000-0000-000000000001"));
    comes_back(&bytes::Bytes::from_static(b"bytes"));

    let day = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let leap = day.and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap();
    assert_eq!(is_ordered(vec![day, NaiveDate::MIN, NaiveDate::MAX]), text("2024-02-29"));
    assert_eq!(is_ordered(vec![leap.time(), chrono::NaiveTime::MIN]), text("23:59:60.5"));
    assert_eq!(
        is_ordered(vec![leap, chrono::NaiveDateTime::MIN, chrono::NaiveDateTime::MAX]),
        text("2024-02-29T23:59:60.5")
    );
    let utc =
        [leap.and_utc(), chrono::DateTime::<chrono::Utc>::MIN_UTC, chrono::DateTime::<chrono::Utc>::MAX_UTC];
    assert_eq!(is_ordered(utc.to_vec()), text("2024-02-29T23:59:60.5Z"));
    let local = utc.map(|moment| moment.with_timezone(&chrono::Local));
    assert_eq!(is_ordered(local[..1].to_vec()), text("2024-02-29T23:59:60.5Z"));
    let zone = chrono::FixedOffset::west_opt(5_400).unwrap();
    assert_eq!(
        comes_back(&zone.from_utc_datetime(&day.and_hms_opt(12, 0, 1).unwrap())),
        text("2024-02-29T10:30:01-01:30")
    );
    is_ordered(vec![
        TimeDelta::milliseconds(-1_500),
        TimeDelta::milliseconds(1_500),
        TimeDelta::MIN,
        TimeDelta::MAX,
        TimeDelta::zero(),
    ]);
}

#[test]
fn types_of_time_come_back() {
    let date = time::Date::from_calendar_date(2024, time::Month::February, 29).unwrap();
    let clock = time::Time::from_hms_nano(12, 34, 56, 7_000_000).unwrap();
    assert_eq!(is_ordered(vec![date, time::Date::MIN, time::Date::MAX]), text("2024-02-29"));
    assert_eq!(is_ordered(vec![clock, time::Time::MIDNIGHT, time::Time::MAX]), text("12:34:56.007"));
    let moment = time::PrimitiveDateTime::new(date, clock);
    assert_eq!(is_ordered(vec![moment, time::PrimitiveDateTime::MIN]), text("2024-02-29T12:34:56.007"));
    assert_eq!(
        is_ordered(vec![moment.as_utc(), time::UtcDateTime::MIN, time::UtcDateTime::MAX]),
        text("2024-02-29T12:34:56.007Z")
    );
    let offset = time::UtcOffset::from_hms(2, 0, 0).unwrap();
    assert_eq!(comes_back(&moment.assume_offset(offset)), text("2024-02-29T12:34:56.007+02:00"));
    is_ordered(vec![
        time::Duration::new(-1, -5),
        time::Duration::MIN,
        time::Duration::MAX,
        time::Duration::ZERO,
    ]);
}

/// Checks that the first moment of 1970 in a zone is loaded with that zone, and is shown so.
fn is_in_zone(zone: jiff::tz::TimeZone, shown: &str) {
    let zoned = jiff::Timestamp::UNIX_EPOCH.to_zoned_datetime(zone);
    assert_eq!(comes_back(&zoned), text(shown));
    let db = Database::in_memory().unwrap();
    let table = db.table::<u8, jiff::ZonedDateTime>("zoned").unwrap();
    db.write(|tx| table.insert(tx, &1, &zoned)).unwrap();
    // Two such values are equal if their moments are.
    let found = db.read(|tx| table.get(tx, &1)).unwrap().unwrap();
    assert_eq!(found.time_zone(), zoned.time_zone());
}

/// If the program does not know the name of a zone, the offset is kept.
#[test]
fn a_zone_that_is_not_known_leaves_its_offset() {
    let db = Database::in_memory().unwrap();
    let table = db.table::<u8, jiff::ZonedDateTime>("zoned").unwrap();
    db.write(|tx| table.insert(tx, &1, &jiff::ZonedDateTime::default())).unwrap();
    let shown = "1970-01-01T02:00:00+02:00[Atlantis/Capital]";
    let about = db.list().unwrap().remove(0);
    let copy = Database::in_memory().unwrap();
    copy.load(&about, [Ok((Dynamic::Unsigned(1), text(shown)))]).unwrap();
    let table = copy.table::<u8, jiff::ZonedDateTime>("zoned").unwrap();
    let found = copy.read(|tx| table.get(tx, &1)).unwrap().unwrap();
    assert_eq!(found.timestamp(), jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(found.time_zone(), &jiff::tz::TimeZone::fixed(jiff::tz::offset(2)));
}

#[test]
fn types_of_jiff_come_back() {
    let date = jiff::civil::date(2024, 2, 29);
    assert_eq!(is_ordered(vec![date, jiff::civil::Date::MIN, jiff::civil::Date::MAX]), text("2024-02-29"));
    is_ordered(vec![jiff::civil::time(1, 2, 3, 4), jiff::civil::Time::MIN, jiff::civil::Time::MAX]);
    is_ordered(vec![date.at(1, 2, 3, 4), jiff::civil::DateTime::MIN, jiff::civil::DateTime::MAX]);
    let stamp = jiff::Timestamp::from_nanosecond(-1_500_000_000).unwrap();
    assert_eq!(
        is_ordered(vec![stamp, jiff::Timestamp::MIN, jiff::Timestamp::MAX]),
        text("1969-12-31T23:59:58.5Z")
    );
    is_in_zone(jiff::tz::TimeZone::UTC, "1970-01-01T00:00:00+00:00[UTC]");
    is_in_zone(jiff::tz::TimeZone::fixed(jiff::tz::offset(-3)), "1969-12-31T21:00:00-03:00");
    is_ordered(vec![
        jiff::SignedDuration::MIN,
        jiff::SignedDuration::MAX,
        jiff::SignedDuration::from_millis(-1_500),
    ]);
}

#[test]
fn a_table_of_one_crates_types_is_one_of_anothers() {
    let day = chrono::NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let db = Database::in_memory().unwrap();
    let table = db.table::<SystemTime, chrono::NaiveDate>("times").unwrap();
    db.write(|tx| table.insert(tx, &SystemTime::UNIX_EPOCH, &day)).unwrap();
    let table = db.table::<jiff::Timestamp, time::Date>("times").unwrap();
    let row = db.read(|tx| table.first(tx)).unwrap().unwrap();
    assert_eq!(row, (jiff::Timestamp::UNIX_EPOCH, time::Date::from_ordinal_date(2024, 60).unwrap()));
}

mod degrees {
    pub type Stored = i16;
    pub fn store(value: &f64) -> Stored {
        (value * 10.0) as i16
    }
    pub fn load(stored: Stored) -> Result<f64, &'static str> {
        if (-900..=900).contains(&stored) { Ok(f64::from(stored) / 10.0) } else { Err("no latitude") }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Persist)]
struct Place {
    #[persist(with = degrees)]
    latitude: f64,
    #[persist(skip)]
    visits: u64,
    #[persist(skip, default = vec![7])]
    numbers: Vec<u8>,
    name: String,
}

#[derive(Persist)]
#[persist(name = "Place")]
struct Raw {
    latitude: i16,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Persist)]
struct Inverted(#[persist(with = inverted)] u32, u8);

mod inverted {
    pub type Stored = std::cmp::Reverse<u32>;
    pub fn store(value: &u32) -> Stored {
        std::cmp::Reverse(*value)
    }
    pub fn load(stored: Stored) -> Result<u32, std::convert::Infallible> {
        Ok(stored.0)
    }
}

#[test]
fn fields_are_stored_with_a_module_or_skipped() {
    let db = Database::in_memory().unwrap();
    let places = db.table::<u64, Place>("places").unwrap();
    let bergen = Place { latitude: 60.5, visits: 7, numbers: vec![], name: "Bergen".into() };
    db.write(|tx| places.insert(tx, &1, &bergen)).unwrap();
    let found = db.read(|tx| places.get(tx, &1)).unwrap();
    assert_eq!(found, Some(Place { visits: 0, numbers: vec![7], ..bergen }));
    // The stored value is the one that the module's `store` returned.
    let raw = db.table::<u64, Raw>("places").unwrap();
    let found = db.read(|tx| raw.get(tx, &1)).unwrap().unwrap();
    assert_eq!((found.latitude, found.name.as_str()), (605, "Bergen"));
    db.write(|tx| raw.insert(tx, &1, &Raw { latitude: 901, name: found.name.clone() })).unwrap();
    assert!(matches!(db.read(|tx| places.get(tx, &1)), Err(Error::Damaged { .. })));

    let keys = db.table::<Inverted, ()>("keys").unwrap();
    db.write(|tx| [1, 3, 2].into_iter().try_for_each(|n| keys.insert(tx, &Inverted(n, 0), &()).map(drop)))
        .unwrap();
    let found: Vec<u32> = db.read(|tx| keys.iter(tx)?.map(|row| Ok(row?.0.0)).collect()).unwrap();
    assert_eq!(found, [3, 2, 1]);
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Persist)]
#[persist(version = 2)]
struct Changed {
    number: u32,
    #[persist(default = 7)]
    new: u8,
    #[persist(default, with = inverted)]
    order: u32,
}

#[test]
fn a_key_has_fields_with_defaults() {
    let db = Database::in_memory().unwrap();
    let keys = db.table::<Changed, Changed>("keys").unwrap();
    let key = Changed { number: 1, new: 2, order: 3 };
    db.write(|tx| keys.insert(tx, &key, &key)).unwrap();
    assert_eq!(db.read(|tx| keys.get(tx, &key)).unwrap(), Some(key));
    let defaults: Vec<_> =
        db.list().unwrap()[0].types.all().iter().map(|of| of.variants[0].fields[1].default.clone()).collect();
    assert!(!defaults.is_empty() && defaults.iter().all(|default| *default == Some(vec![7])));
}

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(name = "Wide")]
struct OldWide(Vec<(u8, Option<NonZero<u128>>)>, Option<NonZero<u128>>);

#[derive(Clone, Debug, PartialEq, Persist)]
#[persist(name = "Wide", version = 2)]
struct NewWide(Vec<(u16, Option<NonZero<u128>>)>, Option<NonZero<u128>>, #[persist(default)] bool);

#[test]
fn options_of_wide_numbers_are_read_by_all_their_words() {
    let wide = NonZero::new(1_u128 << 64);
    assert!(matches!(comes_back(&wide), Dynamic::Optional(Some(_))));
    comes_back(&vec![(1_u8, wide), (2, None)]);
    let all = [wide, None, NonZero::new(1), NonZero::new(u128::MAX)];
    let pairs = |from: u8| all.into_iter().enumerate().map(move |(at, number)| (from + at as u8, number));
    let db = Database::in_memory().unwrap();
    let table = db.table::<u64, OldWide>("wide").unwrap();
    db.write(|tx| table.insert(tx, &1, &OldWide(pairs(0).collect(), wide))).unwrap();
    let table = db.table::<u64, NewWide>("wide").unwrap();
    let pairs = pairs(0).map(|(at, number)| (at.into(), number)).collect();
    assert_eq!(db.read(|tx| table.get(tx, &1)).unwrap(), Some(NewWide(pairs, wide, false)));
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Persist)]
struct Noted {
    number: u8,
    #[persist(skip)]
    note: u8,
}

#[test]
fn elements_that_are_stored_as_the_same_are_one() {
    let noted = |number, note| Noted { number, note };
    let set = BTreeSet::from([noted(1, 1), noted(1, 2), noted(2, 1)]);
    let hashed: HashSet<Noted> = set.iter().cloned().collect();
    let map: BTreeMap<Noted, u16> = set.iter().cloned().zip(300..).collect();
    let db = Database::in_memory().unwrap();
    let table = db.table::<u64, (BTreeSet<Noted>, HashSet<Noted>, BTreeMap<Noted, u16>)>("sets").unwrap();
    let all = (set, hashed, map);
    db.write(|tx| table.insert(tx, &1, &all)).unwrap();
    let (set, hashed, map) = db.read(|tx| table.get(tx, &1)).unwrap().unwrap();
    let one = BTreeSet::from([noted(1, 0), noted(2, 0)]);
    assert_eq!(hashed, one.iter().cloned().collect());
    assert_eq!((set, map), (one, BTreeMap::from([(noted(1, 0), 301), (noted(2, 0), 302)])));
    let mut shown = 0;
    db.dump("sets", |_, _| {
        shown += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(shown, 1);
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Persist)]
struct Digest([u8; 4]);

#[derive(Clone, Debug, PartialEq, Persist)]
struct Link {
    to: Digest,
    all: Vec<Digest>,
}

/// Returns a table of `Link`s by `Digest` as an earlier version stored it: with one description of `Digest` for both, and nothing packed.
fn links() -> (TableDescription, [Dynamic; 2]) {
    let field = layout::field;
    let bytes = field(layout::begin("array", 4), "", layout::begin("u8", 0));
    let digest = field(layout::begin_derived("Digest", 1), "0", bytes);
    let all = field(layout::begin("Vec", 0), "", digest);
    let link = field(field(layout::begin_derived("Link", 1), "to", digest), "all", all);
    let mut types = Types::default();
    <Link as Persist<'_>>::describe(&mut types);
    let mut types = types.all().to_vec();
    for of in &mut types {
        of.layout = if of.name == "Link" { link } else { digest };
    }
    let about = TableDescription {
        name: "links".into(),
        kind: TableKind::Table,
        key: "Digest".into(),
        value: "Link".into(),
        types: types.into(),
        layouts: (digest, link),
    };
    let shown = Dynamic::List(vec![Dynamic::List((1..5).map(Dynamic::Unsigned).collect())]);
    let link = [("to", shown.clone()), ("all", Dynamic::List(vec![shown.clone(), shown.clone()]))];
    (about, [shown, Dynamic::Record(link.map(|(name, value)| (name.to_owned(), value)).into())])
}

#[test]
fn a_key_type_in_an_unpacked_value_is_converted() {
    let (about, [key, value]) = links();
    assert_eq!(about.layouts.0, <Digest as Key>::LAYOUT);
    let db = Database::in_memory().unwrap();
    db.load(&about, [Ok((key, value))]).unwrap();
    let table = db.table::<Digest, Link>("links").unwrap();
    let digest = Digest([1, 2, 3, 4]);
    let link = Link { to: digest.clone(), all: vec![digest.clone(); 2] };
    assert_eq!(db.read(|tx| table.get(tx, &digest)).unwrap(), Some(link));
    assert!(db.check().unwrap().is_empty());

    // Repeats this for a table with values of the key's type.
    let (mut about, [key, _]) = links();
    (about.name, about.value, about.layouts.1) = ("same".into(), "Digest".into(), about.layouts.0);
    let db = Database::in_memory().unwrap();
    db.load(&about, [Ok((key.clone(), key))]).unwrap();
    let table = db.table::<Digest, Digest>("same").unwrap();
    assert_eq!(db.read(|tx| table.get(tx, &digest)).unwrap(), Some(digest));
}

#[test]
fn where_nothing_is_converted_the_error_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let (about, [key, value]) = links();
    let ids =
        unpacked::<[u8; 16]>("ids", layout::field(layout::begin("array", 16), "", layout::begin("u8", 0)));
    let id = Dynamic::List((0..16).map(Dynamic::Unsigned).collect());
    let db = Database::open(&path).unwrap();
    db.load(&about, [Ok((key, value))]).unwrap();
    db.load(&ids, [Ok((Dynamic::Unsigned(7), id))]).unwrap();
    let said = |result: Result<(), Error>| match result {
        Err(Error::TableTypes { differences, .. }) => differences,
        other => panic!("{other:?}"),
    };
    let stored = "\n  an earlier version of Strandline stored its values in another way";
    assert_eq!(said(db.write(|tx| db.catalogue(tx)?.table::<u64, [u8; 16]>(tx, "ids").map(drop))), stored);
    assert_eq!(said(db.write(|tx| db.catalogue(tx)?.table::<Digest, Link>(tx, "links").map(drop))), stored);
    db.close().unwrap();
    let db = Database::open_read_only(&path, &Options::default()).unwrap();
    let open = "\n  values have to be converted: open the table once in a database that is open for writing";
    assert_eq!(said(db.table::<u64, [u8; 16]>("ids").map(drop)), open);
    assert_eq!(said(db.table::<Digest, Link>("links").map(drop)), open);
}

#[test]
fn keys_that_are_not_numbers_keep_their_sign() {
    let db = Database::in_memory().unwrap();
    let floats = db.table::<f64, ()>("floats").unwrap();
    let about = db.list().unwrap().remove(0);
    let rows = ["NaN", "-NaN"].map(|key| Ok((text(key), Dynamic::Unit)));
    db.load(&about, rows).unwrap();
    let signs: Vec<bool> =
        db.read(|tx| floats.iter(tx)?.map(|row| Ok(row?.0.is_sign_negative())).collect()).unwrap();
    assert_eq!(signs, [true, false]);
}

#[test]
fn moments_at_the_edges_come_back() {
    use chrono::Timelike;

    let day = chrono::NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let leap = day.and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap().with_second(30).unwrap();
    is_ordered(vec![leap.time(), chrono::NaiveTime::MIN]);
    is_ordered(vec![leap, chrono::NaiveDateTime::MIN]);
    is_ordered(vec![leap.and_utc()]);
    let zone = chrono::FixedOffset::west_opt(5_400).unwrap();
    comes_back(&leap.and_local_timezone(zone).unwrap());

    let last = time::PrimitiveDateTime::new(time::Date::MAX, time::Time::MAX);
    let first = time::PrimitiveDateTime::new(time::Date::MIN, time::Time::MIDNIGHT);
    for (moment, hours) in [(last, -5), (last, 5), (first, 5), (first, -5)] {
        comes_back(&moment.assume_offset(time::UtcOffset::from_hms(hours, 0, 0).unwrap()));
    }
}
