//! `Result` as a value. It is stored and described like an enumeration with the same variants that derives [`Persist`].

use super::check::Checker;
use super::persist::{Fixed, Invalid, Persist, Stored};
use super::schema::{FieldDescription, Types, VariantDescription};
use super::transaction::{Control, Tx};
use super::values::{next, put};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::type_layout as layout;

const VARIANTS: usize = 2;

// SAFETY: the value is stored as the number of its variant and then the words of its content, as that stores them. The layout is computed from both
// layouts.
unsafe impl<'p, T: Persist<'p>, E: Persist<'p>> Persist<'p> for Result<T, E> {
    const NAME: &'static str = "Result";
    const LAYOUT: u64 = {
        let hash = layout::variant(layout::begin_derived("Result", 1), "Ok");
        let hash = layout::variant(layout::field(hash, "0", T::LAYOUT), "Err");
        layout::field(hash, "0", E::LAYOUT)
    };
    const SIZE: Option<usize> = layout::largest(&[T::SIZE, E::SIZE]);
    const PACKED: Option<usize> = layout::largest_packed(&[T::PACKED, E::PACKED]);
    fn describe(types: &mut Types) -> String {
        types.note::<Self>(("Result", 1, Self::LAYOUT), true, |types| {
            [("Ok", T::describe(types)), ("Err", E::describe(types))].map(variant).into()
        })
    }
    fn words(&self) -> usize {
        let inside = || match self {
            Ok(value) => value.words(),
            Err(error) => error.words(),
        };
        layout::words(Self::SIZE, || 1 + inside())
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        let into = layout::mark(into, Self::SIZE, Self::LAYOUT);
        let (own, behind) = layout::split(into, Self::SIZE);
        let rest = put(self.is_err().into(), own);
        let rest = match self {
            Ok(value) => value.store(rest),
            Err(error) => error.store(rest),
        };
        if Self::SIZE.is_none() {
            return rest;
        }
        rest.fill(0);
        behind
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        if !layout::is_marked(from, Self::SIZE, Self::LAYOUT) {
            return Err(Invalid);
        }
        let mut own = layout::take(from, Self::SIZE).ok_or(Invalid)?;
        let value = match next(&mut own)? {
            0 => Ok(T::load(&mut own, stored)?),
            1 => Err(E::load(&mut own, stored)?),
            _ => return Err(Invalid),
        };
        if Self::SIZE.is_none() {
            *from = own;
        }
        Ok(value)
    }
    fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
        let (rest, behind) = layout::begin_packed(into, Self::PACKED, VARIANTS, self.is_err().into());
        let rest = match self {
            Ok(value) => value.store_packed(rest),
            Err(error) => error.store_packed(rest),
        };
        rest.fill(0);
        behind
    }
    fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
        match layout::take_packed(from, Self::PACKED, VARIANTS).ok_or(Invalid)? {
            (0, mut own) => Ok(Ok(T::load_packed(&mut own)?)),
            (1, mut own) => Ok(Err(E::load_packed(&mut own)?)),
            _ => Err(Invalid),
        }
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        match self {
            Ok(value) => value.visit(checker),
            Err(error) => error.visit(checker),
        }
    }
    const OWNS: bool = T::OWNS || E::OWNS;
    fn collections(&self, found: &mut Vec<PersistentAddress>) {
        match self {
            Ok(value) => value.collections(found),
            Err(error) => error.collections(found),
        }
    }
    fn destroy_collections(
        &self,
        tx: &Tx<'p, impl Control>,
        kept: &mut Vec<PersistentAddress>,
    ) -> strandline_core::Result<()> {
        match self {
            Ok(value) => value.destroy_collections(tx, kept),
            Err(error) => error.destroy_collections(tx, kept),
        }
    }
}

// SAFETY: every value has one word more than the larger of the two types.
unsafe impl<'p, T: Fixed<'p>, E: Fixed<'p>> Fixed<'p> for Result<T, E> {}

fn variant((name, type_name): (&str, String)) -> VariantDescription {
    let field = FieldDescription { name: "0".into(), type_name, was: None, default: None };
    VariantDescription { name: name.into(), was: None, fields: vec![field] }
}
