//! The plan of a sweep, a file beside its results; and how the parts of several machines are merged.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use strandline_sim::Registry;

use super::store::{Known, line};
use super::work::{Work, lacks};
use super::{Point, Row, Store, Swept};
use crate::ledger::{common_plan, failed};

/// The version of the file's format.
const SCHEMA: u32 = 1;
/// Its name.
const FILE: &str = "sweep.json";
/// The name of the file of results.
const POINTS: &str = "points.jsonl";

impl Point {
    /// Returns everything that [`Point::from_json`] needs. Sizes that `simulate` cannot set are left out.
    pub fn to_json(&self) -> Value {
        json!({ "keys": self.keys, "run": self.identity(), "machine": self.machine })
    }

    /// Reads the result of [`Point::to_json`].
    ///
    /// # Errors
    /// Returns an error if the value is not a point, or names something that the registry does not have.
    pub fn from_json(value: &Value, registry: &Registry) -> Result<Self, String> {
        let run = &value["run"];
        let hardware = run["hardware"].as_str().ok_or_else(|| lacks("hardware"))?;
        Ok(Self {
            keys: serde_json::from_value(value["keys"].clone()).map_err(|_| lacks("keys"))?,
            work: Work::from_json(run, registry)?,
            hardware: registry.hardware.of_name(hardware).map_err(|unknown| unknown.to_string())?,
            machine: serde_json::from_value(value["machine"].clone())
                .map_err(|error| format!("a point's machine: {error}"))?,
        })
    }

    /// Returns the result of its run as a line of `points.jsonl`, written by the build `program`.
    pub fn line(&self, program: &str, row: &Row) -> String {
        line(program, self, row).to_string()
    }
}

/// The complete work of a sweep, including its shards.
pub struct Plan {
    /// The build of the program that runs it.
    pub program: String,
    /// Every point, in order.
    pub points: Vec<Point>,
}

impl Plan {
    fn to_json(&self) -> Value {
        let points: Vec<_> = self.points.iter().map(Point::to_json).collect();
        json!({ "schema": SCHEMA, "program": self.program, "points": points })
    }

    /// Writes the plan into a sweep's folder.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(FILE), format!("{}\n", self.to_json()))
    }

    /// Opens the file of this sweep's results in its folder.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn store(&self, folder: &Path) -> io::Result<Store> {
        Store::open(&folder.join(POINTS), &self.program)
    }
}

/// Merged shards.
pub struct Merged {
    /// The sweep.
    pub plan: Plan,
    /// The known results.
    pub swept: Swept,
}

/// Merges the results of a sweep's shards into the folder `out`. Once no point is missing, the files are byte for byte those of a single run.
///
/// # Errors
/// Returns an error if a folder has no sweep or another one, if the sweep names something that the registry does not have, or if a file cannot be
/// read or written.
pub fn merge(out: &Path, folders: &[PathBuf], registry: &Registry) -> Result<Merged, String> {
    let plan = common_plan(folders, FILE, SCHEMA)?;
    let program = plan["program"].as_str().unwrap_or_default().to_owned();
    let points = plan["points"].as_array().into_iter().flatten();
    let points = points.map(|point| Point::from_json(point, registry)).collect::<Result<_, _>>()?;
    let plan = Plan { program, points };
    let known = folders.iter().map(|folder| {
        let path = folder.join(POINTS);
        Known::read(&path, &plan.program)
    });
    let known = known.collect::<Result<Vec<_>, _>>()?;
    std::fs::create_dir_all(out).map_err(failed("create", out))?;
    plan.write(out).map_err(failed("write", &out.join(FILE)))?;
    let written = failed("write", &out.join(POINTS));
    let swept = add_all(&plan, &known, out).map_err(written)?;
    Ok(Merged { plan, swept })
}

fn add_all(plan: &Plan, known: &[Known], out: &Path) -> io::Result<Swept> {
    let mut store = plan.store(out)?;
    let mut rows = Vec::new();
    for point in &plan.points {
        let there = store.find(point);
        let found = known.iter().find_map(|known| known.find(point));
        if let (None, Some(row)) = (&there, &found) {
            store.add(point, row)?;
        }
        rows.push(there.or(found));
    }
    store.arrange(&plan.points)?;
    let known = rows.iter().flatten().count();
    Ok(Swept { rows, failed: Vec::new(), known, effort: None })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use indicatif::ProgressBar;
    use strandline_sim::file;
    use strandline_sim::run::PoolSizes;
    use strandline_workloads::Sizes;

    use super::super::tests::{points, workload};
    use super::*;
    use crate::ledger::Shard;
    use crate::sweep::{Shelf, run, run_one};

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// A point survives the conversion to text and back, with every machine.
    #[test]
    fn a_point_is_made_again_from_its_text() {
        let registry = Registry::default();
        for machine in file::presets().unwrap() {
            let mut point = points(&[100]).remove(0);
            point.machine = machine;
            let run = workload(&mut point);
            (run.sizes, run.pool) = (Sizes::default(), PoolSizes::default());
            let text = point.to_json().to_string();
            let again = Point::from_json(&serde_json::from_str(&text).unwrap(), &registry).unwrap();
            assert_eq!(format!("{again:?}"), format!("{point:?}"));
        }
        let refused = Point::from_json(&json!({"keys": [], "run": {}}), &registry).unwrap_err();
        assert!(refused.contains("another version"), "{refused}");
    }

    /// Merged shards have the same bytes as a single run; missing points are reported as missing.
    #[test]
    fn shards_make_the_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::default();
        let mut points = points(&[100, 200, 400]);
        for point in &mut points {
            let run = workload(point);
            (run.sizes, run.kind) = (Sizes::default(), registry.workloads.of_name("queue").unwrap());
            (run.pool, run.run.transactions) = (PoolSizes::default(), 20);
        }
        let plan = Plan { program: "this".into(), points };
        let one = folder.path().join("one");
        std::fs::create_dir(&one).unwrap();
        let store = Mutex::new(plan.store(&one).unwrap());
        run(&plan.points, &store, &NEVER, &ProgressBar::hidden()).unwrap();
        drop(store);
        let text = |folder: &Path| std::fs::read_to_string(folder.join(POINTS)).unwrap();
        let whole = text(&one);
        assert_eq!(whole.lines().count(), 3);

        let shelf = Shelf::new();
        let folders = ["1/2", "2/2"].map(|name| {
            let path = folder.path().join(name.replace('/', "-"));
            std::fs::create_dir(&path).unwrap();
            plan.write(&path).unwrap();
            let (shard, mut store) = (name.parse::<Shard>().unwrap(), plan.store(&path).unwrap());
            for (index, point) in plan.points.iter().enumerate().rev().filter(|(index, _)| shard.has(*index))
            {
                let row = run_one(point, &shelf, &NEVER).unwrap();
                assert_eq!(point.line("this", &row), whole.lines().nth(index).unwrap());
                store.add(point, &row).unwrap();
            }
            path
        });
        let out = folder.path().join("out");
        let part = merge(&out, &folders[..1], &registry).unwrap();
        assert_eq!(part.swept.rows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(merge(&out, &folders, &registry).unwrap().swept.known, 3);
        assert_eq!(text(&out), whole);
        assert_eq!(
            merge(&out, &[], &registry).err().unwrap(),
            "there is nothing to merge: name the shards' folders"
        );

        let less = Plan { program: "this".into(), points: plan.points[..1].to_vec() };
        less.write(&folders[0]).unwrap();
        assert!(merge(&out, &folders, &registry).err().unwrap().contains("different: the same command"));
        Plan { program: "another".into(), points: plan.points.clone() }.write(&folders[0]).unwrap();
        assert!(merge(&out, &folders, &registry).err().unwrap().contains("different builds"));
        assert!(merge(&out, &[one], &registry).err().unwrap().contains("sweep.json"));
    }
}
