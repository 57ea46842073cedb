//! Values that are read piece by piece from Python files.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read, Seek, Write};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::database::usage;
use crate::errors::raised;

thread_local! {
    /// True while this thread reads a file for an operation of the database.
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Fails on a thread that reads a file for an operation. A call that waits for that operation would wait for ever.
///
/// # Errors
/// Returns a `UsageError`.
pub fn demand_no_source() -> PyResult<()> {
    match READS.get() {
        true => Err(usage(
            "a file whose bytes are being stored cannot use the database, except an existing snapshot",
        )),
        false => Ok(()),
    }
}

/// The source of a value's bytes. If the transaction runs again, the operation reads the bytes again from the beginning.
#[derive(Clone)]
pub struct Source(Arc<Kind>);

enum Kind {
    /// The file itself, for an operation that ends before the call returns.
    File(PythonFile),
    /// A copy of the bytes on disk. When the transaction runs again, the program may have closed the file or read on.
    Copied(Mutex<std::fs::File>),
}

/// A Python file that can seek.
struct PythonFile {
    file: Py<PyAny>,
    /// The position of the first byte.
    start: u64,
    /// The exception that the file has raised.
    failure: Mutex<Option<PyErr>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// Number of bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

impl Source {
    /// Returns the source of the bytes of `file` from its present position on, and their number, which is `size`, or all. The bytes are copied to a
    /// temporary file if they may be needed again and could not be read again: if the file cannot seek, or if the source `outlives` the call.
    ///
    /// # Errors
    /// Returns the exceptions that the file raises, and a `UsageError` if the number of bytes is unknown.
    pub fn new(file: &Bound<'_, PyAny>, size: Option<u64>, outlives: bool) -> PyResult<(Self, u64)> {
        let can_seek = file.call_method0("seekable").and_then(|can| can.extract()).unwrap_or(false);
        let start: Option<u64> = if can_seek { Some(file.call_method0("tell")?.extract()?) } else { None };
        let size = match (size, start) {
            (Some(size), _) => size,
            (None, Some(start)) => {
                let end: u64 = file.call_method1("seek", (0, 2))?.extract()?;
                file.call_method1("seek", (start,))?;
                end.saturating_sub(start)
            }
            (None, None) => {
                return Err(usage(
                    "a file that cannot seek does not say how many bytes it has: give the size",
                ));
            }
        };
        let kind = match start {
            Some(start) if !outlives => {
                Kind::File(PythonFile { file: file.clone().unbind(), start, failure: Mutex::new(None) })
            }
            _ => Kind::Copied(Mutex::new(copied(file, size)?)),
        };
        Ok((Self(Arc::new(kind)), size))
    }

    /// Calls `body` with a reader of the bytes, from the first on.
    ///
    /// # Errors
    /// Returns the errors of `body`, and an error if the bytes cannot be read again.
    pub fn read<R>(
        &self,
        body: impl FnOnce(&mut dyn Read) -> strandline::Result<R>,
    ) -> strandline::Result<R> {
        let failed = |error| strandline::Error::io("read the value that is to be stored", error);
        match &*self.0 {
            Kind::File(file) => {
                file.ask(|inner| inner.call_method1("seek", (file.start,)).map(drop)).map_err(failed)?;
                body(&mut &*file)
            }
            Kind::Copied(copy) => {
                let mut copy = copy.lock().unwrap_or_else(PoisonError::into_inner);
                copy.rewind().map_err(failed)?;
                body(&mut *copy)
            }
        }
    }

    /// Returns the exception that the file has raised.
    pub fn failure(&self) -> Option<PyErr> {
        match &*self.0 {
            Kind::File(file) => file.failure.lock().unwrap_or_else(PoisonError::into_inner).take(),
            Kind::Copied(_) => None,
        }
    }
}

impl PythonFile {
    fn ask<T>(&self, question: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        let before = READS.replace(true);
        let answer = Python::attach(|py| question(self.file.bind(py)));
        READS.set(before);
        answer.map_err(|error| {
            let text = error.to_string();
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            io::Error::other(text)
        })
    }
}

impl Read for &PythonFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.ask(|file| {
            read_piece(file, into.len() as u64, |bytes| {
                into[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            })
        })
    }
}

/// Calls `body` with the next bytes of the file, at most `most`, and returns its result.
fn read_piece<R>(file: &Bound<'_, PyAny>, most: u64, body: impl FnOnce(&[u8]) -> PyResult<R>) -> PyResult<R> {
    let read = file.call_method1("read", (most,))?;
    let bytes = read.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
    body(&bytes[..bytes.len().min(most as usize)])
}

/// Returns a copy of the next `size` bytes of the file. The copy has no name, and is deleted when it is closed.
fn copied(file: &Bound<'_, PyAny>, size: u64) -> PyResult<std::fs::File> {
    let mut copy = tempfile::tempfile()?;
    let mut rest = size;
    while rest > 0 {
        let bytes =
            read_piece(file, rest.min(PIECE), |bytes| Ok(copy.write_all(bytes).map(|()| bytes.len())?))?;
        if bytes == 0 {
            let text = format!(
                "cannot read the value that is to be stored: the file has {} bytes, and not {size}",
                size - rest
            );
            return Err(raised("DatabaseError", text));
        }
        rest -= bytes as u64;
    }
    Ok(copy)
}
