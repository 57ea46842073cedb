//! The simulated machine: processors, caches, network, controllers and memory in simulated time, on which Strandline's schemes and workloads run
//! unchanged.
//!
//! `docs/simulator.md` describes what is modelled and what is not.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `calibration` | no | the example `instructions`, which counts the instructions of the workloads again; takes minutes to compile |

// The tests in this library have the machines of those beside it: what reads descriptions of machines takes long to compile.
#[cfg(test)]
extern crate self as strandline_sim;
#[cfg(test)]
#[allow(dead_code)]
#[path = "../tests/all/support.rs"]
mod support;

pub mod addresses;
pub mod cache;
pub mod controller;
pub mod core;
pub mod description;
mod energy;
pub mod file;
mod host;
pub mod instructions;
mod machine;
pub mod network;
pub mod numbers;
pub mod nvm;
mod registry;
pub mod run;
pub mod scheme;
pub mod statistics;
pub mod trace;

pub use description::Description;
pub use instructions::Instructions;
pub use machine::{Announced, Contents, Crash, Machine, Note, Noted, Tape, Taped};
pub use registry::Registry;
pub use statistics::Statistics;
