//! One program, so that the engine is linked once.

mod checksums;
mod compact;
mod directions;
mod flushes;
mod growth;
mod heap;
mod plain;
mod pool_file;
mod readers;
mod reuse;
mod savepoints;
mod snapshots;
