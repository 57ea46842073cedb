//! Operation n of thread t: a pure function of (seed, t, n), so that the parent knows what a killed child
//! had done from its counter alone.

use fastrand::Rng;

/// Keys of each thread in each structure.
pub const KEYS: u64 = 64;
/// Accounts of the bank that all threads use.
pub const ACCOUNTS: u64 = 16;
/// What each account holds at first.
pub const BALANCE: u64 = 1_000_000;
/// Structures that threads own keys in: hash table, red-black tree, B+ tree, key-value store.
pub const STRUCTURES: usize = 4;

/// What one transaction does, besides storing its number in its thread's counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Changes of the thread's own keys.
    pub changes: Vec<Change>,
    /// From one account to another; transfers of different threads conflict.
    pub transfer: Option<Transfer>,
    /// Whether a transaction that gives up comes first.
    pub abort_first: bool,
}

/// A key is inserted, or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the structure, below [`STRUCTURES`].
    pub structure: usize,
    /// The key.
    pub key: u64,
    /// The new value; `None` removes.
    pub value: Option<u64>,
}

/// Money that moves. Balances wrap, so that the order of transfers does not matter for their outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The account that gives.
    pub from: u64,
    /// The account that takes; another one.
    pub to: u64,
    /// How much.
    pub amount: u64,
}

impl Operation {
    /// Operation `number` of thread `thread` of `threads`.
    pub fn new(seed: u64, threads: u64, thread: u64, number: u64) -> Self {
        let mut random = Rng::with_seed(mix(mix(seed ^ mix(thread)) ^ number));
        let changes = (0..random.u64(1..=3))
            .map(|_| Change {
                structure: random.usize(..STRUCTURES),
                // Key k belongs to thread k mod `threads`.
                key: random.u64(..KEYS) * threads + thread,
                value: (random.u8(..) < 150).then(|| random.u64(..)),
            })
            .collect();
        let transfer = (random.u8(..) < 64).then(|| {
            let from = random.u64(..ACCOUNTS);
            Transfer { from, to: (from + random.u64(1..ACCOUNTS)) % ACCOUNTS, amount: random.u64(1..100) }
        });
        Self { changes, transfer, abort_first: random.u8(..) < 16 }
    }
}

/// The bytes that stand for `value` in the key-value store: of many lengths, so of many size classes.
pub fn value_bytes(value: u64) -> Vec<u8> {
    value.to_le_bytes().into_iter().cycle().take(8 + (value % 300) as usize).collect()
}

/// The bytes of a key of the key-value store.
pub fn key_bytes(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

/// The finaliser of SplitMix64: nearby numbers give unrelated ones.
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
