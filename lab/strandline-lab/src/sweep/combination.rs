//! Runs that differ only in their seeds, and their combined results.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Point, QUANTITIES, Row, Swept, Work};
use crate::measurements::Spread;

/// Points of a sweep that differ only in their seeds.
#[derive(Debug)]
pub struct Combination<'a> {
    /// The first of them.
    pub first: &'a Point,
    /// The number of points, with different seeds.
    pub points: usize,
    /// The seeds of the points that have run.
    pub seeds: Vec<u64>,
    /// The results of these points.
    pub rows: Vec<&'a Row>,
}

/// Returns the combinations of a sweep, in the order of their first points.
pub fn combinations<'a>(points: &'a [Point], swept: &'a Swept) -> Vec<Combination<'a>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<Combination<'a>> = Vec::new();
    for (point, row) in points.iter().zip(&swept.rows) {
        let mut identity = point.to_json();
        identity["run"]["seed"] = Value::Null;
        let place = *places.entry(identity.to_string()).or_insert_with(|| {
            all.push(Combination { first: point, points: 0, seeds: Vec::new(), rows: Vec::new() });
            all.len() - 1
        });
        let combination = &mut all[place];
        combination.points += 1;
        if let Some(row) = row {
            if let Work::Workload(workload) = &point.work {
                combination.seeds.push(workload.run.seed);
            }
            combination.rows.push(row);
        }
    }
    all
}

impl Combination<'_> {
    /// Returns one of [`QUANTITIES`]: the median, the lowest and the highest of the runs; `None` if no run has it.
    pub fn spread(&self, quantity: &str) -> Option<Spread> {
        let values: Vec<f64> = self.rows.iter().filter_map(|row| row.quantity(quantity)).collect();
        Spread::whole(&values)
    }

    /// Returns the quantities for which runs were too short, each once.
    pub fn too_short(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for note in self.rows.iter().flat_map(|row| &row.too_short) {
            if !all.contains(&note.as_str()) {
                all.push(note);
            }
        }
        all
    }

    /// Returns what runs, the seeds, and for each quantity the median, the lowest and the highest.
    pub fn to_json(&self) -> Value {
        let of = |which: fn(Spread) -> f64| -> serde_json::Map<String, Value> {
            let all = QUANTITIES.iter().filter_map(|&name| Some((name, which(self.spread(name)?))));
            all.map(|(name, value)| (name.to_owned(), json!(value))).collect()
        };
        let keys = self.first.keys.iter().map(|(key, value)| (key.clone(), json!(value)));
        json!({
            "work": self.first.work.name(),
            "system": self.first.system(),
            "keys": keys.collect::<serde_json::Map<_, _>>(),
            "seeds": self.seeds,
            "median": of(|spread| spread.median),
            "low": of(|spread| spread.low),
            "high": of(|spread| spread.high),
        })
    }
}
