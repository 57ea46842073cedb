//! The systems and the machine of the paper, and access to its figures' numbers.

use strandline_sim::Description;

use crate::error::Error;
use crate::measurements::{Key, Measurements, Spread};
use crate::session::Session;

/// The paper's simulated machine.
pub const MACHINE: &str = "wrap";

/// The systems: name in series, the paper's name.
pub const SYSTEMS: [(&str, &str); 3] =
    [("non-transactional", "non-transactional"), ("undo-log", "undo log"), ("wrap", "WrAP")];

/// Returns the paper's machine with some values replaced.
pub fn machine(session: &Session, overrides: &[String]) -> Result<Description, Error> {
    session.load(MACHINE, overrides)
}

/// Returns a number of a figure.
pub fn number(
    all: &Measurements,
    figure: &str,
    setting: &str,
    system: &str,
    quantity: &str,
    x: &str,
) -> Option<f64> {
    all.median(Key { figure, setting, system, quantity }, x)
}

/// Adds a number to a figure.
pub fn add(
    into: &mut Measurements,
    (figure, setting, system, quantity): (&str, &str, &str, &str),
    x: impl ToString,
    value: f64,
) {
    into.add(Key { figure, setting, system, quantity }, &x.to_string(), Spread::exactly(value));
}
