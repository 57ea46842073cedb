//! `#[derive(Persist)]` and `#[derive(Key)]` for strandline's typed API. The documentation is at their traits in `strandline`.
//!
//! The crate depends only on the compiler's `proc_macro`: the usual crates for parsing and generating Rust take seconds to compile, for which each
//! application would wait. `input` parses an item, which the compiler has parsed already, so that only names, parameters and fields matter;
//! `template` generates code.

mod attributes;
mod input;
mod key;
mod persist;
mod refuse;
mod template;

use input::{Input, Refused};
use proc_macro::TokenStream;

/// Derives `Persist` for a struct or an enum. Values are stored field by field: padding is never written, and loading checks each bit pattern before
/// it becomes a value.
///
/// - A type that holds pointers or collections has one lifetime parameter, the brand of its pool.
/// - `#[persist(version = 2)]` sets the version of the type, for migrations; `#[persist(name = "…")]` sets a name other than its Rust name. Opening a
///   pool checks both.
/// - `#[persist(was = "…")]` on a field or variant gives its name in earlier versions of the type, and `#[persist(default)]` or `#[persist(default =
///   …)]` on a field gives its value for versions that did not have it. They serve tables whose values are of an earlier version.
/// - `#[persist(with = module)]` on a field whose type does not implement the trait stores the value to which the functions of `module` convert it.
/// - A field with `#[persist(skip)]` is not stored. Loading sets it to `Default::default()`, or to the expression in `#[persist(skip, default = …)]`.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    Input::read(input).and_then(|input| persist::expand(&input)).unwrap_or_else(Refused::into_tokens)
}

/// Derives `Key` for a struct or an enum whose fields are keys. Keys are ordered as by `#[derive(Ord)]`: by variant and then by field, each in the
/// order of declaration.
#[proc_macro_derive(Key, attributes(persist))]
pub fn derive_key(input: TokenStream) -> TokenStream {
    Input::read(input).and_then(|input| key::expand(&input)).unwrap_or_else(Refused::into_tokens)
}
