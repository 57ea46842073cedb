//! Sweeps in parts: `--shard` and `merge`, through the command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs the command. Returns exit code, standard output and standard error.
fn strandline(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    let output = command.args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Two machines produce the same bytes as one, and a part that has not run is reported.
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
    // The shard has half of each combination's three seeds.
    assert_eq!((code, shown.lines().count()), (0, 1 + 6));
    let (code, _, error) = strandline(folder, &["merge", "all", "first"]);
    assert!(
        code == 4 && error.contains("9 of 18 runs are missing") && error.contains("--out all"),
        "{error}"
    );
    assert_eq!(sweep(&["--shard=2/2", "--out", "second"]).0, 0);
    let (code, object, _) = strandline(folder, &["merge", "--json", "all", "first", "second"]);
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!((code, object["schema"].clone(), object["rows"].as_array().unwrap().len()), (0, 1.into(), 18));
    assert_eq!(object["combinations"].as_array().unwrap().len(), 6);
    assert_eq!(object["combinations"][0]["seeds"], serde_json::json!([1, 2, 3]));
    let file = |path: &str| std::fs::read(folder.join(path)).unwrap();
    for name in ["points.jsonl", "points.csv", "sweep.json"] {
        assert!(file(&format!("one/{name}")) == file(&format!("all/{name}")), "{name}");
    }
    assert!(String::from_utf8(file("all/index.html")).unwrap().contains("A sweep of 18 runs"));
    // The same command continues in the merged folder.
    assert!(sweep(&["--out", "all"]).2.contains("18 runs were known already"));
}

/// A sweep of threads compares the time for all transactions with one thread's; threads with keys of their own hardly keep each other waiting.
#[test]
fn a_sweep_of_threads_shows_the_speed_up() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = |sweep: &[&str]| {
        let flags =
            ["simulate", "--machine", "atom", "--scheme", "strandline", "--workload", "hot-counter,rbtree"];
        let short = ["--keys", "disjoint", "--transactions", "100", "--log-size", "64K", "--seeds", "1"];
        let (code, table, error) = strandline(folder.path(), &[&flags[..], &short, sweep].concat());
        assert_eq!(code, 0, "{error}");
        let cells =
            |line: &str| line.trim_matches('│').split('┆').map(|cell| cell.trim().to_owned()).collect();
        let rows: Vec<Vec<String>> = table.lines().filter(|line| line.starts_with('│')).map(cells).collect();
        rows
    };
    let rows = sweep(&["--sweep", "threads=1,4"]);
    assert_eq!(rows[0].last().unwrap(), "speed-up");
    let of = |workload: &str| -> Vec<f64> {
        let its = rows.iter().filter(|row| row[0] == workload);
        its.map(|row| row.last().unwrap().parse().unwrap()).collect()
    };
    let (counter, tree) = (of("hot-counter"), of("rbtree"));
    assert!(counter[0] == 1.0 && counter[1] < 1.5, "{counter:?}");
    assert!(tree[0] == 1.0 && (2.0..5.0).contains(&tree[1]), "{tree:?}");
    assert_ne!(sweep(&["--sweep", "nvm.write_ns=90,180"])[0].last().unwrap(), "speed-up");
}

/// A table's rows are combinations, with the median and the range over their seeds.
#[test]
fn sweeps_have_several_seeds() {
    let folder = tempfile::tempdir().unwrap();
    let short = ["simulate", "--workload", "queue", "--transactions", "20", "--log-size", "64K"];
    let sweep = |more: &[&str]| strandline(folder.path(), &[&short[..], more].concat());
    let (code, table, _) = sweep(&["--sweep", "nvm.write_ns=100,200", "--out", "three"]);
    assert!(code == 0 && table.contains(" to "), "{table}");
    let table = std::fs::read_to_string(folder.path().join("three/points.csv")).unwrap();
    assert!(table.contains(",seeds,tx_per_s,tx_per_s_low,tx_per_s_high,"), "{table}");
    assert_eq!(table.lines().count(), 3);
    // More seeds are added to the known ones.
    let (code, _, error) = sweep(&["--sweep", "nvm.write_ns=100,200", "--seeds", "4", "--out", "three"]);
    assert!(code == 0 && error.contains("6 runs were known already"), "{error}");
    let (code, table, _) = sweep(&["--seeds", "2", "--csv", "--out", "two"]);
    assert!(code == 0 && table.contains(",2,"), "{table}");
    let (code, table, _) = sweep(&["--sweep", "seed=1,2", "--csv", "--out", "rows"]);
    assert!(code == 0 && !table.contains("_low") && table.lines().count() == 3, "{table}");
    let (code, _, error) = sweep(&["--sweep", "seed=1,2", "--seeds", "2"]);
    assert!(code == 2 && error.contains("choose one of them"), "{error}");
}

#[test]
fn a_trace_is_swept_over_machines_and_hardware() {
    let folder = tempfile::tempdir().unwrap();
    let trace =
        "**1** strandline persistent 1000,64\n**1** strandline begin\n S 1000,8\n**1** strandline commit\n";
    std::fs::write(folder.path().join("a.trace"), trace).unwrap();
    let sweep = |more: &[&str]| {
        let flags = ["simulate", "--machine", "loc", "--trace", "a.trace", "--hardware", "h-wal,ec-wal"];
        strandline(folder.path(), &[&flags[..], more].concat())
    };
    let latencies = ["--sweep", "nvm.write_ns=100,200"];
    let (code, table, _) = sweep(&[&latencies[..], &["--csv"]].concat());
    assert_eq!((code, table.lines().count()), (0, 1 + 4), "{table}");
    assert!(table.contains("a.trace,h-wal,loc,200,"), "{table}");
    let (code, _, error) = sweep(&latencies);
    assert!(code == 0 && error.contains("4 runs were known already"), "{error}");
    // Merge the sweep's parts.
    assert_eq!(sweep(&[&latencies[..], &["--shard=1/2", "--out", "first"]].concat()).0, 0);
    assert_eq!(sweep(&[&latencies[..], &["--shard=2/2", "--out", "second"]].concat()).0, 0);
    assert_eq!(strandline(folder.path(), &["merge", "all", "first", "second"]).0, 0);
    let file = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
    assert!(file("all/points.csv") == file("sweep/points.csv"));
    for (more, part) in [
        (&["--seeds", "2"][..], "no random numbers"),
        (&["--sweep", "threads=1,2"], "a trace says itself what runs"),
    ] {
        let (code, _, error) = sweep(&[&latencies[..], more].concat());
        assert!(code == 2 && error.contains(part), "{more:?}: {error}");
    }
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
