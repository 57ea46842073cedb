//! Lists of values: vectors, arrays and tuples.
//!
//! ```text
//! vector   number of elements · then the elements, one after another
//! array,
//! tuple    the parts, one after another
//! ```
//!
//! *Packed* elements of a vector or an array are stored side by side as bytes, which are padded with zeros to whole words. Elements are packed if
//! this takes less space than whole words for each: scalars, and arrays, tuples, options and derived types of them.
//!
//! A *stand-alone* value is one that is not part of another value: the value of a map, or an item of a queue. A stand-alone vector of packed
//! elements, or of numbers of up to eight bytes, has no word for its length.

use super::check::Checker;
use super::persist::{Fixed, Invalid, Persist, Stored, each, packed, take_packed};
use super::schema::Types;
use super::transaction::{Control, Tx};
use super::values::{next, owns_those_of, put};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::type_layout as layout;

// SAFETY: the array stores the words of `T`, or packed elements, which have no handles. The layout is computed from `T`'s layout and the number of
// elements, and differs for packed elements.
unsafe impl<'p, T: Persist<'p>, const N: usize> Persist<'p> for [T; N] {
    const NAME: &'static str = "array";
    const LAYOUT: u64 = {
        let name = if packed::<T>().is_some() { layout::PACKED_ARRAY } else { "array" };
        layout::field(layout::begin(name, N as u32), "", T::LAYOUT)
    };
    const SIZE: Option<usize> = match (packed::<T>(), T::SIZE) {
        (Some(each), _) => Some((N * each).div_ceil(8)),
        (None, Some(words)) => Some(N * words),
        (None, None) => None,
    };
    fn describe(types: &mut Types) -> String {
        format!("[{}; {N}]", T::describe(types))
    }
    #[inline]
    fn words(&self) -> usize {
        Self::SIZE.unwrap_or_else(|| self.iter().map(T::words).sum())
    }
    #[inline]
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        if packed::<T>().is_some() {
            return T::store_slice(self, into);
        }
        self.iter().fold(into, |rest, value| value.store(rest))
    }
    #[inline]
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        if let Some(each) = packed::<T>() {
            return Self::load_packed(&mut take_packed(each, N as u64, from)?);
        }
        let values: [Option<T>; N] = std::array::from_fn(|_| T::load(from, stored).ok());
        if values.iter().any(Option::is_none) {
            return Err(Invalid);
        }
        Ok(values.map(|value| value.expect("none of them is missing")))
    }
    const PACKED: Option<usize> = match T::PACKED {
        Some(each) => Some(N * each),
        None => None,
    };
    fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
        self.iter().fold(into, |rest, value| value.store_packed(rest))
    }
    fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
        let values: [Option<T>; N] = std::array::from_fn(|_| T::load_packed(from).ok());
        if values.iter().any(Option::is_none) {
            return Err(Invalid);
        }
        Ok(values.map(|value| value.expect("none of them is missing")))
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        self.iter().try_for_each(|value| value.visit(checker))
    }
    owns_those_of!(T);
}

// SAFETY: the array always has the same number of elements, each of the same size.
unsafe impl<'p, T: Fixed<'p>, const N: usize> Fixed<'p> for [T; N] {}

/// Returns the name of a tuple of these types.
pub(crate) fn tuple(parts: &[String]) -> String {
    match parts {
        [one] => format!("({one},)"),
        parts => format!("({})", parts.join(", ")),
    }
}

/// Calls `implement` with the tuples of one to twelve elements, given as the names of their types and their indices.
macro_rules! for_tuples {
    ($implement:ident) => {
        $implement! {
            A 0;
            A 0, B 1;
            A 0, B 1, C 2;
            A 0, B 1, C 2, D 3;
            A 0, B 1, C 2, D 3, E 4;
            A 0, B 1, C 2, D 3, E 4, F 5;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
            A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11;
        }
    };
}
pub(super) use for_tuples;

macro_rules! persist_tuples {
    ($($($name:ident $index:tt),+;)*) => {$(
        // SAFETY: the tuple stores the words of each part, as the part stores them. The layout is computed from the layouts of all parts, in order.
        unsafe impl<'p, $($name: Persist<'p>),+> Persist<'p> for ($($name,)+) {
            const NAME: &'static str = "tuple";
            const LAYOUT: u64 = {
                let hash = layout::begin("tuple", 0);
                $(let hash = layout::field(hash, "", $name::LAYOUT);)+
                hash
            };
            const SIZE: Option<usize> = layout::sum(&[$($name::SIZE),+]);
            fn describe(types: &mut Types) -> String {
                tuple(&[$($name::describe(types)),+])
            }
            #[inline]
            fn words(&self) -> usize {
                0 $(+ self.$index.words())+
            }
            #[inline]
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                $(let into = self.$index.store(into);)+
                into
            }
            #[inline]
            fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                Ok(($($name::load(from, stored)?,)+))
            }
            const PACKED: Option<usize> = layout::sum(&[$($name::PACKED),+]);
            fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
                $(let into = self.$index.store_packed(into);)+
                into
            }
            fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
                Ok(($($name::load_packed(from)?,)+))
            }
            fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
                $(self.$index.visit(checker)?;)+
                Ok(())
            }
            const OWNS: bool = false $(|| $name::OWNS)+;
            fn collections(&self, found: &mut Vec<PersistentAddress>) {
                $(self.$index.collections(found);)+
            }
            fn destroy_collections(
                &self,
                tx: &Tx<'p, impl Control>,
                kept: &mut Vec<PersistentAddress>,
            ) -> strandline_core::Result<()> {
                $(self.$index.destroy_collections(tx, kept)?;)+
                Ok(())
            }
        }
        // SAFETY: all parts have fixed sizes.
        unsafe impl<'p, $($name: Fixed<'p>),+> Fixed<'p> for ($($name,)+) {}
    )*};
}

for_tuples!(persist_tuples);

/// Returns the number of bytes of a stand-alone vector of these elements.
pub(crate) fn slice_bytes<'p, T: Persist<'p>>(elements: &[T]) -> u64 {
    let bytes = each::<T>().map_or_else(|| 8 * (1 + T::slice_words(elements)), |each| each * elements.len());
    bytes as u64
}

/// Stores a stand-alone vector of these elements.
pub(crate) fn encode_slice<'p, T: Persist<'p>>(elements: &[T], into: &mut [u64]) {
    let into = if each::<T>().is_some() { into } else { put(elements.len() as u64, into) };
    T::store_slice(elements, into);
}

// SAFETY: the vector stores the words of `T`, or packed elements, which have no handles. The layout is computed from `T`'s layout, and differs for
// packed elements.
unsafe impl<'p, T: Persist<'p>> Persist<'p> for Vec<T> {
    const NAME: &'static str = "Vec";
    const LAYOUT: u64 = {
        // Earlier versions packed only vectors of numbers. So these keep the name of the layout that they had.
        let is_packed = packed::<T>().is_some() && !T::IS_NUMBER;
        let name = if is_packed { layout::PACKED_VEC } else { "Vec" };
        layout::field(layout::begin(name, 0), "", T::LAYOUT)
    };
    const SIZE: Option<usize> = None;
    fn describe(types: &mut Types) -> String {
        format!("Vec<{}>", T::describe(types))
    }
    fn words(&self) -> usize {
        1 + T::slice_words(self)
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        T::store_slice(self, put(self.len() as u64, into))
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        let count = next(from)?;
        T::load_vec(count, from, stored)
    }
    fn bytes(&self) -> u64 {
        slice_bytes(self)
    }
    fn encode(&self, into: &mut [u64]) {
        encode_slice(self, into);
    }
    fn decode(mut from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        if from.len() as u64 != bytes.div_ceil(8) {
            return Err(Invalid);
        }
        let value = match each::<T>() {
            Some(each) if !bytes.is_multiple_of(each as u64) => return Err(Invalid),
            Some(each) => T::load_vec(bytes / each as u64, &mut from, stored)?,
            None => Self::load(&mut from, stored)?,
        };
        if from.is_empty() { Ok(value) } else { Err(Invalid) }
    }
    const IS_PLAIN: bool = T::IS_PLAIN_SLICE;
    fn plain(&self) -> Option<&[u8]> {
        T::plain_slice(self)
    }
    fn read_plain<E>(
        bytes: u64,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<Self, Invalid>, E> {
        T::read_plain_vec(bytes, read)
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        self.iter().try_for_each(|element| element.visit(checker))
    }
    owns_those_of!(T);
}
