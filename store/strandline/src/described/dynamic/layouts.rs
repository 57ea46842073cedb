//! Layouts by what the pool says of types: the hashes that the program's own types have.

use super::Codec;
use crate::value::form::{Form, Kind, Named};
use crate::value::persist::Invalid;
use crate::value::schema::TypeDescription;
use crate::value::shape::{Part, Shape, Target};
use strandline_core::structures::type_layout as layout;

/// The name that a type was given, without the number that tells it from others of the same name.
fn own_name(name: &str) -> &str {
    name.split_once('#').map_or(name, |(own, _)| own)
}

impl Codec {
    /// The hash of the layout of values of this description, or of keys: what the program's own types have.
    ///
    /// # Errors
    /// [`Invalid`]: the description contradicts itself.
    pub fn layout(&self, is_key: bool) -> Result<u64, Invalid> {
        layout_of(&self.form, is_key)
    }
}

fn layout_of(form: &Form, is_key: bool) -> Result<u64, Invalid> {
    let around = |name: &str, count: u32, inside: &Form| {
        Ok(layout::field(layout::begin(name, count), "", layout_of(inside, is_key)?))
    };
    match &form.kind {
        Kind::Plain(Shape::Handle(name)) => layout_of_handle(name),
        Kind::Plain(Shape::Vec(element)) if !is_key => {
            let inside = layout::begin(name_of(element, is_key), 0);
            Ok(layout::field(layout::begin("Vec", 0), "", inside))
        }
        Kind::Plain(shape) => Ok(layout::begin(name_of(shape, is_key), 0)),
        Kind::Vec(_) if is_key => Ok(layout::begin("Vec<u8>", 0)),
        Kind::Vec(element) => around("Vec", 0, element),
        Kind::Option(inside) => around("Option", 0, inside),
        Kind::Array(element, count) => around("array", *count as u32, element),
        Kind::Tuple(parts) => parts.iter().try_fold(layout::begin("tuple", 0), |hash, part| {
            Ok(layout::field(hash, "", layout_of(part, is_key)?))
        }),
        Kind::Named(named) => layout_of_named(named, is_key),
    }
}

fn layout_of_named(named: &Named, is_key: bool) -> Result<u64, Invalid> {
    let TypeDescription { name, version, layout: described, is_enum, variants } = &named.description;
    if !is_enum && variants.len() != 1 {
        return Err(Invalid);
    }
    let mut hash = layout::begin_derived(own_name(name), *version);
    for (variant, forms) in variants.iter().zip(&named.variants) {
        if *is_enum {
            hash = layout::variant(hash, &variant.name);
        }
        for (field, form) in variant.fields.iter().zip(forms) {
            hash = layout::field(hash, &field.name, layout_of(form, is_key)?);
        }
    }
    if hash == *described { Ok(hash) } else { Err(Invalid) }
}

fn layout_of_handle(name: &str) -> Result<u64, Invalid> {
    use Target::*;
    let of = |name: &str, parts: &[(&Part, bool)]| {
        parts.iter().fold(layout::begin(name, 0), |hash, &(part, is_key)| {
            layout::field(hash, name_of(&part.shape, is_key), 0)
        })
    };
    Ok(match &Target::of(name).ok_or(Invalid)? {
        Ptr(part) => of("Ptr", &[(part, false)]),
        OrderedMap(key, value) => of("OrderedMap", &[(key, true), (value, false)]),
        HashMap(key, value) => of("HashMap", &[(key, true), (value, false)]),
        Vector(part) => of("Vector", &[(part, false)]),
        Queue(part) => of("Queue", &[(part, false)]),
        Text => of("Text", &[]),
        Bytes => of("Bytes", &[]),
    })
}

/// The name that the program's own type of this form has: all that layouts have of what a pointer or a collection leads to.
fn name_of(shape: &Shape, is_key: bool) -> &str {
    match shape {
        Shape::Unit => "()",
        Shape::Bool => "bool",
        Shape::Char => "char",
        Shape::Size(true) => "isize",
        Shape::Size(false) => "usize",
        Shape::Unsigned(8) => "u8",
        Shape::Unsigned(16) => "u16",
        Shape::Unsigned(32) => "u32",
        Shape::Unsigned(64) => "u64",
        Shape::Unsigned(_) => "u128",
        Shape::Signed(8) => "i8",
        Shape::Signed(16) => "i16",
        Shape::Signed(32) => "i32",
        Shape::Signed(64) => "i64",
        Shape::Signed(_) => "i128",
        Shape::Float(32) => "f32",
        Shape::Float(_) => "f64",
        Shape::Duration => "Duration",
        Shape::String => "String",
        Shape::Vec(_) if is_key => "Vec<u8>",
        Shape::Vec(_) => "Vec",
        Shape::Option(_) => "Option",
        Shape::Array(..) => "array",
        Shape::Tuple(_) => "tuple",
        Shape::Named(name) => own_name(name),
        Shape::Handle(name) => name.split_once('<').map_or(name, |(own, _)| own),
    }
}
