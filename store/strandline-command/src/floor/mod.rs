//! Floors: how fast the machine makes data durable if it does nothing else. `bench` shows them beside its measurements.

mod disk;
mod memory;

pub use disk::Floor;
pub use memory::MemoryFloor;
