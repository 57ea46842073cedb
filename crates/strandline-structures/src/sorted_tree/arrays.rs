//! The arrays of a node, of words and of values half a word long, and how they shift.

use strandline_core::memory::PersistentAddress;
use strandline_core::structures::value::with_buffer;
use strandline_core::transaction::{Abort, Transaction};

/// What keys have.
pub type V = u32;
/// Values in a word, and the bits of each.
pub const VALUES_IN_A_WORD: u64 = 2;
pub const VALUE_BITS: u32 = V::BITS;
pub const LOW: u64 = V::MAX as u64;

/// Puts `word` at `index` of the `count` words from `at` on, and those behind it one further.
#[inline(always)]
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

/// Takes out the word at `index` of the `count` words from `at` on.
#[inline(always)]
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

/// As [`insert_word`], of values.
#[inline(always)]
pub fn insert_value(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    index: u64,
    count: u64,
    value: V,
) -> Result<(), Abort> {
    // The last word may get its first value.
    let (first, last) = (index / VALUES_IN_A_WORD, count / VALUES_IN_A_WORD);
    with_buffer(1 + last - first, |words| {
        tx.read_range(at.word(first), words)?;
        for i in (1..words.len()).rev() {
            words[i] = words[i] << VALUE_BITS | words[i - 1] >> VALUE_BITS;
        }
        let (low, high) = match index % VALUES_IN_A_WORD {
            0 => (value.into(), words[0]),
            _ => (words[0] & LOW, value.into()),
        };
        words[0] = low | high << VALUE_BITS;
        tx.write_range(at.word(first), words)
    })
}

/// As [`remove_word`], of values.
#[inline(always)]
pub fn remove_value(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    index: u64,
    count: u64,
) -> Result<(), Abort> {
    if index + 1 == count {
        return Ok(());
    }
    let (first, last) = (index / VALUES_IN_A_WORD, (count - 1) / VALUES_IN_A_WORD);
    with_buffer(1 + last - first, |words| {
        tx.read_range(at.word(first), words)?;
        let stays = words[0] & LOW;
        for i in 0..words.len() {
            let next = words.get(i + 1).map_or(0, |word| word << VALUE_BITS);
            words[i] = words[i] >> VALUE_BITS | next;
        }
        if !index.is_multiple_of(VALUES_IN_A_WORD) {
            words[0] = words[0] & !LOW | stays;
        }
        // A last word with one value has none any more.
        let kept = words.len() - usize::from(!count.is_multiple_of(VALUES_IN_A_WORD));
        tx.write_range(at.word(first), &words[..kept])
    })
}
