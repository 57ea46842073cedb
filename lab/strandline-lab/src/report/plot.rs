//! A panel as inline SVG. Colours are CSS variables, so that the page's light and dark settings reach them.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{FONT, Rows, Scale, parsed, staggered, thinned, width};
use crate::claim::readable;
use crate::measurements::Spread;
use crate::panel::{Curve, Form, Mark, Panel};

/// Pixels of a plot whose labels have one row; the page scales them.
const SIZE: (u32, u32) = (480, 300);
/// Pixels above the plot, and at least to its right.
const MARGIN: f64 = 10.0;
/// Pixels between the vertical axis and its labels.
const TICK: f64 = 6.0;
/// Pixels between rows of labels.
const ROW: f64 = 17.0;
/// The share of the axis between its ends and the first and the last number on it.
const PADDING: f64 = 0.04;
/// How many colours the page's style defines.
pub const COLOURS: usize = 8;

// Colours that stand for the page's variables until the drawing is done.
const INK: RGBColor = RGBColor(1, 1, 1);
const MUTED: RGBColor = RGBColor(2, 2, 2);
const GRID: RGBColor = RGBColor(3, 3, 3);
const GROUND: RGBColor = RGBColor(4, 4, 4);

fn colour(index: usize) -> RGBColor {
    RGBColor(16 + (index % COLOURS) as u8, 0, 255)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// Whether there is anything to draw.
pub fn has_values(panel: &Panel) -> bool {
    panel.curves.iter().any(|curve| values(curve).next().is_some())
}

/// The panel as an `svg` element.
pub fn svg(panel: &Panel) -> String {
    let layout = Layout::of(panel);
    let mut text = String::new();
    // Writing to a string does not fail, and a drawing that does is seen.
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
    // Within HTML the name space is known; the size is the page's business.
    text.replace(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\"")
        .replace(&format!("width=\"{width}\" height=\"{height}\" viewBox"), "viewBox")
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Where things are in a plot.
#[derive(Debug)]
struct Layout {
    size: (u32, u32),
    /// Pixels left of the plot, right of it and below.
    left: f64,
    right: f64,
    bottom: f64,
    y: Scale,
    ticks: Vec<(f64, String)>,
    /// Where each x of the panel is along the axis, and the axis' ends.
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
        // The first and the last label may be wider than what is beside them.
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
        let further = rows.iter().flatten().max().map_or(0.0, |&row| row as f64) * ROW;
        let size = (SIZE.0, SIZE.1 + further as u32);
        Self { size, left, right, bottom: 40.0 + further, y, ticks, places, ends, rows }
    }
}

/// The vertical scale: all that is drawn is on it.
fn vertical(panel: &Panel) -> Scale {
    let spreads = || panel.curves.iter().flat_map(values).map(|(_, spread)| spread);
    let marks = panel.marks.iter().flat_map(|mark| {
        let (low, high) = mark.range.unwrap_or((mark.value, mark.value));
        [low, high]
    });
    let drawn: Vec<f64> = spreads().flat_map(|spread| [spread.low, spread.high]).chain(marks).collect();
    // Each bar is to be seen, and of a line its highest point.
    let heights: Vec<f64> = match panel.form {
        Form::Bars => spreads().map(|spread| spread.median).collect(),
        Form::Lines => {
            let highest = |curve: &Curve| values(curve).map(|(_, spread)| spread.median).fold(0.0, f64::max);
            panel.curves.iter().map(highest).collect()
        }
    };
    Scale::of_heights(&drawn, &heights)
}

/// Where each x is along the horizontal axis, the axis' ends, and whether it is one of numbers: groups of bars, and what is no number, are
/// evenly spaced.
fn horizontal(panel: &Panel) -> (Vec<f64>, std::ops::Range<f64>, bool) {
    let numbers: Option<Vec<f64>> = panel.x.iter().map(|x| parsed(x)).collect();
    match numbers.filter(|numbers| panel.form == Form::Lines && numbers.len() > 1) {
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

/// A plot under way.
struct Plot<'p, 'a, 'b> {
    panel: &'p Panel,
    layout: &'p Layout,
    chart: Chart<'a, 'b>,
    root: Area<'a>,
}

fn draw(panel: &Panel, layout: &Layout, into: &mut String) -> Drawn<()> {
    let root = SVGBackend::with_string(into, layout.size).into_drawing_area();
    let chart = ChartBuilder::on(&root)
        .margin_top(MARGIN as u32)
        .margin_right(layout.right.ceil() as u32)
        .set_label_area_size(LabelAreaPosition::Left, layout.left.ceil() as u32)
        .set_label_area_size(LabelAreaPosition::Bottom, layout.bottom as u32)
        .build_cartesian_2d(layout.ends.clone(), layout.y.range())?;
    let plot = Plot { panel, layout, chart, root };
    plot.axes()?;
    for (number, curve) in panel.curves.iter().enumerate() {
        match panel.form {
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

/// What a curve has, by the number of its x.
fn values(curve: &Curve) -> impl Iterator<Item = (usize, Spread)> {
    let known = curve.values.iter().enumerate().filter_map(|(at, spread)| Some((at, (*spread)?)));
    known.filter(|(_, spread)| spread.median.is_finite())
}

impl Plot<'_, '_, '_> {
    /// The pixel of a place on the horizontal axis and a value.
    fn pixel(&self, place: f64, value: f64) -> (i32, i32) {
        self.chart.backend_coord(&(place, self.layout.y.place(value)))
    }

    fn axes(&self) -> Drawn<()> {
        let Self { panel, layout, root, .. } = self;
        let (start, end) = (layout.ends.start, layout.ends.end);
        for (value, label) in &layout.ticks {
            let (left, right) = (self.pixel(start, *value), self.pixel(end, *value));
            root.draw(&PathElement::new([left, right], GRID))?;
            let style = font(MUTED).pos(Pos::new(HPos::Right, VPos::Center));
            root.draw(&Text::new(label.clone(), (left.0 - TICK as i32, left.1), style))?;
        }
        let base = layout.y.base();
        root.draw(&PathElement::new([self.pixel(start, base), self.pixel(end, base)], MUTED))?;
        let bottom = (f64::from(layout.size.1) - layout.bottom) as i32;
        let centred = |colour| font(colour).pos(Pos::new(HPos::Center, VPos::Top));
        for ((x, &place), row) in panel.x.iter().zip(&layout.places).zip(&layout.rows) {
            let (pixel, _) = self.pixel(place, base);
            let below = row.map_or(4, |row| 4 + (row as f64 * ROW) as i32);
            if panel.form == Form::Lines || below > 4 {
                root.draw(&PathElement::new([(pixel, bottom), (pixel, bottom + below - 1)], GRID))?;
            }
            if row.is_some() {
                root.draw(&Text::new(x.clone(), (pixel, bottom + below), centred(INK)))?;
            }
        }
        for at in (0..panel.x.len()).filter(|&at| panel.curves.iter().all(|curve| curve.values[at].is_none()))
        {
            let (x, y) = self.pixel(layout.places[at], base);
            root.draw(&Text::new("not run", (x, y - 22), centred(MUTED)))?;
        }
        let (middle, _) = self.pixel((start + end) / 2.0, base);
        let place = (middle, layout.size.1 as i32 - 18);
        root.draw(&Text::new(panel.x_label.clone(), place, centred(MUTED)))?;
        Ok(())
    }

    /// Where a curve's bar in a group begins, and how wide it is, in groups.
    fn bar(&self, number: usize) -> (f64, f64) {
        let width = 0.84 / self.panel.curves.len().max(1) as f64;
        (number as f64 * width - 0.42, width)
    }

    fn bars(&self, number: usize, curve: &Curve) -> Drawn<()> {
        let ((begin, width), base) = (self.bar(number), self.layout.y.base());
        for (group, spread) in values(curve) {
            let left = group as f64 + begin;
            let top_left = self.pixel(left + 0.08 * width, spread.median);
            let bottom_right = self.pixel(left + 0.92 * width, base);
            // A bar of no height would look like one that is missing.
            if spread.median == 0.0 {
                let (x, y) = self.pixel(left + width / 2.0, base);
                let style = font(INK).pos(Pos::new(HPos::Center, VPos::Bottom));
                self.root.draw(&Text::new(readable(spread.median), (x, y - 1), style))?;
                continue;
            }
            self.root.draw(&Rectangle::new([top_left, bottom_right], colour(curve.colour).filled()))?;
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
        // A gap stays a gap.
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

    /// From the low end of a spread to its high one.
    fn whisker(&self, place: f64, spread: Spread, colour: RGBColor) -> Drawn<()> {
        let ends = [spread.low, spread.high].map(|value| self.pixel(place, value));
        self.root.draw(&PathElement::new(ends, colour))?;
        Ok(())
    }

    /// The paper's number: a diamond, with its range where it gives one.
    fn mark(&self, mark: &Mark) -> Drawn<()> {
        let Self { panel, layout, root, .. } = self;
        let Some(group) = panel.x.iter().position(|x| *x == mark.x) else { return Ok(()) };
        let number = panel.curves.iter().position(|curve| Some(&curve.name) == mark.curve.as_ref());
        let shift = match (panel.form, number) {
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
                root.draw(&PathElement::new([(x - 3, y), (x + 3, y)], INK))?;
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

    /// The numbers in attributes of this name.
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
            let positive = values.iter().filter(|&&value| value > 0.0).count();
            let bars = svg.matches("<rect").count();
            assert_eq!(bars, positive, "{values:?}");
        }
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
        let places = circles(&["none", "range", "all"]);
        assert!((places[1] - places[0] - (places[2] - places[1])).abs() <= 1.0, "{places:?}");
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
