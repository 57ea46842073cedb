//! `#[derive(Persist)]`.

use proc_macro::{Literal, TokenStream, TokenTree};

use crate::input::{Field, Input, ParameterKind, Refused, Result, is, is_word, split, stream};
use crate::refuse::refuse_volatile;
use crate::template::{fill, fill_at, string, token};

/// What `#[persist(…)]` says.
struct Attributes {
    /// A string literal.
    name: TokenStream,
    version: u32,
}

fn attributes(input: &Input) -> Result<Attributes> {
    let mut attributes = Attributes { name: string(&input.name.to_string()), version: 1 };
    for content in &input.attributes {
        for meta in split(content.clone().into_iter().collect(), ',') {
            match meta.as_slice() {
                [] => {}
                [name, sign, TokenTree::Literal(literal)] if is(sign, '=') && is_word(name, "version") => {
                    let text = literal.to_string().replace('_', "");
                    let digits = text.strip_suffix("u32").unwrap_or(&text);
                    attributes.version = digits.parse().map_err(|_| {
                        Refused::new(&meta[2..], "expected a version: an integer of at most 32 bits")
                    })?;
                }
                [name, sign, TokenTree::Literal(literal)] if is(sign, '=') && is_word(name, "name") => {
                    let text = literal.to_string();
                    if !text.starts_with('"') && !text.starts_with("r\"") && !text.starts_with("r#") {
                        return Err(Refused::new(&meta[2..], "expected a name: a string"));
                    }
                    attributes.name = token(literal.clone());
                }
                _ => return Err(Refused::new(&meta, "expected `version = 2` or `name = \"…\"`")),
            }
        }
    }
    Ok(attributes)
}

/// The brand: the type's own lifetime parameter, if it has one.
fn brand(input: &Input) -> Result<Option<TokenStream>> {
    let mut lifetimes = input.lifetimes();
    let first = lifetimes.next().map(|parameter| stream(&parameter.name));
    match lifetimes.next() {
        Some(second) => Err(Refused::new(
            &second.name,
            "a type in a pool has at most one lifetime parameter, the brand of its pool: use it for all fields",
        )),
        None => Ok(first),
    }
}

/// A hash of the layout: name and version of the type; names, order and layouts of variants and fields.
fn layout(input: &Input, brand: &TokenStream) -> TokenStream {
    let mut steps = TokenStream::new();
    for variant in &input.variants {
        if input.is_enum {
            let name = string(&variant.name.to_string());
            steps.extend(fill("hash = ::strandline::layout::field(hash, $name, 0);", &[("name", &name)]));
        }
        for field in &variant.fields {
            let (name, this) = (string(&field.name), this(field, brand));
            steps.extend(fill_at(
                field.span(),
                "hash = ::strandline::layout::field(hash, $name, $this::LAYOUT);",
                &[("name", &name), ("this", &this)],
            ));
        }
    }
    steps
}

/// The field's type as what it implements.
fn this(field: &Field, brand: &TokenStream) -> TokenStream {
    let parts = [("type", &field.ty()), ("brand", brand)];
    fill_at(field.span(), "< $type as ::strandline::Persist< $brand > >", &parts)
}

/// What is written of the variants, one after another.
#[derive(Default)]
struct Bodies {
    sizes: TokenStream,
    stores: TokenStream,
    loads: TokenStream,
    visits: TokenStream,
}

fn bodies(input: &Input, brand: &TokenStream) -> Bodies {
    let mut bodies = Bodies::default();
    for (number, variant) in input.variants.iter().enumerate() {
        let (mut words, mut store) = (TokenStream::new(), TokenStream::new());
        let (mut load, mut visit) = (TokenStream::new(), TokenStream::new());
        for field in &variant.fields {
            let parts = [("variable", &field.variable), ("this", &this(field, brand))];
            words.extend(fill_at(field.span(), "+ $this::WORDS", &parts));
            store.extend(fill(
                "let (now, rest) = rest.split_at_mut($this::WORDS); $this::store($variable, now);",
                &parts,
            ));
            load.extend(fill(
                "let (now, rest) = rest.split_at($this::WORDS); let $variable = $this::load(now, stored)?;",
                &parts,
            ));
            visit.extend(fill("$this::visit($variable, checker)?;", &parts));
        }
        let number = token(Literal::u64_suffixed(number as u64));
        let parts = [
            ("number", &number),
            ("pattern", &variant.pattern()),
            ("words", &words),
            ("store", &store),
            ("load", &load),
            ("visit", &visit),
        ];
        bodies.visits.extend(fill("$pattern => { $visit }", &parts));
        if input.is_enum {
            bodies.sizes.extend(fill("0 $words,", &parts));
            bodies.stores.extend(fill("$pattern => { first[0] = $number; $store rest.fill(0); }", &parts));
            bodies.loads.extend(fill("$number => { $load let _ = rest; Ok($pattern) }", &parts));
        } else {
            bodies.sizes.extend(fill("0 $words", &parts));
            bodies.stores.extend(fill("$pattern => { $store let _ = rest; }", &parts));
            bodies.loads.extend(fill("{ $load let _ = rest; Ok($pattern) }", &parts));
        }
    }
    bodies
}

/// A root is of the same type under any brand.
fn root(input: &Input, own_brand: Option<&TokenStream>) -> TokenStream {
    if input.parameters.iter().any(|parameter| parameter.kind != ParameterKind::Lifetime) {
        return TokenStream::new();
    }
    let brand = own_brand.cloned().unwrap_or_default();
    let parts = [("name", &token(input.name.clone())), ("brand", &brand)];
    let text = match own_brand {
        Some(_) => {
            "#[automatically_derived]
            impl< $brand > ::strandline::Root for $name< $brand > {
                type At<'strandline_brand> = $name<'strandline_brand>;
            }"
        }
        None => {
            "#[automatically_derived]
            impl ::strandline::Root for $name {
                type At<'strandline_brand> = $name;
            }"
        }
    };
    fill(text, &parts)
}

pub fn expand(input: &Input) -> Result<TokenStream> {
    let Attributes { name, version } = attributes(input)?;
    let own_brand = brand(input)?;
    let new_brand = fill("'strandline_pool", &[]);
    let brand = own_brand.as_ref().unwrap_or(&new_brand);
    input
        .variants
        .iter()
        .flat_map(|variant| &variant.fields)
        .try_for_each(|field| refuse_volatile(&field.ty))?;

    let nothing = TokenStream::new();
    let first = if own_brand.is_some() { &nothing } else { &new_brand };
    let bound = fill("::strandline::Persist< $brand >", &[("brand", brand)]);
    let Bodies { sizes, stores, loads, visits } = bodies(input, brand);
    let parts = [("sizes", &sizes), ("stores", &stores), ("loads", &loads)];
    let [words, store, load] = if input.is_enum {
        [
            "1 + ::strandline::layout::largest(&[$sizes])",
            "let (first, rest) = into.split_at_mut(1);
            match self { $stores }",
            "let (first, rest) = from.split_at(1);
            match first[0] { $loads _ => Err(::strandline::Invalid) }",
        ]
    } else {
        ["$sizes", "let rest = into; match self { $stores }", "let rest = from; $loads"]
    }
    .map(|text| fill(text, &parts));

    let mut code = fill(
        "// SAFETY: each field stores and loads its own words, and their layouts, with the type's name and version, are its own.
        #[automatically_derived]
        unsafe impl $declarations ::strandline::Persist< $brand > for $self $where {
            const WORDS: usize = $words;
            const NAME: &'static str = $name;
            const VERSION: u32 = $version;
            const LAYOUT: u64 = {
                let mut hash = ::strandline::layout::begin($name, $version);
                $layout
                hash
            };
            fn store(&self, into: &mut [u64]) {
                $store
            }
            fn load(
                from: &[u64],
                stored: ::strandline::Stored< $brand >,
            ) -> ::core::result::Result<Self, ::strandline::Invalid> {
                let _ = stored;
                $load
            }
            fn visit(
                &self,
                checker: &mut ::strandline::Checker<'_, $brand >,
            ) -> ::strandline::Result<()> {
                let _ = &checker;
                match self { $visits }
                ::core::result::Result::Ok(())
            }
        }",
        &[
            ("declarations", &input.declarations(first, &bound)),
            ("brand", brand),
            ("self", &input.self_type()),
            ("where", &input.where_clause),
            ("words", &words),
            ("name", &name),
            ("version", &token(Literal::u32_suffixed(version))),
            ("layout", &layout(input, brand)),
            ("store", &store),
            ("load", &load),
            ("visits", &visits),
        ],
    );
    code.extend(root(input, own_brand.as_ref()));
    Ok(code)
}
