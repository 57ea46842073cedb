//! Power failure by replay: from a recorded stream, what memory may hold at a crash point when every 8-byte
//! word not known to be durable may be old or new (the setting `word`), and the oracle of `DESIGN.md` §7.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use strandline::memory::recorder::Recorded;
use strandline::memory::{Event, Operation, Space};

/// How much of what was not durable a crash keeps.
#[derive(Clone, Copy, Debug)]
pub enum Survival {
    /// Only what had to survive.
    Least,
    /// Everything that was stored.
    Most,
    /// Each word one of its values, at random.
    Random,
}

/// The pool after a power failure behind the first `point` events of `stream`, which began with `image`.
pub fn crash(
    image: &[u64],
    stream: &[Recorded],
    point: usize,
    survival: Survival,
    random: &mut fastrand::Rng,
) -> Vec<u64> {
    let mut stores: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
    let mut asked: HashMap<(usize, u64), usize> = HashMap::new();
    let mut durable: HashMap<u64, usize> = HashMap::new();
    for (at, event) in stream[..point].iter().enumerate() {
        let mut store = |offset: u64, value| stores.entry(offset).or_default().push((at, value));
        match event.operation {
            Operation::Store(Space::Persistent, offset, value) => store(offset, value),
            Operation::StoreNonTemporal(offset, value) => {
                store(offset, value);
                asked.insert((event.thread, offset / 64), at);
            }
            Operation::CompareExchange(Space::Persistent, offset, _, new) => store(offset, new),
            Operation::FetchAdd(Space::Persistent, offset, by) => store(offset, event.value.wrapping_add(by)),
            Operation::WriteBack(offset, _) => {
                asked.insert((event.thread, offset / 64), at);
            }
            Operation::Fence(_) => {
                asked.retain(|&(thread, line), &mut upto| {
                    if thread == event.thread {
                        let durable = durable.entry(line).or_default();
                        *durable = upto.max(*durable);
                    }
                    thread != event.thread
                });
            }
            _ => {}
        }
    }
    let mut memory = image.to_vec();
    let mut words: Vec<_> = stores.into_iter().collect();
    words.sort_unstable();
    for (offset, stores) in words {
        // Stores at or before the last completed write-back of the line are there; the last of them is the
        // oldest value that may survive.
        let settled =
            durable.get(&(offset / 64)).map_or(0, |&upto| stores.partition_point(|&(at, _)| at <= upto));
        let first = settled.saturating_sub(1);
        let choices = &stores[first..];
        let keep_old = settled == 0;
        let survivor = match survival {
            Survival::Least if keep_old => None,
            Survival::Least => Some(choices[0].1),
            Survival::Most => Some(choices[choices.len() - 1].1),
            Survival::Random => {
                let choice = random.usize(..choices.len() + usize::from(keep_old));
                choices.get(choice).map(|&(_, value)| value)
            }
        };
        if let Some(value) = survivor {
            memory[(offset / 8) as usize] = value;
        }
    }
    memory
}

/// What one successful transaction read (that others wrote) and wrote: word offsets and values.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub reads: Vec<(u64, u64)>,
    pub writes: BTreeMap<u64, u64>,
}

/// Judges `recovered` words at `offsets`: they must equal the execution, in TxID order, of a set S of
/// transactions that entered commit before `point`, with every acknowledged one, closed under reads-from and
/// overwrites. `updates` and `reads` hold each thread's successful transactions in order. All values written
/// are unique.
pub fn judge(
    initial: &BTreeMap<u64, u64>,
    recovered: &BTreeMap<u64, u64>,
    stream: &[Recorded],
    point: usize,
    updates: &[Vec<History>],
    reads: &[Vec<History>],
) -> Result<(), String> {
    let mut entered: BTreeMap<u64, &History> = BTreeMap::new();
    let mut required: BTreeSet<u64> = BTreeSet::new();
    let mut read_from: Vec<(u64, u64)> = Vec::new();
    let mut nth: HashMap<(usize, bool), usize> = HashMap::new();
    for event in &stream[..point] {
        match event.operation {
            Operation::Event(Event::Commit(transaction)) => {
                let nth = nth.entry((event.thread, transaction == 0)).or_default();
                if transaction != 0 {
                    entered.insert(transaction, &updates[event.thread][*nth]);
                } else {
                    read_from.extend(&reads[event.thread][*nth].reads);
                }
                *nth += 1;
            }
            Operation::Event(Event::Acknowledged(transaction)) => {
                required.insert(transaction);
            }
            _ => {}
        }
    }
    let writer: HashMap<(u64, u64), u64> = entered
        .iter()
        .flat_map(|(&transaction, history)| {
            history.writes.iter().map(move |(&at, &value)| ((at, value), transaction))
        })
        .collect();
    let mut queue: Vec<u64> = required.iter().copied().collect();
    let need = |at: u64, value: u64, why: &str, queue: &mut Vec<u64>| match writer.get(&(at, value)) {
        Some(&transaction) => {
            queue.push(transaction);
            Ok(())
        }
        None if initial[&at] == value => Ok(()),
        None => Err(format!("word {at:#x} {why} {value:#x}, which no transaction in commit wrote")),
    };
    for (&at, &value) in recovered {
        need(at, value, "holds", &mut queue)?;
    }
    for &(at, value) in &read_from {
        need(at, value, "was read by an acknowledged reader as", &mut queue)?;
    }
    let mut set: BTreeSet<u64> = BTreeSet::new();
    while let Some(transaction) = queue.pop() {
        if !set.insert(transaction) {
            continue;
        }
        let history = entered[&transaction];
        for &(at, value) in &history.reads {
            need(at, value, "was read by a member as", &mut queue)?;
        }
        for at in history.writes.keys() {
            queue.extend(
                entered
                    .range(..transaction)
                    .filter(|(_, earlier)| earlier.writes.contains_key(at))
                    .map(|(&t, _)| t),
            );
        }
    }
    let mut expected = initial.clone();
    for transaction in &set {
        expected.extend(&entered[transaction].writes);
    }
    if &expected == recovered {
        return Ok(());
    }
    let wrong: Vec<String> = expected
        .iter()
        .filter(|(at, value)| recovered[at] != **value)
        .map(|(at, value)| format!("word {at:#x}: {:#x} instead of {value:#x}", recovered[at]))
        .collect();
    Err(format!("S = {set:?}, acknowledged {required:?}: {}", wrong.join(", ")))
}
