//! What both derives make of a type's fields: names for them, patterns, and the variants in order.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Result, Type};

/// One variant of an enumeration, or a structure.
pub struct Variant<'a> {
    /// `Self` or `Self::Name`.
    pub path: TokenStream,
    /// The variant's name; the type's for a structure.
    pub name: &'a Ident,
    pub fields: Vec<Field<'a>>,
    shape: &'a Fields,
}

/// A field, and the variable that holds it.
pub struct Field<'a> {
    pub name: String,
    pub variable: Ident,
    pub ty: &'a Type,
}

impl<'a> Variant<'a> {
    fn new(path: TokenStream, name: &'a Ident, shape: &'a Fields) -> Self {
        let fields = shape
            .iter()
            .enumerate()
            .map(|(i, field)| Field {
                name: field.ident.as_ref().map_or_else(|| i.to_string(), ToString::to_string),
                variable: format_ident!("field_{i}"),
                ty: &field.ty,
            })
            .collect();
        Self { path, name, fields, shape }
    }

    /// The variant with its variables: a pattern, and an expression too.
    pub fn pattern(&self) -> TokenStream {
        let path = &self.path;
        let variables: Vec<_> = self.fields.iter().map(|field| &field.variable).collect();
        match self.shape {
            Fields::Unit => quote!(#path),
            Fields::Unnamed(_) => quote!(#path(#(#variables),*)),
            Fields::Named(named) => {
                let names = named.named.iter().map(|field| &field.ident);
                quote!(#path { #(#names: #variables),* })
            }
        }
    }
}

/// The variants of a type, and whether it is an enumeration.
pub fn variants(input: &DeriveInput) -> Result<(Vec<Variant<'_>>, bool)> {
    match &input.data {
        Data::Struct(data) => Ok((vec![Variant::new(quote!(Self), &input.ident, &data.fields)], false)),
        Data::Enum(data) if data.variants.is_empty() => {
            Err(Error::new_spanned(&input.ident, "an enumeration without variants has no value to keep"))
        }
        Data::Enum(data) => {
            let variants = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                Variant::new(quote!(Self::#name), name, &variant.fields)
            });
            Ok((variants.collect(), true))
        }
        Data::Union(data) => Err(Error::new_spanned(
            data.union_token,
            "a union cannot be kept in a pool: nothing says which of its fields is there; use an enumeration",
        )),
    }
}
