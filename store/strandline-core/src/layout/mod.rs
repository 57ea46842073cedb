//! The places of all parts of a pool, and of its volatile synchronization words.
//!
//! `docs/pool-format.md` describes the pool byte by byte.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::memory::{LINE_BYTES, Memory, PersistentAddress, Space, VolatileAddress};

mod header;
mod pool_id;
mod versions;

pub use header::Header;
pub use pool_id::PoolId;
pub(crate) use versions::Registered;
pub use versions::{VersionEntry, VersionLayout};

pub use crate::memory::PAGE_BYTES;
/// The bytes that a device writes atomically.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes in a record of a log.
pub const RECORD_BYTES: u64 = 16;
/// Number of words that structures may use as their entry points.
pub const ROOTS: u64 = 8;

/// The sizes that determine a pool's layout; fixed when it is created.
///
/// ```
/// # use strandline_core as strandline;
/// use strandline::{Geometry, Options};
///
/// // At most 64 MB.
/// let geometry = Geometry { size: 64 << 20, ..Geometry::default() };
/// let options = Options { geometry, ..Options::default() };
/// # assert!(strandline_core::layout::Layout::new(options.geometry).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The greatest size that the pool can reach, in bytes, a multiple of 4096. Address space is reserved for all of it. The file has only the length
    /// to which it has grown, and takes only the disk space that it needs.
    pub size: u64,
    /// Number of logs, which is the maximum of concurrent workers.
    pub logs: u64,
    /// Size of each log, in bytes, a multiple of 4096.
    pub log_bytes: u64,
    /// Size of a heap chunk, in bytes, a power of two of at least 4096.
    pub chunk_bytes: u64,
}

impl Default for Geometry {
    /// Returns a geometry of at most 1 TB, with 16 logs of 1 MB (the paper's size) and chunks of 256 KB.
    fn default() -> Self {
        Self { size: 1 << 40, logs: 16, log_bytes: 1 << 20, chunk_bytes: 256 << 10 }
    }
}

impl Geometry {
    /// Returns the default geometry for a pool of at most `size` bytes. The logs take a quarter of it at most, but there is at least one: a
    /// pool of less than 64 MB has fewer than 16 logs, and so fewer workers at a time.
    ///
    /// ```
    /// use strandline_core::layout::Geometry;
    ///
    /// assert_eq!(Geometry::of_size(16 << 20), Geometry { size: 16 << 20, logs: 4, ..Geometry::default() });
    /// assert_eq!(Geometry::of_size(1 << 30).logs, 16);
    /// ```
    pub fn of_size(size: u64) -> Self {
        let default = Self::default();
        Self { size, logs: (size / 4 / default.log_bytes).clamp(1, default.logs), ..default }
    }
}

/// Byte offsets of a pool's parts, derived from its [`Geometry`].
///
/// ```
/// use strandline_core::layout::{Geometry, Layout};
///
/// let layout = Layout::new(Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 14, chunk_bytes: 1 << 12 })?;
/// assert_eq!(layout.log(1), layout.log(0).byte(1 << 14));
/// // Transactions reach roots and heap, and no logs.
/// assert!(layout.is_data(layout.root(0), 8));
/// assert!(!layout.is_data(layout.log(0), 1) && !layout.is_data(layout.end(), 1));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The geometry from which the layout was derived.
    pub geometry: Geometry,
    /// The address of the first log.
    pub logs: PersistentAddress,
    /// The address of the roots, with which the part that transactions may write begins.
    pub data: PersistentAddress,
    /// The chunk table, with one word for each chunk.
    pub chunk_table: PersistentAddress,
    /// The address of the first chunk, aligned to the size of a chunk.
    pub chunks: PersistentAddress,
    /// The size of a chunk as a power of two.
    pub chunk_bits: u32,
    /// The greatest number of chunks that the pool can have.
    pub chunk_count: u64,
    /// Number of words from `data` on that transactions may read and write once the pool has its greatest size.
    data_words: u64,
    /// Number of these words that the pool had when this view last learnt its length.
    reachable_words: u64,
}

/// Checks each size separately. A log's size must be a multiple of `unit`.
fn check_geometry(geometry: Geometry, unit: u64) -> Result<()> {
    let Geometry { size, logs, log_bytes, chunk_bytes } = geometry;
    let refuse = |why: &str| Err(refused(geometry, why));
    if !size.is_multiple_of(PAGE_BYTES) || size >= 1 << 48 {
        return refuse("the pool's size must be a multiple of 4096 below 2^48");
    }
    if logs == 0 || logs > PAGE_BYTES / 8 {
        return refuse("a pool has 1 to 512 logs");
    }
    if !log_bytes.is_multiple_of(unit) || log_bytes == 0 || log_bytes / RECORD_BYTES > 1 << 31 {
        return refuse(&format!("a log's size must be a multiple of {unit}, 32 GB at most"));
    }
    if !chunk_bytes.is_power_of_two() || !(PAGE_BYTES..=1 << 30).contains(&chunk_bytes) {
        return refuse("a chunk's size must be a power of two from 4096 to 2^30");
    }
    Ok(())
}

fn refused(geometry: Geometry, why: &str) -> Error {
    let Geometry { size, logs, log_bytes, chunk_bytes } = geometry;
    Error::Parameter(format!(
        "{why} (pool of {size} bytes, {logs} logs of {log_bytes}, chunks of {chunk_bytes})"
    ))
}

/// Divides the bytes from `chunk_table` to the end of a pool of `size` bytes between the table and the chunks. Returns the offset of the first chunk
/// and the number of chunks.
fn divide_into_chunks(chunk_table: PersistentAddress, size: u64, chunk_bytes: u64) -> (u64, u64) {
    let rest = size.saturating_sub(chunk_table.offset());
    let mut chunk_count = rest / (chunk_bytes + 8);
    loop {
        // Chunks are aligned to their size, so that an address determines its chunk.
        let chunks = (chunk_table.offset() + 8 * chunk_count).next_multiple_of(chunk_bytes);
        if chunk_count == 0 || chunks + chunk_count * chunk_bytes <= size {
            return (chunks, chunk_count);
        }
        chunk_count -= 1;
    }
}

impl Layout {
    /// The header, which is written once.
    pub const HEADER: PersistentAddress = PersistentAddress::new(0);
    /// The first of the two checkpoint slots of the `Sync` domain. The second one is on the next page.
    pub const CHECKPOINT_SLOTS: PersistentAddress = PersistentAddress::new(PAGE_BYTES);
    /// The pool's [`PoolState`]: whether it is in use, under which domain and by which scheme.
    pub const STATE: PersistentAddress = PersistentAddress::new(3 * PAGE_BYTES);
    /// The watermark: each transaction at or below it is durable in the home locations.
    pub const WATERMARK: PersistentAddress = PersistentAddress::new(3 * PAGE_BYTES + LINE_BYTES);
    /// A copy of the header's size, for the case that the header is damaged.
    pub const SIZE: PersistentAddress = PersistentAddress::new(3 * PAGE_BYTES + 2 * LINE_BYTES);
    /// The header of the undo journal of large transactions, which takes a sector. The journal's first extent follows it, up to the end of the page.
    pub const JOURNAL: PersistentAddress = Self::STATE.byte(SECTOR_BYTES);
    /// The log directory has a word for each log: 0 until the log exists, then the log's address.
    pub const LOG_DIRECTORY: PersistentAddress = PersistentAddress::new(4 * PAGE_BYTES);

    /// Computes the layout for `geometry`.
    ///
    /// # Errors
    /// Returns an error if a size is impossible, or the pool too small for a single chunk.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Self::with_log_unit(geometry, PAGE_BYTES)
    }

    /// Like [`new`](Self::new), but a log may have any number of lines. This is for checkers of redo logs, whose short histories are to fill the
    /// logs; pools are not created in this way.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Self::new).
    pub fn with_short_logs(geometry: Geometry) -> Result<Self> {
        Self::with_log_unit(geometry, LINE_BYTES)
    }

    fn with_log_unit(geometry: Geometry, unit: u64) -> Result<Self> {
        check_geometry(geometry, unit)?;
        let Geometry { size, logs, log_bytes, chunk_bytes } = geometry;
        let logs_at = Self::LOG_DIRECTORY.byte(PAGE_BYTES);
        let Some(data) =
            logs.checked_mul(log_bytes).and_then(|bytes| bytes.checked_next_multiple_of(PAGE_BYTES))
        else {
            return Err(refused(geometry, "the logs are too large"));
        };
        let data = logs_at.byte(data);
        let chunk_table = data.byte(PAGE_BYTES);
        let (chunks, chunk_count) = divide_into_chunks(chunk_table, size, chunk_bytes);
        if chunk_count == 0 {
            return Err(refused(geometry, "the pool is too small: its logs leave no room for a heap"));
        }
        let chunks = PersistentAddress::new(chunks);
        let data_words = (chunks.offset() + chunk_count * chunk_bytes - data.offset()) / 8;
        let reachable_words = data_words;
        Ok(Self {
            geometry,
            logs: logs_at,
            data,
            chunk_table,
            chunks,
            chunk_bits: chunk_bytes.trailing_zeros(),
            chunk_count,
            data_words,
            reachable_words,
        })
    }

    /// Returns the layout for a pool that can grow to `bytes` bytes at most. It has at least all that precedes the first chunk.
    pub fn limited_to(self, bytes: u64) -> Self {
        let chunk_count = self.chunk_count.min(self.chunks_in(bytes));
        let data_words = (self.end_of(chunk_count).offset() - self.data.offset()) / 8;
        Self { chunk_count, data_words, reachable_words: self.reachable_words.min(data_words), ..self }
    }

    /// Returns the layout for a pool that has `bytes` bytes now. Words beyond them are [no data](Self::is_data) yet.
    pub fn reaching(self, bytes: u64) -> Self {
        let words = bytes.saturating_sub(self.data.offset()) / 8;
        // Rounds to whole lines, because callers ask for whole lines.
        Self { reachable_words: self.data_words.min(words & !(LINE_BYTES / 8 - 1)), ..self }
    }

    /// Returns the address of log `index`.
    pub fn log(&self, index: u64) -> PersistentAddress {
        self.logs.byte(index * self.geometry.log_bytes)
    }

    /// Returns the number of records in each log.
    pub fn log_records(&self) -> u64 {
        self.geometry.log_bytes / RECORD_BYTES
    }

    /// Returns the address of root word `index`.
    ///
    /// # Panics
    /// Panics if there is no such root.
    pub fn root(&self, index: u64) -> PersistentAddress {
        assert!(index < ROOTS, "a pool has {ROOTS} roots, asked for number {index}");
        self.data.word(index)
    }

    /// Returns one of a few words near the roots, which an earlier life of the memory may have logged.
    pub fn word_near_roots(&self, random: &mut dyn FnMut(u64) -> u64) -> PersistentAddress {
        self.root(0).byte(256 + 32 * random(6))
    }

    /// Returns the address of the word that counts the chunks of the heap. The pool's file contains all of them. The word has a line of its own.
    pub fn reached(&self) -> PersistentAddress {
        self.data.byte(LINE_BYTES)
    }

    /// Returns the first address past the first `chunks` chunks.
    pub fn end_of(&self, chunks: u64) -> PersistentAddress {
        self.chunks.byte(chunks * self.geometry.chunk_bytes)
    }

    /// Returns the number of whole chunks in a pool of `bytes` bytes.
    pub fn chunks_in(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.chunks.offset()) / self.geometry.chunk_bytes
    }

    /// Returns the first address past a heap of the greatest size.
    pub fn end(&self) -> PersistentAddress {
        self.end_of(self.chunk_count)
    }

    /// Checks that a pool of `bytes` bytes has all of its `reached` chunks (the word [`reached`](Self::reached)). Messages name `path`.
    ///
    /// # Errors
    /// Returns [`Error::Truncated`] if chunks are missing, and [`Error::Damaged`] if no pool can have so many.
    pub fn check_length(&self, reached: u64, bytes: u64, path: &Path) -> Result<()> {
        if reached > self.chunk_count {
            return Err(Error::damaged(format!(
                "its number of chunks is {reached}, and at most {} are possible",
                self.chunk_count
            )));
        }
        let expected = self.end_of(reached).offset();
        if bytes < expected {
            return Err(Error::Truncated { path: path.to_owned(), expected, found: bytes });
        }
        Ok(())
    }

    /// Returns whether `words` words at `at` are aligned and in the part that transactions may read and write, as far as this view knows the pool's
    /// length.
    #[inline]
    pub fn is_data(&self, at: PersistentAddress, words: u64) -> bool {
        // Rotating makes a misaligned or too small offset larger than any size.
        let first = at.offset().wrapping_sub(self.data.offset()).rotate_right(3);
        first < self.reachable_words && words <= self.reachable_words - first
    }

    /// Checks that a log may contain the address of `words` words at `at`.
    ///
    /// # Errors
    /// Returns [`Error::Truncated`] without a path if only a longer pool would have these words, and otherwise [`Error::Damaged`].
    pub fn check_replayed(&self, at: PersistentAddress, words: u64) -> Result<()> {
        if self.is_data(at, words) {
            return Ok(());
        }
        if self.reaching(u64::MAX).is_data(at, words) {
            let found = self.data.word(self.reachable_words).offset();
            return Err(Error::Truncated { path: PathBuf::new(), expected: at.word(words).offset(), found });
        }
        Err(Error::damaged(format!("a log record names the address {:#x}", at.offset())))
    }

    /// Returns the number of words in the chunks, as far as this view knows the pool's length.
    pub fn heap_words(&self) -> u64 {
        self.reachable_words.saturating_sub((self.chunks.offset() - self.data.offset()) / 8)
    }
}

/// The content of a pool's state word, which is 0 after a clean close.
///
/// ```
/// use strandline_core::layout::PoolState;
/// use strandline_core::scheme::BPPM;
///
/// let in_use = PoolState { domain: 4, scheme: BPPM.code, ..PoolState::default() };
/// assert_eq!(PoolState::decode(in_use.encode()), in_use);
/// // A cleanly closed pool.
/// assert_eq!(PoolState::default().encode(), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Bits 0 to 7: the number of the domain under which the pool is in use; 0 for none.
    pub domain: u64,
    /// Bits 8 to 15: the number of the scheme whose logs the pool has.
    pub scheme: u64,
    /// Bit 16: whether the pool was used without persistence since it was last closed.
    pub unprotected: bool,
    /// The other bits, which this library does not know.
    pub unknown: u64,
}

impl PoolState {
    /// Decodes the state word.
    pub fn decode(word: u64) -> Self {
        Self {
            domain: word & 0xff,
            scheme: word >> 8 & 0xff,
            unprotected: word >> 16 & 1 == 1,
            unknown: word >> 17,
        }
    }

    /// Encodes the state word.
    pub fn encode(self) -> u64 {
        self.domain | self.scheme << 8 | u64::from(self.unprotected) << 16 | self.unknown << 17
    }
}

/// The places of the volatile synchronization words.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// let shared = view.shared;
/// // All words of a line have one lock.
/// let (one, other) = (layout.chunks, layout.chunks.word(7));
/// assert_eq!(shared.lock_index(one), shared.lock_index(other));
/// assert_ne!(shared.lock_index(one), shared.lock_index(one.word(8)));
/// // The clock is the last TxID.
/// let mut worker = Worker::lease(view, strandline_core::engine::Stm, None)?;
/// worker.run(|tx| tx.write(one, 5))?;
/// assert_eq!(worker.memory().load(SharedLayout::CLOCK), 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLayout {
    lock_mask: u64,
    slots: VolatileAddress,
    slot_count: u64,
    undo: VolatileAddress,
    sync: VolatileAddress,
    versions: VersionLayout,
    bytes: u64,
}

impl SharedLayout {
    /// The highest assigned TxID, which is the STM's global clock.
    pub const CLOCK: VolatileAddress = Self::at_line(0);
    /// The number of snapshots. It is in the clock's line, which a committing thread has in its cache already.
    pub const SNAPSHOTS: VolatileAddress = Self::CLOCK.word(1);
    /// The TxID of a running large transaction if it saves what it changes for snapshots that begin meanwhile; otherwise 0.
    pub const LARGE: VolatileAddress = Self::CLOCK.word(2);
    /// A lock for a transaction that has failed too often, or that is large. While it is held, other transactions that may write wait before they
    /// begin.
    pub const SERIAL: VolatileAddress = Self::at_line(1);
    /// One more than the slot of the worker that took the lock last.
    pub(crate) const SERIAL_OWNER: VolatileAddress = Self::SERIAL.word(4);
    /// Single-writer mode: odd while a transaction stores its words home.
    pub const SEQUENCE: VolatileAddress = Self::at_line(2);
    /// Single-writer mode: the writer's lock, which is [biased](crate::memory::biased).
    pub const WRITER: VolatileAddress = Self::at_line(3);
    /// The lock of the thread that persists in bulk.
    pub const BULK: VolatileAddress = Self::at_line(4);
    /// The durable watermark, on which the owners of logs may rely.
    pub const PUBLISHED_WATERMARK: VolatileAddress = Self::at_line(5);
    /// The lock for leasing a log and returning it.
    pub const LEASES: VolatileAddress = Self::at_line(6);
    /// Single-writer mode under a scheme with a helper: the last TxID whose words are home.
    pub const HOME: VolatileAddress = Self::at_line(7);
    /// 1 while the helper waits for work.
    pub const HELPER_WAITS: VolatileAddress = Self::at_line(8);
    /// Threads that wait for a worker are notified here. This word counts the notifications while a thread waits; the next word counts the waiting
    /// threads.
    pub const RETURNS: VolatileAddress = Self::at_line(9);
    /// STM: the lock of transactions that have met conflicts, so that these run one after another.
    pub const QUEUE: VolatileAddress = Self::RETURNS.word(4);
    /// Odd while a compaction holds free chunks; incremented each time that this changes.
    pub(crate) const HOLDING: VolatileAddress = Self::RETURNS.word(5);
    /// The number of transactions that found only held chunks free. While there are some, no compaction holds further chunks.
    pub(crate) const WANTING: VolatileAddress = Self::RETURNS.word(6);
    /// One more than the slot of the worker that took [`SharedLayout::QUEUE`] last.
    pub(crate) const QUEUE_OWNER: VolatileAddress = Self::RETURNS.word(7);
    const LOCKS: VolatileAddress = Self::at_line(10);
    const SLOT_LINES: u64 = 2;
    const SET_LOCK_WORDS: u64 = 4;
    /// The most entries in an undo log.
    pub const UNDO_ENTRIES: u64 = 8;

    const fn at_line(line: u64) -> VolatileAddress {
        VolatileAddress::new(line * LINE_BYTES)
    }

    /// Computes the layout of the words for a pool with 2^`lock_bits` stripe locks and `sync_bytes` bytes for the `Sync` domain's shared log.
    pub fn new(layout: &Layout, lock_bits: u32, sync_bytes: u64) -> Self {
        let locks = 1u64 << lock_bits;
        let slots = Self::LOCKS.word(locks.next_multiple_of(8));
        let slot_count = layout.geometry.logs;
        // There is one more slot, for workers that only read and lease no log.
        let undo = slots.byte((slot_count + 1) * Self::SLOT_LINES * LINE_BYTES);
        let sync = undo.word(slot_count * Self::UNDO_ENTRIES * Self::undo_words(slot_count));
        let bytes = (sync.offset() + sync_bytes).next_multiple_of(PAGE_BYTES);
        let versions = VersionLayout::new(VolatileAddress::new(bytes), 0);
        Self { lock_mask: locks - 1, slots, slot_count, undo, sync, versions, bytes }
    }

    /// Adds up to `bytes` bytes for versions of lines, which snapshots need.
    pub fn with_versions(self, bytes: u64) -> Self {
        let versions = VersionLayout::new(VolatileAddress::new(self.bytes), bytes);
        Self { versions, bytes: (self.bytes + versions.bytes()).next_multiple_of(PAGE_BYTES), ..self }
    }

    /// Returns the layout for a caller that uses no stripe locks, and that should touch at most one of their words.
    pub(crate) fn without_locks(self) -> Self {
        Self { lock_mask: 0, ..self }
    }

    /// Returns the layout of the versions of lines.
    #[inline]
    pub fn versions(&self) -> VersionLayout {
        self.versions
    }

    /// Returns the size of all words, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of the words in front of the versions, in bytes.
    pub fn bytes_without_versions(&self) -> u64 {
        self.versions.begin().offset()
    }

    /// Returns the address of the `Sync` domain's words.
    pub fn sync(&self) -> VolatileAddress {
        self.sync
    }

    /// Returns the index of the lock for the line of `at`.
    #[inline]
    pub fn lock_index(&self, at: PersistentAddress) -> u64 {
        (at.offset() / LINE_BYTES) & self.lock_mask
    }

    /// Returns the lock word with this index.
    #[inline]
    pub fn lock(&self, index: u64) -> VolatileAddress {
        Self::LOCKS.word(index)
    }

    /// Returns all lock words.
    pub(crate) fn locks(self) -> impl Iterator<Item = VolatileAddress> {
        (0..=self.lock_mask).map(move |index| self.lock(index))
    }

    /// Returns the number of stripe locks.
    pub(crate) fn stripe_locks(&self) -> u64 {
        self.lock_mask + 1
    }

    /// Returns the number of words for each entry of an undo log: eight, and one for each entry that may precede it.
    const fn undo_words(logs: u64) -> u64 {
        8 + Self::UNDO_ENTRIES * logs
    }

    /// Returns the address of the volatile words for entry `entry` of undo log `log`.
    #[inline]
    pub fn undo_entry(&self, log: u64, entry: u64) -> VolatileAddress {
        self.undo.word((log * Self::UNDO_ENTRIES + entry) * Self::undo_words(self.slot_count))
    }

    /// Returns the number of locks for lock sets. They use the words of the STM's stripe locks, because a pool is open in only one mode.
    #[inline]
    pub fn lock_count(&self) -> u64 {
        ((self.lock_mask + 1) / Self::SET_LOCK_WORDS).max(1)
    }

    /// Returns the address of the lock with this index: its latch, its timestamp and its last holder.
    #[inline]
    pub fn set_lock(&self, index: u64) -> VolatileAddress {
        Self::LOCKS.word(Self::SET_LOCK_WORDS * index)
    }

    /// Returns the slot of log `index`.
    #[inline]
    pub fn slot(&self, index: u64) -> Slot {
        Slot(self.slots.byte(index * Self::SLOT_LINES * LINE_BYTES))
    }

    /// Returns the number of the log whose slot begins at `line`, if there is one.
    pub(crate) fn slot_at(&self, line: VolatileAddress) -> Option<u64> {
        let bytes = line.offset().checked_sub(self.slots.offset())?;
        let index = bytes / (Self::SLOT_LINES * LINE_BYTES);
        (index < self.slot_count).then_some(index)
    }

    /// Returns the slot of the workers that only read and lease no log, and its number. Its words are never read.
    pub fn readers_slot(&self) -> (Slot, u64) {
        (self.slot(self.slot_count), self.slot_count)
    }

    /// Returns the slots of all logs.
    pub fn slots(self) -> impl Iterator<Item = Slot> {
        (0..self.slot_count).map(move |index| self.slot(index))
    }
}

/// The volatile words of one log and its worker.
#[derive(Clone, Copy, Debug)]
pub struct Slot(VolatileAddress);

impl Slot {
    /// A slot without a log.
    pub(crate) const NONE: Self = Self(VolatileAddress::new(0));

    /// The index of [`Slot::commit_state`].
    pub(crate) const COMMIT_STATE: u64 = 0;
    /// The index of [`Slot::present`].
    pub(crate) const PRESENT: u64 = 2;

    /// Returns the line with the slot's first words. While the slot's worker runs transactions, no other thread stores to the line.
    #[inline]
    pub fn line(self) -> VolatileAddress {
        self.0
    }

    /// Returns the address of the commit state. 0: outside commit; 1: in commit, without a TxID yet; t + 2: committing as TxID t.
    #[inline]
    pub fn commit_state(self) -> VolatileAddress {
        self.0.word(Self::COMMIT_STATE)
    }
    /// Returns the address of a word with the run number and the number of records up to and including the last commit record, in the form of
    /// [`pack`].
    #[inline]
    pub fn committed(self) -> VolatileAddress {
        self.0.word(1)
    }
    /// Single-writer mode: returns the address of the word in which the slot's worker notes that it holds the writer's
    /// [biased](crate::memory::biased) lock.
    #[inline]
    pub fn present(self) -> VolatileAddress {
        self.0.word(Self::PRESENT)
    }
    /// Returns the address of the position that bulk persistence has reached in the log, in the form of [`pack`].
    pub fn persisted(self) -> VolatileAddress {
        self.0.word(8)
    }
    /// Returns the address of a word that is 1 while a worker leases the log.
    pub fn leased(self) -> VolatileAddress {
        self.0.word(9)
    }
    /// Returns the address of the state in which a worker has left the log: the next record, the phase, the last commit and the last TxID, a word
    /// each.
    pub fn resting(self) -> VolatileAddress {
        self.0.word(10)
    }
    /// With isolation by locks: returns the address of the timestamp of the log's last transaction.
    pub fn last_timestamp(self) -> VolatileAddress {
        self.0.word(14)
    }
}

/// Packs a run number and a number of records into one word, so that both are read atomically.
#[inline]
pub fn pack(run: u32, records: u32) -> u64 {
    u64::from(run) << 32 | u64::from(records)
}

/// Unpacks what [`pack`] has packed.
#[inline]
pub fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// One thread's view of an open pool: its memory and the layout of the memory.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// assert!(view.fits());
/// // A worker owns its view.
/// let mut worker = Worker::lease(view, strandline_core::engine::Stm, None)?;
/// worker.run(|tx| tx.write(layout.root(0), 5))?;
/// assert_eq!(worker.memory().load(layout.root(0)), 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct View<M> {
    /// One hardware thread's view of the memory.
    pub memory: M,
    /// The layout of the pool.
    pub layout: Layout,
    /// The layout of the volatile words that all threads share.
    pub shared: SharedLayout,
}

impl<M: Memory> View<M> {
    /// Returns the view after it has learnt the pool's present length.
    pub fn looking(mut self) -> Self {
        self.look_how_far();
        self
    }

    /// Learns the pool's present length.
    pub fn look_how_far(&mut self) {
        self.layout = self.layout.reaching(self.memory.size(Space::Persistent));
        self.memory.set_data(self.layout.root(0), self.layout.reachable_words);
    }

    /// Returns whether the memory contains everything in front of the chunks, and the volatile words.
    pub fn fits(&self) -> bool {
        self.memory.contains(PersistentAddress::new(0), self.layout.chunks.offset() / 8)
            && self.memory.contains(VolatileAddress::new(0), self.shared.bytes / 8)
    }
}
