//! The command as a user runs it: one program, which starts it.

mod check;
mod manual;
mod pages;
