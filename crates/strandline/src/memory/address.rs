//! Addresses of the two spaces that a [`Memory`](super::Memory) serves.

/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 64;
/// Bytes in a word, the unit of access and of atomic persistence.
pub const WORD_BYTES: u64 = 8;
/// Words in a cache line.
pub const LINE_WORDS: u64 = LINE_BYTES / WORD_BYTES;

/// Which of the two address spaces an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// The pool: survives a power failure once written back.
    Persistent,
    /// Synchronisation words (lock table, clocks, locks): lost with the process.
    Volatile,
}

/// An address in one of the two spaces, fixed at compile time.
pub trait Address: Copy {
    /// The space that the address belongs to.
    const SPACE: Space;
    /// Byte offset in that space.
    fn offset(self) -> u64;
    /// The address `words` words further on.
    fn word(self, words: u64) -> Self;
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $space:expr) => {
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
            /// The address `words` words further on.
            pub const fn word(self, words: u64) -> Self {
                Self(self.0.wrapping_add(words.wrapping_mul(WORD_BYTES)))
            }
            /// The address `bytes` bytes further on.
            pub const fn byte(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
            /// The first address of the cache line that holds this one.
            pub const fn line(self) -> Self {
                Self(self.0 & !(LINE_BYTES - 1))
            }
        }

        impl Address for $name {
            const SPACE: Space = $space;
            #[inline(always)]
            fn offset(self) -> u64 {
                self.0
            }
            #[inline(always)]
            fn word(self, words: u64) -> Self {
                $name::word(self, words)
            }
        }
    };
}

address!(
    /// A byte offset into the pool. Offset 0 is the pool's header and never handed out, so 0 serves as
    /// the null pointer of persistent structures.
    PersistentAddress,
    Space::Persistent
);
address!(
    /// A byte offset into the volatile synchronisation words of a pool.
    VolatileAddress,
    Space::Volatile
);

impl PersistentAddress {
    /// The null address, as stored in persistent structures.
    pub const NULL: Self = Self::new(0);

    /// Whether this is the null address.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}
