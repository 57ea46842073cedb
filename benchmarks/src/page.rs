//! Writes medians as a table into a page of the documentation.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;

use crate::{Arguments, Medians};

const END: &str = "<!-- end of measurement -->";

/// A page of the documentation, around the block that is written.
pub struct Page<'a> {
    path: &'a Path,
    /// The page up to the comment `<!-- measured: WHAT -->`, where WHAT is the value of the option `--what`.
    before: String,
    /// The page from the comment that ends the block.
    after: String,
}

impl<'a> Page<'a> {
    /// Reads the page at `path` and finds its block. Exits with an error if there is no page or no block.
    pub fn find(path: &'a Path, arguments: &Arguments) -> Self {
        let what: Vec<_> = arguments.what.iter().filter_map(ValueEnum::to_possible_value).collect();
        let what: Vec<_> = what.iter().map(|value| value.get_name()).collect();
        let begin = format!("<!-- measured: {} -->\n", what.join(","));
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| fail(path, &error.to_string()));
        let place = text.find(&begin).map(|at| at + begin.len());
        let place = place.and_then(|place| Some((place, place + text[place..].find(END)?)));
        let Some((before, after)) = place else {
            fail(path, &format!("there is no line `{}` with `{END}` behind it", begin.trim_end()))
        };
        Self { path, before: text[..before].to_owned(), after: text[after..].to_owned() }
    }

    /// Writes a table of the medians, and the command that measures them, into the block.
    pub fn write(&self, arguments: &Arguments, medians: &[Medians<'_>]) {
        let (command, table) = (command(), table(medians, arguments.row_bytes() as f64));
        let text = format!("{}{command}\n{table}\n{}", self.before, self.after);
        std::fs::write(self.path, text).unwrap_or_else(|error| fail(self.path, &error.to_string()));
    }
}

/// Prints the problem of a page, and ends the program.
fn fail(page: &Path, what: &str) -> ! {
    eprintln!("{}: {what}", page.display());
    std::process::exit(2)
}

/// Returns the command as it was called, without the page, in a code block; and the processor.
fn command() -> String {
    let mut arguments = std::env::args().skip(1);
    let mut command = "cargo run --release --manifest-path benchmarks/Cargo.toml".to_owned();
    let features = [("rocksdb", cfg!(feature = "rocksdb")), ("pmemobj", cfg!(feature = "pmemobj"))];
    let features: Vec<_> = features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
    if !features.is_empty() {
        command = command + " --features " + &features.join(",");
    }
    command += " --";
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--page" | "--folder" => drop(arguments.next()),
            other => command = command + " " + other,
        }
    }
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let model = model.map_or("an unknown processor", |(_, name)| name);
    format!("```sh\n{command}\n```\n\n{cores} cores, {model}. The best of each row is bold.\n")
}

/// Returns a table with a row for each measurement and a column for each store, followed by the bytes read, written and taken on the disk, as
/// multiples of the rows' bytes.
fn table(medians: &[Medians<'_>], row_bytes: f64) -> String {
    let engines = unique(medians.iter().map(|row| row.engine));
    let mut text =
        format!("| per second | {} |\n|---|{}\n", engines.join(" | "), "---|".repeat(engines.len()));
    for (what, threads) in unique(medians.iter().map(|row| (row.what, row.threads))) {
        let here = |engine: &str| {
            medians.iter().find(|row| (row.what, row.engine, row.threads) == (what, engine, threads))
        };
        let mut line =
            |name: String, part: &dyn Fn(&Medians<'_>) -> Option<f64>, greatest: bool, digits: usize| {
                let values: Vec<Option<f64>> = engines.iter().map(|engine| part(here(engine)?)).collect();
                let stores = values.iter().zip(&engines).filter(|(_, engine)| **engine != "floor");
                let order = |one: &f64, other: &f64| one.total_cmp(other);
                let stores = stores.filter_map(|(value, _)| *value);
                let best = if greatest { stores.max_by(order) } else { stores.min_by(order) };
                let _ = write!(text, "| {name} |");
                for value in values {
                    let shown = value.map_or("–".into(), |value| rounded(value, digits));
                    let _ = match value.is_some() && value == best {
                        true => write!(text, " **{shown}** |"),
                        false => write!(text, " {shown} |"),
                    };
                }
                text.push('\n');
            };
        let threads = if threads == 1 { String::new() } else { format!(", {threads} threads") };
        if what == "restart" {
            line("restart, ms".into(), &|row| Some(row.latencies_us[0] / 1000.0), false, 1);
            continue;
        }
        line(format!("{what}{threads}"), &|row| Some(row.per_second), true, 0);
        if what.starts_with("load") {
            line("– bytes written / payload".into(), &|row| Some(row.bytes_each / row_bytes), false, 2);
            line("– bytes of disk / payload".into(), &|row| Some(row.disk_each? / row_bytes), false, 2);
        }
        if what == "gets-beside" {
            line("– the longest, ms".into(), &|row| Some(row.latencies_us[3] / 1000.0), false, 1);
        }
        if what.starts_with("cold") {
            line("– bytes read for each".into(), &|row| Some(row.read_each), false, 0);
        }
    }
    text
}

/// Returns each item once, in the order of their first occurrences.
fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut seen, next| {
        if !seen.contains(&next) {
            seen.push(next);
        }
        seen
    })
}

/// Formats a number with separated thousands, and with three digits if it has no decimals.
fn rounded(value: f64, digits: usize) -> String {
    if digits > 0 {
        return format!("{value:.digits$}");
    }
    let unit = 10_f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
    let text = format!("{:.0}", (value / unit).round() * unit);
    let groups: Vec<&str> =
        text.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap_or("")).collect();
    groups.join(",")
}

#[test]
fn numbers_are_rounded() {
    assert_eq!(
        [0.0, 7.6, 999.6, 1234.0, 1_239_999.0].map(|value| rounded(value, 0)).join(" "),
        "0 8 1,000 1,230 1,240,000"
    );
    assert_eq!(rounded(1.234, 2), "1.23");
}
