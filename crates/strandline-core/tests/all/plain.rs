//! Reads by which nothing but the words is loaded: who has them, and what they find.

use strandline_core::engine::{Control, Setup, SingleWriter, Stm};
use strandline_core::example::path_and_options;
use strandline_core::memory::{Native, PersistentAddress};
use strandline_core::{Error, Pool, Read, Runner, Transaction};

/// Whether a transaction has them before it writes, afterwards, and one that only reads.
fn has(pool: &Pool<impl Control<Native>>) -> [bool; 3] {
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
    // One that has gone back to before it wrote need not have them, and reads what is there.
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
                // Words of two lines, whoever sees them fail reads them in the transaction.
                if let Ok(found) = plain.read_array::<4>(at) {
                    assert_eq!(found, words);
                } else {
                    assert!(at.line() != at.word(3).line());
                }
            }
            let mut plain = tx.plain().expect("nothing is written");
            // The header, a misaligned word, the last word and a half, and what is outside.
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
