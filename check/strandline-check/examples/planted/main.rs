//! A corpus of programs with planted bugs. With default options the checker must find each bug and name its kind, and must find nothing in the same
//! programs without bugs. The example prints the tables of `docs/published-bugs.md`; as a test it compares those of the programs in Rust.
//!
//! ```text
//! cargo build --release -p strandline-check-c                           # the library that records programs in C
//! cargo run --release -p strandline-check --example planted             # all thirty bugs
//! cargo run --release -p strandline-check --example planted -- hash 30  # those of one program, or one bug
//! cargo run --release -p strandline-check --example planted -- table    # fourteen mistakes in one program
//! cargo test -p strandline-check --example planted
//! ```
//!
//! The programs in C are in `strandline-check-c/tests/c/planted`, and that crate's tests check them.

mod allocator;
mod c_programs;
mod queue;
mod redo_log;
mod table;

use std::path::PathBuf;
use std::time::Instant;

use c_programs::{Bug, LIMIT, Library, SOURCES};
use strandline_check::{Check, FindingKind, Outcome, Verdict};

use FindingKind::{
    CrossFailureRace, FailingRecovery, MissingFence, MissingFlush, NonIdempotentRecovery, SumRedone,
    TornValue, UnflushedRecovery, UnrecoveredAllocation, WrongOrder,
};

/// A program in Rust, over a `Pmem`, and its bugs.
struct Program {
    name: &'static str,
    check: fn(u32) -> Check<'static>,
    bugs: &'static [Bug],
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "allocator",
        check: allocator::check,
        bugs: &[
            (
                1,
                "recovery does not free what cannot be reached",
                UnrecoveredAllocation,
                "RECIPE, pull request 14",
            ),
            (2, "a block is not flushed before it is linked", MissingFlush, "FAST_FAIR, issue 13"),
            (3, "two words are changed in place", TornValue, "memcached-pmem, pull request 5"),
        ],
    },
    Program {
        name: "redo_log",
        check: redo_log::check,
        bugs: &[
            (4, "the log has differences, which recovery adds again", SumRedone, "ARIES: logical redo"),
            (
                5,
                "recovery does not flush what it writes",
                UnflushedRecovery,
                "Haerder, Reuter 1983: redo is idempotent",
            ),
            (
                6,
                "recovery empties the log before it writes",
                NonIdempotentRecovery,
                "Haerder, Reuter 1983: redo is idempotent",
            ),
            (7, "the log's entries are flushed without a fence", MissingFence, "PMTest, Agamotto"),
        ],
    },
    Program {
        name: "queue",
        check: queue::check,
        bugs: &[
            (8, "a task is done whose being there is not durable", CrossFailureRace, "XFDetector, PMRace"),
            (9, "the length is stored before the task", WrongOrder, "memcached-pmem, issue 4"),
            (10, "recovery takes the lock that is held for ever", FailingRecovery, "RECIPE, issue 19"),
        ],
    },
];

/// Returns the path of the recording library that is built beside this example.
fn recorder() -> Result<PathBuf, String> {
    let example = std::env::current_exe().map_err(|error| error.to_string())?;
    let library = example.with_file_name("../libstrandline_check_c.so");
    let hint = "build the library that records: cargo build --release -p strandline-check-c";
    if library.exists() { Ok(library) } else { Err(hint.to_owned()) }
}

/// Returns the finding's kind, then notes, data races and redundant flushes; and the verdict, if the exploration did not end.
fn found(outcome: &Outcome) -> String {
    let mut told: Vec<String> = outcome.finding.iter().map(|finding| finding.kind.to_string()).collect();
    // A note on what the invariant does not notice misleads no reader.
    let misleads = |note: &&String| !note.contains("does not notice");
    told.extend(outcome.notes.iter().filter(misleads).cloned());
    told.extend(outcome.races.iter().map(|race| format!("data race on {}", race.word)));
    told.extend(outcome.performance.iter().filter(|one| one.is_always()).map(ToString::to_string));
    if let verdict @ Verdict::Unfinished { .. } = outcome.verdict() {
        told.push(verdict.to_string());
    }
    if told.is_empty() { "nothing".to_owned() } else { told.join("; ") }
}

/// Prints a row of the table: a program with a bug, or without one.
fn row(program: &str, library: &str, bug: Option<&Bug>, check: impl FnOnce() -> Result<Outcome, String>) {
    let began = Instant::now();
    let (told, states) = match check() {
        Ok(outcome) => (found(&outcome), outcome.counts.states.to_string()),
        Err(why) => (format!("not checked: {why}"), String::new()),
    };
    let seconds = began.elapsed().as_secs_f64();
    let told = match bug {
        Some((_, _, kind, _)) if told != kind.name() => format!("{told} (expected: {kind})"),
        _ => told,
    };
    let number = bug.map_or_else(String::new, |bug| bug.0.to_string());
    let (what, source) = bug.map_or(("none", ""), |bug| (bug.1, bug.3));
    println!("| {program} | {library} | {number} | {what} | {told} | {seconds:.2} | {states} | {source} |");
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.iter().any(|name| name == "table") {
        return table::print();
    }
    let is_wanted = |program: &str, bug: Option<&Bug>| {
        let is_named = |name: &String| name == program || bug.is_some_and(|bug| *name == bug.0.to_string());
        wanted.is_empty() || wanted.iter().any(is_named)
    };
    println!(
        "| program | memory | number | bug | found as | seconds | states | where the like was published |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for Program { name, check, bugs } in &PROGRAMS {
        for bug in bugs.iter().map(Some).chain([None]).filter(|bug| is_wanted(name, *bug)) {
            let number = bug.map_or(0, |bug| bug.0);
            row(name, "`Pmem`", bug, || Ok(check(number).exhaustive()));
        }
    }
    for source in &SOURCES {
        let library = match source.library {
            Library::Libpmem => "libpmem",
            Library::Libpmemobj => "libpmemobj",
            Library::Msync => "`msync`",
        };
        for bug in source.bugs.iter().map(Some).chain([None]).filter(|bug| is_wanted(source.name, *bug)) {
            let number = bug.map_or(0, |bug| bug.0);
            row(source.name, library, bug, || {
                let report = source.check(number, &recorder()?, LIMIT)?;
                Ok(report.outcome)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bug_is_found_as_what_it_is() {
        for Program { name, check, bugs } in &PROGRAMS {
            for &(number, what, kind, _) in *bugs {
                let check = check(number);
                let finding =
                    check.exhaustive().finding.unwrap_or_else(|| panic!("{name}, {number}: {what}"));
                assert_eq!(finding.kind, kind, "{name}, {number}: {finding}");
                let places = finding.places;
                assert!(places.crash.is_some(), "{name}, {number}: {finding}");
                assert!(kind == FailingRecovery || places.store.is_some(), "{name}, {number}: {finding}");
                let again = check.replay(&finding.replay).unwrap().finding.unwrap();
                assert_eq!((again.kind, again.places), (kind, places), "{name}, {number}: {finding}");
            }
        }
    }

    #[test]
    fn nothing_is_found_without_a_bug() {
        for Program { name, check, .. } in &PROGRAMS {
            let outcome = check(0).exhaustive();
            outcome.assert_clean();
            outcome.assert_nothing_wasted();
            assert_eq!(found(&outcome), "nothing", "{name}");
        }
    }

    /// Each kind of finding that involves a power failure has a program that shows it; the same program without the bug does not.
    #[test]
    fn each_kind_has_a_program() {
        let rust = PROGRAMS.iter().flat_map(|program| program.bugs);
        let planted: Vec<FindingKind> =
            rust.chain(SOURCES.iter().flat_map(|source| source.bugs)).map(|bug| bug.2).collect();
        let numbers = PROGRAMS.iter().flat_map(|program| program.bugs);
        let numbers = numbers.chain(SOURCES.iter().flat_map(|source| source.bugs)).map(|bug| bug.0);
        assert!(numbers.eq(1..=30));
        use FindingKind as Kind;
        // These kinds need no power failure, or occur in databases; `table` and the crate's tests cover them.
        let others = [
            Kind::WrongResult,
            Kind::StoreOutside,
            Kind::Deadlock,
            Kind::Race,
            Kind::Panic,
            Kind::UnfencedRelease,
            Kind::NotDurable,
        ];
        for kind in Kind::ALL {
            assert!(others.contains(kind) != planted.contains(kind), "{kind}");
        }
    }
}
