//! The queue of a fixed capacity.

use std::collections::VecDeque;

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Runner, Transaction};
use strandline_core::{Abort, Result};

use super::{Choices, Contents, Operation, Outcome, Structure, damaged, encoding, refused};

/// A queue with a fixed capacity, with entries of several words.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The number of entries that there is room for.
    pub capacity: u64,
    /// The number of words that an entry has.
    pub entry_words: u64,
}

impl Queue {
    /// Returns the value of an entry.
    fn value(&self, tx: &mut dyn Transaction, entry: Option<Vec<u64>>) -> Result<Option<u64>, Abort> {
        let Some(entry) = entry else { return Ok(None) };
        match encoding::of_words(&entry) {
            Some(value) => Ok(Some(value)),
            None => Err(damaged(tx, self, format_args!("the entry {entry:x?} stands for no value"))),
        }
    }
}

impl Structure for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        runner.run(|tx| crate::Queue::<Vec<u64>>::create(tx, root, self.capacity, self.entry_words).map(drop))
    }
    fn empty(&self) -> Contents {
        Contents::Sequence { items: VecDeque::new(), capacity: self.capacity }
    }
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        match choices.below(8) {
            0 => self.look_up(choices),
            1 => self.change(choices),
            _ if choices.grows() => Operation::Push(choices.value()),
            _ => Operation::PopFirst,
        }
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Rotate(choices.value())
    }
    fn look_up(&self, _: &mut dyn Choices) -> Operation {
        Operation::Get(0)
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        let queue = crate::Queue::<Vec<u64>>::open(&mut tx, root)?;
        let entry = |value| encoding::words(value, self.entry_words);
        match *operation {
            Operation::Get(0) => {
                let front = queue.front(&mut tx)?;
                self.value(tx, front)
            }
            Operation::Push(value) => Ok((!queue.push(&mut tx, &entry(value))?).then_some(value)),
            Operation::Rotate(value) => {
                let popped = if queue.len(&mut tx)? > 1 { queue.pop(&mut tx)? } else { None };
                if !queue.push(&mut tx, &entry(value))? {
                    return Err(damaged(tx, self, "no room behind one entry"));
                }
                self.value(tx, popped)
            }
            Operation::PopFirst => {
                let popped = queue.pop(&mut tx)?;
                self.value(tx, popped)
            }
            _ => Err(refused(tx, self, operation)),
        }
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        let queue = crate::Queue::<Vec<u64>>::open(&mut tx, root)?;
        let counted = queue.check(&mut tx)?;
        match queue.is_empty(&mut tx)? == (counted == 0) {
            true => Ok(counted),
            false => Err(damaged(tx, self, format_args!("empty, and {counted} entries"))),
        }
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let queue = crate::Queue::<Vec<u64>>::open(&mut tx, root)?;
        let mut entries = Vec::new();
        queue.for_each(&mut tx, |entry| {
            entries.push(entry);
            Ok(())
        })?;
        let mut items = VecDeque::new();
        for entry in entries {
            items.extend(self.value(tx, Some(entry))?);
        }
        Ok(Contents::Sequence { items, capacity: queue.capacity() })
    }
}
