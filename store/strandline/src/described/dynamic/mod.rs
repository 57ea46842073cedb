//! Keys and values of types that the program does not know, by what the pool says of them.

mod keys;
mod layouts;

use std::borrow::Cow;
use std::sync::Arc;

use crate::value::persist::{Invalid, Persist, Stored};
use crate::value::schema::{Types, VariantDescription};
use crate::value::shape::{Shape, Values, count, elements, is_some, word};

/// A key or a value, whatever its type: what a table is shown and copied as without the program that made it.
///
/// ```
/// # use strandline::*;
/// #[derive(Persist)]
/// struct Person {
///     name: String,
///     born: Option<u16>,
/// }
///
/// let db = Database::in_memory()?;
/// let people = db.table::<u64, Person>("people")?;
/// db.write(|tx| people.insert(tx, &7, &Person { name: "Ann".into(), born: None }))?;
/// let mut shown = Vec::new();
/// db.dump("people", |key, value| {
///     shown.push(format!("{key:?}: {value:?}"));
///     Ok(())
/// })?;
/// assert_eq!(
///     shown,
///     [r#"Unsigned(7): Record([("name", Text("Ann")), ("born", Optional(None))])"#]
/// );
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Dynamic {
    /// `()`.
    Unit,
    /// A truth value.
    Bool(bool),
    /// A character.
    Char(char),
    /// A number without sign, of any size.
    Unsigned(u128),
    /// A number with a sign, of any size.
    Signed(i128),
    /// A floating-point number.
    Float(f64),
    /// Seconds, and nanoseconds less than a second.
    Duration(u64, u32),
    /// A string.
    Text(String),
    /// A vector of bytes.
    Bytes(Vec<u8>),
    /// An option.
    Optional(Option<Box<Dynamic>>),
    /// A vector, an array, a tuple, or a structure whose fields have no names.
    List(Vec<Dynamic>),
    /// A structure.
    Record(Vec<(String, Dynamic)>),
    /// A variant of an enumeration, with its fields: a `Record`, a `List`, or nothing (`Unit`).
    Variant(String, Box<Dynamic>),
    /// A pointer or a collection: its type, as the pool describes it, and its address. It is read, and means nothing in another pool.
    Handle(Arc<str>, u64),
}

/// Reads and writes values of one type.
pub(crate) struct Codec<'t> {
    shape: Cow<'t, Shape>,
    values: Values<'t>,
}

impl<'t> Codec<'t> {
    /// `None`: the type is not known here.
    pub fn new(type_name: &str, types: &'t Types) -> Option<Self> {
        let (shape, values) = (Shape::of(type_name)?, Values { types });
        values.check(&shape).ok()?;
        Some(Self { shape: Cow::Owned(shape), values })
    }

    /// That of a form with which one was made before, among the same types.
    pub fn again(shape: &'t Shape, types: &'t Types) -> Self {
        Self { shape: Cow::Borrowed(shape), values: Values { types } }
    }

    /// Whether values can hold pointers or collections.
    pub fn has_handles(&self) -> bool {
        self.values.has_handles(&self.shape) != Ok(false)
    }

    /// Words that every value takes, if all take as many.
    pub fn size(&self) -> Option<usize> {
        self.values.size(&self.shape).ok().flatten()
    }

    /// The value of `bytes` bytes that stands alone in `words`.
    ///
    /// # Errors
    /// [`Invalid`]: there is none.
    pub fn read_value(&self, words: &[u64], bytes: u64) -> Result<Dynamic, Invalid> {
        let mut with_length = Vec::new();
        let mut from = match self.shape.packed_alone() {
            Some(each) if !bytes.is_multiple_of(each as u64) => return Err(Invalid),
            None if bytes != 8 * words.len() as u64 => return Err(Invalid),
            Some(each) => {
                with_length.push(bytes / each as u64);
                with_length.extend_from_slice(words);
                with_length.as_slice()
            }
            None => words,
        };
        let value = self.read(&self.shape, &mut from)?;
        if from.is_empty() { Ok(value) } else { Err(Invalid) }
    }

    /// The words of a value that stands alone, and its bytes.
    ///
    /// # Errors
    /// [`Invalid`]: it is none of the type.
    pub fn write_value(&self, value: &Dynamic) -> Result<(Vec<u64>, u64), Invalid> {
        let mut words = Vec::new();
        self.write(&self.shape, value, &mut words)?;
        Ok(match self.shape.packed_alone() {
            Some(each) => {
                let count = words.remove(0);
                (words, count * each as u64)
            }
            None => {
                let bytes = 8 * words.len() as u64;
                (words, bytes)
            }
        })
    }

    /// Whether every value is one word.
    pub fn is_one_word(&self) -> bool {
        self.size() == Some(1)
    }

    /// Whether every key is one word, and stands in a tree as it is.
    pub fn is_word_key(&self) -> bool {
        matches!(*self.shape, Shape::Unsigned(64) | Shape::Signed(64) | Shape::Size(_))
    }

    fn shape_of(type_name: &str) -> Result<Shape, Invalid> {
        Shape::of(type_name).ok_or(Invalid)
    }

    fn read(&self, shape: &Shape, from: &mut &[u64]) -> Result<Dynamic, Invalid> {
        Ok(match shape {
            Shape::Unit => Dynamic::Unit,
            Shape::Bool => Dynamic::Bool(load(from)?),
            Shape::Char => Dynamic::Char(load(from)?),
            Shape::Unsigned(128) => Dynamic::Unsigned(load(from)?),
            Shape::Signed(128) => Dynamic::Signed(load(from)?),
            Shape::Size(false) => Dynamic::Unsigned(word(from)?.into()),
            Shape::Size(true) => Dynamic::Signed((word(from)? as i64).into()),
            Shape::Unsigned(bits) => Dynamic::Unsigned(fits(word(from)?.into(), *bits)?),
            Shape::Signed(bits) => Dynamic::Signed(fits_signed((word(from)? as i64).into(), *bits)?),
            Shape::Float(32) => Dynamic::Float(load::<f32>(from)?.into()),
            Shape::Float(_) => Dynamic::Float(load(from)?),
            Shape::Duration => {
                let duration: std::time::Duration = load(from)?;
                Dynamic::Duration(duration.as_secs(), duration.subsec_nanos())
            }
            Shape::String => Dynamic::Text(load(from)?),
            Shape::Handle(name) => match word(from)? {
                0 => return Err(Invalid),
                at => Dynamic::Handle(name.clone(), at),
            },
            Shape::Option(inside) => {
                let mut own = self.values.take(shape, from)?;
                let is_some = if inside.is_never_zero() {
                    own.iter().any(|&word| word != 0)
                } else {
                    is_some(&mut own)?
                };
                let value = if is_some { Some(self.read(inside, &mut own)?) } else { None };
                Dynamic::Optional(value.map(Box::new))
            }
            Shape::Vec(element) if **element == Shape::Unsigned(8) => {
                Dynamic::Bytes(elements(element, from)?.1.to_vec())
            }
            Shape::Vec(element) if element.packed().is_some() => {
                let (_, bytes) = elements(element, from)?;
                let each = bytes.chunks_exact(element.packed().ok_or(Invalid)?);
                let each = each.map(|bytes| {
                    let word = crate::value::convert::from_bytes(element, bytes);
                    self.read(element, &mut [word].as_slice())
                });
                Dynamic::List(each.collect::<Result<_, _>>()?)
            }
            Shape::Vec(element) => {
                let count = count(from, self.values.size(element)?)?;
                Dynamic::List((0..count).map(|_| self.read(element, from)).collect::<Result<_, _>>()?)
            }
            Shape::Array(element, count) => {
                Dynamic::List((0..*count).map(|_| self.read(element, from)).collect::<Result<_, _>>()?)
            }
            Shape::Tuple(parts) => {
                Dynamic::List(parts.iter().map(|part| self.read(part, from)).collect::<Result<_, _>>()?)
            }
            Shape::Named(name) => {
                let named = self.values.named(name)?;
                let is_fixed = self.values.size(shape)?.is_some();
                let begun = self.values.begin(name, from)?;
                let (fields, rest) = self.values.fields(&begun)?;
                if !is_fixed {
                    *from = rest;
                }
                let described = begun.variant.fields.iter().zip(fields);
                let fields = described.map(|(field, mut words)| {
                    Ok((field.name.clone(), self.read(&Self::shape_of(&field.type_name)?, &mut words)?))
                });
                let fields = fields_of(fields.collect::<Result<_, Invalid>>()?);
                if named.is_enum {
                    Dynamic::Variant(begun.variant.name.clone(), Box::new(fields))
                } else {
                    fields
                }
            }
        })
    }

    fn write(&self, shape: &Shape, value: &Dynamic, to: &mut Vec<u64>) -> Result<(), Invalid> {
        match (shape, value) {
            (Shape::Unit, Dynamic::Unit) => {}
            (Shape::Bool, Dynamic::Bool(value)) => store(value, to),
            (Shape::Char, Dynamic::Char(value)) => store(value, to),
            (Shape::Unsigned(128), Dynamic::Unsigned(value)) => store(value, to),
            (Shape::Signed(128), Dynamic::Signed(value)) => store(value, to),
            (Shape::Size(false), Dynamic::Unsigned(value)) => to.push(fits(*value, 64)? as u64),
            (Shape::Size(true), Dynamic::Signed(value)) => to.push(fits_signed(*value, 64)? as u64),
            (Shape::Unsigned(bits), Dynamic::Unsigned(value)) => to.push(fits(*value, *bits)? as u64),
            (Shape::Signed(bits), Dynamic::Signed(value)) => to.push(fits_signed(*value, *bits)? as u64),
            (Shape::Float(32), Dynamic::Float(value)) => store(&(*value as f32), to),
            (Shape::Float(_), Dynamic::Float(value)) => store(value, to),
            (Shape::Duration, Dynamic::Duration(seconds, nanos)) if *nanos < 1_000_000_000 => {
                store(&std::time::Duration::new(*seconds, *nanos), to);
            }
            (Shape::String, Dynamic::Text(text)) => store(text, to),
            (Shape::Option(inside), Dynamic::Optional(value)) => {
                if !inside.is_never_zero() {
                    to.push(value.is_some().into());
                }
                match value {
                    Some(value) => self.write(inside, value, to)?,
                    None => to.extend(std::iter::repeat_n(0, self.values.size(inside)?.unwrap_or(0))),
                }
            }
            (Shape::Vec(element), Dynamic::Bytes(bytes)) if **element == Shape::Unsigned(8) => {
                store(bytes, to);
            }
            (Shape::Vec(element), Dynamic::List(list)) if element.packed().is_some() => {
                let mut words = Vec::with_capacity(list.len());
                list.iter().try_for_each(|value| self.write(element, value, &mut words))?;
                crate::value::convert::pack((element, element), words.len(), words.into_iter(), to)?;
            }
            (Shape::Vec(element), Dynamic::List(list)) => {
                to.push(list.len() as u64);
                list.iter().try_for_each(|value| self.write(element, value, to))?;
            }
            (Shape::Array(element, count), Dynamic::List(list)) if list.len() == *count => {
                list.iter().try_for_each(|value| self.write(element, value, to))?;
            }
            (Shape::Tuple(parts), Dynamic::List(list)) if list.len() == parts.len() => {
                parts.iter().zip(list).try_for_each(|(part, value)| self.write(part, value, to))?;
            }
            (Shape::Named(name), value) if self.is_form_of(name, value)? => {
                let named = self.values.named(name)?;
                let (number, variant, fields) = self.variant(name, value)?;
                let begin = to.len();
                let size = self.values.size(shape)?;
                if size.is_none() {
                    to.push(named.layout);
                }
                if named.is_enum {
                    to.push(number as u64);
                }
                for (field, value) in variant.fields.iter().zip(fields) {
                    self.write(&Self::shape_of(&field.type_name)?, value, to)?;
                }
                if let Some(size) = size {
                    to.resize(begin + size, 0);
                }
            }
            _ => self.write(shape, &self.meant(shape, value).ok_or(Invalid)?, to)?,
        }
        Ok(())
    }

    /// Whether `value` has the form of a value of this structure or enumeration.
    fn is_form_of(&self, name: &str, value: &Dynamic) -> Result<bool, Invalid> {
        Ok(self.values.named(name)?.is_enum == matches!(value, Dynamic::Variant(..)))
    }

    /// What a value is meant to be that was written with less care for its type, as in JSON.
    fn meant(&self, shape: &Shape, value: &Dynamic) -> Option<Dynamic> {
        Some(match (shape, value) {
            (Shape::Signed(_) | Shape::Size(true), Dynamic::Unsigned(number)) => {
                Dynamic::Signed((*number).try_into().ok()?)
            }
            (Shape::Unsigned(_) | Shape::Size(false), Dynamic::Signed(number)) => {
                Dynamic::Unsigned((*number).try_into().ok()?)
            }
            (Shape::Unsigned(128), Dynamic::Text(text)) => Dynamic::Unsigned(text.parse().ok()?),
            (Shape::Signed(128), Dynamic::Text(text)) => Dynamic::Signed(text.parse().ok()?),
            (Shape::Float(_), Dynamic::Unsigned(number)) => Dynamic::Float(*number as f64),
            (Shape::Float(_), Dynamic::Signed(number)) => Dynamic::Float(*number as f64),
            (Shape::Float(_), Dynamic::Text(text)) => Dynamic::Float(text.parse().ok()?),
            (Shape::Char, Dynamic::Text(text)) => Dynamic::Char(text.parse().ok()?),
            (Shape::Duration, Dynamic::List(parts)) => match parts.as_slice() {
                [Dynamic::Unsigned(seconds), Dynamic::Unsigned(nanos)] => {
                    Dynamic::Duration((*seconds).try_into().ok()?, (*nanos).try_into().ok()?)
                }
                _ => return None,
            },
            (Shape::Vec(element), Dynamic::Text(text)) if **element == Shape::Unsigned(8) => {
                Dynamic::Bytes(from_hex(text)?)
            }
            (Shape::Option(_), Dynamic::Optional(_)) => return None,
            (Shape::Option(_), Dynamic::Unit) => Dynamic::Optional(None),
            // So that an option of nothing can be told from nothing.
            (Shape::Option(inside), value) if matches!(**inside, Shape::Option(_) | Shape::Unit) => {
                match value {
                    Dynamic::List(one) if one.len() == 1 => Dynamic::Optional(Some(Box::new(one[0].clone()))),
                    _ => return None,
                }
            }
            (Shape::Option(_), value) => Dynamic::Optional(Some(Box::new(value.clone()))),
            (Shape::Named(name), value) if self.values.named(name).is_ok_and(|named| named.is_enum) => {
                match value {
                    Dynamic::Text(name) => Dynamic::Variant(name.clone(), Box::new(Dynamic::Unit)),
                    Dynamic::Record(one) if one.len() == 1 => {
                        Dynamic::Variant(one[0].0.clone(), Box::new(one[0].1.clone()))
                    }
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// The variant that `value` is of, its number, and its fields in order.
    fn variant<'v>(
        &self,
        name: &str,
        value: &'v Dynamic,
    ) -> Result<(usize, &'t VariantDescription, Vec<&'v Dynamic>), Invalid> {
        let named = self.values.named(name)?;
        let (number, fields) = match value {
            Dynamic::Variant(name, fields) if named.is_enum => {
                let number = named.variants.iter().position(|variant| variant.name == *name);
                (number.ok_or(Invalid)?, &**fields)
            }
            fields if !named.is_enum => (0, fields),
            _ => return Err(Invalid),
        };
        let variant = named.variants.get(number).ok_or(Invalid)?;
        let fields: Vec<&Dynamic> = match fields {
            Dynamic::Unit => Vec::new(),
            Dynamic::List(list) => list.iter().collect(),
            Dynamic::Record(record) => {
                let find =
                    |name: &String| record.iter().find(|(known, _)| known == name).map(|(_, value)| value);
                let all = variant.fields.iter().map(|field| find(&field.name).ok_or(Invalid));
                let all = all.collect::<Result<_, _>>()?;
                if record.len() == variant.fields.len() { all } else { return Err(Invalid) }
            }
            _ => return Err(Invalid),
        };
        if fields.len() == variant.fields.len() { Ok((number, variant, fields)) } else { Err(Invalid) }
    }
}

/// Bytes from pairs of hexadecimal digits.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| (pair.len() == 2).then(|| (pair[0] << 4 | pair[1]) as u8));
    pairs.collect()
}

/// Fields as they are shown: with their names, unless these are numbers.
fn fields_of(fields: Vec<(String, Dynamic)>) -> Dynamic {
    match fields.first() {
        None => Dynamic::Unit,
        Some((name, _)) if name == "0" => Dynamic::List(fields.into_iter().map(|(_, value)| value).collect()),
        Some(_) => Dynamic::Record(fields),
    }
}

fn load<T: for<'p> Persist<'p>>(from: &mut &[u64]) -> Result<T, Invalid> {
    T::load(from, Stored::new())
}

fn store<T: for<'p> Persist<'p>>(value: &T, to: &mut Vec<u64>) {
    to.extend(crate::value::schema::stored_words(value));
}

/// A number of so many bits.
fn fits(number: u128, bits: u32) -> Result<u128, Invalid> {
    if bits == 128 || number >> bits == 0 { Ok(number) } else { Err(Invalid) }
}

/// A number of so many bits, of which one is the sign.
fn fits_signed(number: i128, bits: u32) -> Result<i128, Invalid> {
    let rest = number >> (bits - 1);
    if rest == 0 || rest == -1 { Ok(number) } else { Err(Invalid) }
}

#[cfg(test)]
mod tests;
