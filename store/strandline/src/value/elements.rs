//! Sets and maps of the standard library, and other lists whose elements are not in one slice. They are stored as a vector of the elements, or of
//! pairs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use super::adapted::named;
use super::check::Checker;
use super::persist::{Invalid, Persist, Stored, each, pack};
use super::schema::Types;
use super::transaction::{Control, Tx};
use super::values::put;
use strandline_core::memory::PersistentAddress;

/// A reference to an element. It is stored like an element of a vector of [`Owned`](Self::Owned).
pub(super) trait Element<'p>: Copy {
    /// The type of the vector's elements.
    type Owned: Persist<'p>;
    fn words(self) -> usize;
    fn store(self, into: &mut [u64]) -> &mut [u64];
    fn store_packed(self, into: &mut [u8]) -> &mut [u8];
}

impl<'p, T: Persist<'p>> Element<'p> for &T {
    type Owned = T;
    fn words(self) -> usize {
        T::words(self)
    }
    fn store(self, into: &mut [u64]) -> &mut [u64] {
        T::store(self, into)
    }
    fn store_packed(self, into: &mut [u8]) -> &mut [u8] {
        T::store_packed(self, into)
    }
}

impl<'p, K: Persist<'p>, V: Persist<'p>> Element<'p> for (&K, &V) {
    type Owned = (K, V);
    fn words(self) -> usize {
        self.0.words() + self.1.words()
    }
    fn store(self, into: &mut [u64]) -> &mut [u64] {
        self.1.store(self.0.store(into))
    }
    fn store_packed(self, into: &mut [u8]) -> &mut [u8] {
        self.1.store_packed(self.0.store_packed(into))
    }
}

fn words_of<'p, E: Element<'p>>(elements: impl ExactSizeIterator<Item = E>) -> usize {
    match each::<E::Owned>() {
        Some(each) => (each * elements.len()).div_ceil(8),
        None => elements.map(E::words).sum(),
    }
}

fn store_all<'p, E: Element<'p>>(
    elements: impl ExactSizeIterator<Item = E> + Clone,
    into: &mut [u64],
) -> &mut [u64] {
    if each::<E::Owned>().is_none() {
        return elements.fold(into, |rest, element| element.store(rest));
    }
    let (own, rest) = into.split_at_mut(words_of(elements.clone()));
    pack(elements, own, E::store_packed);
    rest
}

/// Returns the number of words of a vector of these elements.
pub(super) fn elements_words<'p, E: Element<'p>>(elements: impl ExactSizeIterator<Item = E>) -> usize {
    1 + words_of(elements)
}

/// Stores a vector of these elements, and returns the words behind it.
pub(super) fn store_elements<'p, E: Element<'p>>(
    elements: impl ExactSizeIterator<Item = E> + Clone,
    into: &mut [u64],
) -> &mut [u64] {
    let into = put(elements.len() as u64, into);
    store_all(elements, into)
}

/// Returns the number of bytes of a stand-alone vector of these elements.
pub(super) fn elements_bytes<'p, E: Element<'p>>(elements: impl ExactSizeIterator<Item = E>) -> u64 {
    let bytes = match each::<E::Owned>() {
        Some(each) => each * elements.len(),
        None => 8 * elements_words(elements),
    };
    bytes as u64
}

/// Stores a stand-alone vector of these elements.
pub(super) fn encode_elements<'p, E: Element<'p>>(
    elements: impl ExactSizeIterator<Item = E> + Clone,
    into: &mut [u64],
) {
    let into = if each::<E::Owned>().is_some() { into } else { put(elements.len() as u64, into) };
    store_all(elements, into);
}

/// Loads the elements of the stand-alone vector of `bytes` bytes in `from`.
pub(super) fn decode_elements<'p, T: Persist<'p>>(
    from: &[u64],
    bytes: u64,
    stored: Stored<'p>,
) -> Result<Vec<T>, Invalid> {
    Vec::decode(from, bytes, stored)
}

/// Implements [`Persist`] for a set or a map, which is stored as a vector of `$element`. Types of the same kind have the same name. `$insert` adds an
/// element.
macro_rules! persist_elements {
    (
        [$($generics:tt)*] $type:ty, $name:literal, $element:ty, [$($parameter:ident),*],
        |$all:ident, $one:ident| $insert:expr
    ) => {
        // SAFETY: the type stores the words of a vector. The layout is computed from the name and the layout of that vector.
        unsafe impl<'p, $($generics)*> Persist<'p> for $type {
            const NAME: &'static str = $name;
            const LAYOUT: u64 = named($name, <Vec<$element> as Persist<'p>>::LAYOUT);
            const SIZE: Option<usize> = None;
            fn describe(types: &mut Types) -> String {
                format!("{}<{}>", $name, [$($parameter::describe(types)),*].join(", "))
            }
            fn words(&self) -> usize {
                elements_words(self.iter())
            }
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                store_elements(self.iter(), into)
            }
            fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                Ok(collected(Vec::<$element>::load(from, stored)?, |$all: &mut Self, $one| $insert))
            }
            fn bytes(&self) -> u64 {
                elements_bytes(self.iter())
            }
            fn encode(&self, into: &mut [u64]) {
                encode_elements(self.iter(), into);
            }
            fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
                Ok(collected(decode_elements::<$element>(from, bytes, stored)?, |$all: &mut Self, $one| $insert))
            }
            fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
                each_part!(self, [$($parameter),*], |part| part.visit(checker)?);
                Ok(())
            }
            const OWNS: bool = <$element as Persist<'p>>::OWNS;
            fn collections(&self, found: &mut Vec<PersistentAddress>) {
                each_part!(self, [$($parameter),*], |part| part.collections(found));
            }
            fn destroy_collections(
                &self,
                tx: &Tx<'p, impl Control>,
                kept: &mut Vec<PersistentAddress>,
            ) -> strandline_core::Result<()> {
                each_part!(self, [$($parameter),*], |part| part.destroy_collections(tx, kept)?);
                Ok(())
            }
        }
    };
}

macro_rules! each_part {
    ($all:expr, [$one:ident], |$part:ident| $body:expr) => {
        for $part in $all.iter() {
            $body;
        }
    };
    ($all:expr, [$key:ident, $value:ident], |$part:ident| $body:expr) => {
        for (key, value) in $all.iter() {
            let $part = key;
            $body;
            let $part = value;
            $body;
        }
    };
}

/// Collects the elements of a vector with `insert`. Elements that differed when they were stored may be equal now, if the difference was not stored.
/// Then one of them is kept, and of a map's values the last.
fn collected<T, C: Default, R>(all: Vec<T>, insert: impl Fn(&mut C, T) -> R) -> C {
    let mut collected = C::default();
    for one in all {
        insert(&mut collected, one);
    }
    collected
}

persist_elements!([T: Persist<'p> + Ord] BTreeSet<T>, "Set", T, [T], |all, one| all.insert(one));
persist_elements!(
    [T: Persist<'p> + Eq + Hash, S: BuildHasher + Default] HashSet<T, S>, "Set", T, [T], |all, one| all.insert(one)
);
persist_elements!(
    [K: Persist<'p> + Ord, V: Persist<'p>] BTreeMap<K, V>, "Map", (K, V), [K, V],
    |all, one| all.insert(one.0, one.1)
);
persist_elements!(
    [K: Persist<'p> + Eq + Hash, V: Persist<'p>, S: BuildHasher + Default] HashMap<K, V, S>, "Map", (K, V), [K, V],
    |all, one| all.insert(one.0, one.1)
);
