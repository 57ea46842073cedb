//! `#[derive(Key)]`.

use proc_macro::{Literal, TokenStream};

use crate::input::{Input, Refused, Result, Variant};
use crate::persist::descriptions;
use crate::refuse::refuse_volatile;
use crate::template::{fill, fill_at, string, token};

/// What is written of the variants, one after another.
#[derive(Default)]
struct Bodies {
    layout: TokenStream,
    writes: TokenStream,
    reads: TokenStream,
}

fn bodies(input: &Input) -> Result<Bodies> {
    let mut bodies = Bodies::default();
    for (number, variant) in input.variants.iter().enumerate() {
        let number = u16::try_from(number)
            .map_err(|_| Refused::name(&variant.name, "a key has at most 65,536 variants"))?;
        if input.is_enum {
            let name = string(&variant.name.to_string());
            let step = fill("hash = ::strandline::layout::variant(hash, $name);", &[("name", &name)]);
            bodies.layout.extend(step);
        }
        let FieldBodies { layout, write, read } = field_bodies(variant)?;
        bodies.layout.extend(layout);
        let parts = [
            ("number", &token(Literal::u16_suffixed(number))),
            ("pattern", &variant.pattern()),
            ("write", &write),
            ("read", &read),
        ];
        if input.is_enum {
            bodies.writes.extend(fill(
                "$pattern => {
                    <u16 as ::strandline::KeyRef>::write_key(&$number, into);
                    $write
                }",
                &parts,
            ));
            bodies.reads.extend(fill("$number => { $read Ok($pattern) }", &parts));
        } else {
            bodies.writes.extend(fill("$pattern => { $write }", &parts));
            bodies.reads.extend(fill("{ $read Ok($pattern) }", &parts));
        }
    }
    Ok(bodies)
}

/// What is written of the fields of one variant, one after another.
#[derive(Default)]
struct FieldBodies {
    layout: TokenStream,
    write: TokenStream,
    read: TokenStream,
}

fn field_bodies(variant: &Variant) -> Result<FieldBodies> {
    let mut bodies = FieldBodies::default();
    for field in &variant.fields {
        refuse_volatile(&field.ty)?;
        let ty = field.ty();
        let key = fill_at(field.span(), "< $type as ::strandline::Key >", &[("type", &ty)]);
        let key_ref = fill_at(field.span(), "< $type as ::strandline::KeyRef >", &[("type", &ty)]);
        let parts = [
            ("name", &string(&field.name)),
            ("variable", &field.variable),
            ("key", &key),
            ("key_ref", &key_ref),
        ];
        bodies.layout.extend(fill("hash = ::strandline::layout::field(hash, $name, $key::LAYOUT);", &parts));
        bodies.write.extend(fill("$key_ref::write_key($variable, into);", &parts));
        bodies.read.extend(fill("let $variable = $key::read_key(from)?;", &parts));
    }
    Ok(bodies)
}

const KEY: &str = "#[automatically_derived]
    // SAFETY: the bytes that the key type reads, by field and in order.
    unsafe impl $declarations ::strandline::KeyRef for $self $where {
        fn write_key(&self, into: &mut ::strandline::KeyBytes) {
            let _ = &into;
            match self { $writes }
        }
    }
    // SAFETY: the fields' bytes one after another, each with its own layout.
    #[automatically_derived]
    unsafe impl $declarations ::strandline::Key for $self $where {
        const NAME: &'static str = $name;
        const LAYOUT: u64 = {
            let mut hash = ::strandline::layout::begin_derived($name, 1);
            $layout
            hash
        };
        fn describe(types: &mut ::strandline::Types) -> ::std::string::String {
            types.note::<Self>(($name, 1, < Self as ::strandline::Key >::LAYOUT), $is_enum, |types| {
                let _ = &types;
                ::std::vec![$descriptions]
            })
        }
        fn read_key(from: &mut &[u8]) -> ::core::result::Result<Self, ::strandline::Invalid> {
            let _ = &from;
            $read
        }
    }";

pub fn expand(input: &Input) -> Result<TokenStream> {
    if let Some(lifetime) = input.lifetimes().next() {
        return Err(Refused::new(
            &lifetime.name,
            "a key is plain data: it cannot hold pointers or references",
        ));
    }
    let Bodies { layout, writes, reads } = bodies(input)?;
    let read = if input.is_enum {
        fill(
            "match <u16 as ::strandline::Key>::read_key(from)? {
                $reads
                _ => Err(::strandline::Invalid),
            }",
            &[("reads", &reads)],
        )
    } else {
        reads
    };
    let bound = fill("::strandline::Key", &[]);
    Ok(fill(
        KEY,
        &[
            ("declarations", &input.declarations(&TokenStream::new(), &bound)),
            ("self", &input.self_type()),
            ("where", &input.where_clause),
            ("name", &string(&input.name.to_string())),
            ("layout", &layout),
            ("writes", &writes),
            ("read", &read),
            ("is_enum", &fill(if input.is_enum { "true" } else { "false" }, &[])),
            ("descriptions", &descriptions(input, &bound)?),
        ],
    ))
}
