//! Who comes first in time.

/// A time for each of some numbers, and the first of them: a tournament, so that a change costs a comparison for each
/// doubling of the numbers.
pub(super) struct Earliest {
    /// A binary tree from its root at 1: the earlier of its children in each node, the lower number among equals. The
    /// second half are the numbers themselves.
    nodes: Vec<(u64, usize)>,
}

impl Earliest {
    /// The numbers below `count`, all at `u64::MAX`.
    pub fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        let mut nodes = vec![(u64::MAX, 0); 2 * leaves];
        for number in 0..leaves {
            nodes[leaves + number].1 = number;
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Self { nodes }
    }

    /// Sets the time of a number.
    #[inline]
    pub fn set(&mut self, number: usize, at: u64) {
        let mut node = self.nodes.len() / 2 + number;
        self.nodes[node].0 = at;
        while node > 1 {
            node /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            self.nodes[node] = if right.0 < left.0 { right } else { left };
        }
    }

    /// The first time and whose it is.
    #[inline]
    pub fn first(&self) -> (u64, usize) {
        self.nodes[1]
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
            let mut times = vec![u64::MAX; count];
            for _ in 0..1000 {
                let (number, at) = (random.usize(..count), random.u64(..20));
                let at = if at == 0 { u64::MAX } else { at };
                earliest.set(number, at);
                times[number] = at;
                assert_eq!(earliest.first(), times.iter().copied().zip(0..).min().unwrap());
            }
        }
    }
}
