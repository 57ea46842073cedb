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
