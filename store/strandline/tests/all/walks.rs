//! The work of walks over damaged pools, measured as the words that a walk loads, which a recording memory counts. No test here depends on time.

use std::rc::Rc;

use strandline::hosted::{initialise, with_root};
use strandline::{Domain, Error, HashMap, OrderedMap, Persist, Queue, Result, Root, Stm, Tx, Vector};
use strandline_core::engine::{Over, Worker};
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::recorder::{Observer, Recorded, Recorder};
use strandline_core::memory::{Hosted, Operation, PersistentAddress, Space};
use strandline_core::structures::SHARE;
use strandline_core::{Read, Runner, Transaction};
use strandline_structures::model::typed::{All, Shelf, name};

use super::attacks::{self, Aimed};
use super::damage::{address, drain, shared_tables};

/// Counts loads of the pool's words, up to a maximum.
struct Loads {
    count: u64,
    most: u64,
}

impl Observer for Loads {
    fn observe(&mut self, recorded: Recorded) {
        if let Operation::Load(Space::Persistent, _) = recorded.operation {
            self.count += 1;
            assert!(self.count <= self.most, "more than {} loads", self.most);
        }
    }
}

/// A pool whose loads are counted.
struct World {
    image: Vec<u64>,
    layout: Layout,
    shared: SharedLayout,
}

type Session = Worker<Over<Stm, Hosted>>;

impl World {
    /// Creates a pool of these sizes with this heap, followed by zeros. It has room for `bytes` bytes after its tables.
    fn new(geometry: Geometry, heap: &[u8], bytes: u64) -> Self {
        let layout = Layout::new(geometry).unwrap();
        let shared = SharedLayout::new(&layout, 10, 0);
        let mut image: Vec<u64> = heap.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let end = (layout.chunks.offset() + bytes).min(layout.end().offset());
        image.resize((end / 8) as usize, 0);
        Self { image, layout, shared }
    }

    fn heap_words(&self) -> u64 {
        self.layout.reaching(8 * self.image.len() as u64).heap_words()
    }

    /// Runs `body` with a worker. It may load `most` words. Its stores are kept.
    fn run<R>(&mut self, most: u64, body: impl FnOnce(&mut Session) -> R) -> (R, u64) {
        let image = std::mem::take(&mut self.image);
        let loads = Loads { count: 0, most };
        let recorder = Rc::new(Recorder::observed(image, self.shared.bytes(), 0, 1, None, loads));
        let (layout, shared) = (self.layout, self.shared);
        let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared }.looking();
        let mut worker = Worker::lease(view, Stm, None).unwrap();
        let done = body(&mut worker);
        drop(worker);
        self.image = recorder.contents();
        (done, recorder.observer().count)
    }

    fn create<R: Root>(&mut self, init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>) {
        self.run(u64::MAX, |worker| initialise::<R, C>(worker, init)).0.unwrap();
    }

    /// Runs a transaction.
    fn update<R: Root, T>(
        &mut self,
        body: impl for<'p> Fn(&Tx<'p, C>, R::At<'p>) -> Result<T>,
    ) -> strandline::Result<T> {
        self.update_within::<R, T>(u64::MAX, body).0
    }

    /// Runs a transaction that may load `most` words. Also returns the number of words that it has loaded.
    fn update_within<R: Root, T>(
        &mut self,
        most: u64,
        body: impl for<'p> Fn(&Tx<'p, C>, R::At<'p>) -> Result<T>,
    ) -> (strandline::Result<T>, u64) {
        self.run(most, |worker| worker.run(|tx| with_root::<R, T, C>(tx, |tx, root| body(tx, root.get(tx)?))))
    }

    /// Returns the number of words that `walk` loads. The walk must fail with [`Error::Damaged`] or a similar error, or be stopped.
    #[track_caller]
    fn walk<R: Root>(
        &mut self,
        most: u64,
        walk: impl for<'p> Fn(&Tx<'p, C>, R::At<'p>) -> Result<()>,
    ) -> Result<()> {
        let before = self.image.clone();
        let (walked, _) = self.update_within::<R, ()>(most, |tx, root| {
            walk(tx, root)?;
            Err(Error::Aborted)
        });
        self.image = before;
        match walked {
            Err(Error::Aborted) => Ok(()),
            walked => walked,
        }
    }

    fn words(&mut self, at: PersistentAddress) -> &mut u64 {
        &mut self.image[at.offset() as usize / 8]
    }
}

/// The control of these pools.
type C = Over<Stm, Hosted>;

/// Returns the largest number of words that a walk may load if it visits blocks as often as possible. Each visited word may be checked by loading
/// another.
fn most(world: &World) -> u64 {
    2 * SHARE * world.heap_words()
}

#[track_caller]
fn is_damaged(walked: Result<()>) {
    assert!(matches!(walked, Err(Error::Damaged { .. })), "{walked:?}");
}

type Walk = for<'p> fn(&Tx<'p, C>, All<'p>) -> Result<()>;

/// A walk of each kind over each collection of [`All`].
const WALKS: &[Walk] = &[
    |tx, all| drain(all.hashed.iter(tx)),
    |tx, all| all.hashed.len(tx).map(drop),
    |tx, all| all.hashed.is_empty(tx).map(drop),
    |tx, all| all.hashed.destroy(tx),
    |tx, all| drain(all.ordered.iter(tx)),
    |tx, all| drain(all.ordered.iter(tx).rev()),
    |tx, all| all.ordered.len(tx).map(drop),
    |tx, all| drain(all.ordered.prefix(tx, "a long common prefix 02")),
    |tx, all| drain(all.ordered.drain(tx, name(3)..)),
    |tx, all| all.ordered.retain(tx, |_, value| value.len() % 2 == 0),
    |tx, all| all.ordered.destroy(tx),
    |tx, all| {
        let mut cursor = all.ordered.cursor(tx);
        while cursor.next()?.is_some() {}
        while cursor.previous()?.is_some() {}
        Ok(())
    },
    |tx, all| (0..40).try_for_each(|i| all.ordered.get(tx, &name(i)).map(drop)),
    |tx, all| {
        (0..40).try_for_each(|i| all.ordered.insert(tx, &format!("a long {i}"), &vec![1; 50]).map(drop))
    },
    |tx, all| (0..40).try_for_each(|i| all.ordered.remove(tx, &name(i)).map(drop)),
    |tx, all| (0..40).try_for_each(|i| all.hashed.remove(tx, &name(i)).map(drop)),
    |tx, all| (0..40).try_for_each(|i| all.hashed.insert(tx, &format!("new {i}"), &i).map(drop)),
    |tx, all| drain(all.numbers.iter(tx)),
    |tx, all| drain(all.numbers.range(tx, 100..1000).rev()),
    |tx, all| all.numbers.destroy(tx),
    |tx, all| drain(all.vector.iter(tx)?),
    |tx, all| drain(all.vector.iter(tx)?.rev()),
    |tx, all| all.vector.truncate(tx, 3),
    |tx, all| all.vector.destroy(tx),
    |tx, all| drain(all.units.iter(tx)?),
    |tx, all| all.units.clear(tx),
    |tx, all| drain(all.queue.iter(tx)?),
    |tx, all| all.queue.clear(tx),
    |tx, all| all.queue.destroy(tx),
    |tx, all| all.bytes.get(tx).map(drop),
    |tx, all| all.text.get(tx).map(drop),
    |tx, all| all.bytes.append(tx, "and more"),
    |tx, all| drain(all.by_name.iter(tx)),
    |tx, all| all.by_name.destroy(tx),
    |tx, all| drain(all.nested.iter(tx)),
    |tx, all| {
        all.nested.iter(tx).try_for_each(|pair| match pair?.1 {
            Shelf::Books(books) => drain(books.iter(tx)?),
            Shelf::Waiting { queue, .. } => drain(queue.iter(tx)?),
            Shelf::Empty => Ok(()),
        })
    },
    |tx, all| all.nested.destroy(tx),
    |tx, all| all.hashed.check(tx).map(drop),
    |tx, all| all.ordered.check(tx).map(drop),
    |tx, all| all.numbers.check(tx).map(drop),
    |tx, all| all.vector.check(tx).map(drop),
    |tx, all| all.units.check(tx).map(drop),
    |tx, all| all.queue.check(tx).map(drop),
    |tx, all| all.by_name.check(tx).map(drop),
    |tx, all| all.nested.check(tx).map(drop),
    |tx, all| all.graph.check(tx).map(drop),
];

/// Walks over a pool with this damage. No walk may load more words than the pool has.
///
/// # Panics
/// Panics if a walk loads more.
pub fn do_bounded_work(damage: &[Aimed]) {
    let mut world = of_image(&attacks::damaged_heap(damage));
    let words = world.image.len() as u64;
    for walk in WALKS {
        let _ = world.walk::<All>(words, walk);
    }
}

fn of_image(heap: &[u8]) -> World {
    World::new(attacks::options(Domain::Process).geometry, heap, 1 << 20)
}

#[test]
fn walks_over_sound_pools_end_well() {
    let mut world = of_image(&attacks::damaged_heap(&[]));
    for (number, walk) in WALKS.iter().enumerate() {
        let most = world.image.len() as u64 / 8;
        world.walk::<All>(most, walk).unwrap_or_else(|error| panic!("walk {number}: {error}"));
    }
}

#[derive(Clone, Copy, Persist)]
struct Deep<'p> {
    map: OrderedMap<'p, Vec<u8>, u64>,
}

/// A map with few pairs, below as many layers as a key can have. Each batch visits the layers again. A walk counts its loads here, and must stay far
/// below its bound.
#[test]
fn walks_over_few_pairs_below_many_layers_end_well() {
    const LONGEST: usize = 4000;
    let geometry = Geometry { size: 64 << 20, logs: 2, log_bytes: 1 << 20, chunk_bytes: 1 << 12 };
    for pairs in [1, 4, 5, 12, 13, 28, 60] {
        let mut world = World::new(geometry, &[], 2 << 20);
        world.create::<Deep<'static>>(|tx| Ok(Deep { map: OrderedMap::new(tx)? }));
        for pair in 0..pairs {
            let mut key = vec![b'x'; LONGEST];
            key.push(pair);
            world
                .update::<Deep<'static>, _>(|tx, root| root.map.insert(tx, &key, &u64::from(pair)).map(drop))
                .unwrap();
        }
        // The heap is as small as possible for its content.
        let used = world.image.iter().rposition(|&word| word != 0).unwrap() as u64 + 1;
        let words = used - world.layout.chunks.offset() / 8;
        let most = SHARE / 2 * words;
        world.walk::<Deep<'static>>(most, |tx, root| drain(root.map.iter(tx))).unwrap();
        world.walk::<Deep<'static>>(most, |tx, root| drain(root.map.iter(tx).rev())).unwrap();
        world.walk::<Deep<'static>>(most, |tx, root| root.map.len(tx).map(drop)).unwrap();
        world
            .walk::<Deep<'static>>(most, |tx, root| {
                let mut range = root.map.iter(tx);
                while let Some(pair) = range.next().or_else(|| range.next_back()) {
                    pair?;
                    range.next_back().transpose()?;
                }
                Ok(())
            })
            .unwrap();
    }
}

/// Returns a pool of 4 GB whose file has 2 MB. A bound by the size to which it can grow would be useless.
fn large() -> World {
    let geometry = Geometry { size: 1 << 32, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 18 };
    World::new(geometry, &[], 2 << 20)
}

#[derive(Clone, Copy, Persist)]
struct Hashed<'p> {
    map: HashMap<'p, u64, u64>,
}

#[test]
fn tables_of_hash_maps_that_share_tables() {
    let mut world = large();
    world.create::<Hashed<'static>>(|tx| Ok(Hashed { map: HashMap::new(tx)? }));
    let map = world.update::<Hashed<'static>, _>(|_, root| Ok(address(format!("{:?}", root.map)))).unwrap();
    let bucket = PersistentAddress::new(*world.words(map.word(2)));
    world
        .run(u64::MAX, |worker| {
            worker.run(|tx| {
                let tables = shared_tables(tx)?;
                tx.write(bucket, tables)
            })
        })
        .0
        .unwrap();
    let most = most(&world);
    is_damaged(world.walk::<Hashed<'static>>(most, |tx, root| drain(root.map.iter(tx))));
    is_damaged(world.walk::<Hashed<'static>>(most, |tx, root| root.map.len(tx).map(drop)));
    is_damaged(world.walk::<Hashed<'static>>(most, |tx, root| root.map.is_empty(tx).map(drop)));
    // Destroying the map meets tables that it has freed already.
    assert!(world.walk::<Hashed<'static>>(most, |tx, root| root.map.destroy(tx)).is_err());
    world
        .walk::<Hashed<'static>>(most, |tx, root| {
            assert!(root.map.check(tx)?[0].contains("found already"));
            Ok(())
        })
        .unwrap();
}

#[derive(Clone, Copy, Persist)]
struct Overlapping<'p> {
    ordered: OrderedMap<'p, u64, Vec<u8>>,
    hashed: HashMap<'p, u64, Vec<u8>>,
    queue: Queue<'p, Vec<u8>>,
}

/// Values in chunks of their own, whose lengths are then changed to reach the end of the pool.
#[test]
fn values_that_overlap() {
    const BYTES: usize = 2100;
    const KEYS: u64 = 40;
    let geometry = Geometry { size: 2 << 20, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 13 };
    let mut world = World::new(geometry, &[], 2 << 20);
    world.create::<Overlapping<'static>>(|tx| {
        Ok(Overlapping { ordered: OrderedMap::new(tx)?, hashed: HashMap::new(tx)?, queue: Queue::new(tx)? })
    });
    world
        .run(u64::MAX, |worker| {
            (0..KEYS).try_for_each(|key| {
                worker.run(|tx| {
                    with_root::<Overlapping<'static>, (), C>(tx, |tx, root| {
                        let root = root.get(tx)?;
                        root.ordered.insert(tx, &key, &vec![1; BYTES])?;
                        root.hashed.insert(tx, &key, &vec![1; BYTES])?;
                        root.queue.push(tx, &vec![1; BYTES])
                    })
                })
            })
        })
        .0
        .unwrap();
    let layout = world.layout;
    let (mut in_pages, mut found) = (0_u64, 0_u64);
    let bytes_from = |chunk: u64| (layout.chunk_count - chunk) * geometry.chunk_bytes - 64;
    // The cells of an ordered map have the lengths and the place of values: bit 62, the number of bytes of the key, and that of the value.
    let head = 1 << 62 | 8 << 32 | BYTES as u64;
    let end = layout.end_of(layout.chunk_count).offset();
    for at in (layout.chunks.offset()..end - 16).step_by(8).map(PersistentAddress::new) {
        if *world.words(at) == head {
            let inside = *world.words(at.word(2)) - layout.chunks.offset();
            *world.words(at) = head - BYTES as u64 + bytes_from(inside / geometry.chunk_bytes);
            in_pages += 1;
        }
    }
    for chunk in 0..layout.chunk_count {
        let in_table = layout.chunk_table.word(chunk);
        if *world.words(in_table) & 0xff != 2 {
            continue;
        }
        let at = layout.chunks.byte(chunk * geometry.chunk_bytes);
        let rest = layout.chunk_count - chunk;
        *world.words(in_table) = 2 | rest << 8;
        // The nodes of hash maps have the length of the value in bits 0 to 28 of word 1, those of queues have that of the item in word 2.
        for (word, mask) in [(1, (1 << 29) - 1), (2, u64::MAX)] {
            let lengths = world.words(at.word(word));
            if *lengths & mask == BYTES as u64 {
                *lengths += bytes_from(chunk) - BYTES as u64;
                found += 1;
            }
        }
    }
    // Pages that were split still have copies of the cells that moved.
    assert!(in_pages >= KEYS && found == 2 * KEYS, "{in_pages} {found}");
    let most = most(&world);
    is_damaged(world.walk::<Overlapping<'static>>(most, |tx, root| drain(root.ordered.iter(tx))));
    is_damaged(world.walk::<Overlapping<'static>>(most, |tx, root| drain(root.ordered.iter(tx).rev())));
    // `len` reads no values.
    world.walk::<Overlapping<'static>>(most, |tx, root| root.ordered.len(tx).map(drop)).unwrap();
    is_damaged(world.walk::<Overlapping<'static>>(most, |tx, root| drain(root.hashed.iter(tx))));
    is_damaged(world.walk::<Overlapping<'static>>(most, |tx, root| root.hashed.len(tx).map(drop)));
    is_damaged(world.walk::<Overlapping<'static>>(most, |tx, root| drain(root.queue.iter(tx)?)));
    for number in 0..3 {
        world
            .walk::<Overlapping<'static>>(most, |tx, root| {
                let found = match number {
                    0 => root.ordered.check(tx)?,
                    1 => root.hashed.check(tx)?,
                    _ => root.queue.check(tx)?,
                };
                let is_named = |found: &String| found.contains("more blocks than the pool has room for");
                assert!(found.iter().any(is_named), "{found:?}");
                Ok(())
            })
            .unwrap();
    }
}

#[derive(Clone, Copy, Persist)]
struct Level<'p> {
    below: Vector<'p, Level<'p>>,
}

/// A vector of two equal vectors, and so on: a million paths lead to the last.
fn is_sound<'p>(tx: &Tx<'p, C>, root: Level<'p>) -> Result<()> {
    assert_eq!(root.below.check(tx)?, [""; 0]);
    Ok(())
}

#[test]
fn vectors_that_share_vectors() {
    let mut world = large();
    world.create::<Level<'static>>(|tx| {
        let mut below = Vector::new(tx)?;
        for _ in 0..20 {
            let above = Vector::new(tx)?;
            above.push(tx, &Level { below })?;
            above.push(tx, &Level { below })?;
            below = above;
        }
        Ok(Level { below })
    });
    let most = world.heap_words();
    world.walk::<Level<'static>>(most, |tx, root| drain(root.below.iter(tx)?)).unwrap();
    world.walk::<Level<'static>>(most, is_sound).unwrap();
    // Each vector is destroyed once, and its handle dangles then.
    assert!(world.walk::<Level<'static>>(most, |tx, root| root.below.destroy(tx)).is_err());
    assert!(world.walk::<Level<'static>>(most, |tx, root| root.below.truncate(tx, 0)).is_err());
    // A vector that contains itself.
    world
        .update::<Level<'static>, _>(|tx, root| root.below.get(tx, 0)?.unwrap().below.push(tx, &root))
        .unwrap();
    world.walk::<Level<'static>>(most, is_sound).unwrap();
    assert!(world.walk::<Level<'static>>(most, |tx, root| root.below.destroy(tx)).is_err());
}

#[derive(Clone, Copy, Persist)]
struct Numbers<'p> {
    map: OrderedMap<'p, u64, u64>,
}

/// An iteration may meet rows that the program inserts meanwhile, as long as it does so.
#[test]
fn an_iteration_in_a_transaction_that_writes_ends_when_nothing_is_left() {
    let geometry = Geometry { size: 256 << 10, logs: 2, log_bytes: 1 << 14, chunk_bytes: 1 << 12 };
    let mut world = World::new(geometry, &[], 256 << 10);
    world.create::<Numbers<'static>>(|tx| Ok(Numbers { map: OrderedMap::new(tx)? }));
    // A leaf of 64 words is visited for each row.
    let last = 2 * SHARE * world.heap_words() / 64;
    let walked = world.update::<Numbers<'static>, _>(|tx, root| {
        root.map.insert(tx, &0, &0)?;
        let mut met = 0;
        for pair in root.map.iter(tx) {
            let (key, _) = pair?;
            assert_eq!(key, met);
            met += 1;
            root.map.remove(tx, &key)?;
            if key < last {
                root.map.insert(tx, &(key + 1), &0)?;
            }
        }
        Ok(met)
    });
    assert_eq!(walked.unwrap(), last + 1);
}

#[test]
fn a_walk_reads_how_far_the_pool_has_grown() {
    let mut world = large();
    let heap = world.heap_words();
    let (learned, _) = world.run(u64::MAX, |worker| {
        worker.run(|tx| {
            let mut walk = strandline_core::structures::Walk::default();
            let root = tx.root(0);
            walk.visit(tx, "a word", root, SHARE * heap)?;
            walk.visit(tx, "a word", root, 1)
        })
    });
    is_damaged(learned);
}
