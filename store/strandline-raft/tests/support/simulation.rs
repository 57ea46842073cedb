//! Nodes on simulated time: their network, their disks, and the state that a crash leaves.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::executor::block_on;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage, RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Config, Entry, LogId, OptionalSend, RaftLogReader, RaftSnapshotBuilder, SnapshotMeta,
    SnapshotPolicy, StorageError, StoredMembership, Vote,
};
use strandline::{Database, Geometry, Options, SyncParameters, Table};
use strandline_raft::{LogReader, LogStore, SnapshotBuilder, SnapshotData, State, StateMachine};
use tokio::time::sleep;

use crate::store::{Answer, Texts, Types};

/// The suffixes of the names of a node's files.
const ENDS: [&str; 3] = ["", ".log", ".raft-1.snapshot"];

pub type Raft = openraft::Raft<Types>;
type Outcome<T> = Result<T, StorageError<u64>>;

/// A log whose disk takes simulated time. Only tasks that wait flush it.
struct SimulatedLog {
    log: LogStore<Types>,
    db: Database,
    flushed: Table<u64, u64>,
    network: Arc<Network>,
    id: u64,
}

impl SimulatedLog {
    /// Waits, without simulated time passing, until everything that has committed is durable.
    fn flush(&self) {
        self.db.write(|tx| self.flushed.insert(tx, &0, &0).map(drop)).expect("the disk works");
    }
}

impl RaftLogReader<Types> for SimulatedLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<Entry<Types>>> {
        self.log.try_get_log_entries(range).await
    }
}

impl RaftLogStorage<Types> for SimulatedLog {
    type LogReader = LogReader<Types>;

    async fn get_log_state(&mut self) -> Outcome<LogState<Types>> {
        self.log.get_log_state().await
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.log.get_log_reader().await
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Outcome<()> {
        self.network.disk(self.id).await;
        // Real threads flush it, and no simulated time must pass meanwhile.
        block_on(self.log.save_vote(vote))
    }

    async fn read_vote(&mut self) -> Outcome<Option<Vote<u64>>> {
        self.log.read_vote().await
    }

    async fn save_committed(&mut self, committed: Option<LogId<u64>>) -> Outcome<()> {
        self.log.save_committed(committed).await
    }

    async fn read_committed(&mut self) -> Outcome<Option<LogId<u64>>> {
        self.log.read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Outcome<()>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        self.network.disk(self.id).await;
        self.log.append(entries, callback).await?;
        self.flush();
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<u64>) -> Outcome<()> {
        self.log.truncate(log_id).await
    }

    async fn purge(&mut self, log_id: LogId<u64>) -> Outcome<()> {
        self.log.purge(log_id).await
    }
}

/// A state machine whose snapshots take no simulated time.
struct SimulatedMachine(StateMachine<Types, Texts>);

struct SimulatedBuilder(SnapshotBuilder<Types, Texts>);

impl RaftSnapshotBuilder<Types> for SimulatedBuilder {
    async fn build_snapshot(&mut self) -> Outcome<Snapshot<Types>> {
        block_on(self.0.build_snapshot())
    }
}

impl RaftStateMachine<Types> for SimulatedMachine {
    type SnapshotBuilder = SimulatedBuilder;

    async fn applied_state(&mut self) -> Outcome<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>)> {
        self.0.applied_state().await
    }

    async fn apply<I>(&mut self, entries: I) -> Outcome<Vec<Answer>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        self.0.apply(entries).await
    }

    async fn get_snapshot_builder(&mut self) -> SimulatedBuilder {
        SimulatedBuilder(self.0.get_snapshot_builder().await)
    }

    async fn begin_receiving_snapshot(&mut self) -> Outcome<Box<SnapshotData>> {
        self.0.begin_receiving_snapshot().await
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<SnapshotData>,
    ) -> Outcome<()> {
        block_on(self.0.install_snapshot(meta, snapshot))
    }

    async fn get_current_snapshot(&mut self) -> Outcome<Option<Snapshot<Types>>> {
        self.0.get_current_snapshot().await
    }
}

/// The nodes, and the network's effects on messages.
struct Network {
    nodes: Mutex<BTreeMap<u64, Raft>>,
    cut: Mutex<BTreeMap<u64, bool>>,
    /// The number of each node's life, which is the number of its crashes. Messages of an earlier life are not delivered.
    lives: Mutex<BTreeMap<u64, u64>>,
    /// The percentage of messages that are lost.
    lost: Mutex<u64>,
    random: Mutex<fastrand::Rng>,
}

impl Network {
    fn below(&self, bound: u64) -> u64 {
        self.random.lock().unwrap().u64(..bound)
    }

    fn life(&self, id: u64) -> u64 {
        self.lives.lock().unwrap().get(&id).copied().unwrap_or(0)
    }

    fn is_cut(&self, id: u64) -> bool {
        self.cut.lock().unwrap().get(&id).copied().unwrap_or(false)
    }

    /// Sends a message, and returns whether it arrives.
    async fn travel(&self, from: u64, to: u64) -> bool {
        let takes = match self.below(20) {
            0 => self.below(300_000),
            _ => self.below(8_000),
        };
        sleep(Duration::from_micros(takes)).await;
        let lost = *self.lost.lock().unwrap();
        !self.is_cut(from) && !self.is_cut(to) && self.below(100) >= lost
    }

    /// Waits for the time that the disk takes.
    async fn disk(&self, _: u64) {
        let takes = match self.below(30) {
            0 => self.below(100_000),
            _ => self.below(2_000),
        };
        sleep(Duration::from_micros(takes)).await;
    }
}

#[derive(Clone)]
struct Links {
    network: Arc<Network>,
    from: u64,
    life: u64,
}

struct Link {
    network: Arc<Network>,
    from: u64,
    life: u64,
    to: u64,
}

impl RaftNetworkFactory<Types> for Links {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _: &BasicNode) -> Link {
        Link { network: self.network.clone(), from: self.from, life: self.life, to: target }
    }
}

type Failure<E = RaftError<u64>> = RPCError<u64, BasicNode, E>;

impl Link {
    async fn call<T, E>(&self, answer: impl AsyncFnOnce(Raft) -> Result<T, E>) -> Result<T, Failure<E>>
    where
        E: std::error::Error,
    {
        let lost = || RPCError::Network(NetworkError::new(&std::io::Error::other("it got lost")));
        let is_alive = |id, life| self.network.life(id) == life;
        if !is_alive(self.from, self.life)
            || !self.network.travel(self.from, self.to).await
            || !is_alive(self.from, self.life)
        {
            return Err(lost());
        }
        let life = self.network.life(self.to);
        let raft = self.network.nodes.lock().unwrap().get(&self.to).cloned();
        let Some(raft) = raft else {
            return Err(RPCError::Unreachable(Unreachable::new(&std::io::Error::other("nobody is there"))));
        };
        let answered = answer(raft).await;
        // The effects of a message after a crash are not in the node's files.
        if !is_alive(self.to, life) || !self.network.travel(self.to, self.from).await {
            return Err(lost());
        }
        answered.map_err(|error| RPCError::RemoteError(RemoteError::new(self.to, error)))
    }
}

impl RaftNetwork<Types> for Link {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, Failure> {
        self.call(async |raft| raft.append_entries(request).await).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, Failure<RaftError<u64, InstallSnapshotError>>> {
        self.call(async |raft| raft.install_snapshot(request).await).await
    }

    async fn vote(&mut self, request: VoteRequest<u64>, _: RPCOption) -> Result<VoteResponse<u64>, Failure> {
        self.call(async |raft| raft.vote(request).await).await
    }
}

/// The parts of a node in one of its lives.
struct Life {
    state: State<Types, Texts>,
    path: PathBuf,
}

pub struct World {
    folder: PathBuf,
    network: Arc<Network>,
    lives: Mutex<BTreeMap<u64, Life>>,
    /// The nodes of lives that have ended.
    ended: Mutex<Vec<Raft>>,
}

impl World {
    pub fn new(folder: &Path, seed: u64) -> Rc<Self> {
        let network = Network {
            nodes: Mutex::default(),
            cut: Mutex::default(),
            lives: Mutex::default(),
            lost: Mutex::new(0),
            random: Mutex::new(fastrand::Rng::with_seed(!seed)),
        };
        Rc::new(Self {
            folder: folder.to_owned(),
            network: Arc::new(network),
            lives: Mutex::default(),
            ended: Mutex::default(),
        })
    }

    fn path(&self, id: u64, life: u64) -> PathBuf {
        self.folder.join(format!("{id}-{life}.db"))
    }

    /// Starts a node that does not run.
    pub async fn start(&self, id: u64) {
        if self.raft(id).is_some() {
            return;
        }
        let life = self.life(id);
        let path = self.path(id, life);
        let options = Options {
            // Only tasks that wait flush, so that a crash loses much.
            flush_interval: Duration::from_secs(3600),
            lock_bits: 12,
            geometry: Geometry { size: 4 << 20, logs: 8, log_bytes: 1 << 16, chunk_bytes: 1 << 14 },
            sync: SyncParameters { initial_ring_blocks: 64, ..SyncParameters::default() },
            ..Options::default()
        };
        let db = Database::open_with(&path, &options).expect("the database opens");
        let flushed = db.table("flushed").expect("the table opens");
        let (log, machine) = strandline_raft::open(db.clone(), 1, Texts).expect("the group opens");
        let state = machine.state();
        let config = Config {
            heartbeat_interval: 50,
            election_timeout_min: 150,
            election_timeout_max: 300,
            snapshot_policy: SnapshotPolicy::LogsSinceLast(20),
            max_in_snapshot_log_to_keep: 3,
            replication_lag_threshold: 10,
            ..Config::default()
        };
        let log = SimulatedLog { log, db, flushed, network: self.network.clone(), id };
        let links = Links { network: self.network.clone(), from: id, life };
        let config = Arc::new(config.validate().expect("it is valid"));
        let raft = Raft::new(id, config, links, log, SimulatedMachine(machine)).await.expect("Raft starts");
        self.lives.lock().unwrap().insert(id, Life { state, path });
        self.network.nodes.lock().unwrap().insert(id, raft);
    }

    /// Makes the nodes a cluster.
    pub async fn initialize(&self) {
        let members: BTreeMap<u64, BasicNode> = (1..=3).map(|id| (id, BasicNode::default())).collect();
        self.raft(1).expect("it runs").initialize(members).await.expect("it is new");
    }

    pub fn raft(&self, id: u64) -> Option<Raft> {
        self.network.nodes.lock().unwrap().get(&id).cloned()
    }

    /// Returns the number of a node's life.
    pub fn life(&self, id: u64) -> u64 {
        self.network.life(id)
    }

    pub fn state(&self, id: u64) -> Option<State<Types, Texts>> {
        self.lives.lock().unwrap().get(&id).map(|life| life.state.clone())
    }

    /// Ends a node's process immediately. Its next life finds the files as they are now: with everything that was flushed, and nothing that was only
    /// committed.
    pub fn crash(&self, id: u64) {
        let Some(raft) = self.network.nodes.lock().unwrap().remove(&id) else { return };
        let Some(life) = self.lives.lock().unwrap().remove(&id) else { return };
        let number = {
            let mut counts = self.network.lives.lock().unwrap();
            let number = counts.entry(id).or_default();
            *number += 1;
            *number
        };
        let next = self.path(id, number);
        let named = |path: &Path, end: &str| PathBuf::from(format!("{}{end}", path.display()));
        let read = || ENDS.map(|end| std::fs::read(named(&life.path, end)).ok());
        // A thread may be making a checkpoint. A copy with a part of it in one file and not in the other is not a state that a crash leaves. So the
        // files are copied when nothing changes.
        let mut files = read();
        loop {
            let again = read();
            if again == files {
                break;
            }
            files = again;
        }
        for (end, contents) in ENDS.iter().zip(files) {
            if let Some(contents) = contents {
                std::fs::write(named(&next, end), contents).expect("there is space");
            }
        }
        // Messages of the old life are not delivered from now on.
        self.ended.lock().unwrap().push(raft.clone());
        tokio::task::spawn_local(async move {
            let _ = raft.shutdown().await;
        });
    }

    pub fn cut(&self, id: u64, cut: bool) {
        self.network.cut.lock().unwrap().insert(id, cut);
    }

    /// Makes this percentage of messages get lost.
    pub fn lose(&self, percent: u64) {
        *self.network.lost.lock().unwrap() = percent;
    }

    pub fn crashes(&self) -> u64 {
        self.network.lives.lock().unwrap().values().sum()
    }

    pub async fn end(&self) {
        (1..=3).for_each(|id| self.crash(id));
        let ended = std::mem::take(&mut *self.ended.lock().unwrap());
        for raft in ended {
            let _ = raft.shutdown().await;
        }
    }
}
