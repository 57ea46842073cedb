//! The oracle's trace of a run on the machine: from what the machine noted.

use std::collections::HashMap;
use std::ops::Range;

use strandline::memory::{Event, Operation};
use strandline_sim::{Note, Noted};

use crate::explore::trace::{Reader, Store, Trace};

/// A transaction that a thread is in.
#[derive(Default)]
struct Progress {
    reads: Vec<(u32, u32)>,
    update: Option<u32>,
    running: bool,
    /// Words that it has stored to in place, and the stores that were the newest before.
    before: HashMap<u32, u32>,
}

/// What `notes` tell of a pool that began as `image`; transactions write the words in `data`. Time is the number of
/// notes.
pub(super) fn trace(image: Vec<u64>, notes: &[Note], data: &Range<usize>, threads: usize) -> Trace {
    let mut newest: HashMap<u32, u32> = HashMap::new();
    let mut trace = Trace::new(image);
    let mut all: Vec<Progress> = (0..threads).map(|_| Progress::default()).collect();
    for note in notes {
        let progress = &mut all[note.thread as usize];
        match note.what {
            Noted::Load { word, saw } => {
                trace.tick();
                let own =
                    progress.update.is_some() && trace.writer(saw) == progress.update.map(|u| u as usize);
                if !data.contains(&(word as usize)) || own {
                    continue;
                }
                match progress.update {
                    None => progress.reads.push((word, saw)),
                    Some(update) if progress.running => {
                        trace.updates[update as usize].reads.push((word, saw))
                    }
                    Some(_) => {}
                }
            }
            Noted::Store { word, value } => {
                let store = Store { time: 0, word, value, thread: note.thread, source: None };
                let time = trace.store(store, false);
                if !data.contains(&(word as usize)) {
                    continue;
                }
                if progress.update.is_none() && progress.running {
                    // It stores in place before it enters commit.
                    progress.before.clear();
                    let reads = std::mem::take(&mut progress.reads);
                    progress.update = Some(trace.begin_update(note.thread, 0, reads));
                }
                if let Some(update) = progress.update {
                    trace.updates[update as usize].writes.push((word, value));
                    trace.home.push((time, update));
                }
                let before = newest.insert(word, time).unwrap_or(0);
                progress.before.entry(word).or_insert(before);
            }
            Noted::Event(event) => {
                trace.tick();
                trace.mark(note.thread, Operation::Event(event));
                boundary(&mut trace, progress, &newest, note.thread, event);
            }
        }
    }
    trace.finish();
    trace
}

fn boundary(
    trace: &mut Trace,
    progress: &mut Progress,
    newest: &HashMap<u32, u32>,
    thread: u32,
    event: Event,
) {
    let time = trace.time;
    match event {
        Event::Begin => {
            *progress = Progress { running: true, ..Progress::default() };
        }
        Event::Abort => {
            if let Some(update) = progress.update
                && trace.updates[update as usize].entered == u32::MAX
            {
                // What it stored last is what was there before: who reads that reads from who wrote it then.
                for (word, &before) in &progress.before {
                    let last = newest.get(word).copied().unwrap_or(0);
                    let writer = trace.writer(before);
                    if let Ok(at) = trace.home.binary_search_by_key(&last, |&(when, _)| when) {
                        match writer {
                            Some(writer) => trace.home[at].1 = writer as u32,
                            None => drop(trace.home.remove(at)),
                        }
                    }
                }
                // Behind all those that did something.
                trace.updates[update as usize].began = u32::MAX;
            }
            *progress = Progress::default();
        }
        Event::Executed(id) => {
            if let Some(update) = progress.update.take() {
                trace.updates[update as usize].id = id;
            }
            progress.running = false;
        }
        Event::Commit(0) => {
            let reads = std::mem::take(&mut progress.reads);
            trace.readers.push(Reader { acknowledged: time, reads });
            progress.running = false;
        }
        Event::Commit(id) => {
            if let Some(update) = trace.update_mut(id) {
                // By its own thread or another, and perhaps by both.
                update.entered = update.entered.min(time);
                return;
            }
            match progress.update {
                // All its stores have been made.
                Some(update) if progress.running => {
                    let update = &mut trace.updates[update as usize];
                    (update.id, update.entered) = (id, time);
                    progress.update = None;
                }
                _ => {
                    let update = trace.begin_update(thread, id, std::mem::take(&mut progress.reads));
                    trace.updates[update as usize].entered = time;
                    progress.update = Some(update);
                }
            }
            progress.running = false;
        }
        Event::Acknowledged(id) => {
            if let Some(update) = trace.update_mut(id) {
                update.acknowledged = update.acknowledged.min(time);
            }
        }
        _ => {}
    }
}
