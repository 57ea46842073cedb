//! The command as a user runs it: one program, which starts it.

mod check;
mod manners;
mod manual;
mod pool;
mod reproduce;
mod simulate;
mod torture;
mod tutorial;
