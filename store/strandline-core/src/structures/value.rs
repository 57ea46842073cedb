//! What structures store: words, and values of one or several words.
//!
//! A [`Word`] fits one 64-bit pool word. Decoding accepts every word, whatever a damaged pool may hold, so
//! reading never panics. A [`Value`] takes a number of words that is fixed for a structure, by its type, or
//! (for `Vec<u64>`) by the structure's own parameter, so that a program can choose it while it runs.
//!
//! Each type has a number, which becomes a part of the structure's tag: a table of `i64` is not mistaken for
//! one of `u64`. Numbers below 128 are this library's.

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
    /// The type's number in a structure's tag; 128 and above for types of programs.
    const TYPE: u8;
    /// The value as a word. Equal values give equal words.
    fn to_word(self) -> u64;
    /// The value of a word; for words that no value gives, any value.
    fn from_word(word: u64) -> Self;
}

/// A value that takes one or several words.
pub trait Value: Sized {
    /// The type's number in a structure's tag; 128 and above for types of programs.
    const TYPE: u8;
    /// The words of every value of the type; `None` where a structure's parameter tells.
    const WORDS: Option<u64>;
    /// The words of this value.
    fn words(&self) -> u64;
    /// Stores the value to `into`, which has [`Value::words`] words.
    fn encode(&self, into: &mut [u64]);
    /// The value that `from` holds; for words that no value gives, any value.
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

/// The number of plain words, `[u64; N]` and `Vec<u64>` alike.
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

/// Words of memory that a thread keeps for [`with_buffer`] from one call to the next.
const MOST_KEPT: usize = 1 << 18;

thread_local! {
    /// Memory for buffers: to take it from the system anew, page by page, costs several times as much as to copy a value.
    static KEPT: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `body` with a buffer of `words` words that it fills; what it holds at first is undefined.
pub fn with_buffer_to_fill<R>(words: usize, body: impl FnOnce(&mut [u64]) -> R) -> R {
    body(&mut Many::of(words).0[..words])
}

/// Calls `body` with a buffer of `words` words that are 0, on the stack up to 512 bytes.
#[inline]
pub fn with_buffer<R>(words: u64, body: impl FnOnce(&mut [u64]) -> R) -> R {
    // The body stands here once, so that it is compiled in place. To take memory costs less than to clear as much of the stack as the
    // largest would need.
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

/// A buffer of many words.
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
            // A body that has used one itself may have left another.
            let _ = KEPT.try_with(|kept| kept.set(std::mem::take(&mut self.0)));
        }
    }
}
