//! `strandline-lab torture`, briefly.

use std::process::Command;

fn torture(domain: &str, more: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline-lab"))
        .args(["torture", "--kills", "20", "--threads", "3", "--domain", domain, "--json"])
        .args(more)
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["kills"], 20, "{out}");
    assert_eq!(summary["violations"], serde_json::json!([]), "{out}");
    // A life that survives its opening has at least one transaction.
    assert!(summary["transactions"].as_u64() > Some(0), "{out}");
}

#[test]
fn process_survives_kills() {
    torture("process", &[]);
}

#[test]
fn every_scheme_of_the_paper_survives_kills() {
    torture("process", &["--scheme", "base,mne-sync,mne-async+single-writer,xil,vcbp,bppm-counted"]);
}

#[test]
fn sync_survives_kills() {
    torture("sync", &[]);
}
