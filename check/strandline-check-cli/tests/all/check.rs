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

/// Runs the command, expects this exit code, and returns the output.
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
    // Published answers concern the setting `line`; `same_line` has none.
    let row = |name: &str, setting: &str, states: u64, ask: &str, verdict: &str| {
        let mut asked = json!({"ask": ask, "verdict": verdict});
        if (name, setting) == ("commit1", "line") {
            asked["published"] = verdict.into();
        }
        json!({"schema": 1, "name": name, "setting": setting, "states": states, "asks": [asked]})
    };
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
fn shipped_tests_have_names_and_published_answers() {
    let (out, _) = ends(&["litmus", "nt_mp", "amd5", "--sources"], 0);
    assert!(out.contains("Intel SDM") && out.contains("TPHOLs"), "{out}");
    assert_eq!((out.matches("allowed").count(), out.matches("forbidden").count()), (2, 2), "{out}");
    let folder = tempfile::tempdir().unwrap();
    let text = "name: wrong\nsource: nobody\nline A: x\nthread:\nstore x 1\nfinal: x=0\nanswer: allowed\n";
    let file = write(folder.path(), "wrong.litmus", text);
    let (out, _) = ends(&["litmus", &file, "--json"], 1);
    let rows: Value = serde_json::from_str(&out).unwrap();
    let answer = json!([{"ask": "x=0", "verdict": "forbidden", "published": "allowed"}]);
    assert_eq!(rows[0]["finals"], answer);
    let (_, err) = ends(&["litmus", "no_such_test"], 2);
    assert!(err.contains("no shipped test has this name"), "{err}");
    ends(&["litmus", "--shipped", "nt_mp"], 2);
}

/// However short the run, it shows nothing forbidden: mfence orders store buffering on every x86-64 processor.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_run_shows_nothing_that_is_forbidden() {
    let arguments =
        ["litmus", "run", "amd5", &shipped("commit1"), "--repetitions", "2000", "--seconds", "20"];
    let (out, err) = ends(&arguments, 0);
    assert_eq!(err, "");
    assert!(out.contains("0:r1=0 1:r1=0: forbidden, seen 0 times"), "{out}");
    assert!(out.contains("note: its questions about crashes are not judged"), "{out}");
    let (out, _) = ends(&["litmus", "run", "amd5", "--repetitions", "2000", "--json"], 0);
    let ran: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&ran[0]["name"], ran[0]["ends"].as_array().unwrap().len()), (&json!("amd5"), 3));
    assert!(ran[0]["ends"][0]["values"]["0:r1"].is_u64());
    ends(&["litmus", "run"], 2);
    ends(&["litmus", "run", "no_such_test"], 2);
}

#[test]
#[cfg(not(target_arch = "x86_64"))]
fn another_processor_cannot_run_litmus_tests() {
    let (_, err) = ends(&["litmus", "run", "amd5"], 3);
    assert!(err.contains("on an x86-64 processor only"), "{err}");
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
    // Neither --recover nor --check tells the command what is right.
    ends(&["program", "--recorder", &recorder, "--", "true"], 2);
    ends(&["program", "--check", "true"], 2);
}

/// Explores a recording of valgrind's tool pmemcheck. A check that accepts every state yields no finding, and one that accepts no state yields one.
#[test]
fn a_recorded_program_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = write(folder.path(), "recorder.so", "");
    let log =
        "START|REGISTER_FILE;/tmp/pool;0x1000;0x1000;0x0|STORE;0x1000;0x1;0x8|FLUSH;0x1000;0x40|FENCE|STOP\n";
    let log = write(folder.path(), "log", log);
    let pool = folder.path().join("pool");
    std::fs::write(&pool, [0; 4096]).unwrap();
    let flags =
        ["program", "--recording", &log, "--pool", pool.to_str().unwrap(), "--recorder", &recorder, "--json"];
    for (check, code, is_found) in [("true", 0, false), ("false", 1, true)] {
        let (out, err) = ends(&[&flags[..], &["--check", check]].concat(), code);
        assert_eq!(err, "");
        let found: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(found["schema"], 1, "{out}");
        assert_eq!((&found["operations"], found["verdict"].is_string()), (&json!(3), true), "{out}");
        assert_eq!(found["finding"]["replay"].is_string(), is_found, "{out}");
    }
}

#[test]
fn numbers_outside_a_range_are_refused_with_the_range() {
    for (before, flag, wrong, range) in [
        (&["litmus", "run", "amd5"][..], "--repetitions", &["0", "x"][..], "from 1 to 1000000000000"),
        (&["litmus", "run", "amd5"], "--seconds", &["0", "86401"], "from 0.01 to 86400"),
        (&["program", "--check", "true"], "--recovery-crashes", &["11", "-1"], "from 0 to 10"),
        (&["program", "--check", "true"], "--states", &["0", "1000000001"], "from 1 to 1000000000"),
        (&["program", "--check", "true"], "--limit", &["0"], "from 0.01 to 86400"),
        (&["program", "--check", "true"], "--time-limit", &["0.001"], "from 0.01 to 86400"),
    ] {
        for value in wrong {
            let (_, told) = ends(&[before, &[&format!("{flag}={value}")]].concat(), 2);
            assert!(told.contains(range), "{flag} {value}: {told}");
        }
    }
}
