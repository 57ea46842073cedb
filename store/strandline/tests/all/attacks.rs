//! Attacks on a pool, for property tests and for the fuzzer (`fuzz/`): damaged bytes, and kills between operations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use strandline::{Domain, DynamicStore, Error, Geometry, Options, Result, Store, SyncParameters};
use strandline_core::scheme::Schemes;
use strandline_core::structures::root::DESCRIPTION_WORDS;
use strandline_structures::model::typed::{All, Shelf, name};
use strandline_structures::model::{Contents, Operation};

pub fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 16, chunk_bytes: 1 << 13 };
    let sync = SyncParameters {
        ring_blocks: 64,
        initial_ring_blocks: 64,
        dirty_pages: 64,
        staging_blocks: 2,
        ..SyncParameters::default()
    };
    Options { domain, geometry, sync, lock_bits: 8, ..Options::default() }
}

/// Takes all items, and goes on even after an error. The iteration must end, with no more items than the pool has words.
fn drain<T>(items: Result<impl Iterator<Item = Result<T>>>) -> Result<()> {
    let mut failed = Ok(());
    for (number, item) in items?.enumerate() {
        assert!(number < 1 << 17, "more items than words");
        if let Err(error) = item {
            failed = Err(error);
        }
    }
    failed
}

/// Calls everything that a program may call. Errors are as good as results.
fn use_everything(store: &Store<All>) {
    let _ = store.check();
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.hashed.iter(tx))));
    let _ = store.read(|tx, root| root.get(tx)?.hashed.len(tx));
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.ordered.iter(tx))));
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.ordered.iter(tx).rev())));
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.numbers.iter(tx))));
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.numbers.range(tx, 100..1000).rev())));
    let _ = store.read(|tx, root| drain(root.get(tx)?.vector.iter(tx)));
    let _ = store.read(|tx, root| drain(root.get(tx)?.vector.iter(tx).map(Iterator::rev)));
    let _ = store.read(|tx, root| drain(root.get(tx)?.units.iter(tx)));
    let _ = store.read(|tx, root| drain(root.get(tx)?.queue.iter(tx)));
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.by_name.iter(tx))));
    let _ = store.read(|tx, root| drain(Ok(root.get(tx)?.nested.iter(tx))));
    let _ = store.read(|tx, root| root.get(tx)?.text.get(tx));
    let _ = store.read(|tx, root| root.get(tx)?.bytes.get(tx));
    let _ = store.read(|tx, root| root.get(tx)?.pointer.get(tx));
    let _ = store.read(|tx, root| {
        let friend = root.get(tx)?.graph.get(tx)?.friend;
        friend.map_or(Ok(String::new()), |friend| friend.get(tx)?.name.get(tx))
    });
    for i in 0..20 {
        let _ = store.read(|tx, root| root.get(tx)?.hashed.get(tx, &name(i)));
        let _ = store.read(|tx, root| root.get(tx)?.ordered.get(tx, &name(i)));
        let _ = store.read(|tx, root| root.get(tx)?.numbers.get(tx, &(i * i)));
        let _ = store.read(|tx, root| root.get(tx)?.vector.get(tx, i));
        let _ = store.read(|tx, root| match root.get(tx)?.nested.get(tx, &i)? {
            Some(Shelf::Books(books)) => drain(books.iter(tx)),
            Some(Shelf::Waiting { queue, .. }) => drain(queue.iter(tx)),
            _ => Ok(()),
        });
    }
    for i in 0..5 {
        let _ = store.write(|tx, root| root.get(tx)?.hashed.insert(tx, &format!("new {i}"), &i));
        let _ = store.write(|tx, root| root.get(tx)?.hashed.remove(tx, &name(i)));
        let _ =
            store.write(|tx, root| root.get(tx)?.ordered.insert(tx, &format!("a long {i}"), &vec![1; 50]));
        let _ = store.write(|tx, root| root.get(tx)?.ordered.remove(tx, &name(i)));
        let _ = store.write(|tx, root| root.get(tx)?.numbers.remove(tx, &(i * i)));
        let _ = store.write(|tx, root| root.get(tx)?.vector.push(tx, &(i, true)));
        let _ = store.write(|tx, root| root.get(tx)?.queue.pop(tx));
        let _ = store.write(|tx, root| root.get(tx)?.text.set(tx, "another text"));
        let _ = store.write(|tx, root| root.get(tx)?.vector.set(tx, 7 * i, &(i, true)));
        let _ = store.write(|tx, root| root.get(tx)?.vector.pop(tx));
        let _ = store.write(|tx, root| root.get(tx)?.units.push(tx, &()));
        let _ = store.write(|tx, root| root.get(tx)?.queue.push(tx, &"one more".to_string()));
        let _ = store.write(|tx, root| root.get(tx)?.bytes.append(tx, "and more"));
        let _ = store.write(|tx, root| {
            let all = root.get(tx)?;
            all.by_name.insert(tx, &(format!("a name that is long {i}"), 77), &all.graph).map(drop)
        });
        let _ = store.write(|tx, root| root.get(tx)?.nested.remove(tx, &i).map(drop));
    }
    let _ = store.write(|tx, root| {
        root.get(tx)?.graph.update(tx, |person| person.friend = None)?;
        Ok(())
    });
    let _ = store.write(|tx, root| root.get(tx)?.pointer.free(tx));
    let _ = store.write(|tx, root| root.get(tx)?.vector.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.queue.clear(tx));
    let _ = store.write(|tx, root| root.get(tx)?.queue.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.hashed.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.ordered.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.numbers.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.by_name.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.nested.destroy(tx));
    let _ = store.write(|tx, root| root.get(tx)?.bytes.destroy(tx));
    let _ = store.check();
    let _ = store.usage();
}

/// Walks over the pool like a program that does not know its types. It must find damage if a program that knows the types finds some.
fn walk_described(path: &Path, domain: Domain) {
    let Ok(pool) = DynamicStore::open_read_only(path, &options(domain)) else { return };
    let found = pool.check();
    let _ = pool.lost_memory();
    let mut met = 0;
    let _ = pool.dump(|_| {
        met += 1;
        assert!(met < 1 << 17, "more than there are words");
        Ok(())
    });
    drop(pool);
    let Ok(store) = Store::<All>::open_read_only(path, &options(domain)) else { return };
    // Without a description there can be no walk.
    if let (Ok(found), Ok(expected)) = (found, store.check()) {
        assert_eq!(found.is_empty(), expected.is_empty(), "{found:?} {expected:?}");
    }
}

type Files = Vec<(&'static str, Vec<u8>)>;

/// Returns the complete files of a pool that was closed, or that a kill has left.
fn make_image(domain: Domain, clean: bool) -> Files {
    let folder = folder();
    let store =
        Store::<All>::create_new(folder.path().join("pool"), &options(domain), |tx| All::new(tx)).unwrap();
    All::fill(&store, 40).unwrap();
    assert_eq!(store.check().unwrap(), [""; 0]);
    let lost = store.lost_memory().unwrap();
    let read = || {
        let names = ["pool", "pool.log"].into_iter();
        names.filter_map(|name| Some((name, std::fs::read(folder.path().join(name)).ok()?))).collect()
    };
    if clean {
        store.close().unwrap();
        let path = folder.path().join("pool");
        let pool = DynamicStore::open_read_only(path, &options(domain)).unwrap();
        assert_eq!((pool.check().unwrap(), pool.lost_memory().unwrap()), (vec![], lost));
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

/// Returns a new folder, in memory if the system has such a place: these tests do not need a disk.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// Bytes to be overwritten.
#[derive(Clone, Copy, Debug)]
pub struct Damage {
    pub file: u32,
    /// Selects the word, among those in use.
    pub word: u32,
    /// The new bytes.
    pub value: u64,
    /// The number of bytes that are written, 1 to 8.
    pub bytes: u8,
}

/// In a long run, reports an image on which the run spends more than 10 seconds, and ends the process. At the end it prints the slowest image. A run
/// of the usual length measures nothing.
struct Watch(Option<Instant>);

/// The images in progress, by the names of the threads that use them.
static WATCHED: Mutex<BTreeMap<String, (Instant, String)>> = Mutex::new(BTreeMap::new());
static SLOWEST: Mutex<Duration> = Mutex::new(Duration::ZERO);

impl Watch {
    fn new(image: impl FnOnce() -> String) -> Self {
        static THREAD: LazyLock<bool> = LazyLock::new(|| {
            let is_long = std::env::var_os("STRANDLINE_CASES").is_some();
            if is_long {
                std::thread::spawn(Watch::watch);
            }
            is_long
        });
        let began = THREAD.then(Instant::now);
        if let Some(began) = began {
            WATCHED.lock().unwrap().insert(Self::thread(), (began, image()));
        }
        Self(began)
    }

    fn thread() -> String {
        format!("{:?}", std::thread::current().id())
    }

    fn watch() {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            for (began, image) in WATCHED.lock().unwrap().values() {
                if began.elapsed() > Duration::from_secs(10) {
                    eprintln!("more than 10 s: {image}");
                    std::process::abort();
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(began) = self.0 else { return };
        let image = WATCHED.lock().unwrap().remove(&Self::thread());
        let mut slowest = SLOWEST.lock().unwrap();
        if began.elapsed() > *slowest {
            *slowest = began.elapsed();
            eprintln!("slowest so far: {slowest:?}, {}", image.map(|(_, image)| image).unwrap_or_default());
        }
    }
}

/// Returns the length of `contents` without the zeros at its end.
fn without_zeros(contents: &[u8]) -> usize {
    const PAGE: usize = 4096;
    // Whole pages are compared, since this program is compiled without optimisation.
    let last = contents.chunks(PAGE).rposition(|page| page != &[0; PAGE][..page.len()]);
    let pages = last.map_or(0, |last| contents.len().min((last + 1) * PAGE));
    contents[..pages].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// Opens a pool with damaged bytes, and uses it. An error or a wrong value is acceptable, but not a panic or an access outside the pool.
pub fn open_damaged(domain: Domain, clean: bool, damage: &[Damage]) {
    let mut files = image(domain, clean);
    for &Damage { file, word, value, bytes } in damage {
        let file = file as usize % files.len();
        let contents = &mut files[file].1;
        // Only bytes in use are damaged: zeros of the heap mean nothing.
        let used = without_zeros(contents);
        let at = word as usize % used.div_ceil(8).max(1) * 8;
        let end = (at + usize::from(bytes.clamp(1, 8))).min(contents.len());
        contents[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
    }
    let _watch = Watch::new(|| format!("{domain}, {clean}: {damage:?}"));
    let folder = folder();
    put(&files, folder.path());
    let path = folder.path().join("pool");
    let _ = strandline_core::file::check(&path, Schemes::default());
    walk_described(&path, domain);
    if let Ok(store) = Store::<All>::open_read_only(&path, &options(domain)) {
        use_everything(&store);
    }
    if let Ok(store) = Store::<All>::open_existing(&path, &options(domain)) {
        use_everything(&store);
    }
}

/// A word in use, and its replacement.
#[derive(Clone, Copy, Debug)]
pub struct Aimed {
    /// Selects the word, among those that are not zero or are next to one that is not.
    pub word: u32,
    pub change: Change,
}

/// The replacement of a word.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// 2^64 minus this number.
    FromTheEnd(u8),
    /// The word plus this number of eighths, which may be negative.
    By(i8),
    /// The address of the word this many words further, with the bit that marks tables, layers and colours.
    Itself(i8, bool),
    /// The content of another word in use.
    Another(u32),
    /// The address of another word in use.
    AddressOf(u32),
    /// The word with one bit inverted.
    Bit(u8),
    Value(u64),
}

/// Returns the words of a heap, after its header and logs, that are not zero or are next to one that is not.
fn in_use(heap: &[u8]) -> Vec<usize> {
    let layout = strandline_core::layout::Layout::new(options(Domain::Process).geometry).unwrap();
    let begin = layout.root(0).offset() as usize / 8;
    let word = |number: usize| heap.get(8 * number..8 * number + 8).is_some_and(|word| word != [0; 8]);
    (begin..heap.len() / 8).filter(|&number| (number - 1..number + 2).any(word)).collect()
}

/// The indices of the words in use in a closed pool's heap.
static WORDS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    in_use(&image(Domain::Process, true)[0].1).into_iter().map(|number| 8 * number).collect()
});

/// Like `open_damaged`, but damages words of structures: tags, links, lengths, keys, bitmaps and the chunk table.
pub fn open_aimed(damage: &[Aimed]) {
    let damage = damage.iter().map(|&Aimed { word, change }| (place(word), change));
    open_changed(&damage.collect::<Vec<_>>());
}

/// Returns the heap of a closed pool with this damage.
pub fn damaged_heap(damage: &[Aimed]) -> Vec<u8> {
    let mut heap = image(Domain::Process, true).swap_remove(0).1;
    change(
        &mut heap,
        &damage.iter().map(|&Aimed { word, change }| (place(word), change)).collect::<Vec<_>>(),
    );
    heap
}

/// Changes each word of the root's description, one at a time.
pub fn open_with_another_description(change: Change) {
    let heap = &image(Domain::Process, true)[0].1;
    let layout = strandline_core::layout::Layout::new(options(Domain::Process).geometry).unwrap();
    let description = word_at(heap, layout.root(0).offset() as usize) as usize;
    for word in 0..DESCRIPTION_WORDS {
        open_changed(&[(description + 8 * word, change)]);
    }
}

fn place(number: u32) -> usize {
    WORDS[number as usize % WORDS.len()]
}

fn word_at(heap: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(heap[at..at + 8].try_into().unwrap())
}

/// Changes the words with these indices in a heap.
fn change(heap: &mut [u8], changes: &[(usize, Change)]) {
    for &(at, change) in changes {
        let read = |at: usize| word_at(heap, at);
        let new = match change {
            Change::FromTheEnd(less) => u64::MAX - u64::from(less),
            Change::By(eighths) => read(at).wrapping_add_signed(8 * i64::from(eighths)),
            Change::Itself(words, marked) => {
                (at as u64).wrapping_add_signed(8 * i64::from(words)) | u64::from(marked)
            }
            Change::Another(other) => read(place(other)),
            Change::AddressOf(other) => place(other) as u64,
            Change::Bit(bit) => read(at) ^ 1 << (bit % 64),
            Change::Value(value) => value,
        };
        heap[at..at + 8].copy_from_slice(&new.to_le_bytes());
    }
}

/// Opens a pool after these words of its heap were changed, and uses it.
fn open_changed(changes: &[(usize, Change)]) {
    let mut files = image(Domain::Process, true);
    change(&mut files[0].1, changes);
    let _watch = Watch::new(|| format!("{changes:?}"));
    let folder = folder();
    put(&files, folder.path());
    let path = folder.path().join("pool");
    let _ = strandline_core::file::check(&path, Schemes::default());
    walk_described(&path, Domain::Process);
    if let Ok(store) = Store::<All>::open_existing(&path, &options(Domain::Process)) {
        use_everything(&store);
    }
}

/// One transaction: its operations, and whether it is rolled back at the end.
pub type Transaction = (Vec<Operation>, bool);

/// Returns the content of the pool that is opened from a copy of the file, taken now.
fn after_a_kill(path: &Path, image: &Path) -> Contents {
    std::fs::copy(path, image).unwrap();
    let store = Store::<All>::open_existing(image, &options(Domain::Process)).unwrap();
    let found = store.write(|tx, root| root.get(tx)?.contents(tx));
    store.usage().unwrap();
    found.unwrap()
}

/// Checks that in the `Process` domain the file is always in the state that a kill may leave: after each transaction it has all of its writes, and in
/// the middle of one it has none. Bit n of `images` says whether transaction n, modulo 32, is checked.
///
/// # Panics
/// Panics if the check fails.
pub fn operate_and_kill(transactions: &[Transaction], images: u32) {
    let folder = folder();
    let (path, image) = (folder.path().join("pool"), folder.path().join("image"));
    let store = Store::<All>::create_new(&path, &options(Domain::Process), |tx| All::new(tx)).unwrap();
    let mut expected = All::empty();
    for (number, (operations, gives_up)) in transactions.iter().enumerate() {
        let take = images >> (number % 32) & 1 == 1;
        let done = store.write(|tx, root| {
            let all = root.get(tx)?;
            let mut outcomes = Vec::new();
            for operation in operations {
                outcomes.push(all.apply(tx, operation)?);
                if take && outcomes.len() == 1 {
                    assert_eq!(after_a_kill(&path, &image), expected, "in the midst of {operations:?}");
                }
            }
            if *gives_up { Err(Error::Aborted) } else { Ok(outcomes) }
        });
        match done {
            Ok(outcomes) => {
                let right: Vec<_> = operations.iter().map(|operation| expected.apply(operation)).collect();
                assert_eq!(outcomes, right, "{operations:?}");
            }
            // The transaction has changed nothing.
            Err(Error::Aborted | Error::Full { .. }) => {}
            Err(error) => panic!("{operations:?}: {error}"),
        }
        if take {
            assert_eq!(after_a_kill(&path, &image), expected, "after {operations:?}");
        }
    }
    drop(store);
    assert_eq!(after_a_kill(&path, &image), expected, "at the end");
}
