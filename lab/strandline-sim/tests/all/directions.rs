//! Imports go in one direction: a file or folder of `src` uses only those before it in [`ORDER`].

use std::path::Path;

#[path = "../../../../store/strandline-core/tests/directions/mod.rs"]
mod mechanism;

use mechanism::{all_sources, upward};

/// Files and folders of `src`, each of which uses only those before it.
const ORDER: [&str; 18] = [
    "host",
    "description",
    "numbers",
    "addresses",
    "file",
    "instructions",
    "statistics",
    "energy",
    "network",
    "nvm",
    "controller",
    "core",
    "cache",
    "scheme",
    "registry",
    "machine",
    "trace",
    "run",
];

#[test]
fn no_file_uses_a_later_one() {
    let wrong = upward(&ORDER, &all_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
