//! All integration tests are one program, so that the engine is linked only once.

mod checksums;
mod compact;
mod directions;
#[cfg(target_os = "linux")]
mod flush_failures;
mod flushes;
mod growth;
mod heap;
mod page_tree;
mod panics;
mod plain;
mod pool_file;
mod readers;
mod restore;
mod reuse;
mod savepoints;
mod snapshots;
#[path = "../directions/mod.rs"]
mod sources;
