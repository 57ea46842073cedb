//! Wrappers of the system's functions that create and change mappings, and of `msync`. They note the mappings of the pool.

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::io::BufRead;
use std::sync::atomic::AtomicBool;

use libc::{off_t, off64_t};

use crate::recording::{self, Call, Place};
use crate::regions::{self, PAGE, Region, address};

static IS_PRIVATE: AtomicBool = AtomicBool::new(false);

/// Returns whether the descriptor's file is the pool.
fn is_pool(descriptor: c_int) -> bool {
    let Some(path) = recording::variable(c"STRANDLINE_POOL") else { return false };
    // SAFETY: zeros are a value of this type.
    let (mut pool, mut file): (libc::stat, libc::stat) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the path ends with a zero, and both structures have room.
    let known =
        unsafe { libc::stat(path.as_ptr(), &mut pool) == 0 && libc::fstat(descriptor, &mut file) == 0 };
    known && (pool.st_dev, pool.st_ino) == (file.st_dev, file.st_ino)
}

/// Records where code is loaded, for the code addresses in later lines.
fn write_modules() {
    let Ok(maps) = std::fs::File::open("/proc/self/maps") else { return };
    for line in std::io::BufReader::new(maps).lines().map_while(Result::ok) {
        // 7f00-7f10 r-xp 00001000 08:01 1234   /path
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(access), Some(offset)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let path = line.find('/').map(|at| &line[at..]);
        if let (true, Some(path)) = (access.contains('x'), path) {
            let mut text = String::new();
            let _ = write!(text, "module {} {offset} {path}", range.replace('-', " "));
            recording::write(format_args!("{text}"));
        }
    }
}

/// Maps memory, and checks whether the file is the pool.
///
/// # Safety
/// As for the system's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    wanted: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off64_t,
) -> *mut c_void {
    // SAFETY: the system asks for what the caller has promised.
    let mapped =
        unsafe { libc::syscall(libc::SYS_mmap, wanted, bytes, access, flags, descriptor, offset) } as usize;
    let pointer = std::ptr::with_exposed_provenance_mut(mapped);
    if pointer == libc::MAP_FAILED || !recording::is_open() {
        return pointer;
    }
    let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let bytes = bytes.next_multiple_of(PAGE);
    if descriptor >= 0 && is_shared && access & libc::PROT_WRITE != 0 && is_pool(descriptor) {
        #[cfg(target_arch = "x86_64")]
        crate::trap::install();
        regions::locked(|regions| {
            recording::write(format_args!("map {offset} {bytes}"));
            if recording::knows_places() {
                write_modules();
            }
            regions.add(Region { base: mapped, bytes, offset: offset as u64 });
        });
    } else {
        // MAP_FIXED may have replaced a mapping of the pool.
        regions::locked(|regions| regions.remove(mapped, bytes));
        if descriptor >= 0 && access & libc::PROT_WRITE != 0 && is_pool(descriptor) {
            recording::note_once(
                &IS_PRIVATE,
                "the pool is mapped with MAP_PRIVATE, so what is stored there does not reach its file: use MAP_SHARED",
            );
        }
    }
    pointer
}

/// Like [`mmap64`].
///
/// # Safety
/// As for the system's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    wanted: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the system asks for what the caller has promised.
    unsafe { mmap64(wanted, bytes, access, flags, descriptor, offset) }
}

/// Removes mappings.
///
/// # Safety
/// As for the system's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(base: *mut c_void, bytes: usize) -> c_int {
    if recording::is_open() {
        regions::locked(|regions| regions.remove(address(base), bytes));
    }
    // SAFETY: the system asks for what the caller has promised.
    unsafe { libc::syscall(libc::SYS_munmap, base, bytes) as c_int }
}

/// Changes the access to memory. Stores to the pool stay visible to the recorder.
///
/// # Safety
/// As for the system's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(base: *mut c_void, bytes: usize, access: c_int) -> c_int {
    // SAFETY: the system asks for what the caller has promised.
    let done = unsafe { libc::syscall(libc::SYS_mprotect, base, bytes, access) as c_int };
    if done == 0 && access & libc::PROT_WRITE != 0 && recording::is_open() {
        regions::locked(|regions| regions.refuse_stores(address(base), bytes));
    }
    done
}

/// Writes a mapping's stores to its file. It is recorded as a flush of these pages, and a fence.
///
/// # Safety
/// As for the system's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(base: *mut c_void, bytes: usize, flags: c_int) -> c_int {
    let (_call, is_own) = Call::begin();
    // SAFETY: the system asks for what the caller has promised.
    let done = unsafe { libc::syscall(libc::SYS_msync, base, bytes, flags) as c_int };
    if is_own && done == 0 && flags & libc::MS_SYNC != 0 {
        let is_in_pool = regions::locked(|regions| regions.of(address(base)).is_some());
        if is_in_pool {
            let place = Place::caller();
            regions::flushed(address(base), bytes.next_multiple_of(PAGE), place);
            regions::fenced(place);
        }
    }
    done
}
