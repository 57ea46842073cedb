//! A process is killed: everything that openraft was told is durable is there, and a purge or a truncation leaves no hole.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::model::{check, work};
use support::open;

const CHILD: &str = "STRANDLINE_RAFT_CHILD";
const KINDS: [&str; 4] = ["log", "vote", "applied", "snapshot"];

#[test]
fn what_was_reported_as_durable_survives_a_kill() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        let (log, machine) = open(Path::new(&path));
        return runtime.block_on(work(log, machine, u64::MAX, |what, number| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{what} {number}").and_then(|()| out.flush()).expect("the parent listens");
        }));
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
                    && let Some(what) = KINDS.into_iter().find(|kind| *kind == what)
                    && let Ok(number) = number.parse::<u64>()
                {
                    said.insert(what, number);
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
