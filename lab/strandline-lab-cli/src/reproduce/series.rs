//! `--series`: prints the measurements of a figure as a table instead of verdicts.

use std::path::Path;

use comfy_table::{Table, presets};
use strandline_command::Failure;
use strandline_lab::{Key, Measurements, readable};

/// A figure and a quantity, by their names in `results.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The figure's id.
    pub figure: String,
    quantity: String,
    /// If present, only settings whose names contain this part are included.
    setting: Option<String>,
}

impl Wanted {
    /// Returns the rest of a setting's name if the setting is included.
    fn rest_of(&self, setting: &str) -> Option<String> {
        let Some(wanted) = &self.setting else { return Some(setting.to_owned()) };
        let (own, others): (Vec<_>, Vec<_>) = setting.split(", ").partition(|part| part == wanted);
        (!own.is_empty()).then(|| others.join(", "))
    }
}

impl std::str::FromStr for Wanted {
    type Err = String;

    /// Parses `FIGURE:QUANTITY` or `FIGURE:QUANTITY:SETTING`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let (Some(figure), Some(quantity), setting, None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err("expected FIGURE:QUANTITY or FIGURE:QUANTITY:SETTING".into());
        };
        let setting = setting.map(str::to_owned);
        Ok(Self { figure: figure.into(), quantity: quantity.into(), setting })
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.figure, self.quantity)?;
        self.setting.iter().try_for_each(|setting| write!(f, ":{setting}"))
    }
}

/// Reads the measurements of `paper` from the `results.json` of an earlier run.
///
/// # Errors
/// Returns an error if the file cannot be read, or does not contain the paper.
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

/// How series are presented in a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// The numbers are divided by those of this system.
    pub over: Option<&'a str>,
    /// True to add the mean over the settings.
    pub mean: bool,
}

/// A requested series.
struct Line<'a> {
    key: Key<'a>,
    /// Its setting, without the requested part.
    setting: String,
}

/// Returns a table of medians. If a figure varies a parameter, there is a row for each system and setting and a column for each value. Otherwise
/// systems and settings are rows and columns; the fewer of the two are columns.
///
/// # Errors
/// Returns an error if there is no such quantity, setting or system.
pub fn table(all: &Measurements, wanted: &Wanted, shown: Shown<'_>) -> Result<Table, Failure> {
    let lines = lines(all, wanted, shown)?;
    let number = |key: Key<'_>, x: &str| {
        let own = all.median(key, x)?;
        let Some(over) = shown.over else { return Some(own) };
        Some(own / all.median(Key { system: over, ..key }, x)?)
    };
    let systems = unique(lines.iter().map(|line| line.key.system.to_owned()));
    let settings = unique(lines.iter().map(|line| line.setting.clone()));
    let of = |system: &str, setting: &str, x: &str| {
        let line = lines.iter().find(|line| line.key.system == system && line.setting == setting)?;
        number(line.key, x)
    };
    let series = all.of(&wanted.figure).filter(|series| lines.iter().any(|line| line.key == series.key()));
    let xs = unique(series.flat_map(|series| series.xs().map(str::to_owned).collect::<Vec<_>>()));
    let has_mean = shown.mean && settings.len() > 1;
    let mut rows: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    let mut header;
    if let [x] = &xs[..] {
        header = settings.clone();
        header.extend(has_mean.then(|| "mean".into()));
        for system in &systems {
            let mut numbers: Vec<_> = settings.iter().map(|setting| of(system, setting, x)).collect();
            numbers.extend(has_mean.then(|| mean(&numbers)));
            rows.push((system.clone(), numbers));
        }
        if settings.len() > systems.len() {
            let turned = |(at, name): (usize, String)| (name, rows.iter().map(|(_, row)| row[at]).collect());
            rows = header.into_iter().enumerate().map(turned).collect();
            header = systems;
        }
    } else {
        for system in &systems {
            let mut of_system = Vec::new();
            for setting in
                settings.iter().filter(|&setting| xs.iter().any(|x| of(system, setting, x).is_some()))
            {
                let name =
                    [&**system, setting].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
                of_system
                    .push((name.join(", "), xs.iter().map(|x| of(system, setting, x)).collect::<Vec<_>>()));
            }
            if has_mean && of_system.len() > 1 {
                let column = |x| of_system.iter().map(|(_, numbers)| numbers[x]).collect::<Vec<_>>();
                let means: Vec<_> = (0..xs.len()).map(|x| mean(&column(x))).collect();
                of_system.push((format!("{system}, mean"), means));
            }
            rows.extend(of_system);
        }
        header = xs;
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([wanted.quantity.clone()].into_iter().chain(header));
    for (name, numbers) in rows {
        let numbers = numbers.into_iter().map(|number| number.map_or("–".into(), readable));
        table.add_row([name].into_iter().chain(numbers));
    }
    Ok(table)
}

/// Returns the requested series.
///
/// # Errors
/// As for [`table`].
fn lines<'a>(all: &'a Measurements, wanted: &Wanted, shown: Shown<'_>) -> Result<Vec<Line<'a>>, Failure> {
    let Wanted { figure, quantity, setting } = wanted;
    let keys: Vec<_> = all.of(figure).map(|series| series.key()).collect();
    let unknown = |what: &str, named: &str, known: Vec<String>| {
        Failure::Usage(format!("{figure} has no {what} {named:?}; choose from {}", known.join(", ")))
    };
    let of_quantity: Vec<_> = keys.iter().filter(|key| key.quantity == quantity).copied().collect();
    if of_quantity.is_empty() {
        let known = unique(keys.iter().map(|key| key.quantity.to_owned()));
        return Err(unknown("quantity", quantity, known));
    }
    if let Some(over) = shown.over.filter(|over| !keys.iter().any(|key| key.system == *over)) {
        return Err(unknown("system", over, unique(keys.iter().map(|key| key.system.to_owned()))));
    }
    let line = |&key: &Key<'a>| Some(Line { key, setting: wanted.rest_of(key.setting)? });
    let lines: Vec<_> = of_quantity.iter().filter_map(line).collect();
    match setting {
        Some(setting) if lines.is_empty() => {
            let parts = of_quantity.iter().flat_map(|key| key.setting.split(", ").map(str::to_owned));
            Err(unknown("setting", setting, unique(parts)))
        }
        _ => Ok(lines),
    }
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
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

    fn text(all: &Measurements, wanted: &str, shown: Shown<'_>) -> Result<Vec<Vec<String>>, String> {
        let table = table(all, &wanted.parse()?, shown).map_err(|error| error.to_string())?;
        let row = |row: &comfy_table::Row| row.cell_iter().map(comfy_table::Cell::content).collect();
        Ok(table.header().into_iter().map(row).chain(table.row_iter().map(row)).collect())
    }

    const MEAN: Shown<'_> = Shown { over: None, mean: true };

    #[test]
    fn systems_are_rows_and_settings_columns_or_parameters() {
        let all = measured(&[
            ("hash", "BASE", "any", 2.0),
            ("hash", "ATOM", "any", 3.0),
            ("sps", "BASE", "any", 4.0),
            ("sps", "ATOM", "any", 10.0),
        ]);
        let over = Shown { over: Some("BASE"), mean: true };
        assert_eq!(
            text(&all, "f:tx/s", over).unwrap(),
            [
                vec!["tx/s", "hash", "sps", "mean"],
                vec!["BASE", "1", "1", "1"],
                vec!["ATOM", "1.5", "2.5", "2"]
            ]
        );
        let all =
            measured(&[("hash", "ATOM", "1", 3.0), ("hash", "ATOM", "2", 5.0), ("sps", "ATOM", "2", 7.0)]);
        assert_eq!(
            text(&all, "f:tx/s", MEAN).unwrap(),
            [
                vec!["tx/s", "1", "2"],
                vec!["ATOM, hash", "3", "5"],
                vec!["ATOM, sps", "–", "7"],
                vec!["ATOM, mean", "–", "6"]
            ]
        );
    }

    #[test]
    fn more_settings_than_systems_are_rows() {
        let all = measured(&[("hash", "ATOM", "any", 3.0), ("sps", "ATOM", "any", 5.0)]);
        assert_eq!(
            text(&all, "f:tx/s", MEAN).unwrap(),
            [["tx/s", "ATOM"], ["hash", "3"], ["sps", "5"], ["mean", "4"]]
        );
        assert_eq!(text(&all, "f:tx/s", Shown::default()).unwrap().len(), 3);
    }

    #[test]
    fn one_setting_is_chosen_by_a_part_of_its_name() {
        let all = measured(&[
            ("hash, simulated", "NP", "1", 3.0),
            ("hash, clflush", "NP", "1", 5.0),
            ("hash, simulated", "NP", "2", 4.0),
            ("simulated", "BASE", "2", 6.0),
        ]);
        assert_eq!(
            text(&all, "f:tx/s:simulated", Shown::default()).unwrap(),
            [["tx/s", "1", "2"], ["NP, hash", "3", "4"], ["BASE", "–", "6"]]
        );
        let error = text(&all, "f:tx/s:clwb", Shown::default()).unwrap_err();
        assert!(error.contains("choose from hash, simulated, clflush"), "{error}");
    }

    #[test]
    fn what_was_not_measured_is_refused() {
        let all = measured(&[("hash", "ATOM", "1", 3.0)]);
        let over = Shown { over: Some("REDO"), mean: false };
        assert!(text(&all, "f:tx/s", over).unwrap_err().contains("choose from ATOM"));
        let error = text(&all, "f:cycles", Shown::default()).unwrap_err();
        assert!(error.contains("choose from tx/s"), "{error}");
        for wrong in ["f", "f:q:s:t"] {
            assert!(wrong.parse::<Wanted>().unwrap_err().contains("FIGURE:QUANTITY:SETTING"), "{wrong}");
        }
    }
}
