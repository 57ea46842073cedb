//! Storage for [openraft] in a Strandline database: log, vote and state machine of any number of Raft groups, which share
//! its flushes.
//!
//! [`open`] returns the two halves that `openraft::Raft::new` asks for. What the state machine does is an [`Application`]: it names its
//! tables, and applies a command in a transaction.
//!
//! - An append is reported to openraft when it is durable. Appends of several groups that wait at the same time share one flush.
//!   While no other group of the database is open, the flush takes place in openraft's task: the runtime needs more than one worker.
//! - openraft waits for each append of a group before it begins the next one. [`Proposals`] makes one entry of what is proposed meanwhile.
//! - A vote is durable when `save_vote` returns. Whoever led before a restart has to be elected again: its state may be behind what it
//!   acknowledged, and only an entry of a new term tells it what is committed.
//! - Commands are applied without waiting for the disk: the transaction that applies them also stores the last applied log id. After a
//!   crash the state machine may be behind, never half way through a command, and openraft applies the rest of the log again. The log is
//!   never purged beyond what is applied, because transactions become durable in the order in which they commit. What is purged is not
//!   seen any more at once, and removed by a thread.
//! - A snapshot is a file beside the database, written while transactions run. Installing one builds new tables beside those in use and
//!   exchanges them in one transaction.

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
