//! The states of the heap's pages: which are dirty, and which are this process's own copies.
//!
//! The heap is mapped privately, so that each page that is stored to becomes memory of this process, and remains so. Three bitmaps describe the
//! pages. Two are of *dirty* pages: commits mark one of them while a checkpoint writes the pages of the other. One is of *private* pages, which were
//! stored to since they were last released. When commits mark a page as dirty, they mark it as private too.
//!
//! # Giving back
//!
//! If there are more private pages than the bound when a checkpoint has ended, it releases clean ones in batches, continuing round the heap where
//! the last batch ended. For each batch it closes the gate and waits until no thread is in commit, so that no thread is about to store to a page that
//! seems clean. A page that is in neither bitmap of dirty pages has the contents that were last written to the file. Its memory can be released:
//! the next access reads it from the file. A batch delays commits by some tens of microseconds. Threads that read meanwhile find the same words,
//! whether in memory or in the file.
//!
//! The system's pages may be larger than these, as on many aarch64 machines. Whole pages of the system are then released if they contain a private
//! page and no dirty one. This is done only among the chunks, where no thread stores to an unmarked page.

use crate::layout::{PAGE_BYTES, View};
use crate::memory::{Memory, PersistentAddress, Space, Step, VolatileAddress};

use super::shared_log::{Failure, SharedLog};
use crate::error::Result;

/// The number of the bitmap of private pages. Those of dirty pages are 0 and 1.
const PRIVATE: u64 = 2;
/// The number of bitmaps. Two more are of recent pages (`past_log.rs`), and the last one has a TxID for each word of the others.
pub(super) const BITMAPS: u64 = 6;

/// Number of pages that are released while the gate is closed once.
const BATCH_PAGES: u64 = 512;

/// Returns the bits of the pages in the `bytes` bytes at `at`, which are whole pages, by word of the bitmap.
pub(super) fn bits_of(at: PersistentAddress, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let pages = at.offset() / PAGE_BYTES..(at.offset() + bytes) / PAGE_BYTES;
    (pages.start / 64..pages.end.div_ceil(64)).map(move |index| {
        let from = pages.start.saturating_sub(64 * index);
        let to = (pages.end - 64 * index).min(64);
        (index, u64::MAX >> (64 - to) & u64::MAX << from)
    })
}

/// Returns all bits of those groups of `group` bits that have a bit in `bits`.
fn whole_groups(bits: u64, group: u64) -> u64 {
    let mask = u64::MAX >> (64 - group.min(64));
    let groups = (0..64).step_by(group.min(64) as usize).map(|at| mask << at);
    groups.filter(|mask| bits & mask != 0).fold(0, |all, mask| all | mask)
}

#[test]
fn groups_are_whole() {
    assert_eq!(whole_groups(0b1000_0000_0001_0000, 4), 0xf0f0);
    assert_eq!(whole_groups(1 << 63 | 1, 16), 0xffff_0000_0000_ffff);
    assert_eq!([0, 1 << 40].map(|bits| whole_groups(bits, 64)), [0, u64::MAX]);
    assert_eq!(whole_groups(0b1010, 2), 0b1111);
}

impl SharedLog {
    /// Marks the pages of the lines that a transaction is about to store home.
    pub(crate) fn mark_dirty<M: Memory>(
        &self,
        view: &View<M>,
        lines: impl Iterator<Item = PersistentAddress>,
    ) {
        let memory = &view.memory;
        // No checkpoint switches the bitmaps while this thread is in commit.
        let active = memory.load(self.active_bitmap());
        let (mut last, mut marked, mut copied) = (u64::MAX, 0, 0);
        for line in lines {
            let page = line.offset() / PAGE_BYTES;
            if page != last {
                last = page;
                if self.mark(memory, active, page) {
                    marked += 1;
                    copied += u64::from(self.mark(memory, PRIVATE, page));
                }
            }
        }
        if copied != 0 {
            memory.fetch_add(self.count(PRIVATE), copied);
        }
        if marked != 0 {
            let before = memory.fetch_add(self.count(active), marked);
            if before + marked >= self.dirty_pages {
                self.ask_for_checkpoint(memory);
            }
        }
    }

    /// Marks a page. Returns whether it was unmarked.
    fn mark<M: Memory>(&self, memory: &M, which: u64, page: u64) -> bool {
        let (word, bit) = (self.bitmap(which, page / 64), 1 << (page % 64));
        let mut old = memory.load(word);
        while old & bit == 0 {
            match memory.compare_exchange(word, old, old | bit) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
        false
    }

    /// Makes pages that will soon be stored to this process's own copies. Those that are its own already are left alone: to read them ahead would
    /// read the file in vain, since a checkpoint may have written it past the system's cache.
    pub(crate) fn copy_ahead<M: Memory>(&self, view: &View<M>, pages: impl Iterator<Item = u64>) {
        let memory = &view.memory;
        let is_private = |page| memory.load(self.bitmap(PRIVATE, page / 64)) >> (page % 64) & 1 != 0;
        let pages: Vec<u64> = pages.filter(|&page| !is_private(page)).collect();
        let at = |page| PersistentAddress::new(page * PAGE_BYTES);
        memory.read_ahead(&mut pages.iter().copied().map(at).collect::<Vec<_>>(), PAGE_BYTES as usize / 8, 0);
        for run in pages.chunk_by(|page, next| page + 1 == *next) {
            memory.expect_stores(at(run[0]), run.len() as u64 * PAGE_BYTES);
        }
        self.mark_private(memory, &pages);
    }

    /// Marks these pages as private.
    pub(super) fn mark_private<M: Memory>(&self, memory: &M, pages: &[u64]) {
        self.mark_all(memory, PRIVATE, pages);
    }

    /// Marks these pages, to which recovery has stored, as dirty and private. Returns how many are dirty now.
    pub(super) fn mark_recovered<M: Memory>(&self, memory: &M, pages: &[u64]) -> u64 {
        self.mark_private(memory, pages);
        let active = memory.load(self.active_bitmap());
        self.mark_all(memory, active, pages);
        memory.load(self.count(active))
    }

    fn mark_all<M: Memory>(&self, memory: &M, which: u64, pages: &[u64]) {
        let marked = pages.iter().filter(|&&page| self.mark(memory, which, page)).count();
        memory.fetch_add(self.count(which), marked as u64);
    }

    /// Returns the address of the number of private pages.
    fn private_count(&self) -> VolatileAddress {
        self.count(PRIVATE)
    }

    /// Returns the size in bytes of the process's own copies of the heap, and its bound.
    pub fn private_bytes<M: Memory>(&self, memory: &M) -> (u64, u64) {
        (memory.load(self.private_count()) * PAGE_BYTES, self.private_bound * PAGE_BYTES)
    }

    /// Gives back clean pages while there are more private ones than the bound. Returns their number. The calling thread takes the checkpoints, and
    /// the pages of those that it has taken are written.
    pub(super) fn give_back_clean<M: Memory>(&self, view: &View<M>) -> u64 {
        self.give_back_beyond_bound(view, |words| self.give_back_batch(view, words))
    }

    /// Like [`SharedLog::give_back_clean`], for a large transaction, while no other transaction stores to pages.
    pub(crate) fn give_back_clean_alone<M: Memory>(&self, view: &View<M>) {
        self.give_back_beyond_bound(view, |words| self.give_back_words(view, words));
    }

    /// Releases the clean pages of bitmap words with `give_back`, some at a time, while there are more private pages than the bound.
    fn give_back_beyond_bound<M: Memory>(&self, view: &View<M>, give_back: impl Fn(&[u64]) -> u64) -> u64 {
        let memory = &view.memory;
        let all = Self::bitmap_words(memory.size(Space::Persistent).min(view.layout.end().offset()));
        let (mut given, mut looked) = (0, 0);
        let mut words = Vec::new();
        while looked < all {
            let count = memory.load(self.private_count());
            let wanted = count.saturating_sub(self.private_bound).min(BATCH_PAGES);
            if wanted == 0 {
                break;
            }
            // This reads the bitmap with the gate open, since most of it may be empty.
            words.clear();
            let mut found = 0;
            while found < wanted && looked < all {
                let index = memory.load(self.hand()) % all;
                memory.store(self.hand(), (index + 1) % all);
                looked += 1;
                let clean = self.clean(view, index);
                if clean != 0 {
                    found += u64::from(clean.count_ones());
                    words.push(index);
                }
            }
            if !words.is_empty() {
                given += give_back(&words);
            }
        }
        given
    }

    /// Returns the bits of bitmap word `index` for private pages that are not dirty, and whose system page contains no dirty page.
    fn clean<M: Memory>(&self, view: &View<M>, index: u64) -> u64 {
        let memory = &view.memory;
        let private = memory.load(self.bitmap(PRIVATE, index));
        if private == 0 || memory.omitted(Step::SyncGiveBackClean) {
            return private;
        }
        let dirty = memory.load(self.bitmap(0, index)) | memory.load(self.bitmap(1, index));
        let group = memory.page_bytes() / PAGE_BYTES;
        if group == 1 {
            return private & !dirty;
        }
        let first = view.layout.chunks.offset().next_multiple_of(memory.page_bytes()) / PAGE_BYTES;
        let among_chunks = u64::MAX.checked_shl(first.saturating_sub(64 * index) as u32).unwrap_or(0);
        private & among_chunks & !whole_groups(dirty, group)
    }

    /// Gives back the clean pages of these bitmap words.
    fn give_back_batch<M: Memory>(&self, view: &View<M>, words: &[u64]) -> u64 {
        self.close_gate(view);
        let given = self.give_back_words(view, words);
        self.open_gate(&view.memory);
        given
    }

    /// Releases the clean pages of these bitmap words. Returns their number. No other thread stores to any page meanwhile.
    fn give_back_words<M: Memory>(&self, view: &View<M>, words: &[u64]) -> u64 {
        let memory = &view.memory;
        let (mut given, mut run) = (0, 0..0);
        let give_back = |run: std::ops::Range<u64>| {
            if !run.is_empty() {
                // The range is extended to whole pages of the system.
                let first = (run.start * PAGE_BYTES) & !(memory.page_bytes() - 1);
                let end = (run.end * PAGE_BYTES).next_multiple_of(memory.page_bytes());
                let end = end.min(memory.size(Space::Persistent));
                memory.give_back(PersistentAddress::new(first), end - first);
            }
        };
        for &index in words {
            let mut bits = self.clean(view, index);
            if bits == 0 {
                continue;
            }
            given += self.clear_private(memory, index, bits);
            while bits != 0 {
                let page = 64 * index + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                if page == run.end {
                    run.end += 1;
                } else {
                    give_back(std::mem::replace(&mut run, page..page + 1));
                }
            }
        }
        give_back(run);
        memory.fetch_add(self.private_count(), given.wrapping_neg());
        given
    }

    /// Makes holes that were punched into the heap file durable.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) if the device failed, now or earlier.
    pub(crate) fn flush_holes<M: Memory>(&self, view: &View<M>) -> Result<()> {
        let memory = &view.memory;
        memory.flush_file().map_err(|error| self.poison(memory, Failure::HeapFlush, &error))
    }

    /// Gives back the memory of `bytes` bytes at `at`. They are whole clean pages to which no thread stores, and whose contents are not needed.
    pub(crate) fn give_back_unused<M: Memory>(&self, view: &View<M>, at: PersistentAddress, bytes: u64) {
        let memory = &view.memory;
        // A checkpoint also releases pages, so it must not run now.
        self.keep_checkpoints(memory);
        self.forget_private(memory, at, bytes);
        memory.give_back(at, bytes);
        self.let_checkpoints(memory);
    }

    /// Removes the pages of these bytes from the private ones.
    pub(super) fn forget_private<M: Memory>(&self, memory: &M, at: PersistentAddress, bytes: u64) {
        let forgotten: u64 =
            bits_of(at, bytes).map(|(index, mask)| self.clear_private(memory, index, mask)).sum();
        memory.fetch_add(self.private_count(), forgotten.wrapping_neg());
    }

    /// Clears these bits in a word of the bitmap of private pages. Returns how many were set.
    fn clear_private<M: Memory>(&self, memory: &M, index: u64, mask: u64) -> u64 {
        let word = self.bitmap(PRIVATE, index);
        let mut old = memory.load(word);
        while old & mask != 0 {
            match memory.compare_exchange(word, old, old & !mask) {
                Ok(_) => return u64::from((old & mask).count_ones()),
                Err(now) => old = now,
            }
        }
        0
    }
}
