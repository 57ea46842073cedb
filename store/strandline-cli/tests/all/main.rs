//! The command as a user runs it: one program, which starts it.

mod answers;
mod bench;
mod control;
mod manners;
mod manual;
mod pool;
mod ranges;
mod torture;
