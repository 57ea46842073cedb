//! Types that are known only from a pool's description, and the walk over their values.
//!
//! A [`Form`] is built once from a description. [`Form::open`] decodes one level of a value by it; functions that read, convert or skip values call
//! it for each part. The forms are those of `values.rs` and of the code that `#[derive(Persist)]` generates. `convert::tests` checks that they agree.

use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

use super::persist::Invalid;
use super::schema::{TypeDescription, Types};
use super::shape::{DEEPEST, Shape};
use strandline_core::structures::type_layout::{self as layout, take};

/// The largest number of parts in a type that a pool describes, and of words in values whose size is fixed. This bounds walks over them.
const PARTS: usize = 1 << 16;
const WORDS: usize = 1 << 32;

/// The form of a described type, which does not contain itself and whose values have bounded sizes.
#[derive(Clone)]
pub(crate) struct Form {
    pub kind: Kind,
    pub facts: Facts,
}

#[derive(Clone)]
pub(crate) enum Kind {
    /// A value without parts: a scalar, a text or a handle.
    Plain(Shape),
    Option(Arc<Form>),
    Vec(Arc<List>),
    Array(Arc<List>, usize),
    Tuple(Vec<Form>),
    /// A type with this name that is stored as the form.
    As(&'static str, Arc<Form>),
    Named(Arc<Named>),
}

/// The elements of a vector or an array.
pub(crate) struct List {
    pub element: Form,
    /// Number of bytes in an element, if elements are stored side by side.
    pub packed: Option<usize>,
}

impl List {
    /// Returns whether the elements are numbers of up to eight bytes.
    pub fn is_of_numbers(&self) -> bool {
        matches!(&self.element.kind, Kind::Plain(shape) if shape.is_number())
    }
}

/// A structure or an enumeration.
pub(crate) struct Named {
    pub description: TypeDescription,
    /// The forms of the fields of each variant.
    pub variants: Vec<Vec<Form>>,
    pub facts: Facts,
}

impl Named {
    /// Appends the header of a value of variant `number` to `to`, and returns the position where the value begins.
    pub fn begin(&self, number: usize, to: &mut Vec<u64>) -> usize {
        let begin = to.len();
        if self.facts.size.is_none() {
            to.push(self.description.layout);
        }
        if self.description.is_enum {
            to.push(number as u64);
        }
        begin
    }

    /// Pads the value that begins at `begin` to the size of its type, if that is fixed.
    pub fn fill(&self, begin: usize, to: &mut Vec<u64>) {
        if let Some(size) = self.facts.size {
            to.resize(begin + size, 0);
        }
    }
}

/// Properties that all values of a type share.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    /// Number of words of every value; `None` if values differ in size.
    pub size: Option<usize>,
    /// Number of bytes of every packed value; `None` if values cannot be packed.
    pub packed: Option<usize>,
    /// True if a value can hold a pointer or a collection.
    pub has_handles: bool,
    /// Number of parts in the form.
    parts: usize,
    /// The largest number of words of values whose size is fixed.
    words: usize,
}

impl Facts {
    /// Returns the facts of a value of this type that is followed by one of `other`'s type.
    fn and(self, other: Self) -> Result<Self, Invalid> {
        let sum = Self {
            size: self.size.zip(other.size).map(|(own, others)| own + others),
            packed: self.packed.zip(other.packed).map(|(own, others)| own + others),
            has_handles: self.has_handles || other.has_handles,
            parts: self.parts + other.parts,
            words: self.words + other.words,
        };
        sum.bounded()
    }

    /// Returns the facts of an array of `count` elements of this type.
    fn times(self, count: usize) -> Result<Self, Invalid> {
        // A layout has only 32 bits for the count.
        let count = u32::try_from(count).map_err(|_| Invalid)? as usize;
        let words = self.words.checked_mul(count).ok_or(Invalid)?;
        // Elements without words count as parts. Nothing else would bound the number of elements to read.
        let parts = if self.size == Some(0) { self.parts.saturating_mul(count) } else { self.parts };
        let [size, packed] = [self.size, self.packed].map(|each| each.map(|each| each.saturating_mul(count)));
        Self { size, packed, parts: parts.saturating_add(1), words, ..self }.bounded()
    }

    fn bounded(self) -> Result<Self, Invalid> {
        if self.parts <= PARTS && self.words <= WORDS { Ok(self) } else { Err(Invalid) }
    }
}

impl Form {
    /// Returns the form of the type that is described as `type_name` in `types`, or `None` if the type is unknown or has no form.
    pub fn of(type_name: &str, types: &Types) -> Option<Self> {
        Making { types, packs: true, known: HashMap::new() }.form(Shape::of(type_name)?, DEEPEST).ok()
    }

    /// Like [`of`](Self::of), for values of older pools, where elements of lists are not packed.
    pub fn unpacked_of(type_name: &str, types: &Types) -> Option<Self> {
        Making { types, packs: false, known: HashMap::new() }.form(Shape::of(type_name)?, DEEPEST).ok()
    }

    /// Returns whether no value consists of zeros only, so that an option of it needs no word of its own.
    pub fn is_never_zero(&self) -> bool {
        matches!(self.kind, Kind::Plain(Shape::Handle(_)) | Kind::As("NonZero", _))
    }

    /// Returns whether the type is a vector of bytes.
    pub fn is_bytes(&self) -> bool {
        matches!(&self.kind, Kind::Vec(list) if matches!(list.element.kind, Kind::Plain(Shape::Unsigned(8))))
    }

    /// Returns whether values of the type can be keys.
    pub fn can_be_key(&self) -> bool {
        match &self.kind {
            Kind::Plain(shape) => !matches!(shape, Shape::Handle(_)),
            Kind::Option(inside) => inside.can_be_key(),
            Kind::Vec(_) => self.is_bytes(),
            Kind::Array(list, _) => list.element.can_be_key(),
            Kind::Tuple(parts) => parts.iter().all(Self::can_be_key),
            Kind::As("path" | "Set" | "Map" | "Range" | "RangeInclusive" | "offset datetime", _) => false,
            Kind::As(_, inside) => inside.can_be_key(),
            Kind::Named(named) => named.variants.iter().flatten().all(Self::can_be_key),
        }
    }

    /// Returns the number of bytes of an element, if the type is a text or a vector with packed elements. Such a value has no word for its length
    /// when it stands alone.
    fn packed_alone(&self) -> Option<u64> {
        match &self.kind {
            Kind::Plain(Shape::String) => Some(1),
            Kind::Vec(list) => list.packed.map(|bytes| bytes as u64),
            Kind::As(_, inside) => inside.packed_alone(),
            _ => None,
        }
    }

    /// Decodes the stand-alone value of `bytes` bytes in `words`. `decode` must take all words.
    pub fn decode_alone<R>(
        &self,
        words: &[u64],
        bytes: u64,
        decode: impl FnOnce(&mut &[u64]) -> Result<R, Invalid>,
    ) -> Result<R, Invalid> {
        let with_length: Vec<u64>;
        let mut from = match self.packed_alone() {
            Some(each) if !bytes.is_multiple_of(each) => return Err(Invalid),
            None if bytes != 8 * words.len() as u64 => return Err(Invalid),
            Some(each) => {
                with_length = [&[bytes / each], words].concat();
                with_length.as_slice()
            }
            None => words,
        };
        let decoded = decode(&mut from)?;
        if from.is_empty() { Ok(decoded) } else { Err(Invalid) }
    }

    /// Converts the words that a value has inside another one to those of the stand-alone value, and returns them with their length in bytes.
    pub fn encoded_alone(&self, mut words: Vec<u64>) -> (Vec<u64>, u64) {
        let bytes = match self.packed_alone() {
            Some(each) => words.remove(0) * each,
            None => 8 * words.len() as u64,
        };
        (words, bytes)
    }

    /// Decodes one level of a value. `body` must take the parts in order from the source that it gets, or the value itself if it has no parts.
    /// Padding is dropped. The caller decodes lists of packed elements first, with [`unpacked`](Self::unpacked).
    pub fn open<'f, S: Source, R>(
        &'f self,
        from: &mut S,
        body: impl FnOnce(Node<'f>, &mut S) -> Result<R, Invalid>,
    ) -> Result<R, Invalid> {
        if let Kind::As(_, inside) = &self.kind {
            return inside.open(from, body);
        }
        let mut own = from.take_sized(self)?;
        let from = own.as_mut().unwrap_or(from);
        let node = match &self.kind {
            Kind::Plain(shape) => Node::Plain(shape),
            Kind::Option(inside) => Node::Option(from.is_some(inside)?.then_some(&**inside)),
            Kind::Vec(list) => Node::List(Parts::same(&list.element, from.count(&list.element)?)),
            Kind::Array(list, count) => Node::List(Parts::same(&list.element, *count as u64)),
            Kind::Tuple(forms) => Node::List(Parts { forms, times: 1 }),
            Kind::As(..) => return Err(Invalid),
            Kind::Named(named) => {
                let number = usize::try_from(from.variant(named)?).map_err(|_| Invalid)?;
                Node::Variant(named, number, named.variants.get(number).ok_or(Invalid)?)
            }
        };
        body(node, from)
    }

    /// Takes the words of a value from the front of `from`.
    pub fn skip<'w>(&self, from: &mut &'w [u64]) -> Result<&'w [u64], Invalid> {
        let all = *from;
        if self.facts.size.is_some() {
            return take(from, self.facts.size).ok_or(Invalid);
        }
        if self.take_packed(from)?.is_some() {
            return Ok(&all[..all.len() - from.len()]);
        }
        self.open(from, |node, from| match node {
            // This is a text, since all other values without parts have a fixed size.
            Node::Plain(_) => text(from).map(drop),
            Node::Option(None) => Ok(()),
            Node::Option(Some(inside)) => inside.skip(from).map(drop),
            Node::List(parts) => parts.iter().try_for_each(|part| part.skip(from).map(drop)),
            Node::Variant(_, _, fields) => fields.iter().try_for_each(|field| field.skip(from).map(drop)),
        })?;
        Ok(&all[..all.len() - from.len()])
    }
}

/// One level of a value that is being decoded.
pub(crate) enum Node<'f> {
    /// A value without parts. The body still has to take it from the source.
    Plain(&'f Shape),
    /// The form of the option's value, if it has one.
    Option(Option<&'f Form>),
    List(Parts<'f>),
    /// The number of the variant, and the forms of its fields.
    Variant(&'f Named, usize, &'f [Form]),
}

/// The forms of a list's parts.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'f> {
    forms: &'f [Form],
    times: u64,
}

impl<'f> Parts<'f> {
    pub fn same(form: &'f Form, times: u64) -> Self {
        Self { forms: slice::from_ref(form), times }
    }

    pub fn count(self) -> u64 {
        self.times * self.forms.len() as u64
    }

    pub fn iter(self) -> impl Iterator<Item = &'f Form> {
        (0..self.times).flat_map(move |_| self.forms)
    }
}

/// An encoding of values: words, or the bytes of keys. The methods return [`Invalid`] if the encoding holds no such value.
pub(crate) trait Source: Sized {
    /// Takes the mark of an option, and returns whether it has a value.
    fn is_some(&mut self, inside: &Form) -> Result<bool, Invalid>;
    /// Takes and returns the number of a vector's elements.
    fn count(&mut self, element: &Form) -> Result<u64, Invalid>;
    /// Takes the header of a structure or an enumeration, and returns the number of the variant.
    fn variant(&mut self, named: &Named) -> Result<u64, Invalid>;
    /// Takes a value with its padding, which the caller decodes by itself. Returns `None` if its size is not fixed.
    fn take_sized(&mut self, form: &Form) -> Result<Option<Self>, Invalid>;
}

impl Source for &[u64] {
    fn is_some(&mut self, inside: &Form) -> Result<bool, Invalid> {
        if inside.is_never_zero() {
            let words = inside.facts.size.and_then(|size| self.get(..size)).ok_or(Invalid)?;
            return Ok(words.iter().any(|&word| word != 0));
        }
        match word(self)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Invalid),
        }
    }

    fn count(&mut self, element: &Form) -> Result<u64, Invalid> {
        let count = word(self)?;
        // Each element takes at least one word. For elements without words there is a fixed bound.
        let bound = if element.facts.size == Some(0) { u64::from(u16::MAX) } else { self.len() as u64 };
        if count <= bound { Ok(count) } else { Err(Invalid) }
    }

    fn variant(&mut self, named: &Named) -> Result<u64, Invalid> {
        if named.facts.size.is_none() && word(self)? != named.description.layout {
            return Err(Invalid);
        }
        if named.description.is_enum { word(self) } else { Ok(0) }
    }

    fn take_sized(&mut self, form: &Form) -> Result<Option<Self>, Invalid> {
        form.facts.size.map(|size| take(self, Some(size)).ok_or(Invalid)).transpose()
    }
}

/// Takes and returns the next word.
pub(crate) fn word(from: &mut &[u64]) -> Result<u64, Invalid> {
    take(from, Some(1)).map(|words| words[0]).ok_or(Invalid)
}

/// Takes and returns the bytes of a text.
fn text<'w>(from: &mut &'w [u64]) -> Result<&'w [u8], Invalid> {
    let bytes = usize::try_from(word(from)?).map_err(|_| Invalid)?;
    let words = take(from, Some(bytes.div_ceil(8))).ok_or(Invalid)?;
    Ok(&bytemuck::cast_slice(words)[..bytes])
}

/// Builds forms from the descriptions in `types`.
struct Making<'t> {
    types: &'t Types,
    /// True if elements of lists are packed. Numbers in vectors are always packed.
    packs: bool,
    /// Structures and enumerations by name. `None` while one is being built, so that a type that contains itself is refused.
    known: HashMap<String, Option<Arc<Named>>>,
}

impl Making<'_> {
    fn form(&mut self, shape: Shape, depth: usize) -> Result<Form, Invalid> {
        let depth = depth.checked_sub(1).ok_or(Invalid)?;
        let own = |size, parts, words| Facts { size, packed: None, has_handles: false, parts, words };
        let (kind, facts) = match shape {
            Shape::Option(inside) => {
                let inside = Arc::new(self.form(*inside, depth)?);
                let mark = Some(usize::from(!inside.is_never_zero()));
                let facts = Facts { packed: mark, ..own(mark, 1, 1) }.and(inside.facts)?;
                (Kind::Option(inside), facts)
            }
            Shape::Vec(element) => {
                let list = self.list(*element, depth, false)?;
                let facts = own(None, 1, 1).and(list.element.facts)?;
                (Kind::Vec(list), facts)
            }
            Shape::Array(element, count) => {
                let list = self.list(*element, depth, true)?;
                let mut facts = list.element.facts.times(count)?;
                if list.packed.is_some() {
                    facts.size = facts.packed.map(|bytes| bytes.div_ceil(8));
                }
                (Kind::Array(list, count), facts)
            }
            Shape::Tuple(parts) => {
                let parts = parts.into_iter().map(|part| self.form(part, depth));
                let parts: Vec<Form> = parts.collect::<Result<_, _>>()?;
                let nothing = Facts { packed: Some(0), ..own(Some(0), 1, 0) };
                let facts = parts.iter().try_fold(nothing, |all, part| all.and(part.facts))?;
                (Kind::Tuple(parts), facts)
            }
            Shape::As(name, inside) => {
                let mut inside = self.form(*inside, depth)?;
                if let "Range" | "RangeInclusive" = name {
                    let facts = inside.facts.and(inside.facts)?;
                    inside = Form { kind: Kind::Tuple(vec![inside.clone(), inside]), facts };
                }
                let (facts, inside) = (inside.facts, Arc::new(inside));
                (Kind::As(name, inside), facts)
            }
            Shape::Named(name) => {
                let named = self.named(&name, depth)?;
                let facts = named.facts;
                (Kind::Named(named), facts)
            }
            plain => {
                let has_handles = matches!(plain, Shape::Handle(_));
                let packed = plain.packed_bytes();
                let facts = Facts { has_handles, packed, ..own(plain.size(), 1, 2) };
                (Kind::Plain(plain), facts)
            }
        };
        Ok(Form { kind, facts })
    }

    fn list(&mut self, element: Shape, depth: usize, is_array: bool) -> Result<Arc<List>, Invalid> {
        let is_plain = !is_array && element.is_number();
        let element = self.form(element, depth)?;
        let Facts { size, packed, .. } = element.facts;
        let packed = match () {
            () if is_plain => packed,
            () if self.packs => layout::packed(packed, size),
            () => None,
        };
        Ok(Arc::new(List { element, packed }))
    }

    fn named(&mut self, name: &str, depth: usize) -> Result<Arc<Named>, Invalid> {
        if let Some(known) = self.known.get(name) {
            return known.clone().ok_or(Invalid);
        }
        self.known.insert(name.to_owned(), None);
        let description = self.types.get(name).ok_or(Invalid)?.clone();
        let mut facts = Facts { size: Some(0), packed: Some(0), has_handles: false, parts: 1, words: 2 };
        let mut variants = Vec::with_capacity(description.variants.len());
        for variant in &description.variants {
            let (largest, most_bytes) = (facts.size, facts.packed);
            (facts.size, facts.packed) = (Some(0), Some(0));
            let mut fields = Vec::with_capacity(variant.fields.len());
            for field in &variant.fields {
                let form = self.form(Shape::of(&field.type_name).ok_or(Invalid)?, depth)?;
                facts = facts.and(form.facts)?;
                fields.push(form);
            }
            facts.size = facts.size.zip(largest).map(|(size, largest)| size.max(largest));
            facts.packed = facts.packed.zip(most_bytes).map(|(bytes, most)| bytes.max(most));
            variants.push(fields);
        }
        if description.is_enum {
            facts.size = facts.size.map(|size| 1 + size);
            facts.packed = facts.packed.map(|bytes| layout::number_of_variant(variants.len()) + bytes);
        }
        let named = Arc::new(Named { description, variants, facts });
        self.known.insert(name.to_owned(), Some(named.clone()));
        Ok(named)
    }
}
