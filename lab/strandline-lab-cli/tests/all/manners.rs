//! Properties that every command must have: its exit codes, how it treats its output, and that Ctrl-C leaves nothing behind.

use std::io::Read;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

#[path = "../../../../store/strandline-command/tests/shared/manners.rs"]
mod shared;

use shared::{check_closed_pipe, check_full_disk, check_interrupted_benchmark, interrupt_once_watching};

fn strandline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    command.args(arguments);
    command
}

/// A run that takes minutes.
const LONG: [&str; 6] =
    ["simulate", "--workload", "rbtree", "--transactions", "1000000000", "--log-size=64K"];

/// A run that prints something and ends.
const PRINTS: [&str; 2] = ["list", "--json"];

#[test]
fn a_full_disk_behind_stdout_is_told() {
    check_full_disk(strandline(&PRINTS));
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    check_closed_pipe(strandline(&PRINTS));
}

/// The results so far are printed, and the program then dies of the signal, as its parent expects.
#[test]
fn an_interrupted_simulation_prints_what_is_known() {
    let mut child = strandline(&[&LONG[..], &["--json"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    interrupt_once_watching(&child);
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let status = child.wait().unwrap();
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(object["result"]["transactions"].as_u64() < Some(1_000_000_000));
    assert!(object["notes"].to_string().contains("ended early"), "{}", object["notes"]);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGINT as i32));
}

/// Pools in memory are removed.
#[test]
fn an_interrupted_benchmark_leaves_no_pool() {
    check_interrupted_benchmark(strandline(&["bench", "--scheme", "bppm"]));
}

/// A page keeps its table if the measurement does not end.
#[test]
fn an_interrupted_benchmark_leaves_the_page_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    let block = "<!-- measured: interface -->\nold\n<!-- end of measurement -->\n";
    std::fs::write(&page, block).unwrap();
    let mut bench =
        strandline(&["bench", "--interface", "types", "--workload", "queue", "--domain", "process"]);
    bench.args(["--seconds", "0.1", "--repetitions", "1000", "--page"]).arg(&page);
    let child = bench.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    interrupt_once_watching(&child);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("interrupted; ") && error.contains("page.md is unchanged"), "{error}");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), block);
}

/// A second signal ends the program without waiting; its files are removed nevertheless.
#[test]
fn who_insists_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report");
    let mut child = strandline(&["reproduce", "wrap", "--out", out.to_str().unwrap()])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    interrupt_once_watching(&child);
    let status = child.wait().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGINT as i32));
    assert!(text.contains("the figures so far are in") && text.contains("report"), "{text}");
}

/// Every JSON output states the version of its format, whichever command prints it.
#[test]
fn every_json_says_its_form() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    let pool = pool.to_str().unwrap();
    let out = folder.path().join("sweep");
    let short = ["--workload", "rbtree", "--transactions", "20", "--log-size=64K", "--json"];
    let commands: [Vec<&str>; 8] = [
        vec!["list"],
        vec!["list", "loc-wal"],
        [&["simulate"], &short[..]].concat(),
        [&["simulate", "--sweep", "nvm.write_ns=100", "--out", out.to_str().unwrap()], &short[..]].concat(),
        vec!["check", "--scheme", "base", "--workload", "sps", "--samples", "1", "--threads", "1"],
        vec!["bench", "--scheme", "np", "--workload", "sps", "--seconds", "0.01", "--repetitions", "1"],
        vec!["pool", "create", pool],
        vec!["pool", "check", pool],
    ];
    for mut command in commands {
        if !command.contains(&"--json") {
            command.push("--json");
        }
        let output = strandline(&command).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let first = value.as_array().map_or(&value, |rows| &rows[0]);
        assert_eq!(first["schema"], 1, "{command:?}");
    }
}

/// A sweep that was interrupted continues, and `--csv` prints the file's contents.
#[test]
fn a_sweep_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let run = |values: &str| {
        let sweep = format!("nvm.write_ns={values}");
        let flags = [
            "simulate",
            "--machine",
            "loc",
            "--scheme",
            "base,loc-wal",
            "--workload",
            "rbtree,sps",
            "--sweep",
            &sweep,
        ];
        let more = ["--transactions", "20", "--log-size=64K", "--csv"];
        let output = strandline(&[&flags[..], &more].concat()).current_dir(folder.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(output.status.code(), Some(0), "{:?}", output.stderr);
        (text(output.stdout), text(output.stderr))
    };
    let (first, notes) = run("100,400");
    assert_eq!(first.lines().count(), 1 + 8, "{first}");
    assert!(!notes.contains("known already"));
    let (more, notes) = run("100,200,400");
    assert!(notes.contains("24 runs were known already"), "{notes}");
    assert!(notes.contains("note: 12 runs: ") && notes.contains(" s of processor time in "), "{notes}");
    assert_eq!(more, std::fs::read_to_string(folder.path().join("sweep/points.csv")).unwrap());
    assert_eq!(more.lines().count(), 1 + 12);
    // Its earlier results are unchanged.
    assert!(first.lines().all(|line| more.contains(line)), "{first}{more}");
    for (flags, part) in [
        (&["--sweep", "threads=0,1"][..], "1 to 64"),
        (&["--sweep", "nvm.write_us=1,2"], "nvm.write_us"),
        (&["--sweep", "nvm.write_ns"], "KEY=VALUE"),
        (&["--scheme", "bppm,loc-wal", "--hardware", "loc-wal"], "makes no sense"),
        (&["--sweep", "seed=1,2", "--crash-at", "50%"], "--crash-at"),
        (&["--csv"], "--csv is for sweeps"),
    ] {
        let output = strandline(&[&["simulate", "--machine", "loc"], flags].concat()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(part), "{flags:?}: {error}");
    }
}

/// Each subcommand refuses a number outside its range and states the range. It also refuses inconsistent sizes.
#[test]
fn numbers_and_sizes_have_ranges() {
    for (before, flag, wrong, range) in [
        ("bench", "--value-size", &["0", "4097", "1G"][..], "from 1 to 4K"),
        ("bench", "--threads", &["0", "257"], "from 1 to 256"),
        ("bench", "--log-size", &["0", "5000", "2G"], "from 4K to 1G, a multiple of 4K"),
        ("bench", "--repetitions", &["0"], "from 1 to 1000"),
        ("bench", "--read-share", &["101"], "from 0 to 100"),
        ("simulate", "--value-size", &["0", "1G"], "from 1 to 4K"),
        ("simulate", "--threads", &["0", "65"], "from 1 to 64"),
        ("simulate", "--idle", &["100"], "from 0 to 99"),
        ("simulate", "--transactions", &["0", "1000000001"], "from 1 to 1000000000"),
        ("simulate", "--ops-per-tx", &["0"], "from 1 to 100000"),
        ("simulate", "--seeds", &["0", "1001"], "from 1 to 1000"),
        ("simulate", "--sweep", &["value-size=8,1G"], "from 1 to 4K"),
        ("simulate", "--sweep", &["log-size=4K,5000"], "a multiple of 4K"),
        ("check", "--threads", &["0", "5"], "from 1 to 4"),
        ("check", "--preemptions", &["101"], "from 0 to 100"),
        ("check", "--transactions", &["0"], "from 1 to 10000"),
        ("check", "--states", &["0"], "from 1 to 1000000000"),
        ("check", "--samples", &["0"], "from 1 to 1000000000000"),
        ("check", "--seconds", &["0", "1000001"], "from 1 to 1000000"),
        ("reproduce", "--transactions", &["0"], "from 1 to 1000000000"),
        ("torture", "--kills", &["0"], "from 1 to 1000000000"),
    ] {
        for value in wrong {
            let output = strandline(&[before, &format!("{flag}={value}")]).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.code() == Some(2) && error.contains(range), "{flag} {value}: {error}");
        }
    }
    for subcommand in ["bench", "simulate"] {
        let flags = [subcommand, "--workload", "hash", "--value-size", "4K", "--ops-per-tx", "100000"];
        let output = strandline(&flags).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let told = error.contains("choose a smaller --value-size or --ops-per-tx");
        assert!(output.status.code() == Some(2) && told, "{error}");
    }
}
