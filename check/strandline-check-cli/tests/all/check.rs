//! `strandline-check litmus` and `program`, as a user runs them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strandline-check")).args(arguments).output().unwrap()
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
    format!("{}/../strandline-check/litmus/{name}.litmus", env!("CARGO_MANIFEST_DIR"))
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
