//! Where the pool is mapped, and who may store to it.
//!
//! One lock orders everything that is recorded. A thread holds it from before a store that is let through until that is written down.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};

use crate::recording::{self, Digits, Place};

/// Mappings of the pool at a time, at most.
const REGIONS: usize = 32;
/// Bytes of a store that one line holds.
const CHUNK: usize = 1024;
/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A mapping of the pool.
#[derive(Clone, Copy)]
pub struct Region {
    /// Where it begins.
    pub base: usize,
    /// Its bytes, whole pages.
    pub bytes: usize,
    /// Where it begins in the pool.
    pub offset: u64,
}

/// The mappings of the pool.
pub struct Regions {
    list: [Region; REGIONS],
    count: usize,
}

struct Guarded(UnsafeCell<Regions>);

// SAFETY: what is in it is reached with the lock held alone.
unsafe impl Sync for Guarded {}

static REGIONS_OF_POOL: Guarded =
    Guarded(UnsafeCell::new(Regions { list: [Region { base: 0, bytes: 0, offset: 0 }; REGIONS], count: 0 }));
static IS_FULL: AtomicBool = AtomicBool::new(false);
/// Who holds the lock, and how often.
static OWNER: AtomicI32 = AtomicI32::new(0);
static HELD: AtomicI32 = AtomicI32::new(0);

/// Takes the lock, which a thread may take again.
pub fn lock() {
    let thread = recording::thread();
    if OWNER.load(Relaxed) != thread {
        while OWNER.compare_exchange_weak(0, thread, Acquire, Relaxed).is_err() {
            // SAFETY: asks for nothing.
            unsafe { libc::sched_yield() };
        }
    }
    HELD.fetch_add(1, Relaxed);
}

/// Gives the lock back, once.
pub fn unlock() {
    if HELD.fetch_sub(1, Relaxed) == 1 {
        OWNER.store(0, Release);
    }
}

/// Whether this thread holds the lock.
#[cfg(target_arch = "x86_64")]
pub fn is_held() -> bool {
    OWNER.load(Relaxed) == recording::thread()
}

/// Runs `body` with the lock held.
pub fn locked<R>(body: impl FnOnce(&mut Regions) -> R) -> R {
    lock();
    // SAFETY: the lock is held, and `body` does not come here again: what it calls is handed the mappings.
    let result = body(unsafe { &mut *REGIONS_OF_POOL.0.get() });
    unlock();
    result
}

/// Lets a range of whole pages be stored to, or not.
///
/// # Safety
/// The pages are mapped, and the program may store to them.
unsafe fn protect(base: usize, bytes: usize, may_store: bool) {
    let access = if may_store { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    // SAFETY: the caller promises it. Not by the function, which is interposed.
    unsafe { libc::syscall(libc::SYS_mprotect, base, bytes, access) };
}

impl Regions {
    fn all(&self) -> &[Region] {
        &self.list[..self.count]
    }

    /// The mapping of `address`, if it is in the pool.
    pub fn of(&self, address: usize) -> Option<Region> {
        self.all().iter().find(|region| (region.base..region.base + region.bytes).contains(&address)).copied()
    }

    /// Whether `address` lies just behind a mapping.
    #[cfg(target_arch = "x86_64")]
    pub fn is_behind(&self, address: usize) -> bool {
        let behind = |region: &Region| (region.base + region.bytes..).contains(&address);
        self.all().iter().any(|region| behind(region) && address - region.base - region.bytes < 16 * PAGE)
    }

    /// The pool is mapped there.
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

    /// What is mapped there is not the pool any more.
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

    /// What lies in the pool of a range: pieces with their offsets.
    fn pieces(&self, base: usize, bytes: usize) -> impl Iterator<Item = (usize, usize, u64)> {
        let end = base.saturating_add(bytes);
        self.all().iter().filter_map(move |region| {
            let (from, to) = (base.max(region.base), end.min(region.base + region.bytes));
            (from < to).then(|| (from, to - from, region.offset + (from - region.base) as u64))
        })
    }

    /// Whether all of a range lies in the pool.
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
            // SAFETY: these are pages of a mapping that the program has made for storing.
            unsafe { protect(first, end - first, may_store) };
        }
    }

    /// Stores to these pages are seen from now on.
    pub fn refuse_stores(&self, base: usize, bytes: usize) {
        self.set_access(base, bytes, false);
    }

    /// Stores to these pages go through.
    pub fn let_stores(&self, base: usize, bytes: usize) {
        self.set_access(base, bytes, true);
    }

    /// Writes down what is there now as a store.
    pub fn write_store(&self, base: usize, bytes: usize, place: Place) {
        let thread = recording::thread();
        for (from, bytes, offset) in self.pieces(base, bytes) {
            for start in (0..bytes).step_by(CHUNK) {
                let length = CHUNK.min(bytes - start);
                // SAFETY: a part of a mapping that can be read; others may store to it meanwhile, which `read` below allows for.
                let chunk = unsafe { read(from + start, length) };
                let digits = Digits(&chunk[..length]);
                recording::write(format_args!("store {thread} {} {digits} {place}", offset + start as u64));
            }
        }
    }

    /// Writes down that the lines of a range are flushed.
    pub fn write_flush(&self, base: usize, bytes: usize, place: Place) {
        let thread = recording::thread();
        for (_, bytes, offset) in self.pieces(base, bytes) {
            recording::write(format_args!("flush {thread} {offset} {bytes} {place}"));
        }
    }
}

/// The bytes there, one after the other, since others may store to them.
///
/// # Safety
/// They can be read.
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

/// Before a store that is about to be written down: it goes through. The lock is held until [`after_store`].
pub fn before_store(base: usize, bytes: usize) {
    lock();
    locked(|regions| regions.let_stores(base, bytes));
}

/// Behind [`before_store`]: writes down what was stored.
pub fn after_store(base: usize, bytes: usize, place: Place) {
    locked(|regions| {
        regions.write_store(base, bytes, place);
        regions.refuse_stores(base, bytes);
    });
    unlock();
}

/// Writes down a flush of a range.
pub fn flushed(base: usize, bytes: usize, place: Place) {
    locked(|regions| regions.write_flush(base, bytes, place));
}

/// Writes down a fence.
pub fn fenced(place: Place) {
    locked(|_| recording::write(format_args!("fence {} {place}", recording::thread())));
}
