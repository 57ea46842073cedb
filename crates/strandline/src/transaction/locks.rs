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
//! Each lock keeps a Lamport timestamp, one above those of all locks of its last holder, and that holder's
//! [name](Holder). The timestamps give conflicting transactions their order.

use super::Abort;
use super::engine::{Concurrency, Engine};
use super::write_set::{LineEntry, NONE};
use crate::error::Error;
use crate::memory::{Event, LINE_BYTES, Memory, PersistentAddress, latch};
use crate::pool::heap;
use crate::pool::layout::View;
use crate::scheme::SchemeObject;

/// Bytes whose words share a lock.
const GRANULE_BYTES: u64 = 256;

/// A lock that a transaction declares before it begins, named by what it protects.
///
/// ```
/// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// # let options = Options { domain: Domain::Process, ..Options::default() };
/// # use strandline::{Concurrency, Lock, scheme::SchemeKind};
/// let options = Options { concurrency: Concurrency::Locks, ..options };
/// # let options = Options { domain: Domain::FlushOnFail, assume_persistent: true, ..options };
/// let pool = Pool::create(&path, &options)?;
/// let (from, to) = (pool.layout().root(0), pool.layout().root(1));
/// let mut worker = pool.worker_of(SchemeKind::UndoLogged)?;
/// worker.run_locked(&[Lock::word(from), Lock::word(to)], |tx| {
///     tx.write(from, 1)?;
///     tx.write(to, 2)
/// })?;
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The words of `bytes` bytes from `at`: rows, array elements, whatever has a known address. Neighbours
    /// within 256 bytes share a lock.
    Range {
        /// Where they begin.
        at: PersistentAddress,
        /// How many bytes.
        bytes: u64,
    },
    /// All blocks of up to a quarter of a chunk that were allocated by transactions that declared this region first
    /// among their regions, whatever isolated them: one lock for a structure that grows, such as a tree, wherever
    /// its nodes are. Larger blocks lie in chunks of their own and are declared as ranges.
    Region(u32),
}

impl Lock {
    /// The lock of the word at `at`.
    pub fn word(at: PersistentAddress) -> Self {
        Self::Range { at, bytes: 8 }
    }

    /// The region that a transaction allocates from that declares `locks`.
    pub(crate) fn first_region(locks: &[Self]) -> Option<u32> {
        locks.iter().find_map(|lock| match lock {
            Self::Region(region) => Some(*region),
            Self::Range { .. } => None,
        })
    }
}

/// A transaction as its successors know it: the log that it used and its number in that log, from 0.
///
/// ```
/// use strandline::transaction::Holder;
///
/// // The first transaction of log 3, as its locks name it.
/// let holder = Holder { log: 3, sequence: 0 };
/// assert_eq!(Holder::decode(holder.encode()), Some(holder));
/// // A lock that nobody has held.
/// assert_eq!(Holder::decode(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The log's number.
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
    held: Vec<u32>,
    /// Those to take before the next attempt, in order.
    wanted: Vec<u32>,
    /// Whether the transaction declared its set.
    declared: bool,
    /// The region that it allocates from.
    region: Option<u32>,
    /// The lock that was looked up last, if it is held.
    last: u32,
    /// Whether a lock was taken since the attempt began.
    late: bool,
    /// Whether the allocator is at work.
    allocating: bool,
    /// Blocks allocated by this transaction.
    fresh: Vec<(PersistentAddress, u64)>,
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
    fn want<M: Memory>(&mut self, view: &View<M>, locks: Option<&[Lock]>) {
        self.wanted.clear();
        self.declared = locks.is_some();
        for &lock in locks.unwrap_or_default() {
            match lock {
                Lock::Region(region) => self.wanted.push(region_lock(view, region)),
                Lock::Range { bytes: 0, .. } => {}
                Lock::Range { at, bytes } => {
                    let (mut next, end) = (at.offset(), at.offset().saturating_add(bytes - 1));
                    let mut granules = 0;
                    // More granules than there are locks are all locks.
                    while next <= end && granules <= view.shared.lock_count() {
                        self.wanted.push(lock_of(view, PersistentAddress::new(next)));
                        next = (next | (GRANULE_BYTES - 1)).saturating_add(1);
                        granules += 1;
                    }
                }
            }
        }
        self.wanted.sort_unstable();
        self.wanted.dedup();
    }

    /// The region that the transaction allocates from.
    pub(super) fn region(&self) -> Option<u32> {
        self.region
    }

    /// Says whether the allocator is at work.
    pub(super) fn set_allocating(&mut self, allocating: bool) {
        self.allocating = allocating;
    }

    /// The transaction has allocated this block.
    pub(super) fn add_fresh(&mut self, at: PersistentAddress, bytes: u64) {
        self.fresh.push((at, bytes));
    }

    fn holds(&mut self, lock: u32) -> bool {
        if lock == self.last {
            return true;
        }
        let found = self.held.binary_search(&lock).is_ok();
        if found {
            self.last = lock;
        }
        found
    }

    fn insert(&mut self, lock: u32) {
        if let Err(at) = self.held.binary_search(&lock) {
            self.held.insert(at, lock);
        }
    }

    /// Whether locks were taken since this was last asked, or since the attempt began.
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

    /// Leaves timestamp and holder in all locks.
    pub fn stamp<M: Memory>(&self, view: &View<M>, timestamp: u64, holder: Option<Holder>) {
        for &lock in &self.held {
            let at = view.shared.set_lock(lock.into());
            view.memory.store(at.word(1), timestamp);
            if let Some(holder) = holder {
                view.memory.store(at.word(2), holder.encode());
            }
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

/// The number of the lock that whoever writes to the line of `at` in the chunk table takes besides: hardware that keeps old
/// values of lines undoes what others wrote to the same line (ATOM).
fn line_lock<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
    spread(view, 1 << 41 | (at.offset() / LINE_BYTES))
}

/// The number of the lock of the word at `at`.
fn lock_of<M: Memory>(view: &View<M>, at: PersistentAddress) -> u32 {
    let layout = &view.layout;
    if at >= layout.chunks && at < layout.end() {
        if let Some(region) = heap::region_at(view, at) {
            return region_lock(view, region);
        }
    } else if at >= layout.chunk_table && at < layout.chunks {
        return spread(view, at.offset() / 8);
    }
    ((at.offset() / GRANULE_BYTES) % view.shared.lock_count()) as u32
}

impl<M: Memory, S: SchemeObject<M>> Engine<M, S> {
    /// A transaction begins, its first attempt, with this lock set; `None`: it declares nothing.
    #[inline]
    pub(super) fn declare(&mut self, locks: Option<&[Lock]>) {
        self.locks.region = Lock::first_region(locks.unwrap_or_default());
        if self.concurrency == Concurrency::Locks {
            self.locks.want(&self.view, locks);
        }
    }

    /// Takes the locks that are known to be needed, in order.
    pub(super) fn begin_locks(&mut self) {
        let locks = &mut self.locks;
        locks.fresh.clear();
        locks.allocating = false;
        locks.late = false;
        for &lock in &locks.wanted {
            self.view.memory.lock(self.view.shared.set_lock(lock.into()));
        }
        locks.held.clone_from(&locks.wanted);
        self.scheme.locks_taken(&self.view);
    }

    /// Takes the lock of the word at `at`, if it is free.
    fn need(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        self.need_lock(at, lock_of)
    }

    /// Takes one of the locks of the word at `at`, if it is free.
    fn need_lock(
        &mut self,
        at: PersistentAddress,
        lock_of: impl Fn(&View<M>, PersistentAddress) -> u32,
    ) -> Result<(), Abort> {
        loop {
            // Again after it was taken: the heap may have given the word another lock meanwhile.
            let lock = lock_of(&self.view, at);
            if self.locks.holds(lock) {
                return Ok(());
            }
            let word = self.view.shared.set_lock(lock.into());
            if !latch::try_lock(&self.view.memory, word) {
                self.locks.wanted.clone_from(&self.locks.held);
                if let Err(at) = self.locks.wanted.binary_search(&lock) {
                    self.locks.wanted.insert(at, lock);
                }
                return Err(self.doom(Abort::Conflict));
            }
            self.view.memory.event(Event::Lock(word));
            self.locks.insert(lock);
            self.locks.late = true;
        }
    }

    #[inline]
    fn lock_to_read(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        if self.locks.declared && !self.locks.allocating { Ok(()) } else { self.need(at) }
    }

    pub(super) fn read_locks(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.lock_to_read(at)?;
        Ok(self.own_or_home(self.writes.find(at.line()), at))
    }

    /// Reads words of one line.
    pub(super) fn read_line_locks(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        let entry = self.writes.find(at.line());
        // The words of a line share a lock, but for those of the chunk table.
        self.lock_to_read(at)?;
        for (i, value) in into.iter_mut().enumerate() {
            let at = at.word(i as u64);
            if at >= self.view.layout.chunk_table && at < self.view.layout.chunks {
                self.lock_to_read(at)?;
            }
            *value = self.own_or_home(entry, at);
        }
        Ok(())
    }

    /// The entry for the line of `at`, whose lock the transaction has or may take.
    pub(super) fn entry_locks(&mut self, at: PersistentAddress) -> Result<u32, Abort> {
        let lock = lock_of(&self.view, at);
        if !self.locks.holds(lock) {
            let fresh = |&(block, bytes): &(PersistentAddress, u64)| at >= block && at < block.byte(bytes);
            if self.locks.declared && !self.locks.allocating && !self.locks.fresh.iter().any(fresh) {
                return Err(self.fail_write(at));
            }
            self.need(at)?;
        }
        if at >= self.view.layout.chunk_table && at < self.view.layout.chunks {
            // The words of other lines share a lock already.
            self.need_lock(at, line_lock)?;
        }
        let line = at.line();
        Ok(match self.writes.find(line) {
            Some(entry) => entry,
            None => self.writes.push_indexed(LineEntry {
                line,
                version: 0,
                lock: 0,
                next: NONE,
                written: 0,
                places: [0; 8],
            }),
        })
    }

    #[cold]
    fn fail_write(&mut self, at: PersistentAddress) -> Abort {
        self.error.get_or_insert(Error::OutsideLockSet(at.offset()));
        self.doom(Abort::Failed)
    }

    /// Commits, as far as the scheme commits at once.
    pub(super) fn commit_locks(&mut self) -> Result<(), Abort> {
        if self.writes.entries.is_empty() {
            self.scheme.end_locked(&self.view, &mut self.locks);
            self.view.memory.event(Event::Commit(0));
            self.statistics.read_only += 1;
            self.statistics.acknowledged += 1;
            return Ok(());
        }
        self.gather_home();
        let (view, home) = (&self.view, &self.home);
        match self.scheme.commit_locked(view, self.slot_index, &mut self.locks, home, &mut self.statistics) {
            Ok(()) => {
                self.statistics.commits += 1;
                Ok(())
            }
            Err(error) => {
                self.error.get_or_insert(error);
                Err(self.doom(Abort::Failed))
            }
        }
    }
}
