//! Imports go in one direction: a file or folder of `src` uses only those before it in [`ORDER`].

use std::path::Path;

#[path = "../../../store/strandline-core/tests/directions/mod.rs"]
mod mechanism;

use mechanism::{all_sources, upward};

/// Files and folders of `src`, each of which uses only those before it.
const ORDER: [&str; 13] = [
    "setting",
    "counts",
    "session",
    "litmus",
    "x86",
    "coverage",
    "pmem",
    "finding",
    "data_race",
    "check",
    "on_pmem",
    "recorded",
    "store",
];

#[test]
fn no_file_uses_a_later_one() {
    let wrong = upward(&ORDER, &all_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
