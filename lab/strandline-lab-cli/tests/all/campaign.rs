//! Checks in parts: `check --out`, `--shard` and `merge`, through the command line.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    command.args(arguments).current_dir(folder);
    command
}

/// Runs the command. Returns exit code, standard output and standard error.
fn strandline(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(folder, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), super::without_progress(&text(stderr)))
}

/// Returns the rows of what `--json` prints, without the values that depend on time.
fn rows(object: &str) -> Vec<Value> {
    let object: Value = serde_json::from_str(object).unwrap();
    let mut rows = object["rows"].as_array().unwrap().clone();
    for row in &mut rows {
        let row = row.as_object_mut().unwrap();
        for name in ["seconds", "cpu_seconds", "states_per_s", "lives_per_s"] {
            row.remove(name);
        }
    }
    rows
}

fn file(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A limit that ends only checks that hang: the given numbers end all others, however slow the machine is.
const HANG: &str = "1800";

/// The checks: samples in several parts, and explorations of a single part.
const CHECKS: [&[&str]; 5] = [
    &[
        "--scheme",
        "bppm,base",
        "--workload",
        "sps",
        "--setting",
        "line",
        "--threads",
        "1,2",
        "--transactions",
        "2",
        "--samples",
        "210",
    ],
    &[
        "--scheme",
        "bppm",
        "--workload",
        "sps",
        "--threads",
        "1,2",
        "--transactions",
        "1",
        "--exhaustive",
        "--preemptions",
        "1",
    ],
    &["--world", "device", "--transactions", "2", "--samples", "120"],
    &[
        "--world",
        "machine",
        "--scheme",
        "bppm",
        "--workload",
        "sps",
        "--threads",
        "1,2",
        "--samples",
        "110",
        "--transactions",
        "2",
    ],
    &["--world", "persist-order", "--scheme", "sct-strict,sct-epoch,sct-strand", "--samples", "2"],
];

/// Three machines produce the same rows as one.
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn shards_are_merged_into_the_check() {
    let merged = |(number, flags): (usize, &[&str])| {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let check = |more: &[&str]| strandline(folder, &[&["check", "--json"], flags, more].concat());
        let (code, whole, error) = check(&[]);
        assert_eq!((code, &*error), (0, ""), "{number}");
        let whole = rows(&whole);
        for shard in ["2/3", "1/3"] {
            let (code, _, error) = check(&["--shard", shard, "--out", &shard[..1]]);
            assert_eq!((code, &*error), (0, ""), "{number}");
        }
        let (code, _, error) = strandline(folder, &["merge", "all", "1", "2"]);
        assert!(code == 4 && error.contains("parts of the check are missing"), "{number}: {error}");
        check(&["--shard", "3/3", "--out", "3"]);
        let (code, merged, error) = strandline(folder, &["merge", "--json", "all", "1", "2", "3"]);
        assert_eq!((code, &*error), (0, ""), "{number}");
        assert_eq!(rows(&merged), whole, "{number}");
        assert_eq!(rows(&file(&folder.join("all/rows.json"))), whole, "{number}");
        // Everything is known in the merged folder, but each shard knows only its own part.
        let (_, again, note) = check(&["--out", "all"]);
        let units = |folder_name: &str| file(&folder.join(folder_name).join("units.jsonl")).lines().count();
        assert_eq!(rows(&again), whole, "{number}");
        assert!(
            note.contains(&format!("{} parts of the check were explored already", units("all"))),
            "{note}"
        );
        assert_eq!(units("all"), units("1") + units("2") + units("3"), "{number}");
        assert!(units("1") > 0 && units("2") > 0, "{number}");
    };
    std::thread::scope(|scope| {
        for check in CHECKS.into_iter().enumerate() {
            scope.spawn(move || merged(check));
        }
    });
}

/// A violation is reported by the shard that finds it and by the whole; later units of its row do not count.
#[test]
fn a_finding_is_one_wherever_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The third of four parts has the violation.
    let flags = [
        "check",
        "--json",
        "--world",
        "device",
        "--scheme",
        "bppm",
        "--omit",
        "SyncGrowthFlush",
        "--transactions",
        "1",
        "--samples",
        "400",
        "--seed",
        "570",
        "--seconds",
        HANG,
    ];
    let (code, whole, _) = strandline(folder, &flags);
    assert_eq!(code, 1);
    let histories = rows(&whole)[0]["counts"]["histories"].as_u64().unwrap();
    assert!((201..301).contains(&histories), "{histories}");
    let codes = ["1/3", "2/3", "3/3"]
        .map(|shard| strandline(folder, &[&flags[..], &["--shard", shard, "--out", &shard[..1]]].concat()).0);
    assert_eq!(codes[1..], [0, 1]);
    let (code, merged, error) = strandline(folder, &["merge", "--json", "all", "1", "2", "3"]);
    assert_eq!((code, &*error, rows(&merged)), (1, "", rows(&whole)));
    let (code, table, _) = strandline(folder, &["merge", "all", "1", "2", "3"]);
    assert!(
        code == 1 && table.contains("VIOLATION: ") && table.contains("replay: strandline-lab check"),
        "{table}"
    );
}

/// A check that is killed continues, and finds the same as an uninterrupted one.
#[test]
fn a_killed_check_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = [
        "check",
        "--json",
        "--scheme",
        "bppm",
        "--workload",
        "sps",
        "--setting",
        "line",
        "--threads",
        "2",
        "--transactions",
        "2",
        "--samples",
        "500",
        "--seconds",
        HANG,
    ];
    let (_, whole, _) = strandline(folder, &flags);
    let kept = [&flags[..], &["--out", "kept"]].concat();
    let units = folder.join("kept/units.jsonl");
    let lines = || std::fs::read_to_string(&units).map_or(0, |text| text.lines().count());
    let mut child = command(folder, &kept).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while lines() < 2 {
        assert!(began.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = lines();
    assert!((2..5).contains(&before), "it was killed on its way: {before}");
    // Leave half a line, as a kill may.
    let text = file(&units);
    std::fs::write(&units, format!("{text}{}", &text[..40])).unwrap();
    let (code, resumed, note) = strandline(folder, &kept);
    assert!(code == 0 && note.contains("parts of the check were explored already"), "{note}");
    assert_eq!(rows(&resumed), rows(&whole));
    assert_eq!(lines(), 5);
}

#[test]
fn what_is_no_check_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let short = ["check", "--world", "device", "--scheme", "bppm", "--transactions", "1", "--samples", "1"];
    let check = |more: &[&str]| strandline(folder, &[&short[..], more].concat());
    let (code, _, error) = check(&["--shard", "1/2"]);
    assert!(code == 2 && error.contains("--out"), "{error}");
    let (code, _, error) = check(&["--shard", "3/2", "--out", "a"]);
    assert!(code == 2 && error.contains("2/16"), "{error}");
    assert_eq!(check(&["--shard", "1/2", "--out", "a"]).0, 0);
    assert_eq!(check(&["--shard", "2/2", "--out", "b", "--seed", "2"]).0, 0);
    let (code, _, error) = strandline(folder, &["merge", "all", "a", "b"]);
    assert!(code == 2 && error.contains("their work is different"), "{error}");
    std::fs::create_dir(folder.join("sweep")).unwrap();
    let (code, _, error) = strandline(folder, &["merge", "all", "a", "sweep"]);
    assert!(code == 2 && error.contains("cannot read sweep/check.json"), "{error}");
}
