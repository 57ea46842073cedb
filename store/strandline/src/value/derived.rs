//! The functions that derived code calls for the types of fields.
//!
//! [`Field`] and [`KeyField`] have the functions of the field's type. For a type that does not implement the trait, [`Missing`] and [`MissingKey`]
//! supply functions that always compile. So the compiler reports the type once, at [`is_persist`] or [`is_key`], and not wherever derived code uses
//! it. These functions are never called, since such a program does not compile.

// Only derived code calls these functions. Each has the contract of the function with the same name in `Persist` or `Key`.
#![allow(missing_docs)]

use std::marker::PhantomData;

use super::check::Checker;
use super::key::{Key, KeyBytes};
use super::persist::{Invalid, Persist, Stored};
use super::schema::{Types, stored_words};
use super::transaction::{Control, Tx};
use strandline_core::error::Result;
use strandline_core::memory::PersistentAddress;

/// Fails to compile unless the type implements [`Persist`].
pub fn is_persist<'p, T: Persist<'p>>() {}

/// Fails to compile unless the type implements [`Key`].
pub fn is_key<T: Key>() {}

/// Derived code calls [`is_persist`] for each field in an implementation of this trait.
pub trait PersistFields<'p> {
    fn check();
}

/// Derived code calls [`is_key`] for each field in an implementation of this trait.
pub trait KeyFields {
    fn check();
}

/// The type of a field.
#[derive(Debug)]
pub struct Field<'p, T>(PhantomData<(Stored<'p>, fn() -> T)>);

/// The type of a field of a key.
#[derive(Debug)]
pub struct KeyField<T>(PhantomData<fn() -> T>);

/// Supplies the functions for types that do not implement [`Persist`].
pub trait Missing<'p, T> {
    const LAYOUT: u64 = 0;
    const SIZE: Option<usize> = None;
    const PACKED: Option<usize> = None;
    const OWNS: bool = false;
    fn describe(_: &mut Types) -> String {
        unreachable!("{MISSING}")
    }
    fn stored_words(_: &T) -> Vec<u64> {
        unreachable!("{MISSING}")
    }
    fn words(_: &T) -> usize {
        unreachable!("{MISSING}")
    }
    fn store<'w>(_: &T, _: &'w mut [u64]) -> &'w mut [u64] {
        unreachable!("{MISSING}")
    }
    fn load(_: &mut &[u64], _: Stored<'p>) -> Result<T, Invalid> {
        unreachable!("{MISSING}")
    }
    fn store_packed<'b>(_: &T, _: &'b mut [u8]) -> &'b mut [u8] {
        unreachable!("{MISSING}")
    }
    fn load_packed(_: &mut &[u8]) -> Result<T, Invalid> {
        unreachable!("{MISSING}")
    }
    fn visit(_: &T, _: &mut Checker<'_, 'p>) -> Result<()> {
        unreachable!("{MISSING}")
    }
    fn collections(_: &T, _: &mut Vec<PersistentAddress>) {
        unreachable!("{MISSING}")
    }
    fn destroy_collections(_: &T, _: &Tx<'p, impl Control>, _: &mut Vec<PersistentAddress>) -> Result<()> {
        unreachable!("{MISSING}")
    }
}

/// Like [`Missing`], for keys. Functions that are not listed here fail to compile.
pub trait MissingKey<T> {
    const LAYOUT: u64 = 0;
    fn describe(_: &mut Types) -> String {
        unreachable!("{MISSING}")
    }
    fn write_key(_: &T, _: &mut KeyBytes) {
        unreachable!("{MISSING}")
    }
    fn read_key(_: &mut &[u8]) -> Result<T, Invalid> {
        unreachable!("{MISSING}")
    }
}

const MISSING: &str = "derives check the types of fields";

impl<'p, T> Missing<'p, T> for Field<'p, T> {}
impl<T> MissingKey<T> for KeyField<T> {}

impl<'p, T: Persist<'p>> Field<'p, T> {
    pub const LAYOUT: u64 = T::LAYOUT;
    pub const SIZE: Option<usize> = T::SIZE;
    pub const PACKED: Option<usize> = T::PACKED;
    pub const OWNS: bool = T::OWNS;
    pub fn describe(types: &mut Types) -> String {
        T::describe(types)
    }
    pub fn stored_words(value: &T) -> Vec<u64> {
        stored_words(value)
    }
    pub fn words(value: &T) -> usize {
        value.words()
    }
    pub fn store<'w>(value: &T, into: &'w mut [u64]) -> &'w mut [u64] {
        value.store(into)
    }
    pub fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<T, Invalid> {
        T::load(from, stored)
    }
    pub fn store_packed<'b>(value: &T, into: &'b mut [u8]) -> &'b mut [u8] {
        value.store_packed(into)
    }
    pub fn load_packed(from: &mut &[u8]) -> Result<T, Invalid> {
        T::load_packed(from)
    }
    pub fn visit(value: &T, checker: &mut Checker<'_, 'p>) -> Result<()> {
        value.visit(checker)
    }
    pub fn collections(value: &T, found: &mut Vec<PersistentAddress>) {
        value.collections(found);
    }
    pub fn destroy_collections(
        value: &T,
        tx: &Tx<'p, impl Control>,
        kept: &mut Vec<PersistentAddress>,
    ) -> Result<()> {
        value.destroy_collections(tx, kept)
    }
}

impl<T: Key> KeyField<T> {
    pub const LAYOUT: u64 = T::LAYOUT;
    pub fn describe(types: &mut Types) -> String {
        T::describe(types)
    }
    pub fn write_key(key: &T, into: &mut KeyBytes) {
        key.write_key(into);
    }
    pub fn read_key(from: &mut &[u8]) -> Result<T, Invalid> {
        T::read_key(from)
    }
}
