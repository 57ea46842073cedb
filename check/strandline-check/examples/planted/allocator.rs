//! A program that allocates blocks from a bitmap and puts them on a stack. Recovery frees blocks that are not reachable from the stack.

use strandline_check::{Check, Pmem, check as program};

/// The number of the topmost block, from 1; 0 if the stack is empty.
const TOP: u64 = 0;
/// A bit for each allocated block.
const ALLOCATED: u64 = 64;
const BLOCKS: u64 = 128;
const NUMBER_OF_BLOCKS: u64 = 4;

/// Returns the address of a block. A block has the number of the one below it, followed by two equal words.
fn block(number: u64) -> u64 {
    BLOCKS + 64 * (number - 1)
}

fn set(pmem: &Pmem, word: u64, value: u64) {
    pmem.store(word, value);
    pmem.persist(word, 8);
}

fn pair(value: u64) -> [u8; 16] {
    let mut pair = [0; 16];
    pair.as_chunks_mut().0.fill(value.to_le_bytes());
    pair
}

fn allocate(pmem: &Pmem) -> u64 {
    let allocated = pmem.load(ALLOCATED);
    let number = u64::from(allocated.trailing_ones()) + 1;
    set(pmem, ALLOCATED, allocated | 1 << (number - 1));
    number
}

fn free(pmem: &Pmem, number: u64) {
    set(pmem, ALLOCATED, pmem.load(ALLOCATED) & !(1 << (number - 1)));
}

/// Fills a new block with `value`, and puts it on top of `below`.
fn make(pmem: &Pmem, below: u64, value: u64, bug: u32) -> u64 {
    let made = allocate(pmem);
    pmem.store(block(made), below);
    pmem.store_bytes(block(made) + 8, &pair(value));
    if bug != 2 {
        pmem.persist(block(made), 24);
    }
    made
}

fn push(pmem: &Pmem, value: u64, bug: u32) {
    let made = make(pmem, pmem.load(TOP), value, bug);
    set(pmem, TOP, made);
}

fn pop(pmem: &Pmem) {
    let top = pmem.load(TOP);
    set(pmem, TOP, pmem.load(block(top)));
    free(pmem, top);
}

/// Changes the topmost value by replacing its block.
fn update(pmem: &Pmem, value: u64, bug: u32) {
    let top = pmem.load(TOP);
    if bug == 3 {
        pmem.store_bytes(block(top) + 8, &pair(value));
        pmem.persist(block(top) + 8, 16);
        return;
    }
    let made = make(pmem, pmem.load(block(top)), value, bug);
    set(pmem, TOP, made);
    free(pmem, top);
}

/// Returns the blocks of the stack, the topmost first.
fn reachable(pmem: &Pmem) -> Vec<u64> {
    let existing = |number: u64| (1..=NUMBER_OF_BLOCKS).contains(&number).then_some(number);
    let below = |&number: &u64| existing(pmem.load(block(number)));
    // A damaged chain may be a circle.
    std::iter::successors(existing(pmem.load(TOP)), below).take(2 * NUMBER_OF_BLOCKS as usize).collect()
}

fn recover(pmem: &Pmem, bug: u32) {
    let bits = reachable(pmem).into_iter().fold(0, |bits, number| bits | 1 << (number - 1));
    if bug != 1 && pmem.load(ALLOCATED) != bits {
        set(pmem, ALLOCATED, bits);
    }
}

/// The values on the stack, the topmost last, after 0, 1, 2 and more operations.
const STATES: [&[u64]; 5] = [&[], &[1], &[1, 2], &[1, 3], &[1]];

fn is_right(pmem: &Pmem, done: usize) -> Result<(), String> {
    let found = reachable(pmem);
    let allocated = pmem.load(ALLOCATED);
    for number in 1..=NUMBER_OF_BLOCKS {
        match (allocated >> (number - 1) & 1 == 1, found.contains(&number)) {
            (true, false) => {
                return Err(format!("leaked: block {number} is allocated, and not on the stack"));
            }
            (false, true) => return Err(format!("dangling: block {number} is on the stack, and free")),
            _ => {}
        }
    }
    let mut values = Vec::new();
    for &number in found.iter().rev() {
        let mut pair = [0; 16];
        pmem.load_bytes(block(number) + 8, &mut pair);
        let [first, second] = [0, 8].map(|at| u64::from(pair[at]));
        if first != second {
            return Err(format!("the words of block {number} are {first} and {second}"));
        }
        values.push(first);
    }
    let may_be = &STATES[done..STATES.len().min(done + 2)];
    match may_be.contains(&&values[..]) {
        true => Ok(()),
        false => Err(format!("after {done} operations the stack holds {values:?}")),
    }
}

pub fn check(bug: u32) -> Check<'static> {
    program(move |pmem| {
        let operations: [&dyn Fn(); 4] =
            [&|| push(pmem, 1, bug), &|| push(pmem, 2, bug), &|| update(pmem, 3, bug), &|| pop(pmem)];
        for (number, operation) in (1..).zip(operations) {
            operation();
            pmem.acknowledge(number);
        }
    })
    .recovery(move |pmem| recover(pmem, bug))
    .invariant(|pmem, crashed| is_right(pmem, crashed.acknowledged.len()))
    .label("top", TOP)
    .label("allocated", ALLOCATED)
    .label_range("blocks", BLOCKS, 64 * NUMBER_OF_BLOCKS)
}
