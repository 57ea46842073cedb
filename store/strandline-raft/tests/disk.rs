//! Groups on a disk that is slow, and on one that fails.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use openraft::Vote;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use strandline::Database;
use support::model::{check, entry, log_id};
use support::{Numbers, Types, disk, open};

/// All tests of a process use the same disk.
static DISK: Mutex<()> = Mutex::new(());

#[test]
fn groups_share_flushes() {
    let _alone = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("node.db")).unwrap();
    let groups: Vec<_> = (0..16)
        .map(|number| strandline_raft::open::<Types, _>(db.clone(), number, Numbers).unwrap())
        .collect();
    disk::delay(Duration::from_millis(20));
    let before = disk::flushes();
    runtime.block_on(async {
        let appends: Vec<_> = groups
            .into_iter()
            .map(|(mut log, machine)| {
                tokio::spawn(async move {
                    for index in 0..5 {
                        log.blocking_append([entry(index)]).await.unwrap();
                    }
                    drop((log, machine));
                })
            })
            .collect();
        for append in appends {
            append.await.unwrap();
        }
    });
    let flushes = disk::flushes() - before;
    disk::delay(Duration::ZERO);
    // There are at least five flushes, since each group waits for one before the next.
    assert!((5..30).contains(&flushes), "{flushes} flushes for 80 appends");
}

#[test]
fn a_disk_that_fails_is_reported_from_then_on() {
    let _alone = DISK.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for fails_first in ["append", "vote"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.db");
        runtime.block_on(async {
            let (mut log, mut machine) = open(&path);
            log.save_vote(&Vote::new(1, 0)).await.unwrap();
            log.blocking_append((0..10).map(entry)).await.unwrap();
            machine.apply((0..5).map(entry)).await.unwrap();
            disk::fail_after(Some(0));
            if fails_first == "append" {
                log.blocking_append([entry(10)]).await.expect_err("the flush has failed");
            } else {
                log.save_vote(&Vote::new(2, 0)).await.expect_err("the flush has failed");
            }
            // The disk works again, but its content is unknown.
            disk::fail_after(None);
            for _ in 0..3 {
                log.blocking_append([entry(11)]).await.expect_err("the outcome is unknown");
                log.save_vote(&Vote::new(3, 0)).await.expect_err("the outcome is unknown");
                machine.apply((5..6).map(entry)).await.expect_err("the outcome is unknown");
            }
            drop((log, machine));
            check(&path, &BTreeMap::from([("log", 9), ("vote", 1)])).await;
            let (log, _machine) = open(&path);
            let last = { log }.get_log_state().await.unwrap().last_log_id;
            assert!([Some(log_id(9)), Some(log_id(10))].contains(&last), "{last:?} was never appended");
        });
    }
}
