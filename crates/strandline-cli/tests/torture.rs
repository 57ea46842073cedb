//! `strandline torture`, briefly.

use std::process::Command;

fn torture(domain: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline"))
        .args(["torture", "--kills", "20", "--threads", "3", "--domain", domain, "--json"])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["kills"], 20, "{out}");
    assert_eq!(summary["violations"], serde_json::json!([]), "{out}");
    assert!(summary["transactions"].as_u64() > Some(100), "{out}");
}

#[test]
fn process_survives_kills() {
    torture("process");
}

#[test]
fn sync_survives_kills() {
    torture("sync");
}
