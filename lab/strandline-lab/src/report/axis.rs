//! Axes of a plot: the positions of their numbers, and the room for their labels.

/// The letters' size in pixels in a plot's own layout.
pub const FONT: u32 = 13;
/// The largest size in pixels at which the page shows letters, on narrow screens.
const LARGEST_FONT: f64 = 15.0;
/// The gap between neighbouring labels in pixels.
const GAP: f64 = 8.0;
/// The least ratio of the largest to the smallest value for a logarithmic axis.
const DECADE: f64 = 10.0;
/// The ratio of two values beyond which the smaller one would be only a few pixels high.
const HIDES: f64 = 30.0;

/// Returns an upper bound of a text's width in pixels.
pub fn width(text: &str) -> f64 {
    let wide = |letter: char| match letter {
        ',' | '.' | ' ' | '-' | 'i' | 'l' | 'j' | 't' | 'f' | 'r' | '(' | ')' | '/' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' => 1.0,
        _ => 0.64,
    };
    LARGEST_FONT * text.chars().map(wide).sum::<f64>()
}

/// A scale along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    is_logarithmic: bool,
    /// The values at its ends.
    ends: (f64, f64),
}

impl Scale {
    /// Returns a scale from zero, or below, to a little above the largest of `values`. It is logarithmic if some of `heights` would be invisible
    /// beside others, and none is below zero.
    pub fn of_heights(values: &[f64], heights: &[f64]) -> Self {
        let fold = |values: &[f64]| {
            values.iter().filter(|value| value.is_finite()).fold(None, |ends: Option<(f64, f64)>, &value| {
                let (low, high) = ends.unwrap_or((value, value));
                Some((low.min(value), high.max(value)))
            })
        };
        let (low, high) = fold(values).unwrap_or((0.0, 0.0));
        let positive: Vec<f64> = heights.iter().copied().filter(|&height| height > 0.0).collect();
        if low >= 0.0
            && let Some((smallest, largest)) = fold(&positive)
            && largest > HIDES * smallest
        {
            // All drawn values, except for the end of a spread that is close to zero.
            let drawn: Vec<f64> = values.iter().copied().filter(|&value| value > 0.0).collect();
            let lowest = fold(&drawn).map_or(smallest, |ends| ends.0).max(high / 1e9);
            return Self { is_logarithmic: true, ends: (round_down(lowest / 1.5), 1.25 * high) };
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let high = if high > low { high } else { low + 1.0 };
        Self { is_logarithmic: false, ends: (1.06 * low, 1.06 * high) }
    }

    /// Returns a scale from the smallest to the largest of `values`. It is logarithmic if they span a decade and that spaces them more evenly.
    pub fn of_parameter(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
        let unevenness = |place: fn(f64) -> f64| {
            let gaps = sorted.windows(2).map(|pair| place(pair[1]) - place(pair[0]));
            let (least, most) = gaps
                .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), gap| (least.min(gap), most.max(gap)));
            most / least
        };
        let is_logarithmic =
            first > 0.0 && last >= DECADE * first && unevenness(f64::ln) <= unevenness(|value| value);
        Self { is_logarithmic, ends: (first, last) }
    }

    /// Returns whether equal factors are equal distances.
    #[cfg(test)]
    pub fn is_logarithmic(self) -> bool {
        self.is_logarithmic
    }

    /// Returns the position of a value, in the scale's own unit.
    pub fn place(self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(self.ends.0).log10() } else { value }
    }

    /// Returns the positions of its ends.
    pub fn range(self) -> std::ops::Range<f64> {
        self.place(self.ends.0)..self.place(self.ends.1)
    }

    /// Returns the value on which bars stand.
    pub fn base(self) -> f64 {
        if self.is_logarithmic { self.ends.0 } else { 0.0 }
    }

    /// Returns the values to label, and their labels, no two of which are equal.
    pub fn ticks(self) -> Vec<(f64, String)> {
        let (low, high) = self.ends;
        let values: Vec<f64> = if self.is_logarithmic {
            let decades = high.log10() - low.log10();
            // Without whole decades between the ends there would be at most one label.
            let steps: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            all.filter(|value| (low..=high).contains(value)).collect()
        } else {
            let step = nice_step((high - low) / 6.0);
            let numbers = (low / step).ceil() as i64..=(high / step).floor() as i64;
            numbers.map(|number| number as f64 * step).collect()
        };
        // All labels have as many decimals as the finest step needs.
        let decimals = values.iter().map(|&value| decimals(value)).max().unwrap_or(0);
        let label = |value: f64| {
            let own = if self.is_logarithmic { self::decimals(value) } else { decimals };
            (value, number(value, own))
        };
        values.into_iter().map(label).collect()
    }
}

/// Returns the largest of 1, 2 and 5 times a power of ten that is at most `value`.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powi(value.log10().floor() as i32);
    [5.0, 2.0, 1.0].map(|step| step * power).into_iter().find(|&step| step <= value).unwrap_or(power)
}

/// Returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `value`.
fn nice_step(value: f64) -> f64 {
    let power = 10f64.powi(value.log10().floor() as i32);
    [1.0, 2.0, 2.5, 5.0]
        .map(|step| step * power)
        .into_iter()
        .find(|&step| step >= value)
        .unwrap_or(10.0 * power)
}

/// Returns how many decimals a rounded value needs, at most nine.
fn decimals(value: f64) -> usize {
    let is_whole = |decimals: &usize| {
        let scaled = value * 10f64.powi(*decimals as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1e-3)
    };
    (0..9).find(is_whole).unwrap_or(9)
}

/// Formats a number with so many decimals, and with commas between thousands.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let groups: Vec<_> = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    let sign = if value < 0.0 { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", groups.join(","))
}

/// Returns the number in a parameter's value, which is digits and perhaps a unit of bytes, as in `512 KB` and `64K`.
pub fn parsed(text: &str) -> Option<f64> {
    let text = text.trim().replace(['_', ','], "");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).trim_end();
    let factor = match text[digits.len()..].trim() {
        "" | "B" => 1.0,
        "K" | "KB" => 1024.0,
        "M" | "MB" => 1024.0 * 1024.0,
        "G" | "GB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    digits.parse().ok().filter(|value: &f64| value.is_finite()).map(|value| value * factor)
}

/// The rows of labels along the horizontal axis, one for each position; `None` for a position without a label.
pub type Rows = Vec<Option<usize>>;

/// Places all labels, in as many rows as keep neighbours apart.
pub fn staggered(labels: &[String], places: &[f64]) -> Rows {
    let fits = |rows: usize| {
        (rows..labels.len()).all(|at| {
            let room = places[at] - places[at - rows];
            (width(&labels[at]) + width(&labels[at - rows])) / 2.0 + GAP <= room
        })
    };
    let rows = (1..=labels.len()).find(|&rows| fits(rows)).unwrap_or(1);
    (0..labels.len()).map(|at| Some(at % rows)).collect()
}

/// Places as many labels as fit one row: the ends first, then from the left. Positions need not be in order.
pub fn thinned(labels: &[String], places: &[f64]) -> Rows {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|&one, &other| places[one].total_cmp(&places[other]));
    if let Some(last) = order.pop() {
        order.insert(order.len().min(1), last);
    }
    let mut rows: Rows = vec![None; labels.len()];
    for at in order {
        let is_free = (0..labels.len()).filter(|&other| rows[other].is_some()).all(|other| {
            (width(&labels[at]) + width(&labels[other])) / 2.0 + GAP <= (places[at] - places[other]).abs()
        });
        rows[at] = is_free.then_some(0);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_have_all_their_digits() {
        for (highest, expected) in [
            (0.0012, ["0.00000", "0.00025", "0.00050", "0.00075", "0.00100", "0.00125"].as_slice()),
            (1.0, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
            (1.3, &["0.00", "0.25", "0.50", "0.75", "1.00", "1.25"]),
            (7.0, &["0", "2", "4", "6"]),
            (1_234_567.0, &["0", "250,000", "500,000", "750,000", "1,000,000", "1,250,000"]),
        ] {
            assert_eq!(labels(Scale::of_heights(&[highest], &[highest])), expected, "{highest}");
        }
        let below = Scale::of_heights(&[-0.5, 1.0], &[1.0]);
        assert_eq!(labels(below), ["-0.5", "0.0", "0.5", "1.0"]);
    }

    #[test]
    fn heights_that_hide_others_are_on_a_logarithmic_axis() {
        let scale = |values: &[f64]| Scale::of_heights(values, values);
        assert!(!scale(&[1.0, 29.0]).is_logarithmic());
        let decades = scale(&[1.5, 300.0]);
        assert!(decades.is_logarithmic());
        assert_eq!(labels(decades), ["1", "2", "5", "10", "20", "50", "100", "200"]);
        let range = decades.range();
        // Each value has some height, and none is cut off.
        for value in [1.5, 300.0] {
            let place = decades.place(value);
            assert!(place > range.start + 0.1 && place < range.end, "{value}");
        }
        assert_eq!(
            labels(scale(&[2e-3, 5e4])),
            ["0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000"]
        );
        // Values below zero have no logarithm.
        assert!(!Scale::of_heights(&[-1.0, 1.0, 300.0], &[1.0, 300.0]).is_logarithmic());
        assert!(!scale(&[0.0, 0.0]).is_logarithmic() && !scale(&[]).is_logarithmic());
    }

    #[test]
    fn parameters_are_where_their_numbers_are() {
        let scale = |texts: &[&str]| {
            let values: Vec<f64> = texts.iter().map(|text| parsed(text).unwrap()).collect();
            (Scale::of_parameter(&values), values)
        };
        let (linear, _) = scale(&["100", "200", "400"]);
        assert_eq!((linear.is_logarithmic(), linear.place(200.0)), (false, 200.0));
        let (decades, values) = scale(&["1", "10", "100", "1_000"]);
        let places: Vec<f64> = values.iter().map(|&value| decades.place(value)).collect();
        assert!(decades.is_logarithmic() && places == [0.0, 1.0, 2.0, 3.0], "{places:?}");
        // The values are evenly spaced over a decade.
        assert!(!scale(&["10", "20", "30", "40", "50", "60", "70", "80", "90", "100"]).0.is_logarithmic());
        assert!(!scale(&["0", "1", "1000"]).0.is_logarithmic());
        assert!(scale(&["8", "64", "512", "4096"]).0.is_logarithmic());
        assert_eq!(parsed("512 KB"), Some(524_288.0));
        assert_eq!(parsed("64K"), Some(65_536.0));
        assert!(
            ["", "none", "opt", "nan", "inf", "2 threads", "range"].iter().all(|text| parsed(text).is_none())
        );
    }

    /// Returns the least gap between two labels of a row, in pixels.
    fn least_gap(labels: &[String], places: &[f64], rows: &Rows) -> f64 {
        let mut least = f64::INFINITY;
        for one in 0..labels.len() {
            for other in (0..one).filter(|&other| rows[other].is_some() && rows[other] == rows[one]) {
                let half = (width(&labels[one]) + width(&labels[other])) / 2.0;
                least = least.min((places[one] - places[other]).abs() - half);
            }
        }
        least
    }

    #[test]
    fn labels_do_not_overlap() {
        let names =
            ["hash", "rbtree", "bplustree-sorted", "tpcc-new-order", "tatp-update-location", "sps", "mean"];
        let labels: Vec<String> = names.map(str::to_owned).to_vec();
        let places: Vec<f64> = (0..names.len()).map(|at| 60.0 * at as f64).collect();
        let rows = staggered(&labels, &places);
        assert!(rows.iter().all(Option::is_some) && rows.iter().max() > Some(&Some(0)), "{rows:?}");
        assert!(least_gap(&labels, &places, &rows) > 0.0);
        let few: Vec<String> = ["a", "b"].map(str::to_owned).to_vec();
        assert_eq!(staggered(&few, &[0.0, 100.0]), [Some(0), Some(0)]);
        assert_eq!(staggered(&few[..1], &[0.0]), [Some(0)]);
        let long: Vec<String> = ["tatp-update-location"; 2].map(str::to_owned).to_vec();
        assert_eq!(staggered(&long, &[0.0, 100.0]), [Some(0), Some(1)]);

        let numbers: Vec<String> = (1..=20).map(|number| (number * 1000).to_string()).collect();
        let places: Vec<f64> = (0..20).map(|at| 20.0 * f64::from(at)).collect();
        let rows = thinned(&numbers, &places);
        assert!(rows[0].is_some() && rows[19].is_some() && rows.iter().flatten().count() > 5, "{rows:?}");
        assert!(least_gap(&numbers, &places, &rows) > 0.0);
    }
}
