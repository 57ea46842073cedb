//! `sdg`: deletes and inserts edges of a large scale-free graph.
//!
//! Loose-Ordering Consistency and ATOM have "insert/delete edges in a large (scalable) graph" and give no details. Here edges are those of an R-MAT
//! graph with the parameters of the SSCA#2 benchmark's scalable data generator. A fixed number of edges are candidates, half of which are present.
//! The graph is undirected: an edge is in the chains of both its vertices, which one transaction changes.

use fastrand::Rng;
use strandline_core::error::Error;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};
use strandline_structures::Graph;

use crate::dictionary::{Dictionary, Operator, Use, batch, has_own_lines};
use crate::{Parameter, Sizes, Workload, WorkloadDescriptor, root};

/// Deletes or inserts edges of a scale-free graph.
pub static SDG: WorkloadDescriptor = WorkloadDescriptor {
    name: "sdg",
    source: "Loose-Ordering Consistency, Table 2; ATOM, Table II",
    description: "deletes or inserts edges of a scale-free graph: 131,072 vertices, 500,000 edges, half present",
    takes: &[Parameter::ValueWords, Parameter::Operations, Parameter::ReadShare],
    make: |sizes| Ok(Box::new(SdgWorkload::new(sizes))),
    by_types: None,
    checked: None,
};

/// Probabilities in percent of the first three quadrants (SSCA#2, version 2.2: 0.55, 0.1, 0.1, 0.25).
const QUADRANTS: [u64; 3] = [55, 10, 10];
const SEED: u64 = 0x5d6;

/// The graph.
pub struct SdgWorkload {
    vertices: u64,
    usage: Use,
    value_bytes: u64,
}

/// One thread's transactions on the structure.
pub struct Edges {
    graph: Graph<Vec<u64>>,
    value: Vec<u64>,
}

/// Returns candidate edge number `number` among `vertices` vertices, the smaller vertex first.
fn candidate(number: u64, vertices: u64) -> (u64, u64) {
    let mut random = Rng::with_seed(SEED ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (mut from, mut to) = (0, 0);
    for _ in 0..vertices.next_power_of_two().trailing_zeros() {
        let draw = random.u64(..100);
        let [a, b, c] = QUADRANTS;
        (from, to) = (from << 1 | u64::from(draw >= a + b), to << 1);
        to |= u64::from((a..a + b).contains(&draw) || draw >= a + b + c);
    }
    let (from, to) = (from % vertices, to % vertices);
    (from.min(to), from.max(to))
}

impl SdgWorkload {
    /// Creates the workload with these sizes.
    pub fn new(sizes: &Sizes) -> Self {
        let Sizes { vertices, edges, value_bytes, .. } = *sizes;
        Self { vertices, usage: Use::of(sizes, edges), value_bytes }
    }

    fn value_words(&self) -> u64 {
        self.value_bytes / 8
    }

    fn edges(&self, graph: Graph<Vec<u64>>) -> Edges {
        Edges { graph, value: vec![0; self.value_words() as usize] }
    }
}

impl Workload for SdgWorkload {
    type Thread = Operator<Edges>;

    fn heap_bytes(&self) -> u64 {
        self.vertices * 8 + self.usage.most() * 2 * (32 + self.value_bytes) * 5 / 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let graph = Graph::create(runner, root, self.vertices, self.value_words())?;
        let mut edges = self.edges(graph);
        self.usage.fill(runner, &mut edges, batch(2 * self.value_bytes) / 2)
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Self::Thread> {
        let root = root(runner)?;
        let edges = self.edges(runner.view(|tx| Graph::open(tx, root))?);
        Operator::new(runner, edges, self.usage, seed)
    }

    /// Checks that every edge is there in both directions, with the same value.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        runner.view(|tx| {
            let graph = Graph::<Vec<u64>>::open(tx, root)?;
            graph.check(tx)?;
            for from in 0..graph.vertices() {
                let mut targets = Vec::new();
                graph.for_each_from(tx, from, |to, value| {
                    targets.push((to, value));
                    Ok(())
                })?;
                for (to, value) in targets {
                    if graph.get(tx, to, from)? != Some(value) {
                        let how = format!("the edge from {from} to {to} has no equal in the other direction");
                        return Err(tx.fail(Error::damaged(how)));
                    }
                }
            }
            Ok(())
        })
    }
}

impl Dictionary for Edges {
    fn contains<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        let (from, to) = candidate(key, self.graph.vertices());
        self.graph.contains(tx, from, to)
    }

    fn insert<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        let (from, to) = candidate(key, self.graph.vertices());
        self.value[0] = key;
        let is_new = self.graph.insert(tx, from, to, &self.value)?.is_none();
        if from != to {
            self.graph.insert(tx, to, from, &self.value)?;
        }
        Ok(is_new)
    }

    fn remove<T: Transaction>(&mut self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        let (from, to) = candidate(key, self.graph.vertices());
        let was_there = self.graph.delete(tx, from, to)?;
        if from != to {
            self.graph.delete(tx, to, from)?;
        }
        Ok(was_there)
    }

    /// Adds both vertices' locks.
    fn declare(&self, key: u64, locks: &mut Vec<Lock>) {
        if has_own_lines(8 * (2 + self.graph.value_words())) {
            let (from, to) = candidate(key, self.graph.vertices());
            locks.extend([from, to].map(|vertex| Lock::Line(self.graph.vertex(vertex))));
        }
    }

    /// Returns the candidates that the edges' values name.
    fn keys<T: Read>(&self, tx: &mut T) -> Result<Vec<u64>, Abort> {
        let mut keys = Vec::new();
        for from in 0..self.graph.vertices() {
            self.graph.for_each_from(tx, from, |to, value| {
                keys.extend((from <= to).then_some(value[0]));
                Ok(())
            })?;
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_is_scale_free_and_in_range() {
        let mut degrees = vec![0u64; 1000];
        for number in 0..20_000 {
            let (from, to) = candidate(number, 1000);
            assert_eq!((from, to), candidate(number, 1000));
            degrees[from as usize] += 1;
            degrees[to as usize] += 1;
        }
        degrees.sort_unstable();
        // The mean is 40; vertex 0 should have 2 * 20,000 * 0.65^10, about 540.
        assert!(degrees[999] > 400 && degrees[300] < 25, "{} {}", degrees[999], degrees[300]);
    }
}
