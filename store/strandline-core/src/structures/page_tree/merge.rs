//! How pairs of a batch are merged with the leaves to which they belong: new leaves take the place of some that follow each other under one inner page.
//!
//! The old leaves stay as they are. So a large transaction, which sets most batches, has neither undo records nor versions to keep of them. It puts most
//! of the new leaves into chunks that were free, which need neither.

use std::cmp::Ordering;
use std::ops::Range;

use super::cell::{
    Cell, CellWords, KEY_OUTSIDE, is_key_outside, key_bytes, new_cell, stored_word, word_of, words,
};
use super::insert::separator;
use super::page::{HEAD, Page};
use super::slots::FILLED;
use super::{Batch, PageTree};
use crate::transaction::{Abort, Read, Transaction};

/// Leaves are replaced if they get this number of pairs each, on average.
const DENSE: usize = 2;
/// The largest number of pairs that are merged at once.
const MOST_PAIRS: usize = 1 << 13;

/// The number of merges that read their leaves ahead after one has waited for the file. The first merge after them finds out whether that is still of use.
const READ_AHEAD: u32 = 64;

/// Cells in the order of their keys, which are in the page.
#[derive(Default)]
struct Cells {
    words: Vec<u64>,
    /// For each cell, the number of the word at which it ends.
    ends: Vec<usize>,
}

impl Cells {
    fn push(&mut self, cell: &[u64]) {
        self.words.extend_from_slice(cell);
        self.ends.push(self.words.len());
    }

    /// Returns the position of the words of the cells with these numbers.
    fn range(&self, numbers: &Range<usize>) -> Range<usize> {
        let end = |before: usize| before.checked_sub(1).map_or(0, |last| self.ends[last]);
        end(numbers.start)..end(numbers.end)
    }

    fn cell(&self, number: usize) -> &[u64] {
        &self.words[self.range(&(number..number + 1))]
    }

    /// Distributes the cells evenly among leaves of `page_words` words: so many that they are nearly full, or about `least` if these are more. There are
    /// several leaves if `least` is more than one. Returns the numbers of the cells of each leaf.
    fn leaves(&self, page_words: u64, least: usize) -> Vec<Range<usize>> {
        // A slot takes part of a word.
        let size = |number: usize| (FILLED * self.cell(number).len() + 1) as u64;
        let room = FILLED as u64 * (page_words * 7 / 8 - HEAD);
        let all: u64 = (0..self.ends.len()).map(size).sum();
        let wanted = all.div_ceil(room).max(least as u64);
        let (mut leaves, mut begin, mut before) = (Vec::new(), 0, 0);
        while begin < self.ends.len() {
            let goal = all * (leaves.len() as u64 + 1) / wanted;
            let mut end = begin;
            while end < self.ends.len() {
                let used = self.range(&(begin..end + 1)).len() as u64;
                let fits = Page::holds(page_words, end + 1 - begin, used) && before + size(end) / 2 <= goal;
                if end > begin && !fits {
                    break;
                }
                before += size(end);
                end += 1;
            }
            leaves.push(begin..end);
            begin = end;
        }
        leaves
    }
}

/// Returns the bytes of the key of a cell that has it inside.
fn key_of(cell: &[u64]) -> &[u8] {
    &bytemuck::cast_slice(&cell[1..])[..key_bytes(cell[0]) as usize]
}

impl PageTree {
    /// Returns the inner page above the leaf of `key`, and the leaf's number among its children; `None` if the tree has one page only.
    fn above_leaf(&self, tx: &mut impl Read, key: &[u8]) -> Result<Option<AboveLeaf>, Abort> {
        let (mut page, mut end) = (self.root(tx)?, None);
        while page.level > 0 {
            let found = page.search(tx, key)?;
            let (place, child) = Self::child(tx, &page, &found)?;
            let slots = page.slots(tx)?;
            let number = slots.index(place);
            if page.level == 1 {
                return Ok(Some(AboveLeaf { page, number, end }));
            }
            if let Some(next) = slots.at(slots.number(number + 1)) {
                page.cell(tx, next)?.read_key(tx, end.get_or_insert_default())?;
            }
            page = child;
        }
        Ok(None)
    }

    /// Reads the cells of leaves. Returns the words of the leaves, and where each cell is among them; `None` if a cell cannot be merged: it has
    /// its key outside, or there is damage, which an operation on one pair finds.
    fn cells_of(&self, tx: &mut impl Read, leaves: &[Page]) -> Result<Option<OldCells>, Abort> {
        let mut old = OldCells { words: vec![0; leaves.len() * self.most_words as usize], cells: Vec::new() };
        for (number, leaf) in leaves.iter().enumerate() {
            let begin = number * self.most_words as usize;
            let page = &mut old.words[begin..][..self.most_words as usize];
            if leaf.words != self.most_words {
                return Ok(None);
            }
            tx.read_range(leaf.at, page)?;
            let before = old.cells.len();
            let mut last = None;
            for offset in leaf.slots_in(page).offsets() {
                let rest = page.get(offset as usize..).unwrap_or_default();
                match rest.first() {
                    Some(&head)
                        if offset >= leaf.begin
                            && head & KEY_OUTSIDE == 0
                            && words(head) as usize <= rest.len()
                            && last < Some(key_of(rest)) =>
                    {
                        last = Some(key_of(rest));
                        let begin = begin + offset as usize;
                        let cell = Cell { page: leaf.at, offset, head };
                        old.cells.push((cell, begin..begin + words(head) as usize));
                    }
                    _ => return Ok(None),
                }
            }
            if (old.cells.len() - before) as u64 != leaf.cells {
                return Ok(None);
            }
        }
        Ok(Some(old))
    }
}

/// An inner page above leaves.
struct AboveLeaf {
    page: Page,
    /// The number of one of the leaves among its children.
    number: usize,
    /// The least key that is beyond the page, unless the page is the last one.
    end: Option<Vec<u8>>,
}

/// The cells of some leaves.
struct OldCells {
    /// The words of the leaves.
    words: Vec<u64>,
    /// In the order of their keys, each with the position of its words.
    cells: Vec<(Cell, Range<usize>)>,
}

impl Batch {
    /// Merges the first ones of `pairs`, none of which is behind all pairs in the tree, with the leaves to which they belong, which follow each other
    /// under one inner page. Returns the number of these pairs; 0 if they are too few for the leaves, so that the first one is to be set alone. Counts
    /// `read_ahead` down: until it is zero, all leaves of a merge are read from the file together.
    pub(super) fn merge(
        &self,
        tx: &mut impl Transaction,
        tree: &PageTree,
        pairs: &[(u64, usize)],
        read_ahead: &mut u32,
    ) -> Result<usize, Abort> {
        let first_key = self.pair(pairs[0].1).0;
        let Some(AboveLeaf { page: mut parent, number, end }) = tree.above_leaf(tx, first_key)? else {
            return Ok(0);
        };
        let count_before = |pairs: &[(u64, usize)], key: &[u8]| {
            let first = word_of(key, 0);
            pairs
                .partition_point(|pair| pair.0.cmp(&first).then_with(|| self.pair(pair.1).0.cmp(key)).is_lt())
        };
        let mut pairs = &pairs[..pairs.len().min(MOST_PAIRS)];
        if let Some(end) = &end {
            pairs = &pairs[..count_before(pairs, end)];
        }
        let mut slots = parent.slots(tx)?;
        let (mut children, mut key) = (Vec::new(), Vec::new());
        for offset in slots.offsets_of(number..usize::MAX) {
            let cell = parent.cell(tx, offset)?;
            if !children.is_empty() {
                cell.read_key(tx, &mut key)?;
                if count_before(pairs, &key) == pairs.len() {
                    break;
                }
            }
            children.push(cell.child(tx)?);
        }
        if pairs.len() < DENSE * children.len() {
            return Ok(0);
        }
        let waited = tx.pages_waited_for();
        if *read_ahead > 0 {
            *read_ahead -= 1;
            tx.read_ahead(&mut children.clone(), tree.most_words as usize, 0);
        }
        let mut leaves = Vec::with_capacity(children.len());
        for child in children {
            leaves.push(Page::load(tx, child, Some(0))?);
        }
        let old = tree.cells_of(tx, &leaves)?;
        if tx.pages_waited_for() != waited {
            *read_ahead = READ_AHEAD;
        }
        let Some(old) = old else { return Ok(0) };
        let is_outside = |&(_, place): &(u64, usize)| is_key_outside(tree.most_words, self.pair(place).0);
        pairs = &pairs[..pairs.iter().position(is_outside).unwrap_or(pairs.len())];
        if pairs.len() < DENSE * leaves.len() {
            return Ok(0);
        }
        let cells = self.merged(tx, tree, &old, pairs)?;
        tree.counters(tx)?.add(tx, cells.ends.len() as i64 - old.cells.len() as i64)?;
        // The first new leaf gets the place of the first old one in the inner page, and the others get new places.
        let others = number + 1..number + leaves.len();
        for words in parent.take(tx, &mut slots, others)? {
            Cell { page: parent.at, offset: 0, head: words[0] }.free_key(tx, &words)?;
        }
        // An inner root keeps two children at least.
        for numbers in cells.leaves(tree.most_words, leaves.len()) {
            let lengths = numbers.clone().map(|number| cells.cell(number).len());
            let all = &cells.words[cells.range(&numbers)];
            let at = tx.alloc(8 * tree.most_words)?;
            Page::write(tx, at, (tree.most_words, 0), lengths, all)?;
            if numbers.start == 0 {
                parent.replace_child(tx, &slots, number, at)?;
            } else {
                let low = key_of(cells.cell(numbers.start - 1));
                tree.add_leaf(tx, separator(low, key_of(cells.cell(numbers.start))), at)?;
            }
        }
        for leaf in leaves {
            tx.free(leaf.at)?;
        }
        Ok(pairs.len())
    }

    /// Returns the cells of leaves and pairs together. A pair replaces a cell with the same key.
    fn merged(
        &self,
        tx: &mut impl Transaction,
        tree: &PageTree,
        old: &OldCells,
        pairs: &[(u64, usize)],
    ) -> Result<Cells, Abort> {
        let mut cells = Cells::default();
        let push = |tx: &mut _, cells: &mut Cells, place: usize| {
            let (key, value, bytes) = self.pair(place);
            let mut cell = CellWords::new();
            new_cell(tx, &mut cell, tree.most_words, key, (value, bytes))?;
            cells.push(&cell);
            Ok(())
        };
        let mut new = pairs.iter().peekable();
        for (cell, words) in &old.cells {
            let words = &old.words[words.clone()];
            let mut is_replaced = false;
            while let Some(&&(first, place)) = new.peek() {
                let order = first.cmp(&stored_word(words[1]));
                match order.then_with(|| self.pair(place).0.cmp(key_of(words))) {
                    Ordering::Less => push(tx, &mut cells, place)?,
                    Ordering::Equal => {
                        cell.free_outside(tx)?;
                        push(tx, &mut cells, place)?;
                        is_replaced = true;
                    }
                    Ordering::Greater => break,
                }
                new.next();
            }
            if !is_replaced {
                cells.push(words);
            }
        }
        new.try_for_each(|&(_, place)| push(tx, &mut cells, place))?;
        Ok(cells)
    }
}
