//! Caches: set-associative arrays, and the hierarchy that keeps them coherent.

mod array;
mod hierarchy;
mod port;
mod transfer;
mod versions;

pub use array::{CacheArray, DIRTY, EXCLUSIVE, Entry, Victim};
pub use hierarchy::{Access, Hierarchy};
pub use port::{MemoryPort, WayHome};
