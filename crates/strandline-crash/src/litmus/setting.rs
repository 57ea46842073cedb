//! Settings, verdicts, and the rows of a report.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{CrashStates, Test};

/// What a power failure may tear apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// Stores to one line persist in order: what x86 guarantees.
    Line,
    /// Each 8-byte location persists by itself: what schemes assume that rely on nothing but 64-bit atomicity.
    Word,
    /// Every globally visible store survives: eADR, battery-backed memory.
    FlushOnFail,
}

impl Setting {
    /// All settings.
    pub const ALL: [Self; 3] = [Self::Line, Self::Word, Self::FlushOnFail];

    /// Its name on the command line and in JSON.
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
        let known = Self::ALL.into_iter().find(|setting| setting.name() == name);
        known.ok_or_else(|| "expected line, word or flush-on-fail".into())
    }
}

/// The answer to an `ask` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Some crash leaves such a state.
    Allowed,
    /// No crash does.
    Forbidden,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "allowed",
            Self::Forbidden => "forbidden",
        })
    }
}

/// What a test gives under one setting; serialises to the row that `strandline check litmus --json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The test's name.
    pub name: String,
    /// The setting.
    pub setting: Setting,
    /// The number of distinct crash states, over all locations and all crash points.
    pub states: usize,
    /// The answers, in the order of the `ask` lines.
    pub asks: Vec<Answer>,
}

/// An `ask` line and its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The question.
    pub ask: String,
    /// The answer.
    pub verdict: Verdict,
}

impl CrashStates {
    /// The row of `test`, whose crash states these are, under `setting`.
    pub fn row(&self, test: &Test, setting: Setting) -> Row {
        let answer = |ask: &super::Ask| Answer {
            ask: ask.text.clone(),
            verdict: if self.allows(setting, ask) { Verdict::Allowed } else { Verdict::Forbidden },
        };
        Row {
            name: test.name.clone(),
            setting,
            states: self.count(setting),
            asks: test.asks.iter().map(answer).collect(),
        }
    }
}
