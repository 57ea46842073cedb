//! `#[derive(Persist)]` and `#[derive(Key)]` for strandline's typed API, which documents them: see
//! `strandline`.

mod fields;
mod key;
mod persist;
mod refuse;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `Persist` for a structure or an enumeration: values of a fixed number of 64-bit words, stored field
/// by field, so that no padding is ever written and no bit pattern becomes a value unchecked.
///
/// - A type that holds pointers or collections has one lifetime parameter, the brand of its pool.
/// - `#[persist(version = 2)]` counts the type's versions, for migrations; `#[persist(name = "…")]` names it
///   otherwise than its Rust name. Both become a part of what is checked when a pool is opened.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn derive_persist(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    persist::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Derives `Key` for a structure or an enumeration whose fields are keys. Keys are ordered by their fields in
/// the order of declaration, variants likewise: as by `#[derive(Ord)]`.
#[proc_macro_derive(Key)]
pub fn derive_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    key::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
