//! The expected contents of the pool: the parent's own copy, in standard collections.

use strandline_command::torture;
use strandline_structures::model::Contents;

use super::data::Found;
use super::operation::{BANK, BANK_NUMBER, Operation, STRUCTURES};

/// The number of violations of one verification that are shown, at most; the first ones suffice.
const SHOWN: usize = 20;

/// The pool's contents after a number of operations of each thread.
pub struct Model {
    seed: u64,
    structures: Vec<Contents>,
    /// The number of each thread's last operation.
    pub counters: Vec<u64>,
}

impl Model {
    /// Creates the model before the first operation.
    pub fn new(seed: u64, threads: u64) -> Self {
        Self {
            seed,
            structures: STRUCTURES.iter().map(|structure| structure.empty()).collect(),
            counters: vec![0; threads as usize],
        }
    }

    /// Returns the number of pairs in hash table, red-black tree and key-value store, each of which has one heap object.
    pub fn single_objects(&self) -> u64 {
        [0, 1, 3].iter().map(|&structure: &usize| self.structures[structure].len()).sum()
    }

    /// Returns the number of pairs in the B+ tree.
    pub fn tree_pairs(&self) -> u64 {
        self.structures[2].len()
    }

    /// Advances the model to the pool's counters, and compares it with the pool. Returns what is wrong.
    pub fn follow(&mut self, acknowledged: &[u64], found: &Found) -> Vec<String> {
        let (seed, threads) = (self.seed, self.counters.len() as u64);
        let mut counters = std::mem::take(&mut self.counters);
        let mut wrong = torture::follow(&mut counters, acknowledged, &found.counters, |thread, number| {
            self.apply(&Operation::new(seed, threads, thread, number));
        });
        self.counters = counters;
        self.compare(found, &mut wrong);
        wrong.truncate(SHOWN);
        wrong
    }

    fn apply(&mut self, operation: &Operation) {
        for (structure, step) in &operation.steps {
            self.structures[*structure].apply(step);
        }
    }

    fn compare(&self, found: &Found, wrong: &mut Vec<String>) {
        let threads = self.counters.len() as u64;
        for (number, structure) in STRUCTURES.iter().enumerate() {
            for difference in self.structures[number].differences(&found.structures[number]) {
                let (name, place) = (structure.name(), difference.place);
                let (should, is) = (difference.expected, difference.found);
                let whose = match number {
                    BANK_NUMBER => String::new(),
                    _ => {
                        let thread = place % threads;
                        format!(" (thread {thread} at operation {})", self.counters[thread as usize])
                    }
                };
                wrong.push(format!("TORN: {name} at {place} should be {should:?} and is {is:?}{whose}"));
            }
        }
        let sum = |balances: Vec<u64>| balances.into_iter().fold(0, u64::wrapping_add);
        let (should, is) = (BANK.first * BANK.length, sum(found.structures[BANK_NUMBER].values()));
        if should != is {
            wrong.push(format!("TORN: the accounts add up to {is} instead of {should}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_lost_torn_and_impossible_from_sound() {
        let mut ahead = Model::new(3, 2);
        for number in 1..=50 {
            for thread in 0..2 {
                ahead.apply(&Operation::new(3, 2, thread, number));
            }
        }
        ahead.counters = vec![50, 50];
        let follow = |acknowledged: [u64; 2], change: &dyn Fn(&mut Found)| {
            let mut found = Found { structures: ahead.structures.clone(), counters: ahead.counters.clone() };
            change(&mut found);
            Model::new(3, 2).follow(&acknowledged, &found)
        };
        let change = |structure: usize| {
            move |found: &mut Found| {
                let Contents::Map(map) = &mut found.structures[structure] else { unreachable!() };
                *map.values_mut().next().unwrap() += 1;
            }
        };
        assert!(follow([50, 49], &|_| {}).is_empty());
        assert!(follow([51, 50], &|_| {})[0].starts_with("LOST"));
        assert!(follow([48, 50], &|_| {})[0].starts_with("IMPOSSIBLE"));
        assert!(follow([50, 50], &change(BANK_NUMBER))[0].starts_with("TORN: array at 0"));
        assert!(follow([50, 50], &|found| found.counters[0] = 51).iter().any(|w| w.starts_with("TORN")));
        for (number, structure) in STRUCTURES.iter().enumerate() {
            let wrong = &follow([50, 50], &change(number))[0];
            assert!(wrong.starts_with(&format!("TORN: {}", structure.name())), "{wrong}");
        }
    }
}
