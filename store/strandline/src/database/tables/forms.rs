//! The kinds of tables, and the types that a program expects them to have.

use std::marker::PhantomData;

use super::rows::tags;
use super::{Described, Held, Moving, Structure, TableKind};
use crate::collections::ordered_map::OrderedMap;
use crate::collections::queue::Queue;
use crate::database::value_ref::Value;
use crate::described::dynamic::Codec;
use crate::value::key::KeyBytes;
use crate::value::persist::{Invalid, Stored};
use crate::value::schema::{Types, changes, differences, without_numbers};
use crate::value::transaction::{Control, Tx};
use crate::{Key, Persist};
use strandline_core::error::{Error, Result};

/// The kind and the types that a table must have.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub kind: TableKind,
    pub key: String,
    pub value: String,
    pub layouts: (u64, u64),
    pub types: Types,
}

/// A kind of table with its types.
pub(crate) trait Form {
    /// A key with its value, or an item of a queue.
    type Row;
    /// True if rows of an earlier version are converted. The rows of a multimap consist of keys, and are not converted.
    const HAS_VERSIONS: bool;
    /// Returns the kind and the types.
    fn wanted() -> Wanted;
    /// Decodes a row from the bytes of its key, and the words and bytes of its value.
    fn decode(key: &[u8], words: &[u64], bytes: u64) -> Result<Self::Row, Invalid>;
    /// Encodes a row.
    fn encode(row: &Self::Row) -> EncodedRow;
}

/// An encoded row: the bytes of its key, which are empty for an item of a queue, and the words and bytes of its value.
pub(crate) type EncodedRow = (KeyBytes, Vec<u64>, u64);

fn decode_key<K: Key>(mut key: &[u8]) -> Result<K, Invalid> {
    let decoded = K::read_key(&mut key)?;
    if key.is_empty() { Ok(decoded) } else { Err(Invalid) }
}

fn encode_value<V: Value>(value: &V) -> (Vec<u64>, u64) {
    let bytes = value.bytes();
    let mut words = vec![0; bytes.div_ceil(8) as usize];
    value.encode(&mut words);
    (words, bytes)
}

/// A table with these types.
pub(crate) struct TableOf<K, V>(PhantomData<fn() -> (K, V)>);
/// A multimap with these types.
pub(crate) struct MultimapOf<K, V>(PhantomData<fn() -> (K, V)>);
/// A queue with this type of items.
pub(crate) struct QueueOf<T>(PhantomData<fn() -> T>);

impl<K: Key, V: Value> Form for TableOf<K, V> {
    type Row = (K, V);
    const HAS_VERSIONS: bool = true;
    fn wanted() -> Wanted {
        Wanted::table::<K, V>()
    }
    fn decode(key: &[u8], words: &[u64], bytes: u64) -> Result<(K, V), Invalid> {
        Ok((decode_key(key)?, V::decode(words, bytes, Stored::new())?))
    }
    fn encode((key, value): &(K, V)) -> EncodedRow {
        let (words, bytes) = encode_value(value);
        (KeyBytes::of(key), words, bytes)
    }
}

impl<K: Key, V: Key> Form for MultimapOf<K, V> {
    type Row = (K, V);
    const HAS_VERSIONS: bool = false;
    fn wanted() -> Wanted {
        Wanted::multimap::<K, V>()
    }
    fn decode(key: &[u8], words: &[u64], bytes: u64) -> Result<(K, V), Invalid> {
        TableOf::decode(key, words, bytes).map(|(pair, ())| pair)
    }
    fn encode(pair: &(K, V)) -> EncodedRow {
        (KeyBytes::of(pair), Vec::new(), 0)
    }
}

impl<T: Value> Form for QueueOf<T> {
    type Row = T;
    const HAS_VERSIONS: bool = true;
    fn wanted() -> Wanted {
        Wanted::queue::<T>()
    }
    fn decode(_: &[u8], words: &[u64], bytes: u64) -> Result<T, Invalid> {
        T::decode(words, bytes, Stored::new())
    }
    fn encode(item: &T) -> EncodedRow {
        let (words, bytes) = encode_value(item);
        (KeyBytes::empty(), words, bytes)
    }
}

impl Wanted {
    pub fn table<'p, K: Key, V: Persist<'p>>() -> Self {
        const {
            assert!(
                !V::OWNS,
                "tables know nothing of collections in their values, and could not destroy them"
            )
        };
        let mut types = Types::default();
        let (key, value) = (K::describe(&mut types), V::describe(&mut types));
        Self { kind: TableKind::Table, key, value, layouts: (K::LAYOUT, V::LAYOUT), types }
    }

    pub fn multimap<K: Key, V: Key>() -> Self {
        let mut types = Types::default();
        let (key, value) = (K::describe(&mut types), V::describe(&mut types));
        Self { kind: TableKind::Multimap, key, value, layouts: (K::LAYOUT, V::LAYOUT), types }
    }

    pub fn queue<'p, T: Persist<'p>>() -> Self {
        const {
            assert!(!T::OWNS, "tables know nothing of collections in their items, and could not destroy them")
        };
        let mut types = Types::default();
        let (key, value) = (<() as Key>::describe(&mut types), T::describe(&mut types));
        let layouts = (<() as Key>::LAYOUT, T::LAYOUT);
        Self { kind: TableKind::Queue, key, value, layouts, types }
    }

    /// Creates an empty structure of this kind.
    pub(super) fn make<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        let (tag, _) = tags(self.kind, self.layouts);
        Ok(match self.kind {
            TableKind::Table => Structure::Table(OrderedMap::with_tag(tx, tag)?),
            TableKind::Multimap => Structure::Multimap(OrderedMap::with_tag(tx, tag)?),
            TableKind::Queue => Structure::Queue(Queue::with_tag(tx, tag)?),
        })
    }

    /// Checks that the table that was found has this kind and these types.
    pub(super) fn check(&self, name: &str, found: &Described<'_>) -> Result<()> {
        let mut said = self.differences(&found.held);
        if let Some(Moving { to, moved, .. }) = &found.moving {
            let (to, what) = match self.kind {
                TableKind::Queue => (to.value.clone(), "items"),
                TableKind::Table | TableKind::Multimap => (format!("{} by {}", to.value, to.key), "keys"),
            };
            said += &format!(
                "\n  a migration to {to} is under way, {moved} {what} so far: open it with these types to continue"
            );
        }
        if said.is_empty() { Ok(()) } else { Err(self.refuse(name, said)) }
    }

    pub fn refuse(&self, name: &str, differences: String) -> Error {
        Error::TableTypes { table: name.to_owned(), differences }
    }

    /// Describes the differences between the table that was found and this description. The result is empty if there are none.
    pub(super) fn differences(&self, found: &Held<'_>) -> String {
        let (mut said, found_layouts) = (String::new(), found.layouts);
        let mut differ = |what: &str, found: &str, wanted: &str| {
            if found != wanted {
                said += &format!("\n  {what}: {found} is expected to be {wanted}");
            }
        };
        differ("kind", &found.structure.kind().to_string(), &self.kind.to_string());
        // Earlier versions of Strandline numbered types of the same name differently.
        let is_same = |found: &str, wanted: &str| {
            found == wanted
                || found_layouts != self.layouts && without_numbers(found) == without_numbers(wanted)
        };
        if !is_same(&found.key, &self.key) {
            differ("key", &found.key, &self.key);
        }
        if !is_same(&found.value, &self.value) {
            differ("value", &found.value, &self.value);
        }
        if said.is_empty() && self.is_unpacked(found) && changes(&found.types, &self.types).is_empty() {
            return "\n  an earlier version of Strandline stored its values in another way".into();
        }
        if !said.is_empty() || found.layouts != self.layouts {
            said += &differences(&found.types, &self.types);
        }
        if said.is_empty() && found.layouts != self.layouts {
            said += "\n  the variants of a type are in another order, or it is of another kind";
        }
        said
    }

    /// Returns whether the values that were found have lists whose elements are not packed, although they would be packed now.
    fn is_unpacked(&self, found: &Held<'_>) -> bool {
        let is_it =
            |codec: Option<Codec>| codec.is_some_and(|codec| codec.layout(false) == Ok(found.layouts.1));
        let (name, types) = (&found.value, &found.types);
        self.kind != TableKind::Multimap
            && found.layouts.0 == self.layouts.0
            && found.layouts.1 != self.layouts.1
            && is_it(Codec::unpacked(name, types))
            && !is_it(Codec::new(name, types))
    }

    pub(super) fn hold(self, structure: Structure<'_>) -> Held<'_> {
        let Self { key, value, layouts, types, .. } = self;
        Held { structure, key, value, layouts, types }
    }
}
