//! Hashes of layouts: a number for the type of a pool's values, which is compared when the pool is opened.
//!
//! The hash is FNV-1a over names, versions and the hashes of the parts, computed at compile time. A tag is the first word of every typed
//! value in a pool: 16 bits that mark it as a value of the typed API, and 48 bits of its layout's hash.

const MAGIC: u64 = 0x5c7d;

/// Begins the hash of a type's layout.
pub const fn begin(name: &str, version: u32) -> u64 {
    bytes(bytes(0xcbf2_9ce4_8422_2325, name.as_bytes()), &version.to_le_bytes())
}

/// Begins the hash of a derived type's layout. It differs from that of each type of the library, whatever the name.
pub const fn begin_derived(name: &str, version: u32) -> u64 {
    bytes(bytes(begin("\0derived", 0), name.as_bytes()), &version.to_le_bytes())
}

/// Adds a variant of an enumeration to the hash; the variant's fields follow.
pub const fn variant(hash: u64, name: &str) -> u64 {
    bytes(bytes(hash, b"\0variant"), name.as_bytes())
}

/// Adds a field or another part to the hash.
pub const fn field(hash: u64, name: &str, layout: u64) -> u64 {
    bytes(bytes(hash, name.as_bytes()), &layout.to_le_bytes())
}

const fn bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    // Marks the end, so that "ab" and "c" differ from "a" and "bc".
    (hash ^ 0xff).wrapping_mul(0x100_0000_01b3)
}

/// The name in the layout of an array of packed elements.
pub const PACKED_ARRAY: &str = "packed array";
/// The name in the layout of a vector of packed elements, unless these are plain numbers.
pub const PACKED_VEC: &str = "packed Vec";

/// Returns the size in bytes of an element of a list, if the list should pack it: a value of `bytes` bytes that would otherwise take
/// `words` words. `None` if packing saves nothing; elements then are whole words.
pub const fn packed(bytes: Option<usize>, words: Option<usize>) -> Option<usize> {
    match (bytes, words) {
        (Some(bytes), Some(words)) if bytes < 8 * words => Some(bytes),
        _ => None,
    }
}

/// Returns the number of bytes that hold the number of an enumeration's variant in a packed value.
pub const fn number_of_variant(variants: usize) -> usize {
    match variants {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 8,
    }
}

/// Returns the sum of some sizes, if all are known.
pub const fn sum(sizes: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut i) = (0, 0);
    while i < sizes.len() {
        match sizes[i] {
            Some(size) => sum += size,
            None => return None,
        }
        i += 1;
    }
    Some(sum)
}

/// Returns the size of an enumeration from the sizes of its variants, if all are known: one more than the largest.
pub const fn largest(sizes: &[Option<usize>]) -> Option<usize> {
    let (mut largest, mut i) = (0, 0);
    while i < sizes.len() {
        match sizes[i] {
            Some(size) if size > largest => largest = size,
            Some(_) => {}
            None => return None,
        }
        i += 1;
    }
    Some(1 + largest)
}

/// Returns the bytes of a packed value of an enumeration from those of its variants, if all are known: the variant's number and the largest
/// variant.
pub const fn largest_packed(variants: &[Option<usize>]) -> Option<usize> {
    match largest(variants) {
        Some(bytes) => Some(number_of_variant(variants.len()) - 1 + bytes),
        None => None,
    }
}

/// Returns a size that is known.
///
/// # Panics
/// Panics if the size is not known.
pub const fn size(size: Option<usize>) -> usize {
    size.expect("values of one size have a size")
}

/// Returns the number of words in a derived type's value: `size` if it is known, otherwise those of the parts and one for the mark.
pub fn words(size: Option<usize>, parts: impl FnOnce() -> usize) -> usize {
    size.unwrap_or_else(|| 1 + parts())
}

/// Stores the mark, the type's layout, at the front of a value whose size is not fixed, so that a reader recognises a value of another
/// version. Returns the rest of the words.
pub fn mark(into: &mut [u64], size: Option<usize>, layout: u64) -> &mut [u64] {
    if size.is_some() {
        return into;
    }
    let (first, rest) = into.split_at_mut(1);
    first[0] = layout;
    rest
}

/// Takes the mark from the front of a value whose size is not fixed. Returns whether it is the mark of this layout; true without a mark.
pub fn is_marked(from: &mut &[u64], size: Option<usize>, layout: u64) -> bool {
    size.is_some() || take(from, Some(1)) == Some(&[layout])
}

/// Splits off the words of a value of this size; all words if the size is not known.
pub fn split(into: &mut [u64], size: Option<usize>) -> (&mut [u64], &mut [u64]) {
    let size = size.unwrap_or(into.len());
    into.split_at_mut(size)
}

/// Takes the words of a value of this size from the front; all words if the size is not known. `None` if there are not as many.
pub fn take<'w>(from: &mut &'w [u64], size: Option<usize>) -> Option<&'w [u64]> {
    let Some(size) = size else { return Some(from) };
    let (own, rest) = from.split_at_checked(size)?;
    *from = rest;
    Some(own)
}

/// Stores the number of a variant, of `variants`, at the front of a packed value of this size. Returns the rest of the value's bytes, and
/// the bytes behind the value.
pub fn begin_packed(
    into: &mut [u8],
    size: Option<usize>,
    variants: usize,
    number: u64,
) -> (&mut [u8], &mut [u8]) {
    let (own, behind) = into.split_at_mut(size.unwrap_or(0));
    let (first, rest) = own.split_at_mut(number_of_variant(variants));
    first.copy_from_slice(&number.to_ne_bytes()[..first.len()]);
    (rest, behind)
}

/// Takes the bytes of a packed value of this size from the front, and from these the number of its variant, of `variants`. Returns the
/// number and the rest of the value's bytes.
pub fn take_packed<'b>(from: &mut &'b [u8], size: Option<usize>, variants: usize) -> Option<(u64, &'b [u8])> {
    let (own, behind) = from.split_at_checked(size?)?;
    let (first, rest) = own.split_at_checked(number_of_variant(variants))?;
    *from = behind;
    let mut number = [0; 8];
    number[..first.len()].copy_from_slice(first);
    Some((u64::from_ne_bytes(number), rest))
}

/// Returns the tag of a value with this layout.
pub const fn tag(layout: u64) -> u64 {
    MAGIC << 48 | layout & ((1 << 48) - 1)
}

/// Stands for the tag of any layout, for readers that do not know the types.
pub const ANY_TAG: u64 = 0;

/// Returns whether a value with the tag `found` may be read as one with the tag `expected`.
pub const fn is_of(found: u64, expected: u64) -> bool {
    found == expected || expected == ANY_TAG && found >> 48 == MAGIC
}
