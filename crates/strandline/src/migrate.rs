//! Tables whose types have changed.

use super::convert::Conversion;
use super::database::Database;
use super::key::{Key, KeyBytes};
use super::ordered_map::OrderedMap;
use super::persist::{Persist, Stored};
use super::schema::Types;
use super::table::{Table, Value};
use super::tables::{Movable, MoveSome, Wanted};
use super::transaction::{Control, Tx};
use super::values::Raw;
use std::marker::PhantomData;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{Native, PersistentAddress};

/// So many keys are moved by one transaction,
const KEYS: u64 = 500;
/// but no more when their values have so many bytes.
const BYTES: u64 = 1 << 17;

/// Converts values by what is described of their types.
struct Convert<'t, K, V> {
    conversion: Conversion<'t>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> MoveSome for Convert<'_, K, V> {
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, is_words): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<u64> {
        let to = OrderedMap::of(to);
        if is_words {
            self.move_from(tx, OrderedMap::<K, Raw<true>>::of(from), to, |raw| (raw.words, raw.bytes))
        } else {
            self.move_from(tx, OrderedMap::<K, Raw<false>>::of(from), to, |raw| (raw.words, raw.bytes))
        }
    }
}

impl<K: Key, V: Value> Convert<'_, K, V> {
    fn move_from<'p, R: Persist<'p>>(
        &self,
        tx: &Tx<'p, impl Control>,
        from: OrderedMap<'p, K, R>,
        to: OrderedMap<'p, K, V>,
        words: impl Fn(R) -> (Vec<u64>, u64),
    ) -> Result<u64> {
        let (mut moved, mut total) = (0, 0);
        for pair in from.drain::<K, _>(tx, ..) {
            let (key, value) = pair?;
            let (old, old_bytes) = words(value);
            let converted = self.conversion.convert(&old, old_bytes);
            let is_one = |(words, bytes): &(Vec<u64>, u64)| V::decode(words, *bytes, Stored::new()).is_ok();
            let Ok((words, bytes)) =
                converted.and_then(|new| if is_one(&new) { Ok(new) } else { Err(super::persist::Invalid) })
            else {
                return Err(Error::Damaged("a table has a value that is none of its type".into()));
            };
            to.insert_encoded(tx, &KeyBytes::of(&key), bytes, |into| into.copy_from_slice(&words))?;
            moved += 1;
            total += bytes;
            if moved == KEYS || total >= BYTES {
                break;
            }
        }
        Ok(moved)
    }
}

/// Converts keys and values by a function.
struct ConvertBy<F, K, V, L, W> {
    convert: F,
    old: PhantomData<fn() -> (K, V)>,
    new: PhantomData<fn() -> (L, W)>,
}

impl<F, K: Key, V: Value, L: Key, W: Value> MoveSome for ConvertBy<F, K, V, L, W>
where
    F: FnMut(K, V) -> Result<Option<(L, W)>>,
{
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        (from, _): (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<u64> {
        let (from, to) = (OrderedMap::<K, V>::of(from), OrderedMap::<L, W>::of(to));
        let (mut moved, mut total) = (0, 0);
        for pair in from.drain::<K, _>(tx, ..) {
            let (key, value) = pair?;
            if let Some((key, value)) = (self.convert)(key, value)? {
                if to.contains_key(tx, &key)? {
                    return Err(Error::Parameter("a migration makes the same key of two".into()));
                }
                total += Persist::bytes(&value);
                to.insert(tx, &key, &value)?;
            }
            moved += 1;
            if moved == KEYS || total >= BYTES {
                break;
            }
        }
        Ok(moved)
    }
}

impl<C: Control<Memory = Native>> Database<C> {
    /// The table `name`, whose keys and values were of the types `K` and `V` so far: they become of `L` and `W`, by `convert`; what
    /// it makes nothing of is left out. If the table has its new types already it is opened, and if there is none, made.
    ///
    /// For what a new version of a type cannot say by itself: new fields with a default, other names, wider numbers and fields that are
    /// gone need no migration ([`Database::table`]).
    ///
    /// The table is moved by many transactions, so that it can be of any size. A migration that was interrupted, by a power
    /// failure too, goes on where it was when this is called again; until it has ended the table cannot be opened otherwise. `progress` is told how many keys
    /// have been moved. As the closure of a transaction, `convert` may see a key more than once.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u8>("people")?;
    /// db.write(|tx| ages.insert(tx, "Ann Bee", &41))?;
    ///
    /// // Keys are to be the last names first.
    /// let people = db.migrate(
    ///     "people",
    ///     |name: String, age: u8| {
    ///         let (first, last) = name.split_once(' ').unwrap_or(("", &name));
    ///         Ok(Some(((last.to_string(), first.to_string()), age)))
    ///     },
    ///     |moved| println!("{moved} people"),
    /// )?;
    /// let bee = db.read(|tx| people.get(tx, &("Bee".to_string(), "Ann".to_string())))?;
    /// assert_eq!(bee, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TableTypes`]: it is of neither types; [`Error::Parameter`]: `convert` makes the same key of two; what `convert` returns, and
    /// then the keys that were moved stay where they are; as [`Database::write`].
    pub fn migrate<K: Key, V: Value, L: Key, W: Value>(
        &self,
        name: &str,
        convert: impl FnMut(K, V) -> Result<Option<(L, W)>>,
        progress: impl FnMut(u64),
    ) -> Result<Table<L, W>> {
        let wanted = Wanted::table::<L, W>();
        let Some(found) = self.store().view(|tx, root| root.get(tx)?.movable(tx, name, &wanted))? else {
            return self.table(name);
        };
        let expected = (K::LAYOUT, V::LAYOUT);
        if found.layouts != expected || found.moving_to.is_some_and(|to| to != ((L::LAYOUT, W::LAYOUT), true))
        {
            return Err(found.refused);
        }
        self.move_all::<L, W>(
            name,
            true,
            ConvertBy::<_, K, V, L, W> { convert, old: PhantomData, new: PhantomData },
            progress,
        )?;
        self.table(name)
    }

    /// Makes the values of a table those of the present version of their type, if that says how.
    pub(crate) fn convert<K: Key, V: Value>(&self, name: &str) -> Result<()> {
        let wanted = Wanted::table::<K, V>();
        let Some(found) = self.store().view(|tx, root| root.get(tx)?.movable(tx, name, &wanted))? else {
            return Ok(());
        };
        let Movable { value, types, layouts, moving_to, refused } = found;
        let is_other = moving_to.is_some_and(|to| to != ((K::LAYOUT, V::LAYOUT), false));
        // A type that has no version of its own does not say that it was meant to change.
        if layouts.0 != K::LAYOUT || is_other || value != V::describe(&mut Types::default()) {
            return Err(refused);
        }
        let mut new = Types::default();
        // The key's come first in the catalogue.
        K::describe(&mut new);
        let new_value = V::describe(&mut new);
        let conversion = match Conversion::new((&value, &types), (&new_value, &new)) {
            Ok(conversion) => conversion,
            Err(reasons) => {
                return Err(match refused {
                    Error::TableTypes { table, differences } => Error::TableTypes {
                        table,
                        differences: format!("{differences}\nand cannot become what is expected:{reasons}"),
                    },
                    other => other,
                });
            }
        };
        self.move_all::<K, V>(name, false, Convert::<K, V> { conversion, types: PhantomData }, |_| {})
    }

    fn move_all<K: Key, V: Value>(
        &self,
        name: &str,
        by_function: bool,
        mut step: impl MoveSome,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        loop {
            let later = self.store().later();
            let ((moved, is_done), ticket) = later
                .update(|tx, root| root.get(tx)?.migrate_some::<K, V>(tx, name, by_function, &mut step))?;
            if is_done {
                return ticket.wait();
            }
            progress(moved);
        }
    }
}
