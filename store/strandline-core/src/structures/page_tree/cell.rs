//! Cells: a key with its value or, in an inner page, with a child.

use arrayvec::ArrayVec;

use super::KIND;
use super::outside::{self, Outside};
use super::page::{Page, most_cell_words};
use crate::memory::PersistentAddress;
use crate::structures::bytes::{check_length, put_bytes, read_bytes, with_words, write_bytes};
use crate::transaction::{Abort, Read, Transaction};

/// The bit for a value that is outside the page, in extents.
const VALUE_IN_EXTENTS: u64 = 1 << 61;
/// The bit for a value that is outside the page: in a block of its own, or in extents.
const VALUE_OUTSIDE: u64 = 1 << 62;
/// The bit for a key that is in a block of its own.
pub(super) const KEY_OUTSIDE: u64 = 1 << 63;

/// A cell: its place, and its first word.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The page that has the cell.
    pub page: PersistentAddress,
    /// The number of the word of the page at which the cell begins.
    pub(super) offset: u64,
    pub(super) head: u64,
}

/// Returns the number of bytes in the key of a cell with this first word.
pub(super) fn key_bytes(head: u64) -> u64 {
    head >> 32 & 0xffff
}

fn value_bytes(head: u64) -> u64 {
    head & 0xffff_ffff
}

pub(super) fn key_words(head: u64) -> u64 {
    if head & KEY_OUTSIDE != 0 { 1 } else { whole_words(key_bytes(head)).max(1) }
}

/// Returns the number of words that have room for `bytes` bytes, which are few enough for this to be cheaper than `div_ceil`.
fn whole_words(bytes: u64) -> u64 {
    (bytes + 7) >> 3
}

/// Returns the number of words in a cell with this first word.
pub(super) fn words(head: u64) -> u64 {
    let value = if head & VALUE_OUTSIDE != 0 { 1 } else { whole_words(value_bytes(head)) };
    1 + key_words(head) + value
}

/// Returns word `depth` of a key, with its first byte as the most significant one, so that words compare as the bytes do.
pub(super) fn word_of(key: &[u8], depth: usize) -> u64 {
    let rest = key.get(8 * depth..).unwrap_or_default();
    if let Some(&whole) = rest.first_chunk() {
        return u64::from_be_bytes(whole);
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(word)
}

/// Converts a stored word of a key into one that compares as the bytes do.
pub(super) fn stored_word(stored: u64) -> u64 {
    u64::from_be_bytes(stored.to_le_bytes())
}

/// Returns word `depth` of the key of a cell with these words, as [`word_of`] does; `None` if the key is outside.
pub(super) fn key_word(cell: &[u64], depth: usize) -> Option<u64> {
    let head = cell[0];
    if head & KEY_OUTSIDE != 0 {
        return None;
    }
    let has = (depth as u64) < whole_words(key_bytes(head));
    Some(if has { stored_word(cell.get(1 + depth).copied().unwrap_or_default()) } else { 0 })
}

const MOST_WORDS: usize = most_cell_words(512) as usize;

/// The words of a cell outside a page: new, or to be moved.
pub(super) type CellWords = ArrayVec<u64, MOST_WORDS>;

static ZEROS: [u64; MOST_WORDS] = [0; MOST_WORDS];

/// The positions of a cell's key and value among the words of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The number of the word at which the key begins.
    pub key: usize,
    /// The number of bytes in the key.
    pub key_bytes: usize,
    /// The number of the word at which the value begins.
    pub value: usize,
    /// The number of bytes in the value.
    pub value_bytes: u64,
}

/// Returns the positions of key and value of the cell that begins at word `offset` of a page with these words; `None` if one of them is in a block of
/// its own or in extents. Fails if it is beyond the page's cells instead.
pub(super) fn inside(
    tx: &mut impl Read,
    page: &Page,
    page_words: &[u64],
    offset: u64,
) -> Result<Option<Inside>, Abort> {
    let head = page_words.get(offset as usize).filter(|_| offset >= page.begin);
    let Some(&head) = head else { return Err(page.cell_outside(tx)) };
    if head & (KEY_OUTSIDE | VALUE_OUTSIDE) != 0 {
        return Ok(None);
    }
    let (key_bytes, value_bytes) = (key_bytes(head), value_bytes(head));
    let key = offset as usize + 1;
    let value = key + whole_words(key_bytes).max(1) as usize;
    if value + whole_words(value_bytes) as usize > page_words.len() {
        return Err(page.cell_outside(tx));
    }
    Ok(Some(Inside { key, key_bytes: key_bytes as usize, value, value_bytes }))
}

impl Cell {
    /// Returns the number of bytes in the value.
    pub fn value_bytes(&self) -> u64 {
        value_bytes(self.head)
    }

    /// Returns word `depth` of the key, as [`word_of`] does; `None` if the key is outside.
    pub(super) fn key_word(&self, tx: &mut impl Read, depth: usize) -> Result<Option<u64>, Abort> {
        if self.head & KEY_OUTSIDE != 0 {
            return Ok(None);
        }
        if depth as u64 >= whole_words(self.key_bytes()) {
            return Ok(Some(0));
        }
        Ok(Some(stored_word(tx.read(self.at().word(1 + depth as u64))?)))
    }

    /// Returns the number of bytes in the key.
    pub fn key_bytes(&self) -> u64 {
        key_bytes(self.head)
    }

    /// Returns the number of words that the cell takes in its page.
    pub(super) fn words(&self) -> u64 {
        words(self.head)
    }

    /// Returns the address of the cell's first word.
    pub fn at(&self) -> PersistentAddress {
        self.page.word(self.offset)
    }

    /// Returns the address of the page or block that has the key, and the number of the word at which the key begins there.
    fn key_place(&self, tx: &mut impl Read) -> Result<(PersistentAddress, u64), Abort> {
        if self.head & KEY_OUTSIDE == 0 {
            return Ok((self.page, self.offset + 1));
        }
        Ok((PersistentAddress::new(tx.read(self.at().word(1))?), 0))
    }

    /// Returns the number of the word of the page at which the value begins; if the value is outside, of the word that has its address.
    pub(super) fn value_offset(&self) -> u64 {
        self.offset + 1 + key_words(self.head)
    }

    /// Returns the place of a value that is outside the page.
    pub(super) fn value_outside(&self, tx: &mut impl Read) -> Result<Option<Outside>, Abort> {
        if self.head & VALUE_OUTSIDE == 0 {
            return Ok(None);
        }
        let at = PersistentAddress::new(tx.read(self.page.word(self.value_offset()))?);
        Ok(Some(if self.head & VALUE_IN_EXTENTS != 0 { Outside::Extents(at) } else { Outside::Block(at) }))
    }

    /// Calls `body` with the words of the value and the number of its bytes.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn with_value<R>(&self, tx: &mut impl Read, body: impl FnOnce(&[u64], u64) -> R) -> Result<R, Abort> {
        let bytes = self.value_bytes();
        match self.value_outside(tx)? {
            None => with_words(tx, self.page, self.value_offset(), bytes, body),
            Some(Outside::Block(block)) => with_words(tx, block, 0, bytes, body),
            Some(Outside::Extents(list)) => outside::with_value(tx, list, bytes, body),
        }
    }

    /// Reads the words of the value, which is in `page`, into `words`.
    pub(super) fn read_inside(
        &self,
        tx: &mut impl Read,
        page: &Page,
        words: &mut CellWords,
    ) -> Result<(), Abort> {
        let (offset, count) = (self.value_offset(), whole_words(self.value_bytes()));
        words.clear();
        if let Some(mapped) = tx.mapped_words(page.at, page.words)
            && mapped.append(offset, count, words)
        {
            return Ok(());
        }
        let zeros = ZEROS.get(..count as usize).filter(|_| offset + count <= page.words);
        let Some(zeros) = zeros else { return Err(page.cell_outside(tx)) };
        words.extend(zeros.iter().copied());
        tx.read_range(self.page.word(offset), words)
    }

    /// Calls `body` with the bytes of the value. A large value that is in one piece in memory is lent to a reader instead of copied, if it
    /// can be.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    ///
    /// # Safety
    /// The caller guarantees what [`Read::borrow_pages`] demands of pages of extents: those of the cell's tree are written to through the
    /// tree alone.
    pub unsafe fn with_bytes<R>(
        &self,
        tx: &mut impl Read,
        body: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Abort> {
        match self.value_outside(tx)? {
            // SAFETY: as the caller promises.
            Some(Outside::Extents(list)) => unsafe {
                outside::with_bytes(tx, list, self.value_bytes(), body)
            },
            _ => self.with_value(tx, |words, bytes| body(&bytemuck::cast_slice(words)[..bytes as usize])),
        }
    }

    /// Reads the key into `key`.
    ///
    /// # Errors
    /// Returns an error after a conflict or if there is damage.
    pub fn read_key(&self, tx: &mut impl Read, key: &mut Vec<u8>) -> Result<(), Abort> {
        let (block, offset) = self.key_place(tx)?;
        check_length(tx, block, offset + self.key_bytes().div_ceil(8))?;
        read_bytes(tx, block.word(offset), self.key_bytes(), key)
    }

    /// Returns the address of the child, for a cell of an inner page.
    pub(super) fn child(&self, tx: &mut impl Read) -> Result<PersistentAddress, Abort> {
        if self.value_bytes() != 8 || self.head & VALUE_OUTSIDE != 0 {
            return Err(KIND.damaged(tx, self.page, "a cell without a child"));
        }
        Ok(PersistentAddress::new(tx.read(self.child_at())?))
    }

    /// Returns the address of the word that has the child's address.
    pub(super) fn child_at(&self) -> PersistentAddress {
        self.page.word(self.offset + 1 + key_words(self.head))
    }

    /// Reads the words of the cell.
    pub(super) fn load(&self, tx: &mut impl Read) -> Result<CellWords, Abort> {
        let mut words = CellWords::new();
        if self.words() as usize > words.capacity() {
            return Err(KIND.damaged(tx, self.page, "a cell that is too large"));
        }
        for _ in 0..self.words() {
            words.push(0);
        }
        tx.read_range(self.at(), &mut words)?;
        Ok(words)
    }

    /// Frees the blocks and extents of key and value that are outside the page.
    pub(super) fn free_outside(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        if self.head & KEY_OUTSIDE != 0 {
            let (block, _) = self.key_place(tx)?;
            tx.free(block)?;
        }
        match self.value_outside(tx)? {
            Some(value) => outside::free(tx, value, self.value_bytes()),
            None => Ok(()),
        }
    }

    /// Frees the block of the key, if it has one; `words` are those of the cell.
    pub(super) fn free_key(&self, tx: &mut impl Transaction, words: &[u64]) -> Result<(), Abort> {
        if self.head & KEY_OUTSIDE == 0 { Ok(()) } else { tx.free(PersistentAddress::new(words[1])) }
    }

    /// Returns whether the value is outside the page.
    pub fn is_outside(&self) -> bool {
        self.head & VALUE_OUTSIDE != 0
    }

    /// Returns whether the key is outside the page.
    pub(super) fn is_key_outside(&self) -> bool {
        self.head & KEY_OUTSIDE != 0
    }

    /// Returns the address of the block of the key, if the key is outside the page.
    pub(super) fn key_outside(&self, tx: &mut impl Read) -> Result<Option<PersistentAddress>, Abort> {
        if self.head & KEY_OUTSIDE == 0 { Ok(None) } else { self.key_place(tx).map(|(block, _)| Some(block)) }
    }

    /// Returns the first word of the cell with a value of `bytes` bytes.
    pub(super) fn head_with(&self, bytes: u64) -> u64 {
        self.head & !0xffff_ffff | bytes
    }
}

/// Puts the words of a new cell for a page of up to `page_words` words into `cell`, which is empty. A key or value that is too large for the
/// page is stored outside.
pub(super) fn new_cell(
    tx: &mut impl Transaction,
    cell: &mut CellWords,
    page_words: u64,
    key: &[u8],
    (value, bytes): (&[u64], u64),
) -> Result<(), Abort> {
    let most = most_cell_words(page_words);
    let mut head = new_head(page_words, key, bytes);
    if words(head) <= most {
        push_key(tx, cell, head, key)?;
        cell.extend(value.iter().copied());
        return Ok(());
    }
    head |= VALUE_OUTSIDE;
    push_key(tx, cell, head, key)?;
    match outside::store(tx, value, bytes)? {
        Outside::Block(block) => cell.push(block.offset()),
        Outside::Extents(list) => {
            cell[0] |= VALUE_IN_EXTENTS;
            cell.push(list.offset());
        }
    }
    Ok(())
}

/// Puts the words of a new cell into `cell`, which is empty. Its value is in the extents that the block at `list` lists.
pub(super) fn new_outside_cell(
    tx: &mut impl Transaction,
    cell: &mut CellWords,
    page_words: u64,
    key: &[u8],
    (list, bytes): (PersistentAddress, u64),
) -> Result<(), Abort> {
    let head = new_head(page_words, key, bytes) | VALUE_OUTSIDE | VALUE_IN_EXTENTS;
    push_key(tx, cell, head, key)?;
    cell.push(list.offset());
    Ok(())
}

/// Returns the number of words in a new cell for a page of up to `page_words` words, with a value of `bytes` bytes.
pub(super) fn new_cell_words(page_words: u64, key: &[u8], bytes: u64) -> u64 {
    let head = new_head(page_words, key, bytes);
    let all = words(head);
    if all <= most_cell_words(page_words) { all } else { words(head | VALUE_OUTSIDE) }
}

/// Returns the first word of a new cell whose value is inside the page.
fn new_head(page_words: u64, key: &[u8], bytes: u64) -> u64 {
    let outside = if is_key_outside(page_words, key) { KEY_OUTSIDE } else { 0 };
    (key.len() as u64) << 32 | bytes | outside
}

/// Returns whether the key of a new cell for a page of up to `page_words` words is in a block of its own.
pub(super) fn is_key_outside(page_words: u64, key: &[u8]) -> bool {
    key.len().div_ceil(8) as u64 > most_cell_words(page_words) / 4
}

/// Appends the first words of a cell: `head`, and the key or the address of a new block with the key.
fn push_key(tx: &mut impl Transaction, cell: &mut CellWords, head: u64, key: &[u8]) -> Result<(), Abort> {
    cell.push(head);
    if head & KEY_OUTSIDE != 0 {
        let block = tx.alloc(8 * key.len().div_ceil(8) as u64)?;
        write_bytes(tx, block, key)?;
        cell.push(block.offset());
    } else {
        push_bytes(cell, key);
    }
    Ok(())
}

/// Appends a key in whole words, at least one.
fn push_bytes(cell: &mut CellWords, key: &[u8]) {
    let begin = cell.len();
    for _ in 0..key.len().div_ceil(8).max(1) {
        cell.push(0);
    }
    put_bytes(&mut cell[begin..], key);
}

/// Returns the words of a cell that refers to `child`.
pub(super) fn child_cell(
    tx: &mut impl Transaction,
    page_words: u64,
    key: &[u8],
    child: PersistentAddress,
) -> Result<CellWords, Abort> {
    let mut cell = CellWords::new();
    new_cell(tx, &mut cell, page_words, key, (&[child.offset()], 8))?;
    Ok(cell)
}
