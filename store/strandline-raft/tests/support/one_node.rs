//! A group of one node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{InstallSnapshotError, RPCError, RaftError};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Config, Entry, LogId, TokioRuntime};
use serde::{Deserialize, Serialize};
use strandline::{Database, Table, Tx};
use strandline_raft::{Application, Opener, SnapshotData};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Put {
    pub key: String,
    pub value: String,
}

openraft::declare_raft_types!(
    pub Types:
        D = Vec<Put>,
        R = Vec<Option<String>>,
        NodeId = u64,
        Node = BasicNode,
        Entry = Entry<Types>,
        SnapshotData = SnapshotData,
        AsyncRuntime = TokioRuntime,
);

pub type Raft = openraft::Raft<Types>;

struct Texts;

impl Application<Types> for Texts {
    type Tables = Table<String, String>;

    fn open(&self, opener: &mut Opener<'_>) -> strandline::Result<Self::Tables> {
        opener.table("texts")
    }

    fn apply(
        &self,
        tx: &Tx<'_>,
        texts: &Self::Tables,
        _: &LogId<u64>,
        puts: &Vec<Put>,
    ) -> strandline::Result<Vec<Option<String>>> {
        puts.iter().map(|put| texts.insert(tx, &put.key, &put.value)).collect()
    }
}

/// A network without other nodes.
struct Nobody;

impl RaftNetworkFactory<Types> for Nobody {
    type Network = Self;

    async fn new_client(&mut self, _: u64, _: &BasicNode) -> Self {
        Self
    }
}

type Failure<E = RaftError<u64>> = RPCError<u64, BasicNode, E>;

impl RaftNetwork<Types> for Nobody {
    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failure> {
        unreachable!("there is no other node")
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failure<RaftError<u64, InstallSnapshotError>>> {
        unreachable!("there is no other node")
    }

    async fn vote(&mut self, _: VoteRequest<u64>, _: RPCOption) -> Result<VoteResponse<u64>, Failure> {
        unreachable!("there is no other node")
    }
}

/// Starts a group of one node. The node leads it when this returns.
pub async fn start_one_node(db: Database, group: u64) -> Raft {
    let (log, machine) = strandline_raft::open(db, group, Texts).expect("the group opens");
    let config = Arc::new(Config::default().validate().expect("the defaults are valid"));
    let raft = Raft::new(1, config, Nobody, log, machine).await.expect("Raft starts");
    raft.initialize(BTreeMap::from([(1, BasicNode::default())])).await.expect("the group is new");
    raft.wait(Some(Duration::from_secs(10))).current_leader(1, "it leads").await.expect("it is alone");
    raft
}
