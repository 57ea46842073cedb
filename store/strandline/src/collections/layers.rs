//! The blocks of an ordered map: its layers, their slots, and the entries to which these lead.

use std::ops::ControlFlow;

use crate::value::check::{Checker, Pair};
use crate::value::persist::{Invalid, Persist, Stored};
use crate::value::pointer::{check_block, invalid, read_tagged};
use strandline_core::error;
use strandline_core::memory::{LINE_BYTES, LINE_WORDS, PersistentAddress};
use strandline_core::structures::type_layout as layout;
use strandline_core::structures::{BPlusTree, NodeShape, Survey, Walk};
use strandline_core::structures::{
    bytes::check_length, bytes::differs_in_more, bytes::equals, bytes::read_bytes, bytes::rewrite,
    bytes::with_words, bytes::write_bytes,
};
use strandline_core::transaction::{Abort, Read, Transaction};

pub(crate) type Tree = BPlusTree<u64, u64>;

const TREE_WORDS: usize = Tree::HEADER_WORDS;
pub(crate) const HEADER_WORDS: usize = 1 + TREE_WORDS;
/// Nodes of 512 bytes: small maps stay small, and a split fits in any log.
pub(crate) const SHAPE: NodeShape = NodeShape::of_pairs(28);
pub(crate) const LAYER: u64 = 1;
/// Slots read at a time.
pub(crate) const BATCH: usize = 128;
/// Entries read at a time: fewer than the nearest cache has room for, and than pages of which the processor knows where they are.
pub(crate) const NEAR: usize = 32;
/// The longest key: its layers are freed by recursion.
pub(crate) const MAX_KEY_BYTES: usize = 1 << 12;
/// A value of which more words change than these is written to a new place, where a large transaction has nothing to save first.
const MOST_REWRITTEN: usize = 1 << 15;

/// Word `depth` of a key's bytes.
pub(crate) fn word_of(key: &[u8], depth: usize) -> u64 {
    let rest = key.get(8 * depth..).unwrap_or_default();
    if let Some(&whole) = rest.first_chunk() {
        return u64::from_be_bytes(whole);
    }
    let mut word = [0; 8];
    let bytes = rest.len().min(8);
    word[..bytes].copy_from_slice(&rest[..bytes]);
    u64::from_be_bytes(word)
}

/// The word of a layer for a whole word of a key as it is stored, and the other way round: the first byte is the most significant one.
pub(crate) fn key_word(stored: u64) -> u64 {
    u64::from_be_bytes(stored.to_le_bytes())
}

/// The bytes of an entry's key and value, as its first word says.
pub(crate) fn lengths(head: u64) -> (u64, u64) {
    (head >> 32, head & 0xffff_ffff)
}

/// Whether the words `above` and then `word` lead to a key.
pub(crate) fn is_at(key: &[u8], above: &[u64], word: u64) -> bool {
    word_of(key, above.len()) == word
        && above.iter().enumerate().all(|(depth, &word)| word_of(key, depth) == word)
}

/// The tree whose header is at `at`.
pub(crate) fn layer(tx: &mut impl Read, at: PersistentAddress) -> Result<Tree, Abort> {
    let header: [u64; TREE_WORDS] = tx.read_array(at)?;
    Tree::of_header(tx, at, &header)
}

/// As [`layer`], if it may be written.
pub(crate) fn layer_to_write(tx: &mut impl Transaction, at: PersistentAddress) -> Result<Tree, Abort> {
    check_block(tx, at, TREE_WORDS, "an ordered map's layer")?;
    layer(tx, at)
}

/// What a slot leads to.
pub(crate) enum Slot {
    Entry(EntryBlock),
    Layer(PersistentAddress),
}

impl Slot {
    pub(crate) fn load(tx: &mut impl Read, slot: u64) -> Result<Self, Abort> {
        if slot & LAYER == 0 {
            EntryBlock::load(tx, PersistentAddress::new(slot)).map(Self::Entry)
        } else {
            Ok(Self::Layer(Self::at(slot)))
        }
    }

    /// Where it leads to.
    pub(crate) fn at(slot: u64) -> PersistentAddress {
        PersistentAddress::new(slot & !LAYER)
    }
}

/// A key with its value.
#[derive(Clone, Copy)]
pub(crate) struct EntryBlock {
    pub(crate) at: PersistentAddress,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
}

impl EntryBlock {
    pub(crate) fn load(tx: &mut impl Read, at: PersistentAddress) -> Result<Self, Abort> {
        let (key_bytes, value_bytes) = lengths(tx.read(at)?);
        if key_bytes > MAX_KEY_BYTES as u64 {
            return Err(invalid(tx, at, "an ordered map's entry"));
        }
        Ok(Self { at, key_bytes, value_bytes })
    }

    /// Writes a new one.
    pub(crate) fn create(
        tx: &mut impl Transaction,
        key: &[u8],
        value: &[u64],
        value_bytes: u64,
    ) -> Result<PersistentAddress, Abort> {
        let key_words = key.len().div_ceil(8) as u64;
        let at = tx.alloc(8 * (1 + key_words + value.len() as u64))?;
        tx.write(at, (key.len() as u64) << 32 | value_bytes)?;
        write_bytes(tx, at.word(1), key)?;
        tx.write_range(at.word(1 + key_words), value)?;
        Ok(at)
    }

    /// Gives the key this value, in place where few words of one as long differ. Returns the new entry otherwise, in whose favour this one is
    /// to be freed.
    pub(crate) fn replace(
        &self,
        tx: &mut impl Transaction,
        key: &[u8],
        value: &[u64],
        value_bytes: u64,
    ) -> Result<Option<PersistentAddress>, Abort> {
        check_block(tx, self.at, self.words(), "an ordered map's entry")?;
        if self.value_bytes.div_ceil(8) != value_bytes.div_ceil(8)
            || value.len() > MOST_REWRITTEN && differs_in_more(tx, self.value(), value, MOST_REWRITTEN)?
        {
            return Self::create(tx, key, value, value_bytes).map(Some);
        }
        if self.value_bytes != value_bytes {
            tx.write(self.at, self.key_bytes << 32 | value_bytes)?;
        }
        rewrite(tx, self.value(), value)?;
        Ok(None)
    }

    /// Words before the value.
    pub(crate) fn value_offset(&self) -> u64 {
        1 + self.key_bytes.div_ceil(8)
    }

    /// Words that it takes.
    pub(crate) fn words(&self) -> usize {
        (self.value_offset() + self.value_bytes.div_ceil(8)) as usize
    }

    pub(crate) fn value(&self) -> PersistentAddress {
        self.at.word(self.value_offset())
    }

    pub(crate) fn has_key(&self, tx: &mut impl Read, key: &[u8]) -> Result<bool, Abort> {
        Ok(self.key_bytes == key.len() as u64 && equals(tx, self.at.word(1), key)?)
    }

    pub(crate) fn key(&self, tx: &mut impl Read) -> Result<Vec<u8>, Abort> {
        let mut key = Vec::new();
        read_bytes(tx, self.at.word(1), self.key_bytes, &mut key)?;
        Ok(key)
    }

    /// Reads the key and the value into `words` from `begin` on, which grow where they are too few. Returns where they end.
    pub(crate) fn read(
        &self,
        tx: &mut impl Read,
        words: &mut Vec<u64>,
        begin: usize,
    ) -> Result<usize, Abort> {
        let end = begin + self.words() - 1;
        check_length(tx, self.at, self.words() as u64)?;
        if words.len() < end {
            words.resize(end, 0);
        }
        tx.read_range(self.at.word(1), &mut words[begin..end])?;
        Ok(end)
    }

    pub(crate) fn load_value<'p, V: Persist<'p>>(&self, tx: &mut impl Read) -> Result<V, Abort> {
        self.decode_value(tx)?.map_err(|_| invalid(tx, self.at, V::NAME))
    }

    fn decode_value<'p, V: Persist<'p>>(&self, tx: &mut impl Read) -> Result<Result<V, Invalid>, Abort> {
        with_words(tx, self.at, self.value_offset(), self.value_bytes, |words, bytes| {
            V::decode(words, bytes, Stored::new())
        })
    }
}

/// The tag of a map whose keys and values have these layouts.
pub(crate) const fn tag(key: u64, value: u64) -> u64 {
    layout::tag(layout::field(layout::field(layout::begin("OrderedMap", 1), "", key), "", value))
}

/// The first layer of the map whose header is at `at`, with the tag `tag`.
pub(crate) fn first_layer(tx: &mut impl Read, at: PersistentAddress, tag: u64) -> Result<Tree, Abort> {
    let header = read_tagged::<HEADER_WORDS>(tx, at, tag, "OrderedMap")?;
    Tree::of_header(tx, at.word(1), &header[1..])
}

/// Counts the keys of a layer and of the layers below it.
///
/// It descends from each tree's root through the inner nodes, backwards. Iteration follows the links between leaves, forwards: so the
/// two disagree where either misses keys, and a mover compares them.
pub(crate) fn count(tx: &mut impl Read, first: Tree, inline: bool) -> Result<u64, Abort> {
    let (mut count, mut walk) = (0, Walk::default());
    let mut waiting = vec![(first, 0)];
    while let Some((tree, depth)) = waiting.pop() {
        let mut below = Vec::new();
        tree.scan_back_in(tx, &mut walk, .., |_, slot| {
            match inline || slot & LAYER == 0 {
                true => count += 1,
                false => below.push(slot),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if !below.is_empty() && depth >= MAX_KEY_BYTES / 8 {
            return Err(tx.fail(error::Error::Damaged("an ordered map has too many layers".into())));
        }
        for slot in below {
            walk.visit(tx, "an ordered map's layer", Slot::at(slot), LINE_WORDS)?;
            waiting.push((layer(tx, Slot::at(slot))?, depth + 1));
        }
    }
    Ok(count)
}

/// Looks the map at `at` over, which has the tag `tag`, and whose slots are values if `inline`.
pub(crate) fn survey<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    (tag, inline): (u64, bool),
    pair: Pair<'_, 'v, 'p>,
) -> error::Result<()> {
    let Some(tree) = checker.read(|tx| first_layer(tx, at, tag))? else { return Ok(()) };
    // In the order of the keys: the slots of each layer, those of a further one where it is met.
    let mut way = vec![slots_of(checker, tree)?];
    let mut above = Vec::new();
    while let Some(slots) = way.last_mut() {
        let Some((word, slot)) = slots.next() else {
            way.pop();
            above.pop();
            continue;
        };
        let to = Slot::at(slot);
        if inline {
            pair(checker, at, &word.to_be_bytes(), &[slot], 8)?;
        } else if slot & LAYER == 0 {
            survey_entry(checker, to, &above, word, pair)?;
        } else if above.len() >= MAX_KEY_BYTES / 8 {
            checker.damaged(format!("the ordered map at {:#x} has too many layers", at.offset()));
        } else if checker.block(to, LINE_BYTES / 8, "an ordered map's layer")?
            && let Some(tree) = checker.read(|tx| layer(tx, to))?
        {
            let slots = slots_of(checker, tree)?;
            if slots.len() == 0 {
                checker.damaged(format!("the ordered map at {:#x} has an empty layer", at.offset()));
            }
            way.push(slots);
            above.push(word);
        }
    }
    Ok(())
}

/// The words of a layer with their slots, in order.
fn slots_of(checker: &mut Checker<'_, '_>, tree: Tree) -> error::Result<std::vec::IntoIter<(u64, u64)>> {
    let mut slots = tree.survey(checker)?;
    slots.sort_unstable();
    Ok(slots.into_iter())
}

fn survey_entry<'v, 'p>(
    checker: &mut Checker<'v, 'p>,
    at: PersistentAddress,
    above: &[u64],
    word: u64,
    pair: Pair<'_, 'v, 'p>,
) -> error::Result<()> {
    let Some(entry) = checker.read(|tx| EntryBlock::load(tx, at))? else { return Ok(()) };
    let words = entry.value_offset() + entry.value_bytes.div_ceil(8);
    if !checker.block(at, words, "an ordered map's entry")? {
        return Ok(());
    }
    let found = checker.read(|tx| {
        let value = |words: &[u64], _| words.to_vec();
        Ok((entry.key(tx)?, with_words(tx, at, entry.value_offset(), entry.value_bytes, value)?))
    })?;
    let Some((key, value)) = found else { return Ok(()) };
    if !is_at(&key, above, word) {
        checker.damaged(format!("an ordered map's entry at {:#x} is astray", at.offset()));
    }
    pair(checker, at, &key, &value, entry.value_bytes)
}
