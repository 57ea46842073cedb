//! The memory that is allocated for large values. This test is a program of its own, because its allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use strandline::{Database, Table};

/// Counts the bytes that are allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, which is the same here.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of `body`, and the largest number of bytes that were allocated at a time, beyond those that were allocated before it.
fn most_in<R>(body: impl FnOnce() -> R) -> (R, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let done = body();
    (done, MOST.load(Ordering::Relaxed) - before)
}

#[test]
fn a_large_value_takes_its_own_memory_and_little_more() {
    const BYTES: usize = 40 << 20;
    let folder = tempfile::tempdir().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let films: Table<u64, Vec<u8>> = db.table("films").unwrap();
    let numbers: Table<u64, Vec<u32>> = db.table("numbers").unwrap();
    let set = |value: &Vec<u8>| most_in(|| db.write(|tx| films.set(tx, &1, value)).unwrap()).1;
    // The first write starts threads, which allocate buffers.
    set(&vec![1; 1 << 20]);
    // Once in whole words, and once not.
    for bytes in [BYTES, BYTES + 3] {
        let value: Vec<u8> = (0..bytes).map(|at| (at / 5) as u8).collect();
        let most = set(&value);
        assert!(most < bytes / 10, "{most} for a value of {bytes} bytes that is stored");
        let (read, most) = most_in(|| db.read(|tx| films.get(tx, &1)).unwrap().unwrap());
        assert!(read == value && most < bytes + bytes / 10, "it is read");
        drop(read);
        let insert = || db.write(|tx| films.insert(tx, &1, &value)).unwrap();
        let (old, most) = most_in(insert);
        assert!(
            old.as_ref() == Some(&value) && most < bytes + bytes / 10,
            "{most} of {bytes}: it is replaced, and returned"
        );
    }
    let value: Vec<u32> = (0..BYTES as u32 / 4).collect();
    assert!(most_in(|| db.write(|tx| numbers.set(tx, &1, &value)).unwrap()).1 < BYTES / 10);
    let (read, most) = most_in(|| db.read(|tx| numbers.get(tx, &1)).unwrap().unwrap());
    assert!(read == value && most < BYTES + BYTES / 10);
    // Piece by piece, so that the whole value is never in memory.
    let (_, most) =
        most_in(|| db.write(|tx| films.set_from(tx, &2, BYTES as u64, std::io::repeat(7))).unwrap());
    assert!(most < 4 << 20, "{most} bytes for a value that is streamed");
    let copy = || {
        db.read(|tx| {
            let mut film = films.reader(tx, &2)?.unwrap();
            Ok(std::io::copy(&mut film, &mut std::io::sink()).unwrap())
        })
    };
    let (copied, most) = most_in(copy);
    assert!(
        copied.unwrap() == BYTES as u64 && most < 4 << 20,
        "{most} bytes for a value that is read in pieces"
    );
    db.close().unwrap();
}
