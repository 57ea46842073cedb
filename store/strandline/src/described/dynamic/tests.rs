//! Values and keys are shown, and stored again as the same words that the program's own types store.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::SystemTime;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{Key, KeyBytes, Persist, Value};

#[derive(Clone, Debug, PartialEq, Persist)]
struct All {
    unit: (),
    sizes: Vec<(usize, isize)>,
    numbers: (u8, i16, u32, i64, u128, i128),
    floats: [f32; 2],
    double: f64,
    truth: bool,
    character: char,
    text: String,
    bytes: Vec<u8>,
    shorts: Vec<i16>,
    texts: Vec<Option<String>>,
    options: (Option<u8>, Option<Option<i8>>),
    kinds: Vec<Kind>,
    small: Small,
    packed: Packed,
    standard: Standard,
    pause: std::time::Duration,
}

/// Lists whose elements are packed.
#[derive(Clone, Debug, PartialEq, Persist)]
struct Packed {
    digest: [u8; 20],
    pairs: Vec<(u8, i16)>,
    nested: [[i8; 3]; 2],
    wide: Option<[(u64, bool); 2]>,
    options: Vec<Option<(char, [u64; 2])>>,
    enums: Vec<Small>,
    structs: Vec<Point>,
    pauses: [std::time::Duration; 1],
    large: Vec<(u128, ())>,
}

#[derive(Clone, Debug, PartialEq, Persist)]
struct Point {
    x: f32,
    y: [Option<bool>; 2],
}

/// Types of the standard library.
#[derive(Clone, Debug, PartialEq, Persist)]
struct Standard {
    number: Option<NonZero<u32>>,
    packed: Vec<Option<NonZero<i8>>>,
    bytes: BTreeSet<u8>,
    names: BTreeMap<String, (u8, bool)>,
    pairs: BTreeMap<u8, i16>,
    times: Vec<SystemTime>,
    address: IpAddr,
    addresses: [Ipv4Addr; 2],
    range: std::ops::Range<u16>,
    boxed: Box<[u16]>,
    shared: std::sync::Arc<str>,
    path: PathBuf,
    order: Option<std::cmp::Ordering>,
    queue: VecDeque<Box<Point>>,
    result: Result<String, u8>,
}

fn standard() -> impl Strategy<Value = Standard> {
    let first = (any::<(Option<u32>, Vec<Option<i8>>, BTreeSet<u8>)>(), any::<BTreeMap<u8, i16>>());
    let names = prop::collection::btree_map(".{0,5}", any::<(u8, bool)>(), 0..4);
    let times = vec((any::<i32>(), 0u32..1_000_000_000), 0..3);
    let rest = (any::<(u32, u128, bool, u16, u16)>(), any::<Vec<u16>>(), ".{0,9}", any::<Vec<u8>>(), -1i8..3);
    (first, names, times, rest).prop_map(|(((number, small, bytes), pairs), names, times, rest)| {
        let ((v4, v6, is_v6, start, end), boxed, text, path, order) = rest;
        let v4 = Ipv4Addr::from_bits(v4);
        let time = |(seconds, nanos): (i32, u32)| {
            let epoch = SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(nanos.into());
            let whole = std::time::Duration::from_secs(seconds.unsigned_abs().into());
            if seconds < 0 { epoch - whole } else { epoch + whole }
        };
        Standard {
            number: number.and_then(NonZero::new),
            packed: small.into_iter().map(|n| n.and_then(NonZero::new)).collect(),
            bytes,
            names,
            pairs,
            times: times.into_iter().map(time).collect(),
            address: if is_v6 { Ipv6Addr::from_bits(v6).into() } else { v4.into() },
            addresses: [v4; 2],
            range: start..end,
            boxed: boxed.into(),
            result: if is_v6 { Ok(text.clone()) } else { Err(7) },
            shared: text.into(),
            path: PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path)),
            order: [Less, Equal, Greater].into_iter().find(|known| *known as i8 == order),
            queue: [Box::new(Point { x: 1.5, y: [None, Some(true)] })].into(),
        }
    })
}

fn packed() -> impl Strategy<Value = Packed> {
    let first = (any::<[u8; 20]>(), vec(any::<(u8, i16)>(), 0..9), any::<[[i8; 3]; 2]>());
    let small = prop_oneof![
        any::<u8>().prop_map(Small::One),
        any::<(u64, bool)>().prop_map(|(n, t)| Small::Two(n, t)),
    ];
    let options = vec(any::<Option<(char, [u64; 2])>>(), 0..4);
    let points = vec(any::<(i16, [Option<bool>; 2])>(), 0..4);
    let rest =
        (any::<Option<[(u64, bool); 2]>>(), options, vec(small, 0..4), points, vec(any::<u128>(), 0..3));
    (first, rest).prop_map(|((digest, pairs, nested), (wide, options, enums, points, large))| Packed {
        digest,
        pairs,
        nested,
        wide,
        options,
        enums,
        structs: points.into_iter().map(|(x, y)| Point { x: x.into(), y }).collect(),
        pauses: [std::time::Duration::new(u64::MAX, 999_999_999)],
        large: large.into_iter().map(|n| (n, ())).collect(),
    })
}

#[derive(Clone, Debug, PartialEq, Persist)]
enum Kind {
    None,
    Pair(u8, String),
    Named { number: i32 },
}

#[derive(Clone, Debug, PartialEq, Persist)]
enum Small {
    One(u8),
    Two(u64, bool),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Id {
    Number(i32, u128),
    Name { name: String, part: Option<Vec<u8>> },
    Short([i8; 2], (char, bool)),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::None),
        (any::<u8>(), ".{0,9}").prop_map(|(n, text)| Kind::Pair(n, text)),
        any::<i32>().prop_map(|number| Kind::Named { number }),
    ]
}

fn all() -> impl Strategy<Value = All> {
    let small = prop_oneof![
        any::<u8>().prop_map(Small::One),
        any::<(u64, bool)>().prop_map(|(n, t)| Small::Two(n, t)),
    ];
    let first =
        (any::<(u8, i16, u32, i64, u128, i128)>(), any::<[i32; 2]>(), any::<i32>(), any::<(bool, char)>());
    let rest = (
        any::<(Option<u8>, Option<Option<i8>>)>(),
        vec(kind(), 0..4),
        small,
        (packed(), standard()),
        0u64..9,
    );
    (first, ".{0,20}", any::<Vec<u8>>(), any::<Vec<i16>>(), vec(prop::option::of(".{0,9}"), 0..4), rest)
        .prop_map(|((numbers, floats, double, (truth, character)), text, bytes, shorts, texts, rest)| {
            let (options, kinds, small, (packed, standard), pause) = rest;
            All {
                unit: (),
                sizes: vec![(7, -7)],
                numbers,
                floats: floats.map(|n| n as f32),
                double: double.into(),
                truth,
                character,
                text,
                bytes,
                shorts,
                texts,
                options,
                kinds,
                small,
                packed,
                standard,
                pause: std::time::Duration::new(pause, 7),
            }
        })
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        any::<(i32, u128)>().prop_map(|(n, m)| Id::Number(n, m)),
        (".{0,9}", any::<Option<Vec<u8>>>()).prop_map(|(name, part)| Id::Name { name, part }),
        any::<([i8; 2], (char, bool))>().prop_map(|(bytes, rest)| Id::Short(bytes, rest)),
    ]
}

/// Checks that the shown form of a value is stored as the same words again, and returns it.
fn comes_back<T: Value>(value: &T) -> Dynamic {
    let mut types = Types::default();
    let name = T::describe(&mut types);
    let codec = Codec::new(&name, &types).unwrap();
    let bytes = Persist::bytes(value);
    let mut words = vec![0; bytes.div_ceil(8) as usize];
    Persist::encode(value, &mut words);
    let shown = codec.read_value(&words, bytes).unwrap();
    assert_eq!(codec.write_value(&shown), Ok((words, bytes)));
    assert_eq!(codec.layout(false), Ok(T::LAYOUT));
    shown
}

fn field<'d>(of: &'d Dynamic, name: &str) -> &'d Dynamic {
    let Dynamic::Record(fields) = of else { panic!("{of:?}") };
    fields.iter().find(|(field, _)| field == name).map(|(_, value)| value).unwrap()
}

/// Returns whether a time in an `All` is a leap second, at the end of a minute or elsewhere.
fn has_leap_second(all: &Dynamic) -> bool {
    let Dynamic::List(times) = field(field(all, "standard"), "times") else { panic!("{all:?}") };
    times.iter().any(|time| !matches!(time, Dynamic::Text(text) if !text.contains(":60")))
}

proptest! {
    #[test]
    fn values_are_shown_and_made_again(value in all(), text: String, bytes: Vec<u8>, many in vec(kind(), 0..5)) {
        comes_back(&value);
        comes_back(&many);
        prop_assert_eq!(comes_back(&text), Dynamic::Text(text.clone()));
        prop_assert_eq!(comes_back(&bytes), Dynamic::Bytes(bytes.clone()));
        comes_back(&(bytes, Some(text)));
        comes_back(&vec![value.packed.pairs.clone(), vec![]]);
        comes_back(&value.packed.pairs);
        comes_back(&value.packed.structs);
        comes_back(&value.packed.enums);
        comes_back(&value.standard.bytes);
        comes_back(&value.standard.names);
        comes_back(&value.standard.pairs);
        comes_back(&value.standard.queue);
        comes_back(&value.standard.path);
        comes_back(&value.standard.address);
        comes_back(&vec![value.standard.result.clone(), Ok(String::new())]);
        comes_back(&[Ok::<u8, u16>(1), Err(300)]);
    }

    #[test]
    fn keys_are_shown_and_made_again(key in id()) {
        let mut types = Types::default();
        let name = <(Id, u8)>::describe(&mut types);
        let codec = Codec::new(&name, &types).unwrap();
        let bytes = KeyBytes::of(&(key, 7u8));
        let shown = codec.read_key(bytes.as_slice()).unwrap();
        let again = codec.write_key(&shown).unwrap();
        prop_assert_eq!(again.as_slice(), bytes.as_slice());
        prop_assert_eq!(codec.layout(true), Ok(<(Id, u8) as Key>::LAYOUT));
    }

    #[test]
    fn damage_is_told(value in all(), at: prop::sample::Index, word: u64) {
        let mut types = Types::default();
        let name = All::describe(&mut types);
        let codec = Codec::new(&name, &types).unwrap();
        let mut words = crate::value::schema::stored_words(&value);
        let at = at.index(words.len());
        words[at] = word;
        // The words are a value by the description exactly if they are one by the program's type. Leap seconds are the exception: a `SystemTime` has
        // none, but is described like other times, which have them.
        let bytes = 8 * words.len() as u64;
        let decoded = All::decode(&words, bytes, Stored::new());
        let shown = codec.read_value(&words, bytes);
        if !shown.as_ref().is_ok_and(has_leap_second) {
            prop_assert_eq!(shown.is_ok(), decoded.is_ok());
        }
        if let Ok(other) = decoded {
            let words = crate::value::schema::stored_words(&other);
            prop_assert!(All::decode(&words, 8 * words.len() as u64, Stored::new()).is_ok());
        }
    }
}

#[test]
fn types_that_hold_themselves_are_no_types() {
    let field = |type_name: &str| crate::FieldDescription {
        name: "inside".into(),
        type_name: type_name.into(),
        was: None,
        default: None,
    };
    let of = |name: &str, fields: &[&str]| crate::TypeDescription {
        name: name.into(),
        version: 1,
        layout: 0,
        is_enum: false,
        variants: vec![VariantDescription {
            name: name.into(),
            was: None,
            fields: fields.iter().map(|name| field(name)).collect(),
        }],
    };
    assert!(Codec::new("A", &Types::from(vec![of("A", &["Vec<B>"]), of("B", &["A"])])).is_none());
    assert!(Codec::new(&"(".repeat(1_000_000), &Types::default()).is_none());
    assert!(Codec::new("[[u64; 4000000000]; 4000000000]", &Types::default()).is_none());
    let ranges = format!("{}u8{}", "Range<".repeat(60), ">".repeat(60));
    assert!(Codec::new(&ranges, &Types::default()).is_none());
    // Each type has twice as many parts as the one before.
    let doubled = (1..60).map(|n| of(&format!("T{n}"), &[&format!("T{}", n - 1), &format!("T{}", n - 1)]));
    let types = std::iter::once(of("T0", &["u64"])).chain(doubled).collect::<Vec<_>>();
    assert!(Codec::new("T59", &Types::from(types.clone())).is_none());
    assert!(Codec::new("T3", &Types::from(types)).is_some());
}

#[test]
fn what_is_meant_is_understood() {
    #[derive(Debug, PartialEq, Persist)]
    struct Loose {
        small: i8,
        large: u128,
        float: f32,
        letter: char,
        bytes: Vec<u8>,
        maybe: Option<u8>,
        none: Option<u8>,
        twice: Option<Option<u8>>,
        kinds: Vec<Kind>,
        pause: std::time::Duration,
    }
    let text = |text: &str| Dynamic::Text(text.into());
    let list = Dynamic::List;
    let fields = [
        ("small", Dynamic::Unsigned(7)),
        ("large", text("340282366920938463463374607431768211455")),
        ("float", Dynamic::Signed(-2)),
        ("letter", text("x")),
        ("bytes", text("00ff")),
        ("maybe", Dynamic::Unsigned(3)),
        ("none", Dynamic::Unit),
        ("twice", list(vec![Dynamic::Unit])),
        (
            "kinds",
            list(vec![
                text("None"),
                Dynamic::Record(vec![("Pair".into(), list(vec![Dynamic::Unsigned(1), text("one")]))]),
            ]),
        ),
        ("pause", list(vec![Dynamic::Unsigned(1), Dynamic::Unsigned(5)])),
    ];
    let fields = fields.map(|(name, value)| (name.to_string(), value)).to_vec();
    let mut types = Types::default();
    let name = Loose::describe(&mut types);
    let (words, bytes) = Codec::new(&name, &types).unwrap().write_value(&Dynamic::Record(fields)).unwrap();
    let expected = Loose {
        small: 7,
        large: u128::MAX,
        float: -2.0,
        letter: 'x',
        bytes: vec![0, 255],
        maybe: Some(3),
        none: None,
        twice: Some(None),
        kinds: vec![Kind::None, Kind::Pair(1, "one".into())],
        pause: std::time::Duration::new(1, 5),
    };
    assert_eq!(Loose::decode(&words, bytes, Stored::new()), Ok(expected));
}

#[test]
fn what_is_no_value_of_the_type_is_refused() {
    let mut types = Types::default();
    let name = Kind::describe(&mut types);
    let codec = Codec::new(&name, &types).unwrap();
    let variant = |name: &str, fields| Dynamic::Variant(name.into(), Box::new(fields));
    assert!(codec.write_value(&variant("None", Dynamic::Unit)).is_ok());
    for wrong in [
        Dynamic::Unit,
        variant("Other", Dynamic::Unit),
        variant("Pair", Dynamic::Unit),
        variant("Pair", Dynamic::List(vec![Dynamic::Unsigned(256), Dynamic::Text("".into())])),
        variant("Named", Dynamic::Record(vec![("other".into(), Dynamic::Signed(1))])),
        variant("Named", Dynamic::Record(vec![("number".into(), Dynamic::Signed(1 << 31))])),
    ] {
        assert_eq!(codec.write_value(&wrong), Err(Invalid), "{wrong:?}");
    }
}

#[test]
fn elements_without_words_are_few() {
    let types = Types::default();
    let is_known = |name: &str| Codec::new(name, &types).is_some();
    assert!(is_known("[(); 65535]") && is_known("[[(); 100]; 100]") && is_known("[[u64; 1000]; 1000]"));
    // Here the numbers of elements are larger, although the values have no words at all.
    assert!(!is_known("[(); 65536]") && !is_known("[[(); 1000]; 1000]") && !is_known("[[(); 65535]; 65535]"));
}
