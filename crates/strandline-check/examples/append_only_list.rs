//! A list that only grows, in persistent memory: an element is stored first, then the length that makes it
//! count. Between the two a fence is needed, and it is easily forgotten.
//!
//! `cargo run --release -p strandline-check --example append_only_list`

use strandline_check::{Crashed, Options, check};
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step};

const LENGTH: PersistentAddress = PersistentAddress::new(0);
const ELEMENTS: PersistentAddress = PersistentAddress::new(64);

/// Appends 101, 102, … and tells after each one that it is durable.
fn append(memory: &Hosted, count: u64, fence_between: bool) {
    for i in 0..count {
        let element = ELEMENTS.word(i);
        memory.store(element, 101 + i);
        memory.write_back(element, Step::CommitWriteBack);
        if fence_between {
            memory.fence(Step::CommitFence);
        }
        memory.store(LENGTH, i + 1);
        memory.write_back(LENGTH, Step::WatermarkWriteBack);
        memory.fence(Step::WatermarkFence);
        memory.event(Event::Acknowledged(i + 1));
    }
}

/// Every element that counts is there, and everything that was called durable counts.
fn judge(memory: &Hosted, crashed: &Crashed) -> Result<(), String> {
    let length = memory.load(LENGTH);
    if length < crashed.acknowledged.len() as u64 {
        return Err(format!("{} elements were durable, {length} are left", crashed.acknowledged.len()));
    }
    for i in 0..length {
        let element = memory.load(ELEMENTS.word(i));
        if element != 101 + i {
            return Err(format!("element {i} of {length} holds {element}"));
        }
    }
    Ok(())
}

fn main() {
    let options = Options::default();
    match check(&options, |_, memory| append(memory, 10, false), judge) {
        Err(refused) => println!("Without the fence: {refused}"),
        Ok(_) => unreachable!("the missing fence goes unnoticed"),
    }
    match check(&options, |_, memory| append(memory, 10, true), judge) {
        Ok(report) => {
            println!("With it: {} states at {} crash points, all right", report.states, report.points)
        }
        Err(refused) => unreachable!("{refused}"),
    }
}
