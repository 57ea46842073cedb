//! `strandline-lab reproduce`: usage, and claims that need no measurement.

use std::path::Path;
use std::process::{Command, Output};

fn reproduce(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
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

/// One page over all papers, whose links lead to cards in their reports, and a scoreboard.
#[test]
fn all_papers_have_a_page_of_their_own_and_one_together() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let claims = ["B17", "L15", "D3", "A10", "W14"];
    let mut arguments = vec!["all", "--quick"];
    claims.iter().for_each(|id| arguments.extend(["--claim", id]));
    let output = reproduce(&arguments, &out);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    for id in claims {
        let link = page.split("href=\"").filter_map(|rest| rest.split('"').next());
        let link = link.into_iter().find(|link| link.ends_with(&format!("#{id}"))).unwrap();
        let (report, id) = link.split_once('#').unwrap();
        let report = std::fs::read_to_string(out.join(report)).unwrap();
        assert!(report.contains(&format!("id=\"{id}\"")), "{link}");
    }
    let scoreboard = std::fs::read_to_string(out.join("scoreboard.md")).unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&scoreboard));
    assert!(scoreboard.lines().last().unwrap().starts_with("| all | 5 |"), "{scoreboard}");
    let results = std::fs::read(out.join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&results).unwrap();
    assert_eq!(results["claims"].as_array().unwrap().len(), claims.len());
}

#[test]
fn wrong_usage_says_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, hint) in [
        (&["blured"][..], "blurred"),
        (&["blured"], "or `all` alone"),
        (&["blurred", "--claim", "B99"], "B99"),
        (&["blurred", "--machine", "abacus"], "opteron"),
    ] {
        let output = reproduce(arguments, folder.path());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(hint), "{error}");
    }
}
