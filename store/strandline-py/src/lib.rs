//! Strandline for Python: the extension module of the package `strandline`.
//!
//! The functions of the laboratory take the command's flags as a list, and return its JSON. The command parses the flags, so that every parameter is
//! described once. The Python side gives them keywords, and converts the results to dictionaries and frames.

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
