//! `#[derive(Key)]`.

use proc_macro::{Literal, TokenStream};

use crate::input::{Input, Refused, Result};
use crate::persist::{ANONYMOUS, Part, checks, descriptions, parts_of};
use crate::template::{fill, string, token};

/// The generated code for all variants, by the place where it goes.
#[derive(Default)]
struct Bodies {
    layout: TokenStream,
    writes: TokenStream,
    reads: TokenStream,
}

fn bodies(input: &Input, parts: &[Vec<Part<'_>>]) -> Result<Bodies> {
    let mut bodies = Bodies::default();
    for (number, (variant, parts)) in input.variants.iter().zip(parts).enumerate() {
        let number = u16::try_from(number)
            .map_err(|_| Refused::name(&variant.name, "a key has at most 65,536 variants"))?;
        if input.is_enum {
            let name = string(&variant.name.to_string());
            let step = fill("hash = ::strandline::layout::variant(hash, $name);", &[("name", &name)]);
            bodies.layout.extend(step);
        }
        let FieldBodies { layout, write, read } = field_bodies(parts)?;
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

/// The generated code for the fields of one variant, by the place where it goes.
#[derive(Default)]
struct FieldBodies {
    layout: TokenStream,
    write: TokenStream,
    read: TokenStream,
}

fn field_bodies(parts: &[Part<'_>]) -> Result<FieldBodies> {
    let mut bodies = FieldBodies::default();
    for part in parts {
        if part.change.is_skipped {
            let message =
                "a key has all of its fields: two that differ in this one alone would be the same key";
            return Err(Refused::new(&part.field.ty, message));
        }
        let key = this(part);
        let read = part.loaded(&fill("$key::read_key(from)?", &[("key", &key)]));
        let parts = [
            ("name", &string(&part.field.name)),
            ("variable", &part.field.variable),
            ("value", &part.value()),
            ("key", &key),
            ("read", &read),
        ];
        bodies.layout.extend(fill("hash = ::strandline::layout::field(hash, $name, $key::LAYOUT);", &parts));
        bodies.write.extend(fill("$key::write_key($value, into);", &parts));
        bodies.read.extend(fill("let $variable = $read;", &parts));
    }
    Ok(bodies)
}

/// Returns the type whose functions code calls for the field: the key type, or a stand-in if the field's type is no key.
fn this(part: &Part<'_>) -> TokenStream {
    fill("< ::strandline::layout::KeyField< $type > >", &[("type", &part.stored)])
}

/// Returns the function that makes the words of a default. The words are those of a value, because `KeyField` has no such function.
fn words(part: &Part<'_>) -> TokenStream {
    fill("::strandline::stored_words::< $type >", &[("type", &part.stored)])
}

const KEY: &str = "
    #[automatically_derived]
    impl $declarations ::strandline::layout::KeyFields for $self $where {
        fn check() { $checks }
    }
    #[automatically_derived]
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
    let fields = parts_of(input)?;
    let Bodies { layout, writes, reads } = bodies(input, &fields)?;
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
    let nothing = TokenStream::new();
    let code = fill(
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
            ("checks", &checks(&fields, "::strandline::layout::is_key::< $type >();", &nothing)),
            ("descriptions", &descriptions(input, &fields, this, words)?),
        ],
    );
    Ok(fill(ANONYMOUS, &[("missing", &fill("MissingKey", &[])), ("code", &code)]))
}
