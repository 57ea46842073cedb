//! The values of tables, and the borrowed forms from which they can be stored.

use crate::value::lists::{encode_slice, slice_bytes};
use crate::value::persist::{self, Encoded, Persist};

#[cfg(doc)]
use super::table::Table;

/// A type whose values a [`Table`] can hold: numbers, strings, tuples, vectors, options, and your own types with `#[derive(Persist)]`. Such a value
/// owns its whole content. Pointers and collections of a pool have a lifetime and are not allowed.
pub trait Value: for<'p> Persist<'p> + 'static {}

impl<V: for<'p> Persist<'p> + 'static> Value for V {}

/// A type from which a value of type `V` can be stored: `V` itself, a `str` for a `String`, or a slice for a vector.
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
    use super::Encoded;

    /// Sealed: an implementation must write exactly the words of a value of type `V`.
    pub trait Encode<V> {
        fn encoded(&self) -> Encoded<'_, impl FnOnce(&mut [u64])>;
    }
}

impl<V: Value> sealed::Encode<V> for V {
    fn encoded(&self) -> Encoded<'_, impl FnOnce(&mut [u64])> {
        persist::encoded(self)
    }
}

impl sealed::Encode<String> for str {
    fn encoded(&self) -> Encoded<'_, impl FnOnce(&mut [u64])> {
        sealed::Encode::<Vec<u8>>::encoded(self.as_bytes())
    }
}

impl<T: Value> sealed::Encode<Vec<T>> for [T] {
    fn encoded(&self) -> Encoded<'_, impl FnOnce(&mut [u64])> {
        let encode = |words: &mut [u64]| encode_slice(self, words);
        Encoded { bytes: slice_bytes(self), plain: T::plain_slice(self), encode }
    }
}

impl<T: Value, const N: usize> sealed::Encode<Vec<T>> for [T; N] {
    fn encoded(&self) -> Encoded<'_, impl FnOnce(&mut [u64])> {
        sealed::Encode::<Vec<T>>::encoded(self.as_slice())
    }
}
