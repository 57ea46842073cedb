//! Storage for [openraft] in a Strandline database: the log, vote and state machine of any number of Raft groups, which share the database's flushes.
//!
//! [`open`] returns the two parts that `openraft::Raft::new` needs. An [`Application`] defines the state machine: it opens the tables, and applies
//! each command in a transaction.
//!
//! - An append is reported to openraft when it is durable. Appends of several groups that wait at the same time share one flush. While no other group
//!   of the database is open, the flush takes place in openraft's task: the runtime needs more than one worker.
//! - openraft waits for each append of a group before it begins the next one. [`Proposals`] combines the commands that are proposed meanwhile in one
//!   entry.
//! - A vote is durable when `save_vote` returns. A node that led before a restart has to be elected again: its state may be behind what it
//!   acknowledged, and only an entry of a new term shows it what is committed.
//! - Commands are applied without waiting for the disk: the transaction that applies them also stores the last applied log id. After a crash the
//!   state machine may be behind, but never in the middle of a command, and openraft applies the rest of the log again. The log is never purged
//!   beyond what is applied, because transactions become durable in the order in which they commit. Purged entries become invisible immediately, and
//!   a thread removes them later.
//! - A snapshot is a file beside the database, written while transactions run. Installing one builds new tables beside those in use and exchanges
//!   them in one transaction.

mod application;
mod group;
mod log;
mod machine;
mod proposals;
mod snapshot;

pub use application::{Application, Opener};
pub use log::{LogReader, LogStore};
pub use machine::{SnapshotBuilder, State, StateMachine, open};
pub use proposals::Proposals;
pub use snapshot::SnapshotData;
