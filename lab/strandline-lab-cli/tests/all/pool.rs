//! `strandline-lab pool`: pools that only this command can open.

use std::process::Command;

use strandline_core::{Concurrency, Domain, Options, Pool, Read, Runner, Transaction};
use strandline_schemes::{BASE, laboratory};

/// The error with which an application refuses the pool names a command that recovers it.
#[test]
fn a_pool_that_another_scheme_left_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool").display().to_string();
    let options = Options { domain: Domain::Process, ..Options::default() };
    Pool::create(&path, &options).unwrap().close().unwrap();
    let pool = laboratory(Concurrency::Stm).open(&path, &options).unwrap();
    let mut worker = pool.worker_of(&BASE).unwrap();
    worker.run(|tx| tx.write(tx.root(0), 5)).unwrap();
    // The pool is dropped while a worker exists, so it is not closed.
    drop(pool);
    drop(worker);

    let refused = Pool::open(&path, &options).err().unwrap().to_string();
    assert!(refused.contains(&path) && refused.contains("strandline-lab pool recover"), "{refused}");
    let recover =
        Command::new(env!("CARGO_BIN_EXE_strandline-lab")).args(["pool", "recover", &path]).output();
    let out = String::from_utf8(recover.unwrap().stdout).unwrap();
    assert!(out.contains("the pool is closed"), "{out}");
    let pool = Pool::open(&path, &options).unwrap();
    assert_eq!(pool.worker().unwrap().view(|tx| tx.read(tx.root(0))).unwrap(), 5);
}
