//! What the `Sync` domain stands on.

/// Files of a pool, as the protocol sees them.
pub trait Device {}
