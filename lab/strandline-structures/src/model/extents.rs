//! Extents: values of several pages, each in a slot.

use std::collections::BTreeMap;

use strandline_core::Abort;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Transaction;

use super::{Choices, Contents, Operation, Outcome, Structure, damaged, look_up_or_change, refused};

/// The number of words that a page has.
const PAGE_WORDS: u64 = 512;
/// The distance in bytes from the root to the first slot.
const FIRST_BYTE: u64 = 256;
/// The words of a slot: the value, which is the guard, and the location of the pages.
const SLOT_WORDS: u64 = 4;

/// Values in extents. The slots follow the root. Each has a value and up to three runs of pages, whose contents are derived from the value.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// The number of slots.
    pub slots: u64,
}

/// Runs of pages: the first page of each, and the number of pages.
type Runs = Vec<(PersistentAddress, u64)>;

/// Returns how many words the value's pages hold. They fill the pages, since the rest of a page would be undefined.
fn words(value: u64) -> u64 {
    PAGE_WORDS * [1, 1, 2, 3][(value & 0xff) as usize % 4]
}

/// Returns word `index` of a value's pages.
fn word(value: u64, index: u64) -> u64 {
    (value << 12) ^ index
}

impl Extents {
    fn slot(root: PersistentAddress, slot: u64) -> PersistentAddress {
        root.byte(FIRST_BYTE).word(SLOT_WORDS * slot)
    }

    /// Returns the value in a slot, and the runs of its pages, after reading and checking the pages.
    fn find(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        slot: u64,
    ) -> Result<Option<(u64, Runs)>, Abort> {
        let guard = Self::slot(root, slot);
        let mut found = [0; SLOT_WORDS as usize];
        tx.read_range(guard, &mut found)?;
        let [value, runs @ ..] = found;
        if value == 0 {
            return Ok(None);
        }
        let runs = runs.into_iter().filter(|&run| run != 0);
        let runs: Runs = runs.map(|run| (PersistentAddress::new(run & !0xfff), 1 + (run & 0xfff))).collect();
        let mut pages = vec![0; words(value) as usize];
        let mut rest = pages.as_mut_slice();
        for &(at, pages) in &runs {
            let (now, later) = rest.split_at_mut(rest.len().min((PAGE_WORDS * pages) as usize));
            tx.read_pages(guard, at, now)?;
            rest = later;
        }
        match (0..).zip(&pages).find(|&(index, &found)| found != word(value, index)) {
            Some((index, found)) => {
                Err(damaged(tx, self, format_args!("{found:#x} is word {index} of value {value:#x}")))
            }
            None => Ok(Some((value, runs))),
        }
    }

    fn store(&self, tx: &mut dyn Transaction, guard: PersistentAddress, value: u64) -> Result<(), Abort> {
        let contents: Vec<_> = (0..words(value)).map(|index| word(value, index)).collect();
        let mut rest = contents.as_slice();
        let mut slot = vec![value];
        while !rest.is_empty() {
            let pages = (rest.len() as u64).div_ceil(PAGE_WORDS);
            let Some((at, pages)) = tx.alloc_pages(pages)? else {
                return Err(damaged(tx, self, format_args!("there are no extents here")));
            };
            let (now, later) = rest.split_at(rest.len().min((PAGE_WORDS * pages) as usize));
            tx.fill_pages(at, now)?;
            slot.push(at.offset() | (pages - 1));
            rest = later;
        }
        slot.resize(SLOT_WORDS as usize, 0);
        tx.write_range(guard, &slot)
    }
}

impl Structure for Extents {
    fn name(&self) -> &'static str {
        "extents"
    }
    fn places(&self) -> u64 {
        self.slots
    }
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        look_up_or_change(self, choices)
    }
    fn apply(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        match *operation {
            Operation::Get(slot) => Ok(self.find(tx, root, slot)?.map(|(value, _)| value)),
            Operation::Toggle(slot, value) => {
                let guard = Self::slot(root, slot);
                let Some((old, runs)) = self.find(tx, root, slot)? else {
                    self.store(tx, guard, value)?;
                    return Ok(None);
                };
                tx.write(guard, 0)?;
                for (at, pages) in runs {
                    tx.free_pages(at, pages)?;
                }
                Ok(Some(old))
            }
            _ => Err(refused(tx, self, operation)),
        }
    }
    fn check(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        let (mut all, mut values) = (Vec::new(), 0);
        for slot in 0..self.slots {
            if let Some((_, runs)) = self.find(tx, root, slot)? {
                values += 1;
                all.extend(
                    runs.iter().map(|&(at, pages)| (at.offset(), at.word(PAGE_WORDS * pages).offset())),
                );
            }
        }
        all.sort_unstable();
        match all.windows(2).any(|two| two[0].1 > two[1].0) {
            true => Err(damaged(tx, self, format_args!("two extents overlap: {all:x?}"))),
            false => Ok(values),
        }
    }
    fn read(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let mut values = BTreeMap::new();
        for slot in 0..self.slots {
            if let Some((value, _)) = self.find(tx, root, slot)? {
                values.insert(slot, value);
            }
        }
        Ok(Contents::Map(values))
    }
}
