//! Bugs in programs for persistent memory that papers and issues have published, written anew as programs of a page each, and each
//! with what repairs it. Prints the table of `docs/published-bugs.md`, where the sources are; as a test it compares.
//!
//! ```text
//! cargo run --release -p strandline-check --no-default-features --example published_bugs
//! cargo test -p strandline-check --no-default-features --example published_bugs
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

use std::time::Instant;

use strandline_check::{Check, FindingKind, Outcome, Pmem, Waste};

/// What recycled memory holds: as a pointer it leads nowhere.
const STALE: u64 = 0xdead_beef_dead_bee8;

/// Memory that an allocator has given out before.
fn recycle(pmem: &Pmem, from: u64, bytes: u64) {
    (from..from + bytes).step_by(8).for_each(|at| pmem.store(at, STALE));
}

/// What a constructor stores: the words of an object.
#[track_caller]
fn store_words(pmem: &Pmem, at: u64, words: &[u64]) {
    for (word, at) in words.iter().zip((at..).step_by(8)) {
        pmem.store(at, *word);
    }
}

/// What must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// This, with advice that repairs it.
    Repairable(FindingKind),
    /// This, which no flush and no fence repairs.
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

/// All of them.
fn published() -> Vec<Published> {
    use Expected::{Finding, Repairable, Waste as Wasted};
    use FindingKind::{FailingRecovery, MissingFlush, WrongOrder};
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
            MissingAdd "a node is split without being added to the transaction" Finding(WrongOrder);
            RedundantAdd "a node is added twice in a rotation" Wasted(Waste::Redundant);
        "memcached-pmem", memcached_pmem:
            CasNotPersisted "the CAS number is not persisted" Repairable(MissingFlush);
            CasAfterLink "the CAS number is stored when the item is linked already" Finding(WrongOrder);
    }
}

fn found(outcome: &Outcome) -> String {
    match (&outcome.finding, outcome.performance.first()) {
        (Some(finding), _) => {
            let advice = finding.advice.as_ref().filter(|advice| advice.repairs);
            format!("{}{}", finding.kind, if advice.is_some() { ", repaired" } else { "" })
        }
        (None, Some(wasted)) => wasted.to_string().split(':').next().unwrap_or_default().to_owned(),
        (None, None) => "nothing".to_owned(),
    }
}

fn main() {
    println!("| program | bug | found as | states | ms | states without it | ms |");
    println!("|---|---|---|---|---|---|---|");
    for Published { program, bug, with, without, .. } in published() {
        let timed = |check: &Check<'_>| {
            let started = Instant::now();
            let outcome = check.exhaustive();
            (outcome, started.elapsed().as_secs_f64() * 1e3)
        };
        let ((outcome, time), (clean, clean_time)) = (timed(&with), timed(&without));
        let (states, clean_states) = (outcome.counts.states, clean.counts.states);
        let found = found(&outcome);
        println!("| {program} | {bug} | {found} | {states} | {time:.1} | {clean_states} | {clean_time:.1} |");
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
            let found = match (&outcome.finding, outcome.performance.first()) {
                (Some(finding), _) => match &finding.advice {
                    Some(advice) if advice.repairs => Expected::Repairable(finding.kind),
                    _ => Expected::Finding(finding.kind),
                },
                (None, Some(wasted)) => Expected::Waste(wasted.waste),
                (None, None) => panic!("{name}: nothing is found"),
            };
            let report = outcome.finding.as_ref().map(ToString::to_string).unwrap_or_default();
            assert_eq!(found, expected, "{name}: {report}");
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
