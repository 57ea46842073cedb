//! Removal, and how a page with few cells is merged.

use super::cell::child_cell;
use super::page::Page;
use super::slots::Slots;
use super::{KIND, Located, PageTree};
use crate::memory::PersistentAddress;
use crate::transaction::{Abort, Transaction};

impl PageTree {
    /// Removes `key`, whose place is `located`, if it is there.
    ///
    /// # Errors
    /// Returns an error after a conflict, if the log is full or if there is damage.
    pub fn remove(&self, tx: &mut impl Transaction, located: Located, key: &[u8]) -> Result<(), Abort> {
        let Located { leaf: mut page, place, cell: Some(cell) } = located else { return Ok(()) };
        self.counters(tx)?.add(tx, -1)?;
        cell.free_outside(tx)?;
        page.remove_alone(tx, place)?;
        if self.is_full_enough(&page) {
            return Ok(());
        }
        let mut path = self.path_to(tx, &page, key)?;
        while let Some(step) = path.pop() {
            if self.is_full_enough(&page) {
                return Ok(());
            }
            let mut parent = Page::load(tx, step.page, Some(page.level + 1))?;
            let mut slots = parent.slots(tx)?;
            let number = slots.index(step.place);
            if !self.merge(tx, page, (&mut parent, &mut slots), number)? {
                return Ok(());
            }
            page = parent;
        }
        self.lower(tx, page)
    }

    /// Returns whether a page need not be merged with another one.
    fn is_full_enough(&self, page: &Page) -> bool {
        page.used() >= self.most_words / 4
    }

    /// Replaces an inner root that has one child by that child.
    fn lower(&self, tx: &mut impl Transaction, mut root: Page) -> Result<(), Abort> {
        while root.level > 0 && root.cells == 1 {
            let slots = root.slots(tx)?;
            let cell = root.cell(tx, slots.at(slots.number(0)).unwrap_or_default())?;
            let child = cell.child(tx)?;
            cell.free_outside(tx)?;
            tx.free(root.at)?;
            tx.write(self.top, child.offset())?;
            root = Page::load(tx, child, Some(root.level - 1))?;
        }
        Ok(())
    }

    /// Merges a page, child number `number` of its parent, with a sibling, or removes the page if it is empty. Returns whether the parent
    /// has lost a child.
    fn merge(
        &self,
        tx: &mut impl Transaction,
        page: Page,
        (parent, slots): (&mut Page, &mut Slots),
        number: usize,
    ) -> Result<bool, Abort> {
        if page.cells == 0 {
            tx.free(page.at)?;
            self.drop_child(tx, (parent, slots), number)?;
            return Ok(true);
        }
        for right in [number + 1, number] {
            let (Some(left), Some(offset)) = (right.checked_sub(1), slots.at(slots.number(right))) else {
                continue;
            };
            let cell = parent.cell(tx, offset)?;
            let other = if left == number { right } else { left };
            let child = parent.cell(tx, slots.at(slots.number(other)).unwrap_or_default())?.child(tx)?;
            let sibling = Page::load(tx, child, Some(page.level))?;
            if sibling.used() + page.used() > self.most_words / 4 * 3 {
                continue;
            }
            let mut key = Vec::new();
            cell.read_key(tx, &mut key)?;
            let (mut left, mut right) = if left == number { (page, sibling) } else { (sibling, page) };
            let mut left_slots = left.slots(tx)?;
            let mut right_slots = right.slots(tx)?;
            let mut moved = right.take(tx, &mut right_slots, 0..right.cells as usize)?;
            if page.level > 0
                && let Some(first) = moved.first_mut()
            {
                // The first cell of an inner page has no key. In the merged page it gets the one that the parent has for its page.
                let child = first.last().copied().unwrap_or_default();
                *first = child_cell(tx, self.most_words, &key, PersistentAddress::new(child))?;
            }
            let end = left.cells as usize;
            left.put_all(tx, &mut left_slots, end, &moved)?;
            tx.free(right.at)?;
            let right = if left.at == page.at { number + 1 } else { number };
            self.drop_child(tx, (parent, slots), right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Removes the cell of a child. If it was the first one, the cell that is first afterwards gets an empty key.
    fn drop_child(
        &self,
        tx: &mut impl Transaction,
        (parent, slots): (&mut Page, &mut Slots),
        number: usize,
    ) -> Result<(), Abort> {
        let Some(offset) = slots.at(slots.number(number)) else {
            return Err(KIND.damaged(tx, parent.at, "a child that is gone"));
        };
        parent.cell(tx, offset)?.free_outside(tx)?;
        parent.remove(tx, slots, slots.number(number))?;
        if number > 0 || parent.cells == 0 {
            return Ok(());
        }
        let first = parent.cell(tx, slots.at(slots.number(0)).unwrap_or_default())?;
        let child = first.child(tx)?;
        let cell = child_cell(tx, self.most_words, &[], child)?;
        first.free_outside(tx)?;
        // Without its key it is not larger. To remove it and put it in again might take a slot word for which there is no room.
        parent.overwrite(tx, first, &cell)
    }
}
