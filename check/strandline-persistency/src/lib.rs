//! Persist memory order: which persists must not overtake which, how long the longest chain of persists is, and which states a crash may leave.
//!
//! The crate follows Kolli, Pelley, Saidi, Chen and Wenisch, *High-Performance Transactions for Persistent Memories* (ASPLOS 2016), sections 2 to 4.
//! `docs/papers/deferred-commit.md` maps the paper's sections to the code.
//!
//! Two relations order the accesses of an execution. *Volatile memory order* is what the consistency model prescribes, here total store order.
//! *Persist memory order* is what a [`Model`] derives from it and from the barriers that a program issues: if it orders two stores to persistent
//! memory, the first one persists no later than the second.
//!
//! The crate computes persist memory order in two ways, and tests compare them:
//!
//! * [`CriticalPath`] goes through an execution once and keeps, for each address and each thread, the highest level that they are ordered after. Its
//!   memory grows with the addresses touched, not with the execution.
//! * [`PersistGraph`] holds the order itself, pair by pair from the paper's equations, for short executions. Its down-closed sets, the [`Cuts`], are
//!   the states that a crash may leave.
//!
//! [`ideal`] is the order that transactions need at least (section 3). [`throughput`] is the paper's estimate of transactions per second from a
//! critical path (section 7.1).

mod event;
mod graph;
pub mod ideal;
mod model;
mod pages;
mod path;
pub mod throughput;

pub use event::{Event, Place, events};
pub use graph::{Cuts, NodeSet, Persist, PersistGraph};
pub use model::Model;
pub use path::CriticalPath;
