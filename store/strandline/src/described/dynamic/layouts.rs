//! Layouts of described types: the same hashes that the program's own types have.

use super::Codec;
use crate::value::form::{Form, Kind, Named};
use crate::value::persist::Invalid;
use crate::value::schema::TypeDescription;
use crate::value::shape::{Part, Shape, Target, own_name};
use strandline_core::structures::type_layout as layout;

impl Codec {
    /// Returns the hash of the layout of values, or keys, of this type. The program's own type has the same hash.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the description contradicts itself.
    pub fn layout(&self, is_key: bool) -> Result<u64, Invalid> {
        layout_of(&self.form, is_key)
    }
}

fn layout_of(form: &Form, is_key: bool) -> Result<u64, Invalid> {
    let around = |name: &str, count: u32, inside: &Form| {
        Ok(layout::field(layout::begin(name, count), "", layout_of(inside, is_key)?))
    };
    match &form.kind {
        Kind::Plain(shape @ Shape::Handle(name)) => layout_of_handle(shape, name),
        Kind::Plain(shape) => Ok(layout::begin(name_of(shape, is_key), 0)),
        Kind::Vec(_) if is_key => Ok(layout::begin("Vec<u8>", 0)),
        Kind::Vec(list) => {
            let is_packed = list.packed.is_some() && !list.is_of_numbers();
            around(if is_packed { layout::PACKED_VEC } else { "Vec" }, 0, &list.element)
        }
        Kind::Option(inside) => around("Option", 0, inside),
        Kind::As(name, inside) => around(name, 0, inside),
        Kind::Array(list, count) => {
            let is_packed = list.packed.is_some() && !is_key;
            around(if is_packed { layout::PACKED_ARRAY } else { "array" }, *count as u32, &list.element)
        }
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

/// Returns the layout of a pointer or a collection, which includes only the names of the types that it refers to.
fn layout_of_handle(shape: &Shape, type_name: &str) -> Result<u64, Invalid> {
    let begin = layout::begin(shape.name(), 0);
    let to = |hash, part: &Part, is_key| layout::field(hash, name_of(&part.shape, is_key), 0);
    Ok(match &Target::of(type_name).ok_or(Invalid)? {
        Target::Ptr(part) | Target::Vector(part) | Target::Queue(part) => to(begin, part, false),
        Target::OrderedMap(key, value) | Target::HashMap(key, value) => {
            to(to(begin, key, true), value, false)
        }
        Target::Text | Target::Bytes => begin,
    })
}

fn name_of(shape: &Shape, is_key: bool) -> &str {
    if is_key && matches!(shape, Shape::Vec(_)) { "Vec<u8>" } else { shape.name() }
}
