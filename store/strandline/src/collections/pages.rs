//! The blocks of an ordered map: its header, and the tree whose pages hold its pairs.

use crate::value::check::{Checker, Pair};
use crate::value::pointer::{check_block, read_tagged};
use strandline_core::error;
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{PageTree, Survey};
use strandline_core::transaction::{Abort, Read, Transaction};

/// Number of words in a map's header: its tag and the header of the tree.
pub(crate) const HEADER_WORDS: usize = 1 + PageTree::HEADER_WORDS;
/// Size of the largest pages in bytes. The operating system reads this much when a thread touches one of them.
pub(crate) const PAGE_BYTES: u64 = strandline_core::memory::PAGE_BYTES;

/// Returns the tag of a map whose keys and values have these layouts.
pub(crate) const fn tag(key: u64, value: u64) -> u64 {
    layout::tag(layout::field(layout::field(layout::begin("OrderedMap", 2), "", key), "", value))
}

/// Returns the tree of the map whose header is at `at`, which must have the tag `tag`.
pub(crate) fn tree(tx: &mut impl Read, at: PersistentAddress, tag: u64) -> Result<PageTree, Abort> {
    let [_, header @ ..] = read_tagged::<HEADER_WORDS>(tx, at, tag, "OrderedMap")?;
    PageTree::of_header(tx, at.word(1), header)
}

/// Like [`tree`], but also checks that the header may be written.
pub(crate) fn tree_to_write(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    tag: u64,
) -> Result<PageTree, Abort> {
    check_block(tx, at, LINE_BYTES as usize / 8, "OrderedMap")?;
    tree(tx, at, tag)
}

/// Checks the map at `at`, which must have the tag `tag`, and calls `pair` for each of its pairs.
pub(crate) fn survey<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    tag: u64,
    pair: Pair<'_, 'v, 'p>,
) -> error::Result<()> {
    let Some(tree) = checker.read(|tx| tree(tx, at, tag))? else { return Ok(()) };
    tree.survey(checker, |checker, cell, key| {
        let value = checker.read(|tx| cell.with_value(tx, |words, _| words.to_vec()))?;
        value.map_or(Ok(()), |value| pair(checker, cell.at(), key, &value, cell.value_bytes()))
    })
}
