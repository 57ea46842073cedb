//! The corpus of planted bugs: each program in C has its bugs, each of which is found by default as what it is, and nothing is found without them.

#[path = "../../strandline-check/examples/planted/c_programs.rs"]
mod c_programs;

use std::path::PathBuf;
use std::time::Duration;

use c_programs::{LIMIT, Library, SOURCES};

/// The library beside this test's own binary.
fn recorder() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libstrandline_check_c.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Checks the programs for `library`, those without a bug for `limit` at most.
fn all(library: Library, limit: Duration) {
    for source in SOURCES.iter().filter(|source| source.library == library) {
        let name = source.name;
        for &(number, what, kind, _) in source.bugs {
            let report = match source.check(number, &recorder(), LIMIT) {
                Ok(report) => report,
                Err(why) => return eprintln!("skipped: {why}"),
            };
            let counts = report.outcome.counts;
            let finding =
                report.outcome.finding.unwrap_or_else(|| panic!("{name}, {number}: {what}: {counts:?}"));
            assert_eq!(finding.kind, kind, "{name}, {number}: {finding}");
            let is_in_program = |place: Option<strandline_check::Source>| {
                place.is_some_and(|place| place.file().ends_with(&format!("{name}.c")))
            };
            assert!(
                is_in_program(finding.places.store) && is_in_program(finding.places.crash),
                "{name}, {number}: {finding}"
            );
        }
        let report = source.check(0, &recorder(), limit).unwrap();
        let outcome = &report.outcome;
        assert!(outcome.finding.is_none(), "{name}: {}", outcome.finding.as_ref().unwrap());
        assert!(outcome.is_complete() || limit < LIMIT, "{name}: {:?}", outcome.counts);
        // What the check does not look at is told, and true.
        let is_about_the_check = |note: &String| note.starts_with("the check does not notice");
        assert!(report.outcome.notes.iter().all(is_about_the_check), "{name}: {:?}", report.outcome.notes);
        let wasted: Vec<String> =
            outcome.performance.iter().filter(|one| one.is_always()).map(ToString::to_string).collect();
        assert!(wasted.is_empty(), "{name}: {wasted:?}");
    }
}

#[test]
fn programs_for_libpmem() {
    all(Library::Libpmem, LIMIT);
}

#[test]
fn programs_on_mapped_files() {
    all(Library::Msync, LIMIT);
}

#[test]
#[ignore = "a pool of 8 MiB takes minutes: run by `.ci/others --full`"]
fn programs_for_libpmemobj() {
    // They have more states than can be tried.
    all(Library::Libpmemobj, Duration::from_secs(10));
}
