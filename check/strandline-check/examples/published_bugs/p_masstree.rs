//! P-Masstree, a trie of B+ trees of RECIPE. When it removes a leaf that an interrupted split has left, it flushes the leaf that the pointer refers
//! to, and not the pointer.

use strandline_check::{Check, Pmem, check as program};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    None,
    WrongLine,
}

/// Leaves: the next one, and the highest key.
const LEFT: u64 = 64;
const INVALID: u64 = 128;
const RIGHT: u64 = 192;
/// The allocator's first free leaf.
const FREE: u64 = 256;

/// Creates an interrupted split: keys above 10 were copied to a new leaf, but not removed from the left one.
fn set_up(pmem: &Pmem) {
    for (leaf, next, highest) in [(LEFT, INVALID, 20), (INVALID, RIGHT, 20), (RIGHT, 0, 30)] {
        pmem.store(leaf, next);
        pmem.store(leaf + 8, highest);
    }
}

/// Removes these keys before the left leaf is split again.
fn take_out(pmem: &Pmem, bug: Bug) {
    let next = pmem.load(LEFT);
    if pmem.load(LEFT + 8) >= pmem.load(next + 8) {
        pmem.store(LEFT, pmem.load(next));
        pmem.flush(if bug == Bug::WrongLine { pmem.load(LEFT) } else { LEFT });
        pmem.fence();
        pmem.store(FREE, next);
        pmem.persist(FREE, 8);
    }
}

fn is_right(pmem: &Pmem) -> Result<(), String> {
    let (mut leaf, free) = (LEFT, pmem.load(FREE));
    while leaf != 0 {
        if leaf == free {
            return Err(format!("the leaf at {leaf:#x} is free, and in the tree"));
        }
        leaf = pmem.load(leaf);
    }
    Ok(())
}

pub fn check(bug: Bug) -> Check<'static> {
    program(move |pmem| take_out(pmem, bug))
        .set_up(set_up)
        .invariant(|pmem, _| is_right(pmem))
        .label_range("left", LEFT, 16)
        .label_range("invalid", INVALID, 16)
        .label_range("right", RIGHT, 16)
        .label("free", FREE)
}
