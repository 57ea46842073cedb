//! One test program, so that the schemes are linked once.

mod counts;
mod deferred_counts;
mod schemes;
