//! Measures the cost of protection against stray writes: `cargo bench -p strandline --bench protection`, on a machine that has protection keys.

mod support;

use std::time::Instant;

use strandline_core::layout::Geometry;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};
use support::{folder_in_memory, median};

fn options(domain: Domain, protect: bool) -> Options {
    let geometry = Geometry { size: 16 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 14 };
    Options { domain, geometry, assume_persistent: true, protect, lock_bits: 10, ..Options::default() }
}

fn main() {
    let folder = folder_in_memory();
    let mut pools = Vec::new();
    for domain in [Domain::Process, Domain::Flush] {
        for protect in [false, true] {
            let path = folder.path().join(format!("{domain:?}{protect}"));
            match Pool::create(path, &options(domain, protect)) {
                Err(error @ Error::NoProtectionKey { .. }) => return println!("{error}"),
                pool => pools.push(pool.expect("room for a pool")),
            }
        }
    }
    let mut times = vec![Vec::new(); pools.len()];
    // The variants take turns, so that other work of the machine affects all of them equally.
    for round in 0..31 {
        for (pool, times) in pools.iter().zip(&mut times) {
            let mut worker = pool.worker().unwrap();
            let first = worker.run(|tx| tx.alloc(8 * 1024)).unwrap();
            let since = Instant::now();
            for i in 0..20_000u64 {
                let at = |n: u64| first.word((i * 7919 + n * 104_729 + round) % 1024);
                worker
                    .run(|tx| {
                        let (one, other) = (tx.read(at(0))?, tx.read(at(1))?);
                        tx.write(at(0), other + 1)?;
                        tx.write(at(1), one)
                    })
                    .unwrap();
            }
            times.push(since.elapsed().as_nanos() as f64 / 20_000.0);
            worker.run(|tx| tx.free(first)).unwrap();
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    println!(
        "a swap of two words, ns: process {:.0}, protected {:.0}; flush {:.0}, protected {:.0}",
        medians[0], medians[1], medians[2], medians[3]
    );
}
