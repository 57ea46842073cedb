//! Layouts by what the pool says of types: the hashes that the program's own types have.

use super::Codec;
use crate::value::persist::Invalid;
use crate::value::shape::{Part, Shape, Target};
use strandline_core::structures::type_layout as layout;

/// The name that a type was given, without the number that tells it from others of the same name.
fn own_name(name: &str) -> &str {
    name.split_once('#').map_or(name, |(own, _)| own)
}

impl Codec<'_> {
    /// The hash of the layout of values of this description, or of keys: what the program's own types have.
    ///
    /// # Errors
    /// [`Invalid`]: the description contradicts itself.
    pub fn layout(&self, is_key: bool) -> Result<u64, Invalid> {
        self.layout_of(&self.shape, is_key)
    }

    fn layout_of(&self, shape: &Shape, is_key: bool) -> Result<u64, Invalid> {
        let simple = |name: &str| layout::begin(name, 0);
        let around = |name: &str, count: u32, inside: &Shape| {
            Ok(layout::field(layout::begin(name, count), "", self.layout_of(inside, is_key)?))
        };
        Ok(match shape {
            Shape::Unit
            | Shape::Bool
            | Shape::Char
            | Shape::Size(_)
            | Shape::Unsigned(_)
            | Shape::Signed(_)
            | Shape::Float(_)
            | Shape::Duration
            | Shape::String => simple(self.name_of(shape, is_key)),
            Shape::Handle(name) => {
                use Target::*;
                let of = |name: &str, parts: &[(&Part, bool)]| {
                    parts.iter().try_fold(layout::begin(name, 0), |hash, &(part, is_key)| {
                        Ok(layout::field(hash, self.name_of(&part.shape, is_key), 0))
                    })
                };
                match &Target::of(name).ok_or(Invalid)? {
                    Ptr(part) => of("Ptr", &[(part, false)])?,
                    OrderedMap(key, value) => of("OrderedMap", &[(key, true), (value, false)])?,
                    HashMap(key, value) => of("HashMap", &[(key, true), (value, false)])?,
                    Vector(part) => of("Vector", &[(part, false)])?,
                    Queue(part) => of("Queue", &[(part, false)])?,
                    Text => simple("Text"),
                    Bytes => simple("Bytes"),
                }
            }
            Shape::Vec(_) if is_key => simple(self.name_of(shape, is_key)),
            Shape::Vec(element) => around("Vec", 0, element)?,
            Shape::Option(inside) => around("Option", 0, inside)?,
            Shape::Array(element, count) => around("array", *count as u32, element)?,
            Shape::Tuple(parts) => parts.iter().try_fold(layout::begin("tuple", 0), |hash, part| {
                Ok(layout::field(hash, "", self.layout_of(part, is_key)?))
            })?,
            Shape::Named(name) => {
                let named = self.values.named(name)?;
                let own = own_name(name);
                if !named.is_enum && named.variants.len() != 1 {
                    return Err(Invalid);
                }
                let mut hash = layout::begin_derived(own, named.version);
                for variant in &named.variants {
                    if named.is_enum {
                        hash = layout::variant(hash, &variant.name);
                    }
                    for field in &variant.fields {
                        let inside = self.layout_of(&Self::shape_of(&field.type_name)?, is_key)?;
                        hash = layout::field(hash, &field.name, inside);
                    }
                }
                if hash == named.layout { hash } else { return Err(Invalid) }
            }
        })
    }

    /// The name that the program's own type of this form has: all that layouts have of what a pointer or a collection leads to.
    fn name_of<'s>(&self, shape: &'s Shape, is_key: bool) -> &'s str {
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
}
