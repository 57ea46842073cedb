//! A set-associative cache with LRU replacement: tags, states and the lines' words, in flat arrays.
//!
//! The simulation is as fast as the host's own caches let it be. So the tags of a set and the times of their last use lie side by
//! side, in one line of the host's for eight ways, and a line's words in one.

use crate::controller::Line;
use crate::description::{CacheLevel, LINE_BYTES};
use crate::host::prefetch;
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
    /// The eight words, as the cache held them, if the line is [`DIRTY`].
    pub data: Line,
}

/// The words of a line, in one line of the host's caches.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Words(pub Line);

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
    /// The ways of a set as places: a power of two, so that a place tells its set.
    places: usize,
    /// For each set the lines in its places, and then when each was used last.
    tags: Vec<u32>,
    /// Where they begin, so that a set's lie in as few lines of the host's as can be.
    origin: usize,
    clock: u32,
    /// The state of each entry, by its place.
    pub states: Vec<LineState>,
    /// The words of each entry, by its place.
    pub data: Vec<Words>,
    /// What it has done.
    pub statistics: CacheStatistics,
}

/// The place in `tags` of `line`.
#[inline(always)]
fn position<const WAYS: usize>(tags: &[u32], line: u32) -> Option<usize> {
    let tags = tags.first_chunk::<WAYS>()?;
    let found = tags.iter().zip(0..).fold(0u32, |found, (&tag, way)| found | u32::from(tag == line) << way);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

impl CacheArray {
    /// A cache of the level's size that holds no line.
    pub fn new(level: &CacheLevel) -> Self {
        let entries = (level.bytes / LINE_BYTES) as usize;
        let sets_per_bank = entries / level.ways / level.banks;
        let places = level.ways.next_power_of_two();
        let entries = places * sets_per_bank * level.banks;
        let line = LINE_BYTES as usize / size_of::<u32>();
        let tags = vec![0; 2 * entries + line];
        // `usize::MAX` where that cannot be known.
        let origin = tags.as_ptr().align_offset(LINE_BYTES as usize).min(line);
        let mut cache = Self {
            ways: level.ways,
            banks: level.banks,
            set_mask: sets_per_bank - 1,
            bank_shift: if level.banks.is_power_of_two() { level.banks.trailing_zeros() } else { 0 },
            places,
            tags,
            origin,
            clock: 0,
            states: vec![LineState::default(); entries],
            data: vec![Words([0; 8]); entries],
            statistics: CacheStatistics::default(),
        };
        for entry in 0..entries {
            let tag = cache.tag(entry);
            cache.tags[tag] = EMPTY;
        }
        cache
    }

    /// Entries, all sets together. Where the ways are no power of two, some are never used.
    pub fn entries(&self) -> usize {
        self.states.len()
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
        (bank * (self.set_mask + 1) + (rest & self.set_mask)) * self.places
    }

    /// Where the line of an entry stands.
    #[inline]
    fn tag(&self, entry: Entry) -> usize {
        self.origin + entry + (entry & !(self.places - 1))
    }

    /// Where it stands when an entry was used last.
    #[inline]
    fn used(&self, entry: Entry) -> usize {
        self.tag(entry) + self.places
    }

    /// Where a line is.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Entry> {
        let first = self.set(line);
        let tag = self.tag(first);
        let tags = &self.tags[tag..tag + self.ways];
        let way = match self.ways {
            2 => position::<2>(tags, line),
            4 => position::<4>(tags, line),
            8 => position::<8>(tags, line),
            16 => position::<16>(tags, line),
            _ => tags.iter().position(|&other| other == line),
        };
        way.map(|way| first + way)
    }

    /// Has the host fetch what [`find`](Self::find) and [`insert`](Self::insert) look at.
    #[inline]
    pub fn prefetch(&self, line: u32) {
        let first = self.set(line);
        prefetch(&self.tags[self.tag(first)]);
        if self.places > 8 {
            prefetch(&self.tags[self.used(first)]);
        }
        prefetch(&self.states[first]);
    }

    /// Has the host fetch the words of an entry.
    #[inline]
    pub fn prefetch_words(&self, entry: Entry) {
        prefetch(&self.data[entry]);
    }

    /// The line in an entry.
    #[inline]
    pub fn line(&self, entry: Entry) -> Option<u32> {
        let line = self.tags[self.tag(entry)];
        (line != EMPTY).then_some(line)
    }

    /// Makes an entry the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, entry: Entry) {
        if self.clock == u32::MAX {
            self.begin_clock_anew();
        }
        self.clock += 1;
        let used = self.used(entry);
        self.tags[used] = self.clock;
    }

    /// Entries of a set keep their order.
    #[cold]
    fn begin_clock_anew(&mut self) {
        for first in (0..self.entries()).step_by(self.places) {
            let used = self.used(first);
            let times = &mut self.tags[used..used + self.places];
            let mut order = times.to_vec();
            order.sort_unstable();
            order.dedup();
            for time in times {
                *time = order.iter().position(|other| other == time).map_or(0, |place| place as u32);
            }
        }
        self.clock = self.places as u32;
    }

    /// Whether an entry is modified.
    #[inline]
    pub fn is_dirty(&self, entry: Entry) -> bool {
        self.states[entry].flags & DIRTY != 0
    }

    /// Puts a line, which is not there yet, in place of an empty or the least recently used one.
    pub fn insert(&mut self, line: u32, flags: u8, data: &Line, ready: u64) -> (Entry, Option<Victim>) {
        let first = self.set(line);
        let tag = self.tag(first);
        let (tags, used) = self.tags[tag..tag + 2 * self.places].split_at(self.places);
        let mut way = 0;
        for (candidate, (&line, time)) in tags.iter().zip(used).take(self.ways).enumerate() {
            if line == EMPTY {
                way = candidate;
                break;
            }
            if *time < used[way] {
                way = candidate;
            }
        }
        let entry = first + way;
        let state = self.states[entry];
        let is_dirty = state.flags & DIRTY != 0;
        let victim = self.line(entry).map(|line| Victim {
            line,
            flags: state.flags,
            tag: state.tag,
            data: if is_dirty { self.data[entry].0 } else { [0; 8] },
        });
        if victim.is_some() {
            self.statistics.evictions += 1;
            self.statistics.dirty_evictions += u64::from(is_dirty);
        }
        self.tags[tag + way] = line;
        self.states[entry] = LineState { ready, tag: 0, flags };
        self.data[entry].0 = *data;
        self.touch(entry);
        (entry, victim)
    }

    /// Takes a line out.
    pub fn remove(&mut self, entry: Entry) {
        let (tag, used) = (self.tag(entry), self.used(entry));
        self.tags[tag] = EMPTY;
        self.tags[used] = 0;
        self.states[entry].flags = 0;
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

    #[test]
    fn the_order_of_use_outlives_the_clock() {
        for ways in [2, 3, 8, 16] {
            let level = CacheLevel {
                name: "L1".into(),
                bytes: 2 * ways as u64 * 64,
                ways,
                latency: 1,
                sharing: Sharing::Private,
                inclusion: Inclusion::Inclusive,
                banks: 1,
            };
            let mut cache = CacheArray::new(&level);
            // Even lines meet in one set.
            let line = |number: usize| 2 * number as u32;
            for number in 0..ways {
                assert!(cache.insert(line(number), 0, &[number as u64; 8], 0).1.is_none());
            }
            // All but the last are used again, the first last.
            cache.clock = u32::MAX - (ways as u32 - 1) / 2;
            for number in (0..ways - 1).rev() {
                let entry = cache.find(line(number)).unwrap();
                assert_eq!(cache.data[entry].0[7], number as u64);
                cache.touch(entry);
            }
            assert!(cache.clock < 1 << 10, "it began anew");
            for number in (0..ways).rev() {
                let (_, victim) = cache.insert(line(ways + number), 0, &[0; 8], 0);
                assert_eq!(victim.map(|victim| victim.line), Some(line(number)));
            }
        }
    }
}
