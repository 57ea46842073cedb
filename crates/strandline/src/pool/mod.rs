//! Pools: what lies where, the file that holds it, opening and recovering it.

pub(crate) mod heap;
pub mod layout;

pub use heap::HeapUsage;
pub use layout::{Geometry, Layout, ROOTS, SharedLayout, View};
