//! The corpus of planted bugs, programs in C. The checker finds each bug by default and names its kind, and finds nothing in the programs without
//! bugs.

#[path = "../../strandline-check/examples/planted/c_programs.rs"]
mod c_programs;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use c_programs::{Bug, LIMIT, Library, SOURCES, Source};

/// Returns the path of the library beside this test's binary.
fn recorder() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libstrandline_check_c.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Checks the program `source` with this bug. Returns how the report differs from the expected one, or `None` if it does not.
fn wrong_with(source: &Source, &(number, what, kind, _): &Bug) -> Option<String> {
    let report = source.check(number, &recorder(), LIMIT).unwrap();
    let is_in_program = |place: Option<strandline_check::Source>| {
        place.is_some_and(|place| place.file().ends_with(&format!("{}.c", source.name)))
    };
    let wrong = match &report.outcome.finding {
        None => format!("it is not found: {:?}", report.outcome.counts),
        Some(finding) if finding.kind != kind => format!("it should be found as {kind}: {finding}"),
        Some(finding) if !is_in_program(finding.places.store) || !is_in_program(finding.places.crash) => {
            format!("its places are missing: {finding}")
        }
        Some(_) => return None,
    };
    Some(format!("{}, bug {number} ({what}): {wrong}", source.name))
}

/// Checks the program without a bug for at most `limit`. Returns the parts of the report that should not be there.
fn said_of_repaired(source: &Source, limit: Duration) -> Vec<String> {
    let report = source.check(0, &recorder(), limit).unwrap();
    let outcome = report.outcome;
    let mut said: Vec<String> = outcome.finding.iter().map(ToString::to_string).collect();
    if !outcome.is_complete() && limit == LIMIT {
        said.push(format!("it is not explored to the end: {:?}", outcome.counts));
    }
    // Notes about what a check command does not notice are correct: these commands check only a little.
    said.extend(outcome.notes.iter().filter(|note| !note.contains("does not notice")).cloned());
    said.extend(outcome.performance.iter().filter(|one| one.is_always()).map(ToString::to_string));
    said.into_iter().map(|said| format!("{}, without a bug: {said}", source.name)).collect()
}

/// Checks the programs for `library`; those without a bug for at most `limit`.
fn all(library: Library, limit: Duration) {
    let (mut wrong, mut left_out) = (Vec::new(), BTreeSet::new());
    for source in SOURCES.iter().filter(|source| source.library == library) {
        if let Err(why) = source.compile(0, tempfile::tempdir().unwrap().path()) {
            left_out.insert(why);
            continue;
        }
        wrong.extend(source.bugs.iter().filter_map(|bug| wrong_with(source, bug)));
        wrong.extend(said_of_repaired(source, limit));
    }
    // `.ci/others` shows these lines.
    left_out.iter().for_each(|why| eprintln!("left out: planted bugs, because {why}"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
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
    // These programs have more states than can be tried.
    all(Library::Libpmemobj, Duration::from_secs(10));
}
