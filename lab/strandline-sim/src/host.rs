//! Hints to the machine that runs the simulation. They affect only its speed.

use std::mem::MaybeUninit;

/// Makes the host fetch the line of `list[index]`, which is needed soon. The index may be out of bounds.
pub(crate) fn prefetch<T>(list: &[T], index: usize) {
    let place = list.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has SSE. A prefetch has no visible effect, and no address makes it fail.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// The size in bytes from which on a list uses huge pages.
const LARGE: usize = 4 << 20;

/// Returns a list with this many copies of `value`. Asks the host to back a large list by huge pages, because the list is accessed at random and the
/// host's page-table entries would miss nearly as often as its contents. Writes all elements now, so that page faults do not slow down a run.
pub(crate) fn list<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut list = room(length);
    list.resize(length, value);
    list
}

/// Returns a copy that uses huge pages like [`list`], with room for so many more elements.
pub(crate) fn copy<T: Copy>(of: &[T], more: usize) -> Vec<T> {
    let mut list = room(of.len() + more);
    list.extend_from_slice(of);
    list
}

/// Allocates room for a list without touching its pages.
fn room<T>(length: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(length);
    let room = list.spare_capacity_mut();
    if size_of_val(room) >= LARGE {
        prefer_huge_pages(room);
    }
    list
}

fn prefer_huge_pages<T>(room: &mut [MaybeUninit<T>]) {
    #[cfg(target_os = "linux")]
    {
        let page = rustix::param::page_size();
        let from = room.as_ptr().addr();
        let (begin, end) = (from.next_multiple_of(page), (from + size_of_val(room)) & !(page - 1));
        let place = room.as_mut_ptr().wrapping_byte_add(begin - from).cast();
        // SAFETY: the pages are within the list's allocation. The advice does not change their contents; a kernel without huge pages refuses it.
        let _ = unsafe { rustix::mm::madvise(place, end - begin, rustix::mm::Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = room;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list has the requested contents, with or without huge pages.
    #[test]
    fn lists_are_whole() {
        for length in [0, 1, 1000, LARGE / 8 - 1, LARGE / 8, LARGE / 4 + 3] {
            let all = list(7u64, length);
            assert!(all.len() == length && all.iter().all(|&word| word == 7));
            let copied = copy(&all, 5);
            assert!(copied == all && copied.capacity() >= length + 5);
        }
    }

    /// A prefetch may be out of bounds.
    #[test]
    fn a_prefetch_reads_nothing() {
        prefetch(&[0u64; 0], usize::MAX);
        prefetch(&[1u8], 1 << 60);
    }
}
