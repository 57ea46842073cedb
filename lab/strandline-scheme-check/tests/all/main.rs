//! One program, so that the checker is linked once.

use std::time::Duration;

mod beside_large;
mod campaigns;
mod deferred;
mod explore;
mod free_memory;
mod histories;
mod large;
mod leavings;
mod machine;
mod optimistic;
mod persist_order;
mod registry;
mod snapshots;
mod wrap;

/// Explorations end by the numbers that they are given, whatever the machine; this ends one that hangs.
const HANG: Duration = Duration::from_secs(1800);
