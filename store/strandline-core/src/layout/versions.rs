//! The layout of the old versions of lines in the volatile words.

use super::View;
use crate::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress, VolatileAddress};

/// The layout of the old versions of lines, which snapshots read. `engine/versions.rs` describes their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionLayout {
    first: VolatileAddress,
    /// Number of heads of chains, a power of two; 0 if there is no room for versions.
    heads: u64,
    /// Number of versions for which there is room. They are numbered from 1.
    entries: u64,
}

impl VersionLayout {
    /// Number of words in which snapshots register.
    pub const REGISTRATIONS: u64 = 64;
    const FIRST_REGISTRATION: u64 = 3;
    const FIRST_HEAD: u64 = Self::FIRST_REGISTRATION + Self::REGISTRATIONS / LINE_WORDS;
    /// The words of an entry: TxID, line, next entry, next free entry, and the line's words.
    const ENTRY_WORDS: u64 = 4 + LINE_WORDS;

    /// Lays out as many versions as `bytes` bytes at `first` have room for.
    pub(super) fn new(first: VolatileAddress, bytes: u64) -> Self {
        let rest = (bytes / 8).saturating_sub(Self::FIRST_HEAD * LINE_WORDS);
        // There are about two heads for every three entries.
        let heads = match rest / (2 * Self::ENTRY_WORDS) {
            0 => 0,
            some => 1 << some.ilog2(),
        };
        Self { first, heads, entries: (rest - heads) / Self::ENTRY_WORDS * u64::from(heads > 0) }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self.heads {
            0 => 0,
            heads => 8 * (Self::FIRST_HEAD * LINE_WORDS + heads + self.entries * Self::ENTRY_WORDS),
        }
    }

    pub(super) fn begin(&self) -> VolatileAddress {
        self.first
    }

    /// Returns whether there is room for versions at all.
    pub fn any(&self) -> bool {
        self.heads > 0
    }

    /// Returns the number of versions for which there is room.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the size of a version, in bytes.
    pub const fn entry_bytes() -> u64 {
        8 * Self::ENTRY_WORDS
    }

    /// Returns the number of chains.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Returns the address of the latch that is held while versions are reclaimed.
    pub fn latch(&self) -> VolatileAddress {
        self.first
    }

    /// Returns the address of the number of entries that were ever used.
    pub fn used(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES)
    }

    /// Returns the address of the number of snapshots that were ended because there was no room.
    pub fn ended(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES).word(1)
    }

    /// Returns the address of the first free entry: its number in the lower half, and a count of changes in the upper half.
    pub fn free(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES)
    }

    /// Returns the address of the highest TxID of all entries that were ever pushed.
    pub fn newest(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES).word(1)
    }

    /// Returns the address of the number of entries that were pushed.
    pub fn pushed(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES).word(2)
    }

    /// Returns the address of the number of entries that had been pushed when entries were last reclaimed.
    pub fn reclaimed(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES).word(2)
    }

    /// Returns the address of the number of the head at which the next snapshot that ends begins to look for entries to reclaim.
    pub fn next_head(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES).word(3)
    }

    /// Returns the address of the number of registrations that were ever taken. They are the first ones.
    pub fn registered(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES).word(3)
    }

    /// Returns the addresses of the registrations.
    pub fn registrations(self) -> impl Iterator<Item = VolatileAddress> {
        let first = self.first.byte(Self::FIRST_REGISTRATION * LINE_BYTES);
        (0..Self::REGISTRATIONS).map(move |index| first.word(index))
    }

    /// Returns the address of the head with this number. It contains the number of its chain's first entry, or 0.
    pub fn head(&self, number: u64) -> VolatileAddress {
        self.first.byte(Self::FIRST_HEAD * LINE_BYTES).word(number)
    }

    /// Returns the address of the heads and entries, and their size in bytes.
    pub fn chains(&self) -> (VolatileAddress, u64) {
        (self.head(0), 8 * (self.heads + self.entries * Self::ENTRY_WORDS))
    }

    /// Returns the address of the head of a line's chain. Adjacent lines have adjacent heads.
    pub fn head_of(&self, line: PersistentAddress) -> VolatileAddress {
        self.head((line.offset() / LINE_BYTES) & (self.heads - 1))
    }

    /// Returns the entry with this number; they are numbered from 1.
    pub fn entry(&self, number: u64) -> VersionEntry {
        VersionEntry(self.head(self.heads).word((number - 1) * Self::ENTRY_WORDS))
    }
}

/// The values of a registration that are not times.
pub(crate) struct Registered;

impl Registered {
    /// The registration is free.
    pub const NONE: u64 = 0;
    /// The snapshot registers, but has not read the clock yet.
    pub const EVERYTHING: u64 = 1;
    /// A registration for time S has the value S plus this.
    pub const FIRST_TIME: u64 = 2;
    /// The snapshot was ended because there was no room.
    pub const ENDED: u64 = u64::MAX;
}

impl<M: Memory> View<M> {
    /// Returns the registrations that were ever taken, with their values. If a snapshot is not among them, it has not read the clock yet.
    pub(crate) fn registrations(&self) -> impl Iterator<Item = (u64, VolatileAddress)> {
        let versions = self.shared.versions();
        let most = self.memory.load(versions.registered()) as usize;
        versions.registrations().take(most).map(|word| (self.memory.load(word), word))
    }

    /// Returns whether there may be a snapshot that is older than the commit of `transaction`. A snapshot that was ended counts as well: it
    /// keeps the pages that it was lent, and its time is not known any more.
    pub(crate) fn has_snapshot_before(&self, transaction: u64) -> bool {
        let is_older = |time: u64| match time {
            Registered::NONE => false,
            // The snapshot may have read the clock already, or its time is forgotten.
            Registered::EVERYTHING | Registered::ENDED => true,
            time => time - Registered::FIRST_TIME < transaction,
        };
        self.shared.versions().any() && self.registrations().any(|(time, _)| is_older(time))
    }
}

/// A line as it was before a transaction changed it.
#[derive(Clone, Copy, Debug)]
pub struct VersionEntry(VolatileAddress);

impl VersionEntry {
    /// Returns the address of the TxID of the transaction that changed the line; 0 while the entry is being filled.
    pub fn transaction(self) -> VolatileAddress {
        self.0
    }
    /// Returns the address of the offset of the line.
    pub fn line(self) -> VolatileAddress {
        self.0.word(1)
    }
    /// Returns the address of the number of the next entry in the chain, or 0.
    pub fn next(self) -> VolatileAddress {
        self.0.word(2)
    }
    /// Returns the address of the number of the next free entry.
    pub fn next_free(self) -> VolatileAddress {
        self.0.word(3)
    }
    /// Returns the address of the line's first word.
    pub fn words(self) -> VolatileAddress {
        self.0.word(4)
    }
}
