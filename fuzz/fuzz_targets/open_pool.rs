//! Opens pools with damaged bytes and uses them: `cargo +nightly fuzz run open_pool`.

#![no_main]

#[path = "../../store/strandline/tests/all/attacks.rs"]
#[allow(dead_code, reason = "one attack for each target")]
mod attacks;

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use strandline::Domain;

fn damage(input: &mut Unstructured<'_>) -> Result<attacks::Damage> {
    Ok(attacks::Damage {
        file: input.arbitrary::<u8>()?.into(),
        word: input.arbitrary()?,
        value: input.arbitrary()?,
        bytes: input.int_in_range(1..=8)?,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Ok((is_sync, is_clean)) = input.arbitrary() else { return };
    let domain = if is_sync { Domain::Sync } else { Domain::Process };
    let mut all = Vec::new();
    while !input.is_empty() && all.len() < 64 {
        match damage(&mut input) {
            Ok(one) => all.push(one),
            Err(_) => break,
        }
    }
    attacks::open_damaged(domain, is_clean, &all);
});
