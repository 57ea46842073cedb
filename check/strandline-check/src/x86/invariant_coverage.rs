//! Finds what an invariant does not notice, by spoiling memory after the program reached its end and no power failed.

use std::rc::Rc;

use strandline_core::memory::World;

use super::checked_program::{CheckedProgram, Interleaving, ProgramJudge};
use super::explorer::Judge;
use super::trace::Trace;
use crate::Setting;

/// The number of objects that are spoiled, at most.
const OBJECTS: usize = 64;

/// The number of names that are reported, at most.
const TOLD: usize = 8;

/// An object in memory: its name, and its words.
pub(crate) type Object = (String, Vec<u32>);

/// Tries wrong states: it inverts the words of each of `objects`, and takes the initial memory after a program that has acknowledged something.
/// Returns a sentence for each one that the invariant accepts.
pub(crate) fn uncovered(
    checked: &CheckedProgram<'_>,
    objects: impl FnOnce(&Trace) -> Vec<Object>,
) -> Vec<String> {
    let Ok(run) = checked.live(Interleaving::guided(&[], None)) else { return Vec::new() };
    let mut judge = ProgramJudge(checked);
    let expected = judge.expected(&run, run.trace.time);
    let ended = {
        let memory = judge.memory();
        memory.crash(&run.trace, run.trace.time, Setting::FlushOnFail, None, true);
        memory.given(Vec::new());
        memory.all_words()
    };
    let memory = Rc::new(judge.memory());
    let world: Rc<dyn World> = memory.clone();
    let mut accepts = |image: Vec<u64>| {
        memory.crash(&Trace::new(image), 0, judge.setting(), None, true);
        memory.given(Vec::new());
        judge.recover(&world).is_ok()
            && judge.verdict(&(memory.clone(), world.clone()), &run, &expected).is_ok()
    };
    let spoiled = |words: &[u32]| {
        let mut image = ended.clone();
        words.iter().for_each(|&word| image[word as usize] = !image[word as usize]);
        image
    };
    let objects = objects(&run.trace);
    // Choose objects spread over all of them.
    let every = objects.len().div_ceil(OBJECTS).max(1);
    let tried: Vec<&Object> = objects.iter().step_by(every).collect();
    let missed: Vec<&str> =
        tried.iter().filter(|(_, words)| accepts(spoiled(words))).map(|(name, _)| &**name).collect();
    let mut notes = Vec::new();
    let acknowledged = expected.acknowledged.len();
    if acknowledged > 0 && accepts(run.trace.initial.clone()) {
        notes.push(format!(
            "the invariant accepts what there was before the program, which has acknowledged {acknowledged} operations"
        ));
    }
    if !missed.is_empty() {
        let (first, more) = missed.split_at(missed.len().min(TOLD));
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        notes.push(format!(
            "the invariant does not notice that words are spoiled ({} of {} tried): {}{more}",
            missed.len(),
            tried.len(),
            first.join(", ")
        ));
    }
    notes
}
