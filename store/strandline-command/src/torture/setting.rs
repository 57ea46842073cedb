//! The flags that parent and child share.

use strandline_core::Domain;
use strandline_core::file::Options;
use strandline_core::layout::Geometry;

use crate::arguments::{DomainName, number};

/// The layout name of torture's pools.
const LAYOUT_NAME: &str = "strandline torture";

/// The flags that parent and child share.
#[derive(Clone, Debug, clap::Args)]
pub struct Setting {
    /// The persistence domain
    #[arg(long, value_enum, default_value = "process")]
    pub domain: DomainName,
    /// Threads that run transactions, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number(1..=64u64))]
    pub threads: u64,
    /// The seed of operations and kills
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Setting {
    /// Returns the options that create and open the pool. Its logs are small, so that they restart many times in a life, and its stripe locks are
    /// few, so that transactions on unrelated lines conflict too.
    pub fn options(&self) -> Options {
        Options {
            geometry: Geometry {
                size: 16 << 20,
                logs: self.threads + 1,
                log_bytes: 32 << 10,
                chunk_bytes: 64 << 10,
            },
            layout_name: LAYOUT_NAME.into(),
            domain: self.domain.domain(0),
            // Nothing has to survive a power failure, because a killed process keeps its caches.
            assume_persistent: self.domain.domain(0) != Domain::Sync,
            lock_bits: 12,
            ..Options::default()
        }
    }
}
