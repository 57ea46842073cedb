//! `strandline-lab bench --interface`.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let short =
        ["bench", "--workload", "queue", "--domain", "process", "--seconds", "0.01", "--repetitions", "2"];
    Command::new(env!("CARGO_BIN_EXE_strandline-lab")).args(short).args(arguments).output().unwrap()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = bench(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn interfaces_are_compared_under_both_controls() {
    let rows = rows(&["--interface", "types,engine", "--threads", "1,2"]);
    let named = |row: &Value| {
        let name = |key: &str| row[key].as_str().unwrap().to_owned();
        (row["threads"].as_u64().unwrap(), name("interface"), name("control"))
    };
    let expected = [1, 2].map(|threads| {
        [("engine", "single-writer"), ("engine", "stm"), ("types", "stm"), ("types", "single-writer")]
            .map(|(interface, control)| (threads, interface.to_owned(), control.to_owned()))
    });
    assert_eq!(rows.iter().map(named).collect::<Vec<_>>(), expected.concat());
    let figure = |row: &Value, key: &str, part: &str| row[key][part].as_f64();
    for row in &rows {
        assert_eq!(
            (&row["schema"], &row["workload"], &row["rounds"]),
            (&1.into(), &"queue".into(), &2.into())
        );
        let rate = |row: &Value, part: &str| figure(row, "tx_per_processor_s", part).unwrap();
        assert!(0.0 < rate(row, "low") && rate(row, "low") <= rate(row, "high"), "{row}");
        let is_engine =
            |other: &&Value| named(other) == (named(row).0, "engine".to_owned(), named(row).2.clone());
        let engine = rows.iter().find(is_engine).unwrap();
        match figure(row, "of_engine", "median") {
            None => assert_eq!(row["interface"], "engine"),
            Some(share) => {
                assert_eq!(row["interface"], "types");
                let (least, most) =
                    (rate(row, "low") / rate(engine, "high"), rate(row, "high") / rate(engine, "low"));
                assert!(least <= share && share <= most, "{share} of {least} to {most}");
            }
        }
    }
}

#[test]
fn one_interface_has_no_share() {
    let rows = rows(&["--interface", "types"]);
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["interface"] == "types" && row.get("of_engine").is_none()), "{rows:?}");
}

const NO_COLUMN: &str =
    "--interface has no column for rbtree; choose from sps, hash, bplustree, queue, kvstore";

#[test]
fn wrong_usage_of_interfaces_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    std::fs::write(&page, "a page without the block").unwrap();
    let page = page.to_str().unwrap();
    for (flags, part) in [
        (&["--interface", "words"][..], "engine, types"),
        (&["--interface", "types", "--ops-per-tx", "2"], "cannot be used with"),
        (&["--interface", "types", "--page", page], "measured: interface"),
        (&["--page", page], "--interface"),
    ] {
        let output = bench(flags);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(part), "{flags:?}: {error}");
    }
    for (flags, part) in [
        (["--interface", "types", "--domain", "sync"], "processor time"),
        (["--interface", "types", "--workload", "sps,rbtree"], NO_COLUMN),
        (["--interface", "types", "--workload", "rbtree"], NO_COLUMN),
        (["--instructions", "--read-share", "90", "--json"], "cannot be used with"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_strandline-lab")).arg("bench").args(flags).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(part), "{flags:?}: {error}");
    }
}
