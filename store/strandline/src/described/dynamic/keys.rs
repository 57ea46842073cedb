//! Keys by what the pool says of their types.

use super::{Codec, Dynamic, fields_of, fits, fits_signed};
use crate::value::key::{Key, KeyBytes, KeyRef};
use crate::value::persist::Invalid;
use crate::value::shape::Shape;

impl Codec<'_> {
    /// The key of these bytes.
    ///
    /// # Errors
    /// [`Invalid`]: there is none.
    pub fn read_key(&self, mut from: &[u8]) -> Result<Dynamic, Invalid> {
        let key = self.read_key_of(&self.shape, &mut from)?;
        if from.is_empty() { Ok(key) } else { Err(Invalid) }
    }

    /// The bytes of a key.
    ///
    /// # Errors
    /// [`Invalid`]: it is none of the type.
    pub fn write_key(&self, key: &Dynamic) -> Result<KeyBytes, Invalid> {
        let mut bytes = KeyBytes::empty();
        self.write_key_of(&self.shape, key, &mut bytes)?;
        Ok(bytes)
    }

    fn read_key_of(&self, shape: &Shape, from: &mut &[u8]) -> Result<Dynamic, Invalid> {
        Ok(match shape {
            Shape::Unit => Dynamic::Unit,
            Shape::Bool => Dynamic::Bool(bool::read_key(from)?),
            Shape::Char => Dynamic::Char(char::read_key(from)?),
            Shape::Unsigned(8) => Dynamic::Unsigned(u8::read_key(from)?.into()),
            Shape::Unsigned(16) => Dynamic::Unsigned(u16::read_key(from)?.into()),
            Shape::Unsigned(32) => Dynamic::Unsigned(u32::read_key(from)?.into()),
            Shape::Unsigned(64) | Shape::Size(false) => Dynamic::Unsigned(u64::read_key(from)?.into()),
            Shape::Unsigned(_) => Dynamic::Unsigned(u128::read_key(from)?),
            Shape::Signed(8) => Dynamic::Signed(i8::read_key(from)?.into()),
            Shape::Signed(16) => Dynamic::Signed(i16::read_key(from)?.into()),
            Shape::Signed(32) => Dynamic::Signed(i32::read_key(from)?.into()),
            Shape::Signed(64) | Shape::Size(true) => Dynamic::Signed(i64::read_key(from)?.into()),
            Shape::Signed(_) => Dynamic::Signed(i128::read_key(from)?),
            Shape::String => Dynamic::Text(String::read_key(from)?),
            Shape::Vec(element) if **element == Shape::Unsigned(8) => Dynamic::Bytes(Vec::read_key(from)?),
            Shape::Option(inside) => Dynamic::Optional(if bool::read_key(from)? {
                Some(Box::new(self.read_key_of(inside, from)?))
            } else {
                None
            }),
            Shape::Array(element, count) => {
                Dynamic::List((0..*count).map(|_| self.read_key_of(element, from)).collect::<Result<_, _>>()?)
            }
            Shape::Tuple(parts) => Dynamic::List(
                parts.iter().map(|part| self.read_key_of(part, from)).collect::<Result<_, _>>()?,
            ),
            Shape::Named(name) => {
                let named = self.values.named(name)?;
                let number = if named.is_enum { u16::read_key(from)? } else { 0 };
                let variant = named.variants.get(usize::from(number)).ok_or(Invalid)?;
                let fields = variant.fields.iter().map(|field| {
                    Ok((field.name.clone(), self.read_key_of(&Self::shape_of(&field.type_name)?, from)?))
                });
                let fields = fields_of(fields.collect::<Result<_, Invalid>>()?);
                if named.is_enum { Dynamic::Variant(variant.name.clone(), Box::new(fields)) } else { fields }
            }
            Shape::Float(_) | Shape::Duration | Shape::Vec(_) | Shape::Handle(_) => return Err(Invalid),
        })
    }

    fn write_key_of(&self, shape: &Shape, key: &Dynamic, to: &mut KeyBytes) -> Result<(), Invalid> {
        match (shape, key) {
            (Shape::Unit, Dynamic::Unit) => {}
            (Shape::Bool, Dynamic::Bool(key)) => key.write_key(to),
            (Shape::Char, Dynamic::Char(key)) => key.write_key(to),
            (Shape::Size(false), key) => self.write_key_of(&Shape::Unsigned(64), key, to)?,
            (Shape::Size(true), key) => self.write_key_of(&Shape::Signed(64), key, to)?,
            (Shape::Unsigned(bits), Dynamic::Unsigned(key)) => {
                let bytes = fits(*key, *bits)?.to_be_bytes();
                to.push(&bytes[16 - *bits as usize / 8..]);
            }
            (Shape::Signed(bits), Dynamic::Signed(key)) => {
                // With the sign inverted, so that they are in order.
                let bytes = (fits_signed(*key, *bits)? ^ 1 << (bits - 1)).to_be_bytes();
                to.push(&bytes[16 - *bits as usize / 8..]);
            }
            (Shape::String, Dynamic::Text(key)) => key.write_key(to),
            (Shape::Vec(element), Dynamic::Bytes(key)) if **element == Shape::Unsigned(8) => {
                key.write_key(to)
            }
            (Shape::Option(inside), Dynamic::Optional(key)) => {
                key.is_some().write_key(to);
                if let Some(key) = key {
                    self.write_key_of(inside, key, to)?;
                }
            }
            (Shape::Array(element, count), Dynamic::List(list)) if list.len() == *count => {
                list.iter().try_for_each(|key| self.write_key_of(element, key, to))?;
            }
            (Shape::Tuple(parts), Dynamic::List(list)) if list.len() == parts.len() => {
                parts.iter().zip(list).try_for_each(|(part, key)| self.write_key_of(part, key, to))?;
            }
            (Shape::Named(name), key) if self.is_form_of(name, key)? => {
                let (number, variant, fields) = self.variant(name, key)?;
                if self.values.named(name)?.is_enum {
                    (number as u16).write_key(to);
                }
                for (field, key) in variant.fields.iter().zip(fields) {
                    self.write_key_of(&Self::shape_of(&field.type_name)?, key, to)?;
                }
            }
            _ => self.write_key_of(shape, &self.meant(shape, key).ok_or(Invalid)?, to)?,
        }
        Ok(())
    }
}
