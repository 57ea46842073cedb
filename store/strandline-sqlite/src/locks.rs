//! SQLite's file locks (sqlite.org/lockingv3.html), among the connections of one VFS.

/// How much of a file a connection has locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing.
    #[default]
    None,
    /// It reads.
    Shared,
    /// It will write; others still read.
    Reserved,
    /// It waits for the readers to leave; none comes any more.
    Pending,
    /// It writes.
    Exclusive,
}

impl Level {
    /// The level of SQLite's number.
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
    /// The level of the one connection above [`Level::Shared`]; [`Level::None`] where there is none.
    writer: Level,
}

impl Locks {
    /// A connection that is at `level` asks for `wanted`; whether it has it. One that asked for
    /// [`Level::Exclusive`] in vain may be at [`Level::Pending`] then.
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
        // A hot journal is rolled back by who goes from shared to exclusive at once.
        *level = if wanted == Level::Exclusive && self.readers > 1 { Level::Pending } else { wanted };
        self.writer = *level;
        *level == wanted
    }

    /// A connection that is at `level` goes down to `wanted`, shared or nothing.
    pub(crate) fn lower(&mut self, level: &mut Level, wanted: Level) {
        if *level > Level::Shared {
            self.writer = Level::None;
        }
        if *level >= Level::Shared && wanted == Level::None {
            self.readers -= 1;
        }
        *level = wanted.min(*level);
    }

    /// Returns whether no connection has it.
    pub(crate) fn is_free(&self) -> bool {
        self.readers == 0
    }

    /// Returns whether some connection means to write.
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
