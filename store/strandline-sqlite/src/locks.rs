//! SQLite's file locks (sqlite.org/lockingv3.html), among the connections of one VFS.

/// The lock that a connection has on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The connection has no lock.
    #[default]
    None,
    /// The connection reads.
    Shared,
    /// The connection will write; others may still read.
    Reserved,
    /// The connection waits for the readers to finish; no new ones are admitted.
    Pending,
    /// The connection writes.
    Exclusive,
}

impl Level {
    /// Returns the level for SQLite's number.
    pub(crate) fn of(number: i32) -> Self {
        match number {
            i32::MIN..=0 => Self::None,
            1 => Self::Shared,
            2 => Self::Reserved,
            3 => Self::Pending,
            _ => Self::Exclusive,
        }
    }
}

/// The locks on one file.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Connections at [`Level::Shared`] or above.
    readers: usize,
    /// The level of the only connection above [`Level::Shared`], or [`Level::None`] if there is none.
    writer: Level,
}

impl Locks {
    /// Raises a connection's lock from `level` to `wanted`, if the other connections allow it. Returns whether they do. A request for
    /// [`Level::Exclusive`] that is refused may leave the connection at [`Level::Pending`].
    pub(crate) fn raise(&mut self, level: &mut Level, wanted: Level) -> bool {
        if wanted <= *level {
            return true;
        }
        if *level == Level::None {
            if self.writer >= Level::Pending {
                return false;
            }
            self.readers += 1;
            *level = Level::Shared;
        }
        if wanted == Level::Shared {
            return true;
        }
        if *level == Level::Shared && self.writer > Level::None {
            return false;
        }
        // To roll back a hot journal, SQLite goes from shared to exclusive directly.
        *level = if wanted == Level::Exclusive && self.readers > 1 { Level::Pending } else { wanted };
        self.writer = *level;
        *level == wanted
    }

    /// Lowers a connection's lock from `level` to `wanted`, which is shared or none.
    pub(crate) fn lower(&mut self, level: &mut Level, wanted: Level) {
        if *level > Level::Shared {
            self.writer = Level::None;
        }
        if *level >= Level::Shared && wanted == Level::None {
            self.readers -= 1;
        }
        *level = wanted.min(*level);
    }

    /// Returns whether no connection has locked the file.
    pub(crate) fn is_free(&self) -> bool {
        self.readers == 0
    }

    /// Returns whether some connection intends to write.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writer > Level::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_waits_for_the_readers_and_keeps_new_ones_out() {
        let mut locks = Locks::default();
        let (mut a, mut b, mut c) = (Level::None, Level::None, Level::None);
        assert!(locks.raise(&mut a, Level::Shared) && locks.raise(&mut b, Level::Shared));
        assert!(locks.raise(&mut a, Level::Reserved) && locks.is_reserved());
        assert!(!locks.raise(&mut b, Level::Reserved), "one writer");
        assert!(locks.raise(&mut c, Level::Shared), "a reserved file is read");
        locks.lower(&mut c, Level::None);
        assert!(!locks.raise(&mut a, Level::Exclusive), "b reads");
        assert_eq!(a, Level::Pending);
        assert!(!locks.raise(&mut c, Level::Shared), "nobody new");
        assert_eq!(c, Level::None);
        locks.lower(&mut b, Level::None);
        assert!(locks.raise(&mut a, Level::Exclusive));
        locks.lower(&mut a, Level::Shared);
        assert!(!locks.is_reserved());
        assert!(locks.raise(&mut b, Level::Shared) && locks.raise(&mut b, Level::Reserved));
    }
}
