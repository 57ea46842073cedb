//! One test program, so that the simulator is linked once.

mod atom;
mod cache_reference;
mod coherence;
mod counted;
mod directions;
mod energy;
mod explained;
mod file;
mod hardware_log;
mod instructions;
mod loose_ordering;
mod numbers;
mod nvmain;
mod operations;
mod plain;
mod registry;
mod software;
mod support;
mod time_slices;
mod timing;
mod trace;
mod wrap;
