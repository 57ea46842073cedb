//! Measures proposals to a group of one node. Each is acknowledged when its log entry is durable and it is applied.
//!
//! `cargo bench --bench proposals -- FOLDER [SECONDS]` measures on the disk of that folder, with 1, 8 and 64 proposals at a time: each as an entry of
//! its own; those that arrive together as one entry; and each in a group of its own, where groups share flushes.

#[path = "../tests/support/one_node.rs"]
mod one_node;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use one_node::{Put, Raft, Types, start_one_node};
use strandline::Database;
use strandline_raft::Proposals;

/// The numbers of concurrent proposals.
const WIDTHS: [usize; 3] = [1, 8, 64];

/// The way in which proposals become entries.
#[derive(Clone, Copy, Debug)]
enum Entries {
    Single,
    Shared,
}

async fn propose(
    raft: Raft,
    proposals: Proposals<Types, Put, Option<String>>,
    entries: Entries,
    number: usize,
    until: Instant,
) -> u64 {
    let mut count = 0;
    while Instant::now() < until {
        let put = Put { key: format!("key {number} {}", count % 1000), value: "v".repeat(100) };
        match entries {
            Entries::Single => drop(raft.client_write(vec![put]).await.expect("the node leads")),
            Entries::Shared => drop(proposals.propose(put).await.expect("the node leads")),
        }
        count += 1;
    }
    count
}

async fn measure(folder: &Path, seconds: f64, groups: usize, proposals: usize, entries: Entries) {
    let folder = tempfile::tempdir_in(folder).expect("the folder takes files");
    let db = Database::open(folder.path().join("node.db")).expect("the database opens");
    let mut rafts = vec![];
    for group in 0..groups {
        let raft = start_one_node(db.clone(), group as u64).await;
        rafts.push((raft.clone(), Proposals::new(raft)));
    }
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(seconds);
    let tasks: Vec<_> = (0..proposals)
        .map(|number| {
            let (raft, proposals) = rafts[number % groups].clone();
            tokio::spawn(propose(raft, proposals, entries, number, until))
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.expect("it does not panic");
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    println!("{groups:3} groups, {proposals:3} proposals at a time, {entries:?} entries: {rate:8.0}/s");
    for (raft, _) in rafts {
        raft.shutdown().await.expect("it ends");
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = arguments.next().map_or(3.0, |seconds| seconds.parse().expect("seconds are a number"));
    for proposals in WIDTHS {
        for entries in [Entries::Single, Entries::Shared] {
            measure(&folder, seconds, 1, proposals, entries).await;
        }
    }
    for groups in &WIDTHS[1..] {
        measure(&folder, seconds, *groups, *groups, Entries::Single).await;
    }
}
