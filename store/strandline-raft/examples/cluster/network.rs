//! The network between the nodes: one HTTP request for each request of Raft's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, SnapshotMeta, Vote};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::store::Types;

/// Creates connections.
pub struct Network {
    pub client: reqwest::Client,
    /// Other addresses for nodes that are not reached at their own.
    pub routes: Arc<BTreeMap<u64, String>>,
}

/// A connection to one node.
pub struct Connection {
    client: reqwest::Client,
    target: u64,
    url: String,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        let address = self.routes.get(&target).unwrap_or(&node.addr);
        Connection { client: self.client.clone(), target, url: format!("http://{address}/raft") }
    }
}

type Failure<E = RaftError<u64>> = RPCError<u64, BasicNode, E>;

impl Connection {
    async fn send<T, E>(&self, what: &str, body: Vec<u8>, option: &RPCOption) -> Result<T, Failure<E>>
    where
        T: DeserializeOwned,
        E: DeserializeOwned + std::error::Error,
    {
        let request = self.client.post(format!("{}/{what}", self.url)).timeout(option.hard_ttl()).body(body);
        let response = request.send().await.map_err(|error| {
            // openraft would repeat the request immediately if the error did not say that the node is unreachable.
            if error.is_timeout() { failed(error) } else { Unreachable::new(&error).into() }
        })?;
        let answer: Result<T, E> = response.json().await.map_err(failed)?;
        answer.map_err(|error| RPCError::RemoteError(RemoteError::new(self.target, error)))
    }
}

fn failed<E: std::error::Error>(error: reqwest::Error) -> Failure<E> {
    RPCError::Network(NetworkError::new(&error))
}

fn json(request: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(request).expect("it can be written to memory")
}

/// The header of a part of a snapshot. The part's bytes follow it unchanged.
#[derive(Serialize, Deserialize)]
struct Part {
    vote: Vote<u64>,
    meta: SnapshotMeta<u64, BasicNode>,
    offset: u64,
    done: bool,
}

fn encode(request: InstallSnapshotRequest<Types>) -> Vec<u8> {
    let InstallSnapshotRequest { vote, meta, offset, data, done } = request;
    let part = json(&Part { vote, meta, offset, done });
    let length = part.len() as u64;
    [&length.to_le_bytes()[..], &part, &data].concat()
}

/// Decodes a part of a snapshot from a request's body. Returns `None` if the body is not valid.
pub fn decode(body: &[u8]) -> Option<InstallSnapshotRequest<Types>> {
    let (length, rest) = body.split_first_chunk()?;
    let (part, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let Part { vote, meta, offset, done } = serde_json::from_slice(part).ok()?;
    Some(InstallSnapshotRequest { vote, meta, offset, data: data.to_vec(), done })
}

impl RaftNetwork<Types> for Connection {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failure> {
        self.send("append", json(&request), &option).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failure<RaftError<u64, InstallSnapshotError>>> {
        self.send("snapshot", encode(request), &option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, Failure> {
        self.send("vote", json(&request), &option).await
    }

    /// Returns the pauses before an unreachable node is tried again. They are so short that a node that is back hears from its leader before it
    /// starts an election.
    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_millis(100)))
    }
}
