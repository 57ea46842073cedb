//! Which process this is. A fork copies what is mapped, but not the threads, and what is shared with files it shares: a child
//! that went on with its parent's pool would write over what the parent writes, unlocked.
//!
//! A word in a page that the kernel clears in every forked child (`MADV_WIPEONFORK`) holds the process's number; a child that
//! finds 0 there takes the next number, which none of its ancestors has had. So it costs a load to know. Where the kernel
//! cannot do that, process identifiers are compared, which costs a system call.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::system;
use crate::error::{Error, Result};

const PAGE_BYTES: usize = 4096;

/// A process.
#[derive(Clone, Copy)]
pub struct Process {
    /// What holds the number of the process that runs; [`UNNUMBERED`] where the kernel clears no pages.
    current: &'static AtomicU64,
    /// This process's number; its identifier where it has no number.
    number: u64,
}

/// Is no process's number, and no process's identifier.
static UNNUMBERED: AtomicU64 = AtomicU64::new(u64::MAX);

impl Process {
    /// The process that runs.
    pub fn current() -> Self {
        Self::numbered_by(page())
    }

    fn numbered_by(page: Option<&'static AtomicU64>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let Some(current) = page else {
            return Self { current: &UNNUMBERED, number: std::process::id().into() };
        };
        if current.load(Ordering::Acquire) == 0 {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Or another thread has just numbered it.
            let _ = current.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
        }
        Self { current, number: current.load(Ordering::Acquire) }
    }

    /// Returns whether it is the one that runs.
    pub fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed) == self.number || self.has_current_identifier()
    }

    #[cold]
    #[inline(never)]
    fn has_current_identifier(&self) -> bool {
        std::ptr::eq(self.current, &UNNUMBERED) && self.number == u64::from(std::process::id())
    }

    /// Fails in any other process than this.
    ///
    /// # Errors
    /// Returns [`Error::Forked`].
    pub fn check(&self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Error::Forked) }
    }
}

/// The word that the kernel clears in a forked child; `None`: it cannot.
fn page() -> Option<&'static AtomicU64> {
    // No lock: a fork could find it taken.
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let made = system::map_anonymous(PAGE_BYTES).ok()?;
        // SAFETY: the range is the new mapping, which holds nothing yet, and in which a child is to find zeros.
        let wiped = unsafe { system::clear_in_children(made, PAGE_BYTES) };
        let kept = wiped.is_ok().then(|| {
            let (null, made) = (std::ptr::null_mut(), made.cast());
            PAGE.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire)
        });
        if !matches!(kept, Some(Ok(_))) {
            // SAFETY: the range is the new mapping, to which nobody has a pointer.
            unsafe { system::unmap(made, PAGE_BYTES) };
        }
        page = match kept? {
            Ok(_) => made.cast(),
            Err(others) => others,
        };
    }
    // SAFETY: it points at a page-aligned, zeroed page that is never unmapped and only reached as this atomic.
    Some(unsafe { &*page })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `question` says in a forked child, which does nothing else.
    fn in_child(question: impl Fn() -> bool) -> bool {
        // SAFETY: the child makes no call but those of `question`, which take no lock, and ends itself.
        match unsafe { libc::fork() } {
            0 => {
                let answer = question();
                // SAFETY: ends the child without running what the parent's harness registered.
                unsafe { libc::_exit(answer.into()) }
            }
            child => {
                let mut status = 0;
                // SAFETY: a child of ours that nobody else waits for.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert!(libc::WIFEXITED(status));
                libc::WEXITSTATUS(status) == 1
            }
        }
    }

    #[test]
    fn a_child_is_another_process_with_a_page_and_without() {
        assert!(page().is_some() || !cfg!(target_os = "linux"), "Linux has MADV_WIPEONFORK since 4.14");
        for page in [page(), None] {
            let process = Process::numbered_by(page);
            assert!(process.is_current());
            assert!(in_child(|| !process.is_current()));
            // It has a name of its own, and so has its own child.
            assert!(in_child(|| {
                let own = Process::numbered_by(page);
                own.is_current() && !process.is_current() && in_child(|| !own.is_current())
            }));
            assert!(process.is_current());
            assert!(Process::numbered_by(page).number == process.number);
        }
    }
}
