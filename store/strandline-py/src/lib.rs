//! Strandline for Python: what the package `strandline` stands on.
//!
//! The laboratory's functions take the command's flags, as a list, and return its JSON: the command parses them, and there is one
//! description of every parameter. The Python side gives them keywords, and makes dictionaries and frames of what comes back.

mod database;
mod errors;
mod kinds;
mod laboratory;
mod patience;
mod rows;
mod snapshot;
mod streams;
mod sweep;
mod table;
mod tables;
mod transaction;
mod turns;
mod workers;

use pyo3::prelude::*;

/// Strandline's extension module; use the package `strandline`.
#[pymodule]
fn _strandline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    laboratory::add(module)?;
    sweep::add(module)?;
    database::add(module)
}
