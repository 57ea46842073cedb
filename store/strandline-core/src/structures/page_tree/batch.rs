//! Pairs that are set together, in the order of their keys.

use super::PageTree;
use super::cell::{new_cell_words, word_of};
use crate::structures::bytes::put_bytes;
use crate::transaction::{Abort, Transaction};

/// The number of pairs that are set one by one before the next attempt to merge some.
const ALONE: usize = 16;

/// Pairs to be set in a [`PageTree`]. In the order of their keys many change the same page one after another, where in random order nearly
/// each changes another one. Pairs behind all others fill new pages. If there are several for each page, pages and pairs can be merged.
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
///     batch.set(tx, &tree, false)?;
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

    /// Returns the number of bytes that the pairs take.
    pub fn bytes(&self) -> u64 {
        (size_of_val(self.words.as_slice()) + size_of_val(self.pairs.as_slice())) as u64
    }

    /// Returns key and value of the pair at a place among the words, and the length of the value in bytes.
    pub(super) fn pair(&self, place: usize) -> (&[u8], &[u64], u64) {
        let (key_bytes, bytes) = ((self.words[place] >> 32) as usize, self.words[place] & 0xffff_ffff);
        let (key, rest) = self.words[place + 1..].split_at(key_bytes.div_ceil(8));
        (&bytemuck::cast_slice(key)[..key_bytes], &rest[..bytes.div_ceil(8) as usize], bytes)
    }

    /// Sets all pairs in `tree`. Of several with the same key the last one counts. If `merges` is set, new leaves take the place of those that get
    /// several pairs. This suits a large transaction, whose leaves are not written to the log.
    ///
    /// # Errors
    /// Returns the errors of [`PageTree::insert`]. Some of the pairs may then have been set.
    pub fn set(mut self, tx: &mut impl Transaction, tree: &PageTree, merges: bool) -> Result<(), Abort> {
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
        let greatest = self.greatest_before(tx, tree, &pairs)?;
        let is_inside =
            |&(_, place): &_| greatest.as_deref().is_some_and(|greatest| self.pair(place).0 <= greatest);
        let (inside, behind) = pairs.split_at(pairs.partition_point(is_inside));
        let (mut rest, mut alone, mut read_ahead) = (inside, 0, 0);
        while let Some(&(_, place)) = rest.first() {
            let mut put = if merges && alone == 0 { self.merge(tx, tree, rest, &mut read_ahead)? } else { 0 };
            if put == 0 {
                let (key, value, bytes) = self.pair(place);
                tree.set(tx, key, value, bytes)?;
                (put, alone) = (1, if alone == 0 { ALONE } else { alone - 1 });
            }
            rest = &rest[put..];
        }
        self.append(tx, tree, behind)
    }

    /// Returns the greatest key in the tree, or a later one if no pair is behind all pairs in the tree.
    fn greatest_before(
        &self,
        tx: &mut impl Transaction,
        tree: &PageTree,
        pairs: &[(u64, usize)],
    ) -> Result<Option<Vec<u8>>, Abort> {
        let Some(&(_, place)) = pairs.last() else { return Ok(None) };
        let last = self.pair(place).0;
        // Usually the last key's leaf shows it. To read the last leaf of the tree would conflict with transactions that change that one.
        let located = tree.locate(tx, last)?;
        if located.cell.is_none() && located.leaf.is_end(tx, located.place)? {
            tree.greatest(tx)
        } else {
            Ok(Some(last.to_vec()))
        }
    }

    /// Adds pairs behind all pairs in the tree: to its last leaf while that has room, and then to new leaves.
    fn append(
        &self,
        tx: &mut impl Transaction,
        tree: &PageTree,
        mut pairs: &[(u64, usize)],
    ) -> Result<(), Abort> {
        while let Some((&(_, place), rest)) = pairs.split_first() {
            let (key, value, bytes) = self.pair(place);
            let located = tree.locate(tx, key)?;
            if !located.has_room_for(new_cell_words(tree.most_words, key, bytes)) {
                break;
            }
            tree.insert(tx, located, key, value, bytes)?;
            pairs = rest;
        }
        if pairs.is_empty() {
            return Ok(());
        }
        let mut load = tree.load(tx)?;
        load.is_watched = false;
        for &(_, place) in pairs {
            let (key, value, bytes) = self.pair(place);
            load.push(tx, key, value, bytes)?;
        }
        load.finish(tx).map(drop)
    }
}
