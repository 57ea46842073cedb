//! Tests of the command as a user runs it, in one test program.

mod bench;
mod campaign;
mod check;
mod figures;
/// The template's tests run among these.
#[path = "../../../../templates/hardware-scheme/src/scheme.rs"]
mod hardware_scheme;
mod manners;
mod manual;
mod pool;
mod reproduce;
mod simulate;
mod sweep;
mod torture;
mod tutorial;

/// Removes the lines of progress from a command's standard error: a command prints one every ten seconds, and on a busy machine any command takes
/// that long.
fn without_progress(error: &str) -> String {
    let tells = |line: &str| line.starts_with(|first| ('\u{2800}'..='\u{28ff}').contains(&first));
    error.split_inclusive('\n').filter(|line| !tells(line)).collect()
}
