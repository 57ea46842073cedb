//! Verdicts, and the rows of a report.

use std::fmt;

use super::{CrashStates, Test};
use crate::Setting;

/// The answer to an `ask` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
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

/// What a test gives under one setting; serialises to the row that `strandline-check litmus --json` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Row {
    /// The name that the file gives the test.
    pub name: String,
    /// The setting under which it was decided.
    pub setting: Setting,
    /// The number of distinct crash states, over all locations and all crash points.
    pub states: usize,
    /// The answers, in the order of the `ask` lines.
    pub asks: Vec<Answer>,
}

/// An `ask` line and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Answer {
    /// The question, as the file has it.
    pub ask: String,
    /// Whether a crash can leave what is asked about.
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
