//! A set-associative cache with LRU replacement: tags, states and the lines' words, in flat arrays.
//!
//! The host's own caches limit the simulation's speed. So the tags of a set are stored next to the times of their last use, in one line of the host's
//! for eight ways, and the words of a line are in one line of the host's.

use crate::addresses::Addresses;
use crate::controller::Line;
use crate::description::{CacheLevel, LINE_BYTES};
use crate::host::{list, prefetch};
use crate::numbers::{Cycle, LineNumber};
use crate::statistics::CacheStatistics;

/// The tag of an empty place.
const EMPTY: u32 = u32::MAX;

/// The line differs from the level below.
pub const DIRTY: u8 = 1;
/// This core may write the line: no other core has it (MESI's E and M).
pub const EXCLUSIVE: u8 = 2;

/// A place in a cache.
pub type Entry = usize;

/// A line that was evicted.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// The line's number in memory: its address / 64.
    pub line: LineNumber,
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

/// A cache's state of a line beside its words.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineState {
    /// When its fill is complete.
    pub ready: Cycle,
    /// A word for hardware schemes (log bit, TxID); 0 when the line is inserted.
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
    addresses: Addresses,
    /// The places of a set: its ways, rounded up to a power of two so that a place determines its set.
    places: usize,
    /// For each set the lines in its places, followed by the times of their last use: 0 for an empty place, and never 0 otherwise.
    tags: Vec<u32>,
    /// The index at which the sets begin, aligned so that each set is in as few lines of the host's as possible.
    origin: usize,
    clock: u32,
    /// The state of each entry, by its place.
    pub states: Vec<LineState>,
    /// The words of each entry, by its place.
    pub data: Vec<Words>,
    /// Its counts.
    pub statistics: CacheStatistics,
}

/// Returns the index of `line` in `tags`.
fn position<const WAYS: usize>(tags: &[u32], line: u32) -> Option<usize> {
    let found = equal(tags.first_chunk::<WAYS>()?, line);
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// Returns a bit for each of the tags that equals `line`.
fn equal<const WAYS: usize>(tags: &[u32; WAYS], line: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if WAYS.is_multiple_of(4) {
        use std::arch::x86_64::{
            _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_ps, _mm_set1_epi32,
        };
        let (fours, _) = tags.as_chunks::<4>();
        return fours.iter().zip(0..).fold(0, |found, (four, number)| {
            // SAFETY: every x86-64 processor has SSE2, and the load covers exactly four tags.
            let mask = unsafe {
                let tags = _mm_loadu_si128(four.as_ptr().cast());
                _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(tags, _mm_set1_epi32(line as i32))))
            };
            found | (mask as u32) << (4 * number)
        });
    }
    tags.iter().zip(0..).fold(0, |found, (&tag, way)| found | u32::from(tag == line) << way)
}

/// Returns the index of the least of the times in `used`; the first one if several are equal.
fn oldest<const WAYS: usize>(used: &[u32]) -> Option<usize> {
    let least = used.first_chunk::<WAYS>()?.iter().copied().fold(u32::MAX, u32::min);
    position::<WAYS>(used, least)
}

impl CacheArray {
    /// Creates an empty cache of the level's size.
    pub fn new(level: &CacheLevel) -> Self {
        let entries = (level.bytes / LINE_BYTES) as usize;
        let sets_per_bank = entries / level.ways / level.banks;
        let places = level.ways.next_power_of_two();
        let entries = places * sets_per_bank * level.banks;
        let line = LINE_BYTES as usize / size_of::<u32>();
        let tags = list(0, 2 * entries + line);
        // `align_offset` returns `usize::MAX` if it cannot compute the offset.
        let origin = tags.as_ptr().align_offset(LINE_BYTES as usize).min(line);
        let mut cache = Self {
            ways: level.ways,
            banks: level.banks,
            set_mask: sets_per_bank - 1,
            bank_shift: if level.banks.is_power_of_two() { level.banks.trailing_zeros() } else { 0 },
            addresses: Addresses::default(),
            places,
            tags,
            origin,
            clock: 0,
            states: list(LineState::default(), entries),
            data: list(Words([0; 8]), entries),
            statistics: CacheStatistics::default(),
        };
        for entry in 0..entries {
            let tag = cache.tag(entry);
            cache.tags[tag] = EMPTY;
        }
        cache
    }

    /// Returns the number of entries in all sets. If the number of ways is not a power of two, some entries are never used.
    pub fn entries(&self) -> usize {
        self.states.len()
    }

    /// Returns the number of sets, of all banks together.
    pub fn sets(&self) -> usize {
        self.banks * (self.set_mask + 1)
    }

    /// Maps lines by these addresses. The cache must be empty.
    pub fn set_addresses(&mut self, addresses: &Addresses) {
        self.addresses = addresses.clone();
    }

    /// Returns the first entry of the line's set.
    fn set(&self, line: LineNumber) -> Entry {
        let line = self.addresses.of(line) as usize;
        let (bank, rest) = if self.banks == 1 {
            (0, line)
        } else if self.bank_shift != 0 {
            (line & (self.banks - 1), line >> self.bank_shift)
        } else {
            (line % self.banks, line / self.banks)
        };
        (bank * (self.set_mask + 1) + (rest & self.set_mask)) * self.places
    }

    /// Returns the index of an entry's line in `tags`.
    fn tag(&self, entry: Entry) -> usize {
        self.origin + entry + (entry & !(self.places - 1))
    }

    /// Returns the index of an entry's time of last use.
    fn used(&self, entry: Entry) -> usize {
        self.tag(entry) + self.places
    }

    /// Returns the entry of a line.
    pub fn find(&self, line: LineNumber) -> Option<Entry> {
        let first = self.set(line);
        let tag = self.tag(first);
        let tags = &self.tags[tag..tag + self.ways];
        let line = line.number();
        let way = match self.ways {
            2 => position::<2>(tags, line),
            4 => position::<4>(tags, line),
            8 => position::<8>(tags, line),
            16 => position::<16>(tags, line),
            _ => tags.iter().position(|&other| other == line),
        };
        way.map(|way| first + way)
    }

    /// Makes the host fetch the data that [`find`](Self::find) needs.
    pub fn prefetch_set(&self, line: LineNumber) {
        let first = self.set(line);
        prefetch(&self.tags, self.tag(first));
        if self.places > 8 {
            prefetch(&self.tags, self.used(first));
        }
    }

    /// Makes the host fetch the entry of a line.
    pub fn prefetch_entry(&self, entry: Entry) {
        prefetch(&self.states, entry);
        prefetch(&self.data, entry);
    }

    /// Makes the host fetch the entry that an absent line would take. Returns the entry, and the line in it, which may be the number of no line.
    pub fn prefetch_replaced(&self, line: LineNumber) -> (Entry, LineNumber) {
        let entry = self.replaced(self.set(line));
        self.prefetch_entry(entry);
        (entry, LineNumber::new(self.tags[self.tag(entry)]))
    }

    /// Returns the entry that the next line of the set beginning at `first` takes: an empty one, or the least recently used.
    fn replaced(&self, first: Entry) -> Entry {
        let used = self.used(first);
        let used = &self.tags[used..used + self.ways];
        let way = match self.ways {
            2 => oldest::<2>(used),
            4 => oldest::<4>(used),
            8 => oldest::<8>(used),
            16 => oldest::<16>(used),
            _ => (0..self.ways).min_by_key(|&way| used[way]),
        };
        first + way.unwrap_or(0)
    }

    /// Returns the line in an entry.
    pub fn line(&self, entry: Entry) -> Option<LineNumber> {
        let line = self.tags[self.tag(entry)];
        (line != EMPTY).then_some(LineNumber::new(line))
    }

    /// Makes an entry the most recently used of its set.
    pub fn touch(&mut self, entry: Entry) {
        if self.clock == u32::MAX {
            self.begin_clock_anew();
        }
        self.clock += 1;
        let used = self.used(entry);
        self.tags[used] = self.clock;
    }

    /// Restarts the clock. The entries of a set keep their order.
    #[cold]
    fn begin_clock_anew(&mut self) {
        for first in (0..self.entries()).step_by(self.places) {
            let used = self.used(first);
            let times = &mut self.tags[used..used + self.places];
            let mut order = times.to_vec();
            // The time of an empty place stays the same.
            order.push(0);
            order.sort_unstable();
            order.dedup();
            for time in times {
                *time = order.iter().position(|other| other == time).map_or(0, |place| place as u32);
            }
        }
        self.clock = self.places as u32;
    }

    /// Returns whether an entry is modified.
    pub fn is_dirty(&self, entry: Entry) -> bool {
        self.states[entry].flags & DIRTY != 0
    }

    /// Inserts an absent line in an empty place, or in place of the least recently used one.
    pub fn insert(
        &mut self,
        line: LineNumber,
        flags: u8,
        data: &Line,
        ready: Cycle,
    ) -> (Entry, Option<Victim>) {
        let entry = self.replaced(self.set(line));
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
        let tag = self.tag(entry);
        self.tags[tag] = line.number();
        self.states[entry] = LineState { ready, tag: 0, flags };
        self.data[entry].0 = *data;
        self.touch(entry);
        (entry, victim)
    }

    /// Removes a line.
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
            access_nj: None,
        };
        let mut cache = CacheArray::new(&level);
        let put = |cache: &mut CacheArray, line| {
            let (_, victim) = cache.insert(LineNumber::new(line), 0, &[0; 8], Cycle::ZERO);
            victim.map(|victim| victim.line.number())
        };
        assert_eq!(put(&mut cache, 0), None);
        assert_eq!(put(&mut cache, 2), None);
        assert_eq!(put(&mut cache, 1), None, "another set");
        let entry = cache.find(LineNumber::new(0)).unwrap();
        cache.touch(entry);
        assert_eq!(put(&mut cache, 4), Some(2));
        assert_eq!(put(&mut cache, 6), Some(0));
    }

    #[test]
    fn tags_are_compared_and_the_first_of_the_least_is_the_oldest() {
        fn same<const WAYS: usize>(random: &mut fastrand::Rng) {
            let tags: [u32; WAYS] = std::array::from_fn(|_| random.u32(..6) << 29);
            let wanted = random.u32(..6) << 29;
            let one_by_one = (0..WAYS).filter(|&way| tags[way] == wanted).map(|way| 1 << way).sum::<u32>();
            assert_eq!(equal(&tags, wanted), one_by_one, "{tags:?}");
            assert_eq!(position::<WAYS>(&tags, wanted), tags.iter().position(|&tag| tag == wanted));
            assert_eq!(oldest::<WAYS>(&tags), (0..WAYS).min_by_key(|&way| tags[way]));
        }
        let random = &mut fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            same::<2>(random);
            same::<4>(random);
            same::<8>(random);
            same::<16>(random);
        }
    }

    #[test]
    fn the_order_of_use_outlives_the_clock() {
        for ways in [2, 3, 4, 8, 16] {
            let level = CacheLevel {
                name: "L1".into(),
                bytes: 2 * ways as u64 * 64,
                ways,
                latency: 1,
                sharing: Sharing::Private,
                inclusion: Inclusion::Inclusive,
                banks: 1,
                access_nj: None,
            };
            let mut cache = CacheArray::new(&level);
            // Even lines share one set.
            let line = |number: usize| LineNumber::new(2 * number as u32);
            for number in 0..ways {
                assert!(cache.insert(line(number), 0, &[number as u64; 8], Cycle::ZERO).1.is_none());
            }
            // All lines but the last are used again, the first one last.
            cache.clock = u32::MAX - (ways as u32 - 1) / 2;
            for number in (0..ways - 1).rev() {
                let entry = cache.find(line(number)).unwrap();
                assert_eq!(cache.data[entry].0[7], number as u64);
                cache.touch(entry);
            }
            assert!(cache.clock < 1 << 10, "it began anew");
            // An empty place is taken before a used one.
            let last = cache.find(line(ways - 1)).unwrap();
            cache.remove(last);
            assert_eq!(
                (cache.find(line(ways - 1)), cache.prefetch_replaced(line(ways - 1))),
                (None, (last, LineNumber::new(EMPTY)))
            );
            assert!(cache.insert(line(ways - 1), 0, &[0; 8], Cycle::ZERO).1.is_none());
            for number in (0..ways - 1).rev() {
                let entry = cache.find(line(number)).unwrap();
                cache.touch(entry);
            }
            for number in (0..ways).rev() {
                let (_, victim) = cache.insert(line(ways + number), 0, &[0; 8], Cycle::ZERO);
                assert_eq!(victim.map(|victim| victim.line), Some(line(number)));
            }
        }
    }
}
