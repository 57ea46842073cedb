//! The oracle, which judges every word that transactions may write.
//!
//! After recovery the words must equal the execution, in the order of [`Update::order`], of a set S of transactions that entered commit. S must hold
//! every acknowledged transaction and everything that an acknowledged transaction or reader read from, and must be closed under reads-from and
//! overwrites. Reads-from is known exactly, because the world notes which store each load saw. Only a few transactions in commit may be missing from
//! S, at most one for each thread, so every closed S is tried.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::workload::Effect;
use strandline_check::x86::{Recovered, mix};
use strandline_check::x86::{Trace, Update};

/// The words that a run's transactions and recovery wrote, and the contents of all other words.
pub struct Home {
    /// The words' numbers in the pool.
    words: Vec<u32>,
    /// For each word of the pool one more than its index in `words`.
    slots: Vec<u32>,
    /// The pool after the recovery that the run began with, and its fingerprint.
    settled: Vec<u64>,
    settled_key: u64,
    /// The words that transactions wrote, each with the indices of the trace's updates that wrote it, in order.
    writers: Vec<(u32, u32)>,
}

impl Home {
    /// Collects the words of `trace`, whose first transaction found `settled`; transactions write words from number `data` on.
    pub fn new(trace: &Trace, settled: Vec<u64>, data: &std::ops::Range<usize>) -> Self {
        let words: BTreeSet<u32> = trace
            .lines
            .iter()
            .flat_map(|line| &line.stores)
            .map(|store| store.word)
            .filter(|&word| data.contains(&(word as usize)))
            .collect();
        let words: Vec<u32> = words.into_iter().collect();
        let mut slots = vec![0; settled.len()];
        words.iter().enumerate().for_each(|(slot, &word)| slots[word as usize] = slot as u32 + 1);
        let settled_key = settled.iter().copied().fold(0, mix);
        let updates = trace.updates.iter().enumerate();
        let mut writers: Vec<(u32, u32)> = updates
            .flat_map(|(index, update)| update.writes.iter().map(move |&(word, _)| (word, index as u32)))
            .collect();
        writers.sort_unstable();
        Self { words, slots, settled, settled_key, writers }
    }

    /// Returns the indices of those of the trace's first `count` updates that wrote `word`.
    fn writers(&self, word: u32, count: usize) -> impl Iterator<Item = usize> {
        let from = self.writers.partition_point(|&(other, _)| other < word);
        let writers = self.writers[from..].iter().take_while(move |&&(other, _)| other == word);
        writers.map(|&(_, index)| index as usize).take_while(move |&index| index < count)
    }

    /// Returns the pool after the recovery that the run began with.
    pub fn settled(&self) -> &[u64] {
        &self.settled
    }

    /// Returns the fingerprint of the settled pool.
    pub fn settled_key(&self) -> u64 {
        self.settled_key
    }

    /// Returns whether the run's transactions or its first recovery wrote word `word`.
    pub fn contains(&self, word: u32) -> bool {
        self.slots[word as usize] != 0
    }

    /// Returns the index of a word that was written.
    fn slot(&self, word: u32) -> u32 {
        self.slots[word as usize] - 1
    }
}

/// The expected states after a crash at one point.
pub struct Expectation {
    /// For each word of [`Home`] its value if S has no optional transaction, and its writer's place in the order.
    values: Vec<(u64, u64)>,
    /// The words that no optional transaction wrote, and their values.
    certain: Vec<(u32, u64)>,
    /// The words that optional transactions wrote, and for each its value for each of `sets`.
    contested: Vec<u32>,
    contested_values: Vec<u64>,
    /// Words (slots) that optional transactions wrote: slot, index in `optional`, place in the order, value.
    optional_writes: Vec<(u32, u32, u64, u64)>,
    /// Indices of the trace's updates that may be in S.
    optional: Vec<usize>,
    /// Indices of the trace's updates that must be in S.
    required: Vec<usize>,
    /// The closed sets of optional transactions, with a bit for each transaction.
    sets: Vec<u32>,
    /// For each of `sets` a fingerprint of S: what its transactions did to words and structure.
    keys: Vec<u64>,
    /// A fingerprint of the whole expectation.
    fingerprint: u64,
    /// The fault that the trace itself shows.
    wrong: Option<String>,
}

/// Returns a fingerprint of what a transaction did to words and structure.
fn change(update: &Update, effects: &[Effect]) -> u64 {
    let words = update
        .writes
        .iter()
        .fold(mix(update.id, 1), |hash, &(word, value)| mix(mix(hash, word.into()), value));
    let mut hasher = DefaultHasher::new();
    effects.hash(&mut hasher);
    mix(words, hasher.finish())
}

/// The number of transactions that may be in commit at once, over all threads.
pub(crate) const MOST_IN_COMMIT: usize = 8;

/// The sets of transactions that may have survived, besides the general rules of [`Expectation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Any closed set.
    Closed,
    /// Prefixes in the order of TxIDs, because the log is totally ordered.
    Prefix,
}

/// Returns for each slot the newest value that `updates` wrote, with that update's place in the order, or else the settled value.
fn newest_values<'u>(home: &Home, updates: impl Iterator<Item = &'u Update>) -> Vec<(u64, u64)> {
    let mut values: Vec<(u64, u64)> =
        home.words.iter().map(|&word| (home.settled[word as usize], 0)).collect();
    for update in updates {
        for &(word, value) in &update.writes {
            let slot = &mut values[home.slot(word) as usize];
            if update.order > slot.1 {
                *slot = (value, update.order);
            }
        }
    }
    values
}

/// The transactions that have entered commit at a crash.
struct Entered<'t> {
    trace: &'t Trace,
    home: &'t Home,
    updates: &'t [Update],
}

impl<'t> Entered<'t> {
    fn at(trace: &'t Trace, home: &'t Home, time: u32) -> Self {
        let entered = trace.updates.iter().filter(|update| update.entered <= time).count();
        Self { trace, home, updates: &trace.updates[..entered] }
    }

    /// Returns the transactions that must be in S if transaction `index` is: those that it read from, and older writers of its words.
    fn brings(&self, index: usize) -> impl Iterator<Item = usize> {
        let (updates, update) = (self.updates, &self.updates[index]);
        let read = update.reads.iter().filter_map(|&(_, time)| self.trace.writer(time));
        let writers = |&(word, _): &(u32, u64)| self.home.writers(word, updates.len());
        let overwritten = update.writes.iter().flat_map(writers);
        read.chain(overwritten.filter(|&other| updates[other].order < update.order))
    }

    /// Returns for each transaction whether it must be in S after a crash at `time`, and what is wrong if there is no such S.
    fn required(&self, time: u32, survival: Survival) -> (Vec<bool>, Option<String>) {
        let (trace, updates) = (self.trace, self.updates);
        let mut is_required = vec![false; updates.len()];
        let mut queue: Vec<usize> = (0..updates.len()).filter(|&i| updates[i].acknowledged <= time).collect();
        let readers = trace.readers.iter().filter(|reader| reader.acknowledged <= time);
        queue.extend(readers.flat_map(|r| &r.reads).filter_map(|&(_, time)| trace.writer(time)));
        let mut wrong = None;
        while let Some(index) = queue.pop() {
            let Some(known) = is_required.get_mut(index) else {
                wrong = Some("a transaction read what was never committed".to_owned());
                continue;
            };
            if !std::mem::replace(known, true) {
                queue.extend(self.brings(index).filter(|&other| is_required.get(other) != Some(&true)));
            }
        }
        if survival == Survival::Prefix {
            let required = updates.iter().zip(&is_required).filter(|&(_, &required)| required);
            let last = required.map(|(update, _)| update.id).max();
            for (update, required) in updates.iter().zip(&mut is_required) {
                *required |= last.is_some_and(|last| update.id < last);
            }
        }
        (is_required, wrong)
    }

    /// Returns whether a set of transactions is closed. It has the required transactions, and those of `optional` whose bit in `set` is 1.
    fn is_closed(&self, set: u32, is_required: &[bool], optional: &[usize]) -> bool {
        let is_taken = |bit: usize| set >> bit & 1 == 1;
        optional.iter().enumerate().filter(|&(bit, _)| is_taken(bit)).all(|(_, &index)| {
            self.brings(index).all(|other| {
                is_required.get(other) == Some(&true)
                    || optional.iter().position(|&o| o == other).is_some_and(is_taken)
            })
        })
    }

    /// Returns the writes of `optional` transactions, sorted: slot, index in `optional`, place in the order, value.
    fn writes_of(&self, optional: &[usize]) -> Vec<(u32, u32, u64, u64)> {
        let mut all: Vec<_> = Vec::new();
        for (bit, &index) in optional.iter().enumerate() {
            let Update { order, writes, .. } = &self.updates[index];
            all.extend(writes.iter().map(|&(word, value)| (self.home.slot(word), bit as u32, *order, value)));
        }
        all.sort_unstable();
        all
    }
}

/// Returns how many optional transactions are considered, at most, and which sets of `optional` ones (a bit for each) are tried.
fn candidates(survival: Survival, optional: usize) -> (usize, Vec<u32>) {
    match survival {
        Survival::Closed => (MOST_IN_COMMIT, (0..1u32 << optional.min(MOST_IN_COMMIT)).collect()),
        Survival::Prefix => (31, (0..=optional.min(31)).map(|count| ((1u64 << count) - 1) as u32).collect()),
    }
}

impl Expectation {
    /// Computes the expectation for a crash at `time`.
    pub fn at(trace: &Trace, home: &Home, effects: &[Vec<Effect>], time: u32) -> Self {
        Self::surviving(trace, home, effects, time, Survival::Closed)
    }

    /// Computes the expectation for a crash at `time` after which sets of kind `survival` may have survived.
    pub fn surviving(
        trace: &Trace,
        home: &Home,
        effects: &[Vec<Effect>],
        time: u32,
        survival: Survival,
    ) -> Self {
        let entered = Entered::at(trace, home, time);
        let updates = entered.updates;
        let (is_required, mut wrong) = entered.required(time, survival);
        let (required, mut optional): (Vec<usize>, Vec<usize>) =
            (0..updates.len()).partition(|&index| is_required[index]);
        if survival == Survival::Prefix {
            optional.sort_by_key(|&index| updates[index].id);
        }
        let (most, candidates) = candidates(survival, optional.len());
        if optional.len() > most {
            wrong = Some(format!("{} transactions are in commit at once", optional.len()));
            optional.truncate(most);
        }
        let is_closed = |&set: &u32| entered.is_closed(set, &is_required, &optional);
        let sets: Vec<u32> = candidates.into_iter().filter(is_closed).collect();
        let values = newest_values(home, required.iter().map(|&index| &updates[index]));
        let optional_writes = entered.writes_of(&optional);
        let changes = updates.iter().zip(effects).map(|(update, effects)| change(update, effects));
        let changes: Vec<u64> = changes.collect();
        let begin = required.iter().fold(0, |sum: u64, &index| sum.wrapping_add(changes[index]));
        let keys = sets.iter().map(|set| {
            let taken = optional.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
            taken.fold(begin, |sum, (_, &index)| sum.wrapping_add(changes[index]))
        });
        let keys: Vec<u64> = keys.collect();
        let fingerprint = keys
            .iter()
            .fold(mix(begin, wrong.is_some().into()), |sum: u64, &key| sum.wrapping_add(mix(key, 5)));
        let mut expected = Self {
            values,
            certain: Vec::new(),
            contested: Vec::new(),
            contested_values: Vec::new(),
            optional_writes,
            optional,
            required,
            sets,
            keys,
            fingerprint,
            wrong,
        };
        expected.contest(home);
        expected
    }

    /// Separates the words that depend on which optional transactions are in S.
    fn contest(&mut self, home: &Home) {
        let mut slots: Vec<u32> = self.optional_writes.iter().map(|write| write.0).collect();
        slots.dedup();
        for (slot, &word) in (0..).zip(&home.words) {
            if slots.binary_search(&slot).is_ok() {
                let values: Vec<u64> = self.sets.iter().map(|&set| self.value(slot, set)).collect();
                self.contested.push(word);
                self.contested_values.extend(values);
            } else {
                self.certain.push((word, self.values[slot as usize].0));
            }
        }
    }

    /// Returns the value of word `slot` if `set` is in S.
    fn value(&self, slot: u32, set: u32) -> u64 {
        let mut newest = self.values[slot as usize];
        let from = self.optional_writes.partition_point(|write| write.0 < slot);
        for &(_, bit, order, value) in self.optional_writes[from..].iter().take_while(|write| write.0 == slot)
        {
            if set >> bit & 1 == 1 && order > newest.1 {
                newest = (value, order);
            }
        }
        newest.0
    }

    /// Judges the recovered `memory`. Returns the optional part of the set S.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub fn judge(&self, home: &Home, memory: &impl Recovered) -> Result<u32, String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if self.certain.iter().any(|&(word, value)| memory.load_word(word) != value) {
            return Err(self.explain(home, memory));
        }
        let mut alive = [true; 1 << MOST_IN_COMMIT];
        let alive = &mut alive[..self.sets.len()];
        for (&word, values) in self.contested.iter().zip(self.contested_values.chunks(self.sets.len())) {
            let found = memory.load_word(word);
            alive.iter_mut().zip(values).for_each(|(alive, &value)| *alive &= value == found);
            if !alive.contains(&true) {
                return Err(self.explain(home, memory));
            }
        }
        for word in memory.stored() {
            if memory.load_word(word) != home.settled[word as usize] && !home.contains(word) {
                return Err(format!(
                    "word {:#x}, which no transaction wrote, holds {:#x} instead of {:#x}",
                    8 * word,
                    memory.load_word(word),
                    home.settled[word as usize]
                ));
            }
        }
        let first = alive.iter().position(|&alive| alive);
        Ok(first.map_or(0, |first| self.sets[first]))
    }

    /// Returns the indices of the trace's updates that are in S, whose optional part is `set`.
    pub fn members(&self, set: u32) -> Vec<usize> {
        let optional = self.optional.iter().enumerate();
        let taken = optional.filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, &index)| index);
        self.required.iter().copied().chain(taken).collect()
    }

    /// Returns a fingerprint of S, which is equal only if the transactions did the same.
    pub fn key(&self, set: u32) -> u64 {
        self.sets.iter().position(|&other| other == set).map_or(0, |at| self.keys[at])
    }

    /// Returns a fingerprint of the whole expectation.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn explain(&self, home: &Home, memory: &impl Recovered) -> String {
        // Report the differences from the closest set.
        let differences = |set: u32| {
            let slots = home.words.iter().enumerate();
            slots.filter(|&(slot, &word)| self.value(slot as u32, set) != memory.load_word(word)).count()
        };
        let closest = self.sets.iter().copied().min_by_key(|&set| differences(set)).unwrap_or(0);
        let mut text =
            String::from("no set of transactions gives what recovery left; the closest differs in:");
        let wrong = home.words.iter().enumerate().filter_map(|(slot, &word)| {
            let (expected, found) = (self.value(slot as u32, closest), memory.load_word(word));
            (expected != found)
                .then(|| format!(" word {:#x}: {found:#x} instead of {expected:#x};", 8 * word))
        });
        text.extend(wrong.take(6));
        text
    }
}
