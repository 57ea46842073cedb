//! The part of a mapped pool that transactions read and write.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;

use super::{LINE_WORDS, Native, PersistentAddress, WORD_BYTES, write_back};

/// Number of words in a block whose place and alignment one comparison checks.
const BLOCK_WORDS: u64 = 4;

/// The place of a pool's data, which consist of whole lines of a mapping.
#[derive(Clone, Copy)]
pub(super) struct Data {
    /// The pool's first word.
    base: *const AtomicU64,
    /// The offset of the part's first word.
    first: u64,
    words: u64,
    /// Number of words at which a range of a line's length can begin.
    lines_anywhere: u64,
    /// Number of aligned blocks of four words.
    blocks: u64,
}

// SAFETY: the words are atomics. (If reading them needs a permission, a thread without it faults.)
unsafe impl Send for Data {}

impl Data {
    /// Returns the `words` words from `first` on in the pool that is mapped at `base`.
    ///
    /// # Safety
    /// These words are whole lines of the mapping, which outlives this value and its copies.
    pub unsafe fn new(base: *const AtomicU64, first: PersistentAddress, words: u64) -> Self {
        let lines_anywhere = words.saturating_sub(LINE_WORDS - 1);
        Self { base, first: first.offset(), words, lines_anywhere, blocks: words / BLOCK_WORDS }
    }

    /// Returns whether `N` words at `at` are in the data. For up to a line's number of words, one comparison checks place and alignment.
    #[inline(always)]
    fn has<const N: usize>(self, at: PersistentAddress) -> bool {
        // Rotating makes a misaligned or too small offset larger than any size.
        let index = at.offset().wrapping_sub(self.first).rotate_right(3);
        if N == 1 {
            return index < self.words;
        }
        N <= LINE_WORDS as usize && index < self.lines_anywhere || is_in_called::<N>(self.words, index)
    }

    /// Returns whether `N` words at `at` are in one line of the data. One comparison checks place and alignment.
    #[inline(always)]
    fn has_line_of<const N: usize>(self, at: PersistentAddress) -> bool {
        let inside = at.offset().wrapping_sub(self.first);
        // This number of words is mostly that of a node, which is a block.
        if (3..=BLOCK_WORDS as usize).contains(&N) {
            return inside.rotate_right(5) < self.blocks || is_in_line_called::<N>(self.words, inside);
        }
        is_in_line::<N>(self.words, inside)
    }
}

/// Returns whether `N` words from number `index` on are among `words` words.
#[cold]
#[inline(never)]
fn is_in_called<const N: usize>(words: u64, index: u64) -> bool {
    index < words && words - index >= N as u64
}

/// Returns whether `N` words, `inside` bytes behind the first of `words` words, are in one of their lines.
#[inline(always)]
fn is_in_line<const N: usize>(words: u64, inside: u64) -> bool {
    // Rotating makes a misaligned or too small offset larger than any size.
    inside.rotate_right(3) < words && (inside / WORD_BYTES % LINE_WORDS) as usize + N <= LINE_WORDS as usize
}

#[inline(never)]
fn is_in_line_called<const N: usize>(words: u64, inside: u64) -> bool {
    is_in_line::<N>(words, inside)
}

/// The words of a mapped pool that transactions read and write, which can be loaded without further checks.
#[derive(Clone, Copy)]
pub struct DataWords<'m> {
    data: Data,
    // The thread may have needed a permission to read the pool, so the words must not be sent to another thread.
    memory: PhantomData<(&'m Native, *const ())>,
}

impl<'m> DataWords<'m> {
    /// Returns the words of `memory`, which keeps them mapped.
    #[inline]
    pub(super) fn new(data: Data, _memory: &'m Native) -> Self {
        Self { data, memory: PhantomData }
    }

    /// Loads `N` words at `at`, each atomically (acquire), if they are in the data.
    #[inline(always)]
    pub fn load<const N: usize>(&self, at: PersistentAddress) -> Option<[u64; N]> {
        self.has::<N>(at).then(|| {
            // SAFETY: the check has found the words in the data.
            unsafe { self.load_inside(at) }
        })
    }

    /// Like [`DataWords::load`], but only if the words are in one line.
    #[inline(always)]
    pub fn load_in_line<const N: usize>(&self, at: PersistentAddress) -> Option<[u64; N]> {
        self.has_line_of::<N>(at).then(|| {
            // SAFETY: the check has found the words in a line of the data.
            unsafe { self.load_inside(at) }
        })
    }

    /// Returns whether `N` words at `at` lie in the data.
    #[inline(always)]
    pub fn has<const N: usize>(&self, at: PersistentAddress) -> bool {
        self.data.has::<N>(at)
    }

    /// Returns whether `N` words at `at` lie in one line of the data.
    #[inline(always)]
    pub fn has_line_of<const N: usize>(&self, at: PersistentAddress) -> bool {
        self.data.has_line_of::<N>(at)
    }

    /// # Safety
    /// `at` is aligned to words, and `N` words from there on are in the data.
    #[inline(always)]
    unsafe fn load_inside<const N: usize>(&self, at: PersistentAddress) -> [u64; N] {
        // SAFETY: `Data::new` requires that the data are whole lines of an existing mapping, and the caller promises that these words are in them.
        let words: &[AtomicU64; N] = unsafe { &*self.data.base.byte_add(at.offset() as usize).cast() };
        std::array::from_fn(|i| words[i].load(Ordering::Acquire))
    }

    /// Returns `count` words at `at` if they are in the data.
    #[inline]
    fn range(&self, at: PersistentAddress, count: usize) -> Option<&'m [AtomicU64]> {
        // Rotating has the same purpose as in `has`.
        let index = at.offset().wrapping_sub(self.data.first).rotate_right(3);
        if index >= self.data.words || self.data.words - index < count as u64 {
            return None;
        }
        let begin = self.data.base.wrapping_byte_add(at.offset() as usize);
        // SAFETY: `Data::new` requires that the data are in an existing mapping. The word at `at` is aligned and in the data, and so are the `count`
        // words from there on.
        Some(unsafe { std::slice::from_raw_parts(begin, count) })
    }

    /// Returns `count` words from `at` on, if they are in the data.
    pub fn words(&self, at: PersistentAddress, count: u64) -> Option<MappedWords<'m>> {
        Some(MappedWords { words: self.range(at, count as usize)?, thread: PhantomData })
    }

    /// Loads consecutive words, each atomically (acquire). Returns whether they are in the data.
    #[inline]
    pub fn load_range(&self, at: PersistentAddress, into: &mut [u64]) -> bool {
        self.range(at, into.len()).map(|words| load_words(words, into)).is_some()
    }
}

/// Consecutive words of a mapped pool, such as those of a page.
#[derive(Clone, Copy)]
pub struct MappedWords<'m> {
    words: &'m [AtomicU64],
    // As in `DataWords`.
    thread: PhantomData<*const ()>,
}

impl MappedWords<'_> {
    /// Loads `N` words from number `number` on, each atomically (acquire), if there are so many.
    pub fn load<const N: usize>(&self, number: u64) -> Option<[u64; N]> {
        let words = self.words.get(number as usize..)?.first_chunk::<N>()?;
        Some(words.each_ref().map(|word| word.load(Ordering::Acquire)))
    }

    /// Appends `count` words from number `number` on to `into`, each loaded atomically (acquire), if there are so many and they have room there.
    pub fn append<const N: usize>(&self, number: u64, count: u64, into: &mut ArrayVec<u64, N>) -> bool {
        let words = self.words.get(number as usize..).and_then(|words| words.get(..count as usize));
        let Some(words) = words else { return false };
        let (eights, rest) = words.as_chunks::<8>();
        for eight in eights {
            let eight = eight.each_ref().map(|word| word.load(Ordering::Acquire));
            if into.try_extend_from_slice(&eight).is_err() {
                return false;
            }
        }
        rest.iter().all(|word| into.try_push(word.load(Ordering::Acquire)).is_ok())
    }

    /// Hints that word `number` will soon be loaded.
    pub fn prefetch(&self, number: u64) {
        // A prefetch of any address is harmless.
        write_back::prefetch(self.words.as_ptr().wrapping_add(number as usize));
    }
}

/// Loads words, eight per step, because the compiler does not unroll loops of atomic loads.
#[inline(always)]
pub(super) fn load_words(from: &[AtomicU64], into: &mut [u64]) {
    let (from, from_rest) = from.as_chunks::<8>();
    let (into, into_rest) = into.as_chunks_mut::<8>();
    for (into, from) in into.iter_mut().zip(from) {
        *into = from.each_ref().map(|word| word.load(Ordering::Acquire));
    }
    for (into, from) in into_rest.iter_mut().zip(from_rest) {
        *into = from.load(Ordering::Acquire);
    }
}
