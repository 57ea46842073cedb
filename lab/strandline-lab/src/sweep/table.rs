//! The results of a sweep as a table.

use serde_json::{Value, json};

use super::{Combination, Point, QUANTITIES, Row, Swept, combinations};

/// Returns a run as named cells: what was run, the swept keys, the quantities that it has, and those for which it was too short.
pub fn cells(keys: &[(String, String)], row: &Row) -> Vec<(String, Value)> {
    let mut cells = names(keys, row);
    let quantities =
        QUANTITIES.iter().filter_map(|&name| Some((name.to_owned(), json!(row.quantity(name)?))));
    cells.extend(quantities);
    cells.push(("too_short".to_owned(), json!(row.too_short.join("; "))));
    cells
}

/// Returns what was run, and the swept keys.
fn names(keys: &[(String, String)], row: &Row) -> Vec<(String, Value)> {
    let of = |name: &str| row.result[name].clone();
    let is_trace = row.result.get("trace").is_some();
    let mut cells = vec![
        ("workload".to_owned(), of(if is_trace { "trace" } else { "workload" })),
        ("scheme".to_owned(), of("scheme")),
        ("hardware".to_owned(), of("hardware")),
        ("machine".to_owned(), row.result["machine"]["name"].clone()),
        ("threads".to_owned(), of("threads")),
    ];
    if is_trace {
        cells.retain(|(name, _)| !["scheme", "threads"].contains(&name.as_str()));
    }
    let is_new = |key: &str| !["workload", "scheme", "hardware", "machine", "threads"].contains(&key);
    let swept = keys.iter().filter(|(key, _)| is_new(key));
    cells.extend(swept.map(|(key, value)| (key.clone(), json!(value))));
    cells
}

/// Returns the table as comma-separated values: a line of names, then a line for each combination that has run. With several seeds it also has the
/// number of seeds, and for each quantity the median, the lowest and the highest.
pub fn csv(points: &[Point], swept: &Swept) -> String {
    let all = combinations(points, swept);
    let found: Vec<&Combination<'_>> = all.iter().filter(|one| !one.rows.is_empty()).collect();
    let has_spread = all.iter().any(|one| one.points > 1);
    let has = |quantity: &str| found.iter().any(|one| one.spread(quantity).is_some());
    let quantities: Vec<&str> = QUANTITIES.into_iter().filter(|quantity| has(quantity)).collect();
    let mut lines = Vec::new();
    for one in found {
        let mut cells = names(&one.first.keys, one.rows[0]);
        if has_spread {
            cells.push(("seeds".into(), json!(one.rows.len())));
        }
        for quantity in &quantities {
            let spread = one.spread(quantity);
            cells.push(((*quantity).to_owned(), json!(spread.map(|spread| spread.median))));
            if has_spread {
                cells.push((format!("{quantity}_low"), json!(spread.map(|spread| spread.low))));
                cells.push((format!("{quantity}_high"), json!(spread.map(|spread| spread.high))));
            }
        }
        cells.push(("too_short".into(), json!(one.too_short().join("; "))));
        let (names, values): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
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
        (Value::Null, _) => String::new(),
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
