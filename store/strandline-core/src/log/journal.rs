//! The undo journal of a large transaction: the old contents of what it has overwritten. After a crash, recovery restores them.
//!
//! The journal is a list of *granules*, the 512 bytes at an address as they were before the transaction first changed them. It is kept in *extents*.
//! The first one has a fixed place ([`Layout::JOURNAL`]), and each further one is a chunk of the heap that the transaction takes for it:
//!
//! ```text
//! header    word 0 n, the granules in the journal; 0: there is no journal
//!           words 1, 2 for the `Sync` domain: generation, checksum (`sync/large_transactions.rs`)
//! extent    word 0 the address of the next extent
//!           words 1.. the address of each granule
//!           from the next multiple of 512 bytes on: the granules
//! ```
//!
//! Only n determines what counts: the first n granules along the extents. These granules and the addresses that lead to them are durable before n is,
//! and n is durable before the data is changed.

use std::collections::HashSet;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::layout::{Layout, SECTOR_BYTES};
use crate::memory::{Memory, PAGE_BYTES, PersistentAddress, Step, WORD_BYTES};

/// Size of a granule, in bytes.
pub(crate) const GRANULE_BYTES: u64 = SECTOR_BYTES;
const GRANULE_WORDS: usize = (GRANULE_BYTES / WORD_BYTES) as usize;

/// The journal's header.
pub(crate) struct JournalHeader;

impl JournalHeader {
    /// The address of n.
    pub const GRANULES: PersistentAddress = Layout::JOURNAL;
    /// Under `Sync`: the address of the generation of the checkpoint slot to which the journal belongs.
    pub const GENERATION: PersistentAddress = Layout::JOURNAL.word(1);
    /// Under `Sync`: the address of the checksum of the words before it.
    pub const CHECKSUM: PersistentAddress = Layout::JOURNAL.word(2);
}

/// A part of a journal: a table of addresses, and granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    at: PersistentAddress,
    capacity: u64,
}

impl Extent {
    /// Returns the extent that every pool has.
    fn first() -> Self {
        let at = Layout::JOURNAL.byte(SECTOR_BYTES);
        Self::new(at, Layout::LOG_DIRECTORY.offset() - at.offset())
    }

    /// Returns an extent of `bytes` bytes, a multiple of 512.
    fn new(at: PersistentAddress, bytes: u64) -> Self {
        let most = bytes / GRANULE_BYTES;
        let fits = |capacity: &u64| Self { at, capacity: *capacity }.bytes() <= bytes;
        Self { at, capacity: (0..most).rev().find(fits).unwrap_or(0) }
    }

    /// Returns the size in bytes of the table and the address of the next extent.
    fn table_bytes(self) -> u64 {
        (WORD_BYTES * (1 + self.capacity)).next_multiple_of(GRANULE_BYTES)
    }

    fn bytes(self) -> u64 {
        self.table_bytes() + GRANULE_BYTES * self.capacity
    }

    fn next(self) -> PersistentAddress {
        self.at
    }

    fn address(self, index: u64) -> PersistentAddress {
        self.at.word(1 + index)
    }

    fn granule(self, index: u64) -> PersistentAddress {
        self.at.byte(self.table_bytes() + GRANULE_BYTES * index)
    }
}

/// The journal of a running transaction, or of one that was cut short.
pub(crate) struct Journal {
    extents: Vec<Extent>,
    granules: u64,
}

impl Journal {
    /// The number of granules that are reserved for what taking another extent changes.
    const SPARE: u64 = 2;

    /// Creates an empty journal.
    pub fn new() -> Self {
        Self { extents: vec![Extent::first()], granules: 0 }
    }

    /// Returns n, the number of granules.
    pub fn granules(&self) -> u64 {
        self.granules
    }

    /// Returns the number of granules for which the extents have room.
    fn capacity(&self) -> u64 {
        self.extents.iter().map(|extent| extent.capacity).sum()
    }

    /// Returns whether the journal should get another extent before `more` granules are saved.
    pub fn is_short(&self, more: u64) -> bool {
        self.granules + more + Self::SPARE > self.capacity()
    }

    /// Returns the chunks of the heap that the journal uses.
    pub fn chunks(&self) -> impl DoubleEndedIterator<Item = PersistentAddress> + use<'_> {
        self.extents.iter().skip(1).map(|extent| extent.at)
    }

    /// Returns the last of these chunks.
    pub fn last_chunk(&self) -> Option<PersistentAddress> {
        self.chunks().next_back()
    }

    /// Returns the places in chunks of the heap to which saving `more` granules stores, with their sizes in bytes. None crosses a page's boundary.
    pub fn places(&self, more: u64) -> Vec<(PersistentAddress, u64)> {
        let places = (self.granules..self.granules + more).map(|number| self.place(number));
        let further = places.filter(|(extent, _)| *extent != self.extents[0]);
        let stores = |(extent, index): (Extent, u64)| {
            [(extent.address(index), WORD_BYTES), (extent.granule(index), GRANULE_BYTES)]
        };
        further.flat_map(stores).collect()
    }

    /// Extends the journal by the free chunk at `at`, of `bytes` bytes. The words that mark the chunk as free may be changed only after this.
    pub fn extend<M: Memory>(&mut self, memory: &M, at: PersistentAddress, bytes: u64) {
        let (last, extent) = (self.extents[self.extents.len() - 1], Extent::new(at, bytes));
        memory.store(extent.next(), 0);
        memory.store(last.next(), at.offset());
        memory.write_back(extent.next(), Step::JournalWriteBack);
        memory.write_back(last.next(), Step::JournalWriteBack);
        memory.fence(Step::JournalFence);
        self.extents.push(extent);
    }

    /// Returns the extent of granule `number`, and its place there.
    fn place(&self, number: u64) -> (Extent, u64) {
        let first = self.extents[0];
        if number < first.capacity {
            return (first, number);
        }
        // All extents but the first have the same capacity.
        let rest = number - first.capacity;
        let further = self.extents[1];
        (self.extents[1 + (rest / further.capacity) as usize], rest % further.capacity)
    }

    /// Saves the granules at these addresses. The journal must have room for them. When this returns, they may be changed; under `Sync`, only in
    /// memory.
    pub fn save<M: Memory>(&mut self, memory: &M, granules: &[PersistentAddress]) {
        if granules.is_empty() {
            return;
        }
        let mut words = [0; GRANULE_WORDS];
        for (number, &granule) in (self.granules..).zip(granules) {
            let (extent, index) = self.place(number);
            memory.load_range(granule, &mut words);
            memory.store_range(extent.granule(index), &words);
            memory.store(extent.address(index), granule.offset());
        }
        for number in self.granules..self.granules + granules.len() as u64 {
            let (extent, index) = self.place(number);
            memory.write_back_range(extent.granule(index), GRANULE_BYTES, Step::JournalWriteBack);
            memory.write_back(extent.address(index), Step::JournalWriteBack);
        }
        memory.fence(Step::JournalFence);
        self.granules += granules.len() as u64;
        self.set_granules(memory, self.granules);
    }

    fn set_granules<M: Memory>(&self, memory: &M, granules: u64) {
        memory.store(JournalHeader::GRANULES, granules);
        memory.write_back(JournalHeader::GRANULES, Step::JournalHeaderWriteBack);
        memory.fence(Step::JournalHeaderFence);
    }

    /// Ends the journal durably: the transaction's changes remain.
    pub fn end<M: Memory>(&self, memory: &M) {
        self.set_granules(memory, 0);
    }

    /// Returns the chunks of the heap that may have changed since the journal had `granules` granules.
    pub fn chunks_since(&self, granules: u64) -> impl Iterator<Item = PersistentAddress> + use<'_> {
        // These are the extent that had room then, and the one before it, which contains its address.
        let (first, mut before) = (self.extents[0].capacity, 1);
        if let Some(further) = self.extents.get(1) {
            before += (granules.saturating_sub(first) / further.capacity) as usize;
        }
        self.chunks().skip(before.saturating_sub(2))
    }

    /// Finds the pool's journal. Its header has the number `granules`.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if the journal is damaged.
    pub fn find<M: Memory>(memory: &M, layout: &Layout, granules: u64) -> Result<Self> {
        let damaged = |what: String| Error::damaged(format!("the journal of a large transaction {what}"));
        let mut journal = Self { granules, ..Self::new() };
        let mut capacity = journal.capacity();
        // Extents that refer to one another in a cycle would have room for any number of granules.
        let mut chunks = HashSet::new();
        while capacity < granules {
            let last = journal.extents[journal.extents.len() - 1];
            let next = memory.load(last.next());
            let chunk = layout.geometry.chunk_bytes;
            let is_chunk = next >= layout.chunks.offset()
                && (next - layout.chunks.offset()).is_multiple_of(chunk)
                && layout.is_data(PersistentAddress::new(next), chunk / WORD_BYTES);
            if !is_chunk || !chunks.insert(next) {
                return Err(damaged(format!("continues at {next:#x}")));
            }
            let extent = Extent::new(PersistentAddress::new(next), chunk);
            capacity += extent.capacity;
            journal.extents.push(extent);
        }
        for number in 0..granules {
            let granule = journal.saved(memory, number);
            if !granule.offset().is_multiple_of(GRANULE_BYTES)
                || !layout.is_data(granule, GRANULE_WORDS as u64)
            {
                return Err(damaged(format!("names the address {:#x}", granule.offset())));
            }
        }
        Ok(journal)
    }

    /// Returns the address of the saved granule `number`.
    fn saved<M: Memory>(&self, memory: &M, number: u64) -> PersistentAddress {
        let (extent, index) = self.place(number);
        PersistentAddress::new(memory.load(extent.address(index)))
    }

    /// Restores all granules, durably except under `Sync`. Calls `restored` with each granule's address before that.
    pub fn roll_back<M: Memory>(&self, memory: &M, restored: impl FnMut(PersistentAddress)) {
        self.put_back(memory, 0..self.granules, restored);
        memory.fence(Step::JournalRollBackFence);
    }

    /// Returns the numbers of the pages that contain its granules.
    pub fn pages<M: Memory>(&self, memory: &M) -> impl Iterator<Item = u64> {
        (0..self.granules).map(|number| self.saved(memory, number).offset() / PAGE_BYTES)
    }

    /// Returns ranges of `granules` granule numbers each.
    pub fn parts(&self, granules: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let all = self.granules;
        (0..all).step_by(granules as usize).map(move |first| first..all.min(first + granules))
    }

    /// Restores some granules. Returns the numbers of their pages, in ascending order.
    pub fn roll_back_part<M: Memory>(&self, memory: &M, granules: Range<u64>) -> Vec<u64> {
        let mut pages = Vec::new();
        self.put_back(memory, granules, |granule| pages.push(granule.offset() / PAGE_BYTES));
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    fn put_back<M: Memory>(
        &self,
        memory: &M,
        granules: Range<u64>,
        mut restored: impl FnMut(PersistentAddress),
    ) {
        let mut words = [0; GRANULE_WORDS];
        for number in granules {
            let (extent, index) = self.place(number);
            let granule = self.saved(memory, number);
            restored(granule);
            memory.load_range(extent.granule(index), &mut words);
            memory.store_range(granule, &words);
            memory.write_back_range(granule, GRANULE_BYTES, Step::JournalRollBackWriteBack);
        }
    }
}

/// Rolls back a large transaction that a crash has interrupted, outside the `Sync` domain. Returns whether there was one.
///
/// # Errors
/// Returns [`Error::Damaged`] if the journal is damaged.
pub(crate) fn roll_back_journal<M: Memory>(memory: &M, layout: &Layout) -> Result<bool> {
    let granules = memory.load(JournalHeader::GRANULES);
    if granules == 0 {
        return Ok(false);
    }
    let journal = Journal::find(memory, layout, granules)?;
    journal.roll_back(memory, |_| ());
    journal.end(memory);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::layout::Geometry;
    use crate::memory::recorder::Recorder;
    use crate::memory::{Hosted, Space};

    #[test]
    fn extents_that_run_in_a_circle() {
        // The pool can have four million chunks; three exist.
        let geometry = Geometry { size: 1 << 40, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 18 };
        let layout = Layout::new(geometry).unwrap();
        let words = (layout.chunks.offset() + (3 << 18)) / 8;
        let recorder = Rc::new(Recorder::new(vec![0; words as usize], 8, 0, 1, None));
        let memory = Hosted::new(recorder.clone(), 0);
        let layout = layout.reaching(memory.size(Space::Persistent));
        let chunks = [0, 1, 2].map(|chunk| layout.chunks.byte(chunk << 18));
        memory.store(Extent::first().next(), chunks[0].offset());
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            memory.store(Extent::new(chunks[from], 1 << 18).next(), chunks[to].offset());
        }
        recorder.take_stream();
        let found = Journal::find(&memory, &layout, 1 << 40);
        assert!(matches!(found, Err(Error::Damaged { .. })));
        assert_eq!(recorder.take_stream().len(), 4);
    }
}
