//! Common parts of histories of threads over an [`X86World`].

use std::rc::Rc;

use fastrand::Rng;
use strandline_check::x86::{Policy, X86World};
use strandline_core::engine::{Control, Over, Setup, Worker};
use strandline_core::layout::{Layout, View};
use strandline_core::memory::Hosted;
use strandline_core::memory::coroutines::Thread;
use strandline_core::scheme::{Product, Schemes};

/// Leases a worker of the product's scheme.
pub fn lease<C: Control<Scheme = Product>>(view: View<&Hosted>, control: C) -> Worker<Over<C, &Hosted>> {
    Worker::lease(view, Setup { control, schemes: Schemes::default() }, None).unwrap()
}

/// Returns the words of a pool as a clean close leaves them after `transactions` transactions: the logs are empty.
pub fn closed(mut words: Vec<u64>, layout: &Layout, transactions: u64) -> Vec<u64> {
    words[(Layout::WATERMARK.offset() / 8) as usize] = transactions;
    for index in 0..layout.geometry.logs {
        let at = (layout.log(index).offset() / 8) as usize;
        words[at..at + (layout.geometry.log_bytes / 8) as usize].fill(0);
    }
    words
}

/// Runs the threads under a random schedule; in every second history, stores are delayed.
pub fn run_by_chance(world: &Rc<X86World>, threads: Vec<Thread<'_>>, random: &mut Rng) {
    let policy = match random.u8(..3) {
        0 => Policy::Random { every: random.u32(1..40) },
        1 => Policy::Priorities { every: random.u32(20..400), critical: 12, stalls: false },
        _ => Policy::Priorities { every: random.u32(20..400), critical: 10, stalls: true },
    };
    if random.bool() {
        world.delay_stores(random.u64(..));
    }
    world.run(threads, policy, random.u64(..));
}
