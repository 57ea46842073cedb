//! `strandline reproduce`: usage, and claims that need no measurement.

use std::path::Path;
use std::process::{Command, Output};

fn reproduce(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
    command.arg("reproduce").args(arguments).arg("--out").arg(out).output().unwrap()
}

#[test]
fn claims_about_the_code_hold() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let output = reproduce(&["blurred", "--claim", "B17", "--claim", "B22", "--json"], &out);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = std::fs::read(out.join("results.json")).unwrap();
    assert_eq!(printed, serde_json::from_slice::<serde_json::Value>(&written).unwrap());
    let rows: Vec<_> =
        printed["claims"].as_array().unwrap().iter().map(|row| (&row["id"], &row["verdict"])).collect();
    assert_eq!(rows, [(&"B17".into(), &"holds".into()), (&"B22".into(), &"holds".into())]);
    assert!(std::fs::read_to_string(out.join("index.html")).unwrap().contains("Blurred Persistence"));
}

#[test]
fn wrong_usage_says_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, hint) in [
        (&["blured"][..], "blurred"),
        (&["blurred", "--claim", "B99"], "B99"),
        (&["blurred", "--machine", "abacus"], "opteron"),
    ] {
        let output = reproduce(arguments, folder.path());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(hint), "{error}");
    }
}
