//! `#[derive(Persist)]`.

use proc_macro::{Literal, TokenStream, TokenTree};

use crate::input::{Field, Input, ParameterKind, Refused, Result, Variant, is, is_word, split, stream};
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
                    if text.contains(['#', ',', '<', '>', '(', ')', '[', ']', ';']) && !text.starts_with("r#")
                    {
                        return Err(Refused::new(
                            &meta[2..],
                            "a name has no brackets, commas, semicolons or `#`",
                        ));
                    }
                    attributes.name = token(literal.clone());
                }
                _ => return Err(Refused::new(&meta, "expected `version = 2` or `name = \"…\"`")),
            }
        }
    }
    Ok(attributes)
}

/// What `#[persist(…)]` of a field or variant says.
struct Change {
    /// A string literal: its name in earlier versions.
    was: TokenStream,
    /// An expression: the value where an earlier version has none.
    default: Option<TokenStream>,
}

fn change(attributes: &[TokenStream], is_field: bool) -> Result<Change> {
    let none = || fill("::core::option::Option::None", &[]);
    let mut change = Change { was: none(), default: None };
    for content in attributes {
        for meta in split(content.clone().into_iter().collect(), ',') {
            match meta.as_slice() {
                [] => {}
                [name, sign, TokenTree::Literal(literal)] if is(sign, '=') && is_word(name, "was") => {
                    let was = token(literal.clone());
                    change.was = fill("::core::option::Option::Some($was.into())", &[("was", &was)]);
                }
                [name] if is_field && is_word(name, "default") => {
                    change.default = Some(fill("::core::default::Default::default()", &[]));
                }
                [name, sign, value @ ..] if is_field && is(sign, '=') && is_word(name, "default") => {
                    change.default = Some(stream(value));
                }
                _ => {
                    let expected = if is_field {
                        "expected `was = \"…\"`, `default` or `default = …`"
                    } else {
                        "expected `was = \"…\"`"
                    };
                    return Err(Refused::new(&meta, expected));
                }
            }
        }
    }
    Ok(change)
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
            steps.extend(fill("hash = ::strandline::layout::variant(hash, $name);", &[("name", &name)]));
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
    counts: TokenStream,
    stores: TokenStream,
    loads: TokenStream,
    visits: TokenStream,
    owns: TokenStream,
    collections: TokenStream,
    destroys: TokenStream,
    packed_sizes: TokenStream,
    packed_stores: TokenStream,
    packed_loads: TokenStream,
    /// What makes the type one of a fixed size.
    fixed: TokenStream,
}

/// What is written of the fields of one variant, one after another.
#[derive(Default)]
struct FieldBodies {
    size: TokenStream,
    count: TokenStream,
    store: TokenStream,
    load: TokenStream,
    visit: TokenStream,
    owns: TokenStream,
    collections: TokenStream,
    destroy: TokenStream,
    packed_size: TokenStream,
    packed_store: TokenStream,
    packed_load: TokenStream,
    fixed: TokenStream,
}

fn field_bodies(variant: &Variant, brand: &TokenStream) -> FieldBodies {
    let mut bodies = FieldBodies::default();
    for field in &variant.fields {
        let parts = [
            ("variable", &field.variable),
            ("this", &this(field, brand)),
            ("type", &field.ty()),
            ("brand", brand),
        ];
        bodies.size.extend(fill_at(field.span(), "$this::SIZE,", &parts));
        bodies.count.extend(fill("+ $this::words($variable)", &parts));
        bodies.store.extend(fill("let rest = $this::store($variable, rest);", &parts));
        bodies.load.extend(fill("let $variable = $this::load(from, stored)?;", &parts));
        bodies.visit.extend(fill("$this::visit($variable, checker)?;", &parts));
        bodies.owns.extend(fill("|| $this::OWNS", &parts));
        bodies.collections.extend(fill("$this::collections($variable, found);", &parts));
        bodies.destroy.extend(fill("$this::destroy_collections($variable, tx, kept)?;", &parts));
        bodies.packed_size.extend(fill("$this::PACKED,", &parts));
        bodies.packed_store.extend(fill("let rest = $this::store_packed($variable, rest);", &parts));
        bodies.packed_load.extend(fill("let $variable = $this::load_packed(from)?;", &parts));
        bodies.fixed.extend(fill("$type: ::strandline::Fixed< $brand >,", &parts));
    }
    bodies
}

fn bodies(input: &Input, brand: &TokenStream) -> Bodies {
    let mut bodies = Bodies::default();
    let variants = token(Literal::usize_suffixed(input.variants.len()));
    for (number, variant) in input.variants.iter().enumerate() {
        let fields = field_bodies(variant, brand);
        let number = token(Literal::u64_suffixed(number as u64));
        let parts = [
            ("number", &number),
            ("pattern", &variant.pattern()),
            ("size", &fields.size),
            ("count", &fields.count),
            ("store", &fields.store),
            ("load", &fields.load),
            ("visit", &fields.visit),
            ("collections", &fields.collections),
            ("destroy", &fields.destroy),
            ("packed_size", &fields.packed_size),
            ("packed_store", &fields.packed_store),
            ("packed_load", &fields.packed_load),
            ("variants", &variants),
        ];
        bodies.collections.extend(fill("$pattern => { $collections }", &parts));
        bodies.destroys.extend(fill("$pattern => { $destroy }", &parts));
        bodies.visits.extend(fill("$pattern => { $visit }", &parts));
        bodies.counts.extend(fill("$pattern => 0 $count,", &parts));
        if input.is_enum {
            bodies.sizes.extend(fill("::strandline::layout::sum(&[$size]),", &parts));
            bodies.stores.extend(fill("$pattern => { first[0] = $number; $store rest }", &parts));
            bodies.loads.extend(fill("$number => { $load $pattern }", &parts));
            bodies.packed_sizes.extend(fill("::strandline::layout::sum(&[$packed_size]),", &parts));
            bodies.packed_stores.extend(fill(PACKED_VARIANT, &parts));
            bodies.packed_loads.extend(fill("$number => { $packed_load Ok($pattern) }", &parts));
        } else {
            bodies.sizes.extend(fill("$size", &parts));
            bodies.stores.extend(fill("$pattern => { $store rest }", &parts));
            bodies.loads.extend(fill("{ $load Ok($pattern) }", &parts));
            bodies.packed_sizes.extend(fill("$packed_size", &parts));
            bodies.packed_stores.extend(fill("$pattern => { $packed_store rest }", &parts));
            bodies.packed_loads.extend(fill("{ $packed_load Ok($pattern) }", &parts));
        }
        bodies.owns.extend(fields.owns);
        bodies.fixed.extend(fields.fixed);
    }
    bodies
}

/// A root is of the same type under any brand, and of one size.
fn root(input: &Input, own_brand: Option<&TokenStream>, brand: &TokenStream) -> TokenStream {
    if input.parameters.iter().any(|parameter| parameter.kind != ParameterKind::Lifetime) {
        return TokenStream::new();
    }
    let mut fixed = TokenStream::new();
    for field in input.variants.iter().flat_map(|variant| &variant.fields) {
        let parts = [("type", &field.ty()), ("brand", brand)];
        fixed.extend(fill("for< $brand > $type: ::strandline::Fixed< $brand >,", &parts));
    }
    let conditions = fixed_where(&input.where_clause, &fixed);
    let parts = [("name", &token(input.name.clone())), ("where", &conditions)];
    let text = match own_brand {
        Some(_) => {
            "#[automatically_derived]
            #[allow(private_bounds, private_interfaces)]
            impl ::strandline::Root for $name<'_> $where {
                type At<'strandline_brand> = $name<'strandline_brand>;
            }"
        }
        None => {
            "#[automatically_derived]
            #[allow(private_bounds, private_interfaces)]
            impl ::strandline::Root for $name $where {
                type At<'strandline_brand> = $name;
            }"
        }
    };
    fill(text, &parts)
}

/// The trait that fields implement.
fn trait_of(brand: &TokenStream) -> TokenStream {
    fill("::strandline::Persist< $brand >", &[("brand", brand)])
}

/// What is said of the variants, whose fields are all `implemented`.
pub fn descriptions(input: &Input, implemented: &TokenStream) -> Result<TokenStream> {
    let mut descriptions = TokenStream::new();
    for variant in &input.variants {
        let mut fields = TokenStream::new();
        for field in &variant.fields {
            let Change { was, default } = change(&field.attributes, true)?;
            let parts = [("type", &field.ty()), ("default", &default.clone().unwrap_or_default())];
            let default = match default {
                Some(_) => fill_at(
                    field.span(),
                    "::core::option::Option::Some(::strandline::stored_words::<$type>(&$default))",
                    &parts,
                ),
                None => fill("::core::option::Option::None", &[]),
            };
            let parts = [
                ("name", &string(&field.name)),
                ("type", &field.ty()),
                ("implemented", implemented),
                ("was", &was),
                ("default", &default),
            ];
            fields.extend(fill(
                "::strandline::FieldDescription {
                    name: $name.into(),
                    type_name: < $type as $implemented >::describe(types),
                    was: $was,
                    default: $default,
                },",
                &parts,
            ));
        }
        let was = change(&variant.attributes, false)?.was;
        let parts = [("name", &string(&variant.name.to_string())), ("was", &was), ("fields", &fields)];
        descriptions.extend(fill(
            "::strandline::VariantDescription { name: $name.into(), was: $was, fields: ::std::vec![$fields] },",
            &parts,
        ));
    }
    Ok(descriptions)
}

/// The type's own conditions, and that all its fields are of a fixed size.
fn fixed_where(own: &TokenStream, fixed: &TokenStream) -> TokenStream {
    let parts = [("own", own), ("fixed", fixed)];
    match (own.is_empty(), own.clone().into_iter().last()) {
        (true, _) if fixed.is_empty() => TokenStream::new(),
        (true, _) => fill("where $fixed", &parts),
        (false, Some(last)) if is(&last, ',') || is_word(&last, "where") => fill("$own $fixed", &parts),
        (false, _) => fill("$own, $fixed", &parts),
    }
}

/// Stores a packed variant of an enum.
const PACKED_VARIANT: &str = "$pattern => {
    let (rest, behind) = ::strandline::layout::begin_packed(into, Self::PACKED, $variants, $number);
    $packed_store
    rest.fill(0);
    behind
}";

/// Size, number of words, storing and loading of a struct; then its size, storing and loading where it is packed.
const STRUCT_CODING: [&str; 7] = [
    "::strandline::layout::sum(&[$sizes])",
    "match self { $counts }",
    "let rest = into; match self { $stores }",
    "$loads",
    "::strandline::layout::sum(&[$packed_sizes])",
    "let rest = into; match self { $packed_stores }",
    "$packed_loads",
];

/// As [`STRUCT_CODING`] of an enum, whose first word is the number of the variant.
const ENUM_CODING: [&str; 7] = [
    "::strandline::layout::largest(&[$sizes])",
    "1 + match self { $counts }",
    "let (own, behind) = ::strandline::layout::split(into, Self::SIZE);
    let (first, rest) = own.split_at_mut(1);
    let rest = match self { $stores };
    if Self::SIZE.is_none() { return rest; }
    rest.fill(0);
    behind",
    "let mut own = ::strandline::layout::take(from, Self::SIZE).ok_or(::strandline::Invalid)?;
    let value = {
        let from = &mut own;
        match < u64 as ::strandline::Persist< $brand > >::load(from, stored)? {
            $loads
            _ => return Err(::strandline::Invalid),
        }
    };
    if Self::SIZE.is_none() { *from = own; }
    Ok(value)",
    "::strandline::layout::largest_packed(&[$packed_sizes])",
    "match self { $packed_stores }",
    "let (number, mut own) = ::strandline::layout::take_packed(from, Self::PACKED, $variants)
        .ok_or(::strandline::Invalid)?;
    let from = &mut own;
    match number {
        $packed_loads
        _ => Err(::strandline::Invalid),
    }",
];

/// What [`STRUCT_CODING`] says of the type.
fn coding(input: &Input, bodies: &Bodies, brand: &TokenStream) -> [TokenStream; 7] {
    let parts = [
        ("sizes", &bodies.sizes),
        ("counts", &bodies.counts),
        ("stores", &bodies.stores),
        ("loads", &bodies.loads),
        ("packed_sizes", &bodies.packed_sizes),
        ("packed_stores", &bodies.packed_stores),
        ("packed_loads", &bodies.packed_loads),
        ("variants", &token(Literal::usize_suffixed(input.variants.len()))),
        ("brand", brand),
    ];
    let templates = if input.is_enum { ENUM_CODING } else { STRUCT_CODING };
    templates.map(|text| fill(text, &parts))
}

const PERSIST: &str =
    "// SAFETY: each field stores and loads its own words, and their layouts, with the type's name and version, are its own.
    #[automatically_derived]
    unsafe impl $declarations ::strandline::Persist< $brand > for $self $where {
        const NAME: &'static str = $name;
        const VERSION: u32 = $version;
        const LAYOUT: u64 = {
            let mut hash = ::strandline::layout::begin_derived($name, $version);
            $layout
            hash
        };
        const SIZE: ::core::option::Option<usize> = $size;
        fn describe(types: &mut ::strandline::Types) -> ::std::string::String {
            types.note::<Self>(($name, $version, < Self as $bound >::LAYOUT), $is_enum, |types| {
                let _ = &types;
                ::std::vec![$descriptions]
            })
        }
        fn words(&self) -> usize {
            ::strandline::layout::words(Self::SIZE, || $count)
        }
        fn store<'strandline_words>(
            &self,
            into: &'strandline_words mut [u64],
        ) -> &'strandline_words mut [u64] {
            let into = ::strandline::layout::mark(into, Self::SIZE, < Self as $bound >::LAYOUT);
            $store
        }
        fn load(
            from: &mut &[u64],
            stored: ::strandline::Stored< $brand >,
        ) -> ::core::result::Result<Self, ::strandline::Invalid> {
            let _ = stored;
            ::strandline::layout::is_marked(from, Self::SIZE, < Self as $bound >::LAYOUT)
                .then_some(()).ok_or(::strandline::Invalid)?;
            $load
        }
        const PACKED: ::core::option::Option<usize> = $packed;
        fn store_packed<'strandline_bytes>(
            &self,
            into: &'strandline_bytes mut [u8],
        ) -> &'strandline_bytes mut [u8] {
            $store_packed
        }
        fn load_packed(from: &mut &[u8]) -> ::core::result::Result<Self, ::strandline::Invalid> {
            let _ = &from;
            $load_packed
        }
        fn visit(
            &self,
            checker: &mut ::strandline::Checker<'_, $brand >,
        ) -> ::strandline::Result<()> {
            let _ = &checker;
            match self { $visits }
            ::core::result::Result::Ok(())
        }
        const OWNS: bool = false $owns;
        fn collections(&self, found: &mut ::std::vec::Vec< ::strandline::layout::PersistentAddress >) {
            let _ = &found;
            match self { $collections }
        }
        fn destroy_collections(
            &self,
            tx: &::strandline::Tx< $brand, impl ::strandline::Control >,
            kept: &mut ::std::vec::Vec< ::strandline::layout::PersistentAddress >,
        ) -> ::strandline::Result<()> {
            let _ = (tx, &kept);
            match self { $destroys }
            ::core::result::Result::Ok(())
        }
    }";

const FIXED: &str = "// SAFETY: all its fields are of a fixed size.
    #[automatically_derived]
    #[allow(private_bounds, private_interfaces)]
    unsafe impl $declarations ::strandline::Fixed< $brand > for $self $fixed {}";

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
    let bound = trait_of(brand);
    let bodies = bodies(input, brand);
    let [size, count, store, load, packed, store_packed, load_packed] = coding(input, &bodies, brand);
    let parts = [
        ("declarations", &input.declarations(first, &bound)),
        ("brand", brand),
        ("bound", &bound),
        ("self", &input.self_type()),
        ("where", &input.where_clause),
        ("fixed", &fixed_where(&input.where_clause, &bodies.fixed)),
        ("size", &size),
        ("count", &count),
        ("name", &name),
        ("version", &token(Literal::u32_suffixed(version))),
        ("layout", &layout(input, brand)),
        ("store", &store),
        ("load", &load),
        ("packed", &packed),
        ("store_packed", &store_packed),
        ("load_packed", &load_packed),
        ("visits", &bodies.visits),
        ("owns", &bodies.owns),
        ("collections", &bodies.collections),
        ("destroys", &bodies.destroys),
        ("is_enum", &fill(if input.is_enum { "true" } else { "false" }, &[])),
        ("descriptions", &descriptions(input, &bound)?),
    ];
    let mut code = fill(PERSIST, &parts);
    code.extend(fill(FIXED, &parts));
    code.extend(root(input, own_brand.as_ref(), brand));
    Ok(code)
}
