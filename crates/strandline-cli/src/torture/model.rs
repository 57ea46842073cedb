//! What the pool should hold: the parent's own copy, in standard collections.

use std::collections::{BTreeMap, BTreeSet};

use super::data::{Contents, NAMES};
use super::operation::{ACCOUNTS, BALANCE, Operation, STRUCTURES};

/// Violations shown of one verification; the first few tell the story.
const SHOWN: usize = 20;

/// The pool's contents after a number of operations of each thread.
pub struct Model {
    seed: u64,
    maps: [BTreeMap<u64, u64>; STRUCTURES],
    balances: Vec<u64>,
    /// The last operation of each thread.
    pub counters: Vec<u64>,
}

impl Model {
    /// Nothing has happened yet.
    pub fn new(seed: u64, threads: u64) -> Self {
        Self {
            seed,
            maps: Default::default(),
            balances: vec![BALANCE; ACCOUNTS as usize],
            counters: vec![0; threads as usize],
        }
    }

    /// Pairs in hash table, red-black tree and key-value store: each has one heap object.
    pub fn single_objects(&self) -> u64 {
        [0, 1, 3].iter().map(|&structure: &usize| self.maps[structure].len() as u64).sum()
    }

    /// Goes on to what the pool's counters say was done, and compares. Returns what is wrong.
    pub fn follow(&mut self, acknowledged: &[u64], found: &Contents) -> Vec<String> {
        let mut wrong = Vec::new();
        let threads = self.counters.len() as u64;
        for thread in 0..threads {
            let (index, counter) = (thread as usize, found.counters[thread as usize]);
            let (before, acknowledged) = (self.counters[index], acknowledged[index]);
            if counter < acknowledged {
                wrong.push(format!(
                    "LOST: thread {thread} was told that its operation {acknowledged} is durable; the pool ends at {counter}"
                ));
            }
            // One operation may have committed and not been acknowledged when the process died.
            if counter > acknowledged + 1 {
                wrong.push(format!(
                    "IMPOSSIBLE: thread {thread} is at operation {counter}, but had only begun {}",
                    acknowledged + 1
                ));
                continue;
            }
            for number in before + 1..=counter {
                self.apply(&Operation::new(self.seed, threads, thread, number));
            }
            self.counters[index] = counter;
        }
        self.compare(found, &mut wrong);
        wrong.truncate(SHOWN);
        wrong
    }

    fn apply(&mut self, operation: &Operation) {
        for change in &operation.changes {
            let map = &mut self.maps[change.structure];
            match change.value {
                Some(value) => drop(map.insert(change.key, value)),
                None => drop(map.remove(&change.key)),
            }
        }
        if let Some(transfer) = operation.transfer {
            let (from, to) = (transfer.from as usize, transfer.to as usize);
            self.balances[from] = self.balances[from].wrapping_sub(transfer.amount);
            self.balances[to] = self.balances[to].wrapping_add(transfer.amount);
        }
    }

    fn compare(&self, found: &Contents, wrong: &mut Vec<String>) {
        let threads = self.counters.len() as u64;
        for (structure, (expected, found)) in self.maps.iter().zip(&found.maps).enumerate() {
            let keys: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
            for key in keys {
                let (should, is) = (expected.get(key), found.get(key));
                if should != is {
                    let thread = key % threads;
                    wrong.push(format!(
                        "TORN: {} key {key} should be {should:?} and is {is:?} (thread {thread} at operation {})",
                        NAMES[structure], self.counters[thread as usize]
                    ));
                }
            }
        }
        let sum = |balances: &[u64]| balances.iter().fold(0u64, |sum, balance| sum.wrapping_add(*balance));
        if sum(&found.balances) != BALANCE * ACCOUNTS {
            wrong.push(format!(
                "TORN: the accounts add up to {} instead of {}",
                sum(&found.balances),
                BALANCE * ACCOUNTS
            ));
        }
        if self.balances != found.balances {
            wrong.push(format!("TORN: balances should be {:?} and are {:?}", self.balances, found.balances));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(model: &Model) -> Contents {
        Contents {
            maps: model.maps.clone(),
            balances: model.balances.clone(),
            counters: model.counters.clone(),
        }
    }

    #[test]
    fn tells_lost_torn_and_impossible_from_sound() {
        let mut ahead = Model::new(3, 2);
        for number in 1..=50 {
            for thread in 0..2 {
                ahead.apply(&Operation::new(3, 2, thread, number));
            }
        }
        ahead.counters = vec![50, 50];
        let follow = |acknowledged: [u64; 2], change: &dyn Fn(&mut Contents)| {
            let mut found = contents(&ahead);
            change(&mut found);
            Model::new(3, 2).follow(&acknowledged, &found)
        };
        assert!(follow([50, 49], &|_| {}).is_empty());
        assert!(follow([51, 50], &|_| {})[0].starts_with("LOST"));
        assert!(follow([48, 50], &|_| {})[0].starts_with("IMPOSSIBLE"));
        assert!(follow([50, 50], &|found| found.balances[3] += 1)[0].starts_with("TORN"));
        assert!(follow([50, 50], &|found| found.counters[0] = 51).iter().any(|w| w.starts_with("TORN")));
        assert!(
            follow([50, 50], &|found| {
                found.maps[2].pop_first();
            })[0]
                .starts_with("TORN: B+ tree")
        );
    }
}
