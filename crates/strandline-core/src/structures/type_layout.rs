//! Hashes of layouts: what a pool's values are made of, as a number that is compared when they are opened.
//!
//! FNV-1a over names, versions and the hashes of the parts, computed by the compiler. A tag is the first word
//! of every value in a pool: 16 bits that mark it as one of the typed API, and 48 bits of its layout's hash.

const MAGIC: u64 = 0x5c7d;

/// The hash that a type's begins with.
///
/// ```
/// use strandline_core::structures::type_layout::begin;
///
/// // Another name or version is another layout.
/// assert_ne!(begin("Account", 1), begin("Account", 2));
/// assert_ne!(begin("Account", 1), begin("Order", 1));
/// ```
pub const fn begin(name: &str, version: u32) -> u64 {
    bytes(bytes(0xcbf2_9ce4_8422_2325, name.as_bytes()), &version.to_le_bytes())
}

/// The hash with one more part.
///
/// ```
/// use strandline_core::structures::type_layout::{begin, field};
///
/// // A part's name is part of the layout.
/// let (account, number) = (begin("Account", 1), begin("i64", 0));
/// assert_ne!(field(account, "balance", number), field(account, "limit", number));
/// ```
pub const fn field(hash: u64, name: &str, layout: u64) -> u64 {
    bytes(bytes(hash, name.as_bytes()), &layout.to_le_bytes())
}

const fn bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x100_0000_01b3);
        i += 1;
    }
    // An end, so that "ab" and "c" differ from "a" and "bc".
    (hash ^ 0xff).wrapping_mul(0x100_0000_01b3)
}

/// The largest of some sizes; 0 for none.
///
/// ```
/// use strandline_core::structures::type_layout::largest;
///
/// // An enum takes a word for the variant, and those of its largest one.
/// const WORDS: usize = 1 + largest(&[0, 2, 1]);
/// assert_eq!(WORDS, 3);
/// ```
pub const fn largest(sizes: &[usize]) -> usize {
    let (mut largest, mut i) = (0, 0);
    while i < sizes.len() {
        if sizes[i] > largest {
            largest = sizes[i];
        }
        i += 1;
    }
    largest
}

/// The tag of a value of this layout.
///
/// ```
/// use strandline_core::structures::type_layout::{begin, tag};
///
/// let (one, other) = (tag(begin("Account", 1)), tag(begin("Account", 2)));
/// assert_ne!(one, other);
/// // What marks a word as a tag is the same for all.
/// assert_eq!(one >> 48, other >> 48);
/// ```
pub const fn tag(layout: u64) -> u64 {
    MAGIC << 48 | layout & ((1 << 48) - 1)
}
