//! Which code of a program of one's own asks for the operation that a world is performing, and what it stands for.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;

/// A place in the source of a program of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    file: &'static str,
    line: u32,
    column: u32,
}

impl Source {
    /// A line of a program that is not written in Rust; 0: it is not known, and `file` says what is.
    pub(crate) fn of_line(file: &'static str, line: u32) -> Self {
        Self { file, line, column: 0 }
    }

    /// Its file.
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Its line, from 1; 0 if that is not known, and then [`file`](Source::file) says what is.
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
    /// As it is displayed.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A place in a program of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The source line.
    pub at: Source,
    /// The step that the program has named; empty if it has named none.
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

/// The next operation that this thread of the operating system performs is asked for here.
pub(crate) fn set(site: Site) {
    SITE.set(Some(site));
    IS_ATOMIC.set(false);
}

/// The next operation is a load that acquires, or a store that releases.
pub(crate) fn set_atomic() {
    IS_ATOMIC.set(true);
}

/// Who asks for the present operation; nobody, where code of Strandline does. And whether it acquires or releases.
pub(crate) fn take() -> (Option<Site>, bool) {
    (SITE.take(), IS_ATOMIC.take())
}

/// The stores that follow are parts of one, or are again stores of their own.
pub(crate) fn set_part(is_part: bool) {
    IS_PART.set(is_part);
}

/// Returns whether the present store is a part of one.
pub(crate) fn is_part() -> bool {
    IS_PART.get()
}
