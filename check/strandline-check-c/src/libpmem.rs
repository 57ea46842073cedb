//! Wrappers of libpmem's functions that make stores durable: each records the operation and calls libpmem's function.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::recording::{self, Call, Place};
use crate::regions::{self, address};

/// Bits of libpmem.h.
const NO_DRAIN: c_uint = 1 << 0;
const NO_FLUSH: c_uint = 1 << 5;

/// Returns the function `name` of the next library in the search order, and looks it up only once.
fn next(name: &CStr, known: &AtomicUsize) -> usize {
    let mut found = known.load(Relaxed);
    if found == 0 {
        // SAFETY: the name ends with a zero.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }.expose_provenance();
        if found == 0 {
            recording::say(
                "a function of libpmem is called, and there is no libpmem: link the program with -lpmem",
            );
            // SAFETY: this ends the process.
            unsafe { libc::abort() };
        }
        known.store(found, Relaxed);
    }
    found
}

/// Defines wrappers of libpmem's functions, with code that runs `before` and `behind` a call that the program makes itself.
macro_rules! interpose {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $($before:expr)?, $behind:expr;)*) => {$(
        /// Wraps libpmem's function of this name.
        ///
        /// # Safety
        /// As for libpmem's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!(),
            };
            type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
            // SAFETY: libpmem's function of this name has this type.
            let function: Function = unsafe { std::mem::transmute(next(NAME, &NEXT)) };
            let (_call, is_own) = Call::begin();
            $(if is_own {
                $before;
            })?
            // SAFETY: the caller's promises are libpmem's.
            #[allow(clippy::let_unit_value)]
            let result = unsafe { function($($argument),*) };
            if is_own {
                $behind;
            }
            result
        }
    )*};
}

fn flush(base: *const c_void, bytes: usize) {
    regions::flushed(address(base), bytes, Place::caller());
}

fn persist(base: *const c_void, bytes: usize) {
    flush(base, bytes);
    drain();
}

fn drain() {
    regions::fenced(Place::caller());
}

fn before(to: *mut c_void, bytes: usize) {
    regions::before_store(address(to), bytes);
}

/// Records a finished store to a range. A streaming store counts as a store and a flush.
fn moved(to: *mut c_void, bytes: usize, flags: c_uint) {
    let place = Place::caller();
    regions::after_store(address(to), bytes, place);
    if flags & NO_FLUSH == 0 {
        regions::flushed(address(to), bytes, place);
        if flags & NO_DRAIN == 0 {
            regions::fenced(place);
        }
    }
}

interpose! {
    pmem_flush(base: *const c_void, bytes: usize), , flush(base, bytes);
    pmem_deep_flush(base: *const c_void, bytes: usize), , flush(base, bytes);
    pmem_drain(), , drain();
    pmem_deep_drain(base: *const c_void, bytes: usize) -> c_int, , drain();
    pmem_persist(base: *const c_void, bytes: usize), , persist(base, bytes);
    pmem_deep_persist(base: *const c_void, bytes: usize) -> c_int, , persist(base, bytes);
    pmem_msync(base: *const c_void, bytes: usize) -> c_int, , persist(base, bytes);
    pmem_memmove(to: *mut c_void, from: *const c_void, bytes: usize, flags: c_uint) -> *mut c_void,
        before(to, bytes), moved(to, bytes, flags);
    pmem_memcpy(to: *mut c_void, from: *const c_void, bytes: usize, flags: c_uint) -> *mut c_void,
        before(to, bytes), moved(to, bytes, flags);
    pmem_memset(to: *mut c_void, value: c_int, bytes: usize, flags: c_uint) -> *mut c_void,
        before(to, bytes), moved(to, bytes, flags);
    pmem_memmove_persist(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        before(to, bytes), moved(to, bytes, 0);
    pmem_memcpy_persist(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        before(to, bytes), moved(to, bytes, 0);
    pmem_memset_persist(to: *mut c_void, value: c_int, bytes: usize) -> *mut c_void,
        before(to, bytes), moved(to, bytes, 0);
    pmem_memmove_nodrain(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        before(to, bytes), moved(to, bytes, NO_DRAIN);
    pmem_memcpy_nodrain(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void,
        before(to, bytes), moved(to, bytes, NO_DRAIN);
    pmem_memset_nodrain(to: *mut c_void, value: c_int, bytes: usize) -> *mut c_void,
        before(to, bytes), moved(to, bytes, NO_DRAIN);
}
