//! A readable record of what happened. It is kept only to report a violation.

use std::cell::RefCell;
use std::rc::Rc;

/// Lines of text, or nothing if they are not kept.
#[derive(Clone, Default)]
pub(super) struct Journal(Option<Rc<RefCell<Vec<String>>>>);

impl Journal {
    /// Returns a journal that keeps its lines.
    pub fn kept() -> Self {
        Self(Some(Rc::default()))
    }

    /// Adds a line, if the journal is kept.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            let line = line();
            lines.borrow_mut().push(line);
        }
    }

    /// Returns the number of lines.
    pub fn length(&self) -> usize {
        self.0.as_ref().map_or(0, |lines| lines.borrow().len())
    }

    /// Removes all but the first `length` lines.
    pub fn shorten(&self, length: usize) {
        if let Some(lines) = &self.0 {
            lines.borrow_mut().truncate(length);
        }
    }

    /// Takes all lines.
    pub fn take(&self) -> Vec<String> {
        self.0.as_ref().map(|lines| lines.take()).unwrap_or_default()
    }
}
