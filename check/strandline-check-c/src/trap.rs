//! Stores by ordinary instructions. An instruction that stores to the pool faults; the handlers let it through, and record what it has changed.
//!
//! The first signal (SIGSEGV) allows stores to the page and makes the processor stop after the instruction. The second one (SIGTRAP) compares the
//! page with its old contents, and forbids stores again. The lock of `regions` is held between them.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Once;

use libc::{siginfo_t, ucontext_t};

use crate::recording::{self, Place};
use crate::regions::{self, PAGE, Regions, is_held};

/// The number of pages that one instruction may store to, at most.
const PAGES: usize = 4;
/// The processor's flag to stop after the next instruction.
const TRAP: i64 = 1 << 8;
/// The bit of a fault's code that says that it was a store.
const WAS_STORE: i64 = 1 << 1;

/// The instruction that is being let through.
struct Stepped {
    pages: [usize; PAGES],
    /// The pages' contents before the instruction.
    before: [[u64; PAGE / 8]; PAGES],
    /// The addresses at which it faulted.
    faulted: [usize; PAGES],
    count: usize,
    place: Option<Place>,
}

struct Guarded(UnsafeCell<Stepped>);

// SAFETY: the contents are accessed only while the lock is held.
unsafe impl Sync for Guarded {}

static STEPPED: Guarded = Guarded(UnsafeCell::new(Stepped {
    pages: [0; PAGES],
    before: [[0; PAGE / 8]; PAGES],
    faulted: [0; PAGES],
    count: 0,
    place: None,
}));

/// Installs the handlers of both signals.
pub fn install() {
    static INSTALLED: Once = Once::new();
    if !recording::sees_stores() {
        return;
    }
    INSTALLED.call_once(|| {
        let handlers: [(c_int, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)); 2] =
            [(libc::SIGSEGV, faults), (libc::SIGTRAP, steps)];
        for (signal, handler) in handlers {
            // SAFETY: zeros are a valid value of this type, and the handler has the type that these flags require.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    });
}

/// Returns the words of a page.
///
/// # Safety
/// The page must be mapped.
unsafe fn words(page: usize) -> impl Iterator<Item = u64> {
    // SAFETY: the caller promises it. Other threads may store to the page meanwhile.
    (0..PAGE / 8)
        .map(move |at| unsafe { std::ptr::with_exposed_provenance::<u64>(page + 8 * at).read_volatile() })
}

extern "C" fn faults(_: c_int, information: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes valid pointers to a handler.
    let (address, context) =
        unsafe { ((*information).si_addr().expose_provenance(), &mut *context.cast::<ucontext_t>()) };
    let registers = &mut context.uc_mcontext.gregs;
    let is_store = registers[libc::REG_ERR as usize] & WAS_STORE != 0;
    regions::lock();
    let place = Place::interrupted(registers[libc::REG_RIP as usize] as usize);
    let is_let_through = is_store && regions::locked(|regions| open(regions, address, place));
    if is_let_through {
        registers[libc::REG_EFL as usize] |= TRAP;
        return;
    }
    let is_behind = regions::locked(|regions| regions.is_behind(address));
    let what = if is_behind { "behind" } else { "elsewhere" };
    recording::write(format_args!("fault {} {what} {place}", recording::thread()));
    regions::unlock();
    // The instruction faults again, and the process ends as it would without this library. SAFETY: this is the handler that the program would have
    // without this library.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

/// Allows stores to the page of `address` for the instruction that stores to it.
fn open(regions: &Regions, address: usize, place: Place) -> bool {
    if regions.of(address).is_none() {
        return false;
    }
    // SAFETY: the lock is held.
    let stepped = unsafe { &mut *STEPPED.0.get() };
    let page = address & !(PAGE - 1);
    if stepped.count == PAGES || stepped.pages[..stepped.count].contains(&page) {
        return false;
    }
    let at = stepped.count;
    stepped.pages[at] = page;
    stepped.faulted[at] = address;
    // SAFETY: a page of the pool, which can be read.
    unsafe { words(page) }.zip(&mut stepped.before[at]).for_each(|(word, into)| *into = word);
    if at == 0 {
        stepped.place = Some(place);
    } else {
        // The lock is kept once for each instruction, not for each of its faults.
        regions::unlock();
    }
    stepped.count += 1;
    regions.let_stores(page, PAGE);
    true
}

extern "C" fn steps(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid pointer to a handler.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
    if !is_held() {
        // The program's own breakpoint ends the program, as it would without this library. SAFETY: this is the handler that the program would have
        // without this library.
        unsafe {
            libc::signal(libc::SIGTRAP, libc::SIG_DFL);
            libc::raise(libc::SIGTRAP);
        }
        return;
    }
    regions::locked(|regions| {
        // SAFETY: the lock is held.
        let stepped = unsafe { &mut *STEPPED.0.get() };
        let Some(place) = stepped.place else { return };
        for at in 0..stepped.count {
            let (page, faulted) = (stepped.pages[at], stepped.faulted[at]);
            close(regions, page, &stepped.before[at], faulted, place);
        }
        stepped.count = 0;
    });
    regions::unlock();
}

/// Forbids stores to a page, and records what has changed in it. If nothing has changed, records the word that was stored to.
fn close(regions: &Regions, page: usize, before: &[u64; PAGE / 8], faulted: usize, place: Place) {
    regions.refuse_stores(page, PAGE);
    let stored = (faulted - page) / 8;
    // SAFETY: a page of the pool, which can be read.
    let mut changed = unsafe { words(page) }.zip(before).map(|(now, before)| now != *before).enumerate();
    let mut from = None;
    loop {
        let next = changed.next();
        let is_stored = next.is_some_and(|(at, is_changed)| is_changed || at == stored);
        match (from, is_stored) {
            (None, true) => from = next.map(|(at, _)| at),
            (Some(first), false) => {
                let end = next.map_or(PAGE / 8, |(at, _)| at);
                regions.write_store(page + 8 * first, 8 * (end - first), place);
                from = None;
            }
            _ => {}
        }
        if next.is_none() {
            break;
        }
    }
}
