//! The least persist order that undo-logging transactions need (section 3, Fig. 1), if software could name each dependence separately.

use std::collections::HashMap;

/// The levels of the three steps of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// The level of `prepareLogEntry`.
    pub prepare: u32,
    /// The level of `mutateDS`.
    pub mutate: u32,
    /// The level of `commitTransaction`.
    pub commit: u32,
}

/// The idealised dependence graph of a sequence of transactions, in the order in which they take their locks.
#[derive(Clone, Debug, Default)]
pub struct Ideal {
    /// For each lock the levels of its last holder. Earlier holders have lower levels.
    holders: HashMap<u64, Levels>,
    critical_path: u32,
}

impl Ideal {
    /// Creates a graph without transactions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a transaction that takes `locks`, and returns its levels.
    pub fn transaction(&mut self, locks: &[u64]) -> Levels {
        let mut conflicting = Levels::default();
        for holder in locks.iter().filter_map(|lock| self.holders.get(lock)) {
            conflicting.prepare = conflicting.prepare.max(holder.prepare);
            conflicting.mutate = conflicting.mutate.max(holder.mutate);
            conflicting.commit = conflicting.commit.max(holder.commit);
        }
        // The three steps, by equation 3, equations 1 and 4, and equations 2 and 5.
        let prepare = conflicting.prepare + 1;
        let mutate = conflicting.mutate.max(prepare) + 1;
        let commit = conflicting.commit.max(mutate) + 1;
        let levels = Levels { prepare, mutate, commit };
        for &lock in locks {
            self.holders.insert(lock, levels);
        }
        self.critical_path = self.critical_path.max(commit);
        levels
    }

    /// Returns the length of the critical path.
    pub fn critical_path(&self) -> u32 {
        self.critical_path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The closed forms are claim D3.
    #[test]
    fn the_papers_closed_forms() {
        for x in 1..200 {
            let (mut apart, mut together) = (Ideal::new(), Ideal::new());
            for i in 0..x {
                apart.transaction(&[u64::from(i)]);
                together.transaction(&[7, 1000 + u64::from(i)]);
            }
            assert_eq!((apart.critical_path(), together.critical_path()), (3, x + 2));
        }
    }

    /// Two chains meet in a transaction that takes both their locks.
    #[test]
    fn chains_that_meet() {
        let mut ideal = Ideal::new();
        for _ in 0..4 {
            ideal.transaction(&[1]);
        }
        ideal.transaction(&[2]);
        assert_eq!(ideal.transaction(&[1, 2]), Levels { prepare: 5, mutate: 6, commit: 7 });
        assert_eq!(ideal.transaction(&[2]), Levels { prepare: 6, mutate: 7, commit: 8 });
    }
}
