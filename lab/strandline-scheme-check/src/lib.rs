//! Checks of Strandline's own schemes: every state that a power failure can leave, recovered and judged.
//!
//! [`explore`] runs software schemes on x86, in an [`X86World`](strandline_check::x86::X86World); [`persist_order`] runs them under
//! persistency models, [`machine`] beside the hardware of simulated machines, and [`device`] runs the store's protocol on disks that fail.
//! `docs/crash-checking.md` describes what is explored and what is not. The memory, the schedules and the search are those of
//! [`strandline_check`], which checks other programs too; a [`Session`] ends the explorations of this crate as well.

pub mod device;
pub mod explore;
pub mod machine;
pub mod persist_order;

pub use strandline_check::Session;
