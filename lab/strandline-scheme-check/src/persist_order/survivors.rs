//! The memory after a crash: a down-closed set of persists, decided as late as possible.
//!
//! The stores to a word persist in their order, so a word's surviving contents follow from how many of its stores survive. When a word is loaded,
//! each number that earlier decisions permit is a choice. A choice puts the last surviving store, with all that must not persist later, into the set,
//! and excludes the next store, with all that must not persist earlier. The two sets always permit a down-closed set, so every sequence of decisions
//! is consistent.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

use fastrand::Rng;
use strandline_core::memory::{Operation, Space, Step, World};
use strandline_persistency::{NodeSet, PersistGraph};

use strandline_check::x86::Recovered;

/// How often recovery may pause before it counts as endless.
const PATIENCE: u64 = 1_000_000;

/// A decision that a run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The word's number in the pool.
    pub word: u32,
    /// The number of its stores that survive.
    pub survive: u32,
    /// The least and the greatest number that was possible.
    pub possible: (u32, u32),
}

/// How to decide.
enum Chooser {
    /// Depth first: the path's choices, then the fewest survivors.
    Search,
    /// At random: the newest with this probability, and otherwise the oldest with this one, in 256ths.
    Random(Rng, u8, u8),
    /// By these decisions; everything else survives.
    Given(Vec<Decision>),
}

/// A memory that holds what has survived, decided word by word as recovery loads it.
pub struct Survivors {
    graph: PersistGraph,
    /// The value that each persist stored.
    values: Vec<u64>,
    /// For each stored word its persists, in order.
    chains: HashMap<u32, Vec<usize>>,
    /// For each persist those that must not persist before it.
    after: Vec<NodeSet>,
    initial: Vec<u64>,
    data: Range<usize>,
    omitted: Option<Step>,
    /// The crash: everything in the first set survives, and nothing in the second.
    bounds: (NodeSet, NodeSet),
    set: RefCell<(NodeSet, NodeSet)>,
    now: RefCell<Vec<u64>>,
    open: RefCell<HashMap<u32, ()>>,
    volatile: RefCell<Vec<u64>>,
    stored: RefCell<Vec<u32>>,
    decisions: RefCell<Vec<Decision>>,
    depth: Cell<usize>,
    chooser: RefCell<Chooser>,
    pauses: Cell<u64>,
}

impl Survivors {
    /// Creates the memory of an execution that began on `initial`, with this persist order, whose persists stored `values`. Words in `data` belong to
    /// transactions. Recovery leaves `omitted` out.
    pub fn new(
        graph: PersistGraph,
        values: Vec<u64>,
        initial: Vec<u64>,
        volatile_bytes: u64,
        data: Range<usize>,
        omitted: Option<Step>,
    ) -> Self {
        let nodes = graph.persists().len();
        let mut chains: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut after = vec![NodeSet::new(nodes); nodes];
        for (node, persist) in graph.persists().iter().enumerate() {
            chains.entry(persist.word).or_default().push(node);
            graph.before(node).iter().for_each(|before| after[before].insert(node));
        }
        let volatile = vec![0; volatile_bytes.div_ceil(8) as usize];
        Self {
            graph,
            values,
            chains,
            after,
            now: RefCell::new(initial.clone()),
            initial,
            data,
            omitted,
            bounds: (NodeSet::new(nodes), NodeSet::new(nodes)),
            set: RefCell::default(),
            open: RefCell::default(),
            volatile: RefCell::new(volatile),
            stored: RefCell::default(),
            decisions: RefCell::default(),
            depth: Cell::new(0),
            chooser: RefCell::new(Chooser::Search),
            pauses: Cell::new(0),
        }
    }

    /// Returns the persist order.
    pub fn graph(&self) -> &PersistGraph {
        &self.graph
    }

    /// Fails the power before event number `event` of the execution.
    pub fn crash(&mut self, event: usize) {
        let mut never = NodeSet::new(self.values.len());
        let persists = self.graph.persists().iter().enumerate();
        persists.filter(|(_, persist)| persist.event >= event).for_each(|(node, _)| never.insert(node));
        self.bounds = (self.graph.durable(event), never);
    }

    fn begin(&self, chooser: Chooser) {
        *self.set.borrow_mut() = self.bounds.clone();
        self.now.borrow_mut().copy_from_slice(&self.initial);
        self.volatile.borrow_mut().fill(0);
        self.open.borrow_mut().clear();
        self.open.borrow_mut().extend(self.chains.keys().map(|&word| (word, ())));
        self.stored.borrow_mut().clear();
        *self.chooser.borrow_mut() = chooser;
        self.depth.set(0);
        self.pauses.set(0);
    }

    /// Begins the first run of a search through all states that recovery and oracle can distinguish.
    pub fn search(&self) {
        self.decisions.borrow_mut().clear();
        self.begin(Chooser::Search);
    }

    /// Begins the search's next run; returns `false` if there is none.
    pub fn next(&self) -> bool {
        let mut decisions = self.decisions.borrow_mut();
        decisions.truncate(self.depth.get());
        while let Some(last) = decisions.last_mut() {
            if last.survive < last.possible.1 {
                last.survive += 1;
                drop(decisions);
                self.begin(Chooser::Search);
                return true;
            }
            decisions.pop();
        }
        false
    }

    /// Begins a run that decides at random.
    pub fn random(&self, random: &mut Rng) {
        self.decisions.borrow_mut().clear();
        let mood = ([0, 30, 128, 220, 250][random.usize(..5)], [0, 128, 250][random.usize(..3)]);
        self.begin(Chooser::Random(random.fork(), mood.0, mood.1));
    }

    /// Begins a run that decides by `decisions`; everything else survives.
    pub fn given(&self, decisions: Vec<Decision>) {
        self.decisions.borrow_mut().clear();
        self.begin(Chooser::Given(decisions));
    }

    /// Returns the decisions of this run.
    pub fn decisions(&self) -> Vec<Decision> {
        let decisions = self.decisions.borrow();
        match *self.chooser.borrow() {
            Chooser::Search => decisions[..self.depth.get().min(decisions.len())].to_vec(),
            _ => decisions.clone(),
        }
    }

    /// Returns the persists that had executed, and that this run's decisions exclude.
    pub fn lost(&self) -> Vec<usize> {
        let set = self.set.borrow();
        set.1.iter().filter(|&node| !self.bounds.1.contains(node)).collect()
    }

    /// Returns the value that persist `node` stored.
    pub fn value(&self, node: usize) -> u64 {
        self.values[node]
    }

    #[cold]
    fn decide(&self, word: u32) {
        let chain = &self.chains[&word];
        let (must, never) = &mut *self.set.borrow_mut();
        let least = chain.iter().rposition(|&node| must.contains(node)).map_or(0, |last| last + 1) as u32;
        let greatest = chain.iter().position(|&node| never.contains(node)).unwrap_or(chain.len()) as u32;
        let survive = if least == greatest { least } else { self.choose(word, (least, greatest)) };
        if let Some(last) = (survive as usize).checked_sub(1).map(|last| chain[last]) {
            must.insert(last);
            must.union(self.graph.before(last));
            self.now.borrow_mut()[word as usize] = self.values[last];
        }
        if let Some(&next) = chain.get(survive as usize) {
            never.insert(next);
            never.union(&self.after[next]);
        }
    }

    fn choose(&self, word: u32, possible: (u32, u32)) -> u32 {
        let mut decisions = self.decisions.borrow_mut();
        let (least, greatest) = possible;
        let survive = match &mut *self.chooser.borrow_mut() {
            Chooser::Search => {
                let depth = self.depth.get();
                self.depth.set(depth + 1);
                if let Some(decision) = decisions.get(depth) {
                    return decision.survive;
                }
                least
            }
            Chooser::Random(random, newest, oldest) => {
                if random.u8(..) < *newest {
                    greatest
                } else if random.u8(..) < *oldest {
                    least
                } else {
                    random.u32(least..=greatest)
                }
            }
            Chooser::Given(given) => {
                let decided = given.iter().find(|decision| decision.word == word);
                decided.map_or(greatest, |decision| decision.survive.clamp(least, greatest))
            }
        };
        decisions.push(Decision { word, survive, possible });
        survive
    }

    fn index(&self, space: Space, offset: u64) -> usize {
        let index = offset.rotate_right(3) as usize;
        let words = self.size(space) / 8;
        assert!((index as u64) < words, "{space:?} access at offset {offset:#x} is outside its space");
        index
    }

    fn load(&self, space: Space, offset: u64) -> u64 {
        let index = self.index(space, offset);
        match space {
            Space::Persistent => self.load_word(index as u32),
            Space::Volatile => self.volatile.borrow()[index],
        }
    }

    fn store(&self, space: Space, offset: u64, value: u64) {
        let index = self.index(space, offset);
        match space {
            Space::Persistent => {
                self.open.borrow_mut().remove(&(index as u32));
                self.now.borrow_mut()[index] = value;
                if self.data.contains(&index) {
                    self.stored.borrow_mut().push(index as u32);
                }
            }
            Space::Volatile => self.volatile.borrow_mut()[index] = value,
        }
    }
}

impl Recovered for Survivors {
    fn load_word(&self, word: u32) -> u64 {
        if self.open.borrow_mut().remove(&word).is_some() {
            self.decide(word);
        }
        self.now.borrow()[word as usize]
    }

    fn stored(&self) -> impl Iterator<Item = u32> {
        self.stored.borrow().clone().into_iter()
    }
}

impl World for Survivors {
    fn perform(&self, _: usize, operation: Operation) -> u64 {
        match operation {
            Operation::Load(space, at) => self.load(space, at),
            Operation::Store(space, at, value) => {
                self.store(space, at, value);
                0
            }
            Operation::StoreNonTemporal(at, value) => {
                self.store(Space::Persistent, at, value);
                0
            }
            Operation::CompareExchange(space, at, current, new) => {
                let old = self.load(space, at);
                if old == current {
                    self.store(space, at, new);
                }
                old
            }
            Operation::FetchAdd(space, at, by) => {
                let old = self.load(space, at);
                self.store(space, at, old.wrapping_add(by));
                old
            }
            Operation::Pause => {
                self.pauses.set(self.pauses.get() + 1);
                assert!(self.pauses.get() < PATIENCE, "recovery waits for ever");
                0
            }
            _ => 0,
        }
    }

    fn switches(&self, _: usize) -> bool {
        false
    }

    fn omitted(&self, step: Step) -> bool {
        self.omitted == Some(step)
    }

    fn size(&self, space: Space) -> u64 {
        8 * match space {
            Space::Persistent => self.initial.len(),
            Space::Volatile => self.volatile.borrow().len(),
        } as u64
    }
}
