//! The array as a map: its keys are its indices.

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Transaction};
use strandline_core::{Abort, Result};

use super::{Choices, Contents, Operation, Outcome, Structure, refused};

/// An array, all of whose values are equal initially.
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// The number of values that it has, from its creation on.
    pub length: u64,
    /// The initial value of each element.
    pub first: u64,
}

impl Structure for Array {
    fn name(&self) -> &'static str {
        "array"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        crate::Array::create(runner, root, self.length, |_| self.first).map(drop)
    }
    fn empty(&self) -> Contents {
        Contents::Map((0..self.length).map(|index| (index, self.first)).collect())
    }
    fn places(&self) -> u64 {
        self.length
    }
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        let place = choices.key() % self.length;
        match choices.below(4) {
            0 => Operation::Get(place),
            1 => Operation::Swap(place, choices.key() % self.length),
            2 => {
                Operation::Transfer { from: place, to: choices.key() % self.length, amount: choices.value() }
            }
            _ => Operation::Insert(place, choices.value()),
        }
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Insert(choices.key() % self.length, choices.value())
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        let array = crate::Array::<u64>::open(&mut tx, root)?;
        let found = match *operation {
            Operation::Get(place) | Operation::Insert(place, _) | Operation::Swap(place, _) => {
                array.get(&mut tx, place)?
            }
            Operation::Transfer { from, .. } => array.get(&mut tx, from)?,
            _ => return Err(refused(tx, self, operation)),
        };
        match *operation {
            Operation::Insert(place, value) => array.set(&mut tx, place, value)?,
            Operation::Swap(one, other) => array.swap(&mut tx, one, other)?,
            Operation::Transfer { from, to, amount } => {
                array.set(&mut tx, from, found.wrapping_sub(amount))?;
                let takes = array.get(&mut tx, to)?;
                array.set(&mut tx, to, takes.wrapping_add(amount))?;
            }
            _ => {}
        }
        Ok(Some(found))
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        Ok(crate::Array::<u64>::open(&mut tx, root)?.len())
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let array = crate::Array::<u64>::open(&mut tx, root)?;
        let mut values = std::collections::BTreeMap::new();
        array.for_each(&mut tx, |index, value| {
            values.insert(index, value);
            Ok(())
        })?;
        Ok(Contents::Map(values))
    }
}
