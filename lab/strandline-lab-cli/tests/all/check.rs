//! `strandline-lab check`, as a user runs it.

use std::process::{Command, Output};

use serde_json::{Value, json};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strandline-lab")).arg("check").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs the command, expects this exit code, and returns the output.
#[track_caller]
fn ends(arguments: &[&str], code: i32) -> (String, String) {
    let output = check(arguments);
    let (out, err) = (text(&output.stdout), super::without_progress(&text(&output.stderr)));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

#[test]
fn the_device_world() {
    let (out, err) = ends(&["--world", "device", "--samples", "3", "--json"], 0);
    assert_eq!(err, "");
    let report: Value = serde_json::from_str(&out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((&row["world"], &row["violation"]), (&json!("device"), &Value::Null));
        assert_eq!(row["counts"]["lives"], 36);
    }
}

#[test]
fn a_violation_on_the_device_is_a_finding_and_can_be_replayed() {
    let (out, _) =
        ends(&["--world", "device", "--scheme", "bppm", "--omit", "SyncLogFlush", "--samples", "50"], 1);
    assert!(out.contains("VIOLATION: ") && out.contains("power returns"), "{out}");
    let replay = out.lines().find_map(|line| line.strip_prefix("replay: strandline-lab check ")).unwrap();
    let (again, _) = ends(&replay.split(' ').collect::<Vec<_>>(), 1);
    let violation = |out: &str| out.lines().find(|line| line.starts_with("VIOLATION: ")).map(str::to_owned);
    assert_eq!(violation(&again), violation(&out));
}

/// A row appears as soon as its case is done, even if the output is not a terminal.
#[test]
fn rows_come_as_they_are_found() {
    use std::io::{BufRead, BufReader, Read};
    let flags = ["--world", "device", "--scheme", "bppm,bppm+single-writer", "--samples", "100000000"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_strandline-lab"))
        .arg("check")
        .args(flags)
        .args(["--seconds", "2"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    let (header, first) = (line(), line());
    // The other case takes two seconds.
    let is_running = child.try_wait().unwrap().is_none();
    assert!(header.starts_with("scheme") && header.contains("states/s"), "{header}");
    assert!(first.starts_with("bppm ") && first.contains("ok") && is_running, "{first}");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("bppm+single-writer") && rest.contains("states judged on the device"), "{rest}");
    assert!(child.wait().unwrap().success());
    // Columns are aligned.
    let column = |line: &str, text: &str| line.find(text).unwrap();
    assert_eq!(column(&header, "verdict"), column(&first, "ok"), "{header}{first}");
}

#[test]
fn the_persist_order_world() {
    let scheme = ["--scheme", "dct-epoch", "--samples", "3", "--json"];
    let (out, err) = ends(&[&["--world", "persist-order"], &scheme[..]].concat(), 0);
    assert_eq!(err, "");
    let report: Value = serde_json::from_str(&out).unwrap();
    let row = &report["rows"][0];
    assert_eq!((&row["world"], &row["verdict"]), (&json!("persist-order"), &json!("sufficient")));
}

#[test]
fn worlds_and_steps_that_do_not_exist() {
    let (_, err) = ends(&["--world", "moon"], 2);
    for world in ["x86", "persist-order", "device"] {
        assert!(err.contains(world), "{err}");
    }
    let (_, err) = ends(&["--world", "persist-order", "--setting", "line"], 2);
    assert!(err.contains("leave it out"), "{err}");
    let (_, err) = ends(&["--world", "device", "--omit", "CommitFence"], 2);
    assert!(err.contains("SyncLogFlush"), "{err}");
    let (_, err) = ends(&["--world", "device", "--setting", "line"], 2);
    assert!(err.contains("leave it out"), "{err}");
}

/// The command that a violation prints reproduces it: for sampled histories, and for exhaustive ones with power failures in recovery.
#[test]
fn a_violation_of_a_scheme_is_replayed_by_its_command() {
    let sampled = ["--omit", "BulkDataFenceLate", "--setting", "word", "--samples", "300"];
    let exhaustive =
        ["--omit", "RecoveryZeroEarly", "--setting", "line", "--exhaustive", "--preemptions", "0"];
    for flags in [&sampled[..], &exhaustive] {
        let mut arguments = vec!["--scheme", "bppm", "--workload", "sps", "--threads", "2"];
        arguments.extend(flags);
        let (first, _) = ends(&arguments, 1);
        let told = |text: &str| {
            let from = text.find("VIOLATION").unwrap();
            text[from..text.find("\nreplay: ").unwrap()].to_owned()
        };
        let command =
            first.lines().find_map(|line| line.strip_prefix("replay: strandline-lab check ")).unwrap();
        let again: Vec<&str> = command.split_whitespace().collect();
        let (second, _) = ends(&again, 1);
        assert_eq!(told(&first), told(&second));
        // Stores name their source line in the library.
        assert!(told(&first).contains("missing in effect: "));
        assert!(told(&first).contains("store/strandline-core/src/"), "{first}");
    }
}
