//! Explores schemes: finds the states that a power failure can leave, and checks that recovery repairs each of them.
//!
//! A *life* of a pool runs in an [`X86World`](strandline_check::x86::X86World). Recovery and the oracle run on every state that a crash of it may
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
