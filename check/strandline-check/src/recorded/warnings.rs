//! Reasons why a recording may mislead: what the recorder has not seen of a program, and how to record it.

use super::places::Places;
use super::recording::{Recording, What};

/// Advice on how to record flushes and fences.
const REMEDY: &str = "compile the program with `-include strandline_check.h -DSTRANDLINE_CHECK`, which records its intrinsics, \
    link libpmem dynamically, so that its calls are recorded, or check a recording that another tool made (--recording)";
/// The number of places that a note names, at most.
const NAMED: usize = 3;

/// Returns the reason why a recording has no mapping of the pool, as the end of a sentence.
pub(super) fn why_nothing(recording: &Recording, is_changed: bool) -> String {
    let mut why = match &*recording.programs {
        [] => "; the recorder was loaded into no process: is the program linked statically, or does it start without LD_PRELOAD?".to_owned(),
        programs => format!("; the recorder was loaded into {}", programs.join(", ")),
    };
    if is_changed {
        why += "; the pool's file was changed, but not by way of a recorded mapping: calls such as write are not recorded";
    }
    with_notes(why, recording)
}

/// Returns the reason why a recording has no store, as the end of a sentence, and advice.
pub(super) fn why_no_store(recording: &Recording, is_changed: bool, only_marked: bool) -> String {
    let why = match (is_changed, only_marked) {
        (false, _) => "and the pool is as it was: give a command that changes it",
        (true, true) => {
            "though the pool has changed: leave out --only-marked, or make its stores with the macros of strandline_check.h"
        }
        (true, false) => {
            "though the pool has changed: make its stores with the macros of strandline_check.h or the functions of libpmem, \
             or check a recording that another tool made (--recording)"
        }
    };
    with_notes(why.to_owned(), recording)
}

fn with_notes(mut why: String, recording: &Recording) -> String {
    recording.notes.iter().for_each(|note| why += &format!("; {note}"));
    why
}

/// Returns notes that the reader of a report should know before its finding.
pub(super) fn notes(recording: &Recording, places: &mut Places) -> Vec<String> {
    let mut notes = recording.notes.clone();
    let has_flush = recording.has(|what| matches!(what, What::Flush { .. }));
    let has_fence = recording.has(|what| matches!(what, What::Fence));
    let (count, first) = places.unrecorded_instructions();
    let missing = match (has_flush, has_fence) {
        (true, true) => None,
        (false, true) => Some("no flush was recorded in the whole run, so every store counts as not flushed"),
        (true, false) => Some("no fence was recorded in the whole run, so no flush counts as completed"),
        (false, false) => {
            Some("no flush and no fence was recorded in the whole run, so every store counts as not flushed")
        }
    };
    let unseen = (count > 0).then(|| {
        let named: Vec<String> =
            first.iter().take(NAMED).map(|(what, place)| format!("{what} ({place})")).collect();
        let more = if first.len() > NAMED { ", ..." } else { "" };
        format!(
            "the program has {count} flush and fence instructions that are not recorded: {}{more}",
            named.join(", ")
        )
    });
    match (missing, unseen) {
        (None, None) => {}
        (Some(missing), None) => notes.push(format!("{missing}; if the program does it, {REMEDY}")),
        (None, Some(unseen)) => notes.push(format!("{unseen}; a finding may be due to that: {REMEDY}")),
        (Some(missing), Some(unseen)) => notes.push(format!("{missing}; {unseen}: {REMEDY}")),
    }
    notes
}
