//! A small application: numbers by name.
#![allow(dead_code, reason = "no test uses all of it")]

#[cfg(target_os = "linux")]
pub mod disk;
pub mod model;

use std::path::Path;

use openraft::{Entry, LogId, TokioRuntime};
use serde::{Deserialize, Serialize};
use strandline::{Database, Table, Tx};
use strandline_raft::{Application, LogStore, Opener, SnapshotData, StateMachine};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Put {
    pub key: String,
    pub value: u64,
}

openraft::declare_raft_types!(
    pub Types:
        D = Put,
        R = Option<u64>,
        NodeId = u64,
        Node = openraft::BasicNode,
        Entry = Entry<Types>,
        SnapshotData = SnapshotData,
        AsyncRuntime = TokioRuntime,
);

pub struct Numbers;

impl Application<Types> for Numbers {
    type Tables = Table<String, u64>;

    fn open(&self, opener: &mut Opener<'_>) -> strandline::Result<Self::Tables> {
        opener.table("numbers")
    }

    fn apply(
        &self,
        tx: &Tx<'_>,
        numbers: &Self::Tables,
        _: &LogId<u64>,
        put: &Put,
    ) -> strandline::Result<Option<u64>> {
        numbers.insert(tx, &put.key, &put.value)
    }
}

pub type Log = LogStore<Types>;
pub type Machine = StateMachine<Types, Numbers>;

pub fn open(path: &Path) -> (Log, Machine) {
    let db = Database::open(path).expect("the database opens");
    strandline_raft::open(db, 1, Numbers).expect("the group opens")
}
