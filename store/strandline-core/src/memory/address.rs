//! Addresses of the two spaces that a [`Memory`](super::Memory) serves.

/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 64;
/// Bytes in a page, the unit of the header's parts and of checkpoints.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes in a word, the unit of access and of atomic persistence.
pub const WORD_BYTES: u64 = 8;
/// Words in a cache line.
pub const LINE_WORDS: u64 = LINE_BYTES / WORD_BYTES;

/// Which of the two address spaces an access goes to.
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
    /// The pool: survives a power failure once written back.
    Persistent,
    /// Synchronisation words (lock table, clocks, locks): lost with the process.
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
    /// The space that the address belongs to.
    const SPACE: Space;
    /// Byte offset in that space.
    fn offset(self) -> u64;
    /// The address `words` words further on.
    fn word(self, words: u64) -> Self;
}

/// Arithmetic of addresses in the pool that ends at the largest number; where plain programs' instructions are counted it wraps,
/// as that of C's pointers.
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
            /// The address at `offset` bytes from the start of its space.
            pub const fn new(offset: u64) -> Self {
                Self(offset)
            }
            /// Byte offset from the start of the space.
            pub const fn offset(self) -> u64 {
                self.0
            }
            $($arithmetic)*
            /// The first address of the cache line that holds this one.
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
        /// The address `words` words further on. One that is too far to be counted becomes 2^64 - 1, which is outside
        /// every pool: a damaged length leads nowhere, never back to the front.
        #[inline]
        pub const fn word(self, words: u64) -> Self {
            self.byte(saturating::times(words, WORD_BYTES))
        }

        /// The address `bytes` bytes further on, as [`word`](Self::word).
        #[inline]
        pub const fn byte(self, bytes: u64) -> Self {
            Self(saturating::plus(self.0, bytes))
        }

        /// Like [`byte`](Self::byte), for less than four pages, as within a node, and cheaper: a damaged address may come round to the front, but
        /// there transactions find nothing, since the first pages of a pool are its header.
        #[inline]
        pub const fn near(self, bytes: u64) -> Self {
            debug_assert!(bytes < 4 * PAGE_BYTES);
            Self(self.0.wrapping_add(bytes))
        }

        /// As `word`, in a run of words that is known to lie in the pool.
        #[inline]
        pub(crate) const fn word_inside(self, words: u64) -> Self {
            Self(self.0.wrapping_add(words.wrapping_mul(WORD_BYTES)))
        }

        /// How many words of its line begin here or behind.
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
        /// The address `words` words further on.
        #[inline]
        pub const fn word(self, words: u64) -> Self {
            self.byte(words.wrapping_mul(WORD_BYTES))
        }

        /// The address `bytes` bytes further on.
        #[inline]
        pub const fn byte(self, bytes: u64) -> Self {
            Self(self.0.wrapping_add(bytes))
        }
    }
);

impl PersistentAddress {
    /// The null address, as stored in persistent structures.
    pub const NULL: Self = Self::new(0);

    /// Returns whether this is the null address.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}
