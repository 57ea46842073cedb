//! Where the old versions of lines lie, in the volatile words.

use super::View;
use crate::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress, VolatileAddress};

/// Where the old versions of lines lie that snapshots read. They are in `engine/versions.rs`, which says what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionLayout {
    first: VolatileAddress,
    /// Heads of chains, a power of two; 0 where there are no versions.
    heads: u64,
    /// How many versions there is room for, numbered from 1.
    entries: u64,
}

impl VersionLayout {
    /// Words for snapshots to register in.
    pub const REGISTRATIONS: u64 = 64;
    const FIRST_REGISTRATION: u64 = 3;
    const FIRST_HEAD: u64 = Self::FIRST_REGISTRATION + Self::REGISTRATIONS / LINE_WORDS;
    /// TxID, line, next, next free one, and a line's words.
    const ENTRY_WORDS: u64 = 4 + LINE_WORDS;

    /// Versions in `bytes` bytes at `first`, as many as there is room for.
    pub(super) fn new(first: VolatileAddress, bytes: u64) -> Self {
        let rest = (bytes / 8).saturating_sub(Self::FIRST_HEAD * LINE_WORDS);
        // About two heads for each three entries.
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

    /// How many versions there is room for.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of a version.
    pub const fn entry_bytes() -> u64 {
        8 * Self::ENTRY_WORDS
    }

    /// How many chains there are.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Held while versions are reclaimed.
    pub fn latch(&self) -> VolatileAddress {
        self.first
    }

    /// How many entries were ever used.
    pub fn used(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES)
    }

    /// Snapshots that were ended for want of room.
    pub fn ended(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES).word(1)
    }

    /// The first free entry: its number in the low half, a count of changes in the high one.
    pub fn free(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES)
    }

    /// The largest T of all entries that were ever pushed.
    pub fn newest(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES).word(1)
    }

    /// How many entries were pushed.
    pub fn pushed(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES).word(2)
    }

    /// How many had been when entries were last reclaimed.
    pub fn reclaimed(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES).word(2)
    }

    /// The head from which on a snapshot that ends looks for entries to reclaim.
    pub fn next_head(&self) -> VolatileAddress {
        self.first.byte(LINE_BYTES).word(3)
    }

    /// How many of the registrations were ever taken, the first ones.
    pub fn registered(&self) -> VolatileAddress {
        self.first.byte(2 * LINE_BYTES).word(3)
    }

    /// Where snapshots are registered.
    pub fn registrations(self) -> impl Iterator<Item = VolatileAddress> {
        let first = self.first.byte(Self::FIRST_REGISTRATION * LINE_BYTES);
        (0..Self::REGISTRATIONS).map(move |index| first.word(index))
    }

    /// The head with this number: the number of its chain's first entry, 0 for none.
    pub fn head(&self, number: u64) -> VolatileAddress {
        self.first.byte(Self::FIRST_HEAD * LINE_BYTES).word(number)
    }

    /// Where all heads and entries lie, and their bytes.
    pub fn chains(&self) -> (VolatileAddress, u64) {
        (self.head(0), 8 * (self.heads + self.entries * Self::ENTRY_WORDS))
    }

    /// The head of a line's chain. Those of neighbouring lines are neighbours.
    pub fn head_of(&self, line: PersistentAddress) -> VolatileAddress {
        self.head((line.offset() / LINE_BYTES) & (self.heads - 1))
    }

    /// The entry with this number, from 1 on.
    pub fn entry(&self, number: u64) -> VersionEntry {
        VersionEntry(self.head(self.heads).word((number - 1) * Self::ENTRY_WORDS))
    }
}

/// Values of the words in which snapshots register, other than times.
pub(crate) struct Registered;

impl Registered {
    /// Nobody's.
    pub const NONE: u64 = 0;
    /// The snapshot registers, and has not read the clock yet.
    pub const EVERYTHING: u64 = 1;
    /// Time S is S plus this.
    pub const FIRST_TIME: u64 = 2;
    /// The snapshot was ended for want of room.
    pub const ENDED: u64 = u64::MAX;
}

impl<M: Memory> View<M> {
    /// The registrations that were ever taken, and what they hold. One that is missing is of a snapshot that has not read the clock yet.
    pub(crate) fn registrations(&self) -> impl Iterator<Item = (u64, VolatileAddress)> {
        let versions = self.shared.versions();
        let most = self.memory.load(versions.registered()) as usize;
        versions.registrations().take(most).map(|word| (self.memory.load(word), word))
    }

    /// Returns whether there may be a snapshot that is older than the commit of transaction `transaction`. One that was ended counts, since it
    /// keeps what it was lent and its time is forgotten.
    pub(crate) fn has_snapshot_before(&self, transaction: u64) -> bool {
        let is_older = |time: u64| match time {
            Registered::NONE => false,
            // It may have read the clock already; how old it was is forgotten.
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
    /// The TxID of the transaction that changed it; 0 while the entry is filled.
    pub fn transaction(self) -> VolatileAddress {
        self.0
    }
    /// The offset of the line whose words it has.
    pub fn line(self) -> VolatileAddress {
        self.0.word(1)
    }
    /// The entry behind it in its chain, 0 for none.
    pub fn next(self) -> VolatileAddress {
        self.0.word(2)
    }
    /// The free entry behind it.
    pub fn next_free(self) -> VolatileAddress {
        self.0.word(3)
    }
    /// The line's first word.
    pub fn words(self) -> VolatileAddress {
        self.0.word(4)
    }
}
