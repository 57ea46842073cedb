//! The allocator: blocks of many sizes, each in a slot.

use std::collections::BTreeMap;

use strandline_core::Abort;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Transaction;

use super::{Choices, Contents, Operation, Outcome, Structure, damaged, look_up_or_change, refused};

/// Blocks of the allocator; their addresses are in as many words from the root on.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// The number of slots, at most eight.
    pub slots: u64,
}

/// Returns the words of a block that holds a value in its last word. Blocks have several classes, and some are larger than a chunk of 4 KB.
fn words(value: u64) -> u64 {
    [3, 5, 9, 40, 520, 1200][(value & 0xff) as usize % 6]
}

impl Blocks {
    fn find(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        slot: u64,
    ) -> Result<Option<(PersistentAddress, u64, u64)>, Abort> {
        let at = PersistentAddress::new(tx.read(root.word(slot))?);
        if at.is_null() {
            return Ok(None);
        }
        let words = tx.read(at)?;
        let value = tx.read(at.word(words.wrapping_sub(1)))?;
        if words != self::words(value) {
            return Err(damaged(tx, self, format_args!("{value:#x} in a block of {words} words")));
        }
        Ok(Some((at, words, value)))
    }
}

impl Structure for Blocks {
    fn name(&self) -> &'static str {
        "allocator"
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
            Operation::Get(slot) => Ok(self.find(tx, root, slot)?.map(|(.., value)| value)),
            Operation::Toggle(slot, value) => {
                if let Some((at, _, old)) = self.find(tx, root, slot)? {
                    tx.free(at)?;
                    tx.write(root.word(slot), 0)?;
                    return Ok(Some(old));
                }
                let words = words(value);
                let block = tx.alloc(8 * words)?;
                tx.write(block, words)?;
                tx.write(block.word(words - 1), value)?;
                tx.write(root.word(slot), block.offset())?;
                Ok(None)
            }
            _ => Err(refused(tx, self, operation)),
        }
    }
    fn check(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        let mut blocks = Vec::new();
        for slot in 0..self.slots {
            if let Some((at, words, _)) = self.find(tx, root, slot)? {
                blocks.push((at.offset(), at.word(words).offset()));
            }
        }
        blocks.sort_unstable();
        match blocks.windows(2).any(|two| two[0].1 > two[1].0) {
            true => Err(damaged(tx, self, format_args!("two allocations overlap: {blocks:x?}"))),
            false => Ok(blocks.len() as u64),
        }
    }
    fn read(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let mut values = BTreeMap::new();
        for slot in 0..self.slots {
            if let Some((.., value)) = self.find(tx, root, slot)? {
                values.insert(slot, value);
            }
        }
        Ok(Contents::Map(values))
    }
}
