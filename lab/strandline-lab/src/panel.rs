//! Panels of bars or lines, from which a figure is drawn.

use crate::measurements::Spread;

/// How a panel is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Groups of bars.
    Bars,
    /// Lines over a parameter.
    Lines,
}

/// One plot of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The panel's subject, in a few words.
    pub title: String,
    /// Bars or lines.
    pub form: Form,
    /// The name of the parameter on the horizontal axis.
    pub x_label: String,
    /// The name of the quantity on the vertical axis, with its unit.
    pub y_label: String,
    /// The parameter's values. On lines, numbers are placed at their positions on the axis; groups of bars, and other names, are evenly spaced.
    pub x: Vec<String>,
    /// The measured systems, with a curve or a colour of bars each.
    pub curves: Vec<Curve>,
    /// The numbers that the paper states, drawn as marks.
    pub marks: Vec<Mark>,
}

/// One system's values in a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name of the system that it shows.
    pub name: String,
    /// The number of its colour, which is the same in all panels of a paper.
    pub colour: usize,
    /// A value for each of the panel's x.
    pub values: Vec<Option<Spread>>,
}

/// A number of the paper, drawn at its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The curve to which it belongs; `None` for all.
    pub curve: Option<String>,
    /// The x to which it belongs.
    pub x: String,
    /// The number that the paper states.
    pub value: f64,
    /// The paper's smallest and largest value, if it gives a range.
    pub range: Option<(f64, f64)>,
}
