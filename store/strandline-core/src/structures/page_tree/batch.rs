//! Pairs that are set together, in the order of their keys.

use std::cmp::Ordering;

use super::PageTree;
use super::cell::{CellWords, Inside, inside, new_cell, stored_word, word_of, words, words_inside};
use super::page::{LEAST_CELL, MOST_WORDS, Page};
use crate::structures::bytes::put_bytes;
use crate::transaction::{Abort, Transaction};

/// The least number of pairs that are put into a page together.
const SEVERAL: usize = 4;

/// Pairs to be set in a [`PageTree`]. In the order of their keys many change the same page one after another, where in random order nearly
/// each changes another one.
///
/// ```
/// # use strandline_core::example::*;
/// # use strandline_core::structures::PageTree;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::Batch;
///
/// let count = worker.run(|tx| {
///     let header = tx.alloc(16)?;
///     let tree = PageTree::create_at(tx, header, 4096)?;
///     let mut batch = Batch::default();
///     for number in [7_u64, 3, 9, 3] {
///         batch.add(&number.to_be_bytes(), &[number], 8);
///     }
///     batch.set(tx, &tree)?;
///     tree.check(tx)
/// })?;
/// assert_eq!(count, 3);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    /// For each pair: the lengths in bytes of its key (upper half) and of its value, and the words of both.
    words: Vec<u64>,
    /// For each pair: the first word of its key, in an order that is that of the keys, and its place among the words.
    pairs: Vec<(u64, usize)>,
}

impl Batch {
    /// Adds a pair. `value` has the words of a value of `bytes` bytes, fewer than 2^32.
    pub fn add(&mut self, key: &[u8], value: &[u64], bytes: u64) {
        self.pairs.push((word_of(key, 0), self.words.len()));
        self.words.push((key.len() as u64) << 32 | bytes);
        let begin = self.words.len();
        self.words.resize(begin + key.len().div_ceil(8), 0);
        put_bytes(&mut self.words[begin..], key);
        self.words.extend_from_slice(value);
    }

    /// Returns the number of words that the pairs take.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Returns key and value of the pair at a place among the words, and the length of the value in bytes.
    fn pair(&self, place: usize) -> (&[u8], &[u64], u64) {
        let (key_bytes, bytes) = ((self.words[place] >> 32) as usize, self.words[place] & 0xffff_ffff);
        let (key, rest) = self.words[place + 1..].split_at(key_bytes.div_ceil(8));
        (&bytemuck::cast_slice(key)[..key_bytes], &rest[..bytes.div_ceil(8) as usize], bytes)
    }

    /// Sets all pairs in `tree`, and removes them from the batch. Of several with the same key the last one counts.
    ///
    /// # Errors
    /// Returns the errors of [`PageTree::insert`]. Some of the pairs may then have been set.
    pub fn set(&mut self, tx: &mut impl Transaction, tree: &PageTree) -> Result<(), Abort> {
        let mut pairs = std::mem::take(&mut self.pairs);
        // Pairs with the same key remain in the order in which they came.
        pairs.sort_by(|&(first, at), &(other_first, other_at)| {
            first.cmp(&other_first).then_with(|| self.pair(at).0.cmp(self.pair(other_at).0))
        });
        pairs.dedup_by(|later, pair| {
            let is_same = later.0 == pair.0 && self.pair(later.1).0 == self.pair(pair.1).0;
            if is_same {
                *pair = *later;
            }
            is_same
        });
        let mut rest = pairs.as_slice();
        while let Some(&(_, place)) = rest.first() {
            let (key, value, bytes) = self.pair(place);
            let located = tree.locate(tx, key)?;
            let mut put = self.put_several(tx, tree, located.leaf, rest)?;
            if put == 0 {
                tree.set_at(tx, located, key, value, bytes)?;
                put = 1;
            }
            rest = &rest[put..];
        }
        self.words.clear();
        pairs.clear();
        self.pairs = pairs;
        Ok(())
    }

    /// Puts the first ones of `pairs` into `leaf` together, if several have keys between those of its cells and have room there. Returns their
    /// number.
    fn put_several(
        &self,
        tx: &mut impl Transaction,
        tree: &PageTree,
        mut leaf: Page,
        pairs: &[(u64, usize)],
    ) -> Result<usize, Abort> {
        if pairs.len() < SEVERAL || leaf.room() < SEVERAL as u64 * LEAST_CELL {
            return Ok(0);
        }
        let mut page = [0; MOST_WORDS];
        let page = &mut page[..leaf.words as usize];
        tx.read_range(leaf.at, page)?;
        let compare = |offset: u64, (first, place): (u64, usize)| {
            let Inside { key, key_bytes, .. } = inside(page, offset as usize)?;
            let order = stored_word(page[key]).cmp(&first);
            Some(order.then_with(|| bytemuck::cast_slice(&page[key..])[..key_bytes].cmp(self.pair(place).0)))
        };
        let slots = leaf.slots_in(page);
        let Some(last) = slots.offsets().next_back() else { return Ok(0) };
        let is_sound = |offset| cell_in(page, offset).is_some();
        if slots.offsets().count() as u64 != leaf.cells || !slots.offsets().all(is_sound) {
            // A pair that is set alone finds the damage if it meets it.
            return Ok(0);
        }
        let (mut several, mut added) = (0, 0);
        for &pair in pairs {
            let (key, _, bytes) = self.pair(pair.1);
            let Some(words) = words_inside(tree.most_words, key, bytes) else { break };
            if !Page::holds(leaf.words, leaf.cells as usize + several + 1, leaf.used() + added + words)
                || compare(last, pair) != Some(Ordering::Greater)
            {
                break;
            }
            (several, added) = (several + 1, added + words);
        }
        if several < SEVERAL {
            return Ok(0);
        }
        // If there is garbage where the new cells should be, all cells are written again.
        let moves = !leaf.has_between(several, added);
        let (mut cells, mut put) = (Cells::default(), 0);
        let mut old = slots.offsets().peekable();
        for &pair in &pairs[..several] {
            while let Some(offset) = old.next_if(|&offset| compare(offset, pair) == Some(Ordering::Less)) {
                cells.keep(page, offset, moves);
            }
            if old.peek().and_then(|&offset| compare(offset, pair)) != Some(Ordering::Greater) {
                break;
            }
            let (key, value, bytes) = self.pair(pair.1);
            let mut cell = CellWords::new();
            new_cell(tx, &mut cell, tree.most_words, key, (value, bytes))?;
            cells.push(&cell);
            put += 1;
        }
        old.for_each(|offset| cells.keep(page, offset, moves));
        if put > 0 && leaf.put_together(tx, &cells.words, moves, cells.offsets)? {
            tree.counters(tx)?.add(tx, put as i64)?;
            return Ok(put);
        }
        Ok(0)
    }
}

/// The cells of a page that gets several new ones.
#[derive(Default)]
struct Cells {
    /// The words of the cells that are written.
    words: Vec<u64>,
    /// For each cell, in the order of their keys, the word of the page at which it begins; `Err` with its place among the words that are written.
    offsets: Vec<Result<u64, u64>>,
}

impl Cells {
    fn push(&mut self, cell: &[u64]) {
        self.offsets.push(Err(self.words.len() as u64));
        self.words.extend_from_slice(cell);
    }

    /// Adds the cell that begins at word `offset` of `page`. It is written again if it `moves`.
    fn keep(&mut self, page: &[u64], offset: u64, moves: bool) {
        match cell_in(page, offset) {
            Some(cell) if moves => self.push(cell),
            _ => self.offsets.push(Ok(offset)),
        }
    }
}

/// Returns the words of the cell that begins at word `offset` of `page`, if all are in the page.
fn cell_in(page: &[u64], offset: u64) -> Option<&[u64]> {
    let rest = page.get(offset as usize..)?;
    rest.get(..words(*rest.first()?) as usize)
}
