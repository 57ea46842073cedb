//! Byte strings in the pool, padded with zeros to whole words.

use super::value::with_buffer;
use crate::error::Error;
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Read, Transaction};

/// The number of words that are read or written at a time.
const PIECE: usize = 64;

/// Returns up to eight bytes as a word.
#[inline]
pub fn word_of(bytes: &[u8]) -> u64 {
    if let Ok(whole) = bytes.try_into() {
        return u64::from_le_bytes(whole);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Encodes `bytes` into `words`, padded with zeros. Bytes for which there are no words are left out.
#[inline]
pub fn put_bytes(words: &mut [u64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, &bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_le_bytes(bytes);
    }
    if !rest.is_empty()
        && let Some(word) = words.get_mut(whole.len())
    {
        *word = word_of(rest);
    }
}

/// Writes `bytes`, padded to whole words, from address `at` on.
#[inline]
pub fn write_bytes(tx: &mut impl Transaction, at: PersistentAddress, bytes: &[u8]) -> Result<(), Abort> {
    with_piece(bytes.len(), |buffer| write_bytes_by(tx, at, bytes, buffer))
}

#[inline]
fn write_bytes_by(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    bytes: &[u8],
    buffer: &mut [u64],
) -> Result<(), Abort> {
    for (i, piece) in bytes.chunks(8 * PIECE).enumerate() {
        let words = piece.len().div_ceil(8);
        put_bytes(buffer, piece);
        tx.write_range(at.word((i * PIECE) as u64), &buffer[..words])?;
    }
    Ok(())
}

/// Writes only the words of `new` that differ from those at `at`. Returns whether any does.
#[inline]
pub fn rewrite(tx: &mut impl Transaction, at: PersistentAddress, new: &[u64]) -> Result<bool, Abort> {
    if let &[word] = new {
        return if tx.read(at)? == word { Ok(false) } else { tx.write(at, word).map(|()| true) };
    }
    rewrite_many(tx, at, new)
}

#[inline(never)]
fn rewrite_many(tx: &mut impl Transaction, at: PersistentAddress, new: &[u64]) -> Result<bool, Abort> {
    with_buffer(new.len().min(PIECE) as u64, |buffer| rewrite_by(tx, at, new, buffer))
}

#[inline]
fn rewrite_by(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    new: &[u64],
    buffer: &mut [u64],
) -> Result<bool, Abort> {
    let mut differs = false;
    for (i, piece) in new.chunks(PIECE).enumerate() {
        let at = at.word((i * PIECE) as u64);
        let old = &mut buffer[..piece.len()];
        tx.read_range(at, old)?;
        differs |= old != piece;
        let mut begin = 0;
        while begin < piece.len() {
            let rest = old[begin..].iter().zip(&piece[begin..]);
            let end = begin + rest.take_while(|(old, new)| old != new).count();
            match &piece[begin..end] {
                [] => {}
                &[word] => tx.write(at.word(begin as u64), word)?,
                words => tx.write_range(at.word(begin as u64), words)?,
            }
            begin = end + 1;
        }
    }
    Ok(differs)
}

/// Returns whether more than `most` of the words at `at` differ from `new`.
pub fn differs_in_more(
    tx: &mut impl Read,
    at: PersistentAddress,
    new: &[u64],
    most: usize,
) -> Result<bool, Abort> {
    let (mut buffer, mut differing) = ([0; PIECE], 0);
    for (i, piece) in new.chunks(PIECE).enumerate() {
        let old = &mut buffer[..piece.len()];
        tx.read_range(at.word((i * PIECE) as u64), old)?;
        differing += old.iter().zip(piece).filter(|(old, new)| old != new).count();
        if differing > most {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Calls `body` with a buffer for `bytes` bytes, but for at most [`PIECE`] words.
#[inline]
fn with_piece<R>(bytes: usize, body: impl FnOnce(&mut [u64]) -> R) -> R {
    with_buffer(bytes.div_ceil(8).min(PIECE) as u64, body)
}

/// Returns whether the bytes at `at` equal `bytes`.
#[inline]
pub fn equals(tx: &mut impl Read, at: PersistentAddress, bytes: &[u8]) -> Result<bool, Abort> {
    // Most keys are short.
    match bytes.len() {
        0 => Ok(true),
        1..=8 => Ok(tx.read(at)? == word_of(bytes)),
        9..=16 => {
            let (first, second) = bytes.split_at(8);
            Ok(tx.read_array(at)? == [word_of(first), word_of(second)])
        }
        _ => equals_many(tx, at, bytes),
    }
}

#[inline(never)]
fn equals_many(tx: &mut impl Read, at: PersistentAddress, bytes: &[u8]) -> Result<bool, Abort> {
    with_piece(bytes.len(), |buffer| equals_by(tx, at, bytes, buffer))
}

#[inline]
fn equals_by(
    tx: &mut impl Read,
    at: PersistentAddress,
    bytes: &[u8],
    buffer: &mut [u64],
) -> Result<bool, Abort> {
    for (i, piece) in bytes.chunks(8 * PIECE).enumerate() {
        let words = &mut buffer[..piece.len().div_ceil(8)];
        tx.read_range(at.word((i * PIECE) as u64), words)?;
        if words.iter().zip(piece.chunks(8)).any(|(&word, bytes)| word != word_of(bytes)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Replaces the contents of `bytes` by the `length` bytes at `at`. The vector grows piece by piece, so that a damaged length allocates no
/// more than could be read.
pub fn read_bytes(
    tx: &mut impl Read,
    at: PersistentAddress,
    length: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), Abort> {
    bytes.clear();
    with_piece(length as usize, |buffer| read_bytes_by(tx, at, length.div_ceil(8), bytes, buffer))?;
    bytes.truncate(length as usize);
    Ok(())
}

#[inline]
fn read_bytes_by(
    tx: &mut impl Read,
    at: PersistentAddress,
    words: u64,
    bytes: &mut Vec<u8>,
    buffer: &mut [u64],
) -> Result<(), Abort> {
    let mut done = 0;
    while done < words {
        let now = &mut buffer[..(words - done).min(PIECE as u64) as usize];
        tx.read_range(at.word(done), now)?;
        let from = bytes.len();
        bytes.resize(from + 8 * now.len(), 0);
        for (bytes, word) in bytes[from..].as_chunks_mut::<8>().0.iter_mut().zip(&*now) {
            *bytes = word.to_le_bytes();
        }
        done += now.len() as u64;
    }
    Ok(())
}

/// The number of words up to which a read does not check the block first: a buffer of this size is on the stack, and the check would cost
/// more than the read.
pub const FEW: u64 = 64;

/// Reads words. Inlined, so that the compiler knows their number, which is mostly that of a type.
#[inline]
pub fn read_few(tx: &mut impl Read, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
    match into {
        [a] => *a = tx.read(at)?,
        [a, b] => [*a, *b] = tx.read_array(at)?,
        [a, b, c] => [*a, *b, *c] = tx.read_array(at)?,
        [a, b, c, d] => [*a, *b, *c, *d] = tx.read_array(at)?,
        many => tx.read_range(at, many)?,
    }
    Ok(())
}

/// Fails if the block at `block` has no room for `words` words, unless they are at most [`FEW`]. Callers check before they allocate memory
/// for the words, so that a damaged length is reported as damage and does not exhaust the memory.
#[inline]
pub fn check_length(tx: &mut impl Read, block: PersistentAddress, words: u64) -> Result<(), Abort> {
    if words <= FEW { Ok(()) } else { check_room(tx, block, words) }
}

/// Fails if the block at `block` has no room for `words` words.
#[cold]
pub fn check_room(tx: &mut impl Read, block: PersistentAddress, words: u64) -> Result<(), Abort> {
    let room = tx.find_block(block)?.unwrap_or(0) / 8;
    if words <= room {
        return Ok(());
    }
    Err(tx.fail(Error::damaged(format!(
        "the length of what is stored at {:#x} is damaged: it says {words} words, and the block has {room}",
        block.offset()
    ))))
}

/// Calls `body` with the words of the `bytes` bytes that begin at word `offset` of the block at `block`, and with `bytes`.
#[inline]
pub fn with_words<T: Read, R>(
    tx: &mut T,
    block: PersistentAddress,
    offset: u64,
    bytes: u64,
    body: impl FnOnce(&[u64], u64) -> R,
) -> Result<R, Abort> {
    let words = bytes.div_ceil(8);
    check_length(tx, block, offset.saturating_add(words))?;
    if words == 1 {
        let word = tx.read(block.word(offset))?;
        return Ok(body(&[word], bytes));
    }
    with_buffer(words, |buffer| {
        tx.read_range(block.word(offset), buffer)?;
        Ok(body(buffer, bytes))
    })
}
