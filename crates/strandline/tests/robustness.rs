//! Pools with damaged bytes, and images of a pool as a kill would leave them.
//!
//! `STRANDLINE_CASES=100000 cargo test --release -p strandline --test robustness` runs it for longer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use strandline::pool::Geometry;
use strandline::typed::{HashMap, OrderedMap, Persist, Ptr, Queue, Store, Text, Tx, Vector};
use strandline::{Domain, Options, Result};

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

fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("STRANDLINE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, ..ProptestConfig::default() }
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
    let folder = tempfile::tempdir().unwrap();
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

fn image(domain: Domain, clean: bool) -> Files {
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

/// Where in the files, and which bytes.
fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, prop::sample::Index, u64, u8)>> {
    let word = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0..1u64 << 20];
    prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), word, 1..=8u8), 1..12)
}

proptest! {
    #![proptest_config(cases(150))]

    /// Whatever bytes are damaged: an error or another value, but no panic, and no wild read or write.
    #[test]
    fn damaged_pools_give_errors(
        damage in damage(), sync in any::<bool>(), clean in any::<bool>(),
    ) {
        let domain = if sync { Domain::Sync } else { Domain::Process };
        let mut files = image(domain, clean);
        for (file, at, word, bytes) in damage {
            let file = file.index(files.len());
            let contents = &mut files[file].1;
            // Bytes that are in use: zeros of the heap say nothing.
            let used = contents.len() - contents.iter().rev().take_while(|&&byte| byte == 0).count();
            let at = at.index(used.max(1)) & !7;
            let end = (at + usize::from(bytes)).min(contents.len());
            contents[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
        }
        let folder = tempfile::tempdir().unwrap();
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
}

#[derive(Clone, Debug)]
enum Step {
    Insert(String, u8),
    Remove(String),
    GiveUp(String),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = "(abcdefgh){0,2}[ab]{0,2}";
    let step = prop_oneof![
        3 => (name, any::<u8>()).prop_map(|(name, bytes)| Step::Insert(name, bytes)),
        1 => name.prop_map(Step::Remove),
        1 => name.prop_map(Step::GiveUp),
    ];
    prop::collection::vec(step, 1..25)
}

/// What a pool opened from a copy of the file, taken now, holds.
fn after_a_kill(path: &Path, image: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::copy(path, image).unwrap();
    let store = Store::<All>::open(image, &options(Domain::Process)).unwrap();
    let found = store.view(|tx, root| {
        let all = root.get(tx)?;
        let pairs: BTreeMap<_, _> = all.ordered.iter(tx).collect::<Result<_>>()?;
        let mut sums: Vec<_> = all.hashed.iter(tx).collect::<Result<_>>()?;
        sums.sort();
        let expected = pairs.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64));
        assert!(sums.into_iter().eq(expected), "the two maps are not of one transaction");
        assert_eq!(all.ordered.check(tx)?, pairs.len() as u64);
        Ok(pairs)
    });
    store.pool().usage().unwrap();
    found.unwrap()
}

proptest! {
    #![proptest_config(cases(25))]

    /// In the `Process` domain the file is what a kill leaves: after each transaction it holds all of it, and in the
    /// midst of one nothing of it.
    #[test]
    fn a_kill_at_any_time_leaves_whole_transactions(steps in steps(), images in any::<u32>()) {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = (folder.path().join("pool"), folder.path().join("image"));
        let store = Store::<All>::create(&path, &options(Domain::Process), make).unwrap();
        let mut model = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            let take = images >> (number % 32) & 1 == 1;
            let _ = store.update(|tx, root| {
                let all = root.get(tx)?;
                match &step {
                    Step::Insert(name, bytes) => {
                        all.ordered.insert(tx, name, &vec![7; usize::from(*bytes)])?;
                        if take {
                            assert_eq!(after_a_kill(&path, &image), model);
                        }
                        all.hashed.insert(tx, name, &u64::from(*bytes))?;
                    }
                    Step::Remove(name) => {
                        all.ordered.remove(tx, name)?;
                        all.hashed.remove(tx, name)?;
                    }
                    Step::GiveUp(name) => {
                        all.ordered.remove(tx, name)?;
                        return Err(strandline::Error::Aborted);
                    }
                }
                Ok(())
            });
            match step {
                Step::Insert(name, bytes) => drop(model.insert(name, vec![7; usize::from(bytes)])),
                Step::Remove(name) => drop(model.remove(&name)),
                Step::GiveUp(_) => {}
            }
            if take {
                prop_assert_eq!(&after_a_kill(&path, &image), &model);
            }
        }
    }
}
