//! A panel as inline SVG. Colours are CSS variables, so that the page's light and dark settings reach them.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::claim::readable;
use crate::measurements::Spread;
use crate::panel::{Curve, Form, Mark, Panel};

/// Pixels; the page scales them.
const SIZE: (u32, u32) = (480, 300);
const FONT: u32 = 13;
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

/// The panel as an `svg` element.
pub fn svg(panel: &Panel) -> String {
    let mut text = String::new();
    // Writing to a string does not fail, and a drawing that does is seen.
    let drawn = draw(panel, &mut text);
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
    let (width, height) = SIZE;
    // Within HTML the name space is known; the size is the page's business.
    text.replace(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\"")
        .replace(&format!("width=\"{width}\" height=\"{height}\" viewBox"), "viewBox")
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

fn draw(panel: &Panel, into: &mut String) -> Drawn<()> {
    let root = SVGBackend::with_string(into, SIZE).into_drawing_area();
    let groups = panel.x.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .margin_top(10)
        .margin_right(10)
        .set_label_area_size(LabelAreaPosition::Left, 52)
        .set_label_area_size(LabelAreaPosition::Bottom, 40)
        .build_cartesian_2d(-0.5..groups - 0.5, range(panel))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(MUTED)
        .y_labels(6)
        .y_label_formatter(&|value| readable(*value))
        .y_label_style(font(MUTED))
        .x_label_formatter(&|_| String::new())
        .x_labels(2)
        .set_all_tick_mark_size(0)
        // Room between the axis and its numbers, which browsers draw a little wider than they are laid out.
        .set_tick_mark_size(LabelAreaPosition::Left, 6)
        .draw()?;
    let bottom = SIZE.1 as i32 - 36;
    let centred = |colour| font(colour).pos(Pos::new(HPos::Center, VPos::Top));
    for (at, x) in panel.x.iter().enumerate() {
        let (pixel, _) = chart.backend_coord(&(at as f64, 0.0));
        root.draw(&Text::new(x.clone(), (pixel, bottom), centred(INK)))?;
    }
    for at in (0..panel.x.len()).filter(|&at| panel.curves.iter().all(|curve| curve.values[at].is_none())) {
        let place = chart.backend_coord(&(at as f64, 0.0));
        root.draw(&Text::new("not run", (place.0, place.1 - 22), centred(MUTED)))?;
    }
    let (middle, _) = chart.backend_coord(&(groups / 2.0 - 0.5, 0.0));
    root.draw(&Text::new(panel.x_label.clone(), (middle, bottom + 18), centred(MUTED)))?;
    if panel.form == Form::Bars && !panel.curves.is_empty() {
        let (from, to) = (chart.backend_coord(&(-0.5, 1.0)), chart.backend_coord(&(groups - 0.5, 1.0)));
        root.draw(&PathElement::new([from, to], MUTED))?;
    }
    for (number, curve) in panel.curves.iter().enumerate() {
        match panel.form {
            Form::Bars => bars(panel, number, curve, &chart, &root)?,
            Form::Lines => line(curve, &chart, &root)?,
        }
    }
    for mark in &panel.marks {
        draw_mark(panel, mark, &chart, &root)?;
    }
    root.present()?;
    Ok(())
}

fn font(colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", FONT).into_font().color(&colour)
}

/// From zero to a little above all that is drawn.
fn range(panel: &Panel) -> std::ops::Range<f64> {
    let drawn = panel.curves.iter().flat_map(|curve| curve.values.iter().flatten());
    let marks = panel.marks.iter().flat_map(|mark| {
        let (low, high) = mark.range.unwrap_or((mark.value, mark.value));
        [low, high]
    });
    let values = drawn.flat_map(|spread| [spread.low, spread.high]).chain(marks).filter(|v| v.is_finite());
    let (low, high) = values.fold((0.0, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)));
    let high = cut(panel).unwrap_or(high);
    let high = if high > low { high } else { low + 1.0 };
    1.06 * low..1.06 * high
}

/// Where bars are cut off: one system far above all others would make these unreadable.
fn cut(panel: &Panel) -> Option<f64> {
    let highest = |curve: &Curve| {
        curve.values.iter().flatten().map(|spread| spread.high).filter(|v| v.is_finite()).fold(0.0, f64::max)
    };
    let mut heights: Vec<f64> = panel.curves.iter().map(highest).collect();
    heights.sort_by(f64::total_cmp);
    let [.., second, first] = heights[..] else { return None };
    let marks = panel.marks.iter().map(|mark| mark.range.map_or(mark.value, |(_, high)| high));
    let rest = 1.1 * marks.fold(second, f64::max);
    (panel.form == Form::Bars && first > 1.3 * rest).then_some(rest)
}

/// Where a curve's bar in a group begins, and how wide it is, in groups.
fn bar(panel: &Panel, number: usize) -> (f64, f64) {
    let width = 0.84 / panel.curves.len().max(1) as f64;
    (number as f64 * width - 0.42, width)
}

fn bars(panel: &Panel, number: usize, curve: &Curve, chart: &Chart, root: &Area) -> Drawn<()> {
    let (begin, width) = bar(panel, number);
    let cut = cut(panel).unwrap_or(f64::INFINITY);
    for (group, spread) in values(curve) {
        let left = group + begin;
        let top_left = chart.backend_coord(&(left + 0.08 * width, spread.median.min(cut)));
        let bottom_right = chart.backend_coord(&(left + 0.92 * width, 0.0));
        root.draw(&Rectangle::new([top_left, bottom_right], colour(curve.colour).filled()))?;
        if spread.median > cut {
            let (x, y) = chart.backend_coord(&(left + width / 2.0, cut));
            let style = font(INK).pos(Pos::new(HPos::Center, VPos::Bottom));
            root.draw(&Text::new(readable((10.0 * spread.median).round() / 10.0), (x, y - 1), style))?;
        } else {
            whisker(left + width / 2.0, spread, INK, chart, root)?;
        }
    }
    Ok(())
}

fn line(curve: &Curve, chart: &Chart, root: &Area) -> Drawn<()> {
    let style = colour(curve.colour).stroke_width(2);
    // A gap stays a gap.
    for part in curve.values.iter().enumerate().collect::<Vec<_>>().split(|(_, value)| value.is_none()) {
        let points: Vec<_> = part
            .iter()
            .filter_map(|(at, spread)| Some(chart.backend_coord(&(*at as f64, spread.as_ref()?.median))))
            .collect();
        root.draw(&PathElement::new(points, style))?;
    }
    for (at, spread) in values(curve) {
        whisker(at, spread, colour(curve.colour), chart, root)?;
        let centre = chart.backend_coord(&(at, spread.median));
        root.draw(&Circle::new(centre, 3, colour(curve.colour).filled()))?;
    }
    Ok(())
}

fn values(curve: &Curve) -> impl Iterator<Item = (f64, Spread)> {
    curve.values.iter().enumerate().filter_map(|(at, spread)| Some((at as f64, (*spread)?)))
}

/// The middle half of the repetitions.
fn whisker(x: f64, spread: Spread, colour: RGBColor, chart: &Chart, root: &Area) -> Drawn<()> {
    // What leaves the plot is cut off.
    let top = chart.y_range().end;
    let ends = [spread.low, spread.high].map(|value| chart.backend_coord(&(x, value.min(top))));
    root.draw(&PathElement::new(ends, colour))?;
    Ok(())
}

/// The paper's number: a diamond, with its range where it gives one.
fn draw_mark(panel: &Panel, mark: &Mark, chart: &Chart, root: &Area) -> Drawn<()> {
    let Some(group) = panel.x.iter().position(|x| *x == mark.x) else { return Ok(()) };
    let number = panel.curves.iter().position(|curve| Some(&curve.name) == mark.curve.as_ref());
    let shift = match (panel.form, number) {
        (Form::Bars, Some(number)) => {
            let (begin, width) = bar(panel, number);
            begin + width / 2.0
        }
        (Form::Bars, None) if mark.curve.is_some() => return Ok(()),
        _ => 0.0,
    };
    let x = group as f64 + shift;
    if let Some((low, high)) = mark.range {
        let ends = [low, high].map(|value| chart.backend_coord(&(x, value)));
        for (x, y) in ends {
            root.draw(&PathElement::new([(x - 3, y), (x + 3, y)], INK))?;
        }
        root.draw(&PathElement::new(ends, INK))?;
    }
    let (x, y) = chart.backend_coord(&(x, mark.value));
    let diamond = [(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y), (x, y - 6)];
    let fill = number.map_or(GROUND, |number| colour(panel.curves[number].colour));
    root.draw(&Polygon::new(diamond, fill.filled()))?;
    root.draw(&PathElement::new(diamond, INK.stroke_width(2)))?;
    Ok(())
}
