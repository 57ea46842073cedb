use super::*;
use crate::memory::{MappingKind, PAGE_BYTES, SharedFile};

fn words(bytes: u64) -> Arc<Mapping> {
    Arc::new(Mapping::anonymous(bytes).unwrap())
}

fn memory() -> Native {
    Native::new(words(1 << 16), words(1 << 12), Domain::Process, None, None).unwrap()
}

/// Checks that `N` words can be loaded from each place in the 1024 words of data from 4096 on, each of which has its number, and from no
/// other place.
fn has_what_is_there<const N: usize>(memory: &Native) {
    let data = memory.data_words().unwrap();
    let near = (4096 - 64..4096 + 128).chain(4096 + 8 * 1024 - 256..4096 + 8 * 1024 + 64);
    for offset in near.chain([0, 8, 1 << 16, 1 << 63, u64::MAX, u64::MAX - 7]) {
        let (at, words) = (PersistentAddress::new(offset), N as u64);
        let is_inside = offset % 8 == 0 && (512..=512 + 1024 - words).contains(&(offset / 8));
        let is_of_line = is_inside && offset / 8 % LINE_WORDS + words <= LINE_WORDS;
        let there = std::array::from_fn::<_, N, _>(|i| offset / 8 + i as u64);
        assert_eq!(data.load(at), is_inside.then_some(there), "{N} words at {offset:#x}");
        assert_eq!(data.load_in_line(at), is_of_line.then_some(there), "{N} words of a line at {offset:#x}");
        assert_eq!(data.has_line_of::<N>(at), is_of_line);
    }
}

#[test]
fn data_are_read_by_one_check_and_nothing_else_is() {
    let mut memory = memory();
    let at = PersistentAddress::new;
    for word in 0..(1 << 16) / WORD_BYTES {
        memory.store(at(word * WORD_BYTES), word);
    }
    assert_eq!(memory.data_words().unwrap().load::<1>(at(4096)), None, "nothing was said to be data");
    memory.set_data(at(4096), 1024);
    for memory in [memory.fork(), memory] {
        has_what_is_there::<1>(&memory);
        has_what_is_there::<2>(&memory);
        has_what_is_there::<3>(&memory);
        has_what_is_there::<4>(&memory);
        has_what_is_there::<8>(&memory);
        has_what_is_there::<11>(&memory);
    }
}

#[test]
fn what_is_given_back_is_read_from_the_file() {
    use std::os::unix::fs::FileExt;
    for page in [system::page_bytes(), 4 * system::page_bytes()] {
        let file = SharedFile::from(tempfile::tempfile().unwrap());
        file.write_all_at(&vec![1; 4 * page as usize], 0).unwrap();
        let over = |mapping: Mapping| {
            let mapping = Arc::new(mapping.with_page_bytes(page));
            Native::new(mapping, words(1 << 12), Domain::Process, None, None).unwrap()
        };
        let private = over(Mapping::file(file.clone(), 4 * page, MappingKind::Private).unwrap());
        let shared = over(Mapping::file(file.clone(), 4 * page, MappingKind::Shared).unwrap());
        let anonymous = over(Mapping::anonymous(4 * page).unwrap());
        let at = |number| PersistentAddress::new(number * page);
        let firsts = |memory: &Native| [0, 1, 2, 3].map(|number| memory.load(at(number)));
        let in_file = u64::from_le_bytes([1; 8]);
        for (memory, given_back) in [(private, in_file), (anonymous, 7), (shared, 7)] {
            for number in 0..4 {
                memory.store(at(number), 7);
            }
            memory.give_back(at(1), 2 * page);
            assert_eq!(firsts(&memory), [7, given_back, given_back, 7]);
            // Parts of the first and of the last page: these stay.
            if page > PAGE_BYTES {
                memory.give_back(PersistentAddress::new(PAGE_BYTES), page - PAGE_BYTES);
                memory.give_back(at(3), PAGE_BYTES);
                assert_eq!(firsts(&memory), [7, given_back, given_back, 7]);
                memory.store(PersistentAddress::new(page - 8), 9);
                memory.give_back(PersistentAddress::new(0), page - PAGE_BYTES);
                assert_eq!(memory.load(PersistentAddress::new(page - 8)), 9);
            }
        }
    }
}

#[test]
fn what_is_cleared_is_zeros_and_nothing_else_is() {
    for page in [system::page_bytes(), 4 * system::page_bytes()] {
        let volatile = Arc::new(Mapping::anonymous(4 * page).unwrap().with_page_bytes(page));
        let memory = Native::new(words(1 << 12), volatile, Domain::Process, None, None).unwrap();
        let word = |number: u64| VolatileAddress::new(number * WORD_BYTES);
        let all = 4 * page / WORD_BYTES;
        for (from, to) in [(3, all - 3), (1, 2), (0, all), (page / 8, page / 4), (page / 8 - 1, page / 4 + 1)]
        {
            (0..all).for_each(|number| memory.store(word(number), 7));
            memory.clear(word(from), (to - from) * WORD_BYTES);
            for number in 0..all {
                let is_cleared = (from..to).contains(&number);
                assert_eq!(memory.load(word(number)) == 0, is_cleared, "{number} of {from}..{to}");
            }
        }
    }
}

#[test]
fn data_are_whole_lines_of_the_mapping() {
    for (first, words) in [(4096, 8 * 1024), (4100, 8), (4104, 8), (4096, 7), (u64::MAX - 63, 16)] {
        let set = std::panic::AssertUnwindSafe(|| memory().set_data(PersistentAddress::new(first), words));
        assert!(std::panic::catch_unwind(set).is_err(), "{words} words at {first}");
    }
}

#[test]
#[should_panic(expected = "misaligned or outside")]
fn a_pair_does_not_reach_beyond_the_end() {
    memory().store_pair(PersistentAddress::new((1 << 16) - 8), [1, 2]);
}
