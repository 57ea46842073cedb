//! Hashes of layouts: what a pool's values are made of, as a number that is compared when they are opened.
//!
//! FNV-1a over names, versions and the hashes of the parts, computed by the compiler. A tag is the first word
//! of every value in a pool: 16 bits that mark it as one of the typed API, and 48 bits of its layout's hash.

const MAGIC: u64 = 0x5c7d;

/// The hash that a type's begins with.
pub const fn begin(name: &str, version: u32) -> u64 {
    bytes(bytes(0xcbf2_9ce4_8422_2325, name.as_bytes()), &version.to_le_bytes())
}

/// The hash with one more part.
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
pub const fn tag(layout: u64) -> u64 {
    MAGIC << 48 | layout & ((1 << 48) - 1)
}
