//! Imports go in one direction: a file or folder of `src` uses only those before it in the order.

use std::path::Path;

#[path = "../../../store/strandline-core/tests/directions/mod.rs"]
mod mechanism;

use mechanism::{all_sources, upward};

/// The files that the papers use, each of which uses only those before it.
const BELOW_PAPERS: [&str; 20] = [
    "error",
    "claim",
    "verdict",
    "venue",
    "measurements",
    "panel",
    "reading",
    "finding",
    "machine",
    "noise",
    "memo",
    "session",
    "settings",
    "paper",
    "reproduce",
    "results",
    "report",
    "ledger",
    "sweep",
    "cells",
];

/// The papers, none of which uses another.
const PAPERS: [&str; 6] = ["blurred", "loose_ordering", "deferred_commit", "atom", "wrap", "compare"];

/// Returns imports that go backwards, with the papers in their order and in the opposite one. That covers each import of a paper by another.
fn wrong(sources: &[(String, String)]) -> Vec<String> {
    let mut papers = PAPERS;
    let mut wrong = Vec::new();
    for _ in 0..2 {
        wrong.extend(upward(&[&BELOW_PAPERS[..], &papers, &["papers"]].concat(), sources));
        papers.reverse();
    }
    wrong
}

#[test]
fn no_file_uses_a_later_one_and_no_paper_another() {
    let wrong = wrong(&all_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_import_of_another_paper_is_seen() {
    let imports = |file: &str, text: &str| wrong(&[(file.to_owned(), text.to_owned())]).len();
    assert_eq!(imports("atom", "use crate::wrap::PAPER;"), 1);
    assert_eq!(imports("wrap", "use crate::{atom::PAPER, cells::Cell};"), 1);
    assert_eq!(imports("atom", "use crate::papers;"), 2, "in both orders");
    assert_eq!(imports("papers", "use crate::{atom, wrap};"), 0);
}
