//! Sets of chunks and runs of consecutive chunks, for the hints of an arena.

use std::collections::BTreeMap;

/// A set of chunks, with a bit for each up to the highest one.
#[derive(Default)]
pub(super) struct ChunkSet(Vec<u64>);

impl ChunkSet {
    /// Adds a chunk. Returns whether it was new.
    pub fn insert(&mut self, chunk: u64) -> bool {
        let (index, bit) = ((chunk / 64) as usize, 1 << (chunk % 64));
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        let was_missing = self.0[index] & bit == 0;
        self.0[index] |= bit;
        was_missing
    }

    pub fn remove(&mut self, chunk: u64) {
        if let Some(word) = self.0.get_mut((chunk / 64) as usize) {
            *word &= !(1 << (chunk % 64));
        }
    }
}

/// Runs of chunks that do not touch one another: first chunks and lengths.
#[derive(Default)]
pub(super) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds the `length` chunks from `first` on.
    pub fn insert(&mut self, mut first: u64, length: u64) {
        let mut end = first + length;
        if let Some((&before, &length)) = self.0.range(..first).next_back()
            && before + length >= first
        {
            first = before;
            end = end.max(before + length);
        }
        while let Some((&next, &length)) = self.0.range(first..=end).next() {
            self.0.remove(&next);
            end = end.max(next + length);
        }
        self.0.insert(first, end - first);
    }

    /// Removes the `length` chunks from `first` on, which are part of one run.
    pub fn remove(&mut self, first: u64, length: u64) {
        let Some((&run, &whole)) = self.0.range(..=first).next_back() else { return };
        self.0.remove(&run);
        if run < first {
            self.0.insert(run, first - run);
        }
        if first + length < run + whole {
            self.0.insert(first + length, run + whole - first - length);
        }
    }

    /// Returns the first chunk of the lowest run of at least `length` chunks. Looks only at the 64 lowest runs.
    pub fn find(&self, length: u64) -> Option<u64> {
        const RUNS: usize = 64;
        self.0.iter().take(RUNS).find(|&(_, &found)| found >= length).map(|(&first, _)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_together_and_are_cut() {
        let mut runs = Runs::default();
        for (first, length) in [(10, 2), (20, 5), (12, 1), (8, 1), (9, 1), (30, 1), (24, 6)] {
            runs.insert(first, length);
        }
        let all = |runs: &Runs| runs.0.iter().map(|(&first, &length)| (first, length)).collect::<Vec<_>>();
        assert_eq!(all(&runs), [(8, 5), (20, 11)]);
        assert_eq!([runs.find(5), runs.find(6), runs.find(12)], [Some(8), Some(20), None]);
        runs.remove(22, 1);
        runs.remove(8, 5);
        assert_eq!(all(&runs), [(20, 2), (23, 8)]);
        runs.insert(19, 12);
        assert_eq!(all(&runs), [(19, 12)]);
    }

    #[test]
    fn a_set_has_what_was_added_and_not_removed() {
        let mut set = ChunkSet::default();
        assert!(set.insert(130) && !set.insert(130) && set.insert(2));
        set.remove(130);
        set.remove(5000);
        assert_eq!([2, 130, 5000].map(|chunk| set.insert(chunk)), [false, true, true]);
    }
}
