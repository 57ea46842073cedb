//! `#[derive(Persist)]`.

use proc_macro::{Literal, TokenStream};

use crate::attributes::{Attributes, Change, attributes, change};
use crate::input::{Field, Input, Parameter, ParameterKind, Refused, Result, is, is_word, stream};
use crate::refuse::refuse_volatile;
use crate::template::{fill, fill_at, string, token};

/// Returns the brand of the pool: the type's own lifetime parameter, if it has one.
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

/// A field, with what the generated code needs to know about it.
pub struct Part<'f> {
    pub field: &'f Field,
    pub change: Change,
    /// The type that is stored.
    pub stored: TokenStream,
    /// The type as where clauses refer to it.
    condition: TokenStream,
}

impl<'f> Part<'f> {
    /// Returns an error if the field's type cannot be stored.
    fn new(input: &Input, field: &'f Field) -> Result<Self> {
        let change = change(&field.attributes, true)?;
        if change.with.is_none() && !change.is_skipped {
            refuse_volatile(&field.ty, &input.name.to_string())?;
        }
        let stored = change.stored(field.ty());
        let is_parameter = |parameter: &Parameter| stream(&parameter.name).to_string() == stored.to_string();
        // A condition on the parameter itself would be ambiguous beside the parameter's own bound, so the condition is on a tuple of it.
        let text = if input.parameters.iter().any(is_parameter) { "($type,)" } else { "$type" };
        let condition = fill(text, &[("type", &stored)]);
        Ok(Self { field, change, stored, condition })
    }
}

/// Returns the parts for the fields of each variant.
pub fn parts_of(input: &Input) -> Result<Vec<Vec<Part<'_>>>> {
    let mut parts = Vec::new();
    for variant in &input.variants {
        parts.push(variant.fields.iter().map(|field| Part::new(input, field)).collect::<Result<_>>()?);
    }
    Ok(parts)
}

impl Part<'_> {
    /// Returns the expression for what is stored. The field's variable is a reference.
    pub fn value(&self) -> TokenStream {
        let parts = [("variable", &self.field.variable)];
        match &self.change.with {
            Some(module) => fill("&$module::store($variable)", &[parts[0], ("module", module)]),
            None => self.field.variable.clone(),
        }
    }

    /// Returns the expression for the field's value; `stored` is the expression for what is stored.
    pub fn loaded(&self, stored: &TokenStream) -> TokenStream {
        match &self.change.with {
            Some(module) => fill(
                "$module::load($stored).map_err(|_| ::strandline::Invalid)?",
                &[("module", module), ("stored", stored)],
            ),
            None => stored.clone(),
        }
    }
}

/// Returns code that hashes the layout: the name and version of the type, and the names, order and layouts of its variants and fields.
fn layout(input: &Input, parts: &[Vec<Part<'_>>], brand: &TokenStream) -> TokenStream {
    let mut steps = TokenStream::new();
    for (variant, parts) in input.variants.iter().zip(parts) {
        if input.is_enum {
            let name = string(&variant.name.to_string());
            steps.extend(fill("hash = ::strandline::layout::variant(hash, $name);", &[("name", &name)]));
        }
        for part in parts.iter().filter(|part| !part.change.is_skipped) {
            let (name, this) = (string(&part.field.name), this(part, brand));
            steps.extend(fill(
                "hash = ::strandline::layout::field(hash, $name, $this::LAYOUT);",
                &[("name", &name), ("this", &this)],
            ));
        }
    }
    steps
}

/// Returns the type whose functions code calls for the field: the field's own, or a stand-in if it lacks the trait. `checks` reports that error once.
fn this(part: &Part<'_>, brand: &TokenStream) -> TokenStream {
    fill("< ::strandline::layout::Field< $brand, $type > >", &[("type", &part.stored), ("brand", brand)])
}

/// Returns one call per field that compiles only if the field's type implements the trait.
pub fn checks(parts: &[Vec<Part<'_>>], call: &str, brand: &TokenStream) -> TokenStream {
    let mut checks = TokenStream::new();
    for part in parts.iter().flatten().filter(|part| !part.change.is_skipped) {
        checks.extend(fill_at(part.field.span(), call, &[("type", &part.stored), ("brand", brand)]));
    }
    checks
}

/// The generated code for all variants, by the place where it goes.
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
    /// The conditions under which the type has a fixed size.
    fixed: TokenStream,
}

/// The generated code for the fields of one variant, by the place where it goes.
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
    /// Code that uses the variables, which some of the bodies would leave unused.
    unused: TokenStream,
}

fn field_bodies(parts: &[Part<'_>], brand: &TokenStream) -> FieldBodies {
    let mut bodies = FieldBodies::default();
    for part in parts {
        let (variable, this) = (&part.field.variable, this(part, brand));
        if part.change.is_skipped || part.change.with.is_some() {
            bodies.unused.extend(fill("let _ = &$variable;", &[("variable", variable)]));
        }
        if part.change.is_skipped {
            let standard = fill("::core::default::Default::default()", &[]);
            let default = part.change.default.as_ref().unwrap_or(&standard);
            let load = fill("let $variable = $default;", &[("variable", variable), ("default", default)]);
            bodies.load.extend(load.clone());
            bodies.packed_load.extend(load);
            continue;
        }
        let loaded = part.loaded(&fill("$this::load(from, stored)?", &[("this", &this)]));
        let unpacked = part.loaded(&fill("$this::load_packed(from)?", &[("this", &this)]));
        let parts = [
            ("variable", variable),
            ("value", &part.value()),
            ("this", &this),
            ("condition", &part.condition),
            ("brand", brand),
            ("loaded", &loaded),
            ("unpacked", &unpacked),
        ];
        bodies.size.extend(fill("$this::SIZE,", &parts));
        bodies.count.extend(fill("+ $this::words($value)", &parts));
        bodies.store.extend(fill("let rest = $this::store($value, rest);", &parts));
        bodies.load.extend(fill("let $variable = $loaded;", &parts));
        bodies.packed_size.extend(fill("$this::PACKED,", &parts));
        bodies.packed_store.extend(fill("let rest = $this::store_packed($value, rest);", &parts));
        bodies.packed_load.extend(fill("let $variable = $unpacked;", &parts));
        bodies.fixed.extend(fill("$condition: ::strandline::Fixed< $brand >,", &parts));
        if part.change.with.is_none() {
            bodies.visit.extend(fill("$this::visit($variable, checker)?;", &parts));
            bodies.owns.extend(fill("|| $this::OWNS", &parts));
            bodies.collections.extend(fill("$this::collections($variable, found);", &parts));
            bodies.destroy.extend(fill("$this::destroy_collections($variable, tx, kept)?;", &parts));
        }
    }
    bodies
}

fn bodies(input: &Input, parts: &[Vec<Part<'_>>], brand: &TokenStream) -> Bodies {
    let mut bodies = Bodies::default();
    let variants = token(Literal::usize_suffixed(input.variants.len()));
    for (number, (variant, parts)) in input.variants.iter().zip(parts).enumerate() {
        let fields = field_bodies(parts, brand);
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
            ("unused", &fields.unused),
        ];
        bodies.collections.extend(fill("$pattern => { $unused $collections }", &parts));
        bodies.destroys.extend(fill("$pattern => { $unused $destroy }", &parts));
        bodies.visits.extend(fill("$pattern => { $unused $visit }", &parts));
        bodies.counts.extend(fill("$pattern => { $unused 0 $count }", &parts));
        if input.is_enum {
            bodies.sizes.extend(fill("::strandline::layout::sum(&[$size]),", &parts));
            bodies.stores.extend(fill("$pattern => { $unused first[0] = $number; $store rest }", &parts));
            bodies.loads.extend(fill("$number => { $load $pattern }", &parts));
            bodies.packed_sizes.extend(fill("::strandline::layout::sum(&[$packed_size]),", &parts));
            bodies.packed_stores.extend(fill(PACKED_VARIANT, &parts));
            bodies.packed_loads.extend(fill("$number => { $packed_load Ok($pattern) }", &parts));
        } else {
            bodies.sizes.extend(fill("$size", &parts));
            bodies.stores.extend(fill("$pattern => { $unused $store rest }", &parts));
            bodies.loads.extend(fill("{ $load Ok($pattern) }", &parts));
            bodies.packed_sizes.extend(fill("$packed_size", &parts));
            bodies.packed_stores.extend(fill("$pattern => { $unused $packed_store rest }", &parts));
            bodies.packed_loads.extend(fill("{ $packed_load Ok($pattern) }", &parts));
        }
        bodies.owns.extend(fields.owns);
        bodies.fixed.extend(fields.fixed);
    }
    bodies
}

/// Returns an implementation of `Root`. The type must be the same under each brand, and have a fixed size.
fn root(
    input: &Input,
    stored: &[Vec<Part<'_>>],
    own_brand: Option<&TokenStream>,
    brand: &TokenStream,
) -> TokenStream {
    if input.parameters.iter().any(|parameter| parameter.kind != ParameterKind::Lifetime) {
        return TokenStream::new();
    }
    let mut fixed = TokenStream::new();
    for part in stored.iter().flatten().filter(|part| !part.change.is_skipped) {
        let parts = [("type", &part.stored), ("brand", brand)];
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

/// Returns the trait that fields must implement.
fn trait_of(brand: &TokenStream) -> TokenStream {
    fill("::strandline::Persist< $brand >", &[("brand", brand)])
}

/// Returns an expression for an option: the words of a field in versions that did not have it.
fn default_of(part: &Part<'_>, words: &TokenStream) -> TokenStream {
    let Some(default) = &part.change.default else { return fill("::core::option::Option::None", &[]) };
    // `default` is a value of the field, which `with` still has to convert to what is stored.
    let value = match &part.change.with {
        Some(module) => fill("$module::store(&$default)", &[("module", module), ("default", default)]),
        None => default.clone(),
    };
    fill_at(
        part.field.span(),
        "::core::option::Option::Some($words(&$value))",
        &[("words", words), ("value", &value)],
    )
}

/// Returns code that describes the variants. `this` returns the type whose functions code calls for a field, `words` the function that makes a
/// default's words.
pub fn descriptions(
    input: &Input,
    parts: &[Vec<Part<'_>>],
    this: impl Fn(&Part<'_>) -> TokenStream,
    words: impl Fn(&Part<'_>) -> TokenStream,
) -> Result<TokenStream> {
    let mut descriptions = TokenStream::new();
    for (variant, parts) in input.variants.iter().zip(parts) {
        let mut fields = TokenStream::new();
        for part in parts.iter().filter(|part| !part.change.is_skipped) {
            let this = this(part);
            let parts = [
                ("name", &string(&part.field.name)),
                ("this", &this),
                ("was", &part.change.was),
                ("default", &default_of(part, &words(part))),
            ];
            fields.extend(fill(
                "::strandline::FieldDescription {
                    name: $name.into(),
                    type_name: $this::describe(types),
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

/// Returns the where clause that demands the type's own conditions and a fixed size of each field.
fn fixed_where(own: &TokenStream, fixed: &TokenStream) -> TokenStream {
    let parts = [("own", own), ("fixed", fixed)];
    match (own.is_empty(), own.clone().into_iter().last()) {
        (true, _) if fixed.is_empty() => TokenStream::new(),
        (true, _) => fill("where $fixed", &parts),
        (false, Some(last)) if is(&last, ',') || is_word(&last, "where") => fill("$own $fixed", &parts),
        (false, _) => fill("$own, $fixed", &parts),
    }
}

/// Code that stores a packed variant of an enum.
const PACKED_VARIANT: &str = "$pattern => {
    $unused
    let (rest, behind) = ::strandline::layout::begin_packed(into, Self::PACKED, $variants, $number);
    $packed_store
    rest.fill(0);
    behind
}";

/// Code for a struct: its size, its number of words, storing and loading; then its packed size, packed storing and packed loading.
const STRUCT_CODING: [&str; 7] = [
    "::strandline::layout::sum(&[$sizes])",
    "match self { $counts }",
    "let rest = into; match self { $stores }",
    "$loads",
    "::strandline::layout::sum(&[$packed_sizes])",
    "let rest = into; match self { $packed_stores }",
    "$packed_loads",
];

/// Code for an enum, in the order of [`STRUCT_CODING`]. Its first word is the number of the variant.
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

/// Returns the code of [`STRUCT_CODING`] or [`ENUM_CODING`] for the type.
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

const PERSIST: &str = "
    #[automatically_derived]
    impl $declarations ::strandline::layout::PersistFields< $brand > for $self $where {
        fn check() { $checks }
    }
    // SAFETY: each field stores and loads its own words, and their layouts, with the type's name and version, are its own.
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

/// Imports the trait `$missing`, whose functions stand in for those of types that lack the derived trait.
pub const ANONYMOUS: &str = "const _: () = { use ::strandline::layout::$missing as _; $code };";

const FIXED: &str = "// SAFETY: all its fields are of a fixed size.
    #[automatically_derived]
    #[allow(private_bounds, private_interfaces)]
    unsafe impl $declarations ::strandline::Fixed< $brand > for $self $fixed {}";

pub fn expand(input: &Input) -> Result<TokenStream> {
    let Attributes { name, version } = attributes(input)?;
    let own_brand = brand(input)?;
    let new_brand = fill("'strandline_pool", &[]);
    let brand = own_brand.as_ref().unwrap_or(&new_brand);
    input.parameters.iter().try_for_each(Parameter::check_bounds)?;
    let fields = parts_of(input)?;
    let nothing = TokenStream::new();
    let first = if own_brand.is_some() { &nothing } else { &new_brand };
    let bound = trait_of(brand);
    let bodies = bodies(input, &fields, brand);
    let [size, count, store, load, packed, store_packed, load_packed] = coding(input, &bodies, brand);
    let words = |part: &Part<'_>| fill("$this::stored_words", &[("this", &this(part, brand))]);
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
        ("layout", &layout(input, &fields, brand)),
        ("store", &store),
        ("load", &load),
        ("packed", &packed),
        ("store_packed", &store_packed),
        ("load_packed", &load_packed),
        ("visits", &bodies.visits),
        ("owns", &bodies.owns),
        ("collections", &bodies.collections),
        ("destroys", &bodies.destroys),
        ("checks", &checks(&fields, "::strandline::layout::is_persist::< $brand, $type >();", brand)),
        ("is_enum", &fill(if input.is_enum { "true" } else { "false" }, &[])),
        ("descriptions", &descriptions(input, &fields, |part| this(part, brand), words)?),
    ];
    let mut code = fill(PERSIST, &parts);
    code.extend(fill(FIXED, &parts));
    code.extend(root(input, &fields, own_brand.as_ref(), brand));
    Ok(fill(ANONYMOUS, &[("missing", &fill("Missing", &[])), ("code", &code)]))
}
