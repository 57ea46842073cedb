//! Hints to the machine that the simulation runs on. They change nothing but the time that it takes.

use std::mem::MaybeUninit;

/// Has the host fetch the line of `list[index]`, which is needed soon. There need be no such element.
pub(crate) fn prefetch<T>(list: &[T], index: usize) {
    let place = list.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has SSE; a prefetch loads nothing that the program sees, and no address makes it fail.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Bytes from which a list is worth huge pages.
const LARGE: usize = 4 << 20;

/// So many of one value. The host is asked to back a large list by huge pages: it is looked at here and there, and so what the host knows of
/// its pages is looked for nearly as often as its contents. All is written now, so that a run is not held up by pages that are not there yet.
pub(crate) fn list<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut list = room(length);
    list.resize(length, value);
    list
}

/// A copy, likewise, with room for so many more.
pub(crate) fn copy<T: Copy>(of: &[T], more: usize) -> Vec<T> {
    let mut list = room(of.len() + more);
    list.extend_from_slice(of);
    list
}

/// Room for a list whose pages nobody has touched.
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
        // SAFETY: the pages lie within the list's room. The advice changes nothing in them; a kernel that knows no such pages refuses it.
        let _ = unsafe { rustix::mm::madvise(place, end - begin, rustix::mm::Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = room;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Huge pages or not, a list is what it is asked for.
    #[test]
    fn lists_are_whole() {
        for length in [0, 1, 1000, LARGE / 8 - 1, LARGE / 8, LARGE / 4 + 3] {
            let all = list(7u64, length);
            assert!(all.len() == length && all.iter().all(|&word| word == 7));
            let copied = copy(&all, 5);
            assert!(copied == all && copied.capacity() >= length + 5);
        }
    }

    /// What is prefetched need not be there.
    #[test]
    fn a_prefetch_reads_nothing() {
        prefetch(&[0u64; 0], usize::MAX);
        prefetch(&[1u8], 1 << 60);
    }
}
