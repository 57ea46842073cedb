//! Measures the speed of the simulator: simulated memory accesses per second of the host's processor time.
//!
//! `cargo bench -p strandline-sim --bench speed`. Uses processor time instead of elapsed time, since the host may be shared.

use std::hint::black_box;
use std::rc::Rc;

use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::{Hosted, Memory, PersistentAddress};
use strandline_sim::controller::{Channel, Medium, NOT_HELD, Regions};
use strandline_sim::numbers::{Cycle, LineNumber};
use strandline_sim::nvm::Banks;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_sim::{Contents, Description, Machine, scheme};
use strandline_workloads::{HASH, SPS, Sizes, WorkloadKind};

#[path = "../tests/all/support.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod support;

/// Returns the processor time of this process so far, in seconds.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn report(what: &str, operations: u64, since: f64) {
    let seconds = processor_time() - since;
    println!("{what:58} {:8.2} M/s  ({:.2} s)", operations as f64 / seconds / 1e6, seconds);
}

/// Runs loads and stores, two to one, over `words` words; three quarters of them are near the previous one.
fn synthetic(description: &Description, threads: usize, accesses: u64, words: u64) -> (u64, f64) {
    let contents = Contents {
        persistent: vec![0; (threads as u64 * words) as usize],
        volatile_bytes: 4096,
        regions: Regions::default(),
    };
    let machine = Rc::new(Machine::new(description, contents, None, None).unwrap());
    let since = processor_time();
    let bodies = (0..threads)
        .map(|thread| {
            Box::new(move |memory: &Hosted| {
                let mut random = 88172645463325252u64 + thread as u64;
                let mut at = 0;
                let mut sum = 0;
                for i in 0..accesses {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    at = if random & 3 == 0 { (random >> 8) % words } else { (at + 1) % words };
                    let address = PersistentAddress::new(8 * (thread as u64 * words + at));
                    if i % 3 == 2 {
                        memory.store(address, i);
                    } else {
                        sum += memory.load(address);
                    }
                }
                black_box(sum);
            }) as Thread<'_>
        })
        .collect();
    machine.run(bodies);
    (machine.accesses(), since)
}

fn workload(what: &str, description: &Description, name: WorkloadKind, threads: usize, transactions: u64) {
    let sizes = Sizes { array_words: 100_000, buckets: 50_000, hash_keys: 100_000, ..Sizes::default() };
    let pool = PoolSizes { lock_bits: 16, ..PoolSizes::default() };
    let prepared = Prepared::new(name, &sizes, pool, threads).unwrap();
    let run = Run {
        scheme: "bppm".parse().unwrap(),
        threads,
        transactions,
        warm_up: 100,
        idle_percent: 0,
        seed: 1,
    };
    let since = processor_time();
    let finished = prepared.run(description, scheme::find("none").unwrap(), &run, Vec::new()).unwrap();
    report(what, finished.accesses, since);
}

fn controller(requests: u64) {
    let description = support::mesh(4);
    let mut channel =
        Channel::new("0.0".into(), &description.controllers, Banks::new(&description.nvm, &description));
    let lines = 1u64 << 16;
    let mut medium = Medium { words: vec![0; lines as usize * 8], held: vec![NOT_HELD; lines as usize] };
    let since = processor_time();
    let (mut random, mut now) = (88172645463325252u64, Cycle::ZERO);
    for i in 0..requests {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let line = (random >> 20) % lines;
        if i % 3 == 0 {
            channel.write((LineNumber::new(line as u32), line), (&[i; 8], 0xff), 0, now, &mut medium);
        } else {
            black_box(channel.read(LineNumber::new(line as u32), line, now, &mut medium));
        }
        now += 40 + random % 64;
    }
    report("one channel alone, a third of the requests writes", requests, since);
}

fn main() {
    // `cargo bench` passes --bench; another argument selects the lines that contain it.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let synthetic = |what: &str, machine: Description, accesses, words| {
        if what.contains(&filter) {
            let threads = machine.cores.count;
            let (accesses, since) = synthetic(&machine, threads, accesses, words);
            report(what, accesses, since);
        }
    };
    synthetic("one in-order core, three levels, 32 KB", support::three_levels(), 20_000_000, 1 << 12);
    synthetic("one in-order core, three levels, 2 MB", support::three_levels(), 5_000_000, 1 << 18);
    synthetic("32 out-of-order cores, 32 KB each", support::mesh(32), 200_000, 1 << 12);
    synthetic("32 out-of-order cores, 2 MB each", support::mesh(32), 50_000, 1 << 18);
    let workload = |description: Description, name: WorkloadKind, threads, transactions| {
        let what = format!("bppm {} on {threads} of {} cores", name.name, description.cores.count);
        if what.contains(&filter) {
            workload(&what, &description, name, threads, transactions);
        }
    };
    workload(support::three_levels(), &SPS, 1, 100_000);
    workload(support::three_levels(), &HASH, 1, 50_000);
    workload(support::mesh(32), &SPS, 4, 3_000);
    workload(support::mesh(32), &SPS, 32, 3_000);
    workload(support::mesh(32), &HASH, 32, 2_000);
    if "one channel alone".contains(&filter) {
        controller(4_000_000);
    }
}
