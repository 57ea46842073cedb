//! Exceptions: those of `strandline._errors`, with the command's messages.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use strandline::{Error, ErrorKind};
use strandline_lab_cli::Failure;

/// An exception of this class.
pub fn raised(class: &'static str, message: String) -> PyErr {
    Python::attach(|py| {
        let module = py.import("strandline._errors").and_then(|module| module.getattr(class));
        match module.and_then(|class| class.call1((message.clone(),))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// What the command could not do: as its exit codes say, wrong usage, damage, or something else.
pub fn failed(failure: Failure) -> PyErr {
    let class = match failure.exit_code() {
        1 => "DamagedError",
        2 => "UsageError",
        _ => "Error",
    };
    raised(class, failure.to_string())
}

/// What the database could not do.
pub fn of_database(error: Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Parameter => "UsageError",
        _ => "DatabaseError",
    };
    raised(class, format!("{error:#}"))
}
