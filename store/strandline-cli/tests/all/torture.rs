//! `strandline torture`, in short runs.

use std::process::Command;

fn torture(domain: &str, more: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline"))
        .args(["torture", "--kills", "20", "--threads", "3", "--domain", domain, "--json"])
        .args(more)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["schema"], 1, "{out}");
    assert_eq!(summary["kills"], 20, "{out}");
    assert_eq!(summary["violations"], serde_json::json!([]), "{out}");
    // At least one transaction runs in each life that is not killed while opening.
    assert!(summary["transactions"].as_u64() > Some(0), "{out}");
}

#[test]
fn process_survives_kills() {
    torture("process", &[]);
}

#[test]
fn each_control_survives_kills() {
    torture("process", &["--control", "stm"]);
    torture("process", &["--control", "single-writer"]);
}

#[test]
fn sync_survives_kills() {
    torture("sync", &[]);
}

#[test]
fn flush_survives_kills() {
    torture("flush", &[]);
}
