//! One test program, so that the library is linked once.

mod closed_forms;
mod differential;
