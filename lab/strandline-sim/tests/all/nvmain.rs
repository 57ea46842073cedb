use strandline_sim::controller::{Channel, Medium, NOT_HELD};
use strandline_sim::description::Description;
use strandline_sim::numbers::{Cycle, LineNumber};
use strandline_sim::nvm::Banks;

const REQUESTS: u64 = 2000;
const LINES: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    RandomReads,
    SequentialReads,
    RandomWrites,
    SequentialWrites,
    Mix,
}

struct Generator {
    stream: Stream,
    number: u64,
    sequential: u64,
    random: u64,
}
impl Iterator for Generator {
    type Item = (bool, u64);
    fn next(&mut self) -> Option<(bool, u64)> {
        let number = self.number;
        self.number += 1;
        let (write, random) = match self.stream {
            Stream::RandomReads => (false, true),
            Stream::SequentialReads => (false, false),
            Stream::RandomWrites => (true, true),
            Stream::SequentialWrites => (true, false),
            Stream::Mix => (number % 3 == 2, number % 2 == 1),
        };
        let line = if random {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 20) % LINES
        } else {
            self.sequential += 1;
            self.sequential - 1
        };
        (number < REQUESTS).then_some((write, line))
    }
}
fn measure(machine: &Description, stream: Stream, outstanding: usize, posted: bool) -> f64 {
    let banks = Banks::new(&machine.nvm, machine);
    let mut channel = Channel::new("0.0".into(), &machine.controllers, banks);
    channel.record_times();
    let mut medium = Medium { words: vec![0; 8 * LINES as usize], held: vec![NOT_HELD; LINES as usize] };
    let step = machine.cycles(2.5);
    let mut now = Cycle::ZERO;
    let mut ends: Vec<Cycle> = Vec::new();
    let mut unknown = 0;
    let mut last = Cycle::ZERO;
    for (write, line) in (Generator { stream, number: 0, sequential: 0, random: 88_172_645_463_325_252 }) {
        while ends.len() + unknown >= outstanding {
            let known = ends.iter().copied().min().unwrap_or(Cycle::NEVER);
            let next = channel.next_event();
            if unknown > 0 && next < known {
                channel.advance(next + 1, &mut medium);
            } else {
                now = now.max(known);
                let at = ends.iter().position(|&end| end == known).unwrap();
                ends.remove(at);
            }
            for begun in channel.take_begun() {
                ends.push(begun.done);
                unknown -= 1;
            }
        }
        let place = LineNumber::new(line as u32);
        if write {
            let waiters = u64::from(!posted);
            let (accepted, _) = channel.write((place, line), (&[0; 8], 0xff), waiters, now, &mut medium);
            if posted {
                now = now.max(accepted);
            } else {
                unknown += 1;
            }
        } else {
            let (done, _) = channel.read(place, line, now, &mut medium);
            ends.push(done);
            last = last.max(done);
        }
        for begun in channel.take_begun() {
            ends.push(begun.done);
            unknown -= 1;
        }
        now += step;
    }
    channel.wait_for_all(strandline_sim::numbers::CoreId::new(63));
    while channel.held() > 0 {
        let next = channel.next_event();
        channel.advance(next + 1, &mut medium);
    }
    last = channel.take_times().into_iter().fold(last, Cycle::max);
    last.number() as f64 / REQUESTS as f64 * 1000.0 / machine.cores.frequency_mhz as f64
}

#[test]
fn figures() {
    use Stream::*;
    let set: Vec<String> =
        std::env::var("SET").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    let machine = strandline_sim::file::load("pcm", &set).unwrap();
    for stream in [RandomReads, SequentialReads, RandomWrites, SequentialWrites, Mix] {
        for k in [1, 8] {
            eprintln!(
                "{stream:?} {k} posted {:.2} closed {:.2}",
                measure(&machine, stream, k, true),
                measure(&machine, stream, k, false)
            );
        }
    }
}
