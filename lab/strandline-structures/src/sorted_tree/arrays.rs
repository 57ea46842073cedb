//! The arrays of a node, of words or of values half a word long, and how they are shifted.

use strandline_core::memory::PersistentAddress;
use strandline_core::structures::value::with_buffer;
use strandline_core::transaction::{Abort, Transaction};

/// The number of half-word values that fit a word, and the bits of each.
pub const HALVES: u64 = 2;
pub const HALF_BITS: u32 = u32::BITS;
pub const LOW: u64 = u32::MAX as u64;

/// Inserts `word` at `index` of the `count` words from `at` on, and shifts the later ones by one.
pub fn insert_word(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    index: u64,
    count: u64,
    word: u64,
) -> Result<(), Abort> {
    if index == count {
        return tx.write(at.word(index), word);
    }
    with_buffer(1 + count - index, |words| {
        words[0] = word;
        tx.read_range(at.word(index), &mut words[1..])?;
        tx.write_range(at.word(index), words)
    })
}

/// Removes the word at `index` of the `count` words from `at` on.
pub fn remove_word(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    index: u64,
    count: u64,
) -> Result<(), Abort> {
    if index + 1 == count {
        return Ok(());
    }
    with_buffer(count - index - 1, |words| {
        tx.read_range(at.word(index + 1), words)?;
        tx.write_range(at.word(index), words)
    })
}

/// Like [`insert_word`], for values of half a word.
pub fn insert_half(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    index: u64,
    count: u64,
    value: u64,
) -> Result<(), Abort> {
    // The last word may get its first value.
    let (first, last) = (index / HALVES, count / HALVES);
    with_buffer(1 + last - first, |words| {
        tx.read_range(at.word(first), words)?;
        for i in (1..words.len()).rev() {
            words[i] = words[i] << HALF_BITS | words[i - 1] >> HALF_BITS;
        }
        let (low, high) = match index % HALVES {
            0 => (value, words[0]),
            _ => (words[0] & LOW, value),
        };
        words[0] = low | high << HALF_BITS;
        tx.write_range(at.word(first), words)
    })
}

/// Like [`remove_word`], for values of half a word.
pub fn remove_half(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    index: u64,
    count: u64,
) -> Result<(), Abort> {
    if index + 1 == count {
        return Ok(());
    }
    let (first, last) = (index / HALVES, (count - 1) / HALVES);
    with_buffer(1 + last - first, |words| {
        tx.read_range(at.word(first), words)?;
        let stays = words[0] & LOW;
        for i in 0..words.len() {
            let next = words.get(i + 1).map_or(0, |word| word << HALF_BITS);
            words[i] = words[i] >> HALF_BITS | next;
        }
        if !index.is_multiple_of(HALVES) {
            words[0] = words[0] & !LOW | stays;
        }
        // A last word with only one value becomes empty.
        let kept = words.len() - usize::from(!count.is_multiple_of(HALVES));
        tx.write_range(at.word(first), &words[..kept])
    })
}
