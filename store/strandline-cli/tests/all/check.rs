//! `strandline check litmus` and the device world, as a user runs them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strandline")).arg("check").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The output of a run that ends with this exit code.
#[track_caller]
fn ends(arguments: &[&str], code: i32) -> (String, String) {
    let output = check(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

fn shipped(name: &str) -> String {
    format!("{}/../../check/strandline-check/litmus/{name}.litmus", env!("CARGO_MANIFEST_DIR"))
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn litmus_files_as_json() {
    let (out, err) =
        ends(&["litmus", &shipped("commit1"), &shipped("same_line"), "--setting", "line,word", "--json"], 0);
    assert_eq!(err, "");
    let row = |name: &str, setting: &str, states: u64, ask: &str, verdict: &str| json!({"schema": 1, "name": name, "setting": setting, "states": states, "asks": [{"ask": ask, "verdict": verdict}]});
    let expected = json!([
        row("commit1", "line", 3, "commit=1 data=0", "forbidden"),
        row("commit1", "word", 3, "commit=1 data=0", "forbidden"),
        row("same_line", "line", 3, "x'=1 x=0", "forbidden"),
        row("same_line", "word", 4, "x'=1 x=0", "allowed"),
    ]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), expected);
}

#[test]
fn litmus_files_as_a_table() {
    let (out, _) = ends(&["litmus", &shipped("commit_weak")], 0);
    for setting in ["line", "word", "flush-on-fail"] {
        assert!(out.contains(setting), "{out}");
    }
    assert_eq!(out.matches("commit=1 data=0").count(), 3, "{out}");
    assert_eq!((out.matches("allowed").count(), out.matches("forbidden").count()), (2, 1), "{out}");
}

#[test]
fn line_ends_tabs_and_order_of_statements() {
    let folder = tempfile::tempdir().unwrap();
    let file = "# of another system\r\n\r\nname:\tmine\r\nline A: x\ty # one line\r\nline B:z unused\r\n\r\nthread:\r\n\t\
                store x 7\r\n\tstore-nt z 7\r\n\tsfence\r\n\tstore y 7\r\nask: y=7 z=0\r\nask: x=0 y=7\r\n";
    let file = write(folder.path(), "crlf.litmus", file);
    let (out, _) = ends(&["litmus", &file, "--json"], 0);
    let rows: Value = serde_json::from_str(&out).unwrap();
    let verdicts = |row: &Value| {
        let asks = row["asks"].as_array().unwrap();
        asks.iter().map(|ask| ask["verdict"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rows[0]["states"], 5);
    assert_eq!(verdicts(&rows[0]), ["forbidden", "forbidden"]);
    assert_eq!(rows[1]["states"], 6);
    assert_eq!(verdicts(&rows[1]), ["forbidden", "allowed"]);
}

#[test]
fn malformed_and_missing_files_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "bad.litmus", "name: bad\nline A: x\nthread:\n  stor x 1\nask: x=1\n");
    let (out, err) = ends(&["litmus", &shipped("commit1"), &file], 2);
    assert_eq!(out, "");
    assert!(err.contains("bad.litmus: line 4: expected one of the operations store, store-nt"), "{err}");
    assert!(err.contains("`stor`"), "{err}");
    let (_, err) = ends(&["litmus", "/no/such/file"], 2);
    assert!(err.contains("cannot read /no/such/file"), "{err}");
    ends(&["litmus"], 2);
    ends(&["litmus", &shipped("commit1"), "--setting", "lines"], 2);
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
    let replay = out.lines().find_map(|line| line.strip_prefix("replay: strandline check ")).unwrap();
    let (again, _) = ends(&replay.split(' ').collect::<Vec<_>>(), 1);
    let violation = |out: &str| out.lines().find(|line| line.starts_with("VIOLATION: ")).map(str::to_owned);
    assert_eq!(violation(&again), violation(&out));
}

/// Whoever watches sees a row when its case is done, off a terminal too.
#[test]
fn rows_come_as_they_are_found() {
    use std::io::{BufRead, BufReader, Read};
    let flags = ["--world", "device", "--scheme", "bppm,bppm+single-writer", "--samples", "100000000"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_strandline"))
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
    // Columns stand below one another.
    let column = |line: &str, text: &str| line.find(text).unwrap();
    assert_eq!(column(&header, "verdict"), column(&first, "ok"), "{header}{first}");
}

#[test]
fn the_persist_order_world() {
    let scheme = ["--scheme", "dct-epoch", "--samples", "20", "--json"];
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

/// The command that a violation prints shows the same violation again: sampled, and exhaustive with power failing
/// in recovery.
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
        let command = first.lines().find_map(|line| line.strip_prefix("replay: strandline check ")).unwrap();
        let again: Vec<&str> = command.split_whitespace().collect();
        let (second, _) = ends(&again, 1);
        assert_eq!(told(&first), told(&second));
        // Stores carry their source line in the library.
        assert!(told(&first).contains("missing in effect: "));
        assert!(told(&first).contains("store/strandline-core/src/"), "{first}");
    }
}

#[test]
fn a_program_that_cannot_be_recorded_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = write(folder.path(), "recorder.so", "");
    let recorded = |check: &str, recorder: &str, program: &str| {
        ends(&["program", "--check", check, "--recorder", recorder, "--", program, "{pool}"], 2).1
    };
    let err = recorded("true", &recorder, "true");
    assert!(
        err.contains("true has recorded nothing: it must be linked dynamically and map the pool"),
        "{err}"
    );
    let err = recorded("true", &recorder, "/no/such/program");
    assert!(err.contains("cannot run /no/such/program: "), "{err}");
    let err = recorded("true", "/no/such/library", "true");
    assert!(err.contains("cannot read /no/such/library: "), "{err}");
    let err = recorded("true", &recorder, "false");
    assert!(err.contains("false ends with exit code 1"), "{err}");
    // Nothing says what is right.
    ends(&["program", "--recorder", &recorder, "--", "true"], 2);
    ends(&["program", "--check", "true"], 2);
}
