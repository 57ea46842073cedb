//! Deferred Commit: Fig. 6, Tables 1 and 2, and claims D1 to D14.

mod trace;

pub use trace::{Recording, Traced, trace};
