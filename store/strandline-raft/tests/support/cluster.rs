//! Three nodes as processes, with proxies between them, and faults of all kinds.
//!
//! The processes run this test's own program, which calls [`node_if_told`] first. So they have the disk that can fail.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::disk;
use crate::node::{Settings, run};

/// The environment variable with a child's settings: its number, its folder, the addresses of all nodes, the addresses of the proxies to all, and the
/// number of commands between snapshots.
const CHILD: &str = "STRANDLINE_RAFT_NODE";

/// If this process was started as a node, runs the node and never returns.
pub fn node_if_told() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (id, folder, members, routes, snapshot_every) =
        serde_json::from_str(&told).expect("the parent says it");
    // Reads commands for the disk.
    std::thread::spawn(|| {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.split_once(' ') {
                Some(("delay", by)) => disk::delay(Duration::from_millis(by.parse().expect("a number"))),
                Some(("fail", after)) => disk::fail_after(Some(after.parse().expect("a number"))),
                _ => {}
            }
        }
        // The parent is gone.
        std::process::exit(0);
    });
    let settings = Settings { id, folder, members, routes, snapshot_every };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(run(settings));
    eprintln!("node {id}: {ended:?}");
    std::process::exit(1);
}

/// The cluster. The nodes are killed when it is dropped.
pub struct Cluster {
    folder: PathBuf,
    /// The addresses of the nodes, for clients.
    pub members: BTreeMap<u64, String>,
    /// The proxies, by the nodes at their ends: from one, to another.
    links: BTreeMap<(u64, u64), Link>,
    nodes: BTreeMap<u64, Child>,
    snapshot_every: u64,
}

/// A proxy between two nodes.
struct Link {
    address: String,
    open: watch::Sender<bool>,
}

impl Link {
    async fn new(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let (open, state) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let (state, target) = (state.clone(), target.clone());
                tokio::spawn(async move {
                    let Ok(to) = TcpStream::connect(target).await else { return };
                    let (from, to) = (from.into_split(), to.into_split());
                    tokio::select! {
                        () = forward(from.0, to.1, state.clone()) => {}
                        () = forward(to.0, from.1, state) => {}
                    }
                });
            }
        });
        Self { address, open }
    }
}

/// Forwards bytes while the link is open. Bytes that arrive while it is closed wait, and are forwarded late.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

impl Cluster {
    /// Starts three nodes, each of which builds a snapshot after this number of commands.
    pub async fn start(folder: &Path, snapshot_every: u64) -> Self {
        let mut members = BTreeMap::new();
        for id in 1..=3 {
            // The port is free now. It is still free a moment later, unless another process takes it very quickly.
            let free = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
            members.insert(id, free.local_addr().expect("it is bound").to_string());
        }
        let mut links = BTreeMap::new();
        for (from, to) in members.keys().flat_map(|from| members.keys().map(move |to| (*from, *to))) {
            if from != to {
                links.insert((from, to), Link::new(members[&to].clone()).await);
            }
        }
        let mut cluster =
            Self { folder: folder.to_owned(), members, links, nodes: BTreeMap::new(), snapshot_every };
        for id in 1..=3 {
            cluster.restart(id);
        }
        cluster
    }

    /// Starts a node again. The previous process must be gone first, since it has the database and the address.
    pub fn restart(&mut self, id: u64) {
        self.kill(id);
        let of_this = self.links.iter().filter(|((from, _), _)| *from == id);
        let routes: BTreeMap<u64, &str> =
            of_this.map(|((_, to), link)| (*to, link.address.as_str())).collect();
        let folder = self.folder.join(id.to_string());
        let told = serde_json::to_string(&(id, folder, &self.members, routes, self.snapshot_every))
            .expect("it can be written");
        let child = Command::new(std::env::current_exe().expect("this program has a name"))
            .args(["--exact", "node", "--nocapture", "--include-ignored"])
            .env(CHILD, told)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the node starts");
        self.nodes.insert(id, child);
    }

    /// Kills a node.
    pub fn kill(&mut self, id: u64) {
        if let Some(mut node) = self.nodes.remove(&id) {
            let _ = node.kill();
            let _ = node.wait();
        }
    }

    /// Returns whether a node runs.
    pub fn runs(&mut self, id: u64) -> bool {
        self.nodes.get_mut(&id).is_some_and(|node| matches!(node.try_wait(), Ok(None)))
    }

    /// Stops a node, or lets it continue.
    pub fn pause(&self, id: u64, paused: bool) {
        if let Some(node) = self.nodes.get(&id) {
            let signal = if paused { libc::SIGSTOP } else { libc::SIGCONT };
            // SAFETY: the call reads no memory. The process is a child for which nothing has waited yet, so that its number is not used again.
            unsafe { libc::kill(node.id().cast_signed(), signal) };
        }
    }

    /// Cuts a node off from the others, or connects it again. `out` and `into` select the directions.
    pub fn cut(&self, id: u64, cut: bool, out: bool, into: bool) {
        for ((from, to), link) in &self.links {
            if (out && *from == id) || (into && *to == id) {
                link.open.send_replace(!cut);
            }
        }
    }

    fn order(&mut self, id: u64, order: String) {
        if let Some(input) = self.nodes.get_mut(&id).and_then(|node| node.stdin.as_mut()) {
            // A node that has ended needs no command.
            let _ = writeln!(input, "{order}");
        }
    }

    /// Makes each flush of a node's disk take this many milliseconds longer.
    pub fn slow_disk(&mut self, id: u64, by: u64) {
        self.order(id, format!("delay {by}"));
    }

    /// Makes a node's disk fail after this number of further flushes, until the node is started again.
    pub fn failing_disk(&mut self, id: u64, after: u64) {
        self.order(id, format!("fail {after}"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for id in 1..=3 {
            self.kill(id);
        }
    }
}

/// Waits for a result, for as long as it may take.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} did not come to be in a minute");
}

/// Returns a client, which its users share.
pub fn client() -> Arc<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(Duration::from_secs(2));
    Arc::new(builder.build().expect("it needs nothing"))
}
