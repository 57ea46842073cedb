//! A table whose rows are printed as they come: who watches sees at once what was found.

use indicatif::ProgressBar;
use strandline_command::say;

/// Between two columns.
const GAP: &str = "  ";

/// A table, of which the header is printed with the first row. Its last column is as wide as it likes.
pub struct Rows<'a> {
    /// The headers, and the width of each column.
    columns: Vec<(&'static str, usize)>,
    has_begun: bool,
    /// Nothing is printed: the rows are for JSON.
    is_silent: bool,
    /// What stands on the terminal meanwhile.
    bar: &'a ProgressBar,
}

impl<'a> Rows<'a> {
    /// A table with these headers. A column is as wide as its header, or as the longest of the texts that come with it and are expected
    /// there; a longer text moves the rest of its row to the right.
    pub fn new(columns: &[(&'static str, &[String])], is_silent: bool, bar: &'a ProgressBar) -> Self {
        let width = |(header, expected): &(&'static str, &[String])| {
            let texts = expected.iter().map(String::as_str).chain([*header]);
            (*header, texts.map(|text| text.chars().count()).max().unwrap_or(0))
        };
        Self { columns: columns.iter().map(width).collect(), has_begun: false, is_silent, bar }
    }

    /// Prints a row, and below it what else there is to say, a line each.
    pub fn add(&mut self, cells: &[String], below: &[String]) {
        if self.is_silent {
            return;
        }
        let headers: Vec<_> = self.columns.iter().map(|(header, _)| (*header).to_owned()).collect();
        let header = (!self.has_begun).then(|| self.line(&headers));
        self.has_begun = true;
        let row = self.line(cells);
        self.bar.suspend(|| {
            header.iter().chain([&row]).chain(below).for_each(|line| say!("{line}"));
        });
    }

    fn line(&self, cells: &[String]) -> String {
        let padded = cells.iter().zip(&self.columns).map(|(cell, &(_, width))| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_one_another() {
        let bar = ProgressBar::hidden();
        let rows =
            Rows::new(&[("scheme", &["a-long-name".into()]), ("states", &[]), ("verdict", &[])], false, &bar);
        let line = |cells: [&str; 3]| rows.line(&cells.map(str::to_owned));
        assert_eq!(line(["scheme", "states", "verdict"]), "scheme       states  verdict");
        assert_eq!(line(["a-long-name", "7", ""]), "a-long-name  7");
        assert_eq!(line(["bppm", "1234567", "ok"]), "bppm         1234567  ok");
    }
}
