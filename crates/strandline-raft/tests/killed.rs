//! A process that is killed: what openraft was told is durable is there, and a purge or a truncation leaves no hole.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, RaftLogReader, RaftSnapshotBuilder, Vote};
use support::{Log, Machine, Put, Types, open};

const CHILD: &str = "STRANDLINE_RAFT_CHILD";

fn log_id(index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(1, 0), index)
}

/// Each index writes what can be computed from it alone.
fn put(index: u64) -> Put {
    Put { key: format!("key {}", index % 50), value: index }
}

fn entry(index: u64) -> Entry<Types> {
    Entry { log_id: log_id(index), payload: EntryPayload::Normal(put(index)) }
}

/// Works until it is killed, and says what is durable.
async fn work(mut log: Log, mut machine: Machine) {
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent listens");
    };
    let mut next = log.get_log_state().await.unwrap().last_log_id.map_or(0, |last| last.index + 1);
    let mut term = log.read_vote().await.unwrap().map_or(0, |vote| vote.leader_id.term);
    // What a crash took from the state machine, as openraft applies it again.
    let applied = machine.applied_state().await.unwrap().0.map_or(0, |last| last.index + 1);
    machine.apply(log.try_get_log_entries(applied..next).await.unwrap()).await.unwrap();
    loop {
        let count = 1 + fastrand::u64(..8);
        log.blocking_append((next..next + count).map(entry)).await.unwrap();
        say(format!("log {}", next + count - 1));
        machine.apply((next..next + count).map(entry)).await.unwrap();
        next += count;
        match fastrand::u32(..40) {
            0..5 => {
                term += 1;
                log.save_vote(&Vote::new(term, 0)).await.unwrap();
                say(format!("vote {term}"));
            }
            5 => {
                // Entries that no majority has, and that another leader has removed.
                log.blocking_append((next..next + 300).map(entry)).await.unwrap();
                log.truncate(log_id(next)).await.unwrap();
            }
            6 => {
                let snapshot = machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
                log.purge(snapshot.meta.last_log_id.unwrap()).await.unwrap();
            }
            7 => {
                machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
                let snapshot = machine.get_current_snapshot().await.unwrap().unwrap();
                machine.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
            }
            _ => {}
        }
    }
}

/// Everything that was said is there, and the rest agrees with itself.
async fn check(path: &Path, said: &BTreeMap<String, u64>) {
    let (mut log, mut machine) = open(path);
    let state = log.get_log_state().await.unwrap();
    let last = state.last_log_id.map(|last| last.index);
    let purged = state.last_purged_log_id.map(|purged| purged.index);
    assert!(last >= said.get("log").copied(), "the log ends at {last:?}, and {said:?} was reported");
    let term = log.read_vote().await.unwrap().map(|vote| vote.leader_id.term);
    assert!(term >= said.get("vote").copied(), "the vote is of {term:?}, and {said:?} was reported");

    let entries = log.try_get_log_entries(..).await.unwrap();
    let found: Vec<u64> = entries.iter().map(|entry| entry.log_id.index).collect();
    let expected: Vec<u64> =
        (purged.map_or(0, |purged| purged + 1)..last.map_or(0, |last| last + 1)).collect();
    assert_eq!(found, expected, "the log has a hole");

    let applied = machine.applied_state().await.unwrap().0.map(|applied| applied.index);
    assert!(applied >= purged, "{purged:?} is purged, and {applied:?} applied");
    let mut model = BTreeMap::new();
    for Put { key, value } in (0..applied.map_or(0, |applied| applied + 1)).map(put) {
        model.insert(key, value);
    }
    let stored = machine.state().read(|tx, numbers| numbers.iter(tx)?.collect()).unwrap();
    assert_eq!(model, stored, "the state is not what {applied:?} commands make");
    if let Some(purged) = purged {
        let snapshot = machine.get_current_snapshot().await.unwrap().expect("a snapshot of what is purged");
        assert!(snapshot.meta.last_log_id.map(|last| last.index) >= Some(purged));
    }
}

#[test]
fn what_was_reported_as_durable_survives_a_kill() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        let (log, machine) = open(Path::new(&path));
        return runtime.block_on(work(log, machine));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.db");
    let mut reported = BTreeMap::new();
    for round in 0..30 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_was_reported_as_durable_survives_a_kill", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut said = BTreeMap::new();
            for line in out.lines().map_while(Result::ok) {
                if let Some((what, number)) = line.split_once(' ')
                    && let ("log" | "vote", Ok(number)) = (what, number.parse())
                {
                    said.insert(what.to_owned(), number);
                }
            }
            said
        });
        std::thread::sleep(Duration::from_millis(100 + 11 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        reported.extend(reader.join().unwrap());
        runtime.block_on(check(&path, &reported));
    }
    assert!(reported["log"] > 100 && reported["vote"] > 0, "too little was tried: {reported:?}");
}
