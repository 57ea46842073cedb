//! Persist memory order: which persists must not overtake which, how long the longest chain of them is, and
//! what a crash may leave behind.
//!
//! After Kolli, Pelley, Saidi, Chen and Wenisch, *High-Performance Transactions for Persistent Memories*
//! (ASPLOS 2016), sections 2 to 4; `docs/papers/deferred-commit.md` says where each part is.
//!
//! Two relations order the accesses of an execution. *Volatile memory order* is what the consistency model
//! prescribes, here total store order. *Persist memory order* is what a [`Model`] makes of it, with the
//! barriers that a program issues: if it orders two stores to persistent memory, the first one persists no
//! later than the second.
//!
//! Two formulations stand beside each other, and tests compare them:
//!
//! * [`CriticalPath`] goes through an execution once and keeps, for each address and each thread, the highest
//!   level that they are ordered after. It needs memory for the addresses touched, not for the execution.
//! * [`PersistGraph`] holds the order itself, pair by pair from the paper's equations, for short executions.
//!   Its down-closed sets, the [`Cuts`], are the states that a crash may leave.
//!
//! [`ideal`] is the order that transactions need at least (section 3), [`throughput`] the paper's estimate of
//! transactions per second from a critical path (section 7.1).

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
