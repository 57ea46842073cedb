//! The persistency models (section 4).

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A memory persistency model, over total store order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Persist order equals volatile order (section 4.1, equation 6).
    Strict,
    /// Persist barriers order a thread's accesses (section 4.2, equation 7), and conflicting accesses persist in
    /// the order in which they executed: strong persist atomicity (equation 8).
    Epoch,
    /// Like epoch persistency, but a new strand clears the thread's order so far (section 4.3, equation 9).
    Strand {
        /// The number of strands that a hardware thread keeps apart: the n-th strand that has a persist waits for the persists of strand n −
        /// `strands`. `None`: unlimited.
        strands: Option<NonZeroU32>,
    },
    /// Intel's clwb, sfence, pcommit, sfence (section 4.4): a store becomes visible only after the persists that an earlier sync barrier covers are
    /// durable. There is no strong persist atomicity: a store may persist at any time, whenever its line happens to be written back.
    EagerSync,
}

impl Model {
    /// All models, with unlimited strands.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Epoch, Self::Strand { strands: None }, Self::EagerSync];

    /// Returns the name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Epoch => "epoch",
            Self::Strand { .. } => "strand",
            Self::EagerSync => "eager-sync",
        }
    }

    /// Returns whether conflicting accesses persist in the order in which they executed.
    pub fn strong_persist_atomicity(self) -> bool {
        self != Self::EagerSync
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| {
            format!("there is no persistency model {name:?}; choose from strict, epoch, strand, eager-sync")
        })
    }
}
