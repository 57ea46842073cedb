//! Keys and values of types that the program does not know, by what the pool says of them.

use super::key::{Key, KeyBytes, KeyRef};
use super::persist::{Invalid, Persist, Stored};
use super::schema::{Types, VariantDescription};
use super::shape::{Shape, Values, count, elements, is_some, word};
use strandline_core::structures::type_layout as layout;

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
}

/// Reads and writes values of one type.
pub(crate) struct Codec<'t> {
    shape: Shape,
    values: Values<'t>,
}

impl<'t> Codec<'t> {
    /// `None`: the type is not known here.
    pub fn new(type_name: &str, types: &'t Types) -> Option<Self> {
        let (shape, values) = (Shape::of(type_name)?, Values { types });
        values.check(&shape).ok()?;
        Some(Self { shape, values })
    }

    /// The value of `bytes` bytes that stands alone in `words`.
    ///
    /// # Errors
    /// [`Invalid`]: there is none.
    pub fn read_value(&self, words: &[u64], bytes: u64) -> Result<Dynamic, Invalid> {
        let mut with_length = Vec::new();
        let mut from = match self.shape.packed_alone() {
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

    /// Whether every value is one word.
    pub fn is_one_word(&self) -> bool {
        self.values.size(&self.shape) == Ok(Some(1))
    }

    /// Whether every key is one word, and stands in a tree as it is.
    pub fn is_word_key(&self) -> bool {
        matches!(self.shape, Shape::Unsigned(64) | Shape::Signed(64) | Shape::Size(_))
    }

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
            Shape::Unit => simple("()"),
            Shape::Bool => simple("bool"),
            Shape::Char => simple("char"),
            Shape::Size(true) => simple("isize"),
            Shape::Size(false) => simple("usize"),
            Shape::Unsigned(bits) => simple(&format!("u{bits}")),
            Shape::Signed(bits) => simple(&format!("i{bits}")),
            Shape::Float(bits) => simple(&format!("f{bits}")),
            Shape::Duration => simple("Duration"),
            Shape::String => simple("String"),
            Shape::Vec(_) if is_key => simple("Vec<u8>"),
            Shape::Vec(element) => around("Vec", 0, element)?,
            Shape::Option(inside) => around("Option", 0, inside)?,
            Shape::Array(element, count) => around("array", *count as u32, element)?,
            Shape::Tuple(parts) => parts.iter().try_fold(layout::begin("tuple", 0), |hash, part| {
                Ok(layout::field(hash, "", self.layout_of(part, is_key)?))
            })?,
            Shape::Named(name) => {
                let named = self.values.named(name)?;
                let own = name.split_once('#').map_or(name.as_str(), |(own, _)| own);
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
            Shape::Option(inside) => {
                let mut own = self.values.take(shape, from)?;
                let value = if is_some(&mut own)? { Some(self.read(inside, &mut own)?) } else { None };
                Dynamic::Optional(value.map(Box::new))
            }
            Shape::Vec(element) if **element == Shape::Unsigned(8) => {
                Dynamic::Bytes(elements(element, from)?.1.to_vec())
            }
            Shape::Vec(element) if element.packed().is_some() => {
                let (_, bytes) = elements(element, from)?;
                let each = bytes.chunks_exact(element.packed().ok_or(Invalid)?);
                let each = each.map(|bytes| {
                    let word = super::convert::from_bytes(element, bytes);
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
                to.push(value.is_some().into());
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
                super::convert::pack((element, element), words.len(), words.into_iter(), to)?;
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
            Shape::Float(_) | Shape::Duration | Shape::Vec(_) => return Err(Invalid),
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
    to.extend(super::schema::stored_words(value));
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
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{Key, Persist, Value};

    #[derive(Clone, Debug, PartialEq, Persist)]
    struct All {
        unit: (),
        sizes: Vec<(usize, isize)>,
        numbers: (u8, i16, u32, i64, u128, i128),
        floats: [f32; 2],
        double: f64,
        truth: bool,
        character: char,
        text: String,
        bytes: Vec<u8>,
        shorts: Vec<i16>,
        texts: Vec<Option<String>>,
        options: (Option<u8>, Option<Option<i8>>),
        kinds: Vec<Kind>,
        small: Small,
        pause: std::time::Duration,
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    enum Kind {
        None,
        Pair(u8, String),
        Named { number: i32 },
    }

    #[derive(Clone, Debug, PartialEq, Persist)]
    enum Small {
        One(u8),
        Two(u64, bool),
    }

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
    enum Id {
        Number(i32, u128),
        Name { name: String, part: Option<Vec<u8>> },
        Short([i8; 2], (char, bool)),
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::None),
            (any::<u8>(), ".{0,9}").prop_map(|(n, text)| Kind::Pair(n, text)),
            any::<i32>().prop_map(|number| Kind::Named { number }),
        ]
    }

    fn all() -> impl Strategy<Value = All> {
        let small = prop_oneof![
            any::<u8>().prop_map(Small::One),
            any::<(u64, bool)>().prop_map(|(n, t)| Small::Two(n, t)),
        ];
        let first = (
            any::<(u8, i16, u32, i64, u128, i128)>(),
            any::<[i32; 2]>(),
            any::<i32>(),
            any::<(bool, char)>(),
        );
        let rest = (any::<(Option<u8>, Option<Option<i8>>)>(), vec(kind(), 0..4), small, 0u64..9);
        (first, ".{0,20}", any::<Vec<u8>>(), any::<Vec<i16>>(), vec(prop::option::of(".{0,9}"), 0..4), rest)
            .prop_map(|((numbers, floats, double, (truth, character)), text, bytes, shorts, texts, rest)| {
                let (options, kinds, small, pause) = rest;
                All {
                    unit: (),
                    sizes: vec![(7, -7)],
                    numbers,
                    floats: floats.map(|n| n as f32),
                    double: double.into(),
                    truth,
                    character,
                    text,
                    bytes,
                    shorts,
                    texts,
                    options,
                    kinds,
                    small,
                    pause: std::time::Duration::new(pause, 7),
                }
            })
    }

    fn id() -> impl Strategy<Value = Id> {
        prop_oneof![
            any::<(i32, u128)>().prop_map(|(n, m)| Id::Number(n, m)),
            (".{0,9}", any::<Option<Vec<u8>>>()).prop_map(|(name, part)| Id::Name { name, part }),
            any::<([i8; 2], (char, bool))>().prop_map(|(bytes, rest)| Id::Short(bytes, rest)),
        ]
    }

    /// What is shown of a value makes the same words again.
    fn comes_back<T: Value>(value: &T) -> Dynamic {
        let mut types = Types::default();
        let name = T::describe(&mut types);
        let codec = Codec::new(&name, &types).unwrap();
        let bytes = Persist::bytes(value);
        let mut words = vec![0; bytes.div_ceil(8) as usize];
        Persist::encode(value, &mut words);
        let shown = codec.read_value(&words, bytes).unwrap();
        assert_eq!(codec.write_value(&shown), Ok((words, bytes)));
        assert_eq!(codec.layout(false), Ok(T::LAYOUT));
        shown
    }

    proptest! {
        #[test]
        fn values_are_shown_and_made_again(value in all(), text: String, bytes: Vec<u8>, many in vec(kind(), 0..5)) {
            comes_back(&value);
            comes_back(&many);
            prop_assert_eq!(comes_back(&text), Dynamic::Text(text.clone()));
            prop_assert_eq!(comes_back(&bytes), Dynamic::Bytes(bytes.clone()));
            comes_back(&(bytes, Some(text)));
        }

        #[test]
        fn keys_are_shown_and_made_again(key in id()) {
            let mut types = Types::default();
            let name = <(Id, u8)>::describe(&mut types);
            let codec = Codec::new(&name, &types).unwrap();
            let bytes = KeyBytes::of(&(key, 7u8));
            let shown = codec.read_key(bytes.as_slice()).unwrap();
            let again = codec.write_key(&shown).unwrap();
            prop_assert_eq!(again.as_slice(), bytes.as_slice());
            prop_assert_eq!(codec.layout(true), Ok(<(Id, u8) as Key>::LAYOUT));
        }

        #[test]
        fn damage_is_told(value in all(), at: prop::sample::Index, word: u64) {
            let mut types = Types::default();
            let name = All::describe(&mut types);
            let codec = Codec::new(&name, &types).unwrap();
            let mut words = super::super::schema::stored_words(&value);
            let at = at.index(words.len());
            words[at] = word;
            // A value of the type by its description exactly when it is one by its code.
            let bytes = 8 * words.len() as u64;
            prop_assert_eq!(codec.read_value(&words, bytes).is_ok(), All::decode(&words, bytes, Stored::new()).is_ok());
        }
    }

    #[test]
    fn types_that_hold_themselves_are_no_types() {
        let field = |type_name: &str| crate::FieldDescription {
            name: "inside".into(),
            type_name: type_name.into(),
            was: None,
            default: None,
        };
        let of = |name: &str, fields: &[&str]| crate::TypeDescription {
            name: name.into(),
            version: 1,
            layout: 0,
            is_enum: false,
            variants: vec![VariantDescription {
                name: name.into(),
                was: None,
                fields: fields.iter().map(|name| field(name)).collect(),
            }],
        };
        assert!(Codec::new("A", &Types::from(vec![of("A", &["Vec<B>"]), of("B", &["A"])])).is_none());
        assert!(Codec::new(&"(".repeat(1_000_000), &Types::default()).is_none());
        assert!(Codec::new("[[u64; 4000000000]; 4000000000]", &Types::default()).is_none());
        // Twice as many parts with each.
        let doubled =
            (1..60).map(|n| of(&format!("T{n}"), &[&format!("T{}", n - 1), &format!("T{}", n - 1)]));
        let types = std::iter::once(of("T0", &["u64"])).chain(doubled).collect::<Vec<_>>();
        assert!(Codec::new("T59", &Types::from(types.clone())).is_none());
        assert!(Codec::new("T3", &Types::from(types)).is_some());
    }

    #[test]
    fn what_is_meant_is_understood() {
        #[derive(Debug, PartialEq, Persist)]
        struct Loose {
            small: i8,
            large: u128,
            float: f32,
            letter: char,
            bytes: Vec<u8>,
            maybe: Option<u8>,
            none: Option<u8>,
            twice: Option<Option<u8>>,
            kinds: Vec<Kind>,
            pause: std::time::Duration,
        }
        let text = |text: &str| Dynamic::Text(text.into());
        let list = Dynamic::List;
        let fields = [
            ("small", Dynamic::Unsigned(7)),
            ("large", text("340282366920938463463374607431768211455")),
            ("float", Dynamic::Signed(-2)),
            ("letter", text("x")),
            ("bytes", text("00ff")),
            ("maybe", Dynamic::Unsigned(3)),
            ("none", Dynamic::Unit),
            ("twice", list(vec![Dynamic::Unit])),
            (
                "kinds",
                list(vec![
                    text("None"),
                    Dynamic::Record(vec![("Pair".into(), list(vec![Dynamic::Unsigned(1), text("one")]))]),
                ]),
            ),
            ("pause", list(vec![Dynamic::Unsigned(1), Dynamic::Unsigned(5)])),
        ];
        let fields = fields.map(|(name, value)| (name.to_string(), value)).to_vec();
        let mut types = Types::default();
        let name = Loose::describe(&mut types);
        let (words, bytes) =
            Codec::new(&name, &types).unwrap().write_value(&Dynamic::Record(fields)).unwrap();
        let expected = Loose {
            small: 7,
            large: u128::MAX,
            float: -2.0,
            letter: 'x',
            bytes: vec![0, 255],
            maybe: Some(3),
            none: None,
            twice: Some(None),
            kinds: vec![Kind::None, Kind::Pair(1, "one".into())],
            pause: std::time::Duration::new(1, 5),
        };
        assert_eq!(Loose::decode(&words, bytes, Stored::new()), Ok(expected));
    }

    #[test]
    fn what_is_no_value_of_the_type_is_refused() {
        let mut types = Types::default();
        let name = Kind::describe(&mut types);
        let codec = Codec::new(&name, &types).unwrap();
        let variant = |name: &str, fields| Dynamic::Variant(name.into(), Box::new(fields));
        assert!(codec.write_value(&variant("None", Dynamic::Unit)).is_ok());
        for wrong in [
            Dynamic::Unit,
            variant("Other", Dynamic::Unit),
            variant("Pair", Dynamic::Unit),
            variant("Pair", Dynamic::List(vec![Dynamic::Unsigned(256), Dynamic::Text("".into())])),
            variant("Named", Dynamic::Record(vec![("other".into(), Dynamic::Signed(1))])),
            variant("Named", Dynamic::Record(vec![("number".into(), Dynamic::Signed(1 << 31))])),
        ] {
            assert_eq!(codec.write_value(&wrong), Err(Invalid), "{wrong:?}");
        }
    }
}
