//! One test program, so that the checker is linked once.

use std::time::Duration;

mod beside_large;
mod campaigns;
mod deferred;
mod device;
mod explore;
mod free_memory;
mod histories;
mod large;
mod machine;
mod optimistic;
mod persist_order;
mod registry;
mod snapshots;
mod stale_records;
mod wrap;

/// A limit that ends only explorations that hang: the given numbers end all others, however slow the machine is.
const HANG: Duration = Duration::from_secs(1800);
