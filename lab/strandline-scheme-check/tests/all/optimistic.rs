//! Optimistic searches in a tree whose pages split, merge and move cells meanwhile, under random schedules and with delayed stores: each search sees
//! one state of the tree. The tests leave out a search's second check of its guards, and find the omission.

use std::cell::RefCell;
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
use strandline_core::structures::PageTree;
use strandline_core::{Abort, Error, Read, Runner, Transaction};

use super::histories::{closed, lease, run_by_chance};

const WRITERS: usize = 2;
const READERS: usize = 2;
const LOG_BYTES: u64 = 16 << 10;
const GEOMETRY: Geometry = Geometry { size: 48 << 12, logs: 4, log_bytes: LOG_BYTES, chunk_bytes: 4096 };
/// The number of places that a token can be at. At any time it is the key of one pair.
const PLACES: u64 = 3;
const TOKENS: u64 = 12;
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

fn tree(tx: &mut impl Read) -> Result<PageTree, Abort> {
    let at = tx.root(0);
    let header = tx.read_array(at)?;
    PageTree::of_header(tx, at, header)
}

/// Puts a token at a place, with a value of `words` words that all contain the token.
fn put(tx: &mut impl Transaction, token: u64, place: u64, words: u64) -> Result<(), Abort> {
    let tree = tree(tx)?;
    let (key, value) = (key(token, place), vec![token << 8 | words; words as usize]);
    let located = tree.locate(tx, &key)?;
    match located.cell {
        Some(_) => tree.replace(tx, located, &key, &value, 8 * words),
        None => tree.insert(tx, located, &key, &value, 8 * words),
    }
}

/// Returns where a token is.
fn place(tx: &mut impl Read, token: u64) -> Result<Result<u64, String>, Abort> {
    let tree = tree(tx)?;
    let mut found = Vec::new();
    for place in 0..PLACES {
        let Some(cell) = tree.find(tx, &key(token, place))? else { continue };
        let value = cell.with_value(tx, |words, bytes| words[..bytes as usize / 8].to_vec())?;
        if value != vec![token << 8 | value.len() as u64; value.len()] {
            return Ok(Err(format!("token {token} at place {place} has {value:x?}")));
        }
        found.push(place);
    }
    match found[..] {
        [place] => Ok(Ok(place)),
        _ => Ok(Err(format!("token {token} is at {found:?}"))),
    }
}

/// Returns the number of tokens that the tree says it has.
fn length(tx: &mut impl Read) -> Result<Result<u64, String>, Abort> {
    let keys = tree(tx)?.len(tx)?;
    Ok(if keys == TOKENS { Ok(keys) } else { Err(format!("the tree of {TOKENS} tokens has {keys}")) })
}

/// Returns a pool with a tree that has all tokens.
fn image() -> Vec<u64> {
    let (layout, shared) = layouts();
    let recorder = Rc::new(Recorder::new(vec![0; (GEOMETRY.size / 8) as usize], shared.bytes(), 0, 1, None));
    let memory = Hosted::new(recorder.clone(), 0);
    let mut worker = lease(View { memory: &memory, layout, shared }, Stm);
    worker.run(|tx| PageTree::create_at(tx, tx.root(0), 512).map(drop)).unwrap();
    for token in 0..TOKENS {
        worker.run(|tx| put(tx, token, token % PLACES, 1 + token % MOST_WORDS)).unwrap();
    }
    drop(worker);
    closed(recorder.contents(), &layout, 1 + TOKENS)
}

/// Runs one history. Returns what is wrong with it.
fn history<C>(control: C, omitted: Option<Step>, image: &[u64], seed: u64) -> Result<(), String>
where
    C: Control<Scheme = Product>,
{
    let mut random = Rng::with_seed(seed);
    let (layout, shared) = layouts();
    let data = (layout.data.offset() / 8) as usize..(layout.end().offset() / 8) as usize;
    let threads = WRITERS + READERS;
    let world = Rc::new(X86World::new(image.to_vec(), shared.bytes(), data, threads, Setting::Line, omitted));
    let wrong: RefCell<Option<String>> = RefCell::default();
    let wrong = &wrong;
    let note = move |what: Result<Result<u64, String>, Error>| {
        let what = what.unwrap_or_else(|error| Err(error.to_string()));
        if let Err(what) = what {
            wrong.borrow_mut().get_or_insert(what);
        }
    };
    let mut bodies: Vec<Thread> = Vec::new();
    for _ in 0..WRITERS {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            let mut worker = lease(View { memory, layout, shared }, control);
            for _ in 0..random.u64(1..=6) {
                let (token, step) = (random.u64(..TOKENS), random.u64(..PLACES));
                let words = random.u64(1..=MOST_WORDS);
                let moved = worker.run(|tx| {
                    let before = place(tx, token)?;
                    let Ok(from) = before else { return Ok(before) };
                    let to = (from + step) % PLACES;
                    if to != from {
                        let tree = tree(tx)?;
                        let key = key(token, from);
                        let located = tree.locate(tx, &key)?;
                        tree.remove(tx, located, &key)?;
                    }
                    put(tx, token, to, words)?;
                    // A transaction sees its own writes.
                    place(tx, token)
                });
                note(moved);
            }
        }));
    }
    for _ in 0..READERS {
        let mut random = random.fork();
        bodies.push(Box::new(move |memory: &Hosted| {
            let mut worker = lease(View { memory, layout, shared }, control);
            for _ in 0..random.u64(1..=6) {
                let token = random.u64(..TOKENS);
                let view = View { memory, layout, shared };
                match random.u32(..4) {
                    0 | 1 => note(worker.view(|tx| place(tx, token))),
                    2 => note(worker.view(length)),
                    _ => {
                        let mut snapshot = Snapshot::begin(view, Over::new(control), None).unwrap();
                        note(snapshot.read(|tx| place(tx, token)));
                        note(snapshot.read(length));
                    }
                }
            }
        }));
    }
    run_by_chance(&world, bodies, &mut random);
    wrong.take().map_or(Ok(()), Err)
}

/// Returns the number of the first of these histories in which something is wrong.
fn first_wrong<C>(control: C, omitted: Option<Step>, mut histories: Range<u64>) -> Option<(u64, String)>
where
    C: Control<Scheme = Product>,
{
    let image = image();
    histories.find_map(|seed| history(control, omitted, &image, seed).err().map(|why| (seed, why)))
}

#[test]
fn searches_find_what_one_state_has() {
    assert_eq!(first_wrong(Stm, None, 0..400), None, "STM");
    assert_eq!(first_wrong(SingleWriter, None, 0..400), None);
}

#[test]
fn guards_that_are_not_asked_about_again_are_found() {
    let stm = first_wrong(Stm, Some(Step::OptimisticGuards), 0..20_000);
    let single_writer = first_wrong(SingleWriter, Some(Step::OptimisticGuards), 0..20_000);
    println!("{stm:?}\n{single_writer:?}");
    assert!(stm.is_some() && single_writer.is_some(), "{stm:?} {single_writer:?}");
}
