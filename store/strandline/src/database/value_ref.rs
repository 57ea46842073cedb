//! The values of tables, and what they are stored from.

use crate::value::persist::{Encoded, Persist};

#[cfg(doc)]
use super::table::Table;

/// What a [`Table`] can hold as values: what can be kept in a pool and owns all that it holds. Numbers, strings, tuples, vectors, options, and
/// your own types with `#[derive(Persist)]`; but no pointers and collections of a pool, which have a lifetime.
pub trait Value: for<'p> Persist<'p> + 'static {}

impl<V: for<'p> Persist<'p> + 'static> Value for V {}

/// What a value of type `V` can be stored from: itself, or a `str` for a `String` and a slice for a vector.
///
/// ```
/// # use strandline::*;
/// let db = Database::in_memory()?;
/// let files = db.table::<String, Vec<u8>>("files")?;
/// db.write(|tx| {
///     files.insert(tx, "a", &vec![1, 2, 3])?;
///     files.insert(tx, "b", [1, 2, 3].as_slice())?;
///     files.insert(tx, "c", b"123")
/// })?;
/// # Ok::<(), strandline::Error>(())
/// ```
pub trait ValueRef<V>: sealed::Encode<V> {}

impl<V, W: sealed::Encode<V> + ?Sized> ValueRef<V> for W {}

mod sealed {
    /// Who stores words stores those of a value: so nobody else implements it.
    pub trait Encode<V> {
        fn bytes(&self) -> u64;
        fn encode(&self, into: &mut [u64]);
        fn plain(&self) -> Option<&[u8]>;
    }
}

/// The value to be stored.
pub(super) fn encoded<V, W: ValueRef<V> + ?Sized>(value: &W) -> Encoded<'_, impl FnOnce(&mut [u64])> {
    Encoded { bytes: value.bytes(), plain: value.plain(), encode: |words: &mut [u64]| value.encode(words) }
}

impl<V: Value> sealed::Encode<V> for V {
    fn bytes(&self) -> u64 {
        Persist::bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        Persist::encode(self, into);
    }
    fn plain(&self) -> Option<&[u8]> {
        Persist::plain(self)
    }
}

impl sealed::Encode<String> for str {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn encode(&self, into: &mut [u64]) {
        u8::store_slice(self.as_bytes(), into);
    }
    fn plain(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
}

impl<T: Value> sealed::Encode<Vec<T>> for [T] {
    fn bytes(&self) -> u64 {
        crate::value::values::slice_bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        crate::value::values::encode_slice(self, into);
    }
    fn plain(&self) -> Option<&[u8]> {
        T::plain_slice(self)
    }
}

impl<T: Value, const N: usize> sealed::Encode<Vec<T>> for [T; N] {
    fn bytes(&self) -> u64 {
        crate::value::values::slice_bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        crate::value::values::encode_slice(self, into);
    }
    fn plain(&self) -> Option<&[u8]> {
        T::plain_slice(self)
    }
}
