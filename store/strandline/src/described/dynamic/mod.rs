//! Keys and values of types that the program does not know, read and written by the pool's description of them.

mod keys;
mod layouts;
mod readable;
mod types;

use std::sync::Arc;

use crate::value::form::{Form, Kind, List, Named, Node, Parts, Source, word};
use crate::value::key::KeyBytes;
use crate::value::persist::{Invalid, Persist, Stored};
use crate::value::schema::{TypeDescription, Types, VariantDescription};
use crate::value::shape::Shape;

/// A key or a value of any type. Tables are shown and copied in this form without the program that created them.
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
#[non_exhaustive]
pub enum Dynamic {
    /// `()`.
    Unit,
    /// A truth value.
    Bool(bool),
    /// A character.
    Char(char),
    /// An unsigned number of any size.
    Unsigned(u128),
    /// A signed number of any size.
    Signed(i128),
    /// A floating-point number.
    Float(f64),
    /// Seconds, and less than 1,000,000,000 nanoseconds.
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
    /// A pointer or a collection: its type, as the pool describes it, and its address. It can be read, but not stored: the address has no meaning in
    /// another pool.
    Handle(Arc<str>, u64),
}

/// Reads and writes values of one type.
pub(crate) struct Codec {
    /// The type, as it is described.
    pub name: String,
    form: Form,
}

impl Codec {
    /// Creates the codec of a type, or returns `None` if the type is not known.
    pub fn new(type_name: &str, types: &Types) -> Option<Self> {
        Some(Self { name: type_name.to_owned(), form: Form::of(type_name, types)? })
    }

    /// Like [`new`](Self::new), for values or keys with this layout. The layout says whether elements of lists are packed. In older pools they are
    /// not.
    pub fn stored(type_name: &str, types: &Types, layout: u64, is_key: bool) -> Option<Self> {
        let codec = Self::new(type_name, types)?;
        let is_it = |codec: &Self| codec.layout(is_key) == Ok(layout);
        if is_it(&codec) {
            return Some(codec);
        }
        Self::unpacked(type_name, types).filter(is_it).or(Some(codec))
    }

    /// Like [`new`](Self::new), for values of older pools, where elements of lists are not packed.
    pub fn unpacked(type_name: &str, types: &Types) -> Option<Self> {
        Some(Self { name: type_name.to_owned(), form: Form::unpacked_of(type_name, types)? })
    }

    /// Returns the form of the type.
    pub fn into_form(self) -> Form {
        self.form
    }

    /// Returns whether values can hold pointers or collections.
    pub fn has_handles(&self) -> bool {
        self.form.facts.has_handles
    }

    /// Returns whether the type is `Vec<u8>`.
    pub fn is_bytes(&self) -> bool {
        self.form.is_bytes()
    }

    /// Returns whether the type is `String`.
    pub fn is_text(&self) -> bool {
        matches!(self.form.kind, Kind::Plain(Shape::String))
    }

    /// Returns whether values of the type can be keys.
    pub fn can_be_key(&self) -> bool {
        self.form.can_be_key()
    }

    /// Returns the words of a value inside another one.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the value is not of this type.
    pub fn write_inside(&self, value: &Dynamic) -> Result<Vec<u64>, Invalid> {
        let mut words = Vec::new();
        write(&self.form, value, &mut words)?;
        Ok(words)
    }

    /// Returns the number of words that every value takes, or `None` if values differ in size.
    pub fn size(&self) -> Option<usize> {
        self.form.facts.size
    }

    /// Decodes the stand-alone value of `bytes` bytes in `words`.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the words are not a valid value of this type.
    pub fn read_value(&self, words: &[u64], bytes: u64) -> Result<Dynamic, Invalid> {
        self.form.decode_alone(words, bytes, |from| read(&self.form, from))
    }

    /// Returns the words of a stand-alone value, and its length in bytes.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the value is not of this type.
    pub fn write_value(&self, value: &Dynamic) -> Result<(Vec<u64>, u64), Invalid> {
        Ok(self.form.encoded_alone(self.write_inside(value)?))
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the bytes are not a valid key of this type.
    pub fn read_key(&self, mut from: &[u8]) -> Result<Dynamic, Invalid> {
        let key = read(&self.form, &mut from)?;
        if from.is_empty() { Ok(key) } else { Err(Invalid) }
    }

    /// Returns the encoded bytes of a key.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the key is not of this type.
    pub fn write_key(&self, key: &Dynamic) -> Result<KeyBytes, Invalid> {
        let mut bytes = KeyBytes::empty();
        write(&self.form, key, &mut bytes)?;
        Ok(bytes)
    }
}

/// Reads values without parts from words, or from the bytes of keys.
trait ReadPlain: Source {
    fn read(&mut self, shape: &Shape) -> Result<Dynamic, Invalid>;
    /// Reads the value inside a `Reverse`.
    fn read_reversed(&mut self, inside: &Form) -> Result<Dynamic, Invalid>;
    /// Takes and returns a vector of bytes.
    fn read_bytes(&mut self, form: &Form) -> Result<Vec<u8>, Invalid>;
    /// Takes a list with packed elements, and returns the forms and words of the elements. Returns `None` if the form is not such a list.
    fn unpacked<'f>(&mut self, form: &'f Form) -> Result<Option<(Parts<'f>, Vec<u64>)>, Invalid>;
}

fn read_list(parts: Parts<'_>, from: &mut impl ReadPlain) -> Result<Dynamic, Invalid> {
    Ok(Dynamic::List(parts.iter().map(|part| read(part, from)).collect::<Result<_, _>>()?))
}

fn read(form: &Form, from: &mut impl ReadPlain) -> Result<Dynamic, Invalid> {
    match &form.kind {
        Kind::As("Reverse", inside) => return from.read_reversed(inside),
        Kind::As(name, inside) => return readable::shown(name, read(inside, from)?),
        _ if form.is_bytes() => return from.read_bytes(form).map(Dynamic::Bytes),
        _ => {}
    }
    if let Some((parts, words)) = from.unpacked(form)? {
        return read_list(parts, &mut words.as_slice());
    }
    form.open(from, |node, from| {
        Ok(match node {
            Node::Plain(shape) => from.read(shape)?,
            Node::Option(None) => Dynamic::Optional(None),
            Node::Option(Some(inside)) => Dynamic::Optional(Some(Box::new(read(inside, from)?))),
            Node::List(parts) => read_list(parts, from)?,
            Node::Variant(named, number, forms) => {
                let TypeDescription { is_enum, variants, .. } = &named.description;
                let VariantDescription { name, fields, .. } = &variants[number];
                let named = fields.iter().zip(forms);
                let fields = named.map(|(field, form)| Ok((field.name.clone(), read(form, from)?)));
                let fields = fields_of(fields.collect::<Result<_, Invalid>>()?);
                if *is_enum { Dynamic::Variant(name.clone(), Box::new(fields)) } else { fields }
            }
        })
    })
}

/// Stores values as words, or as the bytes of keys.
trait Sink {
    /// Stores a value without parts; returns whether the value's variant fits the shape.
    fn plain(&mut self, shape: &Shape, value: &Dynamic) -> Result<bool, Invalid>;
    /// Stores a vector of bytes.
    fn bytes(&mut self, bytes: &[u8]);
    /// Returns the position where the elements of a list begin. The caller stores them next.
    fn begin_list(&mut self) -> usize {
        0
    }
    /// Packs the elements of a list that begin at `begin`, if they are packed.
    fn end_list(&mut self, _list: &List, _begin: usize) -> Result<(), Invalid> {
        Ok(())
    }
    /// Returns the position where the value inside a `Reverse` begins. The caller stores it next.
    fn begin_reversed(&mut self) -> usize {
        0
    }
    /// Inverts the bytes of a key that were stored from `begin` on.
    fn end_reversed(&mut self, _begin: usize) {}
    /// Stores the mark of an option, which says whether a value follows.
    fn option(&mut self, inside: &Form, is_some: bool);
    /// Stores the number of a vector's elements.
    fn count(&mut self, count: usize) -> Result<(), Invalid>;
    /// Stores the header of a structure or an enumeration, and returns the position where the value begins.
    fn begin(&mut self, named: &Named, number: usize) -> usize;
    /// Pads the value that begins at `begin`.
    fn fill(&mut self, _named: &Named, _begin: usize) {}
}

fn write(form: &Form, value: &Dynamic, to: &mut impl Sink) -> Result<(), Invalid> {
    match (&form.kind, value) {
        (Kind::Plain(shape), value) => write_plain(shape, value, to),
        (Kind::Option(inside), Dynamic::Optional(value)) => {
            to.option(inside, value.is_some());
            value.as_ref().map_or(Ok(()), |value| write(inside, value, to))
        }
        (Kind::As("Reverse", inside), value) => {
            let begin = to.begin_reversed();
            write(inside, value, to)?;
            to.end_reversed(begin);
            Ok(())
        }
        (Kind::As(name, inside), value) => write(inside, &readable::stored(name, value)?, to),
        (Kind::Vec(_), Dynamic::Bytes(bytes)) if form.is_bytes() => {
            to.bytes(bytes);
            Ok(())
        }
        (Kind::Vec(elements), Dynamic::List(list)) => {
            to.count(list.len())?;
            write_list(elements, list, to)
        }
        (Kind::Array(elements, count), Dynamic::List(list)) if list.len() == *count => {
            write_list(elements, list, to)
        }
        (Kind::Tuple(parts), Dynamic::List(list)) if list.len() == parts.len() => {
            parts.iter().zip(list).try_for_each(|(part, value)| write(part, value, to))
        }
        (Kind::Named(named), value) if named.description.is_enum == matches!(value, Dynamic::Variant(..)) => {
            let (number, fields) = variant(&named.description, value)?;
            let begin = to.begin(named, number);
            let mut forms = named.variants[number].iter().zip(fields);
            forms.try_for_each(|(form, value)| write(form, value, to))?;
            to.fill(named, begin);
            Ok(())
        }
        _ => write(form, &meant(form, value).ok_or(Invalid)?, to),
    }
}

fn write_list(elements: &List, list: &[Dynamic], to: &mut impl Sink) -> Result<(), Invalid> {
    let begin = to.begin_list();
    list.iter().try_for_each(|value| write(&elements.element, value, to))?;
    to.end_list(elements, begin)
}

fn write_plain(shape: &Shape, value: &Dynamic, to: &mut impl Sink) -> Result<(), Invalid> {
    if to.plain(shape, value)? || to.plain(shape, &meant_plain(shape, value).ok_or(Invalid)?)? {
        Ok(())
    } else {
        Err(Invalid)
    }
}

impl ReadPlain for &[u64] {
    fn read(&mut self, shape: &Shape) -> Result<Dynamic, Invalid> {
        let from = self;
        match shape {
            Shape::Unit => Ok(Dynamic::Unit),
            Shape::Bool => load(from).map(Dynamic::Bool),
            Shape::Char => load(from).map(Dynamic::Char),
            Shape::Unsigned(128) => load(from).map(Dynamic::Unsigned),
            Shape::Signed(128) => load(from).map(Dynamic::Signed),
            Shape::Size(false) => load(from).map(|number: u64| Dynamic::Unsigned(number.into())),
            Shape::Size(true) => load(from).map(|number: i64| Dynamic::Signed(number.into())),
            Shape::Unsigned(bits) => fits(word(from)?.into(), *bits).map(Dynamic::Unsigned),
            Shape::Signed(bits) => fits_signed((word(from)? as i64).into(), *bits).map(Dynamic::Signed),
            Shape::Float(32) => load(from).map(|number: f32| Dynamic::Float(number.into())),
            Shape::Float(_) => load(from).map(Dynamic::Float),
            Shape::Duration => load(from).map(|duration: std::time::Duration| {
                Dynamic::Duration(duration.as_secs(), duration.subsec_nanos())
            }),
            Shape::String => load(from).map(Dynamic::Text),
            Shape::Handle(name) => match word(from)? {
                0 => Err(Invalid),
                at => Ok(Dynamic::Handle(name.clone(), at)),
            },
            _ => Err(Invalid),
        }
    }

    fn read_reversed(&mut self, inside: &Form) -> Result<Dynamic, Invalid> {
        read(inside, self)
    }

    fn read_bytes(&mut self, form: &Form) -> Result<Vec<u8>, Invalid> {
        form.take_packed(self)?.map(|(_, bytes)| bytes.to_vec()).ok_or(Invalid)
    }

    fn unpacked<'f>(&mut self, form: &'f Form) -> Result<Option<(Parts<'f>, Vec<u64>)>, Invalid> {
        form.unpacked(self)
    }
}

impl Sink for Vec<u64> {
    fn plain(&mut self, shape: &Shape, value: &Dynamic) -> Result<bool, Invalid> {
        match (shape, value) {
            (Shape::Unit, Dynamic::Unit) => {}
            (Shape::Bool, Dynamic::Bool(value)) => store(value, self),
            (Shape::Char, Dynamic::Char(value)) => store(value, self),
            (Shape::Unsigned(128), Dynamic::Unsigned(value)) => store(value, self),
            (Shape::Signed(128), Dynamic::Signed(value)) => store(value, self),
            (Shape::Size(false), Dynamic::Unsigned(value)) => self.push(fits(*value, 64)? as u64),
            (Shape::Size(true), Dynamic::Signed(value)) => self.push(fits_signed(*value, 64)? as u64),
            (Shape::Unsigned(bits), Dynamic::Unsigned(value)) => self.push(fits(*value, *bits)? as u64),
            (Shape::Signed(bits), Dynamic::Signed(value)) => self.push(fits_signed(*value, *bits)? as u64),
            (Shape::Float(32), Dynamic::Float(value)) => store(&(*value as f32), self),
            (Shape::Float(_), Dynamic::Float(value)) => store(value, self),
            (Shape::Duration, Dynamic::Duration(seconds, nanos)) if *nanos < 1_000_000_000 => {
                store(&std::time::Duration::new(*seconds, *nanos), self);
            }
            (Shape::String, Dynamic::Text(text)) => store(text, self),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.push(bytes.len() as u64);
        let begin = self.len();
        self.resize(begin + bytes.len().div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut self[begin..])[..bytes.len()].copy_from_slice(bytes);
    }

    fn begin_list(&mut self) -> usize {
        self.len()
    }

    fn end_list(&mut self, list: &List, begin: usize) -> Result<(), Invalid> {
        list.pack_from(begin, self)
    }

    fn option(&mut self, inside: &Form, is_some: bool) {
        if !inside.is_never_zero() {
            self.push(is_some.into());
        }
        if !is_some {
            self.extend(std::iter::repeat_n(0, inside.facts.size.unwrap_or(0)));
        }
    }

    fn count(&mut self, count: usize) -> Result<(), Invalid> {
        self.push(count as u64);
        Ok(())
    }

    fn begin(&mut self, named: &Named, number: usize) -> usize {
        named.begin(number, self)
    }

    fn fill(&mut self, named: &Named, begin: usize) {
        named.fill(begin, self);
    }
}

/// Returns the value without parts that `value` is meant to be, if it was written in a less exact notation, as in JSON.
fn meant_plain(shape: &Shape, value: &Dynamic) -> Option<Dynamic> {
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
        _ => return None,
    })
}

/// Like [`meant_plain`], for a value with parts.
fn meant(form: &Form, value: &Dynamic) -> Option<Dynamic> {
    match (&form.kind, value) {
        (Kind::Vec(_), Dynamic::Text(text)) if form.is_bytes() => {
            Some(Dynamic::Bytes(hex::decode(text).ok()?))
        }
        (Kind::Option(_), Dynamic::Unit) => Some(Dynamic::Optional(None)),
        // This distinguishes `Some(None)` from `None`.
        (Kind::Option(inside), value)
            if matches!(inside.kind, Kind::Option(_) | Kind::Plain(Shape::Unit)) =>
        {
            match value {
                Dynamic::List(one) if one.len() == 1 => {
                    Some(Dynamic::Optional(Some(Box::new(one[0].clone()))))
                }
                _ => None,
            }
        }
        (Kind::Option(_), value) => Some(Dynamic::Optional(Some(Box::new(value.clone())))),
        (Kind::Named(named), Dynamic::Text(name)) if named.description.is_enum => {
            Some(Dynamic::Variant(name.clone(), Box::new(Dynamic::Unit)))
        }
        (Kind::Named(named), Dynamic::Record(one)) if named.description.is_enum && one.len() == 1 => {
            Some(Dynamic::Variant(one[0].0.clone(), Box::new(one[0].1.clone())))
        }
        _ => None,
    }
}

/// Returns the number of the variant of `value`, and its fields in order.
fn variant<'v>(named: &TypeDescription, value: &'v Dynamic) -> Result<(usize, Vec<&'v Dynamic>), Invalid> {
    let (number, fields) = match value {
        Dynamic::Variant(name, fields) => {
            let number = named.variants.iter().position(|variant| variant.name == *name);
            (number.ok_or(Invalid)?, &**fields)
        }
        fields => (0, fields),
    };
    let variant = named.variants.get(number).ok_or(Invalid)?;
    let fields: Vec<&Dynamic> = match fields {
        Dynamic::Unit => Vec::new(),
        Dynamic::List(list) => list.iter().collect(),
        Dynamic::Record(record) if record.len() == variant.fields.len() => {
            let find = |name: &String| record.iter().find(|(known, _)| known == name).map(|(_, value)| value);
            let all = variant.fields.iter().map(|field| find(&field.name).ok_or(Invalid));
            all.collect::<Result<_, _>>()?
        }
        _ => return Err(Invalid),
    };
    if fields.len() == variant.fields.len() { Ok((number, fields)) } else { Err(Invalid) }
}

/// Returns fields in the form in which they are shown: with their names, unless the names are numbers.
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

/// Returns `number`, if it fits into this many bits.
fn fits(number: u128, bits: u32) -> Result<u128, Invalid> {
    if bits == 128 || number >> bits == 0 { Ok(number) } else { Err(Invalid) }
}

/// Returns the word of `number`, if it fits into this many bits, one of which is the sign.
fn fits_signed(number: i128, bits: u32) -> Result<i128, Invalid> {
    let rest = number >> (bits - 1);
    if rest == 0 || rest == -1 { Ok(number) } else { Err(Invalid) }
}

#[cfg(test)]
mod tests;
