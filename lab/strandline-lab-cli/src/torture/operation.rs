//! Operation n of thread t is a pure function of (seed, t, n), so that the parent can derive from its counter alone what a killed child had done.

use fastrand::Rng;
use strandline_core::structures::NodeShape;
use strandline_structures::model::{
    self, Array, BPlusTree, Choices, HashTable, KeyValueStore, RedBlackTree, Structure,
};

/// The number of keys that each thread has in each structure.
const KEYS: u64 = 64;
/// The accounts that all threads use.
pub const BANK: Array = Array { length: 16, first: 1_000_000 };
/// The number of the bank among the structures.
pub const BANK_NUMBER: usize = 4;

/// The structures, each under the root of its number: those in which threads own keys, and the bank. There are only a few buckets, so that chains are
/// long.
pub const STRUCTURES: [&dyn Structure; 5] = [
    &HashTable { buckets: 61, value_words: 1 },
    &RedBlackTree,
    const { &BPlusTree(NodeShape::of_pairs(8)) },
    &KeyValueStore { buckets: 61 },
    &BANK,
];

/// The work of one transaction, besides storing its number in its thread's counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Operations on structures, with the structures' numbers: on keys of the thread's own, or a transfer between two accounts. Transfers of
    /// different threads conflict, but their order does not affect the final balances.
    pub steps: Vec<(usize, model::Operation)>,
    /// True if a transaction that gives up precedes it.
    pub abort_first: bool,
}

/// A thread's random choices. Key k belongs to thread k mod `threads`.
struct Chance {
    random: Rng,
    threads: u64,
    thread: u64,
}

impl Choices for Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    fn key(&mut self) -> u64 {
        self.below(KEYS) * self.threads + self.thread
    }
}

impl Operation {
    /// Returns operation `number` of thread `thread` of `threads`.
    pub fn new(seed: u64, threads: u64, thread: u64, number: u64) -> Self {
        let random = Rng::with_seed(mix(mix(seed ^ mix(thread)) ^ number));
        let mut choices = Chance { random, threads, thread };
        let mut steps: Vec<_> = (0..1 + choices.below(3))
            .map(|_| {
                let structure = choices.below(BANK_NUMBER as u64) as usize;
                (structure, STRUCTURES[structure].draw(&mut choices))
            })
            .collect();
        if choices.below(4) == 0 {
            let from = choices.below(BANK.length);
            let to = (from + 1 + choices.below(BANK.length - 1)) % BANK.length;
            let transfer = model::Operation::Transfer { from, to, amount: 1 + choices.below(99) };
            steps.push((BANK_NUMBER, transfer));
        }
        Self { steps, abort_first: choices.below(16) == 0 }
    }
}

/// The finaliser of SplitMix64: adjacent numbers yield unrelated ones.
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
