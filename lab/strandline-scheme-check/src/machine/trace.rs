//! Derives the oracle's trace of a run from the machine's notes.

use std::collections::HashMap;
use std::ops::Range;

use strandline_core::memory::Operation;
use strandline_sim::{Note, Noted};

use strandline_check::x86::RunningTransaction;
use strandline_check::x86::{Store, Trace};

/// Returns the trace that `notes` describe, of a pool that began as `image`; transactions write the words in `data`. Time is the number of notes.
pub(super) fn trace(image: Vec<u64>, notes: &[Note], data: &Range<usize>, threads: usize) -> Trace {
    let mut newest: HashMap<u32, u32> = HashMap::new();
    let mut trace = Trace::new(image);
    let mut running: Vec<RunningTransaction> = (0..threads).map(|_| RunningTransaction::default()).collect();
    for note in notes {
        let transaction = &mut running[note.thread as usize];
        match note.what {
            Noted::Load { word, saw } => {
                trace.tick();
                if data.contains(&(word as usize)) {
                    transaction.loads(&mut trace, word, saw);
                }
            }
            Noted::Store { word, value } => {
                let store = Store { time: 0, word, value, thread: note.thread, source: None, is_part: false };
                let time = trace.store(store, false);
                if data.contains(&(word as usize)) {
                    let before = newest.insert(word, time).unwrap_or(0);
                    transaction.stores(&mut trace, (note.thread, time), (word, value), before);
                }
            }
            Noted::Event(event) => {
                trace.tick();
                trace.mark(note.thread, Operation::Event(event));
                let newest = |word| newest.get(&word).copied().unwrap_or(0);
                transaction.event(&mut trace, note.thread, event, newest);
            }
        }
    }
    trace.finish();
    trace
}
