//! Draws a panel as inline SVG. Colours are CSS variables, so that the page's light and dark settings affect them.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{FONT, Rows, Scale, parsed, staggered, thinned, width};
use crate::measurements::Spread;
use crate::panel::{Curve, Form, Mark, Panel};

/// The size in pixels of a plot whose labels have one row; the page scales it.
const SIZE: (u32, u32) = (480, 300);
/// Pixels above the plot, and at least to its right.
const MARGIN: f64 = 10.0;
/// Pixels between the vertical axis and its labels.
const TICK: f64 = 6.0;
/// Pixels between the horizontal axis and its labels, so that the first one does not touch the lowest of the vertical axis.
const DROP: i32 = 8;
/// Pixels below the plot, with one row of labels.
const BOTTOM: f64 = 44.0;
/// Pixels between rows of labels.
const ROW: f64 = 17.0;
/// The share of the axis between its ends and the first and the last number on it.
const PADDING: f64 = 0.04;
/// The most rows of labels that are readable. If there would be more, bars are drawn horizontally, each beside its label.
const MOST_ROWS: usize = 3;
/// The height in pixels of a group of horizontal bars, and of each bar beyond the first.
const GROUP: f64 = 20.0;
const BAR: f64 = 8.0;
/// The least height of a bar in pixels.
const LEAST: i32 = 2;
/// The text in place of values that were not measured.
const NOT_RUN: &str = "not run";
/// The number of colours that the page's style defines.
pub const COLOURS: usize = 8;

// Colours that stand for the page's variables until the drawing is complete.
const INK: RGBColor = RGBColor(1, 1, 1);
const MUTED: RGBColor = RGBColor(2, 2, 2);
const GRID: RGBColor = RGBColor(3, 3, 3);
const GROUND: RGBColor = RGBColor(4, 4, 4);

fn colour(index: usize) -> RGBColor {
    RGBColor(16 + (index % COLOURS) as u8, 0, 255)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns whether there is anything to draw.
pub fn has_values(panel: &Panel) -> bool {
    panel.curves.iter().any(|curve| values(curve).next().is_some())
}

/// Returns whether all that there is to draw is zero.
pub fn is_all_zero(panel: &Panel) -> bool {
    let is_zero = |spread: Spread| [spread.low, spread.median, spread.high].iter().all(|&value| value == 0.0);
    panel.marks.iter().all(|mark| mark.value == 0.0)
        && panel.curves.iter().flat_map(values).all(|(_, spread)| is_zero(spread))
}

/// The form in which a panel is drawn. Names have no distances, so that no line joins their values: they are bars.
fn form(panel: &Panel) -> Form {
    match panel.form {
        Form::Lines if panel.x.iter().all(|x| parsed(x).is_some()) => Form::Lines,
        _ => Form::Bars,
    }
}

/// The panel as an `svg` element.
pub fn svg(panel: &Panel) -> String {
    let layout = Layout::of(panel);
    let mut text = String::new();
    // Writing to a string does not fail; if drawing fails, the page shows that.
    let drawn = draw(panel, &layout, &mut text);
    if let Err(error) = drawn {
        return format!("<p>This plot could not be drawn: {error}</p>");
    }
    let mut variables: BTreeMap<String, String> =
        [(INK, "ink"), (MUTED, "muted"), (GRID, "grid"), (GROUND, "ground")]
            .map(|(colour, name)| (hex(colour), name.to_owned()))
            .into();
    variables.extend((0..COLOURS).map(|index| (hex(colour(index)), format!("series-{index}"))));
    for (colour, variable) in variables {
        text = text.replace(&format!("\"{colour}\""), &format!("\"var(--{variable})\""));
    }
    let (width, height) = layout.size;
    // Within HTML the name space is known, and the page sets the size.
    text.replace(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\"")
        .replace(&format!("width=\"{width}\" height=\"{height}\" viewBox"), "viewBox")
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// The positions of the parts of a plot.
#[derive(Debug)]
struct Layout {
    size: (u32, u32),
    /// True if bars are horizontal: values along the horizontal axis, and groups one below the other.
    is_turned: bool,
    /// Pixels left of the plot, right of it and below.
    left: f64,
    right: f64,
    bottom: f64,
    y: Scale,
    ticks: Vec<(f64, String)>,
    /// The position of each x of the panel along the axis, and the axis' ends.
    places: Vec<f64>,
    ends: std::ops::Range<f64>,
    /// The row of each x's label.
    rows: Rows,
}

impl Layout {
    fn of(panel: &Panel) -> Self {
        let y = vertical(panel);
        let ticks = y.ticks();
        let widest = ticks.iter().map(|(_, label)| width(label)).fold(0.0, f64::max);
        let left = widest + TICK + 4.0;
        let (places, ends, is_numeric) = horizontal(panel);
        // The first and the last label may be wider than the space beside them.
        let half = |label: Option<&String>| label.map_or(0.0, |label| width(label) / 2.0);
        let space = f64::from(SIZE.0) - left - MARGIN;
        let beside = |place: Option<&f64>, end: f64| {
            place.map_or(0.0, |place| (place - end).abs() / (ends.end - ends.start) * space)
        };
        let left = left.max(half(panel.x.first()) - beside(places.first(), ends.start));
        let right = MARGIN.max(half(panel.x.last()) - beside(places.last(), ends.end) + 2.0);
        let space = f64::from(SIZE.0) - left - right;
        let pixel = |place: &f64| left + (place - ends.start) / (ends.end - ends.start) * space;
        let pixels: Vec<f64> = places.iter().map(pixel).collect();
        let rows = if is_numeric { thinned(&panel.x, &pixels) } else { staggered(&panel.x, &pixels) };
        let further = rows.iter().flatten().max().map_or(0, |&row| row);
        if further >= MOST_ROWS && form(panel) == Form::Bars {
            return Self::turned(panel, y, ticks);
        }
        let further = further as f64 * ROW;
        let size = (SIZE.0, SIZE.1 + further as u32);
        Self { size, is_turned: false, left, right, bottom: BOTTOM + further, y, ticks, places, ends, rows }
    }

    /// Returns the layout with horizontal bars.
    fn turned(panel: &Panel, y: Scale, ticks: Vec<(f64, String)>) -> Self {
        let (places, ends, _) = horizontal(panel);
        let left = panel.x.iter().map(|x| width(x)).fold(0.0, f64::max) + TICK + 4.0;
        let right = MARGIN.max(ticks.last().map_or(0.0, |(_, label)| width(label) / 2.0));
        let group = GROUP + BAR * panel.curves.len().saturating_sub(1) as f64;
        let size = (SIZE.0, (MARGIN + group * panel.x.len() as f64 + BOTTOM) as u32);
        let rows = vec![Some(0); panel.x.len()];
        Self { size, is_turned: true, left, right, bottom: BOTTOM, y, ticks, places, ends, rows }
    }

    /// Returns the pixel of a value at a position along the x.
    fn pixel(&self, place: f64, value: f64) -> (i32, i32) {
        let range = self.y.range();
        let along = (place - self.ends.start) / (self.ends.end - self.ends.start);
        let height = (self.y.place(value) - range.start) / (range.end - range.start);
        let space = f64::from(self.size.0) - self.left - self.right;
        let (x, y) = if self.is_turned { (height, along) } else { (along, 1.0 - height) };
        let down = f64::from(self.size.1) - MARGIN - self.bottom;
        ((self.left + x * space).round() as i32, (MARGIN + y * down).round() as i32)
    }
}

/// Returns the vertical scale, which covers everything that is drawn.
fn vertical(panel: &Panel) -> Scale {
    let spreads = || panel.curves.iter().flat_map(values).map(|(_, spread)| spread);
    let marks = panel.marks.iter().flat_map(|mark| {
        let (low, high) = mark.range.unwrap_or((mark.value, mark.value));
        [low, high]
    });
    let drawn: Vec<f64> = spreads().flat_map(|spread| [spread.low, spread.high]).chain(marks).collect();
    // Each bar must be visible, and the highest point of a line.
    let heights: Vec<f64> = match form(panel) {
        Form::Bars => spreads().map(|spread| spread.median).collect(),
        Form::Lines => {
            let highest = |curve: &Curve| values(curve).map(|(_, spread)| spread.median).fold(0.0, f64::max);
            panel.curves.iter().map(highest).collect()
        }
    };
    Scale::of_heights(&drawn, &heights)
}

/// Returns the position of each x along the horizontal axis, the axis' ends, and whether the axis is numerical. Groups of bars, and names that are
/// not numbers, are evenly spaced.
fn horizontal(panel: &Panel) -> (Vec<f64>, std::ops::Range<f64>, bool) {
    let numbers: Option<Vec<f64>> = panel.x.iter().map(|x| parsed(x)).collect();
    match numbers.filter(|numbers| form(panel) == Form::Lines && numbers.len() > 1) {
        Some(numbers) => {
            let scale = Scale::of_parameter(&numbers);
            let range = scale.range();
            let padding = PADDING * (range.end - range.start).max(1e-9);
            let places = numbers.iter().map(|&number| scale.place(number)).collect();
            (places, range.start - padding..range.end + padding, true)
        }
        None => {
            let groups = panel.x.len();
            ((0..groups).map(|at| at as f64).collect(), -0.5..groups.max(1) as f64 - 0.5, false)
        }
    }
}

/// A plot in progress.
struct Plot<'p, 'a> {
    panel: &'p Panel,
    layout: &'p Layout,
    root: Area<'a>,
}

fn draw(panel: &Panel, layout: &Layout, into: &mut String) -> Drawn<()> {
    let root = SVGBackend::with_string(into, layout.size).into_drawing_area();
    let plot = Plot { panel, layout, root };
    plot.axes()?;
    for (number, curve) in panel.curves.iter().enumerate() {
        match form(panel) {
            Form::Bars => plot.bars(number, curve)?,
            Form::Lines => plot.line(curve)?,
        }
    }
    for mark in &panel.marks {
        plot.mark(mark)?;
    }
    plot.root.present()?;
    Ok(())
}

fn font(colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", FONT).into_font().color(&colour)
}

/// Returns the values of a curve, each with the number of its x.
fn values(curve: &Curve) -> impl Iterator<Item = (usize, Spread)> {
    let known = curve.values.iter().enumerate().filter_map(|(at, spread)| Some((at, (*spread)?)));
    known.filter(|(_, spread)| spread.median.is_finite())
}

impl Plot<'_, '_> {
    /// Returns the pixel of a position on the horizontal axis and a value.
    fn pixel(&self, place: f64, value: f64) -> (i32, i32) {
        self.layout.pixel(place, value)
    }

    fn axes(&self) -> Drawn<()> {
        let Self { panel, layout, root, .. } = self;
        let (start, end) = (layout.ends.start, layout.ends.end);
        let bottom = (f64::from(layout.size.1) - layout.bottom) as i32;
        let aligned = |colour, horizontal, vertical| font(colour).pos(Pos::new(horizontal, vertical));
        let beside = |colour| aligned(colour, HPos::Right, VPos::Center);
        let below = |colour| aligned(colour, HPos::Center, VPos::Top);
        // There may be too many labels of values for one row.
        let labels: Vec<String> = layout.ticks.iter().map(|(_, label)| label.clone()).collect();
        let places: Vec<f64> =
            layout.ticks.iter().map(|&(value, _)| f64::from(self.pixel(end, value).0)).collect();
        let shown = if layout.is_turned { thinned(&labels, &places) } else { vec![Some(0); labels.len()] };
        for ((value, label), shown) in layout.ticks.iter().zip(shown) {
            let (from, to) = (self.pixel(start, *value), self.pixel(end, *value));
            root.draw(&PathElement::new([from, to], GRID))?;
            let (place, style) = match layout.is_turned {
                true => ((to.0, bottom + DROP), below(MUTED)),
                false => ((from.0 - TICK as i32, from.1), beside(MUTED)),
            };
            if shown.is_some() {
                root.draw(&Text::new(label.clone(), place, style))?;
            }
        }
        let base = layout.y.base();
        root.draw(&PathElement::new([self.pixel(start, base), self.pixel(end, base)], MUTED))?;
        for (at, (x, &place)) in panel.x.iter().zip(&layout.places).enumerate() {
            let pixel = self.pixel(place, base);
            let row = layout.rows[at].unwrap_or(0);
            let down = DROP + (row as f64 * ROW) as i32;
            if !layout.is_turned && (form(panel) == Form::Lines || row > 0) {
                root.draw(&PathElement::new([(pixel.0, bottom), (pixel.0, bottom + down - 1)], GRID))?;
            }
            if layout.rows[at].is_some() {
                let (place, style) = match layout.is_turned {
                    true => ((pixel.0 - TICK as i32, pixel.1), beside(INK)),
                    false => ((pixel.0, bottom + down), below(INK)),
                };
                root.draw(&Text::new(x.clone(), place, style))?;
            }
            if panel.curves.iter().all(|curve| curve.values[at].is_none()) {
                let half = width(NOT_RUN) / 2.0;
                let most = f64::from(layout.size.0) - half;
                let place = match layout.is_turned {
                    true => (pixel.0 + half as i32 + 4, pixel.1 - 7),
                    false => (f64::from(pixel.0).min(most) as i32, pixel.1 - 22),
                };
                root.draw(&Text::new(NOT_RUN, place, below(MUTED)))?;
            }
        }
        let middle = (layout.left + f64::from(layout.size.0) - layout.right) / 2.0;
        let place = (middle as i32, layout.size.1 as i32 - 18);
        root.draw(&Text::new(panel.x_label.clone(), place, below(MUTED)))?;
        Ok(())
    }

    /// Returns where a curve's bar begins in a group, and its width, in units of a group.
    fn bar(&self, number: usize) -> (f64, f64) {
        let width = 0.84 / self.panel.curves.len().max(1) as f64;
        (number as f64 * width - 0.42, width)
    }

    fn bars(&self, number: usize, curve: &Curve) -> Drawn<()> {
        let ((begin, width), base) = (self.bar(number), self.layout.y.base());
        for (group, spread) in values(curve) {
            let left = group as f64 + begin;
            let [from, mut to] =
                [(0.08, base), (0.92, spread.median)].map(|(at, value)| self.pixel(left + at * width, value));
            // A bar without height would look like a missing one.
            match self.layout.is_turned {
                true if to.0 == from.0 => to.0 += LEAST,
                false if to.1 == from.1 => to.1 -= LEAST,
                _ => {}
            }
            let corners = [(from.0.min(to.0), from.1.min(to.1)), (from.0.max(to.0), from.1.max(to.1))];
            self.root.draw(&Rectangle::new(corners, colour(curve.colour).filled()))?;
            self.whisker(left + width / 2.0, spread, INK)?;
        }
        Ok(())
    }

    fn line(&self, curve: &Curve) -> Drawn<()> {
        let style = colour(curve.colour).stroke_width(2);
        // From left to right, whatever the order of the values.
        let mut order: Vec<usize> = (0..curve.values.len()).collect();
        let places = &self.layout.places;
        order.sort_by(|&one, &other| places[one].total_cmp(&places[other]));
        let known: Vec<(usize, Option<Spread>)> =
            order.into_iter().map(|at| (at, curve.values[at])).collect();
        // Gaps in the values stay gaps in the line.
        for part in known.split(|(_, spread)| !spread.is_some_and(|spread| spread.median.is_finite())) {
            let points: Vec<_> = part
                .iter()
                .filter_map(|&(at, spread)| Some(self.pixel(places[at], spread?.median)))
                .collect();
            self.root.draw(&PathElement::new(points, style))?;
        }
        for (at, spread) in values(curve) {
            self.whisker(places[at], spread, colour(curve.colour))?;
            let centre = self.pixel(places[at], spread.median);
            self.root.draw(&Circle::new(centre, 3, colour(curve.colour).filled()))?;
        }
        Ok(())
    }

    /// Draws a line from the low end of a spread to its high end.
    fn whisker(&self, place: f64, spread: Spread, colour: RGBColor) -> Drawn<()> {
        let ends = [spread.low, spread.high].map(|value| self.pixel(place, value));
        self.root.draw(&PathElement::new(ends, colour))?;
        Ok(())
    }

    /// Draws the paper's number as a diamond, with its range if the paper gives one.
    fn mark(&self, mark: &Mark) -> Drawn<()> {
        let Self { panel, layout, root, .. } = self;
        let Some(group) = panel.x.iter().position(|x| *x == mark.x) else { return Ok(()) };
        let number = panel.curves.iter().position(|curve| Some(&curve.name) == mark.curve.as_ref());
        let shift = match (form(panel), number) {
            (Form::Bars, Some(number)) => {
                let (begin, width) = self.bar(number);
                begin + width / 2.0
            }
            (Form::Bars, None) if mark.curve.is_some() => return Ok(()),
            _ => 0.0,
        };
        let place = layout.places[group] + shift;
        if let Some((low, high)) = mark.range {
            let ends = [low, high].map(|value| self.pixel(place, value));
            for (x, y) in ends {
                let across = if layout.is_turned { (0, 3) } else { (3, 0) };
                let tip = [(x - across.0, y - across.1), (x + across.0, y + across.1)];
                root.draw(&PathElement::new(tip, INK))?;
            }
            root.draw(&PathElement::new(ends, INK))?;
        }
        let (x, y) = self.pixel(place, mark.value);
        let diamond = [(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y), (x, y - 6)];
        let fill = number.map_or(GROUND, |number| colour(panel.curves[number].colour));
        root.draw(&Polygon::new(diamond, fill.filled()))?;
        root.draw(&PathElement::new(diamond, INK.stroke_width(2)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(form: Form, x: &[&str], curves: &[&[f64]]) -> Panel {
        let curve = |(colour, values): (usize, &&[f64])| Curve {
            name: format!("system {colour}"),
            colour,
            values: values.iter().map(|&value| Some(Spread::exactly(value))).collect(),
        };
        Panel {
            title: "a panel".into(),
            form,
            x_label: "parameter".into(),
            y_label: "quantity".into(),
            x: x.iter().map(|x| (*x).to_owned()).collect(),
            curves: curves.iter().enumerate().map(curve).collect(),
            marks: Vec::new(),
        }
    }

    /// Returns the numbers in the attributes of this name.
    fn attributes(svg: &str, name: &str) -> Vec<f64> {
        let begin = format!(" {name}=\"");
        let parts = svg.split(&begin).skip(1);
        parts.map(|part| part[..part.find('"').unwrap()].parse().unwrap()).collect()
    }

    #[test]
    fn labels_of_the_vertical_axis_have_their_room() {
        let narrow = Layout::of(&panel(Form::Bars, &["a"], &[&[1.0]]));
        let wide = Layout::of(&panel(Form::Bars, &["a"], &[&[123_456_789.0]]));
        for layout in [&narrow, &wide] {
            let longest = layout.ticks.iter().map(|(_, label)| width(label)).fold(0.0, f64::max);
            assert!(layout.left >= longest + TICK, "{layout:?}");
        }
        assert!(wide.left > 2.0 * narrow.left);
    }

    #[test]
    fn no_bar_is_cut_off() {
        for values in [&[1.0, 2.0, 52.0][..], &[0.001, 100.0], &[0.0, 5.0, 5000.0]] {
            let x: Vec<String> = (0..values.len()).map(|at| format!("workload {at}")).collect();
            let x: Vec<&str> = x.iter().map(String::as_str).collect();
            let panel = panel(Form::Bars, &x, &[values]);
            let (layout, svg) = (Layout::of(&panel), svg(&panel));
            let top = values.iter().copied().fold(0.0, f64::max);
            assert!(layout.y.place(top) < layout.y.range().end, "{values:?}");
            assert!(attributes(&svg, "y").iter().all(|&y| y >= MARGIN - 1.0), "{svg}");
            assert_eq!(svg.matches("<rect").count(), values.len(), "{values:?}");
        }
    }

    /// Many long names would need more rows of labels than fit.
    #[test]
    fn bars_with_many_long_names_lie_on_their_side() {
        let names: Vec<String> = (0..40).map(|at| format!("hardware scheme {at} (software)")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        let many = panel(Form::Bars, &names, &[&values]);
        let layout = Layout::of(&many);
        assert!(layout.is_turned && !Layout::of(&panel(Form::Bars, &names[..2], &[&values[..2]])).is_turned);
        let longest = names.iter().map(|name| width(name)).fold(0.0, f64::max);
        assert!(layout.left > longest && layout.size.1 as f64 > 40.0 * GROUP);
        let [first, second] = [0.0, 1.0].map(|place| layout.pixel(place, 20.0));
        assert!(first.0 == second.0 && f64::from(second.1 - first.1) >= GROUP - 1.0, "{first:?} {second:?}");
        assert!(layout.pixel(0.0, 39.0).0 < SIZE.0 as i32 - 5);
        assert_eq!(svg(&many).matches("<rect").count(), 40);
    }

    #[test]
    fn numbers_are_where_they_belong_and_names_are_evenly_spaced() {
        let circles = |x: &[&str]| {
            let values: Vec<f64> = x.iter().map(|_| 1.0).collect();
            attributes(&svg(&panel(Form::Lines, x, &[&values])), "cx")
        };
        let places = circles(&["100", "200", "400"]);
        let share = (places[1] - places[0]) / (places[2] - places[0]);
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{places:?}");
        let places = circles(&["1", "10", "100"]);
        assert!((places[1] - places[0] - (places[2] - places[1])).abs() <= 1.0, "{places:?}");
    }

    /// A line between the values of two names would say that there is something between them.
    #[test]
    fn values_of_names_are_not_joined() {
        for x in [&["none", "range", "all"][..], &["100 t=4 s=1", "100 t=4 s=4"], &["1", "2", "opt"]] {
            let values: Vec<f64> = (1..=x.len()).map(|value| value as f64).collect();
            let svg = svg(&panel(Form::Lines, x, &[&values]));
            assert!(!svg.contains("<circle") && svg.matches("<rect").count() == x.len(), "{svg}");
            let places = attributes(&svg, "x");
            assert!(places.len() >= x.len());
        }
        assert!(svg(&panel(Form::Lines, &["64K", "1 MB"], &[&[1.0, 2.0]])).contains("<circle"));
    }

    /// Wide labels at the ends of the axis stay within the picture.
    #[test]
    fn labels_of_the_horizontal_axis_stay_in_the_picture() {
        for form in [Form::Bars, Form::Lines] {
            for x in [
                &["tatp-update-location", "tpcc-new-order-arrays"][..],
                &["1000000", "100000000"],
                &["alone-as-it-is"],
            ] {
                let values: Vec<f64> = x.iter().map(|_| 1.0).collect();
                let panel = panel(form, x, &[&values]);
                let layout = Layout::of(&panel);
                let space = f64::from(SIZE.0) - layout.left - layout.right;
                for (label, place) in panel.x.iter().zip(&layout.places) {
                    let at = layout.left
                        + (place - layout.ends.start) / (layout.ends.end - layout.ends.start) * space;
                    let half = width(label) / 2.0;
                    assert!(at - half >= -1.0 && at + half <= f64::from(SIZE.0) + 1.0, "{label}: {layout:?}");
                }
            }
        }
    }

    #[test]
    fn panels_of_zeros_are_known() {
        assert!(is_all_zero(&panel(Form::Bars, &["a", "b"], &[&[0.0, 0.0], &[0.0, 0.0]])));
        assert!(!is_all_zero(&panel(Form::Lines, &["1", "2"], &[&[0.0, 0.0], &[0.0, 1e-9]])));
        let mut marked = panel(Form::Bars, &["a"], &[&[0.0]]);
        marked.marks.push(Mark { curve: None, x: "a".into(), value: 1.5, range: None });
        assert!(!is_all_zero(&marked));
        marked.curves[0].values[0] = Some(Spread { low: 0.0, median: 0.0, high: 2.0 });
        marked.marks.clear();
        assert!(!is_all_zero(&marked));
        // The page shows no empty frame.
        let page = crate::report::plot(&panel(Form::Bars, &["a"], &[&[0.0]])).into_string();
        assert!(page.contains("Every value is 0.") && !page.contains("<svg"), "{page}");
    }

    #[test]
    fn what_has_no_values_is_known() {
        let mut empty = panel(Form::Lines, &["1", "2"], &[&[1.0, 2.0]]);
        assert!(has_values(&empty));
        empty.curves[0].values = vec![None, None];
        assert!(!has_values(&empty));
        assert!(svg(&empty).contains("not run"));
        empty.curves.clear();
        assert!(!has_values(&empty));
    }
}
