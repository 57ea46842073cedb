//! The code of a checked program that issued the operation that a world is performing.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;

/// A place in the source of a checked program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    file: &'static str,
    line: u32,
    column: u32,
}

impl Source {
    /// Returns a line of a program that is not written in Rust. Line 0 means that it is unknown; `file` then describes the place.
    pub(crate) fn of_line(file: &'static str, line: u32) -> Self {
        Self { file, line, column: 0 }
    }

    /// Returns the file.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Returns the line, from 1. It is 0 if unknown, and then [`file`](Source::file) describes the place.
    pub fn line(&self) -> u32 {
        self.line
    }
}

impl From<&'static Location<'static>> for Source {
    fn from(at: &'static Location<'static>) -> Self {
        Self { file: at.file(), line: at.line(), column: at.column() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Source {
    /// Serialises the displayed text.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A place in a checked program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The source line.
    pub at: Source,
    /// The step that the program has named; empty if it has not named one.
    pub step: &'static str,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)?;
        if self.step.is_empty() { Ok(()) } else { write!(f, ", {:?}", self.step) }
    }
}

thread_local! {
    static SITE: Cell<Option<Site>> = const { Cell::new(None) };
    static IS_ATOMIC: Cell<bool> = const { Cell::new(false) };
    static IS_PART: Cell<bool> = const { Cell::new(false) };
}

/// Sets the place of the next operation of this thread of the operating system.
pub(crate) fn set(site: Site) {
    SITE.set(Some(site));
    IS_ATOMIC.set(false);
}

/// Marks the next operation as a load with acquire or a store with release ordering.
pub(crate) fn set_atomic() {
    IS_ATOMIC.set(true);
}

/// Takes the place of the present operation, and whether it has acquire or release ordering. There is no place if Strandline's own code issued it.
pub(crate) fn take() -> (Option<Site>, bool) {
    (SITE.take(), IS_ATOMIC.take())
}

/// Sets whether the following stores are parts of one store.
pub(crate) fn set_part(is_part: bool) {
    IS_PART.set(is_part);
}

/// Returns whether the present store is part of a larger one.
pub(crate) fn is_part() -> bool {
    IS_PART.get()
}
