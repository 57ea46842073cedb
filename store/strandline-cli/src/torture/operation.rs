//! Operation n of thread t is a pure function of (seed, t, n). From its counter alone, the parent thus knows what a killed child had done.

use fastrand::Rng;

/// Keys of each thread in each map.
const KEYS: u64 = 64;
/// The accounts that all threads use.
pub const ACCOUNTS: u64 = 16;
/// The initial balance of each account.
pub const FIRST_BALANCE: u64 = 1_000_000;

/// A change to one collection. Key k of the maps belongs to thread k mod `threads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Stores a number in the hash map.
    Number(u64, u64),
    /// Removes a number.
    RemoveNumber(u64),
    /// Stores a text in the ordered map.
    Text(u64, String),
    /// Removes a text.
    RemoveText(u64),
    /// Appends to the thread's queue.
    Push(u64),
    /// Removes the first item of the thread's queue.
    Pop,
    /// Moves an amount from one account to another. Transfers of different threads conflict, but their order does not matter for the
    /// outcome.
    Transfer { from: u64, to: u64, amount: u64 },
}

/// The changes of one transaction, which also stores the operation's number in its thread's counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub steps: Vec<Step>,
    /// True if a transaction that aborts precedes it.
    pub abort_first: bool,
}

impl Operation {
    /// Returns operation `number` of thread `thread` of `threads`.
    pub fn new(seed: u64, threads: u64, thread: u64, number: u64) -> Self {
        let mut random = Rng::with_seed(mix(mix(seed ^ mix(thread)) ^ number));
        let mut steps: Vec<_> = (0..random.u64(1..=3))
            .map(|_| {
                let key = random.u64(..KEYS) * threads + thread;
                match random.u8(..6) {
                    0 | 1 if random.u8(..8) < 5 => Step::Number(key, random.u64(..)),
                    0 | 1 => Step::RemoveNumber(key),
                    2 | 3 if random.u8(..8) < 5 => Step::Text(key, text(&mut random)),
                    2 | 3 => Step::RemoveText(key),
                    4 => Step::Push(random.u64(..)),
                    _ => Step::Pop,
                }
            })
            .collect();
        if random.u8(..4) == 0 {
            let from = random.u64(..ACCOUNTS);
            let to = (from + random.u64(1..ACCOUNTS)) % ACCOUNTS;
            steps.push(Step::Transfer { from, to, amount: random.u64(1..100) });
        }
        Self { steps, abort_first: random.u8(..16) == 0 }
    }
}

/// Returns a text of up to 200 bytes, so that blocks of several sizes are allocated and freed.
fn text(random: &mut Rng) -> String {
    (0..random.usize(..200)).map(|_| random.alphanumeric()).collect()
}

/// The finalizer of SplitMix64: it maps nearby numbers to unrelated ones.
fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
