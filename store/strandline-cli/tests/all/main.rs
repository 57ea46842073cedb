//! Tests that run the command as a user does. They form one program.

mod answers;
mod bench;
mod control;
mod manners;
mod manual;
mod pool;
mod ranges;
mod torture;
