//! Where everything lies in a pool, and in its volatile synchronisation words.
//!
//! `docs/pool-format.md` draws the same picture byte by byte.

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
/// Bytes that a device writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes in a record of a log.
pub const RECORD_BYTES: u64 = 16;
/// Words that structures may use as their entry points.
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
    /// The most bytes that the pool can come to have, a multiple of 4096. Address space is reserved for them; of the disk the pool
    /// takes what it needs, and its file is as long as it was grown.
    pub size: u64,
    /// Logs, and so the most workers at a time.
    pub logs: u64,
    /// Bytes in each log, a multiple of 4096.
    pub log_bytes: u64,
    /// Bytes in a heap chunk, a power of two of at least 4096.
    pub chunk_bytes: u64,
}

impl Default for Geometry {
    /// Up to 1 TB, with 16 logs of 1 MB (the paper's size) and chunks of 256 KB.
    fn default() -> Self {
        Self { size: 1 << 40, logs: 16, log_bytes: 1 << 20, chunk_bytes: 256 << 10 }
    }
}

impl Geometry {
    /// The default geometry for a pool of at most `size` bytes. The logs take a quarter of it at most: a pool of less than 64 MB has fewer than 16 of them, and
    /// so fewer workers at a time.
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
    /// What it was derived from.
    pub geometry: Geometry,
    /// Where the first log begins.
    pub logs: PersistentAddress,
    /// The roots, and with them the part that transactions may write.
    pub data: PersistentAddress,
    /// The chunk table, a word for each chunk.
    pub chunk_table: PersistentAddress,
    /// Where the first chunk begins, aligned to the size of a chunk.
    pub chunks: PersistentAddress,
    /// A chunk has two to this power bytes.
    pub chunk_bits: u32,
    /// How many chunks the pool can come to have.
    pub chunk_count: u64,
    /// Words that transactions may read and write, from `data` on, in a pool that has grown as far as it can.
    data_words: u64,
    /// Those of them that the pool had when this was last told how long it is.
    reachable_words: u64,
}

/// Checks each size by itself; a log's is to be a multiple of `unit`.
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

/// Divides what a pool of `size` bytes has from `chunk_table` on among the table and the chunks: the offset of the first chunk, and how many
/// there are.
fn divide_into_chunks(chunk_table: PersistentAddress, size: u64, chunk_bytes: u64) -> (u64, u64) {
    let rest = size.saturating_sub(chunk_table.offset());
    let mut chunk_count = rest / (chunk_bytes + 8);
    loop {
        // Aligned to their size, so that an address tells its chunk.
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
    /// The first of the two checkpoint slots of the `Sync` domain; the second lies a page further on.
    pub const CHECKPOINT_SLOTS: PersistentAddress = PersistentAddress::new(PAGE_BYTES);
    /// Whether the pool is in use, under which domain and by which scheme: a [`PoolState`].
    pub const STATE: PersistentAddress = PersistentAddress::new(3 * PAGE_BYTES);
    /// The watermark: every transaction at or below it is in the home locations durably.
    pub const WATERMARK: PersistentAddress = PersistentAddress::new(3 * PAGE_BYTES + LINE_BYTES);
    /// The size in the header once more, for when that is damaged.
    pub const SIZE: PersistentAddress = PersistentAddress::new(3 * PAGE_BYTES + 2 * LINE_BYTES);
    /// The header of the undo journal of large transactions, a sector; the journal's first extent follows it and ends with the
    /// page.
    pub const JOURNAL: PersistentAddress = Self::STATE.byte(SECTOR_BYTES);
    /// The log directory: a word for each log, 0 until its log exists, then the log's address.
    pub const LOG_DIRECTORY: PersistentAddress = PersistentAddress::new(4 * PAGE_BYTES);

    /// The layout for `geometry`.
    ///
    /// # Errors
    /// Returns an error if a size is impossible, or the pool too small for a single chunk.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Self::with_log_unit(geometry, PAGE_BYTES)
    }

    /// Like [`new`](Self::new), but a log may be any number of lines long: for checkers of redo logs, whose short histories are to fill them. No pool
    /// is created so.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
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

    /// The same layout where the pool can grow to `bytes` bytes at most, and has what lies before the first chunk in any case.
    pub fn limited_to(self, bytes: u64) -> Self {
        let chunk_count = self.chunk_count.min(self.chunks_in(bytes));
        let data_words = (self.end_of(chunk_count).offset() - self.data.offset()) / 8;
        Self { chunk_count, data_words, reachable_words: self.reachable_words.min(data_words), ..self }
    }

    /// The same layout of a pool that has `bytes` bytes by now: what lies beyond them is [no data](Self::is_data) yet.
    pub fn reaching(self, bytes: u64) -> Self {
        let words = bytes.saturating_sub(self.data.offset()) / 8;
        // Whole lines, as whoever asks for them wants them.
        Self { reachable_words: self.data_words.min(words & !(LINE_BYTES / 8 - 1)), ..self }
    }

    /// The log number `index`.
    pub fn log(&self, index: u64) -> PersistentAddress {
        self.logs.byte(index * self.geometry.log_bytes)
    }

    /// Records in each log.
    pub fn log_records(&self) -> u64 {
        self.geometry.log_bytes / RECORD_BYTES
    }

    /// The root word number `index`.
    ///
    /// # Panics
    /// Panics if there is no such root.
    pub fn root(&self, index: u64) -> PersistentAddress {
        assert!(index < ROOTS, "a pool has {ROOTS} roots, asked for number {index}");
        self.data.word(index)
    }

    /// One of a few words near the roots, for what an earlier life of the memory may name.
    pub fn word_near_roots(&self, random: &mut dyn FnMut(u64) -> u64) -> PersistentAddress {
        self.root(0).byte(256 + 32 * random(6))
    }

    /// The word that says how many chunks the heap has been given, of which the pool's file holds all. It has a line of its own.
    pub fn reached(&self) -> PersistentAddress {
        self.data.byte(LINE_BYTES)
    }

    /// The first address past the first `chunks` chunks.
    pub fn end_of(&self, chunks: u64) -> PersistentAddress {
        self.chunks.byte(chunks * self.geometry.chunk_bytes)
    }

    /// How many whole chunks a pool of `bytes` bytes has.
    pub fn chunks_in(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.chunks.offset()) / self.geometry.chunk_bytes
    }

    /// The first address past the heap when it has grown as far as it can.
    pub fn end(&self) -> PersistentAddress {
        self.end_of(self.chunk_count)
    }

    /// Checks that a pool of `bytes` bytes has all the chunks that it should have, by its word [`reached`](Self::reached). `path` is for messages.
    ///
    /// # Errors
    /// Returns [`Error::Truncated`], and [`Error::Damaged`] if no pool can have as many.
    pub fn check_length(&self, reached: u64, bytes: u64, path: &Path) -> Result<()> {
        if reached > self.chunk_count {
            return Err(Error::damaged(format!(
                "it says that it has {reached} chunks and can have {} at most",
                self.chunk_count
            )));
        }
        let expected = self.end_of(reached).offset();
        if bytes < expected {
            return Err(Error::Truncated { path: path.to_owned(), expected, found: bytes });
        }
        Ok(())
    }

    /// Returns whether `words` words at `at` are aligned and in the part that transactions may read and write, as far as the pool was known
    /// to reach.
    #[inline]
    pub fn is_data(&self, at: PersistentAddress, words: u64) -> bool {
        // Rotated, a misaligned or too small offset becomes larger than any size.
        let first = at.offset().wrapping_sub(self.data.offset()).rotate_right(3);
        first < self.reachable_words && words <= self.reachable_words - first
    }

    /// Checks that a log may have named `words` words at `at`.
    ///
    /// # Errors
    /// [`Error::Truncated`], without a path: the pool would have them if it were longer. [`Error::Damaged`].
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

    /// Words of the chunks, as far as the pool was known to reach.
    pub fn heap_words(&self) -> u64 {
        self.reachable_words.saturating_sub((self.chunks.offset() - self.data.offset()) / 8)
    }
}

/// What a pool's state word says. 0 is a pool that was closed cleanly.
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
    /// Bits 0 to 7: the number of the domain that has it in use; 0 for none.
    pub domain: u64,
    /// Bits 8 to 15: the number of the scheme whose logs it has.
    pub scheme: u64,
    /// Bit 16: whether it was used without persistence since it was last closed.
    pub unprotected: bool,
    /// The other bits, of which this library knows nothing.
    pub unknown: u64,
}

impl PoolState {
    /// The state in this word.
    pub fn decode(word: u64) -> Self {
        Self {
            domain: word & 0xff,
            scheme: word >> 8 & 0xff,
            unprotected: word >> 16 & 1 == 1,
            unknown: word >> 17,
        }
    }

    /// The word for this state.
    pub fn encode(self) -> u64 {
        self.domain | self.scheme << 8 | u64::from(self.unprotected) << 16 | self.unknown << 17
    }
}

/// Byte offsets of the volatile synchronisation words.
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
    /// The highest TxID taken: the STM's global clock.
    pub const CLOCK: VolatileAddress = Self::at_line(0);
    /// How many snapshots there are. Whoever commits has the line already.
    pub const SNAPSHOTS: VolatileAddress = Self::CLOCK.word(1);
    /// The TxID of a large transaction that runs, if it keeps what it changes for snapshots that begin meanwhile; else 0.
    pub const LARGE: VolatileAddress = Self::CLOCK.word(2);
    /// Held by a transaction that has failed too often, or that is a large one; others that may write wait at their beginning.
    pub const SERIAL: VolatileAddress = Self::at_line(1);
    /// One more than the slot of the worker that took it last.
    pub(crate) const SERIAL_OWNER: VolatileAddress = Self::SERIAL.word(4);
    /// Single-writer mode: odd while home is being stored.
    pub const SEQUENCE: VolatileAddress = Self::at_line(2);
    /// Single-writer mode: the writer's lock, which is [biased](crate::memory::biased).
    pub const WRITER: VolatileAddress = Self::at_line(3);
    /// Held by the thread that persists in bulk.
    pub const BULK: VolatileAddress = Self::at_line(4);
    /// The watermark that owners of logs may rely on: it is durable.
    pub const PUBLISHED_WATERMARK: VolatileAddress = Self::at_line(5);
    /// Held while a log is leased or given back.
    pub const LEASES: VolatileAddress = Self::at_line(6);
    /// Single-writer mode under a scheme with a helper: the last TxID that has stored home.
    pub const HOME: VolatileAddress = Self::at_line(7);
    /// 1 while the helper waits for something to do.
    pub const HELPER_WAITS: VolatileAddress = Self::at_line(8);
    /// Notified when a worker was given back; the word counts such notices while somebody waits, the next one those who
    /// wait.
    pub const RETURNS: VolatileAddress = Self::at_line(9);
    /// STM: held by one of those transactions that have met conflicts, so that these run one after another.
    pub const QUEUE: VolatileAddress = Self::RETURNS.word(4);
    /// Odd while a compaction holds free chunks, and counted up whenever that changes.
    pub(crate) const HOLDING: VolatileAddress = Self::RETURNS.word(5);
    /// Transactions that found no free chunk but held ones. No compaction holds further chunks while there are such.
    pub(crate) const WANTING: VolatileAddress = Self::RETURNS.word(6);
    /// One more than the slot of the worker that took [`SharedLayout::QUEUE`] last.
    pub(crate) const QUEUE_OWNER: VolatileAddress = Self::RETURNS.word(7);
    const LOCKS: VolatileAddress = Self::at_line(10);
    const SLOT_LINES: u64 = 2;
    const SET_LOCK_WORDS: u64 = 4;
    /// The most entries that an undo log has.
    pub const UNDO_ENTRIES: u64 = 8;

    const fn at_line(line: u64) -> VolatileAddress {
        VolatileAddress::new(line * LINE_BYTES)
    }

    /// The words for a pool of this layout with 2^`lock_bits` stripe locks and `sync_bytes` bytes for the
    /// shared log of the `Sync` domain.
    pub fn new(layout: &Layout, lock_bits: u32, sync_bytes: u64) -> Self {
        let locks = 1u64 << lock_bits;
        let slots = Self::LOCKS.word(locks.next_multiple_of(8));
        let slot_count = layout.geometry.logs;
        // One more: of those that only read and lease no log.
        let undo = slots.byte((slot_count + 1) * Self::SLOT_LINES * LINE_BYTES);
        let sync = undo.word(slot_count * Self::UNDO_ENTRIES * Self::undo_words(slot_count));
        let bytes = (sync.offset() + sync_bytes).next_multiple_of(PAGE_BYTES);
        let versions = VersionLayout::new(VolatileAddress::new(bytes), 0);
        Self { lock_mask: locks - 1, slots, slot_count, undo, sync, versions, bytes }
    }

    /// The same words and, behind them, up to `bytes` bytes for versions of lines: then there can be snapshots.
    pub fn with_versions(self, bytes: u64) -> Self {
        let versions = VersionLayout::new(VolatileAddress::new(self.bytes), bytes);
        Self { versions, bytes: (self.bytes + versions.bytes()).next_multiple_of(PAGE_BYTES), ..self }
    }

    /// The same words for somebody who uses no stripe locks, and is to touch no more than one of them.
    pub(crate) fn without_locks(self) -> Self {
        Self { lock_mask: 0, ..self }
    }

    /// Where versions of lines lie.
    #[inline]
    pub fn versions(&self) -> VersionLayout {
        self.versions
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of those that do not hold versions, the first ones.
    pub fn bytes_without_versions(&self) -> u64 {
        self.versions.begin().offset()
    }

    /// Where the words of the `Sync` domain begin.
    pub fn sync(&self) -> VolatileAddress {
        self.sync
    }

    /// The index of the lock of the line of `at`.
    #[inline]
    pub fn lock_index(&self, at: PersistentAddress) -> u64 {
        (at.offset() / LINE_BYTES) & self.lock_mask
    }

    /// The lock word with this index.
    #[inline]
    pub fn lock(&self, index: u64) -> VolatileAddress {
        Self::LOCKS.word(index)
    }

    /// All of them.
    pub(crate) fn locks(self) -> impl Iterator<Item = VolatileAddress> {
        (0..=self.lock_mask).map(move |index| self.lock(index))
    }

    /// How many stripe locks there are.
    pub(crate) fn stripe_locks(&self) -> u64 {
        self.lock_mask + 1
    }

    /// Words kept for each entry of an undo log: eight, and one for every entry that may precede it.
    const fn undo_words(logs: u64) -> u64 {
        8 + Self::UNDO_ENTRIES * logs
    }

    /// The volatile words of entry `entry` of the undo log `log`.
    #[inline]
    pub fn undo_entry(&self, log: u64, entry: u64) -> VolatileAddress {
        self.undo.word((log * Self::UNDO_ENTRIES + entry) * Self::undo_words(self.slot_count))
    }

    /// Locks of lock sets. They share their words with the stripe locks of the STM: a pool is open in one mode.
    #[inline]
    pub fn lock_count(&self) -> u64 {
        ((self.lock_mask + 1) / Self::SET_LOCK_WORDS).max(1)
    }

    /// The lock of lock sets with this index: the latch, the timestamp, the last holder.
    #[inline]
    pub fn set_lock(&self, index: u64) -> VolatileAddress {
        Self::LOCKS.word(Self::SET_LOCK_WORDS * index)
    }

    /// The words of log `index`.
    #[inline]
    pub fn slot(&self, index: u64) -> Slot {
        Slot(self.slots.byte(index * Self::SLOT_LINES * LINE_BYTES))
    }

    /// The number of the log whose first words are at `line`, if there is one.
    pub(crate) fn slot_at(&self, line: VolatileAddress) -> Option<u64> {
        let bytes = line.offset().checked_sub(self.slots.offset())?;
        let index = bytes / (Self::SLOT_LINES * LINE_BYTES);
        (index < self.slot_count).then_some(index)
    }

    /// The words of those that only read and lease no log: nobody looks at them.
    pub fn readers_slot(&self) -> (Slot, u64) {
        (self.slot(self.slot_count), self.slot_count)
    }

    /// The words of all logs.
    pub fn slots(self) -> impl Iterator<Item = Slot> {
        (0..self.slot_count).map(move |index| self.slot(index))
    }
}

/// The volatile words of one log and its worker.
#[derive(Clone, Copy, Debug)]
pub struct Slot(VolatileAddress);

impl Slot {
    /// Of no log.
    pub(crate) const NONE: Self = Self(VolatileAddress::new(0));

    /// Which word [`Slot::commit_state`] is.
    pub(crate) const COMMIT_STATE: u64 = 0;
    /// Which word [`Slot::present`] is.
    pub(crate) const PRESENT: u64 = 2;

    /// The line of its first words, to which only its worker stores while it runs transactions.
    #[inline]
    pub fn line(self) -> VolatileAddress {
        self.0
    }

    /// 0: outside commit; 1: in commit, TxID not yet taken; t + 2: committing as TxID t.
    #[inline]
    pub fn commit_state(self) -> VolatileAddress {
        self.0.word(Self::COMMIT_STATE)
    }
    /// Run number and number of records up to and with the last commit record, as [`pack`] puts them.
    #[inline]
    pub fn committed(self) -> VolatileAddress {
        self.0.word(1)
    }
    /// Single-writer mode: where its worker says that it has the [biased](crate::memory::biased) lock of the writer.
    #[inline]
    pub fn present(self) -> VolatileAddress {
        self.0.word(Self::PRESENT)
    }
    /// How far bulk persistence has gone through the log, packed likewise.
    pub fn persisted(self) -> VolatileAddress {
        self.0.word(8)
    }
    /// 1 while a worker leases the log.
    pub fn leased(self) -> VolatileAddress {
        self.0.word(9)
    }
    /// Where a worker left the log: next record; one more word each for phase, last commit and last TxID.
    pub fn resting(self) -> VolatileAddress {
        self.0.word(10)
    }
    /// Where isolation is by locks: the timestamp of the log's last transaction.
    pub fn last_timestamp(self) -> VolatileAddress {
        self.0.word(14)
    }
}

/// Run number and record count in one word, so that both are read at once.
#[inline]
pub fn pack(run: u32, records: u32) -> u64 {
    u64::from(run) << 32 | u64::from(records)
}

/// The inverse of [`pack`].
#[inline]
pub fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// A memory together with where everything lies in it: one thread's view of an open pool.
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
    /// Where things lie in the pool.
    pub layout: Layout,
    /// Where the volatile words lie that all threads share.
    pub shared: SharedLayout,
}

impl<M: Memory> View<M> {
    /// The same view, which knows how far the pool reaches by now.
    pub fn looking(mut self) -> Self {
        self.look_how_far();
        self
    }

    /// Finds out how far the pool reaches by now.
    pub fn look_how_far(&mut self) {
        self.layout = self.layout.reaching(self.memory.size(Space::Persistent));
        self.memory.set_data(self.layout.root(0), self.layout.reachable_words);
    }

    /// Returns whether the memory has all that lies before the chunks, and the volatile words.
    pub fn fits(&self) -> bool {
        self.memory.contains(PersistentAddress::new(0), self.layout.chunks.offset() / 8)
            && self.memory.contains(VolatileAddress::new(0), self.shared.bytes / 8)
    }
}
