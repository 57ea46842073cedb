//! The names of types in a pool's descriptions.

use std::sync::Arc;

/// The largest nesting depth of types that a pool describes.
pub(crate) const DEEPEST: usize = 64;

/// A type, parsed from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Unit,
    Bool,
    Char,
    /// A number with this many bits, in one word or two.
    Unsigned(u32),
    Signed(u32),
    Float(u32),
    /// `usize`, or `isize` if `true`, which takes one word.
    Size(bool),
    Duration,
    String,
    Option(Box<Shape>),
    Vec(Box<Shape>),
    Array(Box<Shape>, usize),
    Tuple(Vec<Shape>),
    /// A type with this name that is stored as the shape. A range is stored as two values of it.
    As(&'static str, Box<Shape>),
    /// A structure or an enumeration.
    Named(String),
    /// A pointer or a collection, as it is described. Its target may contain the same type again, so it is only parsed on demand, by [`Target`].
    Handle(Arc<str>),
}

/// Shapes without parts and without parameters, with their names.
static SCALARS: [(&str, Shape); 19] = [
    ("()", Shape::Unit),
    ("bool", Shape::Bool),
    ("char", Shape::Char),
    ("u8", Shape::Unsigned(8)),
    ("u16", Shape::Unsigned(16)),
    ("u32", Shape::Unsigned(32)),
    ("u64", Shape::Unsigned(64)),
    ("u128", Shape::Unsigned(128)),
    ("usize", Shape::Size(false)),
    ("i8", Shape::Signed(8)),
    ("i16", Shape::Signed(16)),
    ("i32", Shape::Signed(32)),
    ("i64", Shape::Signed(64)),
    ("i128", Shape::Signed(128)),
    ("isize", Shape::Size(true)),
    ("f32", Shape::Float(32)),
    ("f64", Shape::Float(64)),
    ("Duration", Shape::Duration),
    ("String", Shape::String),
];

/// Returns the shape of a type without parameters that is stored as another type.
fn stored_as(name: &str) -> Option<Shape> {
    let unsigned = Shape::Unsigned;
    let socket6 = || Shape::Tuple([128, 16, 32, 32].map(unsigned).to_vec());
    let (name, shape) = match name {
        "uuid" => ("uuid", Shape::Array(Box::new(unsigned(8)), 16)),
        "ipv4" => ("ipv4", unsigned(32)),
        "ipv6" => ("ipv6", unsigned(128)),
        "ip" => ("ip", Shape::Tuple(vec![Shape::Bool, unsigned(128)])),
        "socket address v4" => ("socket address v4", Shape::Tuple(vec![unsigned(32), unsigned(16)])),
        "socket address v6" => ("socket address v6", socket6()),
        "socket address" => ("socket address", Shape::Tuple(vec![Shape::Bool, socket6()])),
        "timestamp" => ("timestamp", Shape::Tuple(vec![Shape::Signed(64), unsigned(32)])),
        "date" => ("date", Shape::Signed(32)),
        "time" => ("time", Shape::Tuple(vec![unsigned(32), unsigned(32)])),
        "datetime" => ("datetime", Shape::Tuple(vec![Shape::Signed(32), unsigned(32), unsigned(32)])),
        "offset datetime" => {
            ("offset datetime", Shape::Tuple(vec![Shape::Signed(64), unsigned(32), Shape::Signed(32)]))
        }
        "zoned datetime" => {
            let zone = Shape::Option(Box::new(Shape::String));
            ("zoned datetime", Shape::Tuple(vec![Shape::Signed(64), unsigned(32), Shape::Signed(32), zone]))
        }
        "signed duration" => ("signed duration", Shape::Tuple(vec![Shape::Signed(64), Shape::Signed(32)])),
        "ordering" => ("ordering", Shape::Signed(8)),
        "path" => ("path", Shape::Vec(Box::new(unsigned(8)))),
        _ => return None,
    };
    Some(Shape::As(name, Box::new(shape)))
}

/// Returns the shape of a type with one parameter that is stored as another type.
fn stored_as_with(name: &str, inside: Shape) -> Option<Shape> {
    let (name, shape) = match name {
        "NonZero" => ("NonZero", inside),
        "Reverse" => ("Reverse", inside),
        "Set" => ("Set", Shape::Vec(Box::new(inside))),
        "Range" => ("Range", inside),
        "RangeInclusive" => ("RangeInclusive", inside),
        _ => return None,
    };
    Some(Shape::As(name, Box::new(shape)))
}

/// The target of a pointer or a collection.
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
    /// The parameter's name, as it is described.
    pub name: String,
    pub shape: Shape,
}

impl Target {
    /// Returns the target of the pointer or collection that is described as `type_name`.
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
    /// Returns the shape of the type that is described as `type_name`, or `None` if it is unknown.
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
            let inside = Self::read(rest, depth)?;
            let second = if skip(rest, ", ") { Some(Self::read(rest, depth)?) } else { None };
            if !skip(rest, ">") {
                return None;
            }
            return Self::with_parameters(name, inside, second, until(begin, rest));
        }
        if let Some((_, scalar)) = SCALARS.iter().find(|(known, _)| *known == name) {
            return Some(scalar.clone());
        }
        match name {
            "Text" | "Bytes" => Some(Self::Handle(name.into())),
            "any" | "" => None,
            name => stored_as(name).or_else(|| Some(Self::Named(name.to_owned()))),
        }
    }

    /// Returns the shape of a type with one or two parameters that is described as `all`.
    fn with_parameters(name: &str, first: Self, second: Option<Self>, all: Arc<str>) -> Option<Self> {
        match (name, second) {
            ("Option", None) => Some(Self::Option(Box::new(first))),
            ("Vec", None) => Some(Self::Vec(Box::new(first))),
            ("Ptr" | "Vector" | "Queue", None) => Some(Self::Handle(all)),
            ("OrderedMap" | "HashMap", Some(_)) => Some(Self::Handle(all)),
            ("Map", Some(value)) => {
                let pairs = Self::Vec(Box::new(Self::Tuple(vec![first, value])));
                Some(Self::As("Map", Box::new(pairs)))
            }
            (name, None) => stored_as_with(name, first),
            _ => None,
        }
    }

    /// Returns the type's name without its parameters. Layouts include only this name of the target of a pointer or collection.
    pub fn name(&self) -> &str {
        match self {
            Self::Vec(_) => "Vec",
            Self::Option(_) => "Option",
            Self::Array(..) => "array",
            Self::Tuple(_) => "tuple",
            Self::As(name, _) => name,
            Self::Named(name) => own_name(name),
            Self::Handle(name) => name.split_once('<').map_or(name, |(own, _)| own),
            scalar => SCALARS.iter().find(|(_, known)| known == scalar).map_or("", |(name, _)| name),
        }
    }

    /// Returns the number of words of every value of a shape without parts, or `None` if values differ in size.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::String | Self::Vec(_) => None,
            Self::Unit => Some(0),
            Self::Unsigned(128) | Self::Signed(128) | Self::Duration => Some(2),
            _ => Some(1),
        }
    }

    /// Returns the number of bytes of a packed value without parts, or `None` if it cannot be packed.
    pub fn packed_bytes(&self) -> Option<usize> {
        match self {
            Self::Unit => Some(0),
            Self::Bool => Some(1),
            Self::Char => Some(4),
            Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) => Some(*bits as usize / 8),
            Self::Size(_) => Some(8),
            Self::Duration => Some(12),
            _ => None,
        }
    }

    /// Returns whether the shape is a number of up to eight bytes.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) => *bits <= 64,
            Self::Size(_) => true,
            _ => false,
        }
    }
}

/// Returns the name that the program gave a type, without the number that distinguishes it from others of the same name.
pub(crate) fn own_name(name: &str) -> &str {
    name.split_once('#').map_or(name, |(own, _)| own)
}

/// Returns the part of `all` before `rest`, which is its end.
fn until(all: &str, rest: &str) -> Arc<str> {
    all[..all.len() - rest.len()].into()
}

fn skip(rest: &mut &str, token: &str) -> bool {
    rest.strip_prefix(token).is_some_and(|behind| {
        *rest = behind;
        true
    })
}
