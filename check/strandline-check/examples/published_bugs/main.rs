//! Published bugs in programs for persistent memory, from papers and issues. Each is rewritten as a program of a page, with its repair. The example
//! prints the table of `docs/published-bugs.md`, which names the sources; as a test it compares the table.
//!
//! ```text
//! cargo run --release -p strandline-check --example published_bugs
//! cargo test -p strandline-check --example published_bugs
//! ```

mod btree_map;
mod cceh;
mod fast_fair;
mod hashmap_atomic;
mod memcached_pmem;
mod p_art;
mod p_bwtree;
mod p_clht;
mod p_masstree;

use std::fmt;
use std::time::Instant;

use strandline_check::{Check, FindingKind, Outcome, Pmem, Waste};

/// The contents of recycled memory, an invalid pointer.
const STALE: u64 = 0xdead_beef_dead_bee8;

/// Fills memory as an allocator's earlier user may have left it.
fn recycle(pmem: &Pmem, from: u64, bytes: u64) {
    (from..from + bytes).step_by(8).for_each(|at| pmem.store(at, STALE));
}

/// Stores the words of an object, as a constructor does.
#[track_caller]
fn store_words(pmem: &Pmem, at: u64, words: &[u64]) {
    for (word, at) in words.iter().zip((at..).step_by(8)) {
        pmem.store(at, *word);
    }
}

/// The expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// This kind of finding, with advice that repairs it.
    Repairable(FindingKind),
    /// This kind of finding, which no flush or fence repairs.
    Finding(FindingKind),
    Waste(Waste),
}

/// A bug, and the program with and without it.
struct Published {
    program: &'static str,
    bug: &'static str,
    expected: Expected,
    with: Check<'static>,
    without: Check<'static>,
}

fn published() -> Vec<Published> {
    use Expected::{Finding, Repairable, Waste as Wasted};
    use FindingKind::{FailingRecovery, MissingFlush, NotAtomic, WrongOrder};
    macro_rules! bugs {
        ($($program:literal, $module:ident: $($bug:ident $what:literal $expected:expr;)+)+) => {
            vec![$($(Published {
                program: $program,
                bug: $what,
                expected: $expected,
                with: $module::check($module::Bug::$bug),
                without: $module::check($module::Bug::None),
            },)+)+]
        };
    }
    bugs! {
        "CCEH", cceh:
            Segment "a new segment is not flushed" Repairable(MissingFlush);
            Entry "its entry in the directory is not flushed" Repairable(MissingFlush);
            Table "the table itself is not flushed" Repairable(MissingFlush);
        "FAST_FAIR", fast_fair:
            RootPage "the constructor does not flush the root page" Repairable(MissingFlush);
            Tree "the constructor does not flush the tree" Repairable(MissingFlush);
        "P-ART", p_art:
            Epoche "the deletion lists are not flushed" Repairable(FailingRecovery);
            Tree "the tree is not flushed" Repairable(FailingRecovery);
        "P-BwTree", p_bwtree:
            AllocationMeta "a node's allocation metadata are not flushed" Repairable(WrongOrder);
            GcMetadata "a thread's last epoch is not flushed" Repairable(MissingFlush);
        "P-CLHT", p_clht:
            Object "the root object is not flushed" Repairable(MissingFlush);
            Table "the table is not flushed" Repairable(MissingFlush);
            Buckets "the buckets are not flushed" Repairable(MissingFlush);
        "P-Masstree", p_masstree:
            WrongLine "what a pointer points to is flushed, not the pointer" Repairable(MissingFlush);
        "PMDK hashmap_atomic", hashmap_atomic:
            HashFunction "the hash function is not persisted" Repairable(MissingFlush);
        "PMDK btree_map", btree_map:
            MissingAdd "a node is split without being added to the transaction" Finding(NotAtomic);
            RedundantAdd "a node is added twice in a rotation" Wasted(Waste::Redundant);
        "memcached-pmem", memcached_pmem:
            CasNotPersisted "the CAS number is not persisted" Repairable(MissingFlush);
            CasAfterLink "the CAS number is stored when the item is linked already" Finding(WrongOrder);
    }
}

/// Returns the finding, if there is one.
fn found(outcome: &Outcome) -> Option<Expected> {
    let wasted = outcome.performance.first().map(|wasted| Expected::Waste(wasted.waste));
    let finding = outcome.finding.as_ref().map(|finding| match &finding.advice {
        Some(advice) if advice.repairs => Expected::Repairable(finding.kind),
        _ => Expected::Finding(finding.kind),
    });
    finding.or(wasted)
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repairable(kind) => write!(f, "{kind}, repaired"),
            Self::Finding(kind) => write!(f, "{kind}"),
            Self::Waste(Waste::Redundant) => f.write_str("redundant flush"),
            Self::Waste(Waste::Clean) => f.write_str("flush of a clean line"),
            Self::Waste(Waste::NothingPending) => f.write_str("fence with nothing pending"),
        }
    }
}

/// Returns the result, and the median of the milliseconds that the check takes.
fn timed(check: &Check<'_>) -> (Outcome, f64) {
    let mut times: Vec<f64> = (0..RUNS - 1).map(|_| time(check).1).collect();
    let (outcome, last) = time(check);
    times.push(last);
    times.sort_by(f64::total_cmp);
    (outcome, times[RUNS / 2])
}

const RUNS: usize = 11;

fn time(check: &Check<'_>) -> (Outcome, f64) {
    let started = Instant::now();
    let outcome = check.exhaustive();
    (outcome, started.elapsed().as_secs_f64() * 1e3)
}

fn main() {
    println!("| program | bug | found as | states | ms | states without it | ms |");
    println!("|---|---|---|---|---|---|---|");
    for Published { program, bug, expected, with, without } in published() {
        let ((outcome, time), (clean, clean_time)) = (timed(&with), timed(&without));
        assert_eq!((found(&outcome), found(&clean)), (Some(expected), None), "{program}: {bug}");
        let (states, clean_states) = (outcome.counts.states, clean.counts.states);
        println!(
            "| {program} | {bug} | {expected} | {states} | {time:.2} | {clean_states} | {clean_time:.2} |"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_as_what_it_is() {
        for Published { program, bug, expected, with, .. } in published() {
            let outcome = with.exhaustive();
            let name = format!("{program}: {bug}");
            let report = outcome.finding.as_ref().map(ToString::to_string).unwrap_or_default();
            assert_eq!(found(&outcome), Some(expected), "{name}: {report}");
            if let Some(finding) = &outcome.finding {
                let again = with.replay(&finding.replay).unwrap().finding.expect(&name);
                assert_eq!(
                    (again.kind, &again.what, &again.lost),
                    (finding.kind, &finding.what, &finding.lost)
                );
            }
        }
    }

    #[test]
    fn repaired_programs_are_clean() {
        for Published { program, bug, without, .. } in published() {
            let outcome = without.exhaustive();
            let report = outcome.finding.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(outcome.finding.is_none() && outcome.is_complete(), "{program}: {bug}: {report}");
            outcome.assert_clean();
            outcome.assert_nothing_wasted();
        }
    }
}
