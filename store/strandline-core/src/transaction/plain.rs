//! Reads that only load the words themselves.

use super::{Abort, Read};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::memory::{DataWords, PersistentAddress};

/// Reads words for a transaction that has no own writes to look up, and that no other transaction can disturb: see [`Read::plain`]. Its other methods
/// fail, and so do reads outside the pool as the transaction knew it. After an error, the caller asks the transaction itself, which finds the words
/// or reports what is wrong.
#[derive(Clone, Copy)]
pub struct Plain<'t> {
    words: DataWords<'t>,
    layout: &'t Layout,
}

/// The error of a [`Plain`] reader that cannot answer.
pub(crate) const NOT_HERE: Abort = Abort::User;

/// Implements the methods of [`Read`] that a [`Plain`] reader cannot answer.
macro_rules! words_alone {
    () => {
        #[cold]
        fn find_block(&mut self, _: PersistentAddress) -> Result<Option<u64>, Abort> {
            Err(NOT_HERE)
        }
        #[cold]
        fn is_allocated(&mut self, _: PersistentAddress) -> Result<bool, Abort> {
            Err(NOT_HERE)
        }
        #[cold]
        fn next_allocated(
            &mut self,
            _: PersistentAddress,
        ) -> Result<Option<(PersistentAddress, u64)>, Abort> {
            Err(NOT_HERE)
        }
        #[cold]
        fn tolerate(
            &mut self,
            _: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
        ) -> Result<Option<Error>, Abort> {
            Err(NOT_HERE)
        }
        #[cold]
        fn fail(&mut self, _: Error) -> Abort {
            NOT_HERE
        }
    };
}
pub(crate) use words_alone;

impl<'t> Plain<'t> {
    #[inline]
    pub(crate) fn new(words: DataWords<'t>, layout: &'t Layout) -> Self {
        Self { words, layout }
    }
}

impl Read for Plain<'_> {
    #[inline]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.read_array(at).map(|[word]| word)
    }
    #[inline]
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if self.words.load_range(at, into) { Ok(()) } else { Err(NOT_HERE) }
    }
    #[inline]
    fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort> {
        self.words.load(at).ok_or(NOT_HERE)
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.layout.root(index)
    }
    fn heap_words(&self) -> u64 {
        self.layout.heap_words()
    }
    words_alone!();
}
