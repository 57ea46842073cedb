//! A set of cache lines for bulk persistence. It yields each line once, in the order of addresses, which is fast in memory.
//!
//! The set is a bitmap in parts of 2 MB of pool; a part exists once a line in it is added. A transaction only has to set a few bits, whereas sorting
//! a list took as long as writing the lines back.

use crate::memory::{LINE_BYTES, PersistentAddress};

const PART_WORDS: usize = 512;
const PART_LINES: u64 = 64 * PART_WORDS as u64;

/// A set of a pool's lines.
#[derive(Default)]
pub struct LineSet {
    parts: Vec<Option<Box<[u64; PART_WORDS]>>>,
}

impl LineSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the line of `at`.
    pub fn insert(&mut self, at: PersistentAddress) {
        let line = at.offset() / LINE_BYTES;
        let part = (line / PART_LINES) as usize;
        if part >= self.parts.len() {
            self.parts.resize_with(part + 1, || None);
        }
        let part = self.parts[part].get_or_insert_with(|| Box::new([0; PART_WORDS]));
        part[(line % PART_LINES / 64) as usize] |= 1 << (line % 64);
    }

    /// Calls `act` with each line, in the order of addresses.
    pub fn for_each(&self, mut act: impl FnMut(PersistentAddress)) {
        for (part, words) in (0..).zip(&self.parts) {
            let Some(words) = words else { continue };
            for (word, &bits) in (0..).zip(words.iter()) {
                let first = part * PART_LINES + 64 * word;
                let mut rest = bits;
                while rest != 0 {
                    act(PersistentAddress::new((first + u64::from(rest.trailing_zeros())) * LINE_BYTES));
                    rest &= rest - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_is_a_set_in_order(offsets in proptest::collection::vec(0..9u64 << 20, 0..200)) {
            let mut set = LineSet::new();
            let mut model = std::collections::BTreeSet::new();
            for at in offsets.into_iter().map(PersistentAddress::new) {
                set.insert(at);
                model.insert(at.line());
            }
            let mut lines = Vec::new();
            set.for_each(|line| lines.push(line));
            proptest::prop_assert!(lines.into_iter().eq(model));
        }
    }
}
