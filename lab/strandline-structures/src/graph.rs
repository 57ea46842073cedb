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

    /// Creates a graph of `vertices` vertices without edges, whose edges will have values of `value_words`
    /// words, under the root word `root`. A graph of the same sizes that is there already is completed, if its
    /// creation was interrupted, and opened.
    ///
    /// # Errors
    /// A size is 0 or too large, or `value_words` is not what the type of values takes
    /// ([`Error::Parameter`]); the pool is full; something else hangs from `root`
    /// ([`Error::WrongStructure`]); as [`Runner::run`].
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
    /// There is none ([`Error::Missing`]), or something else ([`Error::WrongStructure`]), or one that was not
    /// created completely ([`Error::Incomplete`]).
    pub fn open(tx: &mut impl Read, root: PersistentAddress) -> Result<Self, Abort> {
        Ok(Self { chains: Chains::open(tx, KIND, root, Self::tag())? })
    }

    /// How many vertices it has, fixed at its creation.
    pub fn vertices(&self) -> u64 {
        self.chains.length()
    }

    /// Words in an edge's value.
    pub fn value_words(&self) -> u64 {
        self.chains.value_words()
    }

    /// The word of a vertex, which must be one: what an operation on its edges uses hangs from it.
    pub fn vertex(&self, number: u64) -> PersistentAddress {
        self.chains.cell(number)
    }

    /// The word from which the edges of `from` hang.
    fn cell(&self, tx: &mut impl Read, from: u64, to: u64) -> Result<PersistentAddress, Abort> {
        if from < self.vertices() && to < self.vertices() {
            return Ok(self.chains.cell(from));
        }
        Err(tx.fail(Error::Parameter(format!(
            "an edge from {from} to {to} in a graph of {} vertices",
            self.vertices()
        ))))
    }

    /// The value of the edge from one vertex to another.
    ///
    /// # Errors
    /// There is no such vertex ([`Error::Parameter`]); a conflict; the graph is damaged.
    pub fn get(&self, tx: &mut impl Read, from: u64, to: u64) -> Result<Option<V>, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.get(tx, cell, to)
    }

    /// Returns whether there is an edge from one vertex to another.
    ///
    /// # Errors
    /// As [`Graph::get`].
    pub fn contains(&self, tx: &mut impl Read, from: u64, to: u64) -> Result<bool, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.contains(tx, cell, to)
    }

    /// Gives the edge from one vertex to another the value `value`; returns the old value, if there was one.
    ///
    /// # Errors
    /// The value does not have the graph's number of words ([`Error::Parameter`]); the pool is full; as
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

    /// Removes the edge from one vertex to another; returns its value, if it was there.
    ///
    /// # Errors
    /// As [`Graph::get`] and [`Transaction::free`].
    pub fn remove(&self, tx: &mut impl Transaction, from: u64, to: u64) -> Result<Option<V>, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.remove(tx, cell, to)
    }

    /// Removes the edge from one vertex to another without reading its value; whether it was there.
    ///
    /// # Errors
    /// As [`Graph::remove`].
    pub fn delete(&self, tx: &mut impl Transaction, from: u64, to: u64) -> Result<bool, Abort> {
        let cell = self.cell(tx, from, to)?;
        self.chains.delete(tx, cell, to)
    }

    /// Calls `visit` with every target of the edges from `from`, and their values.
    ///
    /// # Errors
    /// As [`Graph::get`]; those of `visit`.
    pub fn for_each_from(
        &self,
        tx: &mut impl Read,
        from: u64,
        visit: impl FnMut(u64, V) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.cell(tx, from, 0)?;
        self.chains.for_each_in(tx, from, visit)
    }

    /// Number of edges, by counting them.
    ///
    /// # Errors
    /// As [`Graph::get`].
    pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        self.chains.count(tx)
    }

    /// Checks the graph's invariants; returns the number of edges.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does not hold.
    pub fn check(&self, tx: &mut impl Read) -> Result<u64, Abort> {
        let vertices = self.vertices();
        self.chains.check(tx, |_, to| to < vertices, "an edge twice or to no vertex")
    }
}
