//! Isolation by locks that a transaction holds until it has stored all of its data (deferred-commit paper, section 3.1), for schemes that store in
//! place.
//!
//! Each word of the pool has one lock. The words of a 256-byte granule share one, the blocks of a [region](Lock::Region) share one, and each word of
//! the heap's chunk table has its own; a transaction that writes to such a word also takes a lock of its line. Locks are numbered, and several of
//! these may have the same number.
//!
//! A transaction that *declares* its lock set takes the locks in the order of their numbers and then runs; a write to any other word is an error. A
//! transaction that declares nothing locks the words that it reads and writes as it goes; this is the read phase that section 3.1 asks for if the set
//! is not known. In both cases, a lock that turns out to be needed later (an undeclared one, or one of the allocator's words and of new blocks) is
//! only tried. If it is taken, the transaction, which has stored nothing yet, releases all locks and restarts with all locks that it knows of, taken
//! in order. So there is no deadlock, and the transaction ends because its set grows with each attempt.
//!
//! *The allocator's words* are protected like all others. An arena looks for room using unprotected hints, and then locks the table word and the
//! bitmap granule from which it takes. Each arena has its own chunks, so that transactions that allocate do not conflict.
//!
//! Each lock has room for a timestamp and for the [name](Holder) of its last holder, which order conflicting transactions. Redo schemes leave the
//! same timestamp in all locks of a transaction, which is above those that they found ([`LockSet::next_timestamp`]). Deferred commit increments each
//! lock's own timestamp ([`LockSet::stamp_each`]). A scheme that commits in place before it releases its locks needs neither.

use crate::heap;
use crate::layout::View;
use crate::memory::{LINE_BYTES, Memory, PersistentAddress};

/// Number of bytes whose words share a lock.
const GRANULE_BYTES: u64 = 256;

/// A lock that a transaction declares before it begins, identified by what it protects.
///
/// ```
/// # use strandline_core::example::*;
/// # let (pool, mut worker) = pool_and_worker();
/// use strandline_core::Lock;
///
/// let (from, to) = (pool.layout().root(0), pool.layout().root(1));
/// // Under isolation by locks they are taken, in order, before the transaction begins. Under STM, as here, they are ignored.
/// worker.run_locked(&[Lock::word(from), Lock::word(to)], |tx| {
///     tx.write(from, 1)?;
///     tx.write(to, 2)
/// })?;
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The words of `bytes` bytes from `at` on: rows, array elements, or anything else with a known address. Words within 256 bytes share a lock.
    Range {
        /// The address of the first word.
        at: PersistentAddress,
        /// Bytes from there on that the transaction may write.
        bytes: u64,
    },
    /// All blocks of up to a quarter of a chunk that were allocated by transactions whose first declared region is this one, under whichever
    /// isolation. It is one lock for a growing structure such as a tree, wherever its nodes are. Larger blocks have chunks of their own, and are
    /// declared as ranges.
    Region(u32),
    /// The line of this word, for what single words of an array refer to, such as a bucket or a vertex. Where the library checks that each written
    /// word is in the set, this stands for the word's granule; a plain program has a lock for each line. What some transactions declare in this way,
    /// others must not declare by ranges.
    Line(PersistentAddress),
}

impl Lock {
    /// Returns the lock of the word at `at`.
    pub fn word(at: PersistentAddress) -> Self {
        Self::Range { at, bytes: 8 }
    }

    /// Returns the region from which a transaction that declares `locks` allocates.
    pub fn first_region(locks: &[Self]) -> Option<u32> {
        locks.iter().find_map(|lock| match lock {
            Self::Region(region) => Some(*region),
            Self::Range { .. } | Self::Line(_) => None,
        })
    }

    /// Puts the numbers of `locks` into `numbers`, in the order in which they are taken and without duplicates. `of` returns the lock of a word, and
    /// `of_line` that of a word's line.
    pub fn numbers<M: Memory>(
        view: &View<M>,
        locks: &[Self],
        of: impl Fn(PersistentAddress) -> u32,
        of_line: impl Fn(PersistentAddress) -> u32,
        numbers: &mut Vec<u32>,
    ) {
        numbers.clear();
        for &lock in locks {
            match lock {
                Self::Region(region) => numbers.push(region_lock(view, region)),
                Self::Line(at) => numbers.push(of_line(at)),
                Self::Range { bytes: 0, .. } => {}
                Self::Range { at, bytes } => {
                    let (mut next, end) = (at.offset(), at.offset().saturating_add(bytes - 1));
                    let mut granules = 0;
                    // If a range has more granules than there are locks, it covers all locks.
                    while next <= end && granules <= view.shared.lock_count() {
                        numbers.push(of(PersistentAddress::new(next)));
                        next = (next | (GRANULE_BYTES - 1)).saturating_add(1);
                        granules += 1;
                    }
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
    }

    /// Returns the number of the lock of the line of `at`. A transaction that writes to a line of the chunk table takes this lock as well, because
    /// hardware that logs old values of lines would undo the stores of others to the same line (ATOM).
    pub fn of_line<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
        spread(view, 1 << 41 | (at.offset() / LINE_BYTES))
    }

    /// Returns the number of the lock that the words of the granule of `at` share if they belong to no region.
    pub fn of_granule<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
        ((at.offset() / GRANULE_BYTES) % view.shared.lock_count()) as u32
    }
}

/// A transaction as its successors identify it: by its log and its number in that log, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of the transaction's log.
    pub log: u64,
    /// The transaction's number.
    pub sequence: u64,
}

impl Holder {
    const LOG_BITS: u32 = 10;

    /// Encodes the holder as a word, which is never 0.
    pub fn encode(self) -> u64 {
        (self.sequence + 1) << Self::LOG_BITS | self.log
    }

    /// Decodes the holder in a word; 0 is `None`.
    pub fn decode(word: u64) -> Option<Self> {
        let sequence = (word >> Self::LOG_BITS).checked_sub(1)?;
        Some(Self { log: word & ((1 << Self::LOG_BITS) - 1), sequence })
    }
}

/// The locks of a running transaction.
pub struct LockSet {
    /// The locks that it holds, in order.
    pub(crate) held: Vec<u32>,
    /// The locks to take before the next attempt, in order.
    pub(crate) wanted: Vec<u32>,
    /// True if the transaction declared its lock set.
    pub(crate) declared: bool,
    /// The region from which it allocates.
    pub(crate) region: Option<u32>,
    /// The lock that was looked up last, if it is held.
    pub(crate) last: u32,
    /// True if a lock was taken since the attempt began.
    pub(crate) late: bool,
    /// True while the allocator runs.
    pub(crate) allocating: bool,
    /// Blocks allocated by this transaction.
    pub(crate) fresh: Vec<(PersistentAddress, u64)>,
}

impl LockSet {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Self {
            held: Vec::with_capacity(64),
            wanted: Vec::with_capacity(64),
            declared: false,
            region: None,
            last: u32::MAX,
            late: false,
            allocating: false,
            fresh: Vec::new(),
        }
    }

    /// Determines the locks to take for `locks`; `None` means that the transaction declares nothing.
    pub(crate) fn want<M: Memory>(&mut self, view: &View<M>, locks: Option<&[Lock]>) {
        self.declared = locks.is_some();
        let of = |at| lock_of(view, at);
        Lock::numbers(view, locks.unwrap_or_default(), of, of, &mut self.wanted);
    }

    /// Returns the region from which the transaction allocates.
    pub(crate) fn region(&self) -> Option<u32> {
        self.region
    }

    /// Sets whether the allocator is at work.
    pub(crate) fn set_allocating(&mut self, allocating: bool) {
        self.allocating = allocating;
    }

    /// Notes that the transaction has allocated this block.
    pub(crate) fn add_fresh(&mut self, at: PersistentAddress, bytes: u64) {
        self.fresh.push((at, bytes));
    }

    pub(crate) fn holds(&mut self, lock: u32) -> bool {
        if lock == self.last {
            return true;
        }
        let found = self.held.binary_search(&lock).is_ok();
        if found {
            self.last = lock;
        }
        found
    }

    pub(crate) fn insert(&mut self, lock: u32) {
        if let Err(at) = self.held.binary_search(&lock) {
            self.held.insert(at, lock);
        }
    }

    /// Returns whether locks were taken since the last call, or since the attempt began.
    pub fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.late)
    }

    /// Returns a timestamp above those of all these locks and above `own`.
    pub fn next_timestamp<M: Memory>(&self, view: &View<M>, own: u64) -> u64 {
        let stamps =
            self.held.iter().map(|&lock| view.memory.load(view.shared.set_lock(lock.into()).word(1)));
        stamps.fold(own, u64::max) + 1
    }

    /// Calls `each` with the last holder of each lock that has had one.
    pub fn previous<M: Memory>(&self, view: &View<M>, mut each: impl FnMut(Holder)) {
        for &lock in &self.held {
            let word = view.memory.load(view.shared.set_lock(lock.into()).word(2));
            Holder::decode(word).into_iter().for_each(&mut each);
        }
    }

    /// Stores `timestamp` in all locks.
    pub fn stamp<M: Memory>(&self, view: &View<M>, timestamp: u64) {
        for &lock in &self.held {
            view.memory.store(view.shared.set_lock(lock.into()).word(1), timestamp);
        }
    }

    /// Calls `each` with the number and the timestamp of each lock, in ascending order of the numbers.
    pub fn timestamps<M: Memory>(&self, view: &View<M>, mut each: impl FnMut(u32, u64)) {
        for &lock in &self.held {
            each(lock, view.memory.load(view.shared.set_lock(lock.into()).word(1)));
        }
    }

    /// Stores in each lock the holder and its own one of `timestamps`, which are in the order of the locks' numbers.
    pub fn stamp_each<M: Memory>(
        &self,
        view: &View<M>,
        timestamps: impl IntoIterator<Item = u64>,
        holder: Holder,
    ) {
        for (&lock, timestamp) in self.held.iter().zip(timestamps) {
            let at = view.shared.set_lock(lock.into());
            view.memory.store(at.word(1), timestamp);
            view.memory.store(at.word(2), holder.encode());
        }
    }

    /// Releases all locks.
    pub fn release<M: Memory>(&mut self, view: &View<M>) {
        for &lock in &self.held {
            view.memory.unlock(view.shared.set_lock(lock.into()));
        }
        self.held.clear();
        self.last = u32::MAX;
    }
}

/// Distributes what has no address of its own over the locks.
fn spread<M: Memory>(view: &View<M>, number: u64) -> u32 {
    ((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % view.shared.lock_count()) as u32
}

fn region_lock<M: Memory>(view: &View<M>, region: u32) -> u32 {
    spread(view, 1 << 40 | u64::from(region))
}

/// Returns the number of the lock of the word at `at`.
pub(crate) fn lock_of<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
    let layout = &view.layout;
    if at >= layout.chunks && at < layout.end() {
        if let Some(region) = heap::region_at(view, at) {
            return region_lock(view, region);
        }
    } else if at >= layout.chunk_table && at < layout.chunks {
        return spread(view, at.offset() / 8);
    }
    Lock::of_granule(view, at)
}
