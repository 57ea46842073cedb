//! The walk by descriptions reaches and reports the same as the walk by the program's types.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::database::tables::walker;
use crate::store::Store;
use crate::value::check::AllReached;
use crate::value::persist::Root;
use crate::{
    Bytes, HashMap, Key, Options, OrderedMap, Persist, Ptr, Queue, Result, Schema, Stm, Tables, Text, Tx,
    Vector, View,
};

#[derive(Clone, Copy, Persist)]
struct Node<'p> {
    number: u64,
    next: Option<Ptr<'p, Node<'p>>>,
    kind: Kind<'p>,
}

#[derive(Clone, Copy, Persist)]
enum Kind<'p> {
    Plain(u8, (bool, char)),
    Named { text: Text<'p>, other: Option<Option<Ptr<'p, Node<'p>>>> },
    Listed([Option<Bytes<'p>>; 2]),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Key)]
enum Id {
    Number(i32),
    Name(String, Option<Vec<u8>>),
}

/// Has the same layout whatever `T` is.
#[derive(Clone, Copy, Persist)]
struct Stack<'p, T> {
    top: Option<Ptr<'p, Cell<'p, T>>>,
}

#[derive(Clone, Copy, Persist)]
struct Cell<'p, T> {
    value: T,
    below: Option<Ptr<'p, Cell<'p, T>>>,
}

type Shelf<'p> = OrderedMap<'p, (String, u8), Vector<'p, Ptr<'p, Node<'p>>>>;

#[derive(Persist)]
struct Everything<'p> {
    sold: i16,
    list: Option<Ptr<'p, Node<'p>>>,
    words: OrderedMap<'p, u64, u64>,
    pointers: OrderedMap<'p, i64, Ptr<'p, Node<'p>>>,
    texts: HashMap<'p, Id, Vec<Option<String>>>,
    maps: HashMap<'p, String, Shelf<'p>>,
    jobs: Queue<'p, (String, Option<Ptr<'p, Node<'p>>>)>,
    nothing: Vector<'p, ()>,
    pairs: Vector<'p, (u8, Option<Text<'p>>)>,
    title: Text<'p>,
    blob: Option<Bytes<'p>>,
    small: Stack<'p, u8>,
    large: Stack<'p, (u64, u64)>,
    pointer_to_map: Ptr<'p, HashMap<'p, u64, String>>,
    tables: Tables<'p>,
    more: Option<Tables<'p>>,
}

impl<'p> Everything<'p> {
    fn new(tx: &Tx<'p>) -> Result<Self> {
        Ok(Self {
            sold: -7,
            list: None,
            words: OrderedMap::new(tx)?,
            pointers: OrderedMap::new(tx)?,
            texts: HashMap::new(tx)?,
            maps: HashMap::new(tx)?,
            jobs: Queue::new(tx)?,
            nothing: Vector::new(tx)?,
            pairs: Vector::new(tx)?,
            title: Text::new(tx, "strand")?,
            blob: None,
            small: Stack { top: None },
            large: Stack { top: None },
            pointer_to_map: Ptr::new(tx, &HashMap::new(tx)?)?,
            tables: Tables::new(tx)?,
            more: None,
        })
    }

    fn node(&self, tx: &Tx<'p>, number: u64) -> Result<Ptr<'p, Node<'p>>> {
        let text = number.to_string();
        let kind = match number % 3 {
            0 => Kind::Plain(number as u8, (true, 'x')),
            1 => Kind::Named { text: Text::new(tx, text)?, other: Some(self.list) },
            _ => Kind::Listed([Some(Bytes::new(tx, text)?), None]),
        };
        Ptr::new(tx, &Node { number, next: self.list, kind })
    }

    /// Makes the change number `what`.
    fn change(&mut self, tx: &Tx<'p>, what: u8, number: u64) -> Result<()> {
        let name = number.to_string().repeat(1 + number as usize % 9);
        match what {
            0 => self.list = Some(self.node(tx, number)?),
            1 => drop(self.words.insert(tx, &number, &(number * number))?),
            2 => drop(self.pointers.insert(tx, &-(number as i64), &self.node(tx, number)?)?),
            3 => {
                let id = if number.is_multiple_of(2) {
                    Id::Number(number as i32)
                } else {
                    Id::Name(name, Some(vec![0, 1]))
                };
                self.texts.insert(tx, &id, &vec![None, Some(number.to_string())])?;
            }
            4 => {
                let map = self.maps.entry(tx, (number % 5).to_string())?;
                let vector = Vector::new(tx)?;
                vector.extend(tx, self.list)?;
                map.or_insert_with(|| OrderedMap::new(tx))?.insert(tx, &(name, number as u8), &vector)?;
            }
            5 => self.jobs.push(tx, &(name, self.list))?,
            6 => self.nothing.push(tx, &())?,
            7 => {
                let text = Text::new(tx, &name)?;
                self.pairs.extend(tx, [(number as u8, Some(text)), (1, None)])?;
            }
            8 => {
                self.title.set(tx, name.repeat(40))?;
                self.blob = Some(Bytes::new(tx, [])?);
            }
            9 => {
                let below = self.small.top;
                self.small.top = Some(Ptr::new(tx, &Cell { value: 7, below })?);
                let below = self.large.top;
                self.large.top = Some(Ptr::new(tx, &Cell { value: (number, 1), below })?);
            }
            10 => drop(self.pointer_to_map.get(tx)?.insert(tx, &number, &name)?),
            11 => {
                let words = self.tables.table::<u64, i64>(tx, "words")?;
                words.insert(tx, &number, &-1)?;
                let tags = self.tables.multimap::<String, u8>(tx, "tags")?;
                tags.insert(tx, &(name, 7), &())?;
                let nodes = self.tables.table::<String, Option<Ptr<'p, Node<'p>>>>(tx, "nodes")?;
                nodes.insert(tx, &number.to_string(), &Some(self.node(tx, number)?))?;
                self.tables.queue::<Text<'p>>(tx, "lines")?.push(tx, &Text::new(tx, "a line")?)?;
            }
            12 => {
                let more = self.more.map_or_else(|| Tables::new(tx), Ok)?;
                more.queue::<Vec<u8>>(tx, &(number % 3).to_string())?.push(tx, &vec![7; 99])?;
                self.more = Some(more);
            }
            // Allocates a value to which nothing refers.
            13 => drop(Ptr::new(tx, &number)?),
            // Makes the list a cycle.
            _ => {
                if let Some(first) = self.list {
                    first.update(tx, |node| node.next = self.list)?;
                }
            }
        }
        Ok(())
    }
}

fn by_types<R: Root>(store: &Store<R>) -> AllReached {
    store.read(|tx, root| Checker::reached(tx, |checker| root.visit(checker))).unwrap()
}

fn by_description<R: Root>(store: &Store<R>) -> AllReached {
    let walk = |tx: &View<'_, Stm>, at| {
        let found = crate::store::root::found(tx)?;
        let Schema { root, types } = crate::store::root::described_schema(tx, &found)?;
        Checker::reached(tx, |checker| {
            reach_root(checker, at, &found.root_type, (&root, types.clone()), walker(None))
        })
    };
    store.read(|tx, root| walk(tx, root.address())).unwrap()
}

fn store() -> Store<Everything<'static>> {
    Store::<Everything>::in_memory(&Options::default(), |tx| Everything::new(tx)).unwrap()
}

fn change(store: &Store<Everything<'static>>, operations: &[(u8, u64)]) {
    for &(what, number) in operations {
        store
            .write(|tx, root| {
                let mut all = root.get(tx)?;
                all.change(tx, what, number)?;
                root.set(tx, &all)
            })
            .unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn what_is_reached_is_the_same(operations in vec((0u8..15, 0u64..40), 0..60)) {
        let store = store();
        change(&store, &operations);
        let (reached, damage) = by_types(&store);
        prop_assert_eq!(&damage, &[""; 0]);
        prop_assert_eq!(by_description(&store), (reached, damage));
        let lost = operations.iter().filter(|(what, _)| *what == 13).count() as u64;
        prop_assert!(store.lost_memory().unwrap().blocks >= lost);
    }

    /// After any change of a word, both walks report damage or neither does.
    #[test]
    fn damage_is_found_as_by_the_types(
        operations in vec((0u8..15, 0u64..40), 20..60),
        places in vec((any::<prop::sample::Index>(), 0u64..8, prop_oneof![any::<u64>(), 0u64..200]), 1..3),
    ) {
        let store = store();
        change(&store, &operations);
        let blocks: Vec<u64> = by_types(&store).0.into_keys().collect();
        store
            .write(|tx, _| {
                places.iter().try_for_each(|(block, word, value)| {
                    let at = PersistentAddress::new(*block.get(&blocks));
                    tx.words(|tx| {
                        let words = strandline_core::transaction::Transaction::block(tx, at)? / 8;
                        strandline_core::transaction::Transaction::write(tx, at.word(word % words), *value)
                    })
                })
            })
            .unwrap();
        let (one, other) = (by_types(&store), by_description(&store));
        prop_assert_eq!(&one.0, &other.0);
        prop_assert_eq!(one.1.len(), other.1.len(), "{:?} {:?}", one.1, other.1);
    }
}

/// Makes all changes in one pool, so that the test does not depend on random choices.
#[test]
fn all_kinds_are_reached() {
    let store = store();
    let all: Vec<(u8, u64)> = (0..15).flat_map(|what| (0..30).map(move |n| (what, n))).collect();
    change(&store, &all);
    let (reached, damage) = by_types(&store);
    assert_eq!(damage, [""; 0]);
    assert!(reached.len() > 500, "{}", reached.len());
    assert_eq!(by_description(&store), (reached, damage));
}

/// Walks over a list that is too long for recursion.
#[test]
fn a_long_list_is_walked() {
    let store = store();
    for _ in 0..100 {
        store
            .write(|tx, root| {
                let mut all = root.get(tx)?;
                (0..1000).try_for_each(|_| {
                    all.list = Some(all.node(tx, 0)?);
                    Ok::<_, crate::Error>(())
                })?;
                root.set(tx, &all)
            })
            .unwrap();
    }
    let (reached, damage) = by_description(&store);
    assert_eq!(damage, [""; 0]);
    assert!(reached.len() > 100_000);
}
