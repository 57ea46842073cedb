//! A node: its storage, its Raft, and the HTTP server through which clients and the other nodes reach it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use openraft::error::{CheckIsLeaderError, RaftError};
use openraft::{BasicNode, Config, SnapshotPolicy};
use serde::{Deserialize, Serialize};
use strandline::{Database, Options};

use super::network::{Network, decode};
use super::store::{Command, Texts, Types};

/// The settings of a node.
pub struct Settings {
    pub id: u64,
    /// The folder for its files.
    pub folder: PathBuf,
    /// The address of each node, including its own. Only the first start can choose them; later starts must give the same ones.
    pub members: BTreeMap<u64, String>,
    /// Other addresses at which it reaches the other nodes.
    pub routes: BTreeMap<u64, String>,
    /// The number of commands between two snapshots. The log before the last snapshot is purged, except for a few entries.
    pub snapshot_every: u64,
}

type Raft = openraft::Raft<Types>;
type Texted = strandline_raft::State<Types, Texts>;

#[derive(Clone)]
struct Node {
    raft: Raft,
    state: Texted,
}

/// A request to store `value` if the present value is `expected`.
#[derive(Serialize, Deserialize)]
pub struct Exchange {
    pub expected: Option<String>,
    pub value: String,
}

/// The keys from one on, up to but not including another.
#[derive(Serialize, Deserialize)]
pub struct Range {
    pub from: String,
    pub to: String,
}

/// The state that a node reports.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    pub id: u64,
    pub leader: Option<u64>,
    pub term: u64,
    pub applied: Option<u64>,
    pub purged: Option<u64>,
}

/// Runs a node until its storage fails.
///
/// # Errors
/// Returns the reason for which it stopped.
pub async fn run(settings: Settings) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    std::fs::create_dir_all(&settings.folder)?;
    let db = Database::open_with(settings.folder.join("node.db"), &Options::default())?;
    let (log, machine) = strandline_raft::open(db, 1, Texts)?;
    let state = machine.state();
    let config = Config {
        heartbeat_interval: 100,
        election_timeout_min: 300,
        election_timeout_max: 600,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.snapshot_every),
        max_in_snapshot_log_to_keep: settings.snapshot_every / 10,
        // The answer to a part comes when it is stored, and that to the last part when the whole snapshot is installed. A leader that gave up earlier
        // would send the snapshot again and again.
        install_snapshot_timeout: 300_000,
        ..Config::default()
    };
    let network = Network { client: reqwest::Client::new(), routes: Arc::new(settings.routes) };
    let raft = Raft::new(settings.id, Arc::new(config.validate()?), network, log, machine).await?;
    if !raft.is_initialized().await? {
        let members = settings.members.iter().map(|(id, address)| (*id, BasicNode::new(address)));
        // All nodes start with the same members. An error means that another node has initialized the cluster already.
        let _ = raft.initialize(members.collect::<BTreeMap<_, _>>()).await;
    }
    let listen = settings.members.get(&settings.id).ok_or("this node is not among the members")?;
    let listener = tokio::net::TcpListener::bind(listen).await?;
    let router = router().with_state(Node { raft: raft.clone(), state });
    tokio::select! {
        served = async { axum::serve(listener, router).await } => Ok(served?),
        stopped = stopped(&raft) => Err(stopped.into()),
    }
}

/// Waits until Raft stops, and returns the reason.
async fn stopped(raft: &Raft) -> String {
    let mut metrics = raft.metrics();
    loop {
        if let Err(error) = &metrics.borrow_and_update().running_state {
            return error.to_string();
        }
        if metrics.changed().await.is_err() {
            return "Raft has ended".into();
        }
    }
}

fn router() -> Router<Node> {
    Router::new()
        .route("/texts", get(range))
        .route("/texts/{key}", get(read).put(put).patch(compare_and_set))
        .route("/status", get(status))
        .route(
            "/raft/append",
            post(async |State(node): State<Node>, Json(request)| {
                Json(node.raft.append_entries(request).await)
            }),
        )
        .route(
            "/raft/vote",
            post(async |State(node): State<Node>, Json(request)| Json(node.raft.vote(request).await)),
        )
        .route("/raft/snapshot", post(install))
        // Requests from Raft limit their own size. A content-type header from the client would only be more to send.
        .layer(axum::middleware::map_request(as_json))
        .layer(DefaultBodyLimit::disable())
}

async fn as_json(mut request: axum::extract::Request) -> axum::extract::Request {
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    request
}

async fn install(State(node): State<Node>, body: Bytes) -> Response {
    match decode(&body) {
        Some(part) => Json(node.raft.install_snapshot(part).await).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// Redirects a client to the leader, if it is known.
fn elsewhere(leader: Option<&BasicNode>, uri: &Uri) -> Response {
    match leader {
        Some(leader) => {
            let location = format!("http://{}{uri}", leader.addr);
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "there is no leader now; try again").into_response(),
    }
}

/// Returns the answer if it is unknown whether the command was executed.
fn unknown(error: impl std::fmt::Display) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

async fn write(node: &Node, uri: &Uri, command: Command) -> Response {
    let metrics = node.raft.metrics().borrow().clone();
    if metrics.current_leader != Some(metrics.id) {
        let leader = metrics.current_leader;
        return elsewhere(
            leader.and_then(|leader| metrics.membership_config.membership().get_node(&leader)),
            uri,
        );
    }
    match node.raft.client_write(command).await {
        Ok(written) => Json(written.data).into_response(),
        // The command may have been proposed here, and another node may still commit it. If the client sent it to another node, it could be executed
        // twice.
        Err(error) => unknown(error),
    }
}

async fn put(State(node): State<Node>, Path(key): Path<String>, uri: Uri, value: String) -> Response {
    write(&node, &uri, Command::Put { key, value }).await
}

async fn compare_and_set(
    State(node): State<Node>,
    Path(key): Path<String>,
    uri: Uri,
    Json(Exchange { expected, value }): Json<Exchange>,
) -> Response {
    write(&node, &uri, Command::CompareAndSet { key, expected, value }).await
}

/// Reads a state that includes everything that was acknowledged before the request.
async fn linearizable<T: Serialize>(
    node: &Node,
    uri: &Uri,
    read: impl FnOnce(&Texted) -> strandline::Result<T>,
) -> Response {
    match node.raft.ensure_linearizable().await {
        Ok(_) => match read(&node.state) {
            Ok(found) => Json(found).into_response(),
            Err(error) => unknown(error),
        },
        Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(leader))) => {
            elsewhere(leader.leader_node.as_ref(), uri)
        }
        Err(error) => unknown(error),
    }
}

async fn read(State(node): State<Node>, Path(key): Path<String>, uri: Uri) -> Response {
    linearizable(&node, &uri, |state| state.read(|view, texts| texts.get(view, &key))).await
}

async fn range(State(node): State<Node>, Query(Range { from, to }): Query<Range>, uri: Uri) -> Response {
    linearizable(&node, &uri, |state| {
        state.read(|view, texts| {
            let bounds = (Bound::Included(from.as_str()), Bound::Excluded(to.as_str()));
            texts.range::<str, _>(view, bounds)?.collect::<strandline::Result<Vec<_>>>()
        })
    })
    .await
}

async fn status(State(node): State<Node>) -> Json<Status> {
    let metrics = node.raft.metrics().borrow().clone();
    Json(Status {
        id: metrics.id,
        leader: metrics.current_leader,
        term: metrics.current_term,
        applied: metrics.last_applied.map(|last| last.index),
        purged: metrics.purged.map(|purged| purged.index),
    })
}
