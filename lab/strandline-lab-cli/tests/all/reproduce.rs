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

/// There is one page over all papers, whose links lead to their reports, and a scoreboard.
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
    // These claims are constants and a closed form, so none of them counts as measured; all hold.
    assert_eq!(scoreboard.lines().last().unwrap(), "| all | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 5 | 5 | 0 |");
    assert!(String::from_utf8_lossy(&output.stdout).contains("holds (closed form)"));
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
        (
            &["loose-ordering", "--claim", "L15", "--interval", "nvm.write_ns=300"],
            "no claim that is asked for",
        ),
        (&["wrap", "--claim", "W1", "--interval", "nvm.wirte_ns=300"], "`write_ns`"),
        (&["compare", "--interval", "nvm.write_ns=300"], "no machine of its own"),
        (&["wrap", "--transactions", "5"], "deferred-commit"),
        (&["blurred", "--machine", "native", "--readings"], "leave --machine out"),
        (&["blurred", "--machine", "opteron", "--interval", "cores.count=2"], "leave --machine out"),
        (&["compare", "--readings"], "leave --readings out"),
        (&["compare", "--series", "table:q", "--set", "cores.count=2"], "no machine of its own"),
        (&["atom", "--series", "tpcc:tx/s", "--set", "cores.cuont=2"], "`count`"),
        (
            &["wrap", "--series", "fig8:speedup", "--from", "results.json", "--seed", "2"],
            "cannot be used with",
        ),
    ] {
        let output = reproduce(arguments, folder.path());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(hint), "{error}");
    }
}

/// A machine is refused for a paper that runs on its own machine, and the error says what to do instead.
#[test]
fn a_machine_that_would_be_ignored_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slow.toml");
    std::fs::write(&file, "inherits = \"wrap\"\n[nvm]\nwrite_ns = 12000\n").unwrap();
    let own = [("loose-ordering", "loc"), ("atom", "atom"), ("wrap", "wrap")];
    for (paper, own) in own {
        for machine in ["opteron", "native", file.to_str().unwrap()] {
            let output = reproduce(&[paper, "--quick", "--machine", machine], folder.path());
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{error}");
            for part in [paper, &format!("own machine, {own}"), "--interval", "simulate --machine"] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
    }
    // It is refused as well if other papers accept a machine.
    let output = reproduce(&["all", "--quick", "--machine", "native"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("loose-ordering"));
}

/// The seed and an interval reach the measurements. A test of the same name in `strandline-lab` covers the other papers.
#[test]
fn seeds_and_intervals_reach_each_paper() {
    let folder = tempfile::tempdir().unwrap();
    let results = |more: &[&str]| -> serde_json::Value {
        let output =
            reproduce(&[&["wrap", "--claim", "W8", "--quick", "--json"], more].concat(), folder.path());
        assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let plain = results(&[]);
    let varied = results(&["--seed", "2", "--interval", "nvm.write_ns=10"]);
    assert_eq!(varied["papers"][0]["seed"], 2);
    assert_ne!(varied["papers"][0]["series"], plain["papers"][0]["series"]);
    let claim = &varied["claims"][0];
    let interval = claim["interval"].as_array().unwrap();
    assert_eq!(interval.len(), 1);
    assert_ne!(interval[0]["measured"], claim["measured"]);
}
