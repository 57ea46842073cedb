//! Checks of Strandline's own schemes: recovers and judges every state that a power failure can leave.
//!
//! [`explore`] runs software schemes on x86, in an [`X86World`](strandline_check::x86::X86World). [`persist_order`] runs them under persistency
//! models, and [`machine`] beside the hardware of simulated machines. [`device`] runs the store's protocol on disks that fail.
//! `docs/crash-checking.md` describes what is explored and what is not. [`strandline_check`], which checks other programs too, provides the memory,
//! the schedules, the search, and the [`Session`] that ends explorations.

pub mod device;
pub mod explore;
pub mod machine;
pub mod persist_order;

pub use strandline_check::Session;
