//! Imports go in one direction: a module of `src` uses only those before it in [`ORDER`].

use std::path::Path;

#[path = "../../../strandline-core/tests/directions/mod.rs"]
mod mechanism;

use mechanism::{all_sources, upward};

/// Folders of `src`, each of which uses only those before it.
const ORDER: [&str; 6] = ["value", "collections", "store", "described", "database", "control"];

#[test]
fn no_room_uses_a_later_one() {
    let wrong = upward(&ORDER, &all_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}
