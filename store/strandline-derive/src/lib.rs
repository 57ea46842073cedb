//! `#[derive(Persist)]` and `#[derive(Key)]` for strandline's typed API, which documents them: see
//! `strandline`.
//!
//! Nothing but the compiler's own `proc_macro` stands below this: every application would wait for seconds until the usual crates
//! for reading and writing Rust are compiled. What is read here is an item that the compiler has parsed already (`input`), of
//! which names, parameters and fields matter; what is written are templates (`template`).

mod attributes;
mod input;
mod key;
mod persist;
mod refuse;
mod template;

use input::{Input, Refused};
use proc_macro::TokenStream;

/// Derives `Persist` for a structure or an enumeration: values that are stored field by field, so that no padding is ever written and no bit pattern becomes a value unchecked.
///
/// - A type that holds pointers or collections has one lifetime parameter, the brand of its pool.
/// - `#[persist(version = 2)]` counts the type's versions, for migrations; `#[persist(name = "…")]` names it
///   otherwise than its Rust name. Both become a part of what is checked when a pool is opened.
/// - `#[persist(was = "…")]` on a field or variant names what it was called in earlier versions of the type, and `#[persist(default)]` or
///   `#[persist(default = …)]` on a field says what it is in values of versions that had none: for tables whose values are of an
///   earlier version.
/// - `#[persist(with = module)]` on a field whose type does not implement the trait stores what the functions of `module` make of it.
/// - A field with `#[persist(skip)]` is not stored. Loading sets it to `Default::default()`, or to the expression in `#[persist(skip, default = …)]`.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    Input::read(input).and_then(|input| persist::expand(&input)).unwrap_or_else(Refused::into_tokens)
}

/// Derives `Key` for a structure or an enumeration whose fields are keys. Keys are ordered by their fields in
/// the order of declaration, variants likewise: as by `#[derive(Ord)]`.
#[proc_macro_derive(Key, attributes(persist))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    Input::read(input).and_then(|input| key::expand(&input)).unwrap_or_else(Refused::into_tokens)
}
