//! Finds the core that comes first in time.

use crate::numbers::{CoreId, Cycle};

/// The number of bits of a core's number, below those of its time.
const NUMBER_BITS: u32 = 6;
/// The encoded time that stands for never.
const NEVER: u64 = u64::MAX >> NUMBER_BITS;

/// A time for each core, and the earliest of them: a tournament tree, so that a change costs one comparison for each doubling of the cores.
pub(super) struct Earliest {
    /// A binary tree with its root at 1. Each node is the minimum of its children. The second half holds the cores' numbers with their times in the
    /// upper bits, so that at equal times the lower number is first.
    nodes: Box<[u64]>,
}

impl Earliest {
    /// Creates `count` cores, all at [`Cycle::NEVER`].
    ///
    /// # Panics
    /// Panics if there are more than 64.
    pub fn new(count: usize) -> Self {
        assert!(count <= 1 << NUMBER_BITS, "{count} cores");
        let leaves = count.next_power_of_two();
        let mut nodes = vec![0; 2 * leaves];
        for number in 0..leaves {
            nodes[leaves + number] = NEVER << NUMBER_BITS | number as u64;
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Self { nodes: nodes.into() }
    }

    /// Sets the time of a core, which is below 2^58 or [`Cycle::NEVER`].
    pub fn set(&mut self, core: CoreId, at: Cycle) {
        let number = core.index();
        let mut node = self.nodes.len() / 2 + number;
        let mut least = at.number().min(NEVER) << NUMBER_BITS | number as u64;
        while self.nodes[node] != least {
            self.nodes[node] = least;
            if node == 1 {
                break;
            }
            least = least.min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// Returns the earliest time and its core.
    pub fn first(&self) -> (Cycle, CoreId) {
        let first = self.nodes[1];
        let at = match first >> NUMBER_BITS {
            NEVER => Cycle::NEVER,
            at => Cycle::new(at),
        };
        (at, CoreId::new((first & ((1 << NUMBER_BITS) - 1)) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_that_of_a_search() {
        for count in [1, 2, 3, 32, 33] {
            let mut random = fastrand::Rng::with_seed(count as u64);
            let mut earliest = Earliest::new(count);
            let mut times = vec![Cycle::NEVER; count];
            for _ in 0..1000 {
                let (number, at) = (random.usize(..count), random.u64(..20));
                let at = if at == 0 { Cycle::NEVER } else { Cycle::new(at) };
                earliest.set(CoreId::new(number), at);
                times[number] = at;
                assert_eq!(earliest.first(), times.iter().copied().zip(CoreId::first(count)).min().unwrap());
            }
        }
    }
}
