//! What happened, for people to read; kept only where a violation is told.

use std::cell::RefCell;
use std::rc::Rc;

/// Lines of text, or nothing.
#[derive(Clone, Default)]
pub(super) struct Journal(Option<Rc<RefCell<Vec<String>>>>);

impl Journal {
    /// One that keeps what it is told.
    pub fn kept() -> Self {
        Self(Some(Rc::default()))
    }

    /// Notes a line of what is shown where a violation is found.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            let line = line();
            lines.borrow_mut().push(line);
        }
    }

    /// How many lines there are.
    pub fn length(&self) -> usize {
        self.0.as_ref().map_or(0, |lines| lines.borrow().len())
    }

    /// Takes back all but the first `length` lines.
    pub fn shorten(&self, length: usize) {
        if let Some(lines) = &self.0 {
            lines.borrow_mut().truncate(length);
        }
    }

    /// Takes the lines out.
    pub fn take(&self) -> Vec<String> {
        self.0.as_ref().map(|lines| lines.take()).unwrap_or_default()
    }
}
