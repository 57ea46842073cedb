//! Optimistic searches in structures that change meanwhile, under random schedules and with delayed stores: each search sees one state of the
//! structure. The pages of a tree split, merge and hand over cells; the chains of a key-value store lose and get nodes, and become tables. Both are
//! destroyed and created again. The tests leave out a search's second check of its guards, and find the omission.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_check::Setting;
use strandline_check::x86::X86World;
use strandline_core::engine::{Control, Over, SingleWriter, Snapshot, Stm};
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::coroutines::Thread;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, Step};
use strandline_core::scheme::Product;
use strandline_core::structures::{KeyValueStore, PageTree};
use strandline_core::{Abort, Error, Read, Runner, Transaction};

use super::histories::{closed, lease, run_by_chance};
use Structure::{Chain, Tree};

const WRITERS: usize = 2;
const READERS: usize = 2;
const LOG_BYTES: u64 = 16 << 10;
const GEOMETRY: Geometry = Geometry { size: 48 << 12, logs: 4, log_bytes: LOG_BYTES, chunk_bytes: 4096 };
/// The number of places that a token can be at. At any time it is the key of one pair.
const PLACES: u64 = 3;
const TOKENS: u64 = 12;
/// The number of tokens in a key-value store. It has one bucket, whose chain becomes a table when a writer adds one more.
const TOKENS_OF_CHAIN: u64 = 8;
/// The number of words that the longest value has: a page has room for four.
const MOST_WORDS: u64 = 12;

fn layouts() -> (Layout, SharedLayout) {
    let layout = Layout::new(GEOMETRY).unwrap();
    (layout, SharedLayout::new(&layout, 11, 0).with_versions(8 * (11 * 8 + 300 * 13 + 2)))
}

/// Returns the key of a token at a place: the tokens at one place are adjacent.
fn key(token: u64, place: u64) -> [u8; 8] {
    (place << 32 | token).to_be_bytes()
}

/// A structure that has all tokens. Its header is in root words.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Structure {
    Tree,
    Chain,
}

fn tree(tx: &mut impl Read) -> Result<PageTree, Abort> {
    let at = tx.root(0);
    let header = tx.read_array(at)?;
    PageTree::of_header(tx, at, header)
}

fn chain(tx: &mut impl Read) -> Result<KeyValueStore, Abort> {
    let at = tx.root(0);
    let header = tx.read_array(at)?;
    KeyValueStore::of_header(tx, at, header)
}

impl Structure {
    fn tokens(self) -> u64 {
        if self == Tree { TOKENS } else { TOKENS_OF_CHAIN }
    }

    fn create(self, tx: &mut impl Transaction) -> Result<(), Abort> {
        let at = tx.root(0);
        match self {
            Tree => PageTree::create_at(tx, at, 512).map(drop),
            Chain => KeyValueStore::create_at(tx, at, 1).map(drop),
        }
    }

    /// Puts a token at a place, with a value of `words` words that are all the same: a mark, the token, and `words`.
    fn put(
        self,
        tx: &mut impl Transaction,
        token: u64,
        place: u64,
        (words, mark): (u64, u64),
    ) -> Result<(), Abort> {
        let (key, value) = (key(token, place), vec![mark << 16 | token << 8 | words; words as usize]);
        if self == Chain {
            return chain(tx)?.insert_words(tx, &key, &value, 8 * words, |_, _| ()).map(drop);
        }
        let tree = tree(tx)?;
        let located = tree.locate(tx, &key)?;
        match located.cell {
            Some(_) => tree.replace(tx, located, &key, &value, 8 * words),
            None => tree.insert(tx, located, &key, &value, 8 * words),
        }
    }

    fn remove(self, tx: &mut impl Transaction, token: u64, place: u64) -> Result<(), Abort> {
        let key = key(token, place);
        if self == Chain {
            return chain(tx)?.remove(tx, &key).map(drop);
        }
        let tree = tree(tx)?;
        let located = tree.locate(tx, &key)?;
        tree.remove(tx, located, &key)
    }

    /// Returns the value of a token at a place.
    fn value(self, tx: &mut impl Read, token: u64, place: u64) -> Result<Option<Vec<u64>>, Abort> {
        let key = key(token, place);
        let words = |words: &[u64], bytes| words[..bytes as usize / 8].to_vec();
        if self == Chain {
            let store = chain(tx)?;
            // `contains_key` reads no value, and does not read the node again after its search.
            let (value, is_there) = (store.get_words(tx, &key, words)?, store.contains_key(tx, &key)?);
            return Ok(if is_there == value.is_some() { value } else { Some(vec![u64::MAX]) });
        }
        let tree = tree(tx)?;
        let value = tree.read(tx, &key, |_, _, words| Ok(words.map_or(Vec::new(), <[u64]>::to_vec)))?;
        // The same value, read after the search rather than by it.
        let again = tree.find(tx, &key)?.map(|cell| cell.with_value(tx, words)).transpose()?;
        Ok(if again == value { value } else { Some(vec![u64::MAX]) })
    }

    /// Returns where a token is.
    fn place(self, tx: &mut impl Read, token: u64) -> Result<Result<u64, String>, Abort> {
        let mut found = Vec::new();
        for place in 0..PLACES {
            let Some(value) = self.value(tx, token, place)? else { continue };
            let is_right = value.iter().all(|&word| word == value[0]);
            if !is_right || value[0] & 0xffff != token << 8 | value.len() as u64 {
                return Ok(Err(format!("token {token} at place {place} has {value:x?}")));
            }
            found.push(place);
        }
        match found[..] {
            [place] => Ok(Ok(place)),
            _ => Ok(Err(format!("token {token} is at {found:?}"))),
        }
    }

    /// Moves a token from one place to another, which may be the same. Gives it another value.
    fn shift(self, tx: &mut impl Transaction, token: u64, step: u64, value: (u64, u64)) -> Found {
        let before = self.place(tx, token)?;
        let Ok(from) = before else { return Ok(before) };
        let to = (from + step) % PLACES;
        if to != from {
            self.remove(tx, token, from)?;
        }
        self.put(tx, token, to, value)?;
        // A transaction sees its own writes.
        self.place(tx, token)
    }

    /// Destroys the structure and creates it again, with the same tokens.
    fn remake(self, tx: &mut impl Transaction) -> Found {
        let mut places = Vec::new();
        for token in 0..self.tokens() {
            match self.place(tx, token)? {
                Ok(place) => places.push(place),
                wrong => return Ok(wrong),
            }
        }
        match self {
            Tree => tree(tx)?.destroy(tx)?,
            Chain => chain(tx)?.destroy(tx)?,
        }
        self.create(tx)?;
        for (token, place) in (0..).zip(places) {
            self.put(tx, token, place, (1 + token % MOST_WORDS, 0))?;
        }
        Ok(Ok(0))
    }

    /// Returns the number of tokens that the structure says it has.
    fn length(self, tx: &mut impl Read) -> Found {
        if self == Chain {
            let (mut keys, mut count) = (HashSet::new(), 0);
            chain(tx)?.for_each(tx, |key, _| {
                keys.insert(key.to_vec());
                count += 1;
                Ok(())
            })?;
            // Others than the first tokens may have been added.
            let is_right = keys.len() == count && count as u64 >= self.tokens();
            return Ok(if is_right { Ok(0) } else { Err(format!("the chain has {count} of {keys:?}")) });
        }
        let keys = tree(tx)?.len(tx)?;
        Ok(if keys == TOKENS { Ok(keys) } else { Err(format!("the tree of {TOKENS} tokens has {keys}")) })
    }

    /// Returns a pool with a structure that has all tokens.
    fn image(self) -> Vec<u64> {
        let (layout, shared) = layouts();
        let words = vec![0; (GEOMETRY.size / 8) as usize];
        let recorder = Rc::new(Recorder::new(words, shared.bytes(), 0, 1, None));
        let memory = Hosted::new(recorder.clone(), 0);
        let mut worker = lease(View { memory: &memory, layout, shared }, Stm);
        worker.run(|tx| self.create(tx)).unwrap();
        for token in 0..self.tokens() {
            worker.run(|tx| self.put(tx, token, token % PLACES, (1 + token % MOST_WORDS, 0))).unwrap();
        }
        drop(worker);
        closed(recorder.contents(), &layout, 1 + self.tokens())
    }
}

/// The place of a token, or what is wrong.
type Found = Result<Result<u64, String>, Abort>;

/// Runs one history. Returns how often a writer has found that a chain had become a table, or what is wrong.
fn history<C>(
    structure: Structure,
    control: C,
    omitted: Option<Step>,
    image: &[u64],
    seed: u64,
) -> Result<u64, String>
where
    C: Control<Scheme = Product>,
{
    let mut random = Rng::with_seed(seed);
    let (layout, shared) = layouts();
    let data = (layout.data.offset() / 8) as usize..(layout.end().offset() / 8) as usize;
    let threads = WRITERS + READERS;
    let world = Rc::new(X86World::new(image.to_vec(), shared.bytes(), data, threads, Setting::Line, omitted));
    let (wrong, tables): (RefCell<Option<String>>, Cell<u64>) = Default::default();
    let (wrong, tables) = (&wrong, &tables);
    let note = move |what: Result<Result<u64, String>, Error>| {
        let what = what.unwrap_or_else(|error| Err(error.to_string()));
        if let Err(what) = what {
            wrong.borrow_mut().get_or_insert(what);
        }
    };
    let tokens = structure.tokens();
    let mut bodies: Vec<Thread> = Vec::new();
    for writer in 0..WRITERS as u64 {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            let mut worker = lease(View { memory, layout, shared }, control);
            for number in 0..random.u64(1..=6) {
                let (token, step) = (random.u64(..tokens), random.u64(..PLACES));
                // The value is often as long as the one before, which is then overwritten.
                let words = 1 + (token + random.u64(..2)) % MOST_WORDS;
                let mark = random.u64(1..1 << 32);
                note(match random.u32(..12) {
                    0 => worker.run(|tx| structure.remake(tx)),
                    1 | 2 if structure == Chain => {
                        let one_more = tokens + number * WRITERS as u64 + writer;
                        worker.run(|tx| {
                            structure.put(tx, one_more, 0, (words, 0))?;
                            tables.set(tables.get() + chain(tx)?.tables(tx)?);
                            Ok(Ok(0))
                        })
                    }
                    _ => worker.run(|tx| structure.shift(tx, token, step, (words, mark))),
                });
            }
        }));
    }
    for _ in 0..READERS {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            let mut worker = lease(View { memory, layout, shared }, control);
            for _ in 0..random.u64(1..=6) {
                let token = random.u64(..tokens);
                let view = View { memory, layout, shared };
                match random.u32(..4) {
                    0 | 1 => note(worker.view(|tx| structure.place(tx, token))),
                    2 => note(worker.view(|tx| structure.length(tx))),
                    _ => {
                        let mut snapshot = Snapshot::begin(view, Over::new(control), None).unwrap();
                        note(snapshot.read(|tx| structure.place(tx, token)));
                        note(snapshot.read(|tx| structure.length(tx)));
                    }
                }
            }
        }));
    }
    run_by_chance(&world, bodies, &mut random);
    wrong.take().map_or(Ok(tables.get()), Err)
}

/// Runs histories. Returns the sum of their results, or the number of the first in which something is wrong.
fn first_wrong<C>(
    structure: Structure,
    control: C,
    omitted: Option<Step>,
    mut histories: Range<u64>,
) -> Result<u64, (u64, String)>
where
    C: Control<Scheme = Product>,
{
    let image = structure.image();
    histories.try_fold(0, |tables, seed| {
        let more = history(structure, control, omitted, &image, seed);
        more.map(|more| tables + more).map_err(|why| (seed, why))
    })
}

#[test]
fn searches_find_what_one_state_has() {
    for structure in [Tree, Chain] {
        let stm = first_wrong(structure, Stm, None, 0..400).expect("STM");
        let single_writer = first_wrong(structure, SingleWriter, None, 0..400).expect("single writer");
        assert!(structure == Tree || stm > 0 && single_writer > 0, "no chain has become a table");
    }
}

#[test]
fn guards_that_are_not_checked_again_are_found() {
    // The searches begin shortly before the first history that shows the omission. If another history becomes the first, they only take longer.
    for (structure, begins) in [(Tree, [1930, 750]), (Chain, [60, 70])] {
        let [stm, single_writer] = begins.map(|first| first..20_000);
        let stm = first_wrong(structure, Stm, Some(Step::OptimisticGuards), stm);
        let single_writer = first_wrong(structure, SingleWriter, Some(Step::OptimisticGuards), single_writer);
        println!("{structure:?}\n{stm:?}\n{single_writer:?}");
        assert!(stm.is_err() && single_writer.is_err(), "{structure:?} {stm:?} {single_writer:?}");
    }
}
