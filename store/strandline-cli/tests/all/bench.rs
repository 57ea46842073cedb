//! `strandline bench`: its measurements, its usage errors, and that it leaves no files.

use std::process::Command;

use serde_json::Value;

fn bench(arguments: &[&str], code: i32) -> (String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_strandline")).arg("bench").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

const SHORT: [&str; 4] = ["--seconds", "0.01", "--repetitions", "1"];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let (out, _) = bench(&[&SHORT[..], arguments, &["--json"]].concat(), 0);
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_transaction_on_memory_waits_for_one_fence() {
    let rows = rows(&["--domain", "emulated", "--workload", "queue", "--threads", "1,2"]);
    let named = |name: &str| rows.iter().filter(|row| row["scheme"] == name).collect::<Vec<_>>();
    assert_eq!(named("floor").len(), 2, "{rows:?}");
    for control in ["stm", "single-writer"] {
        assert_eq!(named(control).len(), 2, "{rows:?}");
        for row in named(control) {
            assert_eq!((&row["schema"], &row["fences_per_tx"]), (&1.into(), &1.0.into()), "{row}");
            assert!(row["tx_per_s"].as_f64() > Some(0.0), "{row}");
        }
    }
}

#[test]
fn the_disk_is_measured_beside_its_floor() {
    let rows = rows(&["--domain", "sync", "--workload", "queue", "--control", "stm", "--threads", "1,2"]);
    let names: Vec<_> = rows.iter().map(|row| row["scheme"].as_str().unwrap()).collect();
    assert_eq!(names, ["floor", "stm", "group-floor", "stm"]);
    assert!(rows.iter().all(|row| row["domain"] == "sync" && row["tx_per_s"].as_f64() > Some(0.0)));
}

#[test]
fn tables_have_percentiles_if_they_are_asked_for() {
    let flags = ["--domain", "process", "--workload", "queue", "--latency"];
    let (out, _) = bench(&[&SHORT[..], &flags].concat(), 0);
    assert!(out.contains("of floor") && out.contains("p99.99 us"), "{out}");
}

#[test]
fn wrong_usage_says_what_there_is() {
    for (flags, part) in [
        (&["--workload", "rbtree"][..], "sps, hash, ordered, queue, kv"),
        (&["--domain", "sync", "--write-latency-ns", "5"], "--domain emulated alone"),
        (&["--domain", "sync", "--instruction", "clwb"], "flush or emulated alone"),
        (&["--control", "locks"], "single-writer"),
    ] {
        let (_, err) = bench(flags, 2);
        assert!(err.contains(part), "{err}");
    }
}
