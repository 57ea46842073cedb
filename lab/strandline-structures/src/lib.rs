//! The papers' structures on words. `strandline-core` has others for the typed collections.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `typed` | no | models of the typed collections of `strandline`, for property tests |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod array;
mod b_tree;
mod chain;
mod graph;
mod hash_table;
mod levels;
pub mod model;
mod queue;
mod red_black_tree;
mod set;
mod sorted_tree;

pub use array::Array;
pub use b_tree::BTree;
pub use graph::Graph;
pub use hash_table::HashTable;
pub use queue::Queue;
pub use red_black_tree::RedBlackTree;
pub use set::{MultiSet, Set};
pub use sorted_tree::{SortedShape, SortedTree};
pub use strandline_core::structures::{BPlusTree, KeyValueStore, NodeShape, Value, Word};
