//! The command as a user runs it: one program, which starts it.

mod campaign;
mod check;
mod figures;
/// The template's tests, beside ours.
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

/// What a command says on standard error, without the lines that tell every ten seconds how far it is: on a busy machine any command has some.
fn without_progress(error: &str) -> String {
    let tells = |line: &str| line.starts_with(|first| ('\u{2800}'..='\u{28ff}').contains(&first));
    error.split_inclusive('\n').filter(|line| !tells(line)).collect()
}
