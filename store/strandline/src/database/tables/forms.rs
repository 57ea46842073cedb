//! What tables are asked for: their kind, with the types of what they hold.

use std::marker::PhantomData;

use super::{Described, Held, Moving, Structure, TableKind};
use crate::database::table::Value;
use crate::value::schema::{Types, differences};
use crate::value::transaction::{Control, Tx};
use crate::{Key, Persist};
use strandline_core::error::{Error, Result};

/// What a table has to be.
pub(crate) struct Wanted {
    pub kind: TableKind,
    pub key: String,
    pub value: String,
    pub layouts: (u64, u64),
    pub types: Types,
}

/// A kind of table with its types.
pub(crate) trait Form {
    /// What it is.
    fn wanted() -> Wanted;
    /// Makes an empty one.
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>>;
}

/// A table.
pub(crate) struct TableOf<K, V>(PhantomData<fn() -> (K, V)>);
/// A multimap.
pub(crate) struct MultimapOf<K, V>(PhantomData<fn() -> (K, V)>);
/// A queue.
pub(crate) struct QueueOf<T>(PhantomData<fn() -> T>);

impl<K: Key, V: Value> Form for TableOf<K, V> {
    fn wanted() -> Wanted {
        Wanted::table::<K, V>()
    }
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        Structure::table::<K, V>(tx)
    }
}

impl<K: Key, V: Key> Form for MultimapOf<K, V> {
    fn wanted() -> Wanted {
        Wanted::multimap::<K, V>()
    }
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        Structure::multimap::<K, V>(tx)
    }
}

impl<T: Value> Form for QueueOf<T> {
    fn wanted() -> Wanted {
        Wanted::queue::<T>()
    }
    fn make<'p>(tx: &Tx<'p, impl Control>) -> Result<Structure<'p>> {
        Structure::queue::<T>(tx)
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

    /// Fails unless it is what was found.
    pub(super) fn check(&self, name: &str, found: &Described<'_>) -> Result<()> {
        let mut said = self.differences(&found.held);
        if let Some(Moving { to, moved, .. }) = &found.moving {
            let (to, what) = match self.kind {
                TableKind::Queue => (to.value.clone(), "items"),
                TableKind::Table | TableKind::Multimap => (format!("{} by {}", to.value, to.key), "keys"),
            };
            said += &format!(
                "\n  a migration to {to} is under way, {moved} {what} so far: open it with these types to go on"
            );
        }
        if said.is_empty() { Ok(()) } else { Err(self.refuse(name, said)) }
    }

    pub fn refuse(&self, name: &str, differences: String) -> Error {
        Error::TableTypes { table: name.to_owned(), differences }
    }

    /// What differs between what is there and this; nothing if it is the same.
    pub(super) fn differences(&self, found: &Held<'_>) -> String {
        let mut said = String::new();
        let mut differ = |what: &str, found: &str, wanted: &str| {
            if found != wanted {
                said += &format!("\n  {what}: {found} is expected to be {wanted}");
            }
        };
        differ("kind", &found.structure.kind().to_string(), &self.kind.to_string());
        differ("key", &found.key, &self.key);
        differ("value", &found.value, &self.value);
        if !said.is_empty() || found.layouts != self.layouts {
            said += &differences(&found.types, &self.types);
        }
        if said.is_empty() && found.layouts != self.layouts {
            said += "\n  the variants of a type are in another order, or it is of another kind";
        }
        said
    }

    pub(super) fn hold(self, structure: Structure<'_>) -> Held<'_> {
        let Self { key, value, layouts, types, .. } = self;
        Held { structure, key, value, layouts, types }
    }
}
