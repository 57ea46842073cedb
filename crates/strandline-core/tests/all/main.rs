//! One program, so that the engine is linked once.

mod directions;
mod heap;
mod pool_file;
mod reuse;
mod snapshots;
