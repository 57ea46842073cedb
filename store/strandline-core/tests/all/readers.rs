//! Read-only transactions: each sees one consistent state, and is not affected by the transaction before it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::path_and_options;
use strandline_core::memory::Native;
use strandline_core::{Abort, Concurrency, Error, Read, Runner, Transaction};

/// A kind of transaction that reads a word.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Reads,
    ReadsAndGivesUp,
    ReadsAndPanics,
    ReadsAndTriesToWrite,
    ReadsWithSavepoint,
    ReadsWhatIsNotThere,
    Writes(u64),
    WritesAfterSavepoint(u64),
    WritesAndGivesUp(u64),
    WritesNothing,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::Reads),
        1 => Just(Kind::ReadsAndGivesUp),
        1 => Just(Kind::ReadsAndPanics),
        1 => Just(Kind::ReadsAndTriesToWrite),
        1 => Just(Kind::ReadsWithSavepoint),
        1 => Just(Kind::ReadsWhatIsNotThere),
        2 => any::<u64>().prop_map(Kind::Writes),
        1 => any::<u64>().prop_map(Kind::WritesAfterSavepoint),
        1 => any::<u64>().prop_map(Kind::WritesAndGivesUp),
        1 => Just(Kind::WritesNothing),
    ]
}

/// Runs such transactions. Each must behave as if it were the first.
fn do_not_matter_to_the_next(setup: Setup<impl Control<Memory = Native>>, kinds: &[Kind]) {
    let (path, options) = path_and_options();
    let pool = setup.create(&path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let root = pool.layout().root(0);
    let (mut expected, mut savepoint) = (0, 0);
    let (mut commits, mut readers) = (0, 0);
    for kind in kinds {
        match *kind {
            Kind::Reads => {
                // The number of another transaction's savepoint is not valid here.
                let seen = worker.view(|tx| {
                    assert!(!tx.roll_back_to(savepoint)?);
                    tx.read(root)
                });
                assert_eq!(seen.unwrap(), expected);
                readers += 1;
            }
            Kind::ReadsAndGivesUp => {
                let given_up = worker.view(|tx| tx.read(root).and(Err::<(), _>(Abort::User)));
                assert!(matches!(given_up, Err(Error::Aborted)));
            }
            Kind::ReadsAndPanics => {
                let panicked = AssertUnwindSafe(|| {
                    worker.view(|tx| -> Result<(), Abort> {
                        assert_eq!(tx.read(root)?, expected);
                        std::panic::resume_unwind(Box::new("of its own"));
                    })
                });
                assert!(catch_unwind(panicked).is_err());
            }
            Kind::ReadsAndTriesToWrite => {
                // The transaction fails although its closure ignores the error.
                let tried = worker.view(|tx| Ok(tx.write(root, !expected).is_ok()));
                assert!(matches!(tried, Err(Error::ReadOnly)));
            }
            Kind::ReadsWithSavepoint => {
                // The savepoint still exists when the transaction ends.
                let seen = worker.view(|tx| {
                    savepoint = tx.set_savepoint();
                    tx.read(root)
                });
                assert_eq!(seen.unwrap(), expected);
                readers += 1;
            }
            Kind::ReadsWhatIsNotThere => {
                let outside = root.word(1 << 40);
                let sought = worker.view(|tx| tx.read(outside));
                assert!(matches!(sought, Err(Error::InvalidAddress(at)) if at == outside.offset()));
            }
            Kind::Writes(value) => {
                worker.run(|tx| tx.write(root, value)).unwrap();
                (expected, commits) = (value, commits + 1);
            }
            Kind::WritesAfterSavepoint(value) => {
                worker
                    .run(|tx| {
                        tx.write(root, value)?;
                        let savepoint = tx.set_savepoint();
                        tx.write(root, !value)?;
                        assert!(tx.roll_back_to(savepoint)?);
                        Ok(())
                    })
                    .unwrap();
                (expected, commits) = (value, commits + 1);
            }
            Kind::WritesAndGivesUp(value) => {
                let given_up = worker.run(|tx| tx.write(root, value).and(Err::<(), _>(Abort::User)));
                assert!(matches!(given_up, Err(Error::Aborted)));
            }
            Kind::WritesNothing => {
                assert_eq!(worker.run(|tx| tx.read(root)).unwrap(), expected);
                readers += 1;
            }
        }
        let statistics = worker.statistics();
        assert_eq!((statistics.commits, statistics.read_only), (commits, readers), "after {kind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_one_was_does_not_matter_to_the_next(kinds in prop::collection::vec(kind(), 1..24)) {
        do_not_matter_to_the_next(Setup::from(SingleWriter), &kinds);
        do_not_matter_to_the_next(Setup::from(Stm), &kinds);
        do_not_matter_to_the_next(Setup::from(Concurrency::SingleWriter), &kinds);
        do_not_matter_to_the_next(Setup::from(Concurrency::Stm), &kinds);
    }
}

/// One thread repeatedly sets words of several lines to the same number, and another one reads them.
fn see_one_time(setup: Setup<impl Control<Memory = Native>>) {
    const WORDS: usize = 29;
    const TIMES: u64 = 20_000;
    let (path, options) = path_and_options();
    let pool = setup.create(&path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let block = worker.run(|tx| tx.alloc(8 * WORDS as u64)).unwrap();
    worker.run(|tx| tx.write_range(block, &[0; WORDS])).unwrap();
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for time in 1..=TIMES {
                worker.run(|tx| tx.write_range(block, &[time; WORDS])).unwrap();
            }
        });
        let mut reader = pool.worker().unwrap();
        let mut last = 0;
        while last < TIMES && !writer.is_finished() {
            let mut words = [0; WORDS];
            reader.view(|tx| tx.read_range(block, &mut words)).unwrap();
            assert!(words[0] >= last && words.iter().all(|&word| word == words[0]), "{words:?} after {last}");
            last = words[0];
        }
    });
}

#[test]
fn they_see_words_of_several_lines_as_they_were_at_one_time() {
    see_one_time(Setup::from(SingleWriter));
    see_one_time(Setup::from(Stm));
}
