//! Floors: how fast the machine makes data durable when nothing else is done. `bench` shows them beside transactions.

mod disk;
mod memory;

pub use disk::Floor;
pub use memory::MemoryFloor;
