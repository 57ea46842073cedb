//! Filled pools, which points of a sweep share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use strandline_sim::run::{PoolSizes, Prepared};
use strandline_workloads::Sizes;

/// What a filled pool depends on: workload, sizes, threads, and whether each thread has a structure of its own.
pub(super) type Filled = (&'static str, Sizes, PoolSizes, usize, bool);

pub(super) type Shared = Arc<OnceLock<Result<Prepared, String>>>;

/// Filled pools, each as long as points need it.
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

    /// The pool of a point; the shelf lets go of it with the last one.
    pub fn take(&self, filled: &Filled) -> Shared {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = all.iter().position(|(other, ..)| other == filled) else { return Shared::default() };
        all[at].1 -= 1;
        if all[at].1 == 0 { all.remove(at).2 } else { all[at].2.clone() }
    }
}

/// Pools of points that come one by one: as many stay as can be in use at a time without the others being far.
pub struct Shelf(Mutex<VecDeque<(Filled, Shared)>>);

/// Pools on a shelf. Whoever runs many points orders them by pool.
const KEPT: usize = 2;

impl Shelf {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// The pool of a point, which goes to the front.
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
