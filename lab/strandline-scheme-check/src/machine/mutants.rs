//! The histories among which one shows that something is left out.

use super::{Case, Omitted, Subject};
use crate::explore::Workload;

/// A workload, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The workload.
    pub workload: Workload,
    /// Threads that run transactions.
    pub threads: usize,
    /// Transactions of a thread, at most.
    pub transactions: u32,
    /// How many histories of this shape to try.
    pub histories: u64,
}

const fn shape(workload: Workload, threads: usize, transactions: u32, histories: u64) -> Shape {
    Shape { workload, threads, transactions, histories }
}

/// What is tried, in this order: small blocks in conflict; large ones that fill caches and logs; updates of several
/// controllers; and histories so long that logs go round, or that a word takes a value again while its older versions wait.
pub const SHAPES: [Shape; 5] = [
    shape(Workload::Sps, 3, 12, 60),
    shape(Workload::Allocator, 1, 60, 2000),
    shape(Workload::Hash, 3, 40, 100),
    shape(Workload::Allocator, 1, 800, 100),
    shape(Workload::Sps, 1, 800, 100),
];

/// The cases in which `omitted` may show, each with its shape, in the order in which they are to be tried. The rules of a
/// hardware scheme are the same whatever software runs beside it: `subjects` are its subjects, or one software scheme.
pub fn attempts(subjects: &[Subject], omitted: Omitted) -> Vec<(Case, Shape)> {
    let of = |shape: Shape| {
        let Shape { workload, threads, .. } = shape;
        subjects
            .iter()
            .map(move |&subject| (Case { subject, workload, threads, omitted: Some(omitted) }, shape))
    };
    SHAPES.into_iter().flat_map(of).collect()
}
