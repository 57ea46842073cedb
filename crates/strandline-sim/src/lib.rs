//! The simulated machine: processors, caches, network, controllers and memory in simulated time, on which
//! Strandline's schemes and workloads run unchanged.

pub mod description;

pub use description::Description;
