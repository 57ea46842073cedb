//! The mappings of the pool, and which threads may store to them.
//!
//! One lock orders all recorded operations. A thread holds it from before a store is let through until the store is recorded.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use crate::recording::{self, Digits, Place};

/// The number of mappings of the pool that may exist at a time, at most.
const REGIONS: usize = 32;
/// The number of bytes of a store that one line of the recording holds.
const CHUNK: usize = 1024;
/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A mapping of the pool.
#[derive(Clone, Copy)]
pub struct Region {
    /// The address at which it begins.
    pub base: usize,
    /// Its length in bytes, a multiple of a page.
    pub bytes: usize,
    /// The offset in the pool at which it begins.
    pub offset: u64,
}

/// The mappings of the pool.
pub struct Regions {
    list: [Region; REGIONS],
    count: usize,
}

struct Guarded(UnsafeCell<Regions>);

// SAFETY: the contents are accessed only while the lock is held.
unsafe impl Sync for Guarded {}

static REGIONS_OF_POOL: Guarded =
    Guarded(UnsafeCell::new(Regions { list: [Region { base: 0, bytes: 0, offset: 0 }; REGIONS], count: 0 }));
static IS_FULL: AtomicBool = AtomicBool::new(false);
/// The thread that holds the lock, and how many times it holds it.
static OWNER: AtomicI32 = AtomicI32::new(0);
static HELD: AtomicI32 = AtomicI32::new(0);

/// Takes the lock. A thread may take it more than once.
pub fn lock() {
    let thread = recording::thread();
    if OWNER.load(Relaxed) != thread {
        while OWNER.compare_exchange_weak(0, thread, Acquire, Relaxed).is_err() {
            // SAFETY: `sched_yield` has no preconditions.
            unsafe { libc::sched_yield() };
        }
    }
    HELD.fetch_add(1, Relaxed);
}

/// Releases the lock once.
pub fn unlock() {
    if HELD.fetch_sub(1, Relaxed) == 1 {
        OWNER.store(0, Release);
    }
}

/// Returns whether this thread holds the lock.
#[cfg(target_arch = "x86_64")]
pub fn is_held() -> bool {
    OWNER.load(Relaxed) == recording::thread()
}

/// Runs `body` with the lock held.
pub fn locked<R>(body: impl FnOnce(&mut Regions) -> R) -> R {
    lock();
    // SAFETY: the lock is held, and `body` does not call this function: functions that it calls are passed the mappings.
    let result = body(unsafe { &mut *REGIONS_OF_POOL.0.get() });
    unlock();
    result
}

/// Allows or forbids stores to a range of whole pages.
///
/// # Safety
/// The pages must be mapped, and the program must be allowed to store to them.
unsafe fn protect(base: usize, bytes: usize, may_store: bool) {
    let access = if may_store { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: the caller promises it. The wrapper of `mprotect` is interposed, so this makes the system call directly.
    unsafe { libc::syscall(libc::SYS_mprotect, base, bytes, access) };
}

impl Regions {
    fn all(&self) -> &[Region] {
        &self.list[..self.count]
    }

    /// Returns the mapping that contains `address`.
    pub fn of(&self, address: usize) -> Option<Region> {
        self.all().iter().find(|region| (region.base..region.base + region.bytes).contains(&address)).copied()
    }

    /// Returns whether `address` is less than 16 pages after the end of a mapping.
    #[cfg(target_arch = "x86_64")]
    pub fn is_behind(&self, address: usize) -> bool {
        let behind = |region: &Region| (region.base + region.bytes..).contains(&address);
        self.all().iter().any(|region| behind(region) && address - region.base - region.bytes < 16 * PAGE)
    }

    /// Adds a mapping of the pool.
    pub fn add(&mut self, region: Region) {
        self.remove(region.base, region.bytes);
        if self.count == REGIONS {
            recording::note_once(
                &IS_FULL,
                "the pool is mapped more than 32 times at once: stores to the later mappings are not recorded",
            );
            return;
        }
        self.list[self.count] = region;
        self.count += 1;
        self.refuse_stores(region.base, region.bytes);
    }

    /// Removes the mappings that overlap the range, which does not map the pool any more.
    pub fn remove(&mut self, base: usize, bytes: usize) {
        let mut at = 0;
        while at < self.count {
            let region = self.list[at];
            if region.base < base + bytes && base < region.base + region.bytes {
                self.count -= 1;
                self.list[at] = self.list[self.count];
            } else {
                at += 1;
            }
        }
    }

    /// Returns the parts of a range that are in the pool: address, length, and offset in the pool.
    fn pieces(&self, base: usize, bytes: usize) -> impl Iterator<Item = (usize, usize, u64)> {
        let end = base.saturating_add(bytes);
        self.all().iter().filter_map(move |region| {
            let (from, to) = (base.max(region.base), end.min(region.base + region.bytes));
            (from < to).then(|| (from, to - from, region.offset + (from - region.base) as u64))
        })
    }

    /// Returns whether the whole range is in the pool.
    pub fn holds(&self, base: usize, bytes: usize) -> bool {
        self.pieces(base, bytes).map(|(_, bytes, _)| bytes).sum::<usize>() >= bytes
    }

    fn set_access(&self, base: usize, bytes: usize, may_store: bool) {
        if !recording::sees_stores() {
            return;
        }
        for (from, bytes, _) in self.pieces(base, bytes) {
            let first = from & !(PAGE - 1);
            let end = (from + bytes).next_multiple_of(PAGE);
            // SAFETY: these pages belong to a mapping that the program created for storing.
            unsafe { protect(first, end - first, may_store) };
        }
    }

    /// Forbids stores to these pages, so that each store faults and is recorded.
    pub fn refuse_stores(&self, base: usize, bytes: usize) {
        self.set_access(base, bytes, false);
    }

    /// Allows stores to these pages.
    pub fn let_stores(&self, base: usize, bytes: usize) {
        self.set_access(base, bytes, true);
    }

    /// Records the current contents of a range as a store.
    pub fn write_store(&self, base: usize, bytes: usize, place: Place) {
        let thread = recording::thread();
        for (from, bytes, offset) in self.pieces(base, bytes) {
            for start in (0..bytes).step_by(CHUNK) {
                let length = CHUNK.min(bytes - start);
                // SAFETY: a part of a mapping that can be read. Other threads may store to it meanwhile, which `read` allows for.
                let chunk = unsafe { read(from + start, length) };
                let digits = Digits(&chunk[..length]);
                recording::write(format_args!("store {thread} {} {digits} {place}", offset + start as u64));
            }
        }
    }

    /// Records a flush of the lines of a range.
    pub fn write_flush(&self, base: usize, bytes: usize, place: Place) {
        let thread = recording::thread();
        for (_, bytes, offset) in self.pieces(base, bytes) {
            recording::write(format_args!("flush {thread} {offset} {bytes} {place}"));
        }
    }
}

/// Returns the bytes of a range, read one by one because other threads may store to them.
///
/// # Safety
/// The range must be readable.
unsafe fn read(base: usize, bytes: usize) -> [u8; CHUNK] {
    let mut copy = [0; CHUNK];
    for (at, byte) in copy[..bytes].iter_mut().enumerate() {
        // SAFETY: the caller promises it.
        *byte = unsafe { std::ptr::with_exposed_provenance::<u8>(base + at).read_volatile() };
    }
    copy
}

/// The address of `pointer` as a number.
pub fn address(pointer: *const c_void) -> usize {
    pointer.expose_provenance()
}

/// Prepares a store that is about to be recorded: allows it, and takes the lock until [`after_store`].
pub fn before_store(base: usize, bytes: usize) {
    lock();
    locked(|regions| regions.let_stores(base, bytes));
}

/// Ends what [`before_store`] began: records what was stored.
pub fn after_store(base: usize, bytes: usize, place: Place) {
    locked(|regions| {
        regions.write_store(base, bytes, place);
        regions.refuse_stores(base, bytes);
    });
    unlock();
}

/// Records a flush of a range.
pub fn flushed(base: usize, bytes: usize, place: Place) {
    locked(|regions| regions.write_flush(base, bytes, place));
}

/// Records a fence.
pub fn fenced(place: Place) {
    locked(|_| recording::write(format_args!("fence {} {place}", recording::thread())));
}
