//! Measures how fast states are judged if recovery scans much memory: `cargo bench -p strandline-check --bench scans`.
//!
//! A program stores to some lines of 64 KB and flushes none, so that each of them survives or not. Recovery or the invariant then loads one word of
//! each of 1,000 lines, or all their 8,000 words. Each program is explored repeatedly for some seconds. `-- NAME` runs those whose name contains
//! NAME; `-- NAME once` runs each of them once, for instruction counts (`perf stat -e instructions:u`, `valgrind --tool=callgrind`).

use std::time::{Duration, Instant};

use strandline_check::{Crashed, Pmem, check};

const LONG: Duration = Duration::from_secs(3);
/// Longer than an exploration takes, even under valgrind.
const LIMIT: Duration = Duration::from_secs(600);

/// The number of lines that a scan loads.
const LINES: u64 = 1000;
/// The number of lines that the program stores to. The number of states is two to this power.
const OPEN: u64 = 14;

/// Stores to the first words of lines that lie apart.
fn scattered(pmem: &Pmem<'_>) {
    (0..OPEN).for_each(|number| pmem.store(64 * (LINES / OPEN) * number, 1));
}

/// Stores to the first words of the last lines of the scan.
fn late(pmem: &Pmem<'_>) {
    (0..OPEN).for_each(|number| pmem.store(64 * (LINES - 1 - number), 1));
}

/// Loads the first word of each line.
fn word_of_each_line(pmem: &Pmem<'_>) -> u64 {
    (0..LINES).map(|line| pmem.load(64 * line)).sum()
}

/// Loads every word.
fn all_words(pmem: &Pmem<'_>) -> u64 {
    (0..8 * LINES).map(|word| pmem.load(8 * word)).sum()
}

/// Loads every word, line by line.
fn bytes(pmem: &Pmem<'_>) -> u64 {
    let mut line = [0; 64];
    let mut sum = 0;
    for at in (0..64 * LINES).step_by(64) {
        pmem.load_bytes(at, &mut line);
        sum += line.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    sum
}

fn is_possible(sum: u64) -> Result<(), String> {
    if sum <= OPEN { Ok(()) } else { Err(format!("{sum} words survive")) }
}

fn measure(name: &str, program: fn(&Pmem<'_>), scan: fn(&Pmem<'_>) -> u64) {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let wanted = arguments.next().unwrap_or_default();
    if !name.contains(&wanted) {
        return;
    }
    let once = arguments.next().is_some();
    let began = Instant::now();
    let mut states = 0;
    loop {
        let outcome = check(program)
            .bytes(64 * 1024)
            .invariant(move |pmem: &Pmem<'_>, _: &Crashed| is_possible(scan(pmem)))
            .limit(LIMIT)
            .exhaustive();
        outcome.assert_clean();
        states += outcome.counts.states;
        if once || began.elapsed() > LONG {
            break;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: {states} states, {:.0} a second", states as f64 / seconds);
}

fn main() {
    measure("a word of each line", scattered, word_of_each_line);
    measure("a word of each line, the last ones open", late, word_of_each_line);
    measure("all words, one by one", scattered, all_words);
    measure("all words, by lines", scattered, bytes);
}
