//! Pools with planted damage: lengths near 2^64, cycles, links to other blocks. Every walk must end with an error, and the check must name the
//! damage.

use strandline::{Store, Tx};
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::KeyValueStore;
use strandline_core::{Abort, Domain, Error, Options, Pool, Read, Result, Runner, Transaction};
use strandline_structures::HashTable;
use strandline_structures::model::typed::{All, name};

fn options() -> Options {
    let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 13 };
    Options { domain: Domain::Process, geometry, lock_bits: 10, ..Options::default() }
}

/// Returns a store with a value of every kind, and its folder, which the caller must keep.
fn store() -> (Store<All<'static>>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::<All>::create_new(folder.path().join("pool"), &options(), |tx| All::new(tx)).unwrap();
    All::fill(&store, 150).unwrap();
    (store, folder)
}

/// Returns the address in a handle's `Debug` output.
pub fn address(handle: impl AsRef<str>) -> PersistentAddress {
    let shown = handle.as_ref();
    let digits: String =
        shown.split("0x").nth(1).unwrap().chars().take_while(char::is_ascii_hexdigit).collect();
    PersistentAddress::new(u64::from_str_radix(&digits, 16).unwrap())
}

fn peek(store: &Store<All>, at: PersistentAddress) -> u64 {
    store.pool().worker().unwrap().view(|tx| tx.read(at)).unwrap()
}

fn follow(store: &Store<All>, at: PersistentAddress) -> PersistentAddress {
    PersistentAddress::new(peek(store, at) & !1)
}

fn poke(store: &Store<All>, at: PersistentAddress, value: u64) {
    store.pool().worker().unwrap().run(|tx| tx.write(at, value)).unwrap();
}

/// The address of one of the root's handles.
macro_rules! at {
    ($store:expr, $field:ident) => {
        address($store.read(|tx, root| Ok(format!("{:?}", root.get(tx)?.$field))).unwrap())
    };
}

type Walk = for<'p> fn(&Tx<'p>, All<'p>) -> Result<()>;

/// Plants a word. The check must name `what` and `walk` must fail; after the word was restored, both must find nothing.
#[track_caller]
fn plant(store: &Store<All>, at: PersistentAddress, value: u64, what: &str, walk: Walk) {
    let before = peek(store, at);
    assert_ne!(before, value);
    poke(store, at, value);
    let found = store.check().unwrap();
    assert!(found.iter().any(|found| found.contains(what)), "{what}: {found:?}");
    // The transaction is rolled back, whatever its result is.
    let walked = store.write(|tx, root| {
        walk(tx, root.get(tx)?)?;
        Err::<(), _>(Error::Aborted)
    });
    assert!(
        matches!(
            walked,
            Err(Error::Damaged { .. }
                | Error::Dangling { .. }
                | Error::InvalidAddress(_)
                | Error::InvalidFree(_))
        ),
        "{what}: {walked:?}"
    );
    poke(store, at, before);
    assert_eq!(store.check().unwrap(), [""; 0]);
}

/// Takes all items. There must not be more than words in the pool.
pub fn drain<T>(items: impl Iterator<Item = Result<T>>) -> Result<()> {
    for (number, item) in items.enumerate() {
        item?;
        assert!(number < 1 << 17, "more items than words");
    }
    Ok(())
}

#[test]
fn a_healthy_store_of_all_types_is_found_healthy() {
    let (store, _folder) = store();
    assert_eq!(store.check().unwrap(), [""; 0]);
    store
        .write(|tx, root| {
            let all = root.get(tx)?;
            let found = [
                all.hashed.check(tx)?,
                all.ordered.check(tx)?,
                all.numbers.check(tx)?,
                all.vector.check(tx)?,
                all.units.check(tx)?,
                all.queue.check(tx)?,
                all.text.check(tx)?,
                all.bytes.check(tx)?,
                all.graph.check(tx)?,
                all.nested.check(tx)?,
            ];
            assert_eq!(found.concat(), [""; 0]);
            // Collections that are empty, some of which had content before.
            while all.queue.pop(tx)?.is_some() {}
            all.vector.truncate(tx, 3)?;
            all.bytes.set(tx, "")?;
            all.text.set(tx, "more than before, ".repeat(20))?;
            all.bytes.append(tx, "appended")
        })
        .unwrap();
    assert_eq!(store.check().unwrap(), [""; 0]);
    for i in 0..150u64 {
        store
            .write(|tx, root| {
                let all = root.get(tx)?;
                all.hashed.remove(tx, &name(i))?;
                all.ordered.remove(tx, &name(i))?;
                all.numbers.remove(tx, &(i * i)).map(drop)
            })
            .unwrap();
    }
    assert_eq!(store.check().unwrap(), [""; 0]);
    store.close().unwrap();
}

#[test]
fn a_failure_before_is_not_forgiven() {
    let (store, _folder) = store();
    let nowhere = store.write(|tx, root| {
        let all = root.get(tx)?;
        all.vector.push(tx, &(1, true))?;
        assert!(all.vector.set(tx, 1 << 40, &(1, true)).is_err());
        assert!(all.text.check(tx).is_err(), "otherwise the earlier writes would be committed");
        Ok(())
    });
    assert!(matches!(nowhere, Err(Error::Parameter(_))), "{nowhere:?}");
    assert_eq!(store.read(|tx, root| root.get(tx)?.vector.len(tx)).unwrap(), 150);
}

#[test]
fn queues() {
    let (store, _folder) = store();
    let queue = at!(store, queue);
    let (last, first) = (queue.word(8), follow(&store, queue.word(16)));
    let second = follow(&store, first.word(1));
    let end = follow(&store, last);
    let iterate: Walk = |tx, all| drain(all.queue.iter(tx)?);
    // Cycles: of one node, of all but the first, and of all.
    for (from, to) in [(first, first), (second, second), (end, second), (end, first)] {
        plant(&store, from.word(1), to.offset(), "found already", iterate);
    }
    for from in [first, second, end] {
        plant(&store, from.word(1), first.offset(), "found already", |tx, all| all.queue.clear(tx));
        plant(&store, from.word(1), first.offset(), "found already", |tx, all| all.queue.destroy(tx));
    }
    let text = at!(store, text);
    plant(&store, second.word(1), text.offset(), "Queue item", iterate);
    plant(&store, second.word(1), u64::MAX, "not an aligned word", iterate);
    plant(&store, second.word(1), first.offset() + 4, "not an aligned word", iterate);
    for length in [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 40, 3000] {
        plant(&store, second.word(2), length, "room for", iterate);
        plant(&store, first.word(2), length, "room for", |tx, all| all.queue.pop(tx).map(drop));
        plant(&store, first.word(2), length, "room for", |tx, all| all.queue.front(tx).map(drop));
    }
    plant(&store, queue, 0, "no value of type Queue", iterate);
    // A list that ends too early, which readers cannot notice.
    poke(&store, second.word(1), 0);
    let found = store.check().unwrap();
    assert!(found[0].contains("is not the one in its header"), "{found:?}");
}

#[test]
fn a_queue_may_be_turned_about_while_it_is_gone_through() {
    let (store, _folder) = store();
    store
        .write(|tx, root| {
            let queue = root.get(tx)?.queue;
            // The nodes of popped items are used again for pushed items. Addresses recur then, but this is not a cycle.
            let mut items = queue.iter(tx)?;
            for turn in 0..100 {
                items.next().unwrap()?;
                let job = queue.pop(tx)?.unwrap();
                assert_eq!(job, name(turn));
                queue.push(tx, &job)?;
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn byte_strings() {
    let (store, _folder) = store();
    let (bytes, text) = (at!(store, bytes), at!(store, text));
    for length in [u64::MAX, u64::MAX - 7, 1 << 60, 1 << 30, 1 << 14] {
        plant(&store, bytes.word(1), length, "room for", |tx, all| all.bytes.get(tx).map(drop));
        plant(&store, bytes.word(1), length, "room for", |tx, all| all.bytes.append(tx, "more"));
        plant(&store, text.word(1), length, "room for", |tx, all| all.text.get(tx).map(drop));
    }
    let content = follow(&store, text.word(2));
    plant(&store, content.word(1), 0xff, "not valid UTF-8", |tx, all| all.text.get(tx).map(drop));
    plant(&store, bytes.word(2), u64::MAX - 7, "where no block begins", |tx, all| {
        all.bytes.get(tx).map(drop)
    });
    plant(&store, content, 7, "another tag", |tx, all| all.text.set(tx, "a text of another length"));
    // Two strings with the same content.
    poke(&store, bytes.word(2), content.offset());
    poke(&store, bytes.word(1), 8);
    let found = store.check().unwrap();
    assert!(found[0].contains("found already"), "{found:?}");
}

#[test]
fn vectors() {
    let (store, _folder) = store();
    let vector = at!(store, vector);
    let directory = follow(&store, vector.word(2));
    let iterate: Walk = |tx, all| drain(all.vector.iter(tx)?);
    let back: Walk = |tx, all| drain(all.vector.iter(tx)?.rev());
    plant(&store, vector.word(1), 1 << 50, "not valid for type Vector", iterate);
    plant(&store, vector.word(3), u64::MAX, "not valid for type Vector", iterate);
    plant(&store, vector.word(3), 47, "a vector's directory", iterate);
    for segment in 0..4 {
        for value in [u64::MAX, u64::MAX - 7, vector.offset(), directory.offset(), 64] {
            plant(&store, directory.word(1 + segment), value, "a vector's segment", iterate);
            plant(&store, directory.word(1 + segment), value, "a vector's segment", back);
        }
        plant(&store, directory.word(1 + segment), 0, "lacks segment", iterate);
    }
    plant(&store, vector.word(2), u64::MAX - 7, "a vector's directory", iterate);
    // The elements have no words. Only reading their segments can fail.
    let units = at!(store, units);
    poke(&store, units.word(1), 8 * ((1 << 47) - 1) - 47);
    let slots = peek(&store, units.word(3));
    poke(&store, units.word(3), 47);
    let walked = store.read(|tx, root| drain(root.get(tx)?.units.iter(tx)?));
    assert!(matches!(walked, Err(Error::Damaged { .. })), "{walked:?}");
    assert!(!store.check().unwrap().is_empty());
    poke(&store, units.word(3), slots);
    let walked = store.read(|tx, root| root.get(tx)?.units.len(tx));
    assert!(matches!(walked, Err(Error::Damaged { .. })), "{walked:?}");
}

/// Checks that a damaged link does not make a write go to a block of another kind: with the link at `link` set to `target`, `write` must fail, and
/// the words at `target` must not change.
#[track_caller]
fn leads_no_write_to(store: &Store<All>, link: PersistentAddress, target: PersistentAddress, write: Walk) {
    let before = peek(store, link);
    poke(store, link, target.offset());
    let words: Vec<u64> = (0..8).map(|word| peek(store, target.word(word))).collect();
    let written = store.write(|tx, root| write(tx, root.get(tx)?));
    assert!(
        matches!(written, Err(Error::Dangling { .. } | Error::Damaged { .. } | Error::InvalidAddress(_))),
        "{written:?}"
    );
    assert_eq!((0..8).map(|word| peek(store, target.word(word))).collect::<Vec<_>>(), words);
    poke(store, link, before);
}

#[test]
fn no_damaged_link_leads_a_write_to_another_kind_of_block() {
    let (store, _folder) = store();
    let table = store.pool().layout().chunk_table;
    let (vector, bytes, text) = (at!(store, vector), at!(store, bytes), at!(store, text));
    let segment = follow(&store, vector.word(2)).word(1);
    let content = follow(&store, text.word(2));
    for target in [table, table.word(5), content, vector, bytes] {
        leads_no_write_to(&store, segment, target, |tx, all| all.vector.set(tx, 0, &(1, true)).map(drop));
        leads_no_write_to(&store, segment, target, |tx, all| all.vector.swap(tx, 0, 1));
        leads_no_write_to(&store, vector.word(2), target, |tx, all| all.vector.clear(tx));
        if target != content {
            leads_no_write_to(&store, text.word(2), target, |tx, all| all.text.set(tx, "other"));
            leads_no_write_to(&store, text.word(2), target, |tx, all| all.text.destroy(tx));
        }
    }
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

/// Returns a cell of the map with a chain of at least two nodes, and one with another chain.
fn chains(store: &Store<All>, map: PersistentAddress) -> (PersistentAddress, PersistentAddress) {
    let (cells, first) = (peek(store, map.word(1)) & 0xffff, follow(store, map.word(2)));
    let long = |&cell: &PersistentAddress| {
        let word = peek(store, cell);
        word != 0 && word & 1 == 0 && peek(store, first_node(word)) != 0
    };
    let mut tables = vec![(first, cells)];
    let mut found = Vec::new();
    while let Some((table, cells)) = tables.pop() {
        for cell in (0..cells).map(|cell| table.word(cell)) {
            if peek(store, cell) & 1 == 1 {
                tables.push((follow(store, cell), 64));
            } else if long(&cell) {
                found.push(cell);
            }
        }
    }
    (found[0], found[1])
}

/// Returns the address of the first node of a chain whose cell has this content.
fn first_node(cell: u64) -> PersistentAddress {
    PersistentAddress::new(cell & ((1 << 48) - 1))
}

#[test]
fn hash_maps() {
    let (store, _folder) = store();
    let map = at!(store, hashed);
    let iterate: Walk = |tx, all| drain(all.hashed.iter(tx));
    let count: Walk = |tx, all| all.hashed.len(tx).map(drop);
    let destroy: Walk = |tx, all| all.hashed.destroy(tx);
    // Without counters, a walk counts the keys.
    let length = peek(&store, map.word(1)) & 0xffff;
    poke(&store, map.word(1), length);
    let (cell, other) = chains(&store, map);
    let node = first_node(peek(&store, cell));
    let next = follow(&store, node);
    for (from, to) in [(node, node), (next, node), (next, next)] {
        plant(&store, from, to.offset(), "found already", iterate);
        plant(&store, from, to.offset(), "found already", count);
        plant(&store, from, to.offset(), "found already", destroy);
    }
    let strange = peek(&store, other);
    plant(&store, cell, strange, "", iterate);
    plant(&store, cell, strange, "", count);
    // A filter that no key has set.
    plant(&store, cell, node.offset(), "wrong chain", iterate);
    plant(&store, cell, node.offset(), "wrong chain", count);
    for lengths in [u64::MAX, 1 << 29 | 0x1fff_ffff, 6 << 29 | 1 << 20] {
        plant(&store, node.word(1), lengths, "", iterate);
    }
    plant(&store, node.word(1), 24 << 29 | 2000, "room for", iterate);
    // Another key, and other bits of a hash.
    plant(&store, node.word(2), 1, "wrong chain", iterate);
    plant(&store, node.word(1), peek(&store, node.word(1)) ^ 1 << 50, "wrong hash", iterate);
    plant(&store, cell, peek(&store, cell) | 1, "", iterate);
    plant(&store, cell, peek(&store, cell) | 1, "", |tx, all| {
        (0..150).try_for_each(|i| all.hashed.get(tx, &name(i)).map(drop))
    });
    // No buckets, and many more than the map has.
    for damaged in [0, length + 1000, 0xffff] {
        poke(&store, map.word(1), damaged);
        assert!(!store.check().unwrap().is_empty());
        for walk in [iterate, count] {
            let walked = store.write(|tx, root| walk(tx, root.get(tx)?));
            assert!(matches!(walked, Err(Error::Damaged { .. })), "{walked:?}");
        }
    }
}

/// Returns the addresses of the cells of an ordered map's page, in the order of their keys.
fn cells(store: &Store<All>, page: PersistentAddress) -> Vec<PersistentAddress> {
    let slots = (0..peek(store, page.word(1)) & 0xffff).map(|slot| peek(store, page.word(2 + slot)));
    let offsets = slots.flat_map(|word| (0..4).map(move |index| word >> (16 * index) & 0x1ff));
    offsets.filter(|&offset| offset != 0).map(|offset| page.word(offset)).collect()
}

/// Returns the address of the word of an inner page's cell that has the address of its child. It follows the key, which takes at least one word.
fn child(store: &Store<All>, cell: PersistentAddress) -> PersistentAddress {
    let key_bytes = peek(store, cell) >> 32 & 0xffff;
    cell.word(1 + key_bytes.div_ceil(8).max(1))
}

#[test]
fn pages_of_ordered_maps() {
    let (store, _folder) = store();
    let map = at!(store, ordered);
    let forward: Walk = |tx, all| drain(all.ordered.iter(tx));
    let back: Walk = |tx, all| drain(all.ordered.iter(tx).rev());
    let count: Walk = |tx, all| all.ordered.len(tx).map(drop);
    let get: Walk = |tx, all| all.ordered.get(tx, &name(0)).map(drop);
    let destroy: Walk = |tx, all| all.ordered.destroy(tx);
    // Without counters, a walk counts the keys.
    poke(&store, map.word(2), 4096);
    let root = follow(&store, map.word(1));
    assert_eq!(peek(&store, root) & 0xff, 1, "leaves below it");
    let children: Vec<_> = cells(&store, root).into_iter().map(|cell| child(&store, cell)).collect();
    let leaf = follow(&store, children[0]);
    let text = at!(store, text);
    // A root or a child that is not a page, and a child to which two cells refer.
    for nowhere in [0, 8, text.offset(), u64::MAX, u64::MAX - 7, leaf.offset() + 8] {
        for walk in [forward, back, count, destroy] {
            plant(&store, map.word(1), nowhere, "", walk);
            plant(&store, children[1], nowhere, "", walk);
        }
    }
    for walk in [forward, back, destroy] {
        plant(&store, children[1], leaf.offset(), "", walk);
    }
    for walk in [forward, back, count, destroy] {
        plant(&store, children[0], root.offset(), "wrong level", walk);
        plant(&store, map.word(2), 1 << 29, "impossible size", walk);
    }
    // Impossible page headers.
    for value in [0, u64::MAX, peek(&store, leaf) | 0xff, peek(&store, leaf) ^ 1 << 24] {
        plant(&store, leaf, value, "", forward);
        plant(&store, leaf, value, "", get);
    }
    for value in [u64::MAX, 0, 0xffff, 1 << 47] {
        plant(&store, leaf.word(1), value, "", forward);
        plant(&store, leaf.word(1), value, "", back);
    }
    // Slots that refer to places outside of the page, and keys out of order, which every walk must notice.
    let before_cells = (peek(&store, leaf.word(1)) >> 16 & 0xffff) - 1;
    for value in [0xffff, 1, 511 << 16 | 511, before_cells] {
        plant(&store, leaf.word(2), value, "", forward);
        plant(&store, leaf.word(2), value, "", back);
    }
    let first = cells(&store, leaf)[0];
    plant(&store, first.word(1), u64::MAX, "out of order", forward);
    plant(&store, first.word(1), u64::MAX, "out of order", back);
    // Wrong lengths of a cell's key and value.
    for lengths in [u64::MAX, 26 << 32 | 0xffff_ffff, 26 << 32 | 1 << 20, 4096 << 32, 1 << 62 | 26 << 32 | 8]
    {
        plant(&store, first, lengths, "", forward);
        plant(&store, first, lengths, "", back);
    }
}

/// A large object with more chunks than the pool has.
#[test]
fn chunks_that_nothing_refers_to() {
    let (store, _folder) = store();
    let layout = *store.pool().layout();
    let last = layout.chunk_table.word(layout.chunk_count - 1);
    let before = store.lost_memory().unwrap();
    for chunks in [2, 1 << 20, (1 << 56) - 1] {
        poke(&store, last, 2 | chunks << 8);
        assert_eq!(store.lost_memory().unwrap(), before);
        assert!(store.usage().is_err());
    }
}

#[test]
fn pointers() {
    let (store, _folder) = store();
    let (graph, text) = (at!(store, graph), at!(store, text));
    let follow_friend: Walk = |tx, all| all.graph.get(tx)?.friend.unwrap().get(tx).map(drop);
    for nowhere in [8, 12, text.offset(), graph.offset() + 8, u64::MAX, u64::MAX - 7] {
        plant(&store, graph.word(1), nowhere, "Person", follow_friend);
    }
    // A field of the root itself, in an array in a tuple.
    let root = address(store.read(|_, root| Ok(format!("{root:?}"))).unwrap());
    let last = root.word(15);
    assert_eq!(peek(&store, last), peek(&store, root.word(14)));
    plant(&store, last, text.offset(), "found already", |tx, all| all.pair.1[1].unwrap().get(tx).map(drop));
}

/// Returns a pool for the core's structures.
fn pool() -> (Pool, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Pool::create(folder.path().join("pool"), &options()).unwrap(), folder)
}

#[test]
fn queues_of_words() {
    let (pool, _folder) = pool();
    let (mut worker, root) = (pool.worker().unwrap(), pool.layout().root(0));
    let queue = worker.run(|tx| strandline_structures::Queue::<Vec<u64>>::create(tx, root, 4, 3)).unwrap();
    worker.run(|tx| queue.push(tx, &vec![1, 2, 3]).map(drop)).unwrap();
    let header = PersistentAddress::new(worker.view(|tx| tx.read(root)).unwrap());
    // The largest number.
    worker
        .run(|tx| {
            tx.write(header.word(8), u64::MAX)?;
            tx.write(header.word(16), u64::MAX - 1)
        })
        .unwrap();
    let pushed = worker.run(|tx| queue.push(tx, &vec![1, 2, 3]));
    assert!(matches!(pushed, Err(Error::Damaged { .. })), "{pushed:?}");
    // Entries of 128 MB.
    worker
        .run(|tx| {
            let tag = tx.read(header)?;
            tx.write(header, tag | 0xff_ffff)?;
            tx.write(header.word(8), 1)?;
            tx.write(header.word(16), 0)
        })
        .unwrap();
    let queue = worker.view(|tx| strandline_structures::Queue::<Vec<u64>>::open(tx, root)).unwrap();
    let popped = worker.run(|tx| queue.pop(tx));
    assert!(matches!(popped, Err(Error::Damaged { .. })), "{popped:?}");
    let checked = worker.view(|tx| queue.check(tx));
    assert!(matches!(checked, Err(Error::Damaged { .. })), "{checked:?}");
}

#[test]
fn chains_of_words() {
    let (pool, _folder) = pool();
    let (mut worker, root) = (pool.worker().unwrap(), pool.layout().root(0));
    let table = HashTable::<u64, Vec<u64>>::create(&mut worker, root, 1, 2).unwrap();
    worker.run(|tx| (0..40).try_for_each(|key| table.insert(tx, key, &vec![key; 2]).map(drop))).unwrap();
    let header = PersistentAddress::new(worker.view(|tx| tx.read(root)).unwrap());
    let cell = PersistentAddress::new(worker.view(|tx| tx.read(header.word(2))).unwrap());
    let head = worker.view(|tx| tx.read(cell)).unwrap();
    // Values of 128 MB.
    worker
        .run(|tx| {
            let tag = tx.read(header)?;
            tx.write(header, tag | 0xff_ffff)
        })
        .unwrap();
    let large = worker.view(|tx| HashTable::<u64, Vec<u64>>::open(tx, root)).unwrap();
    let got = worker.view(|tx| large.get(tx, 7));
    assert!(matches!(got, Err(Error::Damaged { .. })), "{got:?}");
    // The second node refers to the first.
    worker
        .run(|tx| {
            let second = tx.read(PersistentAddress::new(head))?;
            tx.write(PersistentAddress::new(second), head)
        })
        .unwrap();
    for damaged in [
        worker.view(|tx| table.count(tx)).map(drop),
        worker.view(|tx| table.check(tx)).map(drop),
        worker.view(|tx| table.get(tx, 1000)).map(drop),
        worker.view(|tx| table.for_each(tx, |_, _| Ok(()))),
    ] {
        assert!(matches!(damaged, Err(Error::Damaged { .. })), "{damaged:?}");
    }
}

/// Makes tables of a key-value store that share the tables below them: 64^8 paths lead to the last one, which is empty. Returns the word that refers
/// to the first.
pub fn shared_tables(tx: &mut impl Transaction) -> Result<u64, Abort> {
    (0..8).try_fold(0, |below, _| {
        let table = tx.alloc(512)?;
        tx.write_range(table, &[below; 64])?;
        Ok(table.offset() | 1)
    })
}

#[test]
fn tables_of_a_key_value_store_that_share_tables() {
    let (pool, _folder) = pool();
    let (mut worker, root) = (pool.worker().unwrap(), pool.layout().root(0));
    let store = KeyValueStore::create(&mut worker, root, 1).unwrap();
    worker
        .run(|tx| {
            let header = PersistentAddress::new(tx.read(root)?);
            let bucket = PersistentAddress::new(tx.read(header.word(2))?);
            let tables = shared_tables(tx)?;
            tx.write(bucket, tables)
        })
        .unwrap();
    let counted = worker.view(|tx| store.count(tx));
    assert!(matches!(counted, Err(Error::Damaged { .. })), "{counted:?}");
    let listed = worker.view(|tx| store.for_each(tx, |_, _| Ok(())));
    assert!(matches!(listed, Err(Error::Damaged { .. })), "{listed:?}");
}

#[test]
fn leaves_of_a_tree_that_all_ways_lead_to() {
    use strandline_core::structures::{BPlusTree, NodeShape};
    let (pool, _folder) = pool();
    let (mut worker, root) = (pool.worker().unwrap(), pool.layout().root(0));
    let shape = NodeShape::of_pairs(28);
    let tree = worker.run(|tx| BPlusTree::<u64, u64>::create(tx, root, shape)).unwrap();
    worker.run(|tx| tree.insert(tx, u64::MAX, 1)).unwrap();
    worker
        .run(|tx| {
            let top = PersistentAddress::new(tx.read(root)?).word(2);
            // There are 29^8 paths from the root to the only leaf, whose key comes after the range.
            for level in 1..=8 {
                let below = tx.read(top)?;
                let node = tx.alloc(shape.bytes)?;
                tx.write_range(node, &[0x5b_1e_af << 8 | level, below])?;
                for group in 0..6u64 {
                    let count = if group == 5 { 3 } else { 5 };
                    let numbers = (0..count).fold(0, |word, i| word | (5 * group + i) << (8 * i));
                    tx.write(node.word(2 + group), count << 56 | numbers)?;
                }
                (0..28).try_for_each(|i| tx.write_range(node.word(8 + 2 * i), &[i, below]))?;
                tx.write(top, node.offset())?;
            }
            Ok(())
        })
        .unwrap();
    let walked = worker.view(|tx| tree.range_back(tx, ..=100, |_, _| Ok(())));
    assert!(matches!(walked, Err(Error::Damaged { .. })), "{walked:?}");
}
