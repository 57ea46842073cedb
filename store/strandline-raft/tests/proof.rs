//! Checks for linearizability the histories of concurrent clients, while nodes are killed, stopped and cut off, and while disks are slow and fail.
//! Run it with `cargo test --test proof -- --ignored --nocapture` and `STRANDLINE_RAFT_HISTORIES=200`; it needs Go.
#![cfg(target_os = "linux")]
#![allow(dead_code, reason = "the example has more than one test uses")]

#[path = "../examples/cluster/network.rs"]
mod network;
#[path = "../examples/cluster/node.rs"]
mod node;
#[path = "../examples/cluster/store.rs"]
mod store;
mod support {
    #[path = "cluster.rs"]
    pub mod cluster;
    #[path = "disk.rs"]
    pub mod disk;
    #[path = "history.rs"]
    pub mod history;
}

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use node::{Exchange, Status};
use reqwest::{RequestBuilder, StatusCode};
use store::Answer;
use support::cluster::{Cluster, client, eventually, node_if_told};
use support::history::{self, Operation};

/// The largest number of operations of a history, and the numbers of its clients and keys.
const OPERATIONS: u64 = 1000;
const CLIENTS: u64 = 5;
const KEYS: u64 = 4;
/// The longest duration of a history.
const LASTS: Duration = Duration::from_secs(6);

/// The child processes run this.
#[test]
#[ignore = "what the test's child processes run"]
fn node() {
    node_if_told();
}

/// The outcome of a request.
enum Outcome<T> {
    Done(T),
    /// The operation was not executed, and will not be.
    Refused,
    Unknown,
}

async fn ask<T: serde::de::DeserializeOwned>(request: RequestBuilder) -> Outcome<T> {
    match request.send().await {
        Err(error) if error.is_connect() => Outcome::Refused,
        Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => Outcome::Refused,
        Ok(answer) if answer.status().is_success() => match answer.json().await {
            Ok(answer) => Outcome::Done(answer),
            Err(_) => Outcome::Unknown,
        },
        _ => Outcome::Unknown,
    }
}

/// One client, which runs its operations one after the other.
async fn work(
    number: u64,
    history: u64,
    members: Arc<BTreeMap<u64, String>>,
    left: Arc<AtomicU64>,
    begun: Instant,
) -> Vec<Operation> {
    let client = client();
    let now = || u64::try_from(begun.elapsed().as_micros()).expect("it does not take so long");
    let mut done = vec![];
    let mut seen = BTreeMap::new();
    let take = |left: u64| left.checked_sub(1);
    while begun.elapsed() < LASTS && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        let key = format!("{history}-{}", fastrand::u64(..KEYS));
        let value = format!("{number}-{}", done.len());
        let url = format!("http://{}/texts/{key}", members[&fastrand::u64(1..=3)]);
        let mut operation =
            Operation { client: number, key: key.clone(), value, call: now(), ..Operation::default() };
        let outcome: Outcome<Answer> = match fastrand::u32(..3) {
            0 => {
                operation.kind = "get";
                match ask(client.get(url)).await {
                    Outcome::Done(previous) => Outcome::Done(Answer { previous, stored: false }),
                    // A read without a result cannot be wrong.
                    _ => Outcome::Refused,
                }
            }
            1 => {
                operation.kind = "put";
                ask(client.put(url).body(operation.value.clone())).await
            }
            _ => {
                operation.kind = "compare";
                operation.expected = seen.get(&key).cloned().flatten();
                let (expected, value) = (operation.expected.clone(), operation.value.clone());
                ask(client.patch(url).json(&Exchange { expected, value })).await
            }
        };
        match outcome {
            Outcome::Done(Answer { previous, stored }) => {
                let now_there = if stored { Some(operation.value.clone()) } else { previous.clone() };
                seen.insert(key, now_there);
                (operation.previous, operation.stored, operation.returned) = (previous, stored, Some(now()));
                done.push(operation);
            }
            Outcome::Unknown => done.push(operation),
            Outcome::Refused => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    done
}

/// Causes one fault in the cluster, and ends it after a while.
async fn trouble(cluster: &mut Cluster) -> &'static str {
    let id = fastrand::u64(1..=3);
    let kind = fastrand::u32(..7);
    let what = match kind {
        0 => "killed",
        1 => "all killed",
        2 => "stopped",
        3 => "cut off",
        4 => "cut off in one direction",
        5 => "slow disk",
        _ => "failing disk",
    };
    let out = fastrand::bool();
    match kind {
        0 => cluster.kill(id),
        1 => (1..=3).for_each(|id| cluster.kill(id)),
        2 => cluster.pause(id, true),
        3 => cluster.cut(id, true, true, true),
        4 => cluster.cut(id, true, out, !out),
        5 => cluster.slow_disk(id, fastrand::u64(5..100)),
        _ => cluster.failing_disk(id, fastrand::u64(..20)),
    }
    tokio::time::sleep(Duration::from_millis(fastrand::u64(200..1200))).await;
    match kind {
        0 => cluster.restart(id),
        1 => (1..=3).for_each(|id| cluster.restart(id)),
        2 => cluster.pause(id, false),
        3 => cluster.cut(id, false, true, true),
        4 => cluster.cut(id, false, out, !out),
        5 => cluster.slow_disk(id, 0),
        _ => cluster.restart(id),
    }
    what
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a while, and needs Go"]
async fn histories_under_faults_are_linearizable() {
    let folder = tempfile::tempdir().unwrap().keep();
    println!("everything is in {}", folder.display());
    let checker = history::checker(&folder);
    let mut cluster = Cluster::start(&folder, 300).await;
    let members = Arc::new(cluster.members.clone());
    let mut troubles: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut operations, mut unknown) = (0, 0);
    let histories = history::wanted(3);
    for number in 0..histories {
        // Everything works, and there is a leader.
        let asks = client();
        eventually("a leader", async || {
            let url = format!("http://{}/texts/ready", members[&1]);
            asks.get(url).send().await.ok()?.status().is_success().then_some(())
        })
        .await;
        let (left, begun) = (Arc::new(AtomicU64::new(OPERATIONS)), Instant::now());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| tokio::spawn(work(client, number, members.clone(), left.clone(), begun)))
            .collect();
        while clients.iter().any(|client| !client.is_finished()) {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..150))).await;
            *troubles.entry(trouble(&mut cluster).await).or_default() += 1;
        }
        let mut done = vec![];
        for client in clients {
            done.extend(client.await.unwrap());
        }
        operations += done.len();
        unknown += done.iter().filter(|operation| operation.returned.is_none()).count();
        history::write(&folder.join(format!("{number}.jsonl")), &done);
        for id in 1..=3 {
            if !cluster.runs(id) {
                cluster.restart(id);
            }
        }
        if number % 10 == 9 {
            println!(
                "{} histories, {operations} operations, {unknown} of unknown outcome; {troubles:?}",
                number + 1
            );
        }
    }
    drop(cluster);
    println!("{histories} histories; {troubles:?}");
    history::check(&checker, &folder);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Writes small values with four clients until `done` returns true. Returns the number of writes per second.
async fn rate(members: &BTreeMap<u64, String>, at: u64, mut done: impl AsyncFnMut(Duration) -> bool) -> f64 {
    let (begun, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let (stop, url) = (stop.clone(), format!("http://{}/texts/small-{number}", members[&at]));
            tokio::spawn(async move {
                let (client, mut written) = (client(), 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.put(&url).body("small").send().await;
                    written += u64::from(answer.is_ok_and(|answer| answer.status().is_success()));
                }
                written
            })
        })
        .collect();
    while !done(begun.elapsed()).await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    for client in clients {
        written += client.await.unwrap();
    }
    written as f64 / begun.elapsed().as_secs_f64()
}

/// Sends `value` to all of `urls`, and repeats each request until it has succeeded.
async fn fill(client: Arc<reqwest::Client>, urls: Vec<String>, value: String) {
    for url in urls {
        let begun = Instant::now();
        let put = async || {
            client.put(&url).body(value.clone()).send().await.is_ok_and(|put| put.status().is_success())
        };
        while !put().await {
            assert!(begun.elapsed() < Duration::from_secs(60), "no node accepts a value for a minute");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a while"]
async fn a_follower_catches_up_by_snapshot_while_writes_go_on() {
    // The values are so small that 1 GB of them are many commands. So the small writes do not make the nodes build another snapshot meanwhile.
    const BYTES: u64 = 25_000;
    let values = std::env::var("STRANDLINE_RAFT_MEGABYTES")
        .map_or(20, |megabytes| megabytes.parse().unwrap())
        * 1_000_000
        / BYTES;
    let folder = tempfile::tempdir().unwrap();
    // One snapshot is taken, when almost all values are there.
    let mut cluster = Cluster::start(folder.path(), values * 95 / 100).await;
    let (asks, members) = (client(), cluster.members.clone());
    let status = async |at: u64| -> Option<Status> {
        asks.get(format!("http://{}/status", members[&at])).send().await.ok()?.json().await.ok()
    };
    let leader = eventually("a leader", async || status(1).await?.leader).await;
    let behind = leader % 3 + 1;
    cluster.kill(behind);
    let value = "v".repeat(BYTES as usize);
    let fill = |client: u64| {
        let of_this = (0..values).filter(move |number| number % CLIENTS == client);
        let urls = of_this.map(|number| format!("http://{}/texts/large-{number}", members[&leader]));
        tokio::spawn(fill(asks.clone(), urls.collect(), value.clone()))
    };
    for client in (0..CLIENTS).map(fill).collect::<Vec<_>>() {
        client.await.unwrap();
    }
    eventually("a purge", async || status(leader).await?.purged).await;
    let before = rate(&members, leader, async |elapsed| elapsed > Duration::from_secs(5)).await;
    cluster.restart(behind);
    let begun = Instant::now();
    let meanwhile = rate(&members, leader, async |elapsed| {
        assert!(elapsed < Duration::from_secs(600), "it does not catch up");
        let (Some(leads), Some(follows)) = (status(leader).await, status(behind).await) else { return false };
        follows.applied >= leads.applied.map(|applied| applied.saturating_sub(1000))
    })
    .await;
    println!(
        "{} MB: caught up in {:?}; {before:.0} writes per second before, {meanwhile:.0} meanwhile: {:.2}",
        values * BYTES / 1_000_000,
        begun.elapsed(),
        meanwhile / before
    );
    assert_eq!(
        eventually("a leader", async || status(leader).await?.leader).await,
        leader,
        "the leader has changed"
    );
}
