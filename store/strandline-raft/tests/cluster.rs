//! Runs the example: three nodes, one of which is killed and starts again.
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
}

use node::{Exchange, Range, Status};
use store::Answer;
use support::cluster::{Cluster, client, eventually, node_if_told};

/// The child processes run this.
#[test]
#[ignore = "what the test's child processes run"]
fn node() {
    node_if_told();
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_go_on_without_one_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start(folder.path(), 300).await;
    let (client, members) = (client(), cluster.members.clone());
    // A node that is neither killed nor paused answers, or names the leader.
    let put = async |at: u64, key: &str, value: &str| {
        let url = format!("http://{}/texts/{key}", members[&at]);
        let answer = client.put(url).body(value.to_owned()).send().await.ok()?;
        answer.status().is_success().then_some(())
    };
    let get = async |at: u64, key: &str| -> Option<Option<String>> {
        let answer = client.get(format!("http://{}/texts/{key}", members[&at])).send().await.ok()?;
        answer.error_for_status().ok()?.json().await.ok()
    };
    let status = async |at: u64| -> Option<Status> {
        client.get(format!("http://{}/status", members[&at])).send().await.ok()?.json().await.ok()
    };
    eventually("a leader", async || put(1, "colour", "blue").await).await;
    for id in 1..=3 {
        assert_eq!(eventually("an answer", async || get(id, "colour").await).await.as_deref(), Some("blue"));
    }
    let exchange = async |expected: Option<&str>, value: &str| -> Option<Answer> {
        let exchange = Exchange { expected: expected.map(Into::into), value: value.into() };
        let url = format!("http://{}/texts/colour", members[&1]);
        client.patch(url).json(&exchange).send().await.ok()?.json().await.ok()
    };
    let refused = eventually("an answer", async || exchange(Some("red"), "green").await).await;
    assert!(!refused.stored && refused.previous.as_deref() == Some("blue"), "{refused:?}");
    let done = eventually("an answer", async || exchange(Some("blue"), "green").await).await;
    assert!(done.stored, "{done:?}");

    // The leader is killed. The others continue until a snapshot is taken and the log is purged.
    let leader = eventually("a leader", async || status(1).await?.leader).await;
    cluster.kill(leader);
    let other = leader % 3 + 1;
    for number in 0..1000 {
        let key = format!("number {number:04}");
        eventually("a leader", async || put(other, &key, "there").await).await;
    }
    eventually("a purge", async || status(other).await?.purged.filter(|purged| *purged > 500)).await;

    // The node comes back, gets the snapshot, and can replace one of the others.
    cluster.restart(leader);
    let applied = eventually("an answer", async || status(other).await?.applied).await;
    eventually("a follower that has caught up", async || {
        status(leader).await?.applied.filter(|caught_up| *caught_up >= applied)
    })
    .await;
    cluster.kill(other);
    eventually("a leader", async || put(leader, "colour", "red").await).await;
    let bounds = Range { from: "number 0500".into(), to: "number 0600".into() };
    let rows: Vec<(String, String)> = eventually("an answer", async || {
        let url = format!("http://{}/texts", members[&leader]);
        client.get(url).query(&bounds).send().await.ok()?.json().await.ok()
    })
    .await;
    assert_eq!(rows.len(), 100, "{rows:?}");
}
