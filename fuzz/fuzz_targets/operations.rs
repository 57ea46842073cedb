//! Runs operations on all collections, compares them with the standard library's, and kills in between: `cargo +nightly fuzz run operations`.

#![no_main]

#[path = "../../store/strandline/tests/all/attacks.rs"]
#[allow(dead_code, reason = "one attack for each target")]
mod attacks;

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use strandline_structures::model::Numbers;
use strandline_structures::model::typed::All;

fn transaction(input: &mut Unstructured<'_>) -> Result<attacks::Transaction> {
    let mut operations = Vec::new();
    for _ in 0..input.int_in_range(1..=3)? {
        operations.push(All::draw(&mut Numbers::new(input.arbitrary::<[u32; 6]>()?, 20)));
    }
    Ok((operations, input.ratio(1, 8)?))
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Ok(images) = input.arbitrary() else { return };
    let mut transactions = Vec::new();
    while !input.is_empty() && transactions.len() < 200 {
        match transaction(&mut input) {
            Ok(transaction) => transactions.push(transaction),
            Err(_) => break,
        }
    }
    attacks::operate_and_kill(&transactions, images);
});
