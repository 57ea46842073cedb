//! A line whose contents are not certain after a power failure.

use std::cell::Cell;

use crate::x86::mix;

/// The possible contents of a line that are not certain.
#[derive(Clone, Debug)]
pub(super) struct OpenLine {
    pub line: u32,
    /// Words that may have several values.
    pub differ: u8,
    possible: Possible,
}

/// The possible contents of a line, the oldest first.
#[derive(Clone, Debug)]
enum Possible {
    /// The line has one of these contents as a whole, one for each cut.
    Lines(Lines),
    /// Each word has one of its values, independently of the other words. The values of word `w` are those from `starts[w]` to `starts[w + 1]`.
    Words(Vec<u64>, [u32; 9]),
}

#[derive(Clone, Debug)]
struct Lines {
    states: Vec<[u64; 8]>,
    /// A bit for each state that the decisions so far permit.
    alive: Box<[Cell<u64>]>,
    /// True if some word takes on a value again that it had before.
    returns: bool,
    /// The values of each word that differs; those of word `w` are at `starts[w]` to `starts[w + 1]`.
    values: Vec<u64>,
    starts: [u32; 9],
    /// For each of `values` the states that have it, as a bit set as long as `alive`.
    having: Vec<u64>,
}

impl Lines {
    fn new(states: Vec<[u64; 8]>, differ: u8) -> Self {
        let blocks = states.len().div_ceil(64);
        let (mut values, mut starts, mut having) = (Vec::new(), [0; 9], Vec::new());
        let mut returns = false;
        for word in 0..8 {
            let first = values.len();
            if differ >> word & 1 == 1 {
                for (at, state) in states.iter().enumerate() {
                    let known = values[first..].iter().rposition(|&value| value == state[word]);
                    let place = known.map_or(values.len(), |place| first + place);
                    returns |= place + 1 < values.len();
                    if known.is_none() {
                        values.push(state[word]);
                        having.resize(values.len() * blocks, 0);
                    }
                    having[place * blocks + at / 64] |= 1 << (at % 64);
                }
            }
            starts[word + 1] = values.len() as u32;
        }
        Self { states, alive: vec![Cell::new(0); blocks].into(), returns, values, starts, having }
    }

    /// Returns the states that are alive and have value number `value`: words of bits with their places.
    fn alive_having(&self, value: usize) -> impl DoubleEndedIterator<Item = (usize, u64)> {
        let having = &self.having[value * self.alive.len()..][..self.alive.len()];
        having.iter().zip(&self.alive).map(|(having, alive)| having & alive.get()).enumerate()
    }
}

impl OpenLine {
    /// Returns the line that may hold any of `states`; `None` if there is just one.
    pub fn of_lines(line: u32, states: Vec<[u64; 8]>) -> Option<Self> {
        let first = states.first()?;
        let differ = (0..8).filter(|&i| states.iter().any(|state| state[i] != first[i]));
        let differ = differ.fold(0u8, |differ, i| differ | 1 << i);
        if differ == 0 {
            return None;
        }
        let line = Self { line, differ, possible: Possible::Lines(Lines::new(states, differ)) };
        line.reset();
        Some(line)
    }

    /// Returns the line whose words may hold any of these values.
    pub fn of_words(line: u32, words: &[Vec<u64>; 8]) -> Option<Self> {
        let mut starts = [0; 9];
        let (mut values, mut differ) = (Vec::with_capacity(16), 0u8);
        for (i, word) in words.iter().enumerate() {
            values.extend_from_slice(word);
            starts[i + 1] = values.len() as u32;
            differ |= u8::from(word.len() > 1) << i;
        }
        (differ != 0).then_some(Self { line, differ, possible: Possible::Words(values, starts) })
    }

    /// Makes all words undecided.
    pub fn reset(&self) {
        if let Possible::Lines(lines) = &self.possible {
            let mut left = lines.states.len();
            for bits in &lines.alive {
                bits.set(if left >= 64 { u64::MAX } else { (1 << left) - 1 });
                left = left.saturating_sub(64);
            }
        }
    }

    /// Returns the values that word `word` may have, each with its newest place, ordered by these places.
    pub fn values(&self, word: usize, values: &mut Vec<(u32, u64)>) {
        values.clear();
        match &self.possible {
            Possible::Words(all, starts) => {
                let all = &all[starts[word] as usize..starts[word + 1] as usize];
                values.extend(all.iter().enumerate().map(|(at, &value)| (at as u32, value)));
            }
            Possible::Lines(lines) => {
                let mut sorted = true;
                for at in lines.starts[word] as usize..lines.starts[word + 1] as usize {
                    let newest = lines.alive_having(at).rfind(|&(_, bits)| bits != 0);
                    if let Some((block, bits)) = newest {
                        let place = 64 * block as u32 + bits.ilog2();
                        sorted &= values.last().is_none_or(|last| last.0 < place);
                        values.push((place, lines.values[at]));
                    }
                }
                if !sorted {
                    values.sort_unstable_by_key(|&(place, _)| place);
                }
            }
        }
    }

    /// Decides that word `word` holds `value`, one of its values.
    pub fn narrow(&self, word: usize, value: u64) {
        let Possible::Lines(lines) = &self.possible else { return };
        let first = lines.starts[word] as usize;
        let values = &lines.values[first..lines.starts[word + 1] as usize];
        let Some(at) = values.iter().position(|&other| other == value) else { return };
        // Most lines have at most 64 states.
        if let [alive] = &*lines.alive {
            alive.set(alive.get() & lines.having[first + at]);
            return;
        }
        for (block, bits) in lines.alive_having(first + at) {
            lines.alive[block].set(bits);
        }
    }

    /// Returns a state, and for each bit set a word whose only remaining value the state has. Not all such words are found.
    pub fn certain_words(&self) -> Option<(&[u64; 8], u8)> {
        let Possible::Lines(Lines { states, alive, returns: false, .. }) = &self.possible else {
            return None;
        };
        let [alive] = &**alive else { return None };
        // A word that is the same in the oldest and the newest state has not changed in between.
        let oldest = &states[alive.get().trailing_zeros() as usize];
        let newest = &states[alive.get().ilog2() as usize];
        let same = (0..8).filter(|&i| oldest[i] == newest[i]).fold(0, |same, i| same | 1 << i);
        Some((oldest, same))
    }

    /// Returns the states that the decisions permit, if the line is one of whole states.
    pub fn alive(&self) -> Option<Vec<[u64; 8]>> {
        let Possible::Lines(lines) = &self.possible else { return None };
        let alive = |at: &usize| lines.alive[at / 64].get() >> (at % 64) & 1 == 1;
        Some((0..lines.states.len()).filter(alive).map(|at| lines.states[at]).collect())
    }

    /// Returns the values of each word, if words are independent of one another.
    pub fn words(&self) -> Option<[Vec<u64>; 8]> {
        let Possible::Words(values, starts) = &self.possible else { return None };
        Some(std::array::from_fn(|i| values[starts[i] as usize..starts[i + 1] as usize].to_vec()))
    }

    /// Returns how many different contents the line may have.
    pub fn possible(&self) -> u128 {
        match &self.possible {
            Possible::Lines(lines) => {
                let mut states: Vec<&[u64; 8]> = lines.states.iter().collect();
                states.sort_unstable();
                states.dedup();
                states.len() as u128
            }
            Possible::Words(_, starts) => {
                let counts = starts.windows(2).map(|word| u128::from(word[1] - word[0]));
                counts.fold(1, u128::saturating_mul)
            }
        }
    }

    /// Returns a fingerprint of the line and its possible contents.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = u64::from(self.line);
        match &self.possible {
            Possible::Lines(lines) => {
                let mut hashes: Vec<u64> =
                    lines.states.iter().map(|state| state.iter().copied().fold(3, mix)).collect();
                hashes.sort_unstable();
                hashes.dedup();
                hash = hashes.into_iter().fold(hash, mix);
            }
            Possible::Words(values, starts) => {
                for word in starts.windows(2) {
                    let hashes =
                        values[word[0] as usize..word[1] as usize].iter().map(|&value| mix(4, value));
                    hash = mix(hash, hashes.fold(0, u64::wrapping_add));
                }
            }
        }
        mix(hash, 1)
    }
}

/// Returns a fingerprint of a line's certain contents; 0 if they equal the initial ones.
pub(super) fn certain(line: u32, words: &[u64; 8], reference: &[u64]) -> u64 {
    if words == reference {
        return 0;
    }
    mix(words.iter().copied().fold(line.into(), mix), 2)
}

/// Pushes `new` unless it is the last element already.
pub(super) fn push_new<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if list.last() != Some(&new) {
        list.push(new);
    }
}

/// Pushes `value` as the newest, and removes it elsewhere.
pub(super) fn push_newest<T: PartialEq + Copy>(list: &mut Vec<T>, value: T) {
    list.retain(|&other| other != value);
    list.push(value);
}
