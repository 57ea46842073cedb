//! Searches in maps while other threads move their keys, in mapped memory, where they read pages and chains without checks of each word.

use std::sync::atomic::{AtomicUsize, Ordering};

use strandline::{
    Control, Domain, HashMap, Options, OrderedMap, Persist, Result, SingleWriter, Stm, Store, Tx, View,
};
use strandline_core::memory::Native;

const TOKENS: u64 = 300;
/// The number of keys that a token can have. At any time it has one of them.
const PLACES: u64 = 4;
const WRITERS: usize = 2;
const MOVES: usize = 4000;

#[derive(Persist)]
struct Maps<'p> {
    hashed: HashMap<'p, u64, u64>,
    ordered: OrderedMap<'p, u64, u64>,
}

impl<'p> Maps<'p> {
    /// Returns the place of a token.
    fn place(&self, tx: &View<'p, impl Control>, token: u64) -> Result<u64> {
        let mut found = Vec::new();
        for place in 0..PLACES {
            let key = place * TOKENS + token;
            let values = (self.hashed.get(tx, &key)?, self.ordered.get(tx, &key)?);
            assert_eq!(values.0.is_some(), self.hashed.contains_key(tx, &key)?, "{key}");
            match values {
                (Some(hashed), Some(ordered)) => assert_eq!((hashed, ordered), (token, token), "{key}"),
                (None, None) => continue,
                values => panic!("{key} has {values:?}"),
            }
            found.push(place);
        }
        assert_eq!(found.len(), 1, "token {token} is at {found:?}");
        Ok(found[0])
    }

    fn put(&self, tx: &Tx<'p, impl Control>, token: u64, place: u64) -> Result<()> {
        let key = place * TOKENS + token;
        self.hashed.insert(tx, &key, &token)?;
        self.ordered.insert(tx, &key, &token).map(drop)
    }

    fn shift(&self, tx: &Tx<'p, impl Control>, token: u64, step: u64) -> Result<()> {
        let place = self.place(tx, token)?;
        let key = place * TOKENS + token;
        self.hashed.remove(tx, &key)?;
        self.ordered.remove(tx, &key)?;
        self.put(tx, token, (place + step) % PLACES)
    }
}

fn every_search_sees_one_state<C: Control<Memory = Native>>()
where
    Store<Maps<'static>, C>: Send + Sync,
{
    let folder = tempfile::tempdir().unwrap();
    let options = Options { domain: Domain::Process, ..Options::default() };
    let store = Store::<Maps, C>::create_new(folder.path().join("pool"), &options, |tx| {
        let maps = Maps { hashed: HashMap::new(tx)?, ordered: OrderedMap::new(tx)? };
        (0..TOKENS).try_for_each(|token| maps.put(tx, token, 0))?;
        Ok(maps)
    })
    .unwrap();
    let writing = AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, writing) = (&store, &writing);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(writer as u64);
                for _ in 0..MOVES {
                    let (token, step) = (random.u64(..TOKENS), random.u64(1..PLACES));
                    store.write(|tx, root| root.get(tx)?.shift(tx, token, step)).unwrap();
                }
                writing.fetch_sub(1, Ordering::Release);
            });
        }
        for reader in 0..2 {
            let (store, writing) = (&store, &writing);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(100 + reader);
                while writing.load(Ordering::Acquire) > 0 {
                    let token = random.u64(..TOKENS);
                    store.read(|tx, root| root.get(tx)?.place(tx, token)).unwrap();
                    let snapshot = store.snapshot().unwrap();
                    let (view, root) = snapshot.read();
                    root.get(&view).unwrap().place(&view, token).unwrap();
                }
            });
        }
    });
    assert_eq!(store.check().unwrap(), [""; 0]);
}

#[test]
fn every_search_sees_one_state_under_stm() {
    every_search_sees_one_state::<Stm>();
}

#[test]
fn every_search_sees_one_state_beside_one_writer() {
    every_search_sees_one_state::<SingleWriter>();
}
