//! The page tree returns the same results as a sorted map, and keeps its invariants.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use strandline_core::example::*;
use strandline_core::structures::{Batch, PageTree, Walk};
use strandline_core::{Abort, Error, Options, Pool};

type Pair = (Vec<u8>, Vec<u64>);
type Model = BTreeMap<Vec<u8>, Vec<u64>>;

/// Creates a pool of 64 MB in the domain `Process`, with a worker and an empty tree.
fn tree(page_bytes: u64) -> (Pool, Worker<strandline_core::engine::Stm>, PageTree) {
    tree_in(Domain::Process, page_bytes)
}

/// Like [`tree`], in any domain.
fn tree_in(domain: Domain, page_bytes: u64) -> (Pool, Worker<strandline_core::engine::Stm>, PageTree) {
    let geometry = Geometry { size: 64 << 20, logs: 2, log_bytes: 1 << 20, chunk_bytes: 1 << 16 };
    let options = Options { geometry, domain, assume_persistent: true, ..Options::default() };
    let pool = Pool::create(path(), &options).unwrap();
    let mut worker = pool.worker().unwrap();
    let tree = worker.run(|tx| {
        let header = tx.alloc(16)?;
        PageTree::create_at(tx, header, page_bytes)
    });
    (pool, worker, tree.unwrap())
}

/// Returns all pairs between two bounds.
fn pairs(
    tx: &mut impl Read,
    tree: PageTree,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ascending: bool,
) -> Result<Vec<Pair>, Abort> {
    let mut all = Vec::new();
    tree.scan(tx, &mut Walk::default(), bounds, (ascending, None), |tx, _, leaf| {
        let mut offsets = Vec::new();
        leaf.put_offsets(tx, None, &mut offsets)?;
        for offset in offsets {
            let cell = leaf.cell(tx, offset)?;
            let mut key = Vec::new();
            cell.read_key(tx, &mut key)?;
            all.push((key, cell.with_value(tx, |words, _| words.to_vec())?));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(all)
}

/// Returns a key of one of several kinds. There are few different keys, so that operations often use the same ones.
fn key(random: &mut fastrand::Rng, kind: u64) -> Vec<u8> {
    let number = random.u64(..400);
    match kind {
        0 => number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
        1 => number.to_be_bytes().to_vec(),
        2 => vec![b'a'; number as usize],
        3 => [&vec![b'x'; 40][..], number.to_string().as_bytes()].concat(),
        4 => [(number % 3).to_be_bytes(), number.to_be_bytes()].concat(),
        5 => (0..random.usize(..12)).map(|_| *random.choice(&[0, 1, 0x7f, 0x80, 0xff]).unwrap()).collect(),
        _ => [&vec![7; 8 * (number as usize % 60)][..], &number.to_be_bytes()].concat(),
    }
}

/// The counts of a page, in the order of their parts in its second word.
type Counts = [u64; 4];

/// Plants counts in a leaf with 100 cells, and then removes, replaces and inserts until there is an error, which it returns. Before that it puts a
/// batch into the leaf, if that is wanted.
fn changed_with(plant: impl Fn(Counts, u64) -> Counts, batched: bool) -> Option<String> {
    let (_pool, mut worker, _) = tree(4096);
    let (header, tree) = worker
        .run(|tx| {
            let header = tx.alloc(16)?;
            Ok((header, PageTree::create_at(tx, header, 4096)?))
        })
        .unwrap();
    worker
        .run(|tx| {
            for number in 0..100_u64 {
                let key = number.to_be_bytes();
                let place = tree.locate(tx, &key)?;
                tree.insert(tx, place, &key, &[number], 8)?;
            }
            let root = PersistentAddress::new(tx.read(header)?);
            let [head, counts] = tx.read_array(root)?;
            let planted = plant([0, 16, 32, 48].map(|bit| counts >> bit & 0xffff), head >> 8 & 0xffff);
            tx.write(root.word(1), (0..).zip(planted).map(|(part, count)| count << (16 * part)).sum())
        })
        .unwrap();
    let mut put = || {
        let put = worker.run(|tx| {
            let mut batch = Batch::default();
            for number in 0..if batched { 40_u64 } else { 0 } {
                batch.add(&[&(2 * number).to_be_bytes()[..], &[1]].concat(), &[number; 3], 24);
            }
            batch.set(tx, &tree, true)
        });
        put.err().map(|error| error.to_string())
    };
    put().or_else(|| change_all(&mut worker, tree))
}

/// Removes, replaces and inserts until there is an error, which it returns.
fn change_all(worker: &mut Worker<strandline_core::engine::Stm>, tree: PageTree) -> Option<String> {
    (0..300_u64).find_map(|number| {
        let key = (number % 100).to_be_bytes();
        let changed = worker.run(|tx| {
            let place = tree.locate(tx, &key)?;
            match (place.cell, number / 100) {
                (Some(_), 0) => tree.replace(tx, place, &key, &[1, 2, 3], 24),
                (Some(_), 1) => tree.remove(tx, place, &key),
                (Some(_), _) => Ok(()),
                (None, _) => tree.insert(tx, place, &key, &[number], 8),
            }
        });
        changed.err().map(|error| error.to_string())
    })
}

#[test]
fn counts_of_a_page_that_cannot_be_right_are_errors() {
    for batched in [false, true] {
        assert_eq!(changed_with(|counts, _| counts, batched), None);
    }
    let wrong: [fn(Counts, u64) -> Counts; 5] = [
        |[slots, begin, _, cells], words| [slots, begin, words - begin, cells],
        |[slots, begin, garbage, _], _| [slots, begin, garbage, 0],
        |_, _| [0, 2, 0, 0],
        |[slots, begin, garbage, _], _| [slots, begin, garbage, 4 * slots + 1],
        |[_, begin, garbage, cells], _| [256, begin, garbage, cells],
    ];
    for (number, plant) in wrong.into_iter().enumerate() {
        for batched in [false, true] {
            let error = changed_with(plant, batched);
            let error = error.unwrap_or_else(|| panic!("number {number} goes unnoticed"));
            assert!(error.contains("page"), "number {number}: {error}");
        }
    }
    // These are possible by themselves. A compaction may correct them, and nothing panics.
    let possible: [fn(Counts, u64) -> Counts; 3] = [
        |[slots, begin, _, cells], words| [slots, begin, words - begin - 2 * cells, cells],
        |[slots, begin, garbage, cells], _| [slots, begin, garbage, cells + 20],
        |[slots, begin, garbage, cells], _| [slots, begin, garbage, cells - 20],
    ];
    for plant in possible {
        for batched in [false, true] {
            let error = changed_with(plant, batched);
            assert!(error.as_ref().is_none_or(|error| error.contains("page")), "{error:?}");
        }
    }
}

/// Changes a word of a page whose counts are given.
type Change = fn(u64, Counts) -> u64;

#[test]
fn damaged_leaves_are_not_merged() {
    // With whether the word is that of the counts, or the first slot word.
    let changes: [(bool, Change); 6] = [
        // Two slots for one cell, keys out of order, a cell before the first word of cells, one beyond the page.
        (false, |slots, _| slots & !0xffff_0000 | (slots & 0xffff) << 16),
        (false, |slots, _| slots & !0xffff_ffff | slots >> 16 & 0xffff | (slots & 0xffff) << 16),
        (false, |slots, _| slots & !0xffff | 3),
        (false, |slots, _| slots & !0xffff | 511),
        (true, |counts, [.., cells]| counts & !(0xffff << 48) | (cells - 1) << 48),
        (true, |counts, [_, begin, ..]| counts & !(0xffff << 16) | (begin + 3) << 16),
    ];
    for (number, (in_counts, change)) in changes.into_iter().enumerate() {
        let (_pool, mut worker, _) = tree(4096);
        let set = worker.run(|tx| {
            let header = tx.alloc(16)?;
            let tree = PageTree::create_at(tx, header, 4096)?;
            for number in 0..1000_u64 {
                tree.set(tx, &number.to_be_bytes(), &[number; 9], 72)?;
            }
            // The first cell of the root has an empty key, and the address of the first leaf behind it.
            let root = PersistentAddress::new(tx.read(header)?);
            let first = tx.read(root.word(2))? & 0x1ff;
            let leaf = PersistentAddress::new(tx.read(root.word(first + 2))?);
            let [counts, slots] = tx.read_array(leaf.word(1))?;
            let parts = [0, 16, 32, 48].map(|bit| counts >> bit & 0xffff);
            match in_counts {
                true => tx.write(leaf.word(1), change(counts, parts))?,
                false => tx.write(leaf.word(2), change(slots, parts))?,
            }
            let mut batch = Batch::default();
            for number in 0..3000_u64 {
                batch.add(&[&(number / 3).to_be_bytes()[..], &[number as u8 % 3, 1]].concat(), &[number], 8);
            }
            Ok((tree, batch.set(tx, &tree, true).map(drop), tree.check(tx).map(drop)))
        });
        // It is found by the batch or afterwards, and nothing panics.
        let found = match &set {
            Ok((_, set, check)) => set.is_err() || check.is_err(),
            Err(_) => true,
        };
        assert!(found, "damage number {number} goes unnoticed");
    }
}

#[test]
fn it_is_a_sorted_map() {
    for (round, page_bytes) in (0..28).zip([512, 4096, 1024].into_iter().cycle()) {
        let mut random = fastrand::Rng::with_seed(round);
        let (pool, mut worker, tree) = tree(page_bytes);
        let mut model = Model::new();
        let most_words = [4, 30, 200][round as usize % 3];
        for step in 0..3000 {
            // The tree grows at first, and then shrinks.
            let is_removal = random.u32(..100) < if step < 1500 { 20 } else { 80 };
            let key = key(&mut random, round % 7);
            let value: Vec<u64> = (0..random.usize(..most_words)).map(|_| random.u64(..)).collect();
            let before = worker.run(|tx| {
                let place = tree.locate(tx, &key)?;
                let before = match place.cell {
                    Some(cell) => Some(cell.with_value(tx, |words, _| words.to_vec())?),
                    None => None,
                };
                match (is_removal, &before) {
                    (true, _) => tree.remove(tx, place, &key)?,
                    (false, None) => tree.insert(tx, place, &key, &value, 8 * value.len() as u64)?,
                    (false, Some(_)) => tree.replace(tx, place, &key, &value, 8 * value.len() as u64)?,
                }
                Ok(before)
            });
            let expected = if is_removal { model.remove(&key) } else { model.insert(key.clone(), value) };
            assert_eq!(before.unwrap(), expected, "round {round}, step {step}");
            if step % 100 == 99 {
                worker
                    .view(|tx| {
                        assert_eq!(tree.check(tx)?, model.len() as u64, "round {round}, step {step}");
                        assert_eq!(tree.count(tx)?, model.len() as u64);
                        assert_eq!(tree.len(tx)?, model.len() as u64, "round {round}, step {step}");
                        assert_eq!(tree.is_empty(tx)?, model.is_empty());
                        let all = pairs(tx, tree, (Bound::Unbounded, Bound::Unbounded), true)?;
                        assert!(all.iter().map(|(key, value)| (key, value)).eq(&model));
                        ranges(tx, tree, &model, &key)
                    })
                    .unwrap();
            }
        }
        // Only the header is left.
        worker.run(|tx| tree.destroy(tx)).unwrap();
        assert_eq!(pool.usage().unwrap().objects, 1, "round {round}");
    }
}

#[test]
fn heads_that_are_not_those_of_the_keys_are_damage() {
    let (_pool, mut worker, tree) = tree(4096);
    let page = worker.run(|tx| {
        for number in 0..100_u64 {
            tree.set(tx, &(number << 20).to_be_bytes(), &[number], 8)?;
        }
        Ok(tree.find(tx, &[0; 8])?.unwrap().page)
    });
    let page = page.unwrap();
    // The head of the first slot's key, and the number of bits before the heads.
    for (word, bit) in [(2, 9), (0, 57)] {
        let old = worker.run(|tx| {
            let old = tx.read(page.word(word))?;
            tx.write(page.word(word), old ^ 1 << bit)?;
            Ok(old)
        });
        let found = worker.view(|tx| tree.check(tx)).unwrap_err().to_string();
        assert!(found.contains("a page with wrong heads of keys"), "{found}");
        worker.run(|tx| tx.write(page.word(word), old.as_ref().copied().unwrap())).unwrap();
        assert_eq!(worker.view(|tx| tree.check(tx)).unwrap(), 100);
    }
}

#[test]
fn a_value_that_is_longer_than_its_page_is_damage() {
    for bytes in [504, 1008, 1009, 1600, 4000, 4096, 1 << 31] {
        let (_pool, mut worker, tree) = tree(4096);
        let read = worker.run(|tx| {
            for number in 0..20_u64 {
                tree.set(tx, &number.to_be_bytes(), &[number; 20], 160)?;
            }
            let cell = tree.find(tx, &7_u64.to_be_bytes())?.unwrap();
            tx.write(cell.at(), 8 << 32 | bytes)?;
            let read = tree.read(tx, &7_u64.to_be_bytes(), |_, _, words| Ok(words.map(<[u64]>::len)));
            Ok((read.is_ok(), tree.find(tx, &8_u64.to_be_bytes()).is_ok()))
        });
        match read {
            // The value reaches over the cells behind it, but not beyond the page.
            Ok(found) => assert_eq!((found, bytes <= 1008), ((true, true), true), "{bytes}"),
            Err(error) => assert!(matches!(error, Error::Damaged { .. }), "{bytes}: {error}"),
        }
    }
}

#[test]
fn batches_make_the_map_that_single_pairs_make() {
    for (round, page_bytes) in (0..30).zip([512, 4096, 1024].into_iter().cycle()) {
        let mut random = fastrand::Rng::with_seed(round);
        let (pool, mut worker, tree) = tree(page_bytes);
        let mut model = Model::new();
        let most_words = [4, 30, 200][round as usize / 3 % 3];
        for step in 0..40 {
            let (mut added, mut removed, merges) = (Vec::new(), Vec::new(), random.bool());
            for _ in 0..random.usize(..[8, 60, 600][step % 3]) {
                let mut key = key(&mut random, round % 5);
                if random.bool() {
                    key.push(random.u8(..));
                }
                let value: Vec<u64> = (0..random.usize(..most_words)).map(|_| random.u64(..)).collect();
                added.push((key.clone(), value.clone()));
                model.insert(key, value);
            }
            // Removals leave garbage among the cells.
            for _ in 0..random.usize(..100) {
                removed.extend(model.keys().nth(random.usize(..=model.len())).cloned());
            }
            worker
                .run(|tx| {
                    let mut batch = Batch::default();
                    added.iter().for_each(|(key, value)| batch.add(key, value, 8 * value.len() as u64));
                    batch.set(tx, &tree, merges)?;
                    for key in &removed {
                        let place = tree.locate(tx, key)?;
                        if place.cell.is_some() {
                            tree.remove(tx, place, key)?;
                        }
                    }
                    Ok(())
                })
                .unwrap();
            removed.iter().for_each(|key| drop(model.remove(key)));
            worker
                .view(|tx| {
                    assert_eq!(tree.check(tx)?, model.len() as u64, "round {round}, step {step}");
                    assert_eq!(tree.len(tx)?, model.len() as u64, "round {round}, step {step}");
                    let all = pairs(tx, tree, (Bound::Unbounded, Bound::Unbounded), true)?;
                    assert!(
                        all.iter().map(|(key, value)| (key, value)).eq(&model),
                        "round {round}, step {step}"
                    );
                    Ok(())
                })
                .unwrap();
        }
        worker.run(|tx| tree.destroy(tx)).unwrap();
        assert_eq!(pool.usage().unwrap().objects, 1, "round {round}");
    }
}

/// Compares ranges from and to a key, which need not be in the tree.
fn ranges(tx: &mut impl Read, tree: PageTree, model: &Model, key: &[u8]) -> Result<(), Abort> {
    for bound in [Bound::Included(key), Bound::Excluded(key)] {
        for bounds in [(bound, Bound::Unbounded), (Bound::Unbounded, bound)] {
            let expected = model.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
            let expected: Vec<_> = expected.collect();
            let mut back = pairs(tx, tree, bounds, false)?;
            back.reverse();
            assert_eq!(back, expected);
            assert_eq!(pairs(tx, tree, bounds, true)?, expected);
        }
    }
    Ok(())
}

/// A list of pairs, in the order of their keys, with their numbers in the order in which they are set or removed.
fn order(all: &[Pair], how: u64, random: &mut fastrand::Rng) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..all.len()).collect();
    match how {
        0 => {}
        1 => numbers.reverse(),
        _ => random.shuffle(&mut numbers),
    }
    numbers
}

#[test]
fn pairs_that_were_added_in_any_order_can_be_removed_in_any_order() {
    for round in 0..36 {
        let mut random = fastrand::Rng::with_seed(round);
        let page_bytes = [4096, 1024][round as usize / 9 % 2];
        let (pool, mut worker, tree) = tree(page_bytes);
        // Enough for several inner pages, with keys and values of one size, or of several.
        let words = [13, 4, 1, 0][round as usize % 4];
        let all: Vec<Pair> = (0..7000_u64)
            .map(|number| {
                let longer = if round % 5 == 4 { random.usize(..30) } else { 0 };
                let key = [&number.to_be_bytes()[..], &vec![1; longer]].concat();
                (key, vec![number; words + longer / 8])
            })
            .collect();
        let (fill, empty) = (round % 3, round / 3 % 3);
        if round % 2 == 0 || fill != 0 {
            for numbers in order(&all, fill, &mut random).chunks(500) {
                let set = worker.run(|tx| {
                    numbers.iter().try_for_each(|&number| {
                        let (key, value) = &all[number];
                        tree.set(tx, key, value, 8 * value.len() as u64)
                    })
                });
                set.unwrap();
            }
        } else {
            let all: Vec<_> = all.iter().map(|(key, value)| (key, value)).collect();
            worker.run(|tx| load(tx, tree, &all)).unwrap();
        }
        let mut rest = all.len() as u64;
        for numbers in order(&all, empty, &mut random).chunks(500) {
            let removed = worker.run(|tx| {
                numbers.iter().try_for_each(|&number| {
                    let place = tree.locate(tx, &all[number].0)?;
                    assert!(place.cell.is_some(), "round {round}");
                    tree.remove(tx, place, &all[number].0)
                })
            });
            removed.unwrap_or_else(|error| panic!("round {round}, {rest} pairs: {error}"));
            rest -= numbers.len() as u64;
            assert_eq!(worker.view(|tx| tree.check(tx)).unwrap(), rest, "round {round}");
        }
        worker.run(|tx| tree.destroy(tx)).unwrap();
        assert_eq!(pool.usage().unwrap().objects, 1, "round {round}");
    }
}

#[test]
fn loads_make_the_tree_that_insertions_make() {
    for (round, page_bytes) in (0..30).zip([512, 4096, 1024].into_iter().cycle()) {
        let mut random = fastrand::Rng::with_seed(round);
        let (pool, mut worker, tree) = tree(page_bytes);
        let most_words = [4, 30, 200][round as usize / 3 % 3];
        let pairs_wanted = [0, 1, 2, 40, 4000][round as usize % 5];
        let mut model = Model::new();
        for _ in 0..pairs_wanted {
            let mut key = key(&mut random, round % 5);
            key.extend(random.u16(..).to_be_bytes());
            model.insert(key, (0..random.usize(..most_words)).map(|_| random.u64(..)).collect());
        }
        let mut all: Vec<_> = model.iter().collect();
        // Keys out of order are refused, and the attempt changes nothing.
        if all.len() > 2 {
            let objects = pool.usage().unwrap().objects;
            let other = random.usize(1..all.len());
            all.swap(other - 1, other);
            let refused = worker.run(|tx| load(tx, tree, &all));
            assert!(matches!(refused, Err(strandline_core::Error::Parameter(_))), "{refused:?}");
            assert_eq!(pool.usage().unwrap().objects, objects);
            all.swap(other - 1, other);
        }
        // The pairs are loaded in several portions. The first one may leave a tree of one small page.
        let mut rest = &all[..];
        while !rest.is_empty() {
            let most = [5, 300, 10_000][random.usize(..3)];
            let (now, later) = rest.split_at(random.usize(1..=most).min(rest.len()));
            assert_eq!(worker.run(|tx| load(tx, tree, now)).unwrap(), now.len() as u64);
            assert!(worker.run(|tx| load(tx, tree, &now[..1])).is_err(), "it is not behind what is there");
            rest = later;
        }
        let whole = (Bound::Unbounded, Bound::Unbounded);
        worker
            .view(|tx| {
                assert_eq!(tree.check(tx)?, model.len() as u64, "round {round}");
                let found = pairs(tx, tree, whole, true)?;
                assert!(found.iter().map(|(key, value)| (key, value)).eq(&model), "round {round}");
                Ok(())
            })
            .unwrap();
        // The loaded tree can be changed like any other.
        for _ in 0..500 {
            let key = key(&mut random, round % 5);
            worker
                .run(|tx| {
                    let place = tree.locate(tx, &key)?;
                    match place.cell {
                        Some(_) => tree.remove(tx, place, &key),
                        None => tree.insert(tx, place, &key, &[1], 8),
                    }
                })
                .unwrap();
            if model.remove(&key).is_none() {
                model.insert(key, vec![1]);
            }
        }
        assert_eq!(worker.view(|tx| tree.check(tx)).unwrap(), model.len() as u64, "round {round}");
        assert_eq!(worker.view(|tx| tree.len(tx)).unwrap(), model.len() as u64, "round {round}");
        worker.run(|tx| tree.destroy(tx)).unwrap();
        assert_eq!(pool.usage().unwrap().objects, 1, "round {round}");
    }
}

/// Loads pairs into a tree.
fn load(tx: &mut impl Transaction, tree: PageTree, pairs: &[(&Vec<u8>, &Vec<u64>)]) -> Result<u64, Abort> {
    let mut load = tree.load(tx)?;
    for (key, value) in pairs {
        load.push(tx, key, value, 8 * value.len() as u64)?;
    }
    load.finish(tx)
}

/// Returns the words of pages and blocks for each word of pairs, after insertions of rows of `words` words in batches of `each`.
fn space(random: bool, words: usize, each: usize) -> f64 {
    let (pool, mut worker, tree) = tree(4096);
    let before = pool.usage().unwrap();
    let numbers: Vec<u64> = (0..20_000).collect();
    for numbers in numbers.chunks(each) {
        let set = worker.run(|tx| {
            let mut batch = Batch::default();
            for &number in numbers {
                let number = if random { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number };
                batch.add(&number.to_be_bytes(), &vec![7; words], 8 * words as u64);
            }
            batch.set(tx, &tree, true)
        });
        set.unwrap();
    }
    assert_eq!(worker.view(|tx| tree.check(tx)).unwrap(), 20_000);
    let taken = pool.usage().unwrap().allocated_bytes - before.allocated_bytes;
    taken as f64 / (20_000.0 * 8.0 * (1 + words) as f64)
}

#[test]
fn pages_are_full() {
    for (words, each) in [(40, 1), (13, 1), (13, 300), (13, 1000)] {
        let (in_order, at_random) = (space(false, words, each), space(true, words, each));
        assert!(in_order < 1.17, "{in_order} in order, {words} words in batches of {each}");
        assert!(at_random < 1.45, "{at_random} at random, {words} words in batches of {each}");
    }
}

/// Inserts or removes keys, from `from` on.
fn change(
    worker: &mut Worker<strandline_core::engine::Stm>,
    tree: PageTree,
    keys: std::ops::Range<u64>,
    is_removal: bool,
) {
    for number in keys {
        let key = number.to_be_bytes();
        let changed = worker.run(|tx| {
            let place = tree.locate(tx, &key)?;
            if is_removal {
                tree.remove(tx, place, &key)
            } else {
                tree.insert(tx, place, &key, &[7; 40], 320)
            }
        });
        changed.unwrap();
    }
}

#[test]
fn a_count_that_differs_from_the_walk_is_damage() {
    let (pool, mut worker, tree) = tree(512);
    change(&mut worker, tree, 0..100, false);
    change(&mut worker, tree, 20..60, true);
    let counted = worker.view(|tx| Ok((tree.check(tx)?, tree.len(tx)?))).unwrap();
    assert_eq!(counted, (60, 60));
    let header = worker.view(|tx| Ok(tx.next_allocated(PersistentAddress::NULL)?.unwrap().0)).unwrap();
    worker
        .run(|tx| {
            let block = PersistentAddress::new(tx.read(header.word(1))? >> 16);
            let count = tx.read(block.word(8))?;
            tx.write(block.word(8), count.wrapping_sub(1))
        })
        .unwrap();
    assert_eq!(worker.view(|tx| tree.len(tx)).unwrap(), 59);
    let checked = worker.view(|tx| tree.check(tx));
    assert!(matches!(checked, Err(strandline_core::Error::Damaged { .. })), "{checked:?}");
    worker.run(|tx| tree.destroy(tx)).unwrap();
    assert_eq!(pool.usage().unwrap().objects, 1);
}

#[test]
fn counting_takes_no_fence_of_its_own() {
    let (_pool, mut worker, tree) = tree_in(Domain::Flush, 4096);
    change(&mut worker, tree, 0..100, false);
    assert_eq!(worker.view(|tx| tree.len(tx)).unwrap(), 100);
    let before = worker.memory().counters();
    change(&mut worker, tree, 100..200, false);
    assert_eq!((worker.memory().counters() - before).fences, 100, "one for each insertion");
    change(&mut worker, tree, 100..200, true);
    assert_eq!((worker.memory().counters() - before).fences, 200, "and for each removal");
}
