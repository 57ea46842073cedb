//! Imports go in one direction: a folder of `src` uses only those before it in [`ORDER`].

use std::path::Path;

use super::sources::{all_sources, upward};

/// Folders and files of `src`, each of which uses only those before it.
const ORDER: [&str; 14] = [
    "error",
    "durations",
    "trace",
    "domain",
    "memory",
    "layout",
    "log",
    "heap",
    "transaction",
    "scheme",
    "sync",
    "engine",
    "structures",
    "file",
];

#[test]
fn no_folder_uses_a_later_one() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../strandline-core/src");
    let wrong = upward(&ORDER, &all_sources(&src));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
