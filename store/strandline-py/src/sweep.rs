//! Runs the points of a sweep, one at a time, and stores their results.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use strandline_lab::sweep::{Plan, Point, Shard, Shelf, run_one};
use strandline_lab_cli::Registry;

use crate::errors::{failed, raised};
use crate::laboratory::find_itself;
use crate::patience::run;

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(points, module)?)?;
    module.add_function(wrap_pyfunction!(run_point, module)?)?;
    module.add_class::<Store>()
}

fn usage(text: String) -> PyErr {
    raised("UsageError", text)
}

/// Returns the points that these flags of `simulate` select, each as JSON.
#[pyfunction]
fn points(flags: Vec<String>) -> PyResult<Vec<String>> {
    let points = strandline_lab_cli::points(&flags, Registry::default()).map_err(failed)?;
    Ok(points.iter().map(|point| point.to_json().to_string()).collect())
}

fn point(text: &str) -> PyResult<Point> {
    let value = serde_json::from_str(text).map_err(|error| usage(format!("this is not a point: {error}")))?;
    Point::from_json(&value, &Registry::default()).map_err(usage)
}

/// Runs a point, and returns its result as a line of `points.jsonl`.
#[pyfunction]
fn run_point(py: Python<'_>, text: &str) -> PyResult<String> {
    /// Filled pools, for later points.
    static SHELF: Shelf = Shelf::new();
    find_itself(py)?;
    let (point, program) = (point(text)?, strandline_lab_cli::program().map_err(failed)?);
    let found = run(py, move |stop| run_one(&point, &SHELF, stop).map(|row| point.line(&program, &row)))?;
    found.map_err(|why| raised("PointError", why))
}

/// A sweep's folder: its plan, and the results of its points.
#[pyclass(frozen)]
struct Store {
    folder: PathBuf,
    plan: Plan,
    /// The points of this shard, as indices in the plan.
    own: Vec<usize>,
    /// `None` after the folder was released.
    store: Mutex<Option<strandline_lab::sweep::Store>>,
}

impl Store {
    fn with<T>(&self, body: impl FnOnce(&mut strandline_lab::sweep::Store) -> PyResult<T>) -> PyResult<T> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        body(store.as_mut().ok_or_else(|| usage("the sweep's folder is closed".into()))?)
    }
}

#[pymethods]
impl Store {
    /// Opens a folder for these points, or for one shard of them.
    #[new]
    #[pyo3(signature = (folder, texts, shard = None))]
    fn new(py: Python<'_>, folder: PathBuf, texts: Vec<String>, shard: Option<&str>) -> PyResult<Self> {
        find_itself(py)?;
        let shard: Option<Shard> = shard.map(str::parse).transpose().map_err(usage)?;
        let points = texts.iter().map(|text| point(text)).collect::<PyResult<Vec<_>>>()?;
        let plan = Plan { program: strandline_lab_cli::program().map_err(failed)?, points };
        std::fs::create_dir_all(&folder).map_err(|error| unwritten(&folder, &error))?;
        let store = plan.store(&folder).map_err(|error| unwritten(&folder, &error))?;
        plan.write(&folder).map_err(|error| unwritten(&folder, &error))?;
        let own =
            (0..plan.points.len()).filter(|&index| shard.is_none_or(|shard| shard.has(index))).collect();
        Ok(Self { folder, plan, own, store: Mutex::new(Some(store)) })
    }

    /// Returns the points that have not been run. Points with the same pool follow one another.
    fn missing(&self) -> PyResult<Vec<usize>> {
        let points = &self.plan.points;
        let own = self.own.iter().copied();
        let mut missing: Vec<_> =
            self.with(|store| Ok(own.filter(|&index| store.find(&points[index]).is_none()).collect()))?;
        missing.sort_by_key(|&index| points[index].order_by_pool());
        Ok(missing)
    }

    /// Adds the result of the point with this index in the plan.
    fn add(&self, index: usize, line: &str) -> PyResult<()> {
        let point = self.plan.points.get(index).ok_or_else(|| PyIndexError::new_err(index))?;
        let failed = |error| unwritten(&self.folder, &error);
        match self.with(|store| store.add_line(point, line).map_err(failed))? {
            true => Ok(()),
            false => Err(usage(
                "a worker has another build of Strandline: install the same wheel wherever points are run"
                    .into(),
            )),
        }
    }

    /// Sorts the lines, writes table and plots, and returns the results.
    fn finish(&self, command: &str) -> PyResult<String> {
        let points: Vec<_> = self.own.iter().map(|&index| self.plan.points[index].clone()).collect();
        self.with(|store| {
            let found = strandline_lab_cli::finish_sweep(&points, store, &self.folder, command);
            found.map(|found| found.to_string()).map_err(failed)
        })
    }

    /// Releases the folder.
    fn close(&self) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn __len__(&self) -> usize {
        self.own.len()
    }
}

fn unwritten(folder: &Path, error: &std::io::Error) -> PyErr {
    raised("Error", format!("cannot write the results of the sweep to {}: {error}", folder.display()))
}
