//! `--series`: what was measured for a figure, as a table instead of verdicts.

use std::path::Path;

use comfy_table::{Table, presets};
use strandline_command::Failure;
use strandline_lab::{Key, Measurements, readable};

/// A quantity of a figure, by their names in `results.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The figure's id.
    pub figure: String,
    quantity: String,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    /// `FIGURE:QUANTITY`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (figure, quantity) = text.split_once(':').ok_or("expected FIGURE:QUANTITY")?;
        Ok(Self { figure: figure.into(), quantity: quantity.into() })
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.figure, self.quantity)
    }
}

/// Reads the measurements of `paper` from the `results.json` of an earlier run.
///
/// # Errors
/// The file cannot be read, or has nothing of the paper.
pub fn read(file: &Path, paper: &str) -> Result<Measurements, Failure> {
    let text = std::fs::read_to_string(file).map_err(Failure::io(format!("read {}", file.display())))?;
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", file.display()));
    let results: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("it is no results.json: {error}")))?;
    let of_paper = results["papers"].as_array().into_iter().flatten().find(|of| of["paper"] == paper);
    let of_paper = of_paper.ok_or_else(|| wrong(format!("it has nothing of {paper}")))?;
    serde_json::from_value(of_paper["series"].clone())
        .map_err(|error| wrong(format!("its series cannot be read: {error}")))
}

/// A table of medians: where a figure varies a parameter, a row for each system and setting and a column for each of its values, else a
/// row for each system and a column for each setting; with means over the settings. With `over`, each number is divided by this system's.
///
/// # Errors
/// There is no such quantity, or no such system.
pub fn table(all: &Measurements, wanted: &Wanted, over: Option<&str>) -> Result<Table, Failure> {
    let Wanted { figure, quantity } = wanted;
    let series: Vec<_> = all.of(figure).map(|series| series.key()).collect();
    let names = |of: fn(&Key<'_>) -> String| {
        let mut names: Vec<String> = Vec::new();
        for name in series.iter().map(of).filter(|name| !name.is_empty()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let of_quantity: Vec<_> = series.iter().filter(|key| key.quantity == quantity).copied().collect();
    if of_quantity.is_empty() {
        let known = names(|key| key.quantity.to_owned()).join(", ");
        return Err(Failure::Usage(format!("{figure} has no quantity {quantity:?}; choose from {known}")));
    }
    let systems = names(|key| key.system.to_owned());
    if let Some(over) = over.filter(|over| !systems.iter().any(|system| system == over)) {
        let known = systems.join(", ");
        return Err(Failure::Usage(format!("{figure} has no system {over:?}; choose from {known}")));
    }
    let number = |key: Key<'_>, x: &str| {
        let own = all.median(key, x)?;
        let Some(over) = over else { return Some(own) };
        Some(own / all.median(Key { system: over, ..key }, x)?)
    };
    let settings = names(|key| key.setting.to_owned());
    let own_xs = |key: &Key<'_>| {
        all.of(figure)
            .find(|series| series.key() == *key)
            .map(|series| series.xs().map(str::to_owned).collect::<Vec<_>>())
    };
    let mut xs: Vec<String> = Vec::new();
    for x in of_quantity.iter().filter_map(own_xs).flatten() {
        if !xs.contains(&x) {
            xs.push(x);
        }
    }
    let of_system = systems.iter().filter(|system| of_quantity.iter().any(|key| key.system == *system));
    let mut rows: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    let header = if let [x] = &xs[..] {
        for system in of_system {
            let of = |setting: &String| number(Key { figure, setting, system, quantity }, x);
            let mut numbers: Vec<_> = settings.iter().map(of).collect();
            numbers.extend((settings.len() > 1).then(|| mean(&numbers)));
            rows.push((system.clone(), numbers));
        }
        settings.iter().cloned().chain((settings.len() > 1).then(|| "mean".into())).collect()
    } else {
        for system in of_system {
            let mut of_settings = Vec::new();
            for setting in &settings {
                let of = |x: &String| number(Key { figure, setting, system, quantity }, x);
                let numbers: Vec<_> = xs.iter().map(of).collect();
                if numbers.iter().any(Option::is_some) {
                    of_settings.push((format!("{system}, {setting}"), numbers));
                }
            }
            if of_settings.len() > 1 {
                let at =
                    |x: usize| mean(&of_settings.iter().map(|(_, numbers)| numbers[x]).collect::<Vec<_>>());
                let means: Vec<_> = (0..xs.len()).map(at).collect();
                if means.iter().any(Option::is_some) {
                    of_settings.push((format!("{system}, mean"), means));
                }
            }
            rows.extend(of_settings);
        }
        xs
    };
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([wanted.quantity.clone()].into_iter().chain(header));
    for (name, numbers) in rows {
        let numbers = numbers.into_iter().map(|number| number.map_or("–".into(), readable));
        table.add_row([name].into_iter().chain(numbers));
    }
    Ok(table)
}

fn mean(numbers: &[Option<f64>]) -> Option<f64> {
    let known: Option<Vec<f64>> = numbers.iter().copied().collect();
    known.filter(|known| !known.is_empty()).map(|known| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline_lab::Spread;

    fn measured(points: &[(&str, &str, &str, f64)]) -> Measurements {
        let mut all = Measurements::default();
        for &(setting, system, x, value) in points {
            let key = Key { figure: "f", setting, system, quantity: "tx/s" };
            all.add(key, x, Spread::exactly(value));
        }
        all
    }

    fn text(all: &Measurements, over: Option<&str>) -> Result<Vec<Vec<String>>, String> {
        let table = table(all, &"f:tx/s".parse().unwrap(), over).map_err(|error| error.to_string())?;
        let row = |row: &comfy_table::Row| row.cell_iter().map(comfy_table::Cell::content).collect();
        Ok(table.row_iter().map(row).collect())
    }

    #[test]
    fn systems_are_rows_and_settings_columns_or_parameters() {
        let all = measured(&[
            ("hash", "BASE", "any", 2.0),
            ("hash", "ATOM", "any", 3.0),
            ("sps", "BASE", "any", 4.0),
            ("sps", "ATOM", "any", 10.0),
        ]);
        assert_eq!(text(&all, Some("BASE")).unwrap(), [["BASE", "1", "1", "1"], ["ATOM", "1.5", "2.5", "2"]]);
        let all =
            measured(&[("hash", "ATOM", "1", 3.0), ("hash", "ATOM", "2", 5.0), ("sps", "ATOM", "2", 7.0)]);
        assert_eq!(
            text(&all, None).unwrap(),
            [["ATOM, hash", "3", "5"], ["ATOM, sps", "–", "7"], ["ATOM, mean", "–", "6"]]
        );
    }

    #[test]
    fn what_was_not_measured_is_refused() {
        let all = measured(&[("hash", "ATOM", "1", 3.0)]);
        assert!(text(&all, Some("REDO")).unwrap_err().contains("choose from ATOM"));
        let wanted = "f:cycles".parse().unwrap();
        let error = table(&all, &wanted, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("choose from tx/s"), "{error}");
    }
}
