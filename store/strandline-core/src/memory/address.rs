//! Addresses of the two spaces that a [`Memory`](super::Memory) serves.

/// Size of a cache line, in bytes.
pub const LINE_BYTES: u64 = 64;
/// Size of a page, in bytes. It is the unit of the header's parts and of checkpoints.
pub const PAGE_BYTES: u64 = 4096;
/// Size of a word, in bytes. It is the unit of access and of atomic persistence.
pub const WORD_BYTES: u64 = 8;
/// Number of words in a cache line.
pub const LINE_WORDS: u64 = LINE_BYTES / WORD_BYTES;

/// The address space of an access.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::{Address, Space};
///
/// assert_eq!(PersistentAddress::SPACE, Space::Persistent);
/// // Each space has offsets of its own.
/// view.memory.store(VolatileAddress::new(8192), 1);
/// assert_eq!(view.memory.load(PersistentAddress::new(8192)), 0);
/// assert_eq!(view.memory.size(Space::Volatile), view.shared.bytes());
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// The pool, whose words survive a power failure once they are written back.
    Persistent,
    /// Synchronization words (lock table, clocks, locks), which are lost with the process.
    Volatile,
}

/// An address in one of the two spaces, fixed at compile time.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::memory::Address;
///
/// /// Adds up `words` words, of the pool or of the volatile ones.
/// fn sum<A: Address>(memory: &impl Memory, at: A, words: u64) -> u64 {
///     (0..words).map(|word| memory.load(at.word(word))).sum()
/// }
///
/// view.memory.store_range(layout.root(0), &[1, 2, 3]);
/// assert_eq!(sum(&view.memory, layout.root(0), 3), 6);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Address: Copy {
    /// The space to which the address belongs.
    const SPACE: Space;
    /// Returns the byte offset in that space.
    fn offset(self) -> u64;
    /// Returns the address `words` words further on.
    fn word(self, words: u64) -> Self;
}

/// Address arithmetic in the pool that saturates at the largest number. Where plain programs' instructions are counted it wraps, like that of C's
/// pointers.
mod saturating {
    #[inline]
    pub const fn plus(a: u64, b: u64) -> u64 {
        if cfg!(feature = "calibration") { a.wrapping_add(b) } else { a.saturating_add(b) }
    }

    #[inline]
    pub const fn times(a: u64, b: u64) -> u64 {
        if cfg!(feature = "calibration") { a.wrapping_mul(b) } else { a.saturating_mul(b) }
    }
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $space:expr, { $($arithmetic:item)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            /// Returns the address at `offset` bytes from the start of its space.
            pub const fn new(offset: u64) -> Self {
                Self(offset)
            }
            /// Returns the byte offset from the start of the space.
            pub const fn offset(self) -> u64 {
                self.0
            }
            $($arithmetic)*
            /// Returns the first address of this one's cache line.
            pub const fn line(self) -> Self {
                Self(self.0 & !(LINE_BYTES - 1))
            }
        }

        impl Address for $name {
            const SPACE: Space = $space;
            #[inline]
            fn offset(self) -> u64 {
                self.0
            }
            #[inline]
            fn word(self, words: u64) -> Self {
                $name::word(self, words)
            }
        }
    };
}

address!(
    /// A byte offset into the pool. Offset 0 is the pool's header and never handed out, so 0 serves as
    /// the null pointer of persistent structures.
    ///
    /// ```
    /// use strandline_core::memory::PersistentAddress;
    ///
    /// let node = PersistentAddress::new(4096 + 72);
    /// assert_eq!(node.word(2), node.byte(16));
    /// assert_eq!(node.line().offset(), 4096 + 64);
    /// assert!(!node.is_null() && PersistentAddress::NULL.is_null());
    /// // Nothing comes round to the front.
    /// assert_eq!(node.word(u64::MAX), node.byte(u64::MAX));
    /// assert_eq!(node.word(u64::MAX).offset(), u64::MAX);
    /// ```
    PersistentAddress,
    Space::Persistent,
    {
        /// Returns the address `words` words further on, or 2^64 - 1 if that is too large. That address is outside each pool, so a damaged length
        /// never wraps around to the pool's beginning.
        #[inline]
        pub const fn word(self, words: u64) -> Self {
            self.byte(saturating::times(words, WORD_BYTES))
        }

        /// Returns the address `bytes` bytes further on, like [`word`](Self::word).
        #[inline]
        pub const fn byte(self, bytes: u64) -> Self {
            Self(saturating::plus(self.0, bytes))
        }

        /// Like [`byte`](Self::byte) but cheaper, for less than four pages, as within a node. A damaged address may wrap around to the pool's
        /// beginning, but there transactions find nothing, since the first pages are the header.
        #[inline]
        pub const fn near(self, bytes: u64) -> Self {
            debug_assert!(bytes < 4 * PAGE_BYTES);
            Self(self.0.wrapping_add(bytes))
        }

        /// Like `word`, within a range of words that is known to be in the pool.
        #[inline]
        pub(crate) const fn word_inside(self, words: u64) -> Self {
            Self(self.0.wrapping_add(words.wrapping_mul(WORD_BYTES)))
        }

        /// Returns the number of words from here to the end of the line.
        #[inline]
        pub(crate) const fn words_left_in_line(self) -> usize {
            (LINE_WORDS - self.0 / WORD_BYTES % LINE_WORDS) as usize
        }
    }
);
address!(
    /// A byte offset into the volatile synchronisation words of a pool.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (recorder, view, layout) = recorded();
    /// use strandline_core::memory::VolatileAddress;
    ///
    /// // A lock is a volatile word: none is left behind by a crash.
    /// let lock = VolatileAddress::new(0);
    /// assert!(view.memory.try_lock(lock));
    /// assert!(!view.memory.try_lock(lock), "it is taken");
    /// view.memory.unlock(lock);
    /// assert!(view.memory.try_lock(lock));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    VolatileAddress,
    Space::Volatile,
    {
        /// Returns the address `words` words further on.
        #[inline]
        pub const fn word(self, words: u64) -> Self {
            self.byte(words.wrapping_mul(WORD_BYTES))
        }

        /// Returns the address `bytes` bytes further on.
        #[inline]
        pub const fn byte(self, bytes: u64) -> Self {
            Self(self.0.wrapping_add(bytes))
        }
    }
);

impl PersistentAddress {
    /// The null address in persistent structures.
    pub const NULL: Self = Self::new(0);

    /// Returns whether this is the null address.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}
