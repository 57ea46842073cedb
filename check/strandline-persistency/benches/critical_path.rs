//! Measures the events per second of the critical-path analysis on one core, for transactions like SCT's under each model.

use std::hint::black_box;
use std::time::Instant;

use strandline_persistency::{CriticalPath, Event, Model, Place};

/// An execution of four threads with 1000 transactions. Each transaction takes its locks, writes a log entry of 16 words, reads and writes 8 words of
/// data, and commits. The data is 8 MB.
fn execution() -> Vec<(usize, Event)> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut events = Vec::new();
    for number in 0..1000 {
        let thread = number % 4;
        let log = 64 * 1024 * thread as u32 + 64 * (number as u32 / 4);
        let data: Vec<u32> = (0..8).map(|_| 1 << 20 | random.u32(..1 << 20)).collect();
        let mut emit = |event| events.push((thread, event));
        emit(Event::NewStrand);
        data.iter().for_each(|word| emit(Event::Exchange(Place::volatile(word % 4096))));
        emit(Event::PersistBarrier);
        for (i, &word) in data.iter().enumerate() {
            emit(Event::Load(Place::persistent(word)));
            emit(Event::Store(Place::persistent(log + 2 * i as u32)));
            emit(Event::Store(Place::persistent(log + 2 * i as u32 + 1)));
        }
        (0..2).for_each(|line| emit(Event::WriteBack(log / 8 + line)));
        let barrier = [Event::PersistBarrier, Event::StoreFence, Event::PersistCommit, Event::StoreFence];
        barrier.into_iter().for_each(&mut emit);
        for &word in &data {
            emit(Event::Store(Place::persistent(word)));
            emit(Event::WriteBack(word / 8));
        }
        barrier.into_iter().for_each(&mut emit);
        emit(Event::Store(Place::persistent(log + 16)));
        emit(Event::WriteBack(log / 8 + 2));
        barrier.into_iter().for_each(&mut emit);
        data.iter().for_each(|word| emit(Event::Store(Place::volatile(word % 4096))));
        emit(Event::NewStrand);
    }
    events
}

fn main() {
    let events = execution();
    println!("{:<12} {:>18}", "model", "events per second");
    for model in Model::ALL {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let mut path = CriticalPath::new(model);
            let began = Instant::now();
            for _ in 0..40 {
                for &(thread, event) in &events {
                    black_box(path.observe(thread, event));
                }
            }
            best = best.min(began.elapsed().as_secs_f64());
            black_box(path.length());
        }
        println!("{:<12} {:>15.1} M", model.name(), 40.0 * events.len() as f64 / best / 1e6);
    }
}
