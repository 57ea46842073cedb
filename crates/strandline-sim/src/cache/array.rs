//! A set-associative cache with LRU replacement: tags, states and the lines' words, in flat arrays.

use crate::controller::Line;
use crate::description::{CacheLevel, LINE_BYTES};
use crate::statistics::CacheStatistics;

/// No line.
const EMPTY: u32 = u32::MAX;

/// The line differs from what lies below.
pub const DIRTY: u8 = 1;
/// This core may write the line: no other core has it (MESI's E and M).
pub const EXCLUSIVE: u8 = 2;

/// A place in a cache.
pub type Entry = usize;

/// A line that has left a cache.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// The line's number in memory: its address / 64.
    pub line: u32,
    /// A combination of [`DIRTY`] and [`EXCLUSIVE`].
    pub flags: u8,
    /// The hardware scheme's word.
    pub tag: u32,
    /// The eight words, as the cache held them.
    pub data: Line,
}

/// What a cache knows of a line beside its words.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineState {
    /// When its fill is complete.
    pub ready: u64,
    /// A word for hardware schemes (log bit, TxID); 0 when the line enters.
    pub tag: u32,
    /// A combination of [`DIRTY`] and [`EXCLUSIVE`].
    pub flags: u8,
}

/// One cache, or all banks of a shared one.
pub struct CacheArray {
    ways: usize,
    banks: usize,
    set_mask: usize,
    bank_shift: u32,
    lines: Vec<u32>,
    used: Vec<u64>,
    clock: u64,
    /// The state of each entry, by its place.
    pub states: Vec<LineState>,
    /// The words of each entry, by its place.
    pub data: Vec<Line>,
    /// What it has done.
    pub statistics: CacheStatistics,
}

impl CacheArray {
    /// A cache of the level's size that holds no line.
    pub fn new(level: &CacheLevel) -> Self {
        let entries = (level.bytes / LINE_BYTES) as usize;
        let sets_per_bank = entries / level.ways / level.banks;
        Self {
            ways: level.ways,
            banks: level.banks,
            set_mask: sets_per_bank - 1,
            bank_shift: if level.banks.is_power_of_two() { level.banks.trailing_zeros() } else { 0 },
            lines: vec![EMPTY; entries],
            used: vec![0; entries],
            clock: 0,
            states: vec![LineState::default(); entries],
            data: vec![[0; 8]; entries],
            statistics: CacheStatistics::default(),
        }
    }

    /// Entries, all sets together.
    pub fn entries(&self) -> usize {
        self.lines.len()
    }

    /// Sets, of all banks together.
    pub fn sets(&self) -> usize {
        self.banks * (self.set_mask + 1)
    }

    /// The first entry of the line's set.
    #[inline]
    fn set(&self, line: u32) -> Entry {
        let line = line as usize;
        let (bank, rest) = if self.banks == 1 {
            (0, line)
        } else if self.bank_shift != 0 {
            (line & (self.banks - 1), line >> self.bank_shift)
        } else {
            (line % self.banks, line / self.banks)
        };
        (bank * (self.set_mask + 1) + (rest & self.set_mask)) * self.ways
    }

    /// Where a line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Entry> {
        let first = self.set(line);
        self.lines[first..first + self.ways].iter().position(|&other| other == line).map(|way| first + way)
    }

    /// The line in an entry.
    #[inline]
    pub fn line(&self, entry: Entry) -> Option<u32> {
        let line = self.lines[entry];
        (line != EMPTY).then_some(line)
    }

    /// Makes an entry the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, entry: Entry) {
        self.clock += 1;
        self.used[entry] = self.clock;
    }

    /// Whether an entry is modified.
    #[inline]
    pub fn is_dirty(&self, entry: Entry) -> bool {
        self.states[entry].flags & DIRTY != 0
    }

    /// Puts a line, which is not there yet, in place of an empty or the least recently used one.
    pub fn insert(&mut self, line: u32, flags: u8, data: &Line, ready: u64) -> (Entry, Option<Victim>) {
        let first = self.set(line);
        let mut entry = first;
        for candidate in first..first + self.ways {
            if self.lines[candidate] == EMPTY {
                entry = candidate;
                break;
            }
            if self.used[candidate] < self.used[entry] {
                entry = candidate;
            }
        }
        let victim = self.line(entry).map(|line| Victim {
            line,
            flags: self.states[entry].flags,
            tag: self.states[entry].tag,
            data: self.data[entry],
        });
        if let Some(victim) = &victim {
            self.statistics.evictions += 1;
            self.statistics.dirty_evictions += u64::from(victim.flags & DIRTY);
        }
        self.lines[entry] = line;
        self.states[entry] = LineState { ready, tag: 0, flags };
        self.data[entry] = *data;
        self.touch(entry);
        (entry, victim)
    }

    /// Takes a line out.
    pub fn remove(&mut self, entry: Entry) {
        self.lines[entry] = EMPTY;
        self.states[entry].flags = 0;
        self.used[entry] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::{Inclusion, Sharing};

    #[test]
    fn the_least_recently_used_line_leaves() {
        let level = CacheLevel {
            name: "L1".into(),
            bytes: 4 * 64,
            ways: 2,
            latency: 1,
            sharing: Sharing::Private,
            inclusion: Inclusion::Inclusive,
            banks: 1,
        };
        let mut cache = CacheArray::new(&level);
        let put = |cache: &mut CacheArray, line| cache.insert(line, 0, &[0; 8], 0).1.map(|v| v.line);
        assert_eq!(put(&mut cache, 0), None);
        assert_eq!(put(&mut cache, 2), None);
        assert_eq!(put(&mut cache, 1), None, "another set");
        let entry = cache.find(0).unwrap();
        cache.touch(entry);
        assert_eq!(put(&mut cache, 4), Some(2));
        assert_eq!(put(&mut cache, 6), Some(0));
    }
}
