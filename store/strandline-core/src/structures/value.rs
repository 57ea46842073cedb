//! The types that structures store: words, and values of one or several words.
//!
//! A [`Word`] fits one 64-bit pool word. Decoding accepts every word, since a damaged pool may hold any, so reading never panics. A
//! [`Value`] takes a number of words that is fixed for a structure: by its type, or, for `Vec<u64>`, by the structure's parameter, which a
//! program can choose at run time.
//!
//! Each type has a number that becomes a part of the structure's tag, so that a table of `i64` is not mistaken for one of `u64`. Numbers
//! below 128 are reserved for this library.

use std::cell::Cell;

use crate::memory::PersistentAddress;

/// A value that fits one word.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_core::structures::{BPlusTree, NodeShape, Word};
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Celsius(i32);
///
/// impl Word for Celsius {
///     const TYPE: u8 = 200;
///     fn to_word(self) -> u64 {
///         self.0.to_word()
///     }
///     fn from_word(word: u64) -> Self {
///         Self(i32::from_word(word))
///     }
/// }
///
/// let days = worker.run(|tx| BPlusTree::<u64, Celsius>::create(tx, root, NodeShape::of_pairs(14)))?;
/// worker.run(|tx| days.insert(tx, 1, Celsius(-3)))?;
/// assert_eq!(worker.view(|tx| days.get(tx, 1))?, Some(Celsius(-3)));
/// // A tree of another type is not mistaken for it.
/// assert!(worker.view(|tx| BPlusTree::<u64, i32>::open(tx, root)).is_err());
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Word: Copy {
    /// The type's number in a structure's tag. Programs use 128 and above.
    const TYPE: u8;
    /// Encodes the value as a word. Equal values give equal words.
    fn to_word(self) -> u64;
    /// Decodes a word. A word that no value encodes to may give any value.
    fn from_word(word: u64) -> Self;
}

/// A value that takes one or several words.
pub trait Value: Sized {
    /// The type's number in a structure's tag. Programs use 128 and above.
    const TYPE: u8;
    /// The number of words in every value of the type; `None` if the structure's parameter sets it.
    const WORDS: Option<u64>;
    /// Returns the number of words in this value.
    fn words(&self) -> u64;
    /// Encodes the value into `into`, which has [`Value::words`] words.
    fn encode(&self, into: &mut [u64]);
    /// Decodes the words `from`. Words that no value encodes to may give any value.
    fn decode(from: &[u64]) -> Self;
}

impl<W: Word> Value for W {
    const TYPE: u8 = <W as Word>::TYPE;
    const WORDS: Option<u64> = Some(1);
    #[inline]
    fn words(&self) -> u64 {
        1
    }
    #[inline]
    fn encode(&self, into: &mut [u64]) {
        into[0] = self.to_word();
    }
    #[inline]
    fn decode(from: &[u64]) -> Self {
        W::from_word(from[0])
    }
}

/// The type number of plain words, `[u64; N]` and `Vec<u64>` alike.
const PLAIN_WORDS: u8 = 64;

impl<const N: usize> Value for [u64; N] {
    const TYPE: u8 = PLAIN_WORDS;
    const WORDS: Option<u64> = Some(N as u64);
    #[inline]
    fn words(&self) -> u64 {
        N as u64
    }
    #[inline]
    fn encode(&self, into: &mut [u64]) {
        into.copy_from_slice(self);
    }
    #[inline]
    fn decode(from: &[u64]) -> Self {
        std::array::from_fn(|i| from[i])
    }
}

impl Value for Vec<u64> {
    const TYPE: u8 = PLAIN_WORDS;
    const WORDS: Option<u64> = None;
    #[inline]
    fn words(&self) -> u64 {
        self.len() as u64
    }
    #[inline]
    fn encode(&self, into: &mut [u64]) {
        into.copy_from_slice(self);
    }
    #[inline]
    fn decode(from: &[u64]) -> Self {
        from.to_vec()
    }
}

macro_rules! integer_words {
    ($($type:ty = $number:literal),*) => {$(
        impl Word for $type {
            const TYPE: u8 = $number;
            #[inline]
            fn to_word(self) -> u64 {
                self as u64
            }
            #[inline]
            fn from_word(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}

integer_words!(u64 = 1, i64 = 2, u32 = 3, i32 = 4, u16 = 5, i16 = 6, u8 = 7, i8 = 8, usize = 9);

impl Word for bool {
    const TYPE: u8 = 10;
    #[inline]
    fn to_word(self) -> u64 {
        self.into()
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        word != 0
    }
}

impl Word for () {
    const TYPE: u8 = 13;
    #[inline]
    fn to_word(self) -> u64 {
        0
    }
    #[inline]
    fn from_word(_: u64) -> Self {}
}

impl Word for f64 {
    const TYPE: u8 = 11;
    #[inline]
    fn to_word(self) -> u64 {
        self.to_bits()
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        f64::from_bits(word)
    }
}

impl Word for PersistentAddress {
    const TYPE: u8 = 12;
    #[inline]
    fn to_word(self) -> u64 {
        self.offset()
    }
    #[inline]
    fn from_word(word: u64) -> Self {
        PersistentAddress::new(word)
    }
}

/// The largest buffer, in words, that a thread keeps for the next call of [`with_buffer`].
const MOST_KEPT: usize = 1 << 18;

thread_local! {
    /// A buffer that is reused. To get memory from the system again, page by page, costs several times as much as to copy a value.
    static KEPT: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `body` with a buffer of `words` words, which it must fill: its contents are arbitrary at first.
pub fn with_buffer_to_fill<R>(words: usize, body: impl FnOnce(&mut [u64]) -> R) -> R {
    body(&mut Many::of(words).0[..words])
}

/// Calls `body` with a buffer of `words` zeros. Up to 512 bytes are on the stack.
#[inline]
pub fn with_buffer<R>(words: u64, body: impl FnOnce(&mut [u64]) -> R) -> R {
    // `body` is called at one place only, so that it is inlined. There are three sizes because to clear the largest buffer on the stack
    // would cost more than to take memory from the heap.
    let (mut few, mut some, mut many);
    body(match words as usize {
        words @ 0..=8 => {
            few = [0; 8];
            &mut few[..words]
        }
        words @ 9..=64 => {
            some = [0; 64];
            &mut some[..words]
        }
        words => {
            many = Many::of_zeros(words);
            &mut many.0[..words]
        }
    })
}

/// A buffer on the heap.
struct Many(Vec<u64>);

impl Many {
    #[cold]
    fn of_zeros(words: usize) -> Self {
        let mut buffer = Self::of(words);
        buffer.0[..words].fill(0);
        buffer
    }

    fn of(words: usize) -> Self {
        let mut buffer = KEPT.take();
        if buffer.len() < words {
            buffer.resize(words, 0);
        }
        Self(buffer)
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        if self.0.len() <= MOST_KEPT {
            // If `body` itself used a buffer, this one replaces the one that it left.
            let _ = KEPT.try_with(|kept| kept.set(std::mem::take(&mut self.0)));
        }
    }
}
