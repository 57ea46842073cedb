//! `#[derive(Persist)]`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, GenericParam, Lifetime, LifetimeParam, LitInt, LitStr, Result};

use crate::fields::{Variant, variants};
use crate::refuse::refuse_volatile;

/// What `#[persist(…)]` says.
struct Attributes {
    name: String,
    version: u32,
}

fn attributes(input: &DeriveInput) -> Result<Attributes> {
    let mut attributes = Attributes { name: input.ident.to_string(), version: 1 };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("version") {
                attributes.version = meta.value()?.parse::<LitInt>()?.base10_parse()?;
            } else if meta.path.is_ident("name") {
                attributes.name = meta.value()?.parse::<LitStr>()?.value();
            } else {
                return Err(meta.error("expected `version = 2` or `name = \"…\"`"));
            }
            Ok(())
        })?;
    }
    Ok(attributes)
}

/// The brand: the type's own lifetime parameter, if it has one.
fn brand(input: &DeriveInput) -> Result<Option<Lifetime>> {
    let mut lifetimes = input.generics.lifetimes();
    let first = lifetimes.next().map(|parameter| parameter.lifetime.clone());
    match lifetimes.next() {
        Some(second) => Err(Error::new_spanned(
            second,
            "a type in a pool has at most one lifetime parameter, the brand of its pool: use it for all fields",
        )),
        None => Ok(first),
    }
}

/// A hash of the layout: name and version of the type; names, order and layouts of variants and fields.
fn layout(variants: &[Variant<'_>], is_enum: bool, brand: &Lifetime) -> TokenStream {
    let mut steps = TokenStream::new();
    for variant in variants {
        if is_enum {
            let name = variant.name.to_string();
            steps.extend(quote!(hash = ::strandline::layout::field(hash, #name, 0);));
        }
        for field in &variant.fields {
            let (name, ty) = (&field.name, field.ty);
            steps.extend(quote_spanned!(ty.span()=>
                hash = ::strandline::layout::field(
                    hash, #name, <#ty as ::strandline::Persist<#brand>>::LAYOUT);
            ));
        }
    }
    steps
}

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Attributes { name, version } = attributes(input)?;
    let own_brand = brand(input)?;
    let brand = own_brand.clone().unwrap_or_else(|| Lifetime::new("'strandline_pool", Span::call_site()));
    let (variants, is_enum) = variants(input)?;
    variants.iter().flat_map(|variant| &variant.fields).try_for_each(|field| refuse_volatile(field.ty))?;

    let mut generics = input.generics.clone();
    if own_brand.is_none() {
        generics.params.insert(0, GenericParam::Lifetime(LifetimeParam::new(brand.clone())));
    }
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(syn::parse_quote!(::strandline::Persist<#brand>));
    }
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, type_generics, _) = input.generics.split_for_impl();
    let ident = &input.ident;

    let layout = layout(&variants, is_enum, &brand);
    let (mut sizes, mut stores, mut loads, mut visits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, variant) in variants.iter().enumerate() {
        let number = number as u64;
        let pattern = variant.pattern();
        let words = variant.fields.iter().map(|field| {
            let ty = field.ty;
            quote_spanned!(ty.span()=> + <#ty as ::strandline::Persist<#brand>>::WORDS)
        });
        sizes.push(quote!(0 #(#words)*));
        let (mut store, mut load, mut visit) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        for field in &variant.fields {
            let (variable, ty) = (&field.variable, field.ty);
            let this = quote_spanned!(ty.span()=> <#ty as ::strandline::Persist<#brand>>);
            store.extend(quote! {
                let (now, rest) = rest.split_at_mut(#this::WORDS);
                #this::store(#variable, now);
            });
            load.extend(quote! {
                let (now, rest) = rest.split_at(#this::WORDS);
                let #variable = #this::load(now, stored)?;
            });
            visit.extend(quote!(#this::visit(#variable, checker)?;));
        }
        visits.push(quote!(#pattern => { #visit }));
        if is_enum {
            stores.push(quote!(#pattern => { first[0] = #number; #store rest.fill(0); }));
            loads.push(quote!(#number => { #load let _ = rest; Ok(#pattern) }));
        } else {
            stores.push(quote!(#pattern => { #store let _ = rest; }));
            loads.push(quote!({ #load let _ = rest; Ok(#pattern) }));
        }
    }
    let (words, store, load) = if is_enum {
        (
            quote!(1 + ::strandline::layout::largest(&[#(#sizes),*])),
            quote! {
                let (first, rest) = into.split_at_mut(1);
                match self { #(#stores)* }
            },
            quote! {
                let (first, rest) = from.split_at(1);
                match first[0] { #(#loads)* _ => Err(::strandline::Invalid) }
            },
        )
    } else {
        (
            quote!(#(#sizes)*),
            quote!(let rest = into; match self { #(#stores)* }),
            quote!(let rest = from; #(#loads)*),
        )
    };

    // A root is of the same type under any brand.
    let only_brand = input.generics.params.iter().all(|p| matches!(p, GenericParam::Lifetime(_)));
    let root = only_brand.then(|| {
        let (parameters, arguments) = match &own_brand {
            Some(own) => (quote!(<#own>), quote!(<'strandline_brand>)),
            None => (quote!(), quote!()),
        };
        let own_arguments = own_brand.as_ref().map(|own| quote!(<#own>));
        quote! {
            #[automatically_derived]
            impl #parameters ::strandline::Root for #ident #own_arguments {
                type At<'strandline_brand> = #ident #arguments;
            }
        }
    });

    Ok(quote! {
        // SAFETY: each field stores and loads its own words, and their layouts, with the type's name and version, are its own.
        #[automatically_derived]
        unsafe impl #impl_generics ::strandline::Persist<#brand> for #ident #type_generics #where_clause {
            const WORDS: usize = #words;
            const NAME: &'static str = #name;
            const VERSION: u32 = #version;
            const LAYOUT: u64 = {
                let mut hash = ::strandline::layout::begin(#name, #version);
                #layout
                hash
            };
            fn store(&self, into: &mut [u64]) {
                #store
            }
            fn load(
                from: &[u64],
                stored: ::strandline::Stored<#brand>,
            ) -> ::core::result::Result<Self, ::strandline::Invalid> {
                let _ = stored;
                #load
            }
            fn visit(
                &self,
                checker: &mut ::strandline::Checker<'_, #brand>,
            ) -> ::strandline::Result<()> {
                let _ = &checker;
                match self { #(#visits)* }
                ::core::result::Result::Ok(())
            }
        }
        #root
    })
}
