//! The histories that are tried until one shows an omission.

use super::{Case, Omitted, Subject};
use crate::explore::Workload;

/// A workload, and how much of it to run.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The workload.
    pub workload: Workload,
    /// The number of threads that run transactions.
    pub threads: usize,
    /// The number of transactions that a thread runs, at most.
    pub transactions: u32,
    /// The number of histories of this shape to try.
    pub histories: u64,
}

const fn shape(workload: Workload, threads: usize, transactions: u32, histories: u64) -> Shape {
    Shape { workload, threads, transactions, histories }
}

/// The shapes in the order in which they are tried: small conflicting transactions; large ones that fill caches and logs; updates of several
/// controllers; and histories so long that logs wrap around, or that a word takes on a value again while its older versions wait.
pub const SHAPES: [Shape; 5] = [
    shape(Workload::Sps, 3, 12, 60),
    shape(Workload::Allocator, 1, 60, 2000),
    shape(Workload::Hash, 3, 40, 100),
    shape(Workload::Allocator, 1, 800, 100),
    shape(Workload::Sps, 1, 800, 100),
];

/// Returns the cases in which `omitted` may show, each with its shape, in the order in which to try them. The rules of a hardware scheme are the same
/// whatever software runs beside it: `subjects` are the scheme's subjects, or one software scheme.
pub fn attempts(subjects: &[Subject], omitted: Omitted) -> Vec<(Case, Shape)> {
    let of = |shape: Shape| {
        let Shape { workload, threads, .. } = shape;
        subjects
            .iter()
            .map(move |&subject| (Case { subject, workload, threads, omitted: Some(omitted) }, shape))
    };
    SHAPES.into_iter().flat_map(of).collect()
}
