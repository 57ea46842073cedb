//! Parameters of hardware schemes: described once, beside the scheme, and set in the machine's `[scheme]` table.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::Entry;
use crate::Description;

/// A numerical parameter of a scheme.
///
/// ```
/// use strandline_sim::scheme::Parameter;
///
/// const ENTRIES: Parameter = Parameter {
///     name: "entries",
///     unit: "entries",
///     range: 1..=4096,
///     default: 32,
///     description: "the capacity of the buffer",
/// };
/// let machine = |overrides: &[&str]| strandline_sim::file::load("loc", overrides).unwrap();
/// assert_eq!(ENTRIES.of(&machine(&[])), 32);
/// assert_eq!(ENTRIES.of(&machine(&["scheme.entries=64"])), 64);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key in the machine's `[scheme]` table.
    pub name: &'static str,
    /// The unit that it counts.
    pub unit: &'static str,
    /// The permitted values.
    pub range: RangeInclusive<u64>,
    /// Its default value.
    pub default: u64,
    /// A description in one line.
    pub description: &'static str,
}

impl Parameter {
    /// Returns its value on `machine`.
    pub fn of(&self, machine: &Description) -> u64 {
        machine.scheme.get(self.name).copied().unwrap_or(self.default)
    }
}

/// Refuses unknown parameters, and values out of range.
pub(super) fn check(entry: &Entry, values: &BTreeMap<String, u64>) -> Result<(), String> {
    for (key, value) in values {
        let Some(parameter) = entry.parameters.iter().find(|parameter| parameter.name == key) else {
            let names: Vec<_> = entry.parameters.iter().map(|parameter| parameter.name).collect();
            let has = match names.is_empty() {
                true => "has no parameters: leave it out".to_owned(),
                false => format!("has {}", names.join(", ")),
            };
            return Err(format!("scheme.{key}: the hardware scheme {} {has}", entry.name));
        };
        if !parameter.range.contains(value) {
            let (least, most) = (parameter.range.start(), parameter.range.end());
            return Err(format!("scheme.{key} = {value}: must be {least} to {most} {}", parameter.unit));
        }
    }
    Ok(())
}
