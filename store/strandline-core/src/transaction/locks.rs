//! Isolation by locks that are all held until a transaction has stored its data (deferred-commit paper, section
//! 3.1), for the schemes that store in place.
//!
//! Every word of the pool has one lock: the words of a 256-byte granule share one, the blocks of a
//! [region](Lock::Region) share one, each word of the heap's chunk table has its own, and whoever
//! writes to one takes a lock of its line as well. Locks are numbered, and
//! several things may share a number.
//!
//! A transaction that *declares* its lock set takes it in the order of numbers and then runs; a write to any other
//! word is an error. One that declares nothing locks what it reads and writes as it goes: the read phase that
//! section 3.1 asks for where the set is not known. In both, locks found to be needed later (undeclared ones, and
//! those of the allocator's words and of new blocks) are only tried. If one is taken, the transaction, which has
//! stored nothing yet, gives all up and begins again with what it then knew taken in order; so there is no
//! deadlock, and as its set grows with each attempt, it ends.
//!
//! *The allocator's words* are protected like all others. An arena looks for room through unprotected hints and
//! then locks the table word and the bitmap granule that it takes from; arenas have chunks of their own, so that
//! allocating transactions do not meet.
//!
//! Each lock has room for a timestamp and for the [name](Holder) of its last holder, which give conflicting transactions
//! their order. Redo schemes leave one timestamp in all locks of a transaction, one above those that it found
//! ([`LockSet::next_timestamp`]); deferred commit counts up that of each lock ([`LockSet::stamp_each`]). A scheme that
//! commits in place before it releases its locks needs neither.

use crate::heap;
use crate::layout::View;
use crate::memory::{LINE_BYTES, Memory, PersistentAddress};

/// Bytes whose words share a lock.
const GRANULE_BYTES: u64 = 256;

/// A lock that a transaction declares before it begins, named by what it protects.
///
/// ```
/// # use strandline_core::example::*;
/// # let (pool, mut worker) = pool_and_worker();
/// use strandline_core::Lock;
///
/// let (from, to) = (pool.layout().root(0), pool.layout().root(1));
/// // Taken in order before the transaction begins where isolation is by locks; under STM, as here, nobody needs them.
/// worker.run_locked(&[Lock::word(from), Lock::word(to)], |tx| {
///     tx.write(from, 1)?;
///     tx.write(to, 2)
/// })?;
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The words of `bytes` bytes from `at`: rows, array elements, whatever has a known address. Neighbours
    /// within 256 bytes share a lock.
    Range {
        /// The address of the first word.
        at: PersistentAddress,
        /// Bytes from there on that the transaction may write.
        bytes: u64,
    },
    /// All blocks of up to a quarter of a chunk that were allocated by transactions that declared this region first
    /// among their regions, whatever isolated them: one lock for a structure that grows, such as a tree, wherever
    /// its nodes are. Larger blocks lie in chunks of their own and are declared as ranges.
    Region(u32),
    /// The line of this word, for what hangs from single words of an array: a bucket, a vertex. Where the library checks that each word
    /// written is in the set, it is the word's granule; a plain program has a lock for each line. What some declare so
    /// others must not declare by ranges.
    Line(PersistentAddress),
}

impl Lock {
    /// The lock of the word at `at`.
    pub fn word(at: PersistentAddress) -> Self {
        Self::Range { at, bytes: 8 }
    }

    /// The region that a transaction allocates from that declares `locks`.
    pub fn first_region(locks: &[Self]) -> Option<u32> {
        locks.iter().find_map(|lock| match lock {
            Self::Region(region) => Some(*region),
            Self::Range { .. } | Self::Line(_) => None,
        })
    }

    /// Puts the numbers of `locks` into `numbers`, in the order in which they are taken, each once; `of` says which lock a word
    /// has, and `of_line` which one the line of a word.
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
                    // More granules than there are locks are all locks.
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

    /// The number of the lock of the line of `at`. Whoever writes to a line of the chunk table takes it besides: hardware that
    /// keeps old values of lines undoes what others wrote to the same line (ATOM).
    pub fn of_line<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
        spread(view, 1 << 41 | (at.offset() / LINE_BYTES))
    }

    /// The number of the lock that the words of the granule of `at` share, where they belong to no region.
    pub fn of_granule<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
        ((at.offset() / GRANULE_BYTES) % view.shared.lock_count()) as u32
    }
}

/// A transaction as its successors know it: the log that it used and its number in that log, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The number of the log whose worker has held the lock.
    pub log: u64,
    /// The transaction's number.
    pub sequence: u64,
}

impl Holder {
    const LOG_BITS: u32 = 10;

    /// As a word, never 0.
    pub fn encode(self) -> u64 {
        (self.sequence + 1) << Self::LOG_BITS | self.log
    }

    /// The holder in a word; `None` in 0.
    pub fn decode(word: u64) -> Option<Self> {
        let sequence = (word >> Self::LOG_BITS).checked_sub(1)?;
        Some(Self { log: word & ((1 << Self::LOG_BITS) - 1), sequence })
    }
}

/// The locks of a running transaction.
pub struct LockSet {
    /// Those that it holds, in order.
    pub(crate) held: Vec<u32>,
    /// Those to take before the next attempt, in order.
    pub(crate) wanted: Vec<u32>,
    /// Whether the transaction declared its set.
    pub(crate) declared: bool,
    /// The region that it allocates from.
    pub(crate) region: Option<u32>,
    /// The lock that was looked up last, if it is held.
    pub(crate) last: u32,
    /// Whether a lock was taken since the attempt began.
    pub(crate) late: bool,
    /// Whether the allocator is at work.
    pub(crate) allocating: bool,
    /// Blocks allocated by this transaction.
    pub(crate) fresh: Vec<(PersistentAddress, u64)>,
}

impl LockSet {
    /// An empty set.
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

    /// Those to be taken for `locks`; `None`: the transaction declares nothing.
    pub(crate) fn want<M: Memory>(&mut self, view: &View<M>, locks: Option<&[Lock]>) {
        self.declared = locks.is_some();
        let of = |at| lock_of(view, at);
        Lock::numbers(view, locks.unwrap_or_default(), of, of, &mut self.wanted);
    }

    /// The region that the transaction allocates from.
    pub(crate) fn region(&self) -> Option<u32> {
        self.region
    }

    /// Says whether the allocator is at work.
    pub(crate) fn set_allocating(&mut self, allocating: bool) {
        self.allocating = allocating;
    }

    /// The transaction has allocated this block.
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

    /// Returns whether locks were taken since this was last asked, or since the attempt began.
    pub fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.late)
    }

    /// A timestamp above those of all these locks, and above `own`.
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

    /// Leaves `timestamp` in all locks.
    pub fn stamp<M: Memory>(&self, view: &View<M>, timestamp: u64) {
        for &lock in &self.held {
            view.memory.store(view.shared.set_lock(lock.into()).word(1), timestamp);
        }
    }

    /// Calls `each` with the number and the timestamp of each lock, in the order of numbers.
    pub fn timestamps<M: Memory>(&self, view: &View<M>, mut each: impl FnMut(u32, u64)) {
        for &lock in &self.held {
            each(lock, view.memory.load(view.shared.set_lock(lock.into()).word(1)));
        }
    }

    /// Leaves in each lock its own one of `timestamps`, which are in the order of numbers, and the holder.
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

/// Spreads what has no address of its own over the locks.
fn spread<M: Memory>(view: &View<M>, number: u64) -> u32 {
    ((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % view.shared.lock_count()) as u32
}

fn region_lock<M: Memory>(view: &View<M>, region: u32) -> u32 {
    spread(view, 1 << 40 | u64::from(region))
}

/// The number of the lock of the word at `at`.
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
