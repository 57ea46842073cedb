//! A directed graph of a fixed number of vertices, whose edges have values.
//!
//! ```text
//! header   word 0 tag (parameter: words in a value) · word 1 vertices · word 2 their address · word 3 initialised
//! vertex   one word: the first edge of its chain, 0 if none
//! edge     word 0 the next edge of the same origin, 0 if none · word 1 the target · from word 2 the value
//! ```
//!
//! Vertices are the numbers below the number of vertices; from one to another there is one edge at most. The
//! edges of an origin are a chain, the newest at the front. Edges of different origins are independent; an
//! undirected graph is one with each edge in both directions.
//!
//! Invariants: a chain ends; every target is a vertex, once in its origin's chain.

use super::chain::Chains;
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::header::Kind;
use strandline_core::structures::value::Value;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};

const KIND: Kind = Kind::Graph;

/// A persistent graph.
///
/// ```
/// # use strandline_core::example::*;
/// # let (mut worker, root) = worker_and_root();
/// use strandline_structures::Graph;
///
/// // Four vertices; an edge has a weight of one word.
/// let roads = Graph::<f64>::create(&mut worker, root, 4, 1)?;
/// worker.run(|tx| {
///     roads.insert(tx, 0, 1, &2.5)?;
///     roads.insert(tx, 0, 3, &7.0)
/// })?;
/// let mut longest = 0.0;
/// worker.view(|tx| roads.for_each_from(tx, 0, |_, weight| Ok(longest = weight.max(longest))))?;
/// assert_eq!(longest, 7.0);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Graph<V> {
    chains: Chains<V>,
}

impl<V> Clone for Graph<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Graph<V> {}

impl<V: Value> Graph<V> {
    fn tag() -> u64 {
        KIND.tag(0, V::TYPE)
    }

    /// Creates a graph of `vertices` vertices without edges, whose edges will have values of `value_words` words, under the root word `root`. If a
    /// graph of the same sizes is already there, completes it if its creation was interrupted, and opens it.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a size is 0 or too large, or `value_words` is not what the type of values takes, [`Error::WrongStructure`] if
    /// `root` refers to something else, an error if the pool is full, and the errors of [`Runner::run`].
    pub fn create(
        runner: &mut impl Runner,
        root: PersistentAddress,
        vertices: u64,
        value_words: u64,
    ) -> Result<Self> {
        if vertices == 0 {
            return Err(Error::Parameter("a graph needs a vertex".into()));
        }
        Ok(Self { chains: Chains::create(runner, KIND, root, Self::tag(), vertices, value_words)? })
    }

    /// Opens the graph under the root word `root`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if there is none, [`Error::WrongStructure`] if something else is there, and [`Error::Incomplete`] if its creation
    /// was interrupted.
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        Ok(Self { chains: Chains::open(tx, KIND, root, Self::tag())? })
    }

    /// Returns the number of vertices, fixed when the graph is created.
    pub fn vertices(&self) -> u64 {
        self.chains.length()
    }

    /// Returns the number of words in an edge's value.
    pub fn value_words(&self) -> u64 {
        self.chains.value_words()
    }

    /// Returns the word of vertex `number`, which must exist. Operations on its edges use memory that is reachable from this word.
    pub fn vertex(&self, number: u64) -> PersistentAddress {
        self.chains.cell(number)
    }

    /// Returns the word with the first edge of `from`.
    fn cell(&self, tx: &mut impl Read, from: u64, to: u64) -> Result<PersistentAddress, Abort> {
        if from < self.vertices() && to < self.vertices() {
            return Ok(self.chains.cell(from));
        }
        Err(tx.fail(Error::Parameter(format!(
            "an edge from {from} to {to} in a graph of {} vertices",
            self.vertices()
        ))))
    }

    /// Returns the value of the edge from one vertex to another.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if there is no such vertex, and an error after a conflict or if the graph is damaged.
    pub fn get(&self, tx: &mut impl Read, from: u64, to: u64) -> Result<Option<V>, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.get(tx, cell, to)
    }

    /// Returns whether there is an edge from one vertex to another.
    ///
    /// # Errors
    /// As for [`Graph::get`].
    pub fn contains(&self, tx: &mut impl Read, from: u64, to: u64) -> Result<bool, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.contains(tx, cell, to)
    }

    /// Sets the value of the edge from one vertex to another. Returns the old value, if there was one.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the value does not have the graph's number of words, an error if the pool is full, and the errors of
    /// [`Graph::get`].
    pub fn insert(
        &self,
        tx: &mut impl Transaction,
        from: u64,
        to: u64,
        value: &V,
    ) -> Result<Option<V>, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.insert(tx, cell, to, value)
    }

    /// Removes the edge from one vertex to another. Returns its value, if it was there.
    ///
    /// # Errors
    /// As for [`Graph::get`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, from: u64, to: u64) -> Result<Option<V>, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.remove(tx, cell, to)
    }

    /// Removes the edge from one vertex to another without reading its value. Returns whether it was there.
    ///
    /// # Errors
    /// As for [`Graph::remove`].
    pub fn delete(&self, tx: &mut impl Transaction, from: u64, to: u64) -> Result<bool, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.delete(tx, cell, to)
    }

    /// Calls `visit` with every target of the edges from `from`, and their values.
    ///
    /// # Errors
    /// Returns the errors of [`Graph::get`] and `visit`.
    pub fn for_each_from(
        &self,
        tx: &mut impl Read,
        from: u64,
        visit: impl FnMut(u64, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.cell(tx, from, 0)?;
        self.chains.for_each_in(tx, from, visit)
    }

    /// Counts the edges.
    ///
    /// # Errors
    /// As for [`Graph::get`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.chains.count(tx)
    }

    /// Checks the graph's invariants. Returns the number of edges.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let vertices = self.vertices();
        self.chains.check(tx, |_, to| to < vertices, "an edge twice or to no vertex")
    }
}
