//! What a sweep has found as a table.

use serde_json::{Value, json};

use super::{Point, QUANTITIES, Row, Swept};

/// A row as named cells: what was run, the keys that were swept, the quantities, and what the run was too short for.
pub fn cells(keys: &[(String, String)], row: &Row) -> Vec<(String, Value)> {
    let of = |name: &str| row.result[name].clone();
    let mut cells = vec![
        ("workload".to_owned(), of("workload")),
        ("scheme".to_owned(), of("scheme")),
        ("hardware".to_owned(), of("hardware")),
        ("machine".to_owned(), row.result["machine"]["name"].clone()),
        ("threads".to_owned(), of("threads")),
    ];
    let is_new = |key: &str| !["workload", "scheme", "hardware", "machine", "threads"].contains(&key);
    let swept = keys.iter().filter(|(key, _)| is_new(key));
    cells.extend(swept.map(|(key, value)| (key.clone(), json!(value))));
    cells.extend(QUANTITIES.map(|name| (name.to_owned(), json!(row.quantity(name)))));
    cells.push(("too_short".to_owned(), json!(row.too_short.join("; "))));
    cells
}

/// The rows as comma-separated values: a line of names, then a line for each point that was run.
pub fn csv(points: &[Point], swept: &Swept) -> String {
    let mut lines = Vec::new();
    for (point, row) in points.iter().zip(&swept.rows) {
        let Some(row) = row else { continue };
        let (names, values): (Vec<_>, Vec<_>) = cells(&point.keys, row).into_iter().unzip();
        if lines.is_empty() {
            lines.push(line(names.into_iter()));
        }
        lines.push(line(values.iter().map(text)));
    }
    lines.concat()
}

fn text(value: &Value) -> String {
    match (value, value.as_f64()) {
        (_, Some(number)) => number.to_string(),
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let cells = ["a", "b,c", "say \"x\""].map(str::to_owned);
        assert_eq!(line(cells.into_iter()), "a,\"b,c\",\"say \"\"x\"\"\"\n");
    }
}
