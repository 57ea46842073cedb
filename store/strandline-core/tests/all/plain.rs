//! Plain readers, which load only the words: which transactions have them, and which words they return.

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::path_and_options;
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::{Error, Pool, Read, Runner, Transaction};

/// Returns whether a plain reader is available before a transaction writes, after it has written, and in a read-only transaction.
fn has(pool: &Pool<impl Control<Memory = Native>>) -> [bool; 3] {
    let mut worker = pool.worker().unwrap();
    let [before, after] = worker
        .run(|tx| {
            let before = tx.plain().is_some();
            tx.write(tx.root(0), 1)?;
            Ok([before, tx.plain().is_some()])
        })
        .unwrap();
    [before, after, worker.view(|tx| Ok(tx.plain().is_some())).unwrap()]
}

#[test]
fn only_a_single_writer_has_them_until_it_writes() {
    let (path, options) = path_and_options();
    let single = Setup::from(SingleWriter).create(&path, &options).unwrap();
    assert_eq!(has(&single), [true, false, false]);
    let stm = Setup::from(Stm).create(path.with_extension("stm"), &options).unwrap();
    assert_eq!(has(&stm), [false; 3]);
    // A transaction that has returned to a savepoint before its writes need not have a plain reader, and reads the old words.
    let mut worker = single.worker().unwrap();
    let taken = worker.run(|tx| {
        tx.write(tx.root(0), 7)?;
        Err::<(), _>(strandline_core::Abort::User)
    });
    assert!(matches!(taken, Err(Error::Aborted)));
    assert_eq!(
        worker.run(|tx| tx.plain().map(|mut plain| plain.read(tx.root(0))).transpose()).unwrap(),
        Some(1)
    );
}

#[test]
fn they_find_what_the_transaction_finds_and_nothing_elsewhere() {
    let (path, options) = path_and_options();
    let pool = Setup::from(SingleWriter).create(&path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let block = worker
        .run(|tx| {
            let block = tx.alloc(256)?;
            (0..32).try_for_each(|word| tx.write(block.word(word), word * word))?;
            Ok(block)
        })
        .unwrap();
    let end = PersistentAddress::new(options.geometry.size);
    worker
        .run(|tx| {
            for first in 0..28 {
                let at = block.word(first);
                let mut range = [0; 4];
                tx.read_range(at, &mut range)?;
                let words: [u64; 4] = tx.read_array(at)?;
                let word = tx.read(at)?;
                let mut plain = tx.plain().expect("nothing is written");
                let mut plain_range = [0; 4];
                plain.read_range(at, &mut plain_range)?;
                assert_eq!((plain.read(at)?, plain_range), (word, range));
                assert_eq!(plain.read_array::<4>(at)?, words);
            }
            let mut plain = tx.plain().expect("nothing is written");
            // The header, a misaligned word, an array that ends behind the pool, and an address outside the pool.
            for at in
                [PersistentAddress::NULL, PersistentAddress::new(8), block.byte(4), end, end.word(1 << 40)]
            {
                assert!(plain.read(at).is_err(), "{at:?}");
                assert!(plain.read_array::<2>(at).is_err(), "{at:?}");
                assert!(plain.read_array::<3>(at).is_err(), "{at:?}");
                assert!(plain.read_range(at, &mut [0; 2]).is_err(), "{at:?}");
            }
            assert!(
                plain.read_range(PersistentAddress::new(options.geometry.size - 8), &mut [0; 2]).is_err()
            );
            assert_eq!(plain.root(3), tx.root(3));
            Ok(())
        })
        .unwrap();
}

/// An access to words of a block, by their numbers.
#[derive(Clone, Debug)]
enum Access {
    Write(u64, u64),
    WriteTwo(u64, [u64; 2]),
    WriteFive(u64, [u64; 5]),
    WriteRange(u64, Vec<u64>),
    ReadThree(u64),
    ReadEight(u64),
    ReadEleven(u64),
    /// Reads from the next multiple of 64 words on.
    ReadSixtyFour(u64),
}

/// Words at this distance share their entry in the filter of a write set.
const FAR: u64 = 4096;
const WORDS: usize = FAR as usize + 256;

fn access() -> impl proptest::strategy::Strategy<Value = Access> {
    use proptest::prelude::*;
    // The words are close to one another, so that accesses overlap.
    let at = prop_oneof![0..72_u64, FAR..FAR + 72];
    prop_oneof![
        (at.clone(), any::<u64>()).prop_map(|(at, word)| Access::Write(at, word)),
        (at.clone(), any::<[u64; 2]>()).prop_map(|(at, words)| Access::WriteTwo(at, words)),
        (at.clone(), any::<[u64; 5]>()).prop_map(|(at, words)| Access::WriteFive(at, words)),
        (at.clone(), proptest::collection::vec(any::<u64>(), 0..24))
            .prop_map(|(at, words)| Access::WriteRange(at, words)),
        at.clone().prop_map(Access::ReadThree),
        at.clone().prop_map(Access::ReadEight),
        at.clone().prop_map(Access::ReadEleven),
        at.prop_map(Access::ReadSixtyFour),
    ]
}

/// Runs transactions of such accesses, and compares all words that they read, and the final contents, with an array.
fn agrees_with_an_array(setup: Setup<impl Control<Memory = Native>>, transactions: &[Vec<Access>]) {
    let (path, options) = path_and_options();
    let pool = setup.create(&path, &options).unwrap();
    let mut worker = pool.worker().unwrap();
    // The array does not begin at the beginning of a line.
    let block = worker.run(|tx| tx.alloc(8 * WORDS as u64)).unwrap().word(5);
    let mut model = vec![0; WORDS - 5];
    for (piece, words) in (0..).zip(model.chunks(512)) {
        worker.run(|tx| tx.write_range(block.word(512 * piece), words)).unwrap();
    }
    for accesses in transactions {
        let after = worker.run(|tx| {
            let mut model = model.clone();
            for access in accesses {
                let mut put = |at: u64, words: &[u64]| {
                    model[at as usize..][..words.len()].copy_from_slice(words);
                };
                match access {
                    &Access::Write(at, word) => {
                        put(at, &[word]);
                        tx.write(block.word(at), word)?;
                    }
                    Access::WriteTwo(at, words) => {
                        put(*at, words);
                        tx.write_array(block.word(*at), words)?;
                    }
                    Access::WriteFive(at, words) => {
                        put(*at, words);
                        tx.write_array(block.word(*at), words)?;
                    }
                    Access::WriteRange(at, words) => {
                        let words = &words[..words.len().min(WORDS - 5 - *at as usize)];
                        put(*at, words);
                        tx.write_range(block.word(*at), words)?;
                    }
                    &Access::ReadThree(at) => {
                        assert_eq!(tx.read_array::<3>(block.word(at))?, model[at as usize..][..3]);
                    }
                    &Access::ReadEight(at) => {
                        assert_eq!(tx.read_array::<8>(block.word(at))?, model[at as usize..][..8]);
                    }
                    &Access::ReadEleven(at) => {
                        assert_eq!(tx.read_array::<11>(block.word(at))?, model[at as usize..][..11]);
                    }
                    &Access::ReadSixtyFour(at) => {
                        let at = at + (64 - (block.offset() / 8 + at) % 64);
                        assert_eq!(tx.read_array::<64>(block.word(at))?, model[at as usize..][..64]);
                    }
                }
            }
            Ok(model)
        });
        model = after.unwrap();
        let mut found = vec![0; model.len()];
        worker.view(|tx| tx.read_range(block, &mut found)).unwrap();
        assert_eq!(found, model);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    /// Accesses to few words and many, in one line and in two, written before or not.
    #[test]
    fn arrays_are_read_and_written_as_their_words_are(
        transactions in proptest::collection::vec(proptest::collection::vec(access(), 0..40), 1..6),
    ) {
        agrees_with_an_array(SingleWriter.into(), &transactions);
        agrees_with_an_array(Stm.into(), &transactions);
    }
}

/// A write of no words takes no lock.
#[test]
fn an_array_of_no_words_is_nothing() {
    let (path, options) = path_and_options();
    let pool = Pool::create(&path, &options).unwrap();
    let (mut one, mut other) = (pool.worker().unwrap(), pool.worker().unwrap());
    one.run(|tx| tx.write_array(tx.root(0), &[])).unwrap();
    one.run(|tx| tx.write_range(tx.root(0), &[])).unwrap();
    other.run(|tx| tx.write(tx.root(0), 7)).unwrap();
    assert_eq!(one.view(|tx| Ok((tx.read_array::<0>(tx.root(0))?, tx.read(tx.root(0))?))).unwrap(), ([], 7));
}
