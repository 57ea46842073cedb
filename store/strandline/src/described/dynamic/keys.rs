//! Keys, read and written by the pool's description of their types.

use super::{Dynamic, ReadPlain, Sink, fits, fits_signed, read};
use crate::value::adapted::read_inverted;
use crate::value::form::{Form, Named, Parts, Source};
use crate::value::key::{Key, KeyBytes, KeyRef};
use crate::value::persist::Invalid;
use crate::value::shape::Shape;

impl Source for &[u8] {
    fn is_some(&mut self, _: &Form) -> Result<bool, Invalid> {
        bool::read_key(self)
    }

    /// Vectors cannot be keys.
    fn count(&mut self, _: &Form) -> Result<u64, Invalid> {
        Err(Invalid)
    }

    fn variant(&mut self, named: &Named) -> Result<u64, Invalid> {
        if named.description.is_enum { u16::read_key(self).map(u64::from) } else { Ok(0) }
    }

    fn take_sized(&mut self, _: &Form) -> Result<Option<Self>, Invalid> {
        Ok(None)
    }
}

impl ReadPlain for &[u8] {
    fn read(&mut self, shape: &Shape) -> Result<Dynamic, Invalid> {
        let (unsigned, signed) = (Dynamic::Unsigned, Dynamic::Signed);
        match shape {
            Shape::Unit => Ok(Dynamic::Unit),
            Shape::Bool => bool::read_key(self).map(Dynamic::Bool),
            Shape::Char => char::read_key(self).map(Dynamic::Char),
            Shape::Unsigned(8) => u8::read_key(self).map(|key| unsigned(key.into())),
            Shape::Unsigned(16) => u16::read_key(self).map(|key| unsigned(key.into())),
            Shape::Unsigned(32) => u32::read_key(self).map(|key| unsigned(key.into())),
            Shape::Unsigned(64) | Shape::Size(false) => u64::read_key(self).map(|key| unsigned(key.into())),
            Shape::Unsigned(_) => u128::read_key(self).map(unsigned),
            Shape::Signed(8) => i8::read_key(self).map(|key| signed(key.into())),
            Shape::Signed(16) => i16::read_key(self).map(|key| signed(key.into())),
            Shape::Signed(32) => i32::read_key(self).map(|key| signed(key.into())),
            Shape::Signed(64) | Shape::Size(true) => i64::read_key(self).map(|key| signed(key.into())),
            Shape::Signed(_) => i128::read_key(self).map(signed),
            Shape::Float(32) => f32::read_key(self).map(|key| Dynamic::Float(key.into())),
            Shape::Float(_) => f64::read_key(self).map(Dynamic::Float),
            Shape::Duration => std::time::Duration::read_key(self)
                .map(|key| Dynamic::Duration(key.as_secs(), key.subsec_nanos())),
            Shape::String => String::read_key(self).map(Dynamic::Text),
            _ => Err(Invalid),
        }
    }

    fn read_reversed(&mut self, inside: &Form) -> Result<Dynamic, Invalid> {
        read_inverted(self, |from| read(inside, from))
    }

    fn read_bytes(&mut self, _: &Form) -> Result<Vec<u8>, Invalid> {
        Vec::read_key(self)
    }

    /// Elements of keys are never packed.
    fn unpacked<'f>(&mut self, _: &'f Form) -> Result<Option<(Parts<'f>, Vec<u64>)>, Invalid> {
        Ok(None)
    }
}

impl Sink for KeyBytes {
    fn plain(&mut self, shape: &Shape, key: &Dynamic) -> Result<bool, Invalid> {
        match (shape, key) {
            (Shape::Unit, Dynamic::Unit) => {}
            (Shape::Bool, Dynamic::Bool(key)) => key.write_key(self),
            (Shape::Char, Dynamic::Char(key)) => key.write_key(self),
            (Shape::Size(false), key) => return self.plain(&Shape::Unsigned(64), key),
            (Shape::Size(true), key) => return self.plain(&Shape::Signed(64), key),
            (Shape::Unsigned(bits), Dynamic::Unsigned(key)) => {
                let bytes = fits(*key, *bits)?.to_be_bytes();
                self.push(&bytes[16 - *bits as usize / 8..]);
            }
            (Shape::Signed(bits), Dynamic::Signed(key)) => {
                // The sign bit is inverted, so that negative numbers come first.
                let bytes = (fits_signed(*key, *bits)? ^ 1 << (bits - 1)).to_be_bytes();
                self.push(&bytes[16 - *bits as usize / 8..]);
            }
            (Shape::String, Dynamic::Text(key)) => key.write_key(self),
            (Shape::Float(32), Dynamic::Float(key)) => (*key as f32).write_key(self),
            (Shape::Float(_), Dynamic::Float(key)) => key.write_key(self),
            (Shape::Duration, Dynamic::Duration(seconds, nanos)) if *nanos < 1_000_000_000 => {
                std::time::Duration::new(*seconds, *nanos).write_key(self);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        bytes.write_key(self);
    }

    fn begin_reversed(&mut self) -> usize {
        self.as_slice().len()
    }

    fn end_reversed(&mut self, begin: usize) {
        self.invert(begin);
    }

    fn option(&mut self, _: &Form, is_some: bool) {
        is_some.write_key(self);
    }

    /// Vectors cannot be keys.
    fn count(&mut self, _: usize) -> Result<(), Invalid> {
        Err(Invalid)
    }

    fn begin(&mut self, named: &Named, number: usize) -> usize {
        if named.description.is_enum {
            (number as u16).write_key(self);
        }
        0
    }
}
