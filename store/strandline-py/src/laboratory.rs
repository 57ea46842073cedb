//! `simulate`, `check`, `litmus`, `list`, and the commands themselves.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitCode, Termination};
use std::sync::Once;

use pyo3::prelude::*;
use strandline_lab_cli::Registry;

use crate::errors::failed;
use crate::patience::{run, stop_all};

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(answer, module)?)?;
    module.add_function(wrap_pyfunction!(explore, module)?)?;
    module.add_function(wrap_pyfunction!(parameters, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(stop, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)
}

/// Returns the text of the object that the command prints with these flags and `--json`.
#[pyfunction]
fn answer(py: Python<'_>, flags: Vec<String>) -> PyResult<String> {
    find_itself(py)?;
    let found = run(py, move |stop| strandline_lab_cli::answer(&flags, Registry::default(), stop))?;
    found.map(|found| found.to_string()).map_err(failed)
}

/// Like `answer`, for the crash checker.
#[pyfunction]
fn explore(py: Python<'_>, flags: Vec<String>) -> PyResult<String> {
    find_itself(py)?;
    let found = run(py, move |stop| match flags.first().is_some_and(|name| name == "litmus") {
        true => strandline_check_cli::answer(&flags),
        false => strandline_lab_cli::answer(&flags, Registry::default(), stop),
    })?;
    found.map(|found| found.to_string()).map_err(failed)
}

/// Returns the flags of a subcommand as JSON: names, help texts, defaults.
#[pyfunction]
fn parameters(subcommand: &str) -> PyResult<String> {
    strandline_lab_cli::parameters(subcommand).map(|found| found.to_string()).map_err(failed)
}

/// Tells the library the path of its own file.
pub fn find_itself(py: Python<'_>) -> PyResult<()> {
    static FOUND: Once = Once::new();
    let file: PathBuf = py.import("strandline._strandline")?.getattr("__file__")?.extract()?;
    FOUND.call_once(|| strandline_lab_cli::is_in(file));
    Ok(())
}

/// Returns a text that distinguishes this build from others.
#[pyfunction]
fn program(py: Python<'_>) -> PyResult<String> {
    find_itself(py)?;
    strandline_lab_cli::program().map_err(failed)
}

/// Ends all running simulations and checks of this process.
#[pyfunction]
fn stop() {
    stop_all();
}

/// Runs the command that the first of the program's arguments names, with the other arguments, and returns its exit code. It handles Ctrl-C itself.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    find_itself(py)?;
    let name = arguments.first().cloned().unwrap_or_default();
    let code = py.detach(|| match name.to_str() {
        Some("strandline-lab") => strandline_lab_cli::run_with(arguments, Registry::default()),
        Some("strandline-check") => strandline_check_cli::run_with(arguments),
        _ => strandline_cli::run_with(arguments),
    });
    let mut same = (0..=u8::MAX).filter(|&number| ExitCode::from(number).report() == code);
    Ok(same.next().unwrap_or(3))
}
