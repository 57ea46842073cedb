//! `#[derive(Key)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, Result};

use crate::fields::variants;
use crate::refuse::refuse_volatile;

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(
            lifetime,
            "a key is plain data: it cannot hold pointers or references",
        ));
    }
    let (variants, is_enum) = variants(input)?;
    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(::strandline::Key));
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let (ident, name) = (&input.ident, input.ident.to_string());

    let (mut layout, mut writes, mut reads) = (TokenStream::new(), Vec::new(), Vec::new());
    for (number, variant) in variants.iter().enumerate() {
        let number = u16::try_from(number)
            .map_err(|_| Error::new_spanned(variant.name, "a key has at most 65,536 variants"))?;
        let pattern = variant.pattern();
        if is_enum {
            let variant = variant.name.to_string();
            layout.extend(quote!(hash = ::strandline::layout::field(hash, #variant, 0);));
        }
        let (mut write, mut read) = (TokenStream::new(), TokenStream::new());
        for field in &variant.fields {
            // Strings and byte strings are keys, whatever their size.
            let (variable, ty, name) = (&field.variable, field.ty, &field.name);
            if !matches!(quote!(#ty).to_string().as_str(), "String" | "Vec < u8 >") {
                refuse_volatile(ty)?;
            }
            let this = quote_spanned!(ty.span()=> <#ty as ::strandline::Key>);
            let key_ref = quote_spanned!(ty.span()=> <#ty as ::strandline::KeyRef>);
            layout.extend(quote!(hash = ::strandline::layout::field(hash, #name, #this::LAYOUT);));
            write.extend(quote!(#key_ref::write_key(#variable, into);));
            read.extend(quote!(let #variable = #this::read_key(from)?;));
        }
        if is_enum {
            writes.push(quote!(#pattern => {
                <u16 as ::strandline::KeyRef>::write_key(&#number, into);
                #write
            }));
            reads.push(quote!(#number => { #read Ok(#pattern) }));
        } else {
            writes.push(quote!(#pattern => { #write }));
            reads.push(quote!({ #read Ok(#pattern) }));
        }
    }
    let read = if is_enum {
        quote!(match <u16 as ::strandline::Key>::read_key(from)? {
            #(#reads)*
            _ => Err(::strandline::Invalid),
        })
    } else {
        quote!(#(#reads)*)
    };
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::strandline::KeyRef for #ident #type_generics #where_clause {
            fn write_key(&self, into: &mut ::strandline::KeyBytes) {
                let _ = &into;
                match self { #(#writes)* }
            }
        }
        // SAFETY: the fields' bytes one after another, each with its own layout.
        #[automatically_derived]
        unsafe impl #impl_generics ::strandline::Key for #ident #type_generics #where_clause {
            const NAME: &'static str = #name;
            const LAYOUT: u64 = {
                let mut hash = ::strandline::layout::begin(#name, 1);
                #layout
                hash
            };
            fn read_key(from: &mut &[u8]) -> ::core::result::Result<Self, ::strandline::Invalid> {
                let _ = &from;
                #read
            }
        }
    })
}
