//! Tests of the litmus checker: the shipped files, malformed files, and two other explorers to compare with.

mod differential;
mod format;
mod limits;
mod naive;
mod native;
mod operational;
mod planted;
mod programs;
mod shipped;

use super::{Limits, Test};
use crate::Setting;

/// Parses the test in `text`.
fn parse(text: &str) -> Test {
    Test::parse(text).unwrap_or_else(|malformed| panic!("{malformed}\n{text}"))
}

/// Returns its number of states under a setting, and its verdicts, `A` or `F` for each `ask`.
fn outcome(test: &Test, setting: Setting) -> (usize, String) {
    let found = test.explore(Limits::default()).unwrap();
    let verdicts = test.asks.iter().map(|ask| if found.allows(setting, ask) { 'A' } else { 'F' });
    (found.count(setting), verdicts.collect())
}
