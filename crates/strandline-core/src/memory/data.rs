//! The part of a mapped pool that transactions read and write.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{LINE_WORDS, Native, PersistentAddress, WORD_BYTES};

/// Words of a block whose place and alignment one comparison checks.
const BLOCK_WORDS: u64 = 4;

/// Where that part lies: whole lines of a mapping.
#[derive(Clone, Copy)]
pub(super) struct Data {
    /// Where the pool begins.
    base: *const AtomicU64,
    /// The offset of its first word.
    first: u64,
    words: u64,
    /// How many blocks of four words, aligned to their size, it has.
    blocks: u64,
}

// SAFETY: the words are atomics. (Where a thread needs permission to read them, who has none faults.)
unsafe impl Send for Data {}

impl Data {
    /// `words` words from `first` on in the pool that is mapped at `base`.
    ///
    /// # Safety
    /// These words are whole lines of the mapping, and it lasts as long as this and its copies are used.
    pub unsafe fn new(base: *const AtomicU64, first: PersistentAddress, words: u64) -> Self {
        Self { base, first: first.offset(), words, blocks: words / BLOCK_WORDS }
    }

    /// Whether `N` words at `at` lie in one line of the data. One comparison checks place and alignment.
    #[inline(always)]
    fn has<const N: usize>(&self, at: PersistentAddress) -> bool {
        // So many words are mostly those of a node, which is a block.
        if (3..=BLOCK_WORDS as usize).contains(&N) {
            let block = at.offset().wrapping_sub(self.first).rotate_right(5);
            return block < self.blocks || self.has_elsewhere::<N>(at);
        }
        self.has_anywhere::<N>(at)
    }

    #[inline(never)]
    fn has_elsewhere<const N: usize>(&self, at: PersistentAddress) -> bool {
        self.has_anywhere::<N>(at)
    }

    #[inline(always)]
    fn has_anywhere<const N: usize>(&self, at: PersistentAddress) -> bool {
        // Rotated, a misaligned or too small offset becomes larger than any size.
        at.offset().wrapping_sub(self.first).rotate_right(3) < self.words
            && (at.offset() / WORD_BYTES % LINE_WORDS) as usize + N <= LINE_WORDS as usize
    }

    /// Loads `N` words at `at`, each atomically (acquire), if they lie in one line of the data.
    #[inline(always)]
    pub fn load<const N: usize>(&self, at: PersistentAddress) -> Option<[u64; N]> {
        if !self.has::<N>(at) {
            return None;
        }
        // SAFETY: `new` requires that the data are whole lines of a mapping that is still there. The word at `at` is aligned and one of
        // them, and `N` words from there on are of its line.
        let words: &[AtomicU64; N] = unsafe { &*self.base.byte_add(at.offset() as usize).cast() };
        Some(std::array::from_fn(|i| words[i].load(Ordering::Acquire)))
    }

    /// `count` words at `at`, if they lie in the data.
    #[inline(always)]
    pub fn range(&self, at: PersistentAddress, count: usize) -> Option<&[AtomicU64]> {
        // As above.
        let index = at.offset().wrapping_sub(self.first).rotate_right(3);
        if index >= self.words || self.words - index < count as u64 {
            return None;
        }
        let begin = self.base.wrapping_byte_add(at.offset() as usize);
        // SAFETY: `new` requires that the data lie in a mapping that is still there. The word at `at` is aligned and one of them, and so
        // are the `count` words from there on.
        Some(unsafe { std::slice::from_raw_parts(begin, count) })
    }
}

/// The words of a mapped pool that transactions read and write, to be loaded without anything else being asked.
#[derive(Clone, Copy)]
pub struct DataWords<'m> {
    data: Data,
    // The thread that has them may have needed permission to read the pool: they stay with it.
    memory: PhantomData<(&'m Native, *const ())>,
}

impl<'m> DataWords<'m> {
    /// Those of `memory`, which keeps them mapped.
    pub(super) fn new(data: Data, _memory: &'m Native) -> Self {
        Self { data, memory: PhantomData }
    }

    /// Loads `N` words, each atomically (acquire), if they lie in one line of that part.
    #[inline(always)]
    pub fn load<const N: usize>(&self, at: PersistentAddress) -> Option<[u64; N]> {
        self.data.load(at)
    }

    /// Loads consecutive words, each atomically (acquire); whether they lie in that part.
    #[inline(always)]
    pub fn load_range(&self, at: PersistentAddress, into: &mut [u64]) -> bool {
        let Some(words) = self.data.range(at, into.len()) else { return false };
        for (into, word) in into.iter_mut().zip(words) {
            *into = word.load(Ordering::Acquire);
        }
        true
    }

    /// The first of them.
    pub fn first(&self) -> PersistentAddress {
        PersistentAddress::new(self.data.first)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.data.words
    }
}
