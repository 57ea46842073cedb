//! Settings: which parts of a cache line may survive.

use std::fmt;
use std::str::FromStr;

/// The parts of memory that a power failure may tear: the settings of the persistency rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
pub enum Setting {
    /// Stores to one line persist in order, as x86 guarantees.
    Line,
    /// Each 64-bit word persists by itself: the assumption of schemes that rely only on 64-bit atomicity.
    Word,
    /// Every store that is visible to threads survives: eADR, battery-backed memory.
    FlushOnFail,
}

impl Setting {
    /// All settings, as `--setting` takes them.
    pub const ALL: [Self; 3] = [Self::Line, Self::Word, Self::FlushOnFail];

    /// Returns the name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Word => "word",
            Self::FlushOnFail => "flush-on-fail",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|setting| setting.name() == name)
            .ok_or_else(|| format!("there is no setting {name:?}; choose from line, word, flush-on-fail"))
    }
}
