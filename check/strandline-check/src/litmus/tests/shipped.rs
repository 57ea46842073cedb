//! The litmus files of the crate, each with outcomes that were derived without the checker.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Limits, Setting, outcome, parse};
use crate::litmus::shipped;

type Expected = (usize, &'static str);

/// Name; number of states and verdicts (Allowed, Forbidden) under `line`, `word`, `flush-on-fail`.
const TABLE: &[(&str, Expected, Expected, Expected)] = &[
    // Examples of single rules.
    ("commit_weak", (4, "A"), (4, "A"), (3, "F")),
    ("commit_weak_opt", (4, "A"), (4, "A"), (3, "F")),
    ("commit1", (3, "F"), (3, "F"), (3, "F")),
    ("commit2", (3, "F"), (3, "F"), (3, "F")),
    ("commit2_opt", (4, "A"), (4, "A"), (3, "F")),
    ("flush", (3, "F"), (3, "F"), (3, "F")),
    ("wrong_line", (4, "A"), (4, "A"), (3, "F")),
    ("fence_only", (4, "A"), (4, "A"), (3, "F")),
    ("same_line", (3, "F"), (4, "A"), (3, "F")),
    ("redo_log", (4, "FF"), (4, "FF"), (4, "FF")),
    ("redo_log_without_second_fence", (5, "AF"), (5, "AF"), (4, "FF")),
    ("undo_log", (4, "A"), (4, "A"), (3, "F")),
    // Total store order.
    ("store_buffering", (16, "A"), (16, "A"), (9, "A")),
    ("store_buffering_mfence", (12, "F"), (12, "F"), (8, "F")),
    ("store_buffering_sfence", (16, "A"), (16, "A"), (9, "A")),
    ("store_buffering_rmw", (12, "F"), (12, "F"), (8, "F")),
    ("store_buffering_failed_cas", (16, "A"), (16, "A"), (9, "A")),
    ("store_buffering_persistent", (9, "AF"), (9, "AF"), (9, "AF")),
    ("message_passing", (4, "F"), (4, "F"), (3, "F")),
    ("forwarding", (16, "A"), (16, "A"), (9, "A")),
    ("independent_reads", (12, "F"), (12, "F"), (8, "F")),
    ("coherence", (3, "F"), (3, "F"), (3, "F")),
    ("cas_lock", (6, "FA"), (6, "FA"), (4, "FF")),
    // Operations that order write-backs.
    ("rmw_is_a_fence", (5, "FF"), (5, "FF"), (4, "FF")),
    ("failed_cas_is_a_load", (4, "A"), (4, "A"), (3, "F")),
    ("clflush_covers_its_line_only", (6, "AF"), (6, "AF"), (4, "FF")),
    ("clflushopt_is_not_ordered", (4, "A"), (4, "A"), (3, "F")),
    ("mfence_completes", (3, "F"), (3, "F"), (3, "F")),
    ("nt_without_fence", (4, "A"), (4, "A"), (4, "A")),
    ("nt_with_fence", (3, "F"), (3, "F"), (3, "F")),
    ("two_lines_one_fence", (5, "FFA"), (5, "FFA"), (4, "FFF")),
    ("epochs", (8, "FAAF"), (8, "FAAF"), (6, "FFFF")),
    ("overwritten", (5, "FA"), (5, "FA"), (4, "FF")),
    ("write_back_too_early", (4, "A"), (4, "A"), (3, "F")),
    ("store_after_write_back", (5, "FA"), (5, "FA"), (4, "FF")),
    ("nt_store_then_rmw", (5, "FA"), (5, "FA"), (4, "FF")),
    ("store_between_write_back_and_fence", (5, "FFA"), (6, "FAA"), (4, "FFF")),
    ("nested_if", (4, "AA"), (4, "AA"), (3, "FA")),
    // Between threads.
    ("write_back_after_rmw", (6, "F"), (6, "F"), (4, "F")),
    ("write_back_after_sfence", (14, "F"), (14, "F"), (9, "F")),
    ("write_back_overtakes_store", (16, "A"), (16, "A"), (9, "F")),
    ("clwb_after_reading", (3, "F"), (3, "F"), (3, "F")),
    ("clwb_before_reading", (4, "A"), (4, "A"), (3, "F")),
    ("sfence_of_another_thread", (8, "A"), (8, "A"), (4, "F")),
    ("message_passing_persistent", (5, "FA"), (5, "FA"), (4, "FF")),
    ("message_passing_reader_persists", (6, "FA"), (6, "FA"), (4, "FF")),
    ("clflush_by_the_reader", (6, "F"), (6, "F"), (4, "F")),
    ("unlock_before_fence", (16, "AA"), (16, "AA"), (8, "AA")),
    ("unlock_after_fence", (7, "FF"), (7, "FF"), (5, "FF")),
    // Within a line.
    ("torn_record", (4, "FF"), (8, "AA"), (4, "FF")),
    ("torn_record_fenced", (4, "FFF"), (5, "FFA"), (4, "FFF")),
    ("write_back_covers_the_line", (4, "FF"), (5, "FA"), (4, "FF")),
    ("two_writers_one_line", (12, "FAA"), (12, "FAA"), (8, "FFA")),
    ("log_append", (4, "FFF"), (5, "FFA"), (4, "FFF")),
];

/// Tests whose questions are about the ends of runs, and whose answers are not published: name, verdicts.
const ENDS: &[(&str, &str)] = &[
    ("nt_mp_own_load", "AF"),
    ("nt_after_store", "A"),
    ("nt_same_line", "F"),
    ("nt_same_location", "FF"),
    ("nt_nt_same_line", "F"),
    ("nt_clflush", "A"),
    ("nt_clflush_of_another_line", "A"),
    ("nt_clwb", "A"),
    ("nt_forwarding", "A"),
    ("nt_wrc", "F"),
    ("nt_iriw", "F"),
];

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/litmus"))
}

#[test]
fn shipped_tests_have_the_outcomes_worked_out_by_hand() {
    for &(name, line, word, flush_on_fail) in TABLE {
        let text = std::fs::read_to_string(folder().join(format!("{name}.litmus"))).unwrap();
        let test = parse(&text);
        assert_eq!(test.name, name);
        for (setting, (states, verdicts)) in std::iter::zip(Setting::ALL, [line, word, flush_on_fail]) {
            assert_eq!(outcome(&test, setting), (states, verdicts.into()), "{name} under {setting}");
        }
    }
}

#[test]
fn runs_end_as_worked_out_by_hand() {
    for &(name, verdicts) in ENDS {
        let (_, text) = shipped().find(|&(shipped, _)| shipped == name).unwrap();
        let test = parse(text);
        let found = test.explore(Limits::default()).unwrap();
        let verdict = |question| if found.ends_with(question) { 'A' } else { 'F' };
        assert_eq!(test.finals.iter().map(verdict).collect::<String>(), verdicts, "{name}");
    }
}

/// Every published answer of a public suite agrees with the checker's, and every test of a suite has an answer.
#[test]
fn published_answers_are_the_checkers() {
    let mut answers = 0;
    for (name, text) in shipped() {
        let test = parse(text);
        let row = test.explore(Limits::default()).unwrap().row(&test, Setting::Line);
        let published: Vec<_> =
            row.asks.iter().chain(&row.finals).filter(|answer| answer.published.is_some()).collect();
        let wrong: Vec<_> = published.iter().filter(|answer| answer.contradicts()).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        assert_eq!(test.source.is_some(), !published.is_empty(), "{name}");
        answers += published.len();
    }
    assert!(answers > 55, "{answers} answers");
}

#[test]
fn every_file_is_shipped_and_in_a_table() {
    let files = |folder: &Path| -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "litmus"));
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let own = files(folder());
    let tables = TABLE.iter().map(|&(name, ..)| name).chain(ENDS.iter().map(|&(name, _)| name));
    assert_eq!(own, tables.map(str::to_owned).collect());
    let all: BTreeSet<String> = &own | &files(&folder().join("public"));
    assert_eq!(all, shipped().map(|(name, _)| name.to_owned()).collect());
    for (name, text) in shipped() {
        assert_eq!(parse(text).name, name);
    }
}
