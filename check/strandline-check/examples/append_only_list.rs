//! A list that only grows, in persistent memory: the program stores an element, and then the length that makes it count. A fence is needed between
//! the two, and is easily forgotten.
//!
//! `cargo run --release -p strandline-check --example append_only_list`

use strandline_check::{Check, Pmem, check};

const LENGTH: u64 = 0;
const ELEMENTS: u64 = 64;

/// Appends 101, 102, …, and acknowledges each element once it is durable.
fn append(pmem: &Pmem, count: u64, fence_between: bool) {
    for i in 0..count {
        let element = ELEMENTS + 8 * i;
        pmem.step("element");
        pmem.store(element, 101 + i);
        pmem.flush(element);
        if fence_between {
            pmem.fence();
        }
        pmem.step("length");
        pmem.store(LENGTH, i + 1);
        pmem.persist(LENGTH, 8);
        pmem.acknowledge(i + 1);
    }
}

/// Checks that every element below the length is there, and that every acknowledged element is below the length.
fn checked<'a>(fence_between: bool) -> Check<'a> {
    check(move |pmem| append(pmem, 10, fence_between))
        .label("length", LENGTH)
        .label_range("elements", ELEMENTS, 80)
        .invariant(|pmem, crashed| {
            let length = pmem.load(LENGTH);
            if length < crashed.acknowledged.len() as u64 {
                return Err(format!(
                    "{} elements were durable, {length} are left",
                    crashed.acknowledged.len()
                ));
            }
            for i in 0..length {
                let element = pmem.load(ELEMENTS + 8 * i);
                if element != 101 + i {
                    return Err(format!("element {i} of {length} holds {element}"));
                }
            }
            Ok(())
        })
}

fn main() {
    match checked(false).exhaustive().finding {
        Some(finding) => println!("Without the fence: {finding}"),
        None => unreachable!("the missing fence goes unnoticed"),
    }
    let outcome = checked(true).exhaustive();
    outcome.assert_clean();
    outcome.assert_nothing_wasted();
    println!(
        "With it: {} states at {} crash points, all right",
        outcome.counts.states, outcome.counts.points
    );
}
