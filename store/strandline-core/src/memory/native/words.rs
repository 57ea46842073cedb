//! The words of a mapping.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::super::{LINE_WORDS, Mapping, WORD_BYTES};
use crate::error::{Error, Result};

/// The words for which a mapping has address space, at least [`LEAST_WORDS`]. This keeps the mapping alive.
#[derive(Clone)]
pub(super) struct Words {
    pub mapping: Arc<Mapping>,
    pub base: *const AtomicU64,
    pub count: u64,
    /// A line of the words that needs no check; before [`Words::set_own`], the first line.
    pub own: *const [AtomicU64; LINE_WORDS as usize],
}

/// The least number of words in a mapping: those of a page.
const LEAST_WORDS: u64 = 4096 / WORD_BYTES;

// SAFETY: the words are atomics, and the mapping that owns them moves with this value; nothing in it belongs to one thread.
unsafe impl Send for Words {}

impl Words {
    pub fn new(mapping: Arc<Mapping>) -> Result<Self> {
        let (base, count) = (mapping.base(), mapping.reserved() / WORD_BYTES);
        if count < LEAST_WORDS {
            return Err(Error::Parameter(format!(
                "memory of {count} words: at least {LEAST_WORDS} are needed"
            )));
        }
        Ok(Self { mapping, base, count, own: base.cast() })
    }

    pub fn set_own(&mut self, offset: u64) {
        self.own = self.line(offset);
    }

    /// Returns word `word` of the line that `set_own` has set.
    #[inline]
    pub fn own(&self, word: u64) -> &AtomicU64 {
        // SAFETY: `own` is `base` at first, which points to at least `LEAST_WORDS` words, and later comes from `line`; `self.mapping` keeps
        // both mapped.
        let line = unsafe { &*self.own };
        &line[word as usize]
    }

    /// Returns the number of words.
    #[inline]
    pub fn count(&self) -> u64 {
        // SAFETY: `new` refuses fewer words, and the count never changes. This lets the compiler remove the checks of fixed addresses.
        unsafe { std::hint::assert_unchecked(self.count >= LEAST_WORDS) };
        self.count
    }

    #[inline(always)]
    pub fn at(&self, offset: u64) -> &AtomicU64 {
        // Rotating makes a misaligned offset larger than any size.
        let index = offset.rotate_right(3);
        if index >= self.count() {
            outside(offset);
        }
        // SAFETY: `base` points at `count` words that `self.mapping` keeps mapped, and index < count.
        unsafe { &*self.base.add(index as usize) }
    }

    /// Returns the words of a line.
    #[inline(always)]
    pub fn line(&self, offset: u64) -> &[AtomicU64; LINE_WORDS as usize] {
        // Rotating makes an offset that is not a line's larger than any size.
        let line = offset.rotate_right(6);
        if line >= self.count() / LINE_WORDS {
            outside(offset);
        }
        // SAFETY: `base` points to `count` words that `self.mapping` keeps mapped, and this line ends at `count` or before.
        unsafe { &*self.base.add((line * LINE_WORDS) as usize).cast() }
    }

    /// Returns two consecutive words.
    #[inline]
    pub fn pair(&self, offset: u64) -> &[AtomicU64; 2] {
        let first = offset.rotate_right(3);
        if first >= self.count() - 1 {
            outside(offset);
        }
        // SAFETY: `base` points at `count` words that `self.mapping` keeps mapped, and first + 1 < count.
        unsafe { &*self.base.add(first as usize).cast() }
    }

    #[inline(always)]
    pub fn range(&self, offset: u64, words: usize) -> &[AtomicU64] {
        let (first, words_wanted) = (offset.rotate_right(3), words as u64);
        if first > self.count || words_wanted > self.count - first {
            outside(offset);
        }
        // SAFETY: `base` points to `count` words that `self.mapping` keeps mapped, and the range ends at `count` or before.
        unsafe { std::slice::from_raw_parts(self.base.add(first as usize), words) }
    }
}

#[cold]
#[inline(never)]
fn outside(offset: u64) -> ! {
    panic!("memory access at offset {offset:#x} is misaligned or outside its space")
}
