//! One program, so that the engine is linked once.

mod compact;
mod directions;
mod heap;
mod pool_file;
mod reuse;
mod snapshots;
