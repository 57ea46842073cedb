//! Words at fixed places, without a header: the smallest possible structure.

use std::collections::{BTreeMap, BTreeSet};

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Runner, Transaction};
use strandline_core::{Abort, Result};

use super::{Choices, Contents, Operation, Outcome, Structure, damaged, look_up_or_change, refused};

/// Words at fixed places. The root is the address from which their positions are counted.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The number of words that it has.
    pub count: u64,
    /// Returns the distance in bytes from the root to word `i`.
    pub byte: fn(u64) -> u64,
    /// An invariant of their values.
    pub invariant: Invariant,
}

/// An invariant of words' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// None. The words are 0 initially.
    None,
    /// They sum up to 0, wrapping, and are 0 initially; transfers change them.
    Sum,
    /// Their low bytes are a permutation of the numbers from 1 on; exchanges change them.
    Permutation,
}

impl Words {
    fn at(&self, root: PersistentAddress, place: u64) -> PersistentAddress {
        root.byte((self.byte)(place))
    }

    fn first(&self, place: u64) -> u64 {
        if self.invariant == Invariant::Permutation { place + 1 } else { 0 }
    }
}

impl Structure for Words {
    fn name(&self) -> &'static str {
        "words"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        if self.invariant != Invariant::Permutation {
            return Ok(());
        }
        runner
            .run(|tx| (0..self.count).try_for_each(|place| tx.write(self.at(root, place), self.first(place))))
    }
    fn empty(&self) -> Contents {
        Contents::Map((0..self.count).map(|place| (place, self.first(place))).collect())
    }
    fn places(&self) -> u64 {
        self.count
    }
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        look_up_or_change(self, choices)
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        let place = choices.key() % self.count;
        let another = |choices: &mut dyn Choices| (place + 1 + choices.below(self.count - 1)) % self.count;
        match self.invariant {
            Invariant::None => Operation::Write(place, choices.value()),
            Invariant::Sum => {
                Operation::Transfer { from: place, to: another(choices), amount: choices.below(100) }
            }
            Invariant::Permutation => Operation::Exchange {
                places: [place, another(choices)],
                stamps: [choices.value() & !0xff, choices.value() & !0xff],
            },
        }
    }
    fn apply(
        &self,
        tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        let at = |place| self.at(root, place);
        let found = match *operation {
            Operation::Get(place) => tx.read(at(place))?,
            Operation::Write(place, value) => {
                tx.write(at(place), value)?;
                return Ok(None);
            }
            Operation::Transfer { from, to, amount } => {
                let found = tx.read(at(from))?;
                tx.write(at(from), found.wrapping_sub(amount))?;
                let takes = tx.read(at(to))?;
                tx.write(at(to), takes.wrapping_add(amount))?;
                found
            }
            Operation::Exchange { places: [one, other], stamps } => {
                let (a, b) = (tx.read(at(one))?, tx.read(at(other))?);
                tx.write(at(one), stamps[0] | b & 0xff)?;
                tx.write(at(other), stamps[1] | a & 0xff)?;
                a
            }
            _ => return Err(refused(tx, self, operation)),
        };
        Ok(Some(found))
    }
    fn check(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        let values = self.read(tx, root)?.values();
        let holds = match self.invariant {
            Invariant::None => true,
            Invariant::Sum => values.iter().copied().fold(0, u64::wrapping_add) == 0,
            Invariant::Permutation => {
                let low: BTreeSet<u64> = values.iter().map(|value| value & 0xff).collect();
                low.into_iter().eq(1..=self.count)
            }
        };
        match holds {
            true => Ok(self.count),
            false => Err(damaged(tx, self, format_args!("{:?} does not hold: {values:x?}", self.invariant))),
        }
    }
    fn read(&self, tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let mut values = BTreeMap::new();
        for place in 0..self.count {
            values.insert(place, tx.read(self.at(root, place))?);
        }
        Ok(Contents::Map(values))
    }
}
