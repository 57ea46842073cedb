//! Values of types that only a pool's description is known of: what lies where in their words.
//!
//! The forms are those of `values.rs` and of what `#[derive(Persist)]` makes; `tests::shapes_are_those_of_the_types` holds them together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::persist::Invalid;
use super::schema::{TypeDescription, Types, VariantDescription};
use strandline_core::structures::type_layout::take;

/// How deep types may be nested that a pool describes, and of how many parts they may be: what walks over them ends.
const DEEPEST: usize = 64;
const PARTS: usize = 1 << 16;
const WORDS: usize = 1 << 32;

/// The form of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Unit,
    Bool,
    Char,
    /// A number of so many bits, in one word or two.
    Unsigned(u32),
    Signed(u32),
    Float(u32),
    /// `usize`, or with a sign `isize`: a word.
    Size(bool),
    Duration,
    String,
    Option(Box<Shape>),
    Vec(Box<Shape>),
    Array(Box<Shape>, usize),
    Tuple(Vec<Shape>),
    /// A structure or an enumeration.
    Named(String),
    /// A pointer or a collection, as it is described. What it leads to may lead back to it: [`Target`] reads on.
    Handle(Arc<str>),
}

/// What a pointer or a collection leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Ptr(Part),
    OrderedMap(Part, Part),
    HashMap(Part, Part),
    Vector(Part),
    Queue(Part),
    Text,
    Bytes,
}

/// A parameter of a pointer's or a collection's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// As it is described.
    pub name: String,
    pub shape: Shape,
}

impl Part {
    /// The part of this name, if its form is known.
    pub fn of(name: &str) -> Option<Self> {
        Some(Self { name: name.to_owned(), shape: Shape::of(name)? })
    }
}

impl Target {
    /// That of the pointer or collection that is described as `type_name`.
    pub fn of(type_name: &str) -> Option<Self> {
        match type_name {
            "Text" => return Some(Self::Text),
            "Bytes" => return Some(Self::Bytes),
            _ => {}
        }
        let (name, inside) = type_name.strip_suffix('>')?.split_once('<')?;
        let mut rest = inside;
        let mut part = || {
            let from = rest;
            let shape = Shape::read(&mut rest, 0)?;
            let name = from[..from.len() - rest.len()].to_owned();
            let _ = skip(&mut rest, ", ");
            Some(Part { name, shape })
        };
        let target = match name {
            "Ptr" => Self::Ptr(part()?),
            "OrderedMap" => Self::OrderedMap(part()?, part()?),
            "HashMap" => Self::HashMap(part()?, part()?),
            "Vector" => Self::Vector(part()?),
            "Queue" => Self::Queue(part()?),
            _ => return None,
        };
        rest.is_empty().then_some(target)
    }
}

impl Shape {
    /// The form of the type that is described as `type_name`; `None` for what is not known.
    pub fn of(type_name: &str) -> Option<Self> {
        let mut rest = type_name;
        let shape = Self::read(&mut rest, 0)?;
        rest.is_empty().then_some(shape)
    }

    fn read(rest: &mut &str, depth: usize) -> Option<Self> {
        if depth == DEEPEST {
            return None;
        }
        let depth = depth + 1;
        if skip(rest, "(") {
            let mut parts = Vec::new();
            while !skip(rest, ")") {
                parts.push(Self::read(rest, depth)?);
                let _ = skip(rest, ", ") || skip(rest, ",");
            }
            return Some(if parts.is_empty() { Self::Unit } else { Self::Tuple(parts) });
        }
        if skip(rest, "[") {
            let element = Box::new(Self::read(rest, depth)?);
            if !skip(rest, "; ") {
                return None;
            }
            let (count, behind) = rest.split_once(']')?;
            *rest = behind;
            return Some(Self::Array(element, count.parse().ok()?));
        }
        let begin = *rest;
        let end = rest.find([',', ')', ']', '>', '<', ';']).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        *rest = behind;
        if skip(rest, "<") {
            let inside = Box::new(Self::read(rest, depth)?);
            let is_map = skip(rest, ", ") && Self::read(rest, depth).is_some();
            return match (skip(rest, ">"), name) {
                (true, "Option") if !is_map => Some(Self::Option(inside)),
                (true, "Vec") if !is_map => Some(Self::Vec(inside)),
                (true, "Ptr" | "Vector" | "Queue") if !is_map => Some(Self::Handle(until(begin, rest))),
                (true, "OrderedMap" | "HashMap") if is_map => Some(Self::Handle(until(begin, rest))),
                _ => None,
            };
        }
        Some(match name {
            "bool" => Self::Bool,
            "char" => Self::Char,
            "u8" => Self::Unsigned(8),
            "u16" => Self::Unsigned(16),
            "u32" => Self::Unsigned(32),
            "u64" => Self::Unsigned(64),
            "usize" => Self::Size(false),
            "isize" => Self::Size(true),
            "u128" => Self::Unsigned(128),
            "i8" => Self::Signed(8),
            "i16" => Self::Signed(16),
            "i32" => Self::Signed(32),
            "i64" => Self::Signed(64),
            "i128" => Self::Signed(128),
            "f32" => Self::Float(32),
            "f64" => Self::Float(64),
            "Duration" => Self::Duration,
            "String" => Self::String,
            "Text" | "Bytes" => Self::Handle(name.into()),
            "any" | "" => return None,
            name => Self::Named(name.to_owned()),
        })
    }

    /// Bytes of an element, if those of a vector lie side by side.
    pub fn packed(&self) -> Option<usize> {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) if *bits <= 64 => {
                Some(*bits as usize / 8)
            }
            Self::Size(_) => Some(8),
            _ => None,
        }
    }
}

impl Shape {
    /// Whether no value is all zeros, so that an option of it has no word of its own.
    pub fn is_never_zero(&self) -> bool {
        matches!(self, Self::Handle(_))
    }

    /// As [`Shape::packed`], of what a value that stands alone is made of: it has no word for its length then.
    pub fn packed_alone(&self) -> Option<usize> {
        match self {
            Self::String => Some(1),
            Self::Vec(element) => element.packed(),
            _ => None,
        }
    }
}

/// What of `all` is before `rest`, which is its end.
fn until(all: &str, rest: &str) -> Arc<str> {
    all[..all.len() - rest.len()].into()
}

fn skip(rest: &mut &str, token: &str) -> bool {
    rest.strip_prefix(token).is_some_and(|behind| {
        *rest = behind;
        true
    })
}

/// Values of the types that are described.
#[derive(Clone, Copy)]
pub(crate) struct Values<'t> {
    pub types: &'t Types,
}

/// What a value of a structure or an enumeration begins with.
pub(crate) struct Begun<'t, 'w> {
    pub variant: &'t VariantDescription,
    /// The words of its fields, with what fills an enumeration up.
    pub fields: &'w [u64],
}

impl<'t> Values<'t> {
    pub fn named(self, name: &str) -> Result<&'t TypeDescription, Invalid> {
        self.types.get(name).ok_or(Invalid)
    }

    /// Fails unless values of the form `shape` can be walked over: their types are described, none holds itself, and their sizes are
    /// within bounds. All else here is for what has passed this.
    ///
    /// # Errors
    /// They cannot.
    pub fn check(self, shape: &Shape) -> Result<(), Invalid> {
        self.measure(shape, DEEPEST, &mut HashMap::new()).map(drop)
    }

    /// Parts of the form, and words at most of one whose size is known.
    fn measure(
        self,
        shape: &Shape,
        depth: usize,
        known: &mut HashMap<&'t str, Option<(usize, usize)>>,
    ) -> Result<(usize, usize), Invalid> {
        let depth = depth.checked_sub(1).ok_or(Invalid)?;
        let bounded = |(parts, words): (usize, usize)| {
            if parts <= PARTS && words <= WORDS { Ok((parts, words)) } else { Err(Invalid) }
        };
        match shape {
            Shape::Option(inside) | Shape::Vec(inside) => {
                let (parts, words) = self.measure(inside, depth, known)?;
                bounded((parts + 1, words + 1))
            }
            Shape::Array(inside, count) => {
                let (parts, words) = self.measure(inside, depth, known)?;
                // The count is part of a layout with 32 bits.
                let count = u32::try_from(*count).map_err(|_| Invalid)? as usize;
                // Elements without words: nothing else bounds how many are read.
                let is_empty = self.size(inside)? == Some(0);
                if is_empty && parts.saturating_mul(count) > PARTS {
                    return Err(Invalid);
                }
                let parts = if is_empty { parts * count } else { parts };
                bounded((parts + 1, words.checked_mul(count).ok_or(Invalid)?))
            }
            Shape::Tuple(inside) => {
                let mut all = (1, 0);
                for part in inside {
                    let (parts, words) = self.measure(part, depth, known)?;
                    all = bounded((all.0 + parts, all.1 + words))?;
                }
                Ok(all)
            }
            Shape::Named(name) => {
                let named = self.named(name)?;
                match known.get(named.name.as_str()) {
                    Some(Some(measured)) => return Ok(*measured),
                    Some(None) => return Err(Invalid),
                    None => known.insert(&named.name, None),
                };
                let mut all = (1, 2);
                for field in named.variants.iter().flat_map(|variant| &variant.fields) {
                    let (parts, words) = self.measure(&Self::shape(&field.type_name)?, depth, known)?;
                    all = bounded((all.0 + parts, all.1 + words))?;
                }
                known.insert(&named.name, Some(all));
                Ok(all)
            }
            _ => Ok((1, 2)),
        }
    }

    fn shape(type_name: &str) -> Result<Shape, Invalid> {
        Shape::of(type_name).ok_or(Invalid)
    }

    /// Whether a value of the form `shape`, which [`check`](Self::check) has passed, can hold a pointer or a collection.
    ///
    /// # Errors
    /// A type is not described.
    pub fn has_handles(self, shape: &Shape) -> Result<bool, Invalid> {
        self.any_handle(shape, &mut HashSet::new())
    }

    fn any_handle(self, shape: &Shape, seen: &mut HashSet<&'t str>) -> Result<bool, Invalid> {
        match shape {
            Shape::Handle(_) => Ok(true),
            Shape::Option(inside) | Shape::Vec(inside) | Shape::Array(inside, _) => {
                self.any_handle(inside, seen)
            }
            Shape::Tuple(parts) => {
                parts.iter().try_fold(false, |any, part| Ok(any || self.any_handle(part, seen)?))
            }
            Shape::Named(name) => {
                let named = self.named(name)?;
                if !seen.insert(&named.name) {
                    return Ok(false);
                }
                let mut fields = named.variants.iter().flat_map(|variant| &variant.fields);
                fields.try_fold(false, |any, field| {
                    Ok(any || self.any_handle(&Self::shape(&field.type_name)?, seen)?)
                })
            }
            _ => Ok(false),
        }
    }

    /// Words that every value takes; `None` where they differ.
    ///
    /// # Errors
    /// A type is not described.
    pub fn size(self, shape: &Shape) -> Result<Option<usize>, Invalid> {
        Ok(match shape {
            Shape::Unit => Some(0),
            Shape::Unsigned(128) | Shape::Signed(128) | Shape::Duration => Some(2),
            Shape::Bool
            | Shape::Char
            | Shape::Unsigned(_)
            | Shape::Signed(_)
            | Shape::Float(_)
            | Shape::Size(_)
            | Shape::Handle(_) => Some(1),
            Shape::String | Shape::Vec(_) => None,
            Shape::Option(inside) if inside.is_never_zero() => self.size(inside)?,
            Shape::Option(inside) => self.size(inside)?.map(|words| 1 + words),
            Shape::Array(element, count) => self.size(element)?.map(|words| words * count),
            Shape::Tuple(parts) => self.sum(parts.iter().map(|part| self.size(part)))?,
            Shape::Named(name) => {
                let named = self.named(name)?;
                let mut largest = Some(0);
                for variant in &named.variants {
                    let fields = variant.fields.iter();
                    let size = self.sum(fields.map(|field| self.size(&Self::shape(&field.type_name)?)))?;
                    largest = largest.zip(size).map(|(largest, size)| largest.max(size));
                }
                largest.map(|largest| largest + usize::from(named.is_enum))
            }
        })
    }

    fn sum(
        self,
        sizes: impl Iterator<Item = Result<Option<usize>, Invalid>>,
    ) -> Result<Option<usize>, Invalid> {
        sizes.sum::<Result<Option<usize>, _>>()
    }

    /// Takes the words of a value from the front of `from`.
    ///
    /// # Errors
    /// [`Invalid`]: there is none.
    pub fn take<'w>(self, shape: &Shape, from: &mut &'w [u64]) -> Result<&'w [u64], Invalid> {
        let all = *from;
        if let Some(size) = self.size(shape)? {
            return take(from, Some(size)).ok_or(Invalid);
        }
        match shape {
            Shape::String => drop(elements(&Shape::Unsigned(8), from)?),
            Shape::Vec(element) if element.packed().is_some() => drop(elements(element, from)?),
            Shape::Vec(element) => {
                for _ in 0..count(from, self.size(element)?)? {
                    self.take(element, from)?;
                }
            }
            Shape::Option(inside) => {
                if is_some(from)? {
                    self.take(inside, from)?;
                }
            }
            Shape::Array(element, count) => {
                for _ in 0..*count {
                    self.take(element, from)?;
                }
            }
            Shape::Tuple(parts) => {
                for part in parts {
                    self.take(part, from)?;
                }
            }
            Shape::Named(name) => {
                let Begun { variant, mut fields, .. } = self.begin(name, from)?;
                for field in &variant.fields {
                    self.take(&Self::shape(&field.type_name)?, &mut fields)?;
                }
                *from = fields;
            }
            _ => return Err(Invalid),
        }
        Ok(&all[..all.len() - from.len()])
    }

    /// Looks at the begin of a structure or an enumeration. One of a known size is taken from `from`; the end of another is
    /// where its fields end.
    ///
    /// # Errors
    /// [`Invalid`]: it is none.
    pub fn begin<'w>(self, name: &str, from: &mut &'w [u64]) -> Result<Begun<'t, 'w>, Invalid> {
        let named = self.named(name)?;
        let mut fields = match self.size(&Shape::Named(name.to_owned()))? {
            Some(size) => take(from, Some(size)).ok_or(Invalid)?,
            None => {
                if word(from)? != named.layout {
                    return Err(Invalid);
                }
                *from
            }
        };
        let number = if named.is_enum { word(&mut fields)? } else { 0 };
        let variant = usize::try_from(number).ok().and_then(|number| named.variants.get(number));
        Ok(Begun { variant: variant.ok_or(Invalid)?, fields })
    }

    /// The fields of a value that was begun, each with its words; what is left of its words is behind them.
    ///
    /// # Errors
    /// [`Invalid`]: one is no value of its type.
    pub fn fields<'w>(self, begun: &Begun<'t, 'w>) -> Result<(Vec<&'w [u64]>, &'w [u64]), Invalid> {
        let mut rest = begun.fields;
        let mut fields = Vec::with_capacity(begun.variant.fields.len());
        for field in &begun.variant.fields {
            fields.push(self.take(&Self::shape(&field.type_name)?, &mut rest)?);
        }
        Ok((fields, rest))
    }
}

/// Takes the next word.
pub(crate) fn word(from: &mut &[u64]) -> Result<u64, Invalid> {
    take(from, Some(1)).map(|words| words[0]).ok_or(Invalid)
}

/// Takes whether an option has a value.
pub(crate) fn is_some(from: &mut &[u64]) -> Result<bool, Invalid> {
    match word(from)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Invalid),
    }
}

/// Takes a number of elements, of which each takes a word at least, or nothing can be known.
pub(crate) fn count(from: &mut &[u64], each: Option<usize>) -> Result<u64, Invalid> {
    let count = word(from)?;
    let bound = if each == Some(0) { u64::from(u16::MAX) } else { from.len() as u64 };
    if count <= bound { Ok(count) } else { Err(Invalid) }
}

/// Takes packed elements: how many, and their bytes.
pub(crate) fn elements<'w>(element: &Shape, from: &mut &'w [u64]) -> Result<(usize, &'w [u8]), Invalid> {
    let each = element.packed().ok_or(Invalid)?;
    let count = usize::try_from(word(from)?).map_err(|_| Invalid)?;
    let bytes = count.checked_mul(each).ok_or(Invalid)?;
    let words = take(from, Some(bytes.div_ceil(8))).ok_or(Invalid)?;
    Ok((count, &bytemuck::cast_slice(words)[..bytes]))
}
