//! Set and multiset, as maps to the number of times that a key is present.

use std::collections::BTreeMap;

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Runner, Transaction};
use strandline_core::{Abort, Result};

use super::map::{self, Found, Map, Pair};
use super::{Choices, Contents, Operation, Outcome, Structure, damaged, encoding, refused};

/// A set: a map all of whose values are 1.
#[derive(Clone, Copy, Debug)]
pub struct Set;

fn once(is_there: bool) -> Found {
    is_there.then_some(Some(1))
}

impl Map for crate::Set<i64> {
    fn get(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        Ok(once(self.contains(&mut tx, encoding::signed(key))?))
    }
    fn insert(&self, mut tx: &mut dyn Transaction, key: u64, _: u64) -> Result<Found, Abort> {
        Ok(once(!self.insert(&mut tx, encoding::signed(key))?))
    }
    fn remove(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        Ok(once(self.remove(&mut tx, encoding::signed(key))?))
    }
    fn pairs(&self, mut tx: &mut dyn Transaction) -> Result<Vec<Pair>, Abort> {
        let mut pairs = Vec::new();
        self.range(&mut tx, .., |key| {
            pairs.push((Some(encoding::number_of(key)), Some(1)));
            Ok(())
        })?;
        Ok(pairs)
    }
}

impl Structure for Set {
    fn name(&self) -> &'static str {
        "set"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        runner.run(|tx| crate::Set::<i64>::create(tx, root).map(drop))
    }
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        match choices.below(8) {
            0 => self.look_up(choices),
            1 => self.change(choices),
            _ if choices.grows() => Operation::Insert(choices.key(), 1),
            _ => Operation::Remove(choices.key()),
        }
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Toggle(choices.key(), 1)
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        map::apply(self, &crate::Set::<i64>::open(&mut tx, root)?, tx, operation)
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        crate::Set::<i64>::open(&mut tx, root)?.check(&mut tx)
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        map::read(self, &crate::Set::<i64>::open(&mut tx, root)?, tx)
    }
}

/// A multiset: a map to the number of times that a key is present.
#[derive(Clone, Copy, Debug)]
pub struct MultiSet;

impl Structure for MultiSet {
    fn name(&self) -> &'static str {
        "multiset"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        runner.run(|tx| crate::MultiSet::<i64>::create(tx, root).map(drop))
    }
    fn draw(&self, choices: &mut dyn Choices) -> Operation {
        match choices.below(8) {
            0 => self.look_up(choices),
            _ if choices.grows() => self.change(choices),
            _ => Operation::Take(choices.key()),
        }
    }
    fn change(&self, choices: &mut dyn Choices) -> Operation {
        Operation::Add(choices.key())
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        let set = crate::MultiSet::<i64>::open(&mut tx, root)?;
        let (Operation::Get(key) | Operation::Add(key) | Operation::Take(key)) = *operation else {
            return Err(refused(tx, self, operation));
        };
        let key = encoding::signed(key);
        let times = set.times(&mut tx, key)?;
        let is_right = match operation {
            Operation::Add(_) => set.insert(&mut tx, key)? == times + 1,
            Operation::Take(_) => set.remove(&mut tx, key)? == (times > 0),
            _ => true,
        };
        match is_right {
            true => Ok((times > 0).then_some(times)),
            false => Err(damaged(tx, self, format_args!("{operation:?} and {times} times before"))),
        }
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        let set = crate::MultiSet::<i64>::open(&mut tx, root)?;
        let counted = set.check(&mut tx)?;
        let contents = self.read(tx, root)?;
        match contents.values().iter().sum::<u64>() == counted {
            true => Ok(contents.len()),
            false => Err(damaged(tx, self, format_args!("counts {counted} keys and shows {contents:?}"))),
        }
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        let mut all = BTreeMap::new();
        crate::MultiSet::<i64>::open(&mut tx, root)?.range(&mut tx, .., |key, times| {
            all.insert(encoding::number_of(key), times);
            Ok(())
        })?;
        Ok(Contents::Map(all))
    }
}
