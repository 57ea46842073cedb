//! Tables whose types are given as text.

use std::ops::Bound::{Excluded, Included, Unbounded};

use strandline::{Database, Dynamic, Error, Persist, Types};

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
enum Colour {
    Red,
    Green,
}

#[derive(Debug, PartialEq, Persist)]
struct Pear {
    colour: Colour,
    grams: f64,
    born: Option<(i64, bool)>,
    notes: Vec<String>,
}

fn types() -> Types {
    let mut types = Types::default();
    types.add_enumeration("Colour", 1, &["Red", "Green"]).unwrap();
    let born = "Option<(i64, bool)>";
    types
        .add_structure(
            "Pear",
            1,
            &[
                ("colour", "Colour", None),
                ("grams", "f64", None),
                ("born", born, None),
                ("notes", "Vec<String>", None),
            ],
        )
        .unwrap();
    types
}

fn text(text: &str) -> Dynamic {
    Dynamic::Text(text.into())
}

fn record(fields: &[(&str, Dynamic)]) -> Dynamic {
    Dynamic::Record(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// Rows that are stored through one interface are read through the other, keys and values alike, and the library's own checks find nothing.
#[test]
fn both_faces_read_the_same_rows() {
    let db = Database::in_memory().unwrap();
    let dynamic = db.dynamic_table("pears", "(String, i64)", "Pear", &types()).unwrap();
    let typed = db.table::<(String, i64), Pear>("pears").unwrap();
    let key = |name: &str, number: i64| Dynamic::List(vec![text(name), Dynamic::Signed(number.into())]);
    let green = Dynamic::Variant("Green".into(), Box::new(Dynamic::Unit));
    let born = Dynamic::List(vec![Dynamic::Signed(-4), Dynamic::Bool(true)]);
    let stored = record(&[
        ("colour", green),
        ("grams", Dynamic::Float(1.5)),
        ("born", Dynamic::Optional(Some(Box::new(born)))),
        ("notes", Dynamic::List(vec![text("ripe"), text("")])),
    ]);
    let pear = Pear {
        colour: Colour::Green,
        grams: 1.5,
        born: Some((-4, true)),
        notes: vec!["ripe".into(), String::new()],
    };
    db.write(|tx| dynamic.set(tx, &key("a", -1), &stored)).unwrap();
    db.write(|tx| typed.set(tx, &("a".to_string(), 2), &pear)).unwrap();
    assert_eq!(db.read(|tx| typed.get(tx, &("a".to_string(), -1))).unwrap(), Some(pear));
    assert_eq!(db.read(|tx| dynamic.get(tx, &key("a", 2))).unwrap(), Some(stored.clone()));
    assert!(db.read(|tx| dynamic.contains_key(tx, &key("a", 2))).unwrap());
    assert!(!db.read(|tx| dynamic.contains_key(tx, &key("a", 3))).unwrap());
    let rows = [(key("b", 1), stored.clone()), (key("c", -9), stored.clone()), (key("c", 0), stored.clone())];
    db.write(|tx| dynamic.update(tx, &rows)).unwrap();
    // The rows are not in order, and one of them exists already.
    let rows = [(key("d", 1), stored.clone()), (key("b", 1), stored.clone())];
    db.write(|tx| dynamic.update(tx, &rows)).unwrap();
    let keys = |from, to, backwards: bool| {
        db.read(|tx| {
            let mut range = dynamic.range(tx, from, to)?;
            let next = || if backwards { range.next_back() } else { range.next() };
            std::iter::from_fn(next).map(|row| Ok(row?.0)).collect::<strandline::Result<Vec<_>>>()
        })
        .unwrap()
    };
    let all = [key("a", -1), key("a", 2), key("b", 1), key("c", -9), key("c", 0), key("d", 1)];
    assert_eq!(keys(Unbounded, Unbounded, false), all);
    assert_eq!(
        keys(Included(&all[1]), Excluded(&all[4]), true),
        [all[3].clone(), all[2].clone(), all[1].clone()]
    );
    assert_eq!(db.read(|tx| dynamic.len(tx)).unwrap(), 6);
    let replaced = db.write(|tx| dynamic.insert(tx, &all[0], &stored)).unwrap();
    assert_eq!(replaced, Some(stored.clone()));
    assert_eq!(db.write(|tx| dynamic.remove(tx, &all[0])).unwrap(), Some(stored));
    assert!(db.check().unwrap().is_empty());
    db.write(|tx| dynamic.clear(tx)).unwrap();
    assert_eq!(db.read(|tx| typed.len(tx)).unwrap(), 0);
}

#[test]
fn bytes_and_text_are_stored_as_by_the_other_face() {
    let db = Database::in_memory().unwrap();
    let types = Types::default();
    let (films, names) = (
        db.dynamic_table("films", "u64", "Vec<u8>", &types).unwrap(),
        db.dynamic_table("names", "f64", "String", &types).unwrap(),
    );
    for bytes in [0, 1, 7, 8, 9, 4_000, 17_000, 20_000_001] {
        let film: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let key = Dynamic::Unsigned(bytes as u128);
        db.write(|tx| films.insert(tx, &key, &Dynamic::Bytes(film.clone()))).unwrap();
        let typed = db.table::<u64, Vec<u8>>("films").unwrap();
        assert!(db.read(|tx| typed.get(tx, &(bytes as u64))).unwrap().as_ref() == Some(&film));
        assert!(db.read(|tx| films.get(tx, &key)).unwrap() == Some(Dynamic::Bytes(film)));
    }
    db.write(|tx| names.set(tx, &Dynamic::Float(-1.5), &text("é"))).unwrap();
    let typed = db.table::<f64, String>("names").unwrap();
    assert_eq!(db.read(|tx| typed.get(tx, &-1.5)).unwrap().as_deref(), Some("é"));
    assert_eq!(db.read(|tx| names.get(tx, &Dynamic::Float(-1.5))).unwrap(), Some(text("é")));
    // Values that are not bytes cannot be read piece by piece, and keys and values must be of their types.
    let error = db.read(|tx| names.reader(tx, &Dynamic::Float(-1.5)).map(drop)).unwrap_err();
    assert!(error.to_string().contains("not bytes"), "{error}");
    let error = db.read(|tx| names.get(tx, &text("x"))).unwrap_err();
    assert!(error.to_string().contains("a key of the table `names` is not of the type f64"), "{error}");
    let error = db.write(|tx| names.set(tx, &Dynamic::Float(0.0), &Dynamic::Unit)).unwrap_err();
    assert!(error.to_string().contains("a value of the table `names`"), "{error}");
}

#[test]
fn impossible_types_are_refused() {
    let db = Database::in_memory().unwrap();
    let types = types();
    for key in
        ["Vec<i64>", "path", "offset datetime", "(i64, Set<i64>)", "Pear", "Ptr<u64>", "Nothing", "i64>"]
    {
        let error = db.dynamic_table("t", key, "i64", &types).unwrap_err();
        assert!(matches!(error, Error::Parameter(_)), "{key}: {error}");
    }
    for value in ["Ptr<u64>", "Vector<u64>", "Nothing", "(i64"] {
        assert!(matches!(db.dynamic_table("t", "i64", value, &types), Err(Error::Parameter(_))), "{value}");
    }
    assert!(db.list().unwrap().is_empty());
    for key in ["Colour", "(date, uuid, Option<f64>)", "[u8; 4]", "Duration"] {
        db.dynamic_table(key, key, "i64", &types).unwrap();
    }
    let mut types = types;
    assert!(types.add_structure("Pear", 1, &[]).is_err() && types.add_enumeration("String", 1, &[]).is_err());
    assert!(types.add_structure("Apple", 1, &[("a", "Nothing", None)]).is_err());
    assert!(types.add_structure("Apple", 1, &[("a", "i64", Some(&Dynamic::Unit))]).is_err());
    // A type other than the table's.
    let error = db.dynamic_table("Duration", "Duration", "String", &types).unwrap_err();
    assert!(matches!(error, Error::TableTypes { .. }), "{error}");
}

/// A later version of a structure has other fields. New ones have a default.
#[test]
fn earlier_versions_are_converted() {
    let db = Database::in_memory().unwrap();
    let open = |version, fields: &[(&str, &str, Option<&Dynamic>)]| {
        let mut types = Types::default();
        types.add_structure("Person", version, fields)?;
        db.dynamic_table("people", "i64", "Person", &types)
    };
    let before = open(1, &[("name", "String", None), ("fax", "i64", None)]).unwrap();
    let ann = record(&[("name", text("Ann")), ("fax", Dynamic::Signed(12))]);
    db.write(|tx| before.set(tx, &Dynamic::Signed(1), &ann)).unwrap();
    let town = text("Bergen");
    let fields = [("name", "String", None), ("town", "String", Some(&town))];
    assert!(matches!(open(1, &fields), Err(Error::TableTypes { .. })));
    assert!(matches!(
        open(2, &[("name", "String", None), ("town", "String", None)]),
        Err(Error::TableTypes { .. })
    ));
    let people = open(2, &fields).unwrap();
    let found = db.read(|tx| people.get(tx, &Dynamic::Signed(1))).unwrap();
    assert_eq!(found, Some(record(&[("name", text("Ann")), ("town", town)])));
    assert!(matches!(db.read(|tx| before.get(tx, &Dynamic::Signed(1))), Err(Error::NoTable { .. })));
}

/// A renamed field keeps its values, and may have a wider type.
#[test]
fn renamed_fields_keep_their_values() {
    let db = Database::in_memory().unwrap();
    let mut types = Types::default();
    types.add_structure("Book", 1, &[("name", "String", None), ("pages", "u16", None)]).unwrap();
    let before = db.dynamic_table("books", "i64", "Book", &types).unwrap();
    let tides = record(&[("name", text("Tides")), ("pages", Dynamic::Unsigned(320))]);
    db.write(|tx| before.set(tx, &Dynamic::Signed(7), &tides)).unwrap();
    let mut types = Types::default();
    types.add_structure("Book", 2, &[("title", "String", None), ("pages", "u32", None)]).unwrap();
    assert!(matches!(db.dynamic_table("books", "i64", "Book", &types), Err(Error::TableTypes { .. })));
    for (structure, field) in [("Book", "name"), ("Film", "title")] {
        assert!(matches!(types.rename_field(structure, field, "name"), Err(Error::Parameter(_))));
    }
    types.rename_field("Book", "title", "name").unwrap();
    let books = db.dynamic_table("books", "i64", "Book", &types).unwrap();
    let found = db.read(|tx| books.get(tx, &Dynamic::Signed(7))).unwrap();
    assert_eq!(found, Some(record(&[("title", text("Tides")), ("pages", Dynamic::Unsigned(320))])));
}
