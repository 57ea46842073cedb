//! Attacks on a pool, for property tests and for the fuzzer (`fuzz/`): damaged bytes, and kills amid operations.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::LazyLock;

use strandline::pool::Geometry;
use strandline::typed::{HashMap, OrderedMap, Persist, Ptr, Queue, Store, Text, Tx, Vector};
use strandline::{Domain, Error, Options, Result};

#[derive(Persist)]
struct All<'p> {
    hashed: HashMap<'p, String, u64>,
    ordered: OrderedMap<'p, String, Vec<u8>>,
    numbers: OrderedMap<'p, u64, u64>,
    vector: Vector<'p, (u64, bool)>,
    queue: Queue<'p, String>,
    text: Text<'p>,
    pointer: Ptr<'p, Option<char>>,
}

fn make<'p>(tx: &Tx<'p>) -> Result<All<'p>> {
    Ok(All {
        hashed: HashMap::new(tx)?,
        ordered: OrderedMap::new(tx)?,
        numbers: OrderedMap::new(tx)?,
        vector: Vector::new(tx)?,
        queue: Queue::new(tx)?,
        text: Text::new(tx, "the strandline")?,
        pointer: Ptr::new(tx, &Some('x'))?,
    })
}

fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 13 };
    let sync = strandline::sync::SyncParameters { ring_blocks: 64, dirty_pages: 64, staging_blocks: 2 };
    Options { domain, geometry, sync, lock_bits: 8, ..Options::default() }
}

fn fill(store: &Store<All>) {
    store
        .update(|tx, root| {
            let all = root.get(tx)?;
            for i in 0..40 {
                all.hashed.insert(tx, &format!("key {i}"), &i)?;
                all.ordered.insert(
                    tx,
                    &format!("a long common prefix {i:03}"),
                    &vec![i as u8; i as usize],
                )?;
                all.numbers.insert(tx, &(i * i), &i)?;
                all.vector.push(tx, &(i, i % 2 == 0))?;
                all.queue.push(tx, &format!("job {i}"))?;
            }
            Ok(())
        })
        .unwrap();
}

/// Does everything that a program may; errors are as good as results.
fn use_everything(store: &Store<All>) {
    let _ = store.view(|tx, root| {
        let all = root.get(tx)?;
        let _ = all.hashed.check(tx);
        let _ = all.hashed.iter(tx).count();
        Ok(())
    });
    let _ = store.view(|tx, root| root.get(tx)?.ordered.check(tx));
    let _ = store.view(|tx, root| root.get(tx)?.ordered.iter(tx).rev().collect::<Result<Vec<_>>>());
    let _ = store.view(|tx, root| root.get(tx)?.numbers.iter(tx).collect::<Result<Vec<_>>>());
    let _ = store.view(|tx, root| root.get(tx)?.vector.iter(tx)?.collect::<Result<Vec<_>>>());
    // A queue may have been made a circle; nobody walks it without end.
    let _ = store.view(|tx, root| root.get(tx)?.queue.iter(tx)?.take(100).collect::<Result<Vec<_>>>());
    let _ = store.view(|tx, root| root.get(tx)?.text.get(tx));
    let _ = store.view(|tx, root| root.get(tx)?.pointer.get(tx));
    for i in 0..5 {
        let _ = store.update(|tx, root| root.get(tx)?.hashed.insert(tx, &format!("new {i}"), &i));
        let _ = store.update(|tx, root| root.get(tx)?.hashed.remove(tx, &format!("key {i}")));
        let _ =
            store.update(|tx, root| root.get(tx)?.ordered.insert(tx, &format!("a long {i}"), &vec![1; 50]));
        let _ = store
            .update(|tx, root| root.get(tx)?.ordered.remove(tx, &format!("a long common prefix {i:03}")));
        let _ = store.update(|tx, root| root.get(tx)?.numbers.remove(tx, &(i * i)));
        let _ = store.update(|tx, root| root.get(tx)?.vector.push(tx, &(i, true)));
        let _ = store.update(|tx, root| root.get(tx)?.queue.pop(tx));
        let _ = store.update(|tx, root| root.get(tx)?.text.set(tx, "another text"));
    }
    let _ = store.update(|tx, root| root.get(tx)?.pointer.free(tx));
    let _ = store.update(|tx, root| root.get(tx)?.vector.destroy(tx));
    let _ = store.pool().usage();
}

type Files = Vec<(&'static str, Vec<u8>)>;

/// A pool's files, whole: closed, or as a kill would leave them.
fn make_image(domain: Domain, clean: bool) -> Files {
    let folder = folder();
    let store = Store::<All>::create(folder.path().join("pool"), &options(domain), make).unwrap();
    fill(&store);
    let read = || {
        let names = ["pool", "pool.log"].into_iter();
        names.filter_map(|name| Some((name, std::fs::read(folder.path().join(name)).ok()?))).collect()
    };
    if clean {
        store.close().unwrap();
        read()
    } else {
        read()
    }
}

pub fn image(domain: Domain, clean: bool) -> Files {
    static IMAGES: LazyLock<[Files; 4]> = LazyLock::new(|| {
        [(Domain::Sync, false), (Domain::Sync, true), (Domain::Process, false), (Domain::Process, true)]
            .map(|(domain, clean)| make_image(domain, clean))
    });
    IMAGES[2 * usize::from(domain == Domain::Process) + usize::from(clean)].clone()
}

fn put(files: &[(&'static str, Vec<u8>)], folder: &Path) {
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

/// A folder of its own, in memory where there is such a place: nothing here needs a disk.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Bytes that are overwritten.
#[derive(Clone, Copy, Debug)]
pub struct Damage {
    /// Which file, of those that there are.
    pub file: u32,
    /// Which word, of those in use.
    pub word: u32,
    /// The new bytes.
    pub value: u64,
    /// How many of them, 1 to 8.
    pub bytes: u8,
}

/// Opens a pool with damaged bytes, and uses it: an error or another value are as good as any, a panic or a wild read or
/// write are not.
pub fn open_damaged(domain: Domain, clean: bool, damage: &[Damage]) {
    let mut files = image(domain, clean);
    for &Damage { file, word, value, bytes } in damage {
        let file = file as usize % files.len();
        let contents = &mut files[file].1;
        // Bytes that are in use: zeros of the heap say nothing.
        let used = contents.len() - contents.iter().rev().take_while(|&&byte| byte == 0).count();
        let at = word as usize % used.div_ceil(8).max(1) * 8;
        let end = (at + usize::from(bytes.clamp(1, 8))).min(contents.len());
        contents[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
    }
    let folder = folder();
    put(&files, folder.path());
    let path = folder.path().join("pool");
    let _ = strandline::pool::check(&path);
    if let Ok(store) = Store::<All>::open_read_only(&path, &options(domain)) {
        use_everything(&store);
    }
    if let Ok(store) = Store::<All>::open(&path, &options(domain)) {
        use_everything(&store);
    }
}

/// One transaction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Into both maps of names.
    Insert(String, u8),
    /// From both.
    Remove(String),
    /// From one, and then it is given up.
    GiveUp(String),
    /// Into the map of numbers, if its value is not 0; else from it.
    Number(u64, u64),
    /// To the vector's end.
    Push(u64),
    /// From the vector's end.
    Pop,
    /// To the queue's end.
    Enqueue(String),
    /// From the queue's front.
    Dequeue,
}

/// What the pool is to hold, in the standard library's collections.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    names: BTreeMap<String, Vec<u8>>,
    numbers: BTreeMap<u64, u64>,
    vector: Vec<(u64, bool)>,
    queue: VecDeque<String>,
}

impl Model {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Insert(name, bytes) => drop(self.names.insert(name.clone(), vec![7; usize::from(*bytes)])),
            Step::Remove(name) => drop(self.names.remove(name)),
            Step::GiveUp(_) => {}
            Step::Number(key, 0) => drop(self.numbers.remove(key)),
            Step::Number(key, value) => drop(self.numbers.insert(*key, *value)),
            Step::Push(item) => self.vector.push((*item, item % 3 == 0)),
            Step::Pop => drop(self.vector.pop()),
            Step::Enqueue(item) => self.queue.push_back(item.clone()),
            Step::Dequeue => drop(self.queue.pop_front()),
        }
    }
}

/// What a pool opened from a copy of the file, taken now, holds.
fn after_a_kill(path: &Path, image: &Path) -> Model {
    std::fs::copy(path, image).unwrap();
    let store = Store::<All>::open(image, &options(Domain::Process)).unwrap();
    let found = store.view(|tx, root| {
        let all = root.get(tx)?;
        let names: BTreeMap<_, _> = all.ordered.iter(tx).collect::<Result<_>>()?;
        let mut sums: Vec<_> = all.hashed.iter(tx).collect::<Result<_>>()?;
        sums.sort();
        let expected = names.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64));
        assert!(sums.into_iter().eq(expected), "the two maps are not of one transaction");
        assert_eq!(all.ordered.count(tx)?, names.len() as u64);
        Ok(Model {
            names,
            numbers: all.numbers.iter(tx).collect::<Result<_>>()?,
            vector: all.vector.iter(tx)?.collect::<Result<_>>()?,
            queue: all.queue.iter(tx)?.collect::<Result<_>>()?,
        })
    });
    store.pool().usage().unwrap();
    found.unwrap()
}

/// In the `Process` domain the file is what a kill leaves: after each transaction it holds all of it, and in the midst of one
/// nothing of it. Bit n of `images` says whether step n, modulo 32, is looked at.
///
/// # Panics
/// It is not so.
pub fn operate_and_kill(steps: &[Step], images: u32) {
    let folder = folder();
    let (path, image) = (folder.path().join("pool"), folder.path().join("image"));
    let store = Store::<All>::create(&path, &options(Domain::Process), make).unwrap();
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        let take = images >> (number % 32) & 1 == 1;
        let done = store.update(|tx, root| {
            let all = root.get(tx)?;
            match step {
                Step::Insert(name, bytes) => {
                    all.ordered.insert(tx, name, &vec![7; usize::from(*bytes)])?;
                    if take {
                        assert_eq!(after_a_kill(&path, &image), model, "in the midst of {step:?}");
                    }
                    all.hashed.insert(tx, name, &u64::from(*bytes))?;
                }
                Step::Remove(name) => {
                    all.ordered.remove(tx, name)?;
                    all.hashed.remove(tx, name)?;
                }
                Step::GiveUp(name) => {
                    all.ordered.remove(tx, name)?;
                    return Err(Error::Aborted);
                }
                Step::Number(key, 0) => drop(all.numbers.remove(tx, key)?),
                Step::Number(key, value) => drop(all.numbers.insert(tx, key, value)?),
                Step::Push(item) => all.vector.push(tx, &(*item, item % 3 == 0))?,
                Step::Pop => drop(all.vector.pop(tx)?),
                Step::Enqueue(item) => all.queue.push(tx, item)?,
                Step::Dequeue => drop(all.queue.pop(tx)?),
            }
            Ok(())
        });
        match done {
            Ok(()) => model.apply(step),
            // Nothing has happened.
            Err(Error::Aborted | Error::Full(_)) => {}
            Err(error) => panic!("{step:?}: {error}"),
        }
        if take {
            assert_eq!(after_a_kill(&path, &image), model, "after {step:?}");
        }
    }
    drop(store);
    assert_eq!(after_a_kill(&path, &image), model, "at the end");
}
