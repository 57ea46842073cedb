//! The behaviour of a group that openraft's own tests do not cover.

mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine, Snapshot};
use openraft::{Entry, EntryPayload, RaftLogReader, RaftSnapshotBuilder, Vote};
use strandline::{Database, Error, Options, Serde};
use support::model::{entry, log_id};
use support::{Numbers, Put, Types, open};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

#[test]
fn a_group_is_open_once() {
    let db = Database::in_memory().unwrap();
    let first = strandline_raft::open::<Types, _>(db.clone(), 1, Numbers).unwrap();
    let second = strandline_raft::open::<Types, _>(db.clone(), 1, Numbers);
    assert!(matches!(second, Err(Error::Parameter(text)) if text.contains("group 1 is open")));
    let _another = strandline_raft::open::<Types, _>(db.clone(), 2, Numbers).unwrap();
    let elsewhere = Database::in_memory().unwrap();
    let _same_number = strandline_raft::open::<Types, _>(elsewhere, 1, Numbers).unwrap();
    drop(first);
    strandline_raft::open::<Types, _>(db, 1, Numbers).unwrap();
}

#[tokio::test]
async fn a_leader_is_none_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.db");
    let (mut log, machine) = open(&path);
    log.save_vote(&Vote::new_committed(3, 1)).await.unwrap();
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new_committed(3, 1)));
    drop((log, machine));
    let (mut log, _machine) = open(&path);
    // With a committed vote, the node could read a state that is behind what it acknowledged.
    assert_eq!(log.read_vote().await.unwrap(), Some(Vote::new(3, 1)));
}

fn put(index: u64, key: String) -> Entry<Types> {
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(Put { key, value: index }) }
}

#[tokio::test]
async fn a_message_takes_no_more_entries_than_it_needs_to_be_large() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, _machine) = open(&folder.path().join("node.db"));
    log.blocking_append((0..100).map(|index| put(index, "k".repeat(100_000)))).await.unwrap();
    for (start, end, expected) in [(0, 100, 0..11), (95, 100, 95..100), (99, 100, 99..100)] {
        let mut reader = log.get_log_reader().await;
        let sent = reader.limited_get_log_entries(start, end).await.unwrap();
        let indexes: Vec<u64> = sent.iter().map(|entry| entry.log_id.index).collect();
        assert_eq!(indexes, expected.collect::<Vec<_>>());
    }
    assert_eq!(log.try_get_log_entries(0..100).await.unwrap().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_wait_before_old_versions_end_a_snapshot() {
    const ROWS: u64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let options = Options { snapshot_bytes: 256 << 10, ..Options::default() };
    let db = Database::open_with(folder.path().join("node.db"), &options).unwrap();
    let (_log, mut machine) = strandline_raft::open(db.clone(), 1, Numbers).unwrap();
    // The keys are spread over the table.
    let spread = |index: u64| put(index, format!("{:016x}", index.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    machine.apply((0..ROWS).map(spread)).await.unwrap();
    let mut builder = machine.get_snapshot_builder().await;
    let built = tokio::spawn(async move { builder.build_snapshot().await.unwrap() });
    let mut next = ROWS;
    while !built.is_finished() {
        machine.apply([spread(next)]).await.unwrap();
        next += 1;
    }
    assert_eq!(db.snapshot_usage().unwrap().ended, 0, "{} commands have ended a snapshot", next - ROWS);
    assert!(built.await.unwrap().meta.last_log_id < Some(log_id(next - 1)), "nothing was applied meanwhile");
}

#[tokio::test]
async fn a_purge_gives_space_back_and_waits_for_nothing() {
    const ENTRIES: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.db");
    let (mut log, mut machine) = open(&path);
    log.blocking_append((0..ENTRIES).map(entry)).await.unwrap();
    machine.apply((0..ENTRIES).map(entry)).await.unwrap();
    let begun = Instant::now();
    for index in [ENTRIES / 2, ENTRIES - 2] {
        log.purge(log_id(index)).await.unwrap();
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, Some(log_id(index)));
        let left = log.try_get_log_entries(..).await.unwrap();
        assert_eq!(left.first().unwrap().log_id, log_id(index + 1));
    }
    println!("purged in {:?}", begun.elapsed());
    // Dropping the group stops the removal, and opening it continues.
    drop((log, machine));
    let (mut log, machine) = open(&path);
    assert_eq!(log.try_get_log_entries(..).await.unwrap().len(), 1);
    drop((log, machine));
    let db = Database::open(&path).unwrap();
    let stored = db.table::<u64, Serde<Entry<Types>>>("raft 1 log").unwrap();
    assert_eq!(db.read(|tx| stored.len(tx)).unwrap(), 1, "purged entries are still stored");
}

#[tokio::test]
async fn a_follower_goes_on_behind_a_snapshot_that_is_ahead_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut leader) = open(&folder.path().join("leader.db"));
    leader.apply((0..100).map(entry)).await.unwrap();
    let Snapshot { meta, mut snapshot } = leader.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let mut bytes = vec![];
    snapshot.rewind().await.unwrap();
    snapshot.read_to_end(&mut bytes).await.unwrap();

    let path = folder.path().join("follower.db");
    let (mut log, mut machine) = open(&path);
    log.blocking_append((0..10).map(entry)).await.unwrap();
    // openraft purges and appends without waiting for the installation.
    log.purge(log_id(99)).await.unwrap();
    assert_eq!(log.get_log_state().await.unwrap().last_log_id, Some(log_id(99)));
    let appended = tokio::spawn(async move {
        log.blocking_append([entry(100)]).await.unwrap();
        log
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!appended.is_finished(), "a crash would find a hole");
    let mut received = machine.begin_receiving_snapshot().await.unwrap();
    received.write_all(&bytes).await.unwrap();
    machine.install_snapshot(&meta, received).await.unwrap();
    drop((appended.await.unwrap(), machine));

    let (mut log, mut machine) = open(&path);
    let state = log.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (Some(log_id(99)), Some(log_id(100))));
    assert_eq!(machine.applied_state().await.unwrap().0, Some(log_id(99)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_of_one_moment_while_commands_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let (_log, mut machine) = open(&folder.path().join("node.db"));
    let state = machine.state();
    machine.apply((0..2000).map(entry)).await.unwrap();
    let mut next = 2000;
    let mut during = 0;
    for _ in 0..10 {
        let mut builder = machine.get_snapshot_builder().await;
        let built = tokio::spawn(async move { builder.build_snapshot().await.unwrap() });
        while !built.is_finished() {
            machine.apply([entry(next)]).await.unwrap();
            next += 1;
            during += 1;
        }
        let Snapshot { meta, snapshot } = built.await.unwrap();
        // When it is installed, the state is the one that its last command left.
        let last = meta.last_log_id.unwrap().index;
        machine.install_snapshot(&meta, snapshot).await.unwrap();
        let expected: BTreeMap<String, u64> =
            (0..=last).map(|index| (format!("key {}", index % 50), index)).collect();
        let found = state.read(|tx, numbers| numbers.iter(tx)?.collect::<strandline::Result<_>>()).unwrap();
        assert_eq!(expected, found, "the snapshot is not of command {last}");
        machine.apply((last + 1..next).map(entry)).await.unwrap();
    }
    assert!(during > 10, "nothing was applied meanwhile");
}
