//! One test program, so that the simulator is linked once.

mod atom;
mod cache_reference;
mod coherence;
mod counted;
mod directions;
mod energy;
mod explained;
mod hardware_log;
mod loose_ordering;
mod nvmain;
mod plain;
mod software;
mod support;
mod time_slices;
mod timing;
