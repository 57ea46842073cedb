//! Types of the standard library that wrap a value. They are stored as that value, and have its layout.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use super::check::Checker;
use super::elements::{decode_elements, elements_bytes, elements_words, encode_elements, store_elements};
use super::key::{Key, KeyBytes, KeyRef};
use super::lists::{encode_slice, slice_bytes};
use super::persist::{Fixed, Invalid, Persist, Stored};
use super::schema::Types;
use super::transaction::{Control, Tx};
use super::values::{owns_those_of, put};
use strandline_core::memory::PersistentAddress;

macro_rules! pointers {
    ($($type:ident),*) => {$(
        // SAFETY: everything is that of the value inside, including the layout.
        unsafe impl<'p, T: Persist<'p>> Persist<'p> for $type<T> {
            const NAME: &'static str = T::NAME;
            const VERSION: u32 = T::VERSION;
            const LAYOUT: u64 = T::LAYOUT;
            const SIZE: Option<usize> = T::SIZE;
            const NEVER_ZERO: bool = T::NEVER_ZERO;
            const PACKED: Option<usize> = T::PACKED;
            const IS_NUMBER: bool = T::IS_NUMBER;
            const IS_PLAIN: bool = T::IS_PLAIN;
            fn describe(types: &mut Types) -> String {
                T::describe(types)
            }
            fn words(&self) -> usize {
                (**self).words()
            }
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                (**self).store(into)
            }
            fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                T::load(from, stored).map(Self::new)
            }
            fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
                (**self).store_packed(into)
            }
            fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
                T::load_packed(from).map(Self::new)
            }
            fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
                (**self).visit(checker)
            }
            const OWNS: bool = T::OWNS;
            fn collections(&self, found: &mut Vec<PersistentAddress>) {
                (**self).collections(found);
            }
            fn destroy_collections(
                &self,
                tx: &Tx<'p, impl Control>,
                kept: &mut Vec<PersistentAddress>,
            ) -> strandline_core::Result<()> {
                (**self).destroy_collections(tx, kept)
            }
            fn bytes(&self) -> u64 {
                (**self).bytes()
            }
            fn encode(&self, into: &mut [u64]) {
                (**self).encode(into);
            }
            fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
                T::decode(from, bytes, stored).map(Self::new)
            }
            fn plain(&self) -> Option<&[u8]> {
                (**self).plain()
            }
            fn read_plain<E>(
                bytes: u64,
                read: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Result<Self, Invalid>, E> {
                Ok(T::read_plain(bytes, read)?.map(Self::new))
            }
        }
        // SAFETY: the value inside has a fixed size.
        unsafe impl<'p, T: Fixed<'p>> Fixed<'p> for $type<T> {}

        // SAFETY: the bytes are those of the key inside.
        unsafe impl<T: KeyRef + ?Sized> KeyRef for $type<T> {
            fn write_key(&self, into: &mut KeyBytes) {
                (**self).write_key(into);
            }
        }
        // SAFETY: everything is that of the key inside, including the layout.
        unsafe impl<T: Key> Key for $type<T> {
            const NAME: &'static str = T::NAME;
            const LAYOUT: u64 = T::LAYOUT;
            const ONE_WORD: bool = T::ONE_WORD;
            fn describe(types: &mut Types) -> String {
                T::describe(types)
            }
            fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
                T::read_key(from).map(Self::new)
            }
        }
        slices!([T: Persist<'p>] $type<[T]>, T);
        texts!($type<str>);
    )*};
}

/// Implements [`Persist`] for a type that can be borrowed as a slice and created from a vector.
macro_rules! slices {
    ([$($generics:tt)*] $type:ty, $element:ty) => {
        // SAFETY: everything is that of a vector of these elements, including the layout.
        unsafe impl<'p, $($generics)*> Persist<'p> for $type {
            const NAME: &'static str = <Vec<$element> as Persist<'p>>::NAME;
            const LAYOUT: u64 = <Vec<$element> as Persist<'p>>::LAYOUT;
            const SIZE: Option<usize> = None;
            const IS_PLAIN: bool = <Vec<$element> as Persist<'p>>::IS_PLAIN;
            fn describe(types: &mut Types) -> String {
                <Vec<$element> as Persist<'p>>::describe(types)
            }
            fn words(&self) -> usize {
                1 + <$element as Persist<'p>>::slice_words(self)
            }
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                <$element as Persist<'p>>::store_slice(self, put(self.len() as u64, into))
            }
            fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                <Vec<$element> as Persist<'p>>::load(from, stored).map(Self::from)
            }
            fn bytes(&self) -> u64 {
                slice_bytes::<$element>(self)
            }
            fn encode(&self, into: &mut [u64]) {
                encode_slice::<$element>(self, into);
            }
            fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
                <Vec<$element> as Persist<'p>>::decode(from, bytes, stored).map(Self::from)
            }
            fn plain(&self) -> Option<&[u8]> {
                <$element as Persist<'p>>::plain_slice(self)
            }
            fn read_plain<E>(
                bytes: u64,
                read: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Result<Self, Invalid>, E> {
                Ok(<Vec<$element> as Persist<'p>>::read_plain(bytes, read)?.map(Self::from))
            }
            fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
                self.iter().try_for_each(|element| element.visit(checker))
            }
            const OWNS: bool = <$element as Persist<'p>>::OWNS;
            fn collections(&self, found: &mut Vec<PersistentAddress>) {
                self.iter().for_each(|value| Persist::<'p>::collections(value, found));
            }
            fn destroy_collections(
                &self,
                tx: &Tx<'p, impl Control>,
                kept: &mut Vec<PersistentAddress>,
            ) -> strandline_core::Result<()> {
                self.iter().try_for_each(|value| value.destroy_collections(tx, kept))
            }
        }
    };
}
#[allow(unused_imports)] // used only if a feature adds types of another crate
pub(super) use slices;

/// Implements [`Persist`] and [`Key`] for a type that can be borrowed as a `str` and created from a `String`.
macro_rules! texts {
    ($type:ty) => {
        // SAFETY: everything is that of a `String`, including the layout.
        unsafe impl<'p> Persist<'p> for $type {
            const NAME: &'static str = <String as Persist<'p>>::NAME;
            const LAYOUT: u64 = <String as Persist<'p>>::LAYOUT;
            const SIZE: Option<usize> = None;
            const IS_PLAIN: bool = true;
            fn describe(types: &mut Types) -> String {
                <String as Persist<'p>>::describe(types)
            }
            fn words(&self) -> usize {
                1 + u8::slice_words(self.as_bytes())
            }
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                u8::store_slice(self.as_bytes(), put(self.len() as u64, into))
            }
            fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                String::load(from, stored).map(Self::from)
            }
            fn bytes(&self) -> u64 {
                self.len() as u64
            }
            fn encode(&self, into: &mut [u64]) {
                u8::store_slice(self.as_bytes(), into);
            }
            fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
                String::decode(from, bytes, stored).map(Self::from)
            }
            fn plain(&self) -> Option<&[u8]> {
                Some(self.as_bytes())
            }
            fn read_plain<E>(
                bytes: u64,
                read: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Result<Self, Invalid>, E> {
                Ok(String::read_plain(bytes, read)?.map(Self::from))
            }
        }
        // SAFETY: everything is that of a `String`, including the layout.
        unsafe impl Key for $type {
            const NAME: &'static str = <String as Key>::NAME;
            const LAYOUT: u64 = <String as Key>::LAYOUT;
            fn describe(types: &mut Types) -> String {
                <String as Key>::describe(types)
            }
            fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
                String::read_key(from).map(Self::from)
            }
        }
    };
}

pointers!(Box, Rc, Arc);
slices!(['b, T: Persist<'p> + Clone] Cow<'b, [T]>, T);
texts!(Cow<'_, str>);

// SAFETY: the bytes are those of the key inside.
unsafe impl<B: KeyRef + ToOwned + ?Sized> KeyRef for Cow<'_, B> {
    fn write_key(&self, into: &mut KeyBytes) {
        (**self).write_key(into);
    }
}

// SAFETY: everything is that of a vector of these elements, including the layout.
unsafe impl<'p, T: Persist<'p>> Persist<'p> for VecDeque<T> {
    const NAME: &'static str = <Vec<T> as Persist<'p>>::NAME;
    const LAYOUT: u64 = <Vec<T> as Persist<'p>>::LAYOUT;
    const SIZE: Option<usize> = None;
    fn describe(types: &mut Types) -> String {
        <Vec<T> as Persist<'p>>::describe(types)
    }
    fn words(&self) -> usize {
        elements_words(self.iter())
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        store_elements(self.iter(), into)
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        Vec::load(from, stored).map(Self::from)
    }
    fn bytes(&self) -> u64 {
        elements_bytes(self.iter())
    }
    fn encode(&self, into: &mut [u64]) {
        encode_elements(self.iter(), into);
    }
    fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        decode_elements(from, bytes, stored).map(Self::from)
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        self.iter().try_for_each(|element| element.visit(checker))
    }
    owns_those_of!(T);
}
