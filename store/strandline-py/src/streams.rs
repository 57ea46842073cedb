//! Values that come from files of Python, piece by piece.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raised;

thread_local! {
    /// Whether this thread reads a file for an operation of the database.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Fails on a thread that reads a file for an operation: what waits for that operation would wait for ever.
///
/// # Errors
/// Returns a `UsageError`.
pub fn demand_no_source() -> PyResult<()> {
    match READS.get() {
        true => Err(raised(
            "UsageError",
            "a file whose bytes are being stored cannot use the database, but for a snapshot".into(),
        )),
        false => Ok(()),
    }
}

/// A file of Python, from where it stood.
#[derive(Clone)]
pub struct Source(Arc<File>);

struct File {
    file: Py<PyAny>,
    /// Where it stood; `None` for one that cannot go back.
    start: Option<u64>,
    was_read: AtomicBool,
    /// The exception that it raised.
    failure: Mutex<Option<PyErr>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl Source {
    /// The bytes of `file` from where it stands, and how many these are: `size`, or all.
    ///
    /// # Errors
    /// Returns what the file raises; a `UsageError` where nobody knows how many there are.
    pub fn new(file: &Bound<'_, PyAny>, size: Option<u64>) -> PyResult<(Self, u64)> {
        let can_seek = file.call_method0("seekable").and_then(|can| can.extract()).unwrap_or(false);
        let start = if can_seek { Some(file.call_method0("tell")?.extract()?) } else { None };
        let size = match (size, start) {
            (Some(size), _) => size,
            (None, Some(start)) => {
                let end: u64 = file.call_method1("seek", (0, 2))?.extract()?;
                file.call_method1("seek", (start,))?;
                end.saturating_sub(start)
            }
            (None, None) => {
                let text = "a file that cannot seek does not say how many bytes it has: give the size";
                return Err(raised("UsageError", text.into()));
            }
        };
        let file = file.clone().unbind();
        let source = File { file, start, was_read: AtomicBool::new(false), failure: Mutex::new(None) };
        Ok((Self(Arc::new(source)), size))
    }

    /// Reads it from where it stood.
    ///
    /// # Errors
    /// It was read before, since the transaction has to begin anew, and cannot go back.
    pub fn reader(&self) -> io::Result<impl io::Read + '_> {
        if self.0.was_read.swap(true, Ordering::Relaxed) {
            let Some(start) = self.0.start else {
                return Err(io::Error::other(
                    "the transaction became a large one and has to begin anew, which a file that cannot seek does not allow",
                ));
            };
            self.ask(|file| file.call_method1("seek", (start,)).map(drop))?;
        }
        Ok(Reader(self))
    }

    /// The exception that the file has raised.
    pub fn failure(&self) -> Option<PyErr> {
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn ask<T>(&self, question: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        let before = READS.replace(true);
        let answer = Python::attach(|py| question(self.0.file.bind(py)));
        READS.set(before);
        answer.map_err(|error| {
            let text = error.to_string();
            *self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            io::Error::other(text)
        })
    }
}

struct Reader<'s>(&'s Source);

impl io::Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.ask(|file| {
            let read = file.call_method1("read", (into.len(),))?;
            let bytes = read.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
            let bytes = &bytes[..bytes.len().min(into.len())];
            into[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        })
    }
}
