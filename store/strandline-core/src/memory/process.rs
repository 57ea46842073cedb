//! The identity of the process. A fork copies private mappings, but not the threads, and shares mappings of files. A child that used its
//! parent's pool would overwrite what the parent writes, without its locks.
//!
//! A page that the kernel clears in every forked child (`MADV_WIPEONFORK`) has a word with the process's number. A child finds 0 there, and
//! takes the next number, which none of its ancestors has had. So a check costs one load. If the kernel has no such pages, process
//! identifiers are compared, which costs a system call.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::system;
use crate::error::{Error, Result};

const PAGE_BYTES: usize = 4096;

/// The identity of a process.
#[derive(Clone, Copy)]
pub struct Process {
    /// The word with the number of the running process; [`UNNUMBERED`] if the kernel clears no pages.
    current: &'static AtomicU64,
    /// The number of this process, or its identifier if it has no number.
    number: u64,
}

/// A word with a value that is neither a process's number nor an identifier.
static UNNUMBERED: AtomicU64 = AtomicU64::new(u64::MAX);

impl Process {
    /// Returns the identity of the running process.
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
            // If this fails, another thread has just set the number.
            let _ = current.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
        }
        Self { current, number: current.load(Ordering::Acquire) }
    }

    /// Returns whether this is the running process.
    pub fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed) == self.number || self.has_current_identifier()
    }

    #[cold]
    #[inline(never)]
    fn has_current_identifier(&self) -> bool {
        std::ptr::eq(self.current, &UNNUMBERED) && self.number == u64::from(std::process::id())
    }

    /// Checks that this is the running process.
    ///
    /// # Errors
    /// Returns [`Error::Forked`] if it is not.
    pub fn check(&self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Error::Forked) }
    }
}

/// Returns the word that the kernel clears in a forked child; `None` if the kernel cannot do that.
fn page() -> Option<&'static AtomicU64> {
    // Without a lock, because a forked child could find the lock taken.
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let made = system::map_anonymous(PAGE_BYTES).ok()?;
        // SAFETY: the range is the new mapping, which is still empty, and a child may find zeros in it.
        let wiped = unsafe { system::clear_in_children(made, PAGE_BYTES) };
        let kept = wiped.is_ok().then(|| {
            let (null, made) = (std::ptr::null_mut(), made.cast());
            PAGE.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire)
        });
        if !matches!(kept, Some(Ok(_))) {
            // SAFETY: the range is the new mapping, to which there is no other pointer.
            unsafe { system::unmap(made, PAGE_BYTES) };
        }
        page = match kept? {
            Ok(_) => made.cast(),
            Err(others) => others,
        };
    }
    // SAFETY: the pointer is to a page-aligned, zeroed page that is never unmapped and only accessed as this atomic.
    Some(unsafe { &*page })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of `question` in a forked child, which does nothing else.
    fn in_child(question: impl Fn() -> bool) -> bool {
        // SAFETY: the child calls only `question`, which takes no lock, and then ends itself.
        match unsafe { libc::fork() } {
            0 => {
                let answer = question();
                // SAFETY: ends the child without running exit handlers of the parent's test harness.
                unsafe { libc::_exit(answer.into()) }
            }
            child => {
                let mut status = 0;
                // SAFETY: this is a child of this process, and no other thread waits for it.
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
            // The child has an identity of its own, and so has its child.
            assert!(in_child(|| {
                let own = Process::numbered_by(page);
                own.is_current() && !process.is_current() && in_child(|| !own.is_current())
            }));
            assert!(process.is_current());
            assert!(Process::numbered_by(page).number == process.number);
        }
    }
}
