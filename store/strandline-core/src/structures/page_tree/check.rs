//! The check of a whole tree.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::cell::{Cell, word_of};
use super::outside::{Extents, Outside};
use super::page::Page;
use super::slots::{Slots, head_of};
use super::{KIND, PAGE, PageTree};
use crate::error;
use crate::memory::{PAGE_BYTES, PersistentAddress};
use crate::structures::survey::Survey;
use crate::structures::walk::Walk;
use crate::transaction::{Abort, Read};

/// A page that is still to be checked.
struct Waiting {
    at: PersistentAddress,
    level: Option<u64>,
    /// The page's keys must be at least `low`, and less than `high`.
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// A page that was read.
struct Seen {
    page: Page,
    /// The page's cells with their keys.
    cells: Vec<(Cell, Vec<u8>)>,
    /// The page's children, which are still to be checked.
    below: VecDeque<Waiting>,
}

/// Loads a page and its cells, and checks its invariants.
fn look(tx: &mut impl Read, waiting: &Waiting, most_words: u64) -> Result<Seen, Abort> {
    let is_root = waiting.level.is_none();
    let page = Page::load(tx, waiting.at, waiting.level)?;
    let slots = page.slots(tx)?;
    let least = if page.level == 0 { u64::from(!is_root) } else { 1 + u64::from(is_root) };
    let mut cells = Vec::new();
    for offset in slots.offsets() {
        let cell = page.cell(tx, offset)?;
        let mut key = Vec::new();
        cell.read_key(tx, &mut key)?;
        cells.push((cell, key));
    }
    let wrong = if page.words > most_words || !is_root && page.words != most_words {
        Some("a page of another size")
    } else if !slots.is_sound() || cells.len() as u64 != page.cells {
        Some("a page with impossible slots")
    } else if page.cells < least {
        Some("a page with too few cells")
    } else {
        wrong_places(&page, &cells)
            .or_else(|| wrong_keys(&page, &cells, waiting))
            .or_else(|| wrong_heads(&page, &slots, &cells))
    };
    if let Some(how) = wrong {
        return Err(KIND.damaged(tx, waiting.at, how));
    }
    let below = if page.level > 0 { children(tx, &page, &cells, waiting)? } else { VecDeque::new() };
    Ok(Seen { page, cells, below })
}

/// Returns a description of the fault, if cells overlap or the garbage is miscounted.
fn wrong_places(page: &Page, cells: &[(Cell, Vec<u8>)]) -> Option<&'static str> {
    let mut places: Vec<_> =
        cells.iter().map(|(cell, _)| (cell.offset, cell.offset + cell.words())).collect();
    places.sort_unstable();
    if places.windows(2).any(|two| two[0].1 > two[1].0) {
        return Some("cells that overlap");
    }
    let used: u64 = places.iter().map(|(begin, end)| end - begin).sum();
    (used != page.used()).then_some("garbage that is counted wrongly")
}

/// Returns a description of the fault, if the keys of a page's cells are not in order or out of bounds.
fn wrong_keys(page: &Page, cells: &[(Cell, Vec<u8>)], waiting: &Waiting) -> Option<&'static str> {
    let is_inner = page.level > 0;
    if is_inner && !cells[0].1.is_empty() {
        return Some("a first child with a key");
    }
    let keys = || cells.iter().map(|(_, key)| key).skip(usize::from(is_inner));
    let is_high = |key: &Vec<u8>| waiting.high.as_ref().is_some_and(|high| key >= high);
    let is_astray =
        !keys().is_sorted_by(|one, next| one < next) || keys().any(|key| *key < waiting.low || is_high(key));
    is_astray.then_some("keys out of order")
}

/// Returns a description of the fault, if the heads in a page's slots are not those of its keys.
fn wrong_heads(page: &Page, slots: &Slots, cells: &[(Cell, Vec<u8>)]) -> Option<&'static str> {
    let heads = page.heads;
    let keyed = || slots.slots().zip(cells).skip(usize::from(page.level > 0));
    if !heads.exist() {
        return slots
            .slots()
            .any(|slot| head_of(slot) != 0)
            .then_some("a page with heads of keys that it should not have");
    }
    let (_, (_, first)) = keyed().next()?;
    let is_wrong = keyed().any(|(slot, (cell, key))| {
        let order = heads.compare_before(|number| word_of(first, number), |number| Ok(word_of(key, number)));
        cell.is_key_outside()
            || !matches!(order, Ok(Ordering::Equal))
            || head_of(slot) != heads.head(word_of(key, heads.word()))
    });
    is_wrong.then_some("a page with wrong heads of keys")
}

/// Returns the children of an inner page, with the bounds of their keys.
fn children(
    tx: &mut impl Read,
    page: &Page,
    cells: &[(Cell, Vec<u8>)],
    waiting: &Waiting,
) -> Result<VecDeque<Waiting>, Abort> {
    let mut below = VecDeque::new();
    for (number, (cell, key)) in cells.iter().enumerate() {
        below.push_back(Waiting {
            at: cell.child(tx)?,
            level: Some(page.level - 1),
            low: if number == 0 { waiting.low.clone() } else { key.clone() },
            high: cells.get(number + 1).map(|(_, key)| key.clone()).or_else(|| waiting.high.clone()),
        });
    }
    Ok(below)
}

/// Notes the blocks of a value that is outside its page. Returns whether they are sound.
fn survey_value<S: Survey>(survey: &mut S, value: Outside, bytes: u64) -> error::Result<bool> {
    const VALUE: &str = "a tree's value";
    let list = match value {
        Outside::Block(block) => return survey.block(block, bytes.div_ceil(8), VALUE),
        Outside::Extents(list) => list,
    };
    let Some(extents) = survey.read(|tx| Extents::load(tx, list, bytes))? else { return Ok(false) };
    if !survey.block(list, 1 + extents.runs.len() as u64, "the list of a value's extents")? {
        return Ok(false);
    }
    for page in extents.pages() {
        if !survey.block(page, PAGE_BYTES / 8, VALUE)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl PageTree {
    fn all(&self, tx: &mut impl Read) -> Result<Waiting, Abort> {
        let at = PersistentAddress::new(tx.read(self.top)?);
        Ok(Waiting { at, level: None, low: Vec::new(), high: None })
    }

    /// Checks the tree's invariants; returns the number of keys.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`](crate::Error::Damaged) if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let mut walk = Walk::default();
        let mut waiting = vec![self.all(tx)?];
        let mut count = 0;
        while let Some(next) = waiting.pop() {
            let seen = look(tx, &next, self.most_words)?;
            walk.visit(tx, PAGE, seen.page.at, seen.page.words)?;
            if seen.page.level == 0 {
                count += seen.page.cells;
            }
            waiting.extend(seen.below);
        }
        match self.counters(tx)?.sum(tx)? {
            Some(sum) if sum != count => {
                Err(KIND.damaged(tx, self.top, "counters with another sum than it has keys"))
            }
            _ => Ok(count),
        }
    }

    /// Surveys the tree: notes its pages and other blocks, and checks its invariants. `visit` gets each cell of a leaf with its key, in
    /// order.
    ///
    /// # Errors
    /// Returns the errors of `survey` and of `visit`.
    pub fn survey<S: Survey>(
        &self,
        survey: &mut S,
        mut visit: impl FnMut(&mut S, Cell, &[u8]) -> error::Result<()>,
    ) -> error::Result<()> {
        let root = survey.read(|tx| self.all(tx))?;
        // A walk that meets a damaged page does not find all keys.
        let (mut keys, mut is_whole) = (0, root.is_some());
        let mut waiting = VecDeque::from_iter(root);
        while let Some(next) = waiting.pop_front() {
            let Some(seen) = self.survey_page(survey, &next)? else {
                is_whole = false;
                continue;
            };
            let page = seen.page;
            if page.level == 0 {
                keys += page.cells;
            }
            for (cell, key) in &seen.cells {
                let key_block = survey.read(|tx| cell.key_outside(tx))?.flatten();
                if let Some(block) = key_block
                    && !survey.block(block, cell.key_bytes().div_ceil(8), "a tree's key")?
                {
                    continue;
                }
                let value = survey.read(|tx| cell.value_outside(tx))?.flatten();
                if let Some(value) = value
                    && !survey_value(survey, value, cell.value_bytes())?
                {
                    continue;
                }
                if page.level == 0 {
                    visit(survey, *cell, key)?;
                }
            }
            // The children of this page are checked before the pages after it.
            for below in seen.below.into_iter().rev() {
                waiting.push_front(below);
            }
        }
        match survey.read(|tx| self.counters(tx))? {
            Some(counters) => counters.survey(survey, is_whole.then_some(keys), (KIND.name(), self.top)),
            None => Ok(()),
        }
    }

    /// Notes a page's block, and reads and checks the page; `None` if it is damaged.
    fn survey_page<S: Survey>(&self, survey: &mut S, waiting: &Waiting) -> error::Result<Option<Seen>> {
        let Some(page) = survey.read(|tx| Page::load(tx, waiting.at, waiting.level))? else {
            return Ok(None);
        };
        if !survey.block(waiting.at, page.words, PAGE)? {
            return Ok(None);
        }
        survey.read(|tx| look(tx, waiting, self.most_words))
    }
}
