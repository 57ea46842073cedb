//! Protection against stray writes, tested with a process that makes one. If the processor or the system has no protection keys, there is nothing to
//! test; see `tests/all/protection.rs`.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use strandline_core::layout::Geometry;
use strandline_core::{Domain, Error, Options, Pool, Read, Runner, Transaction};

fn options(protect: bool) -> Options {
    let geometry = Geometry { size: 16 << 20, logs: 4, log_bytes: 1 << 16, chunk_bytes: 1 << 14 };
    Options { domain: Domain::Process, geometry, protect, lock_bits: 10, ..Options::default() }
}

/// Returns the address at which `path` is mapped in this process.
fn mapped_at(path: &Path) -> *mut u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
    usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap() as *mut u64
}

const CHILD: &str = "STRANDLINE_STRAY_WRITE";

/// The test below runs this in a process of its own. It writes to the pool without the library, even within a transaction.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let protect = std::env::var("STRANDLINE_PROTECT").is_ok();
    let pool = Pool::open(Path::new(&path), &options(protect)).unwrap();
    let mut worker = pool.worker().unwrap();
    let stray = mapped_at(Path::new(&path));
    worker
        .run(|tx| {
            tx.write(tx.root(0), 1)?;
            // SAFETY: there is none: this is the bug against which the protection helps. The word is in the header and unused.
            unsafe { stray.add(300).write_volatile(1) };
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_stray_write_is_a_segmentation_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("pool");
    match Pool::create(&path, &options(true)) {
        Err(Error::NoProtectionKey { .. }) => return,
        pool => pool.unwrap().close().unwrap(),
    }
    let run = |protect: bool| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "stray_write::child", "--test-threads=1"]).env(CHILD, &path);
        if protect {
            child.env("STRANDLINE_PROTECT", "1");
        }
        child.output().unwrap().status
    };
    assert_eq!(run(true).signal(), Some(11), "SIGSEGV");
    let pool = Pool::open(&path, &options(true)).unwrap();
    assert_eq!(pool.worker().unwrap().run(|tx| tx.read(tx.root(0))).unwrap(), 0, "nothing was committed");
    pool.close().unwrap();
    // Without protection, the same write goes unnoticed until the header is next read.
    assert!(run(false).success());
    assert!(matches!(Pool::open(&path, &options(true)), Err(Error::DamagedHeader { .. })));
}
