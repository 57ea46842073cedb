//! A run of a node, and the state that must be there after a crash.

use std::collections::BTreeMap;
use std::path::Path;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine, Snapshot};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, RaftLogReader, RaftSnapshotBuilder, Vote};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use super::{Log, Machine, Put, Types, open};

pub fn log_id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1, 0), index)
}

/// Returns the command of an index, which depends only on the index.
fn put(index: u64) -> Put {
    Put { key: format!("key {}", index % 50), value: index }
}

pub fn entry(index: u64) -> Entry<Types> {
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(put(index)) }
}

/// A node that has applied everything up to this index.
struct Leader {
    machine: Machine,
    next: u64,
    _folder: tempfile::TempDir,
}

impl Leader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (_, machine) = open(&folder.path().join("leader.db"));
        Self { machine, next: 0, _folder: folder }
    }

    async fn snapshot(&mut self, up_to: u64) -> Snapshot<Types> {
        self.machine.apply((self.next..=up_to).map(entry)).await.unwrap();
        self.next = up_to + 1;
        self.machine.get_snapshot_builder().await.build_snapshot().await.unwrap()
    }
}

/// Runs this number of steps, and reports what is durable.
pub async fn work(mut log: Log, mut machine: Machine, steps: u64, mut say: impl FnMut(&'static str, u64)) {
    let mut leader = Leader::new();
    let mut next = log.get_log_state().await.unwrap().last_log_id.map_or(0, |last| last.index + 1);
    let mut term = log.read_vote().await.unwrap().map_or(0, |vote| vote.leader_id.term);
    // openraft applies again what a crash took from the state machine; so does this.
    let applied = machine.applied_state().await.unwrap().0.map_or(0, |last| last.index + 1);
    machine.apply(log.try_get_log_entries(applied..next).await.unwrap()).await.unwrap();
    let mut kinds = Vec::new();
    for _ in 0..steps {
        // All kinds of steps are equally frequent.
        if kinds.is_empty() {
            kinds.extend(0..40);
            fastrand::shuffle(&mut kinds);
        }
        let kind = kinds.pop().expect("there are some");
        let count = 1 + fastrand::u64(..8);
        log.blocking_append((next..next + count).map(entry)).await.unwrap();
        next += count;
        say("log", next - 1);
        log.save_committed(Some(log_id(next - 1))).await.unwrap();
        machine.apply((next - count..next).map(entry)).await.unwrap();
        match kind {
            0..5 => {
                term += 1;
                log.save_vote(&Vote::new(term, 0)).await.unwrap();
                say("vote", term);
            }
            5 => {
                // These entries have no majority, and another leader removes them.
                log.blocking_append((next..next + 300).map(entry)).await.unwrap();
                log.truncate(log_id(next)).await.unwrap();
            }
            6 => {
                let snapshot = machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
                let last = snapshot.meta.last_log_id.unwrap();
                say("snapshot", last.index);
                log.purge(last).await.unwrap();
            }
            7 => {
                machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
                let snapshot = machine.get_current_snapshot().await.unwrap().unwrap();
                machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
            }
            8 => {
                // A leader that is ahead sends this snapshot. openraft purges first.
                let Snapshot { meta, snapshot } = leader.snapshot(next + 20).await;
                let mut received = machine.begin_receiving_snapshot().await.unwrap();
                copy(snapshot, &mut received).await;
                log.purge(log_id(next + 20)).await.unwrap();
                machine.install_snapshot(&meta, received).await.unwrap();
                next += 21;
                say("log", next - 1);
                say("applied", next - 1);
                say("snapshot", next - 1);
            }
            _ => {}
        }
    }
}

async fn copy(mut from: Box<strandline_raft::SnapshotData>, to: &mut strandline_raft::SnapshotData) {
    let mut bytes = vec![];
    from.rewind().await.unwrap();
    from.read_to_end(&mut bytes).await.unwrap();
    to.write_all(&bytes).await.unwrap();
}

/// Checks that everything that was reported is there, and that the rest is consistent.
pub async fn check(path: &Path, said: &BTreeMap<&'static str, u64>) {
    let (mut log, mut machine) = open(path);
    let state = log.get_log_state().await.unwrap();
    let last = state.last_log_id.map(|last| last.index);
    let purged = state.last_purged_log_id.map(|purged| purged.index);
    assert!(last >= said.get("log").copied(), "the log ends at {last:?}, and {said:?} was reported");
    let term = log.read_vote().await.unwrap().map(|vote| vote.leader_id.term);
    assert!(term >= said.get("vote").copied(), "the vote is of {term:?}, and {said:?} was reported");
    let committed = log.read_committed().await.unwrap().map(|committed| committed.index);
    assert!(committed <= last, "{committed:?} is committed, and the log ends at {last:?}");

    let entries = log.try_get_log_entries(..).await.unwrap();
    let found: Vec<u64> = entries.iter().map(|entry| entry.log_id.index).collect();
    let expected: Vec<u64> =
        (purged.map_or(0, |purged| purged + 1)..last.map_or(0, |last| last + 1)).collect();
    assert_eq!(found, expected, "the log has a hole");

    let applied = machine.applied_state().await.unwrap().0.map(|applied| applied.index);
    assert!(applied >= purged, "{purged:?} is purged, and {applied:?} applied");
    assert!(applied >= said.get("applied").copied(), "{applied:?} is applied, and {said:?} was reported");
    let mut model = BTreeMap::new();
    for Put { key, value } in (0..applied.map_or(0, |applied| applied + 1)).map(put) {
        model.insert(key, value);
    }
    let stored = machine.state().read(|tx, numbers| numbers.iter(tx)?.collect()).unwrap();
    assert_eq!(model, stored, "the state is not what {applied:?} commands make");

    let mut snapshot = machine.get_current_snapshot().await.unwrap();
    if snapshot.is_none() && purged.is_some() {
        // openraft does this, too. An installation was interrupted after the state was there, and before the file was.
        snapshot = Some(machine.get_snapshot_builder().await.build_snapshot().await.unwrap());
    }
    let of = snapshot.as_ref().and_then(|snapshot| snapshot.meta.last_log_id).map(|last| last.index);
    assert!(of >= purged, "{purged:?} is purged, and the snapshot is of {of:?}");
    assert!(of >= said.get("snapshot").copied(), "the snapshot is of {of:?}, and {said:?} was reported");
    // The snapshot is complete: it can be installed.
    if let Some(Snapshot { meta, snapshot }) = snapshot
        && meta.last_log_id.map(|last| last.index) >= applied
    {
        machine.install_snapshot(&meta, snapshot).await.unwrap();
    }
}
