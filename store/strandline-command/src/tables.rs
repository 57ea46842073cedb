//! Tables of text.

use comfy_table::{CellAlignment, Table, presets};

/// Returns a table with these headers. The first `words` columns are aligned to the left, the others, which hold numbers, to the right.
pub fn table(header: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Formats `value` with three significant digits, or as a whole number if it has more digits before the point.
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v > 0.0 => format!("{value:.2}"),
        _ => "0".into(),
    }
}

/// Formats `value` as a multiple of `reference`, or as a dash without a positive reference.
pub fn ratio(value: f64, reference: Option<f64>) -> String {
    reference.filter(|&reference| reference > 0.0).map_or("–".into(), |r| format!("{:.2}", value / r))
}
