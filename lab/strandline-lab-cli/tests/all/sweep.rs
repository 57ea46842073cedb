//! Sweeps in parts: `--shard` and `merge`, through the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Exit code, standard output and standard error.
fn strandline(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Two machines find what one does, to the byte, and a part that has not run is told.
#[test]
fn shards_are_merged_into_the_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sweep = |more: &[&str]| {
        let flags = [
            "simulate",
            "--scheme",
            "base,bppm",
            "--workload",
            "queue",
            "--sweep",
            "nvm.write_ns=100,200,400",
        ];
        let short = ["--transactions", "20", "--warm-up", "0", "--log-size", "64K"];
        strandline(folder, &[&flags[..], &short, more].concat())
    };
    assert_eq!(sweep(&["--out", "one"]).0, 0);
    let (code, shown, _) = sweep(&["--shard", "1/2", "--out", "first", "--csv"]);
    assert_eq!((code, shown.lines().count()), (0, 1 + 3));
    let (code, _, error) = strandline(folder, &["merge", "all", "first"]);
    assert!(code == 3 && error.contains("3 of 6 runs are missing") && error.contains("--out all"), "{error}");
    assert_eq!(sweep(&["--shard=2/2", "--out", "second"]).0, 0);
    let (code, object, _) = strandline(folder, &["merge", "--json", "all", "first", "second"]);
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!((code, object["schema"].clone(), object["rows"].as_array().unwrap().len()), (0, 1.into(), 6));
    let file = |path: &str| std::fs::read(folder.join(path)).unwrap();
    for name in ["points.jsonl", "points.csv", "sweep.json"] {
        assert!(file(&format!("one/{name}")) == file(&format!("all/{name}")), "{name}");
    }
    assert!(String::from_utf8(file("all/index.html")).unwrap().contains("A sweep of 6 runs"));
    // The same command in the folder of all goes on from there.
    assert!(sweep(&["--out", "all"]).2.contains("6 runs were known already"));
}

#[test]
fn what_is_no_shard_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let short = ["--workload", "queue", "--transactions", "20"];
    for (flags, part) in [
        (&["simulate", "--shard", "1/2"][..], "--shard is for sweeps"),
        (&["simulate", "--sweep", "seed=1,2", "--shard", "3/2"], "2/16"),
        (&["merge", "all", "nowhere"], "cannot read nowhere/sweep.json"),
        (&["merge", "all"], "required"),
    ] {
        let more = if flags[0] == "simulate" { &short[..] } else { &[] };
        let (code, _, error) = strandline(folder.path(), &[flags, more].concat());
        assert!(code == 2 && error.contains(part), "{flags:?}: {error}");
    }
}
