//! Tries the user's commands before exploring crashes: they must accept the finished run, and should notice damage.

use std::time::{Duration, Instant};

use super::judge::Processes;
use crate::Session;
use crate::x86::Crashed;
use crate::x86::checked_program::Run;

/// The number of objects that are spoiled, at most.
const OBJECTS: usize = 32;
/// The number of objects that a note names, at most.
const NAMED: usize = 6;
/// The factor by which the commands may take longer on a spoiled image than on the finished run, and the least time that they get.
const SLOWER: u32 = 20;
const LEAST: Duration = Duration::from_millis(300);

/// The results of the trial.
#[derive(Default)]
pub(super) struct Tried {
    /// Why the commands refuse the finished run, if they do.
    pub refusal: Option<String>,
    /// Faults that the commands do not notice.
    pub notes: Vec<String>,
}

/// An object that the program stored to.
struct Object {
    name: String,
    /// The word of it that was stored last.
    word: u32,
}

/// Runs recovery and check on the image of the finished run, on images with one spoiled word, and on an empty pool. Takes about `limit`, unless
/// `session` ends it.
pub(super) fn try_commands(
    processes: &Processes<'_>,
    run: &Run,
    finished: &[u64],
    labels: &[(u64, u64, String)],
    limit: Duration,
    session: &Session,
) -> Tried {
    let crashed = Crashed { acknowledged: run.trace.acknowledged(run.trace.time) };
    let began = Instant::now();
    let accepted = processes.outcome(finished, &crashed);
    let patience = (SLOWER * began.elapsed()).max(LEAST);
    let mut tried = Tried::default();
    if processes.failure.borrow().is_some() {
        return tried;
    }
    if let Err(what) = accepted {
        let who = if what.starts_with("recovery ") { "recovery" } else { processes.judge_name() };
        tried.refusal = Some(format!("{who} refuses the finished run, without a power failure: {what}"));
        return tried;
    }
    let is_noticed = |image: &[u64]| processes.outcome_within(patience, image, &crashed).is_err();
    let objects = objects(run, labels, processes.name);
    let mut missed = Vec::new();
    let mut count = 0;
    for object in &objects {
        if began.elapsed() > limit || session.is_stopped() || processes.failure.borrow().is_some() {
            break;
        }
        let mut image = finished.to_vec();
        image[object.word as usize] = !image[object.word as usize];
        count += 1;
        if !is_noticed(&image) {
            missed.push(object.name.as_str());
        }
    }
    let who = processes.judge_name();
    if !missed.is_empty() {
        let more = if missed.len() > NAMED { ", ..." } else { "" };
        let named = missed[..missed.len().min(NAMED)].join(", ");
        tried.notes.push(format!(
            "{who} does not notice a spoiled word in {} of {count} objects: {named}{more}; their loss alone is not found",
            missed.len()
        ));
    }
    let is_empty = finished.iter().all(|&word| word == 0);
    if !is_empty && !is_noticed(&vec![0; finished.len()]) && processes.failure.borrow().is_none() {
        let hint = match crashed.acknowledged.is_empty() {
            true => " (what the program acknowledges with strandline_acknowledge, the check may demand)",
            false => "",
        };
        tried.notes.push(format!(
            "{who} accepts an empty pool of the same size, so it does not notice when everything is lost{hint}"
        ));
    }
    tried
}

/// Returns the objects that the program stored to, spread over the pool: labelled ones, or else adjacent words of one line.
fn objects(run: &Run, labels: &[(u64, u64, String)], name: &dyn Fn(u32) -> String) -> Vec<Object> {
    let mut stores: Vec<_> = run.trace.lines.iter().flat_map(|line| &line.stores).collect();
    stores.sort_by_key(|store| store.word);
    let mut found = Vec::new();
    if labels.is_empty() {
        let is_one = |one: u32, other: u32| other - one <= 1 && one / 8 == other / 8;
        for stores in stores.chunk_by(|one, other| is_one(one.word, other.word)) {
            let Some(last) = stores.iter().max_by_key(|store| store.time) else { continue };
            let place = last.source.map_or_else(String::new, |source| format!(" ({source})"));
            found.push(Object { name: format!("{}{place}", name(last.word)), word: last.word });
        }
    } else {
        for (number, (at, bytes, label)) in labels.iter().enumerate() {
            let is_known = labels[..number].iter().any(|(other, _, name)| (other, name) == (at, label));
            let words = at / 8..(at + bytes).div_ceil(8);
            let within = stores.iter().filter(|store| words.contains(&u64::from(store.word)));
            if let (false, Some(last)) = (is_known, within.max_by_key(|store| store.time)) {
                found.push(Object { name: label.clone(), word: last.word });
            }
        }
    }
    let count = found.len();
    let is_chosen =
        |number: usize| count <= OBJECTS || number * OBJECTS / count != (number + 1) * OBJECTS / count;
    found.into_iter().enumerate().filter(|(number, _)| is_chosen(*number)).map(|(_, object)| object).collect()
}
