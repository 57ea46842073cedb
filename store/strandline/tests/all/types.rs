//! What values of each type take in a table, and that they come back.

use strandline::{Database, Dynamic, Error, Persist, TableDescription, TableKind, Types, Value, layout};

/// Bytes of the heap that a row with such a value takes, by a key that is a `u64`: the number of the row times `step`.
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
    // As a value of a table, and within one: no more than the payload and three words.
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
    // In order, and in none, which leaves pages less full.
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

/// The description of a table whose values were stored by a version that did not pack them.
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
        // What is stored as it was is shown, counted and checked as it was.
        let mut shown = Vec::new();
        db.dump(&about.name, |_, value| {
            shown.push(value);
            Ok(())
        })
        .unwrap();
        assert_eq!(shown, [value.clone()]);
        assert!(db.check().unwrap().is_empty());
    }
    // Another type is none that it becomes.
    let error = db.table::<u64, [u8; 15]>("ids").unwrap_err();
    assert!(matches!(error, Error::TableTypes { .. }), "{error}");
    let table = db.table::<u64, Vec<(u8, u8)>>("pairs").unwrap();
    assert_eq!(db.read(|tx| table.get(tx, &7)).unwrap(), Some(vec![(0, 255), (1, 255)]));
    let table = db.table::<u64, [u8; 16]>("ids").unwrap();
    assert_eq!(db.read(|tx| table.get(tx, &7)).unwrap(), Some(std::array::from_fn(|n| n as u8)));
    assert!(db.list().unwrap().iter().all(|table| ![pairs.layouts, ids.layouts].contains(&table.layouts)));
    assert!(db.check().unwrap().is_empty());
}
