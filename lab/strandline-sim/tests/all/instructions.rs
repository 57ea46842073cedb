//! The counted instructions of workloads and schemes.

use strandline_sim::Instructions;

#[test]
fn every_workload_has_counts() {
    for workload in strandline_workloads::ALL.iter() {
        let count = Instructions::of_plain(workload.name, 8).expect(workload.name);
        assert!(count.access > 0.0 && count.word > 0.0, "{}: {count:?}", workload.name);
        assert!(count.private_loads + count.private_stores < count.access, "{}: {count:?}", workload.name);
    }
}

/// The programs by which claims of Blurred Persistence and of deferred commit are judged were counted.
#[test]
fn what_claims_are_judged_by_was_counted() {
    let of_b = strandline_workloads::BLURRED.map(|workload| workload.name);
    let of_d = ["tatp-update-location-arrays", "tpcc-new-order-arrays"];
    let b = [
        "np",
        "base",
        "base-tail",
        "mne-sync",
        "mne-sync-fenced",
        "xil",
        "xil-unmarked",
        "vcbp",
        "vcbp-tail",
        "bppm",
    ];
    let d = ["sct-eager-sync", "sct-epoch", "sct-strand", "dct-eager-sync", "dct-epoch", "dct-strand"];
    let of_papers = [(&of_b[..], &b[..]), (&of_d[..], &d[..])];
    for (workloads, schemes) in of_papers {
        for (workload, scheme) in workloads.iter().flat_map(|w| schemes.iter().map(move |s| (w, s))) {
            let counted = Instructions::of_transactions(workload, scheme);
            assert!(counted.is_some(), "{workload} under {scheme}");
        }
    }
    assert_eq!(Instructions::of_transactions("hash", "wrap"), None);
}
