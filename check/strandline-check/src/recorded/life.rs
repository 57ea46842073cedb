//! Converts a recording into a run whose crashes the explorer explores.

use std::collections::HashSet;

use strandline_core::memory::{Event, Operation, Space, Step, World};

use super::recording::{Recorded, Recording, What};
use crate::Setting;
use crate::pmem::Repair;
use crate::x86::checked_program::Run;
use crate::x86::panics::Stopped;
use crate::x86::site;
use crate::x86::world::X86World;

/// The steps under which a recording's write-backs and fences appear: those of a program's own commit.
const STEPS: (Step, Step) = (Step::CommitWriteBack, Step::CommitFence);

/// Returns the words that change when `bytes` are stored at `at`; `there` loads the present value of a word.
pub(super) fn words(at: u64, bytes: &[u8], mut there: impl FnMut(u64) -> u64) -> Vec<(u64, u64)> {
    let (first, end) = (at / 8 * 8, at + bytes.len() as u64);
    let word = |word: u64| {
        let is_part = word < at || word + 8 > end;
        let mut value = if is_part { there(word) } else { 0 }.to_le_bytes();
        for (byte, place) in value.iter_mut().zip(word..) {
            if let Some(new) = place.checked_sub(at).and_then(|within| bytes.get(within as usize)) {
                *byte = *new;
            }
        }
        (word, u64::from_le_bytes(value))
    };
    (first..end).step_by(8).map(word).collect()
}

/// The lines of a range.
fn lines(at: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (at / 64 * 64..at.saturating_add(bytes)).step_by(64)
}

/// Runs the recorded program on a pool that holds `image`, with `repairs`. Also returns the pool's final contents.
pub(super) fn run(
    recording: &Recording,
    image: &[u64],
    setting: Setting,
    repairs: &[Repair],
) -> (Run, Vec<u64>) {
    let world = X86World::new(image.to_vec(), 8, 0..0, recording.threads.max(1), setting, None);
    world.run_recorded();
    let mut replay = Replay { world: &world, stored: HashSet::new(), bytes: 8 * image.len() as u64 };
    let mut stopped = None;
    for recorded in &recording.operations {
        stopped = replay.perform(recorded).or(stopped);
        let at = recorded.site.map(|site| site.at);
        for repair in repairs.iter().filter(|repair| Some(repair.behind) == at) {
            replay.repair(recorded, *repair);
        }
    }
    let contents = world.contents();
    let run = Run {
        trace: world.finish(),
        choices: Vec::new(),
        found_shared: Default::default(),
        schedule: Vec::new(),
        races: Vec::new(),
        stopped,
    };
    (run, contents)
}

struct Replay<'w> {
    world: &'w X86World,
    /// Lines that were stored to.
    stored: HashSet<u64>,
    bytes: u64,
}

impl Replay<'_> {
    /// Executes an operation. Returns the reason if the program must stop.
    fn perform(&mut self, recorded: &Recorded) -> Option<Stopped> {
        let &Recorded { thread, site, ref what } = recorded;
        let tell = || site.into_iter().for_each(site::set);
        let place = || site.map_or_else(String::new, |site| format!(" ({site})"));
        match what {
            What::Store { at, bytes } => {
                let there = |at| self.world.peek(thread, Space::Persistent, at);
                let words = words(*at, bytes, there);
                site::set_part(words.len() > 1);
                for &(at, value) in words.iter().filter(|(at, _)| *at < self.bytes) {
                    tell();
                    self.stored.insert(at / 64);
                    self.world.perform(thread, Operation::Store(Space::Persistent, at, value));
                }
                site::set_part(false);
            }
            What::Flush { at, bytes } => {
                self.flush_range(thread, *at, *bytes, tell);
            }
            What::Fence => {
                tell();
                self.world.perform(thread, Operation::Fence(STEPS.1));
            }
            What::Acknowledge(number) => {
                tell();
                self.world.perform(thread, Operation::Event(Event::Acknowledged(*number)));
            }
            What::Outside(what, bytes) => {
                return Some(Stopped::Outside(format!(
                    "thread {thread}: a {what} of {bytes} bytes is outside the pool{}",
                    place()
                )));
            }
            What::Fault(true) => {
                return Some(Stopped::Outside(format!(
                    "thread {thread}: a store behind the end of the pool{}",
                    place()
                )));
            }
            What::Fault(false) => {
                return Some(Stopped::Panic(format!(
                    "thread {thread}: an access to memory that is not there{}",
                    place()
                )));
            }
        }
        None
    }

    fn flush_range(&self, thread: usize, at: u64, bytes: u64, tell: impl Fn()) {
        let several = lines(at, bytes).nth(1).is_some();
        let mut flushed = 0;
        for line in lines(at, bytes).filter(|&line| line < self.bytes) {
            // A range flush counts only for lines that have been stored to.
            if !several || self.stored.contains(&(line / 64)) {
                self.flush(thread, line, &tell);
                flushed += 1;
            }
        }
        if flushed == 0 && at < self.bytes {
            self.flush(thread, at, &tell);
        }
    }

    /// Executes a flush. The recording does not tell which threads' stores mattered to it, so it covers all earlier stores to the line.
    fn flush(&self, thread: usize, at: u64, tell: impl Fn()) {
        for word in (at / 64 * 64..at / 64 * 64 + 64).step_by(8).filter(|&word| word < self.bytes) {
            self.world.perform(thread, Operation::Load(Space::Persistent, word));
        }
        tell();
        self.world.perform(thread, Operation::WriteBack(at, STEPS.0));
    }

    fn repair(&self, recorded: &Recorded, repair: Repair) {
        if let (true, What::Store { at, bytes }) = (repair.flush, &recorded.what) {
            lines(*at, bytes.len() as u64)
                .filter(|&line| line < self.bytes)
                .for_each(|line| self.flush(recorded.thread, line, || ()));
        }
        if repair.fence {
            self.world.perform(recorded.thread, Operation::Fence(STEPS.1));
        }
    }
}
