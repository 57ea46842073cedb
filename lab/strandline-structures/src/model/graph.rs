//! The graph as a map of edges.

use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{AnyRunner, Transaction};
use strandline_core::{Abort, Result};

use super::map::{self, Found, Map, Pair};
use super::{Contents, Operation, Outcome, Structure, encoding};

/// A graph. The edge between vertices `a` and `b` of `n` is key `a * n + b`.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// The number of vertices that it has; edges connect their numbers.
    pub vertices: u64,
    /// The number of words that an edge's value has.
    pub value_words: u64,
}

struct OpenGraph(crate::Graph<Vec<u64>>);

impl OpenGraph {
    fn edge(&self, key: u64) -> (u64, u64) {
        (key / self.0.vertices(), key % self.0.vertices())
    }
}

impl Map for OpenGraph {
    fn get(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        let (from, to) = self.edge(key);
        let found = self.0.get(&mut tx, from, to)?.map(|words| encoding::of_words(&words));
        match self.0.contains(&mut tx, from, to)? == found.is_some() {
            true => Ok(found),
            false => Ok(Some(None)),
        }
    }
    fn insert(&self, mut tx: &mut dyn Transaction, key: u64, value: u64) -> Result<Found, Abort> {
        let ((from, to), value) = (self.edge(key), encoding::words(value, self.0.value_words()));
        Ok(self.0.insert(&mut tx, from, to, &value)?.map(|words| encoding::of_words(&words)))
    }
    fn remove(&self, mut tx: &mut dyn Transaction, key: u64) -> Result<Found, Abort> {
        let (from, to) = self.edge(key);
        Ok(self.0.remove(&mut tx, from, to)?.map(|words| encoding::of_words(&words)))
    }
    fn pairs(&self, mut tx: &mut dyn Transaction) -> Result<Vec<Pair>, Abort> {
        let mut pairs = Vec::new();
        for from in 0..self.0.vertices() {
            self.0.for_each_from(&mut tx, from, |to, value| {
                pairs.push((Some(from * self.0.vertices() + to), encoding::of_words(&value)));
                Ok(())
            })?;
        }
        Ok(pairs)
    }
}

impl Structure for Graph {
    fn name(&self) -> &'static str {
        "graph"
    }
    fn create(&self, runner: &mut AnyRunner<'_>, root: PersistentAddress) -> Result<()> {
        crate::Graph::<Vec<u64>>::create(runner, root, self.vertices, self.value_words).map(drop)
    }
    fn places(&self) -> u64 {
        self.vertices * self.vertices
    }
    fn apply(
        &self,
        mut tx: &mut dyn Transaction,
        root: PersistentAddress,
        operation: &Operation,
    ) -> Result<Outcome, Abort> {
        map::apply(self, &OpenGraph(crate::Graph::open(&mut tx, root)?), tx, operation)
    }
    fn check(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<u64, Abort> {
        crate::Graph::<Vec<u64>>::open(&mut tx, root)?.check(&mut tx)
    }
    fn read(&self, mut tx: &mut dyn Transaction, root: PersistentAddress) -> Result<Contents, Abort> {
        map::read(self, &OpenGraph(crate::Graph::open(&mut tx, root)?), tx)
    }
}
