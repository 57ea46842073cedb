//! Verdicts, and the rows of a report.

use super::{CrashStates, Test, Verdict};
use crate::Setting;

/// The results of a test under one setting; serialises to the row that `strandline-check litmus --json` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Row {
    /// The test's name in the file.
    pub name: String,
    /// The setting.
    pub setting: Setting,
    /// The number of distinct crash states, over all locations and all crash points.
    pub states: usize,
    /// The answers, in the order of the `ask` lines.
    pub asks: Vec<Answer>,
    /// The answers to the `final` lines, in order. They are the same under every setting.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub finals: Vec<Answer>,
}

/// An `ask` or a `final` line and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Answer {
    /// The question's text in the file.
    pub ask: String,
    /// True if a crash, or a run without one, can leave the values of the question.
    pub verdict: Verdict,
    /// The answer that the test's source gives under this setting, if any.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub published: Option<Verdict>,
}

impl Answer {
    /// Returns whether the source gives another answer.
    pub fn contradicts(&self) -> bool {
        self.published.is_some_and(|published| published != self.verdict)
    }
}

impl CrashStates {
    /// Returns the row of `test` under `setting`, from its crash states.
    pub fn row(&self, test: &Test, setting: Setting) -> Row {
        let ask = |ask: &super::Ask| Answer {
            ask: ask.text.clone(),
            verdict: Verdict::of(self.allows(setting, ask)),
            published: ask.published.filter(|_| setting == Setting::Line),
        };
        let final_answer = |question: &super::Final| Answer {
            ask: question.text.clone(),
            verdict: Verdict::of(self.ends_with(question)),
            published: question.published,
        };
        Row {
            name: test.name.clone(),
            setting,
            states: self.count(setting),
            asks: test.asks.iter().map(ask).collect(),
            finals: test.finals.iter().map(final_answer).collect(),
        }
    }
}
