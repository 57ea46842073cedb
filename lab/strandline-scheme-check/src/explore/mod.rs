//! Exploration of schemes: which states can a power failure leave, and does recovery repair each of them?
//!
//! A *life* of a pool runs in an [`X86World`](strandline_check::x86::X86World); recovery and the oracle run on all that a crash of it may
//! leave.

pub(crate) mod campaign;
pub(crate) mod judge;
pub(crate) mod life;
pub(crate) mod oracle;
pub(crate) mod scheme;
pub(crate) mod worker;
pub(crate) mod workload;

pub use campaign::{Bounds, Outcome, Sampling, exhaust, exhaust_histories, sample};

pub use life::Case;
pub use scheme::{CheckedScheme, schemes, schemes_of};
pub use strandline_check::x86::explorer::{Counts, Violation};
pub use workload::{Plan, Registered, Workload};
