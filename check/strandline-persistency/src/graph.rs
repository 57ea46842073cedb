//! The persist order itself, pair by pair, for short executions.
//!
//! [`PersistGraph`] applies the paper's equations to all pairs of events and closes the relation transitively. It shares no code with
//! [`CriticalPath`](super::CriticalPath), so that each can check the other. Time and memory grow with the square of the number of events.

use super::event::Event;
use super::model::Model;

/// A set of nodes or events, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSet(Vec<u64>);

impl NodeSet {
    /// Returns an empty set for numbers below `size`.
    pub fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    /// Adds `node`.
    pub fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    /// Removes `node`.
    pub fn remove(&mut self, node: usize) {
        self.0[node / 64] &= !(1 << (node % 64));
    }

    /// Returns whether the set contains `node`.
    pub fn contains(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    /// Adds all of `other`, a set of the same size.
    pub fn union(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// Returns whether every element is also in `other`, a set of the same size.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine & !theirs == 0)
    }

    /// Returns the elements in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(i, &bits)| {
            let mut bits = bits;
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    64 * i + bit
                })
            })
        })
    }
}

/// A store to persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The number of its event in the execution.
    pub event: usize,
    /// Its thread.
    pub thread: usize,
    /// The word of the pool.
    pub word: u32,
}

/// The persist order of a short execution.
pub struct PersistGraph {
    model: Model,
    persists: Vec<Persist>,
    /// For each persist the persists ordered before it, without those that only the order of stores to its own word puts there.
    ordered: Vec<NodeSet>,
    /// For each persist the persists that are durable whenever it is: those in `ordered`, the stores to its word before it, and transitively what
    /// these need.
    before: Vec<NodeSet>,
    /// For each event that waits, the persists that are durable before any later effect of its thread is visible.
    durable: Vec<(usize, NodeSet)>,
}

impl PersistGraph {
    /// Orders `events`, given as thread and event in volatile memory order, under `model`.
    pub fn new(model: Model, events: &[(usize, Event)]) -> Self {
        let mut persists = Vec::new();
        let mut number = vec![usize::MAX; events.len()];
        for (event, &(thread, what)) in events.iter().enumerate() {
            if let Some(word) = what.persist() {
                number[event] = persists.len();
                persists.push(Persist { event, thread, word });
            }
        }
        let relation = Relation::new(model, events);
        let (ordered, durable) = match model {
            Model::EagerSync => relation.eager(&persists),
            _ => relation.by_equations(&persists),
        };
        let mut before: Vec<NodeSet> = Vec::with_capacity(persists.len());
        for (node, persist) in persists.iter().enumerate() {
            let mut set = ordered[node].clone();
            if let Some(last) = persists[..node].iter().rposition(|earlier| earlier.word == persist.word) {
                set.insert(last);
                set.union(&before[last]);
            }
            // A persist that was just added may itself require more.
            for other in set.clone().iter() {
                set.union(&before[other]);
            }
            before.push(set);
        }
        Self { model, persists, ordered, before, durable }
    }

    /// Returns the persists in volatile memory order. A persist's position is the number of its node.
    pub fn persists(&self) -> &[Persist] {
        &self.persists
    }

    /// Returns the persists that must be durable when `node` is, without `node` itself.
    pub fn before(&self, node: usize) -> &NodeSet {
        &self.before[node]
    }

    /// Returns the persists that are durable when the events before number `event` have executed.
    pub fn durable(&self, event: usize) -> NodeSet {
        let mut all = NodeSet::new(self.persists.len());
        for (_, set) in self.durable.iter().take_while(|(at, _)| *at < event) {
            all.union(set);
        }
        all
    }

    /// Returns the events that make more persists durable.
    pub fn waits(&self) -> impl Iterator<Item = usize> {
        self.durable.iter().map(|&(event, _)| event)
    }

    /// Returns the level of each persist: the length of the longest path to it. Stores to one word that may persist as one atomic write count once.
    pub fn levels(&self) -> Vec<u32> {
        let mut levels: Vec<u32> = Vec::with_capacity(self.persists.len());
        // For each persist the first persist of the atomic write that it belongs to.
        let mut group: Vec<usize> = Vec::with_capacity(self.persists.len());
        for (node, persist) in self.persists.iter().enumerate() {
            let above = |set: &NodeSet| set.iter().map(|other| levels[other]).max().unwrap_or(0);
            let last = self.persists[..node].iter().rposition(|earlier| earlier.word == persist.word);
            let joined = last.filter(|&last| {
                let others = self.ordered[node].iter().filter(|&other| group[other] != group[last]);
                self.model != Model::EagerSync
                    && others.map(|other| levels[other]).all(|level| level < levels[last])
            });
            let (level, first) = match joined {
                Some(last) => (levels[last], group[last]),
                None => (above(&self.ordered[node]) + 1, node),
            };
            levels.push(level);
            group.push(first);
        }
        levels
    }

    /// Returns the length of the critical path.
    pub fn critical_path(&self) -> u32 {
        self.levels().into_iter().max().unwrap_or(0)
    }

    /// Returns the down-closed sets of persists: each set contains, with a persist, all persists that are ordered before it.
    pub fn cuts(&self) -> Cuts<'_> {
        Cuts { graph: self, next: Some(NodeSet::new(self.persists.len())) }
    }
}

/// Iterates over all down-closed sets, from the empty one to the full one.
pub struct Cuts<'a> {
    graph: &'a PersistGraph,
    next: Option<NodeSet>,
}

impl Iterator for Cuts<'_> {
    type Item = NodeSet;

    fn next(&mut self) -> Option<NodeSet> {
        let present = self.next.take()?;
        // Finds the next cut in binary counting order: the last absent node that can be added is added, and the nodes after it are removed.
        let mut following = present.clone();
        for node in (0..self.graph.persists.len()).rev() {
            if present.contains(node) {
                following.remove(node);
            } else if self.graph.before[node].is_subset(&following) {
                following.insert(node);
                self.next = Some(following);
                break;
            }
        }
        Some(present)
    }
}

/// An execution and the model that orders it.
struct Relation<'a> {
    model: Model,
    events: &'a [(usize, Event)],
    /// For each load that sees its own thread's ordinary store: that store.
    own_store: Vec<Option<usize>>,
}

/// For each persist the persists ordered before it; and for each waiting event the persists that it makes durable.
type Order = (Vec<NodeSet>, Vec<(usize, NodeSet)>);

/// The numbers of barriers, strands and commits that a thread has executed.
#[derive(Clone, Copy, Default)]
struct Marks {
    barriers: usize,
    strands: usize,
    commits: usize,
}

impl<'a> Relation<'a> {
    fn new(model: Model, events: &'a [(usize, Event)]) -> Self {
        let own_store = events.iter().enumerate().map(|(load, &(thread, what))| {
            let Event::Load(place) = what else { return None };
            let stores =
                |event: &usize| matches!(events[*event].1.access(), Some((other, _, true)) if other == place);
            let last = (0..load).rev().find(stores)?;
            (events[last] == (thread, Event::Store(place))).then_some(last)
        });
        Self { model, events, own_store: own_store.collect() }
    }

    /// Returns whether `a` and `b` access the same word and at least one of them stores to it (equation 8).
    fn conflict(&self, a: usize, b: usize) -> bool {
        match (self.events[a].1.access(), self.events[b].1.access()) {
            (Some((one, _, stores)), Some((other, _, also))) => one == other && (stores || also),
            _ => false,
        }
    }

    fn is_exchange(&self, event: usize) -> bool {
        matches!(self.events[event].1, Event::Exchange(_))
    }

    /// Returns whether total store order keeps `a` before `b`, two accesses of one thread.
    fn kept(&self, a: usize, b: usize) -> bool {
        match (self.events[a].1, self.events[b].1) {
            (Event::Store(_), Event::Load(_)) => false,
            (x, y) => x.access().is_some() && y.access().is_some(),
        }
    }

    /// Returns whether volatile memory order puts `a` before `b`, where `a` executed first: by program order as far as total store order keeps it, or
    /// by a conflict. The exception is a load that may see its own thread's store early.
    fn volatile(&self, a: usize, b: usize) -> bool {
        let same_thread = self.events[a].0 == self.events[b].0;
        if same_thread {
            return self.kept(a, b);
        }
        self.conflict(a, b) && !self.reads_own(a, b)
    }

    /// Returns whether load `b` sees a store of its own thread that is later than store `a` of another thread.
    fn reads_own(&self, a: usize, b: usize) -> bool {
        self.own_store[b].is_some_and(|store| store > a)
    }

    /// Returns for each event the set of events before it: the transitive closure of the pairs that `directly` relates.
    fn close(&self, directly: impl Fn(usize, usize) -> bool) -> Vec<NodeSet> {
        let mut before: Vec<NodeSet> = Vec::with_capacity(self.events.len());
        for b in 0..self.events.len() {
            let mut set = NodeSet::new(self.events.len());
            for a in (0..b).rev() {
                if !set.contains(a) && directly(a, b) {
                    set.insert(a);
                    set.union(&before[a]);
                }
            }
            before.push(set);
        }
        before
    }

    /// Returns the nodes whose events are in `events`.
    fn nodes(persists: &[Persist], events: &NodeSet) -> NodeSet {
        let mut set = NodeSet::new(persists.len());
        let within = persists.iter().enumerate().filter(|(_, persist)| events.contains(persist.event));
        within.for_each(|(node, _)| set.insert(node));
        set
    }

    /// Orders the persists under strict (equation 6), epoch (7 and 8) or strand persistency (9 and 8).
    fn by_equations(&self, persists: &[Persist]) -> Order {
        let events = self.events;
        let counts = self.counts();
        // The hardware's strands are used in turn by the strands that have persists.
        let limit = match self.model {
            Model::Strand { strands } => strands.map_or(0, |n| n.get() as usize),
            _ => 0,
        };
        let turn = |event: usize| -> Option<usize> {
            let (thread, strand) = (events[event].0, counts[event].strands);
            let own = persists.iter().filter(|persist| persist.thread == thread);
            let strands = own.clone().map(|persist| counts[persist.event].strands);
            let mut before: Vec<usize> = strands.filter(|&other| other < strand).collect();
            before.dedup();
            let begun = own.clone().any(|p| counts[p.event].strands == strand && p.event <= event);
            begun.then_some(before.len())
        };
        let turns: Vec<Option<usize>> = match limit {
            0 => vec![None; events.len()],
            _ => (0..events.len()).map(turn).collect(),
        };
        let waits = |a: usize, b: usize| {
            events[a].0 == events[b].0
                && events[a].1.persist().is_some()
                && matches!((turns[a], turns[b]), (Some(one), Some(other)) if one < other && (other - one) % limit == 0)
        };
        let committed = |a: usize, b: usize| {
            events[a].0 == events[b].0
                && events[a].1.persist().is_some()
                && counts[a].commits < counts[b].commits
        };
        let before = self.close(|a, b| match self.model {
            Model::Strict => self.volatile(a, b),
            _ => {
                let ordered = events[a].0 == events[b].0
                    && events[a].1.access().is_some()
                    && events[b].1.access().is_some()
                    && counts[a].barriers < counts[b].barriers
                    && counts[a].strands == counts[b].strands;
                ordered || self.conflict(a, b) || committed(a, b) || limit > 0 && waits(a, b)
            }
        });
        let ordered: Vec<_> = persists.iter().map(|p| Self::nodes(persists, &before[p.event])).collect();
        let durable = self.durable_by_commits(persists, &ordered);
        (ordered, durable)
    }

    /// Returns for each event the marks of its thread up to it.
    fn counts(&self) -> Vec<Marks> {
        let mut threads: Vec<Marks> = Vec::new();
        let by_event = self.events.iter().map(|&(thread, what)| {
            if threads.len() <= thread {
                threads.resize(thread + 1, Marks::default());
            }
            let marks = &mut threads[thread];
            match what {
                Event::PersistBarrier => marks.barriers += 1,
                Event::NewStrand if matches!(self.model, Model::Strand { .. }) => marks.strands += 1,
                Event::PersistCommit => marks.commits += 1,
                _ => {}
            }
            *marks
        });
        by_event.collect()
    }

    /// Returns which persists each pcommit makes durable: its thread's persists, and those `ordered` before them.
    fn durable_by_commits(&self, persists: &[Persist], ordered: &[NodeSet]) -> Vec<(usize, NodeSet)> {
        let waiting = self.events.iter().enumerate().filter(|(_, (_, what))| *what == Event::PersistCommit);
        let durable = waiting.map(|(event, &(thread, _))| {
            let mut set = NodeSet::new(persists.len());
            for (node, persist) in persists.iter().enumerate() {
                if persist.thread == thread && persist.event < event {
                    set.insert(node);
                    set.union(&ordered[node]);
                }
            }
            (event, set)
        });
        durable.collect()
    }

    /// Orders the persists under eager sync: a sync barrier makes the persists that it covers durable before the thread's later stores become
    /// visible.
    fn eager(&self, persists: &[Persist]) -> Order {
        let events = self.events;
        let visible = self.close(|a, b| self.volatile(a, b));
        let mut durable = Vec::new();
        for (fence, &(thread, what)) in events.iter().enumerate() {
            if matches!(what, Event::StoreFence | Event::Exchange(_)) {
                let mut set = NodeSet::new(persists.len());
                for (node, persist) in persists.iter().enumerate() {
                    if self.covers(thread, fence, persist) {
                        set.insert(node);
                    }
                }
                durable.push((fence, set));
            }
        }
        let mut ordered: Vec<NodeSet> = Vec::with_capacity(persists.len());
        for persist in persists {
            let mut set = NodeSet::new(persists.len());
            for (fence, covered) in durable.iter().filter(|(fence, _)| *fence <= persist.event) {
                let (fence, thread) = (*fence, events[*fence].0);
                // `persist` comes after the fence if it is a later store of the fence's thread or follows such a store. An exchange counts as its own
                // later store.
                let seen = (fence..=persist.event).any(|event| {
                    let stores = matches!(events[event].1.access(), Some((_, _, true)));
                    events[event].0 == thread
                        && stores
                        && (event > fence || self.is_exchange(fence))
                        && (event == persist.event || visible[persist.event].contains(event))
                });
                if seen {
                    set.union(covered);
                }
            }
            ordered.push(set);
        }
        // A durable persist implies that those ordered before it are durable.
        for (_, set) in &mut durable {
            for node in set.clone().iter() {
                set.union(&ordered[node]);
            }
        }
        (ordered, durable)
    }

    /// Returns whether a sync barrier of `thread` that ends with `fence` covers `persist`. It does if the thread has stored the persist, or has seen
    /// it or a later store of its word, and has then written the line back and executed a fence, pcommit, and `fence`.
    fn covers(&self, thread: usize, fence: usize, persist: &Persist) -> bool {
        let mut stage = 0;
        for event in persist.event..=fence {
            let (by, what) = self.events[event];
            if by != thread {
                continue;
            }
            let met = matches!(what.access(), Some((place, ..)) if place.is_persistent() && place.word == persist.word);
            let fences = matches!(what, Event::StoreFence | Event::Exchange(_));
            stage = match (stage, what) {
                (0, _) if met => 1,
                (1, Event::WriteBack(line)) if line == persist.word / 8 => 2,
                (2, _) if fences => 3,
                (3, Event::PersistCommit) => 4,
                (4, _) if fences && event == fence => 5,
                (stage, _) => stage,
            };
        }
        stage == 5
    }
}
