//! Packs and unpacks elements of lists by the description of their type, in the encoding of `Persist::store_packed` and `load_packed`.

use super::form::{Form, Kind, List, Named, Parts, Source, word};
use super::persist::Invalid;
use super::shape::Shape;
use strandline_core::structures::type_layout::{number_of_variant, take};

impl Form {
    /// Takes a list with packed elements, and returns the number of elements and their bytes. If the form is not such a list, takes nothing and
    /// returns `None`.
    pub fn take_packed<'w>(&self, from: &mut &'w [u64]) -> Result<Option<(u64, &'w [u8])>, Invalid> {
        let (list, count) = match &self.kind {
            Kind::Vec(list) => (list, None),
            Kind::Array(list, count) => (list, Some(*count as u64)),
            Kind::As(_, inside) => return inside.take_packed(from),
            _ => return Ok(None),
        };
        let Some(each) = list.packed else { return Ok(None) };
        let count = count.map_or_else(|| word(from), Ok)?;
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(each)).ok_or(Invalid)?;
        let words = take(from, Some(bytes.div_ceil(8))).ok_or(Invalid)?;
        Ok(Some((count, &bytemuck::cast_slice(words)[..bytes])))
    }

    /// Like [`take_packed`](Self::take_packed), but returns the forms and the words of the elements.
    pub fn unpacked(&self, from: &mut &[u64]) -> Result<Option<(Parts<'_>, Vec<u64>)>, Invalid> {
        let list = match &self.kind {
            Kind::Vec(list) | Kind::Array(list, _) => list,
            Kind::As(_, inside) => return inside.unpacked(from),
            _ => return Ok(None),
        };
        let Some((count, mut bytes)) = self.take_packed(from)? else { return Ok(None) };
        let mut words = Vec::new();
        (0..count).try_for_each(|_| list.element.unpack(&mut bytes, &mut words))?;
        Ok(Some((Parts::same(&list.element, count), words)))
    }

    /// Takes a packed value from the front of `from`, and appends its words to `to`.
    fn unpack(&self, from: &mut &[u8], to: &mut Vec<u64>) -> Result<(), Invalid> {
        match &self.kind {
            Kind::Plain(shape) => unpack_plain(shape, from, to),
            Kind::Option(inside) => {
                let bytes = inside.facts.packed.ok_or(Invalid)?;
                let is_some = if inside.is_never_zero() {
                    from.get(..bytes).ok_or(Invalid)?.iter().any(|&byte| byte != 0)
                } else {
                    let mark = take_bytes(from, 1)?[0];
                    to.push(mark.into());
                    if mark > 1 {
                        return Err(Invalid);
                    }
                    mark == 1
                };
                if is_some {
                    return inside.unpack(from, to);
                }
                take_bytes(from, bytes)?;
                to.resize(to.len() + inside.facts.size.unwrap_or(0), 0);
                Ok(())
            }
            Kind::Vec(_) => Err(Invalid),
            Kind::As(_, inside) => inside.unpack(from, to),
            Kind::Array(list, count) => {
                let begin = to.len();
                (0..*count).try_for_each(|_| list.element.unpack(from, to))?;
                list.pack_from(begin, to)
            }
            Kind::Tuple(parts) => parts.iter().try_for_each(|part| part.unpack(from, to)),
            Kind::Named(named) => {
                let mut own = take_bytes(from, named.facts.packed.ok_or(Invalid)?)?;
                let number = match named.number_bytes() {
                    0 => 0,
                    bytes => from_bytes(&Shape::Unsigned(16), take_bytes(&mut own, bytes)?) as usize,
                };
                let begin = named.begin(number, to);
                let fields = named.variants.get(number).ok_or(Invalid)?;
                fields.iter().try_for_each(|field| field.unpack(&mut own, to))?;
                named.fill(begin, to);
                Ok(())
            }
        }
    }

    /// Takes the words of a value from the front of `from`, and appends the packed value to `to`.
    fn pack(&self, from: &mut &[u64], to: &mut Vec<u8>) -> Result<(), Invalid> {
        match &self.kind {
            Kind::Plain(shape) => pack_plain(shape, from, to),
            Kind::Option(inside) => {
                let mut own = take(from, self.facts.size).ok_or(Invalid)?;
                let is_some = own.is_some(inside)?;
                if !inside.is_never_zero() {
                    to.push(is_some.into());
                }
                if is_some {
                    return inside.pack(&mut own, to);
                }
                to.resize(to.len() + inside.facts.packed.ok_or(Invalid)?, 0);
                Ok(())
            }
            Kind::Vec(_) => Err(Invalid),
            Kind::As(_, inside) => inside.pack(from, to),
            Kind::Array(list, count) => {
                let Some((_, bytes)) = self.take_packed(from)? else {
                    return (0..*count).try_for_each(|_| list.element.pack(from, to));
                };
                to.extend_from_slice(bytes);
                Ok(())
            }
            Kind::Tuple(parts) => parts.iter().try_for_each(|part| part.pack(from, to)),
            Kind::Named(named) => {
                let mut own = take(from, self.facts.size).ok_or(Invalid)?;
                let end = to.len() + named.facts.packed.ok_or(Invalid)?;
                let number = if named.description.is_enum { word(&mut own)? as usize } else { 0 };
                to.extend_from_slice(&number.to_ne_bytes()[..named.number_bytes()]);
                let fields = named.variants.get(number).ok_or(Invalid)?;
                fields.iter().try_for_each(|field| field.pack(&mut own, to))?;
                to.resize(end, 0);
                Ok(())
            }
        }
    }
}

impl List {
    /// Packs the elements whose words are in `to` from index `begin` on, if elements of the list are packed.
    pub fn pack_from(&self, begin: usize, to: &mut Vec<u64>) -> Result<(), Invalid> {
        if self.packed.is_none() {
            return Ok(());
        }
        let (mut from, mut bytes) = (&to[begin..], Vec::new());
        while !from.is_empty() {
            self.element.pack(&mut from, &mut bytes)?;
        }
        to.truncate(begin);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        to.extend(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)));
        Ok(())
    }
}

impl Named {
    /// Returns the number of bytes that the variant's number takes in a packed value.
    pub fn number_bytes(&self) -> usize {
        if self.description.is_enum { number_of_variant(self.variants.len()) } else { 0 }
    }
}

/// Returns the number of bytes that each word of a packed value of this shape takes.
fn word_bytes(shape: &Shape) -> Result<[usize; 2], Invalid> {
    let bytes = shape.packed_bytes().ok_or(Invalid)?;
    Ok([bytes.min(8), bytes.saturating_sub(8)])
}

fn unpack_plain(shape: &Shape, from: &mut &[u8], to: &mut Vec<u64>) -> Result<(), Invalid> {
    for bytes in word_bytes(shape)?.into_iter().filter(|&bytes| bytes > 0) {
        to.push(from_bytes(shape, take_bytes(from, bytes)?));
    }
    Ok(())
}

fn pack_plain(shape: &Shape, from: &mut &[u64], to: &mut Vec<u8>) -> Result<(), Invalid> {
    for bytes in word_bytes(shape)?.into_iter().filter(|&bytes| bytes > 0) {
        let word = word(from)?;
        let packed = &word.to_ne_bytes()[..bytes];
        // A damaged number may not fit into the packed bytes.
        if from_bytes(shape, packed) != word {
            return Err(Invalid);
        }
        to.extend_from_slice(packed);
    }
    Ok(())
}

/// Returns the word of a number that was packed as these bytes.
fn from_bytes(shape: &Shape, bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let word = u64::from_ne_bytes(all);
    let unused = 64 - 8 * bytes.len() as u32;
    if matches!(shape, Shape::Signed(_)) { ((word << unused) as i64 >> unused) as u64 } else { word }
}

fn take_bytes<'b>(from: &mut &'b [u8], count: usize) -> Result<&'b [u8], Invalid> {
    let (taken, rest) = from.split_at_checked(count).ok_or(Invalid)?;
    *from = rest;
    Ok(taken)
}
