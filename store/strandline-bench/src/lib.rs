//! Measures transactions: the driver that `strandline bench` and the laboratory share, and the workloads of `strandline bench`.

mod client;
mod driver;
mod pools;
mod row;
mod workloads;

pub use client::{Client, Product};
pub use driver::{Aside, Length, Open, Run, measure, seed_of};
pub use pools::{NewPool, PoolSetting};
pub use row::{Latency, Row, ThreadResult};
pub use workloads::{PreparedStore, STORE_WORKLOADS, Sizes, StoreControl, StoreWorkload};
