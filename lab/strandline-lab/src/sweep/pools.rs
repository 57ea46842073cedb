//! Filled pools, which points of a sweep share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use strandline_sim::run::{PoolSizes, Prepared};
use strandline_workloads::Sizes;

/// The properties that determine a filled pool: workload, sizes, threads, and whether each thread has a structure of its own.
pub(super) type Filled = (&'static str, Sizes, PoolSizes, usize, bool);

pub(super) type Shared = Arc<OnceLock<Result<Prepared, String>>>;

/// Filled pools, each kept while points still need it.
pub(super) struct Pools(Mutex<Vec<(Filled, usize, Shared)>>);

impl Pools {
    pub fn new(wanted: impl Iterator<Item = Filled>) -> Self {
        let mut all: Vec<(Filled, usize, Shared)> = Vec::new();
        for filled in wanted {
            match all.iter_mut().find(|(other, ..)| *other == filled) {
                Some((_, points, _)) => *points += 1,
                None => all.push((filled, 1, Shared::default())),
            }
        }
        Self(Mutex::new(all))
    }

    /// Returns the pool of a point, which the shelf drops after the last point that needs it.
    pub fn take(&self, filled: &Filled) -> Shared {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = all.iter().position(|(other, ..)| other == filled) else { return Shared::default() };
        all[at].1 -= 1;
        if all[at].1 == 0 { all.remove(at).2 } else { all[at].2.clone() }
    }
}

/// The pools of points that run one by one: the most recently used ones are kept.
pub struct Shelf(Mutex<VecDeque<(Filled, Shared)>>);

/// The number of pools that a shelf keeps. Callers with many points should order them by pool.
const KEPT: usize = 2;

impl Shelf {
    /// Creates an empty shelf.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Returns the pool of a point, and moves it to the front.
    pub(super) fn take(&self, filled: &Filled) -> Shared {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|(other, _)| other == filled);
        let shared = at.and_then(|at| all.remove(at)).map_or_else(Shared::default, |(_, shared)| shared);
        all.push_front((*filled, shared.clone()));
        all.truncate(KEPT);
        shared
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self::new()
    }
}
