//! Operations on all collections beside the standard library's, with kills: `cargo +nightly fuzz run operations`.

#![no_main]

#[path = "../../crates/strandline/tests/all/attacks.rs"]
#[allow(dead_code, reason = "one attack for each target")]
mod attacks;

use arbitrary::{Result, Unstructured};
use attacks::Step;
use libfuzzer_sys::fuzz_target;

/// Few names, some of them long, with common beginnings.
fn name(input: &mut Unstructured<'_>) -> Result<String> {
    let choice: u8 = input.arbitrary()?;
    Ok(format!("{}{}", "abcdefgh".repeat(usize::from(choice & 3)), choice >> 4))
}

fn step(input: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match input.int_in_range(0..=7)? {
        0 => Step::Insert(name(input)?, input.arbitrary()?),
        1 => Step::Remove(name(input)?),
        2 => Step::GiveUp(name(input)?),
        3 => Step::Number(input.arbitrary::<u8>()?.into(), input.arbitrary::<u8>()?.into()),
        4 => Step::Push(input.arbitrary()?),
        5 => Step::Pop,
        6 => Step::Enqueue(name(input)?),
        _ => Step::Dequeue,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Ok(images) = input.arbitrary() else { return };
    let mut steps = Vec::new();
    while !input.is_empty() && steps.len() < 200 {
        match step(&mut input) {
            Ok(step) => steps.push(step),
            Err(_) => break,
        }
    }
    attacks::operate_and_kill(&steps, images);
});
