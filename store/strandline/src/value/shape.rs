//! Names of types, as a pool describes them.

use std::sync::Arc;

/// How deep types may be nested that a pool describes.
pub(crate) const DEEPEST: usize = 64;

/// A type by its name.
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
    /// A type of this name that is stored as the shape; a range as two of it.
    As(&'static str, Box<Shape>),
    /// A structure or an enumeration.
    Named(String),
    /// A pointer or a collection, as it is described. What it leads to may lead back to it: [`Target`] reads on.
    Handle(Arc<str>),
}

/// Shapes without parts and parameters, with their names.
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

/// The shape of a type without parameters that is stored as another one.
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

/// The shape of a type with one parameter that is stored as another one.
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
    /// The shape of the type that is described as `type_name`; `None` for what is not known.
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

    /// The shape of a type with one or two parameters, which is described as `all`.
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

    /// The name of the type without its parameters: all that layouts have of what a pointer or a collection leads to.
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

    /// Words that every value of a shape without parts takes; `None` where they differ.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::String | Self::Vec(_) => None,
            Self::Unit => Some(0),
            Self::Unsigned(128) | Self::Signed(128) | Self::Duration => Some(2),
            _ => Some(1),
        }
    }

    /// Bytes of a value without parts where it is packed; `None` where it cannot be.
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

    /// Returns whether it is a number of up to eight bytes.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) => *bits <= 64,
            Self::Size(_) => true,
            _ => false,
        }
    }
}

/// The name that a type was given, without the number that tells it from others of the same name.
pub(crate) fn own_name(name: &str) -> &str {
    name.split_once('#').map_or(name, |(own, _)| own)
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
