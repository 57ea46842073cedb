//! Power failures: when they happen, and what they leave.

use std::ops::Range;
use std::str::FromStr;

use serde::Serialize;
use strandline_core::memory::Event;
use strandline_sim::numbers::Cycle;
use strandline_sim::run::{Prepared, recover};
use strandline_sim::scheme::Entry;
use strandline_sim::{Announced, Crash, Description};
use strandline_workloads::SchemeName;

/// When power fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrashAt {
    /// At a cycle, counted from the threads' start.
    Cycle(u64),
    /// After this percentage of the part that counts.
    Share(f64),
}

impl CrashAt {
    /// Returns whether the cycle depends on the run's length.
    pub fn is_share(&self) -> bool {
        matches!(self, Self::Share(_))
    }

    /// Returns the cycle; `counted` is the part of the run whose transactions count.
    pub fn cycle(&self, counted: &Range<Cycle>) -> Cycle {
        match *self {
            Self::Cycle(cycle) => Cycle::new(cycle),
            Self::Share(percent) => {
                counted.start + ((counted.end - counted.start) as f64 * percent / 100.0) as u64
            }
        }
    }
}

impl FromStr for CrashAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected a cycle such as 3000000, or a share of the run such as 50%".to_owned();
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Share(percent)),
                _ => Err(expected()),
            },
            None => text.replace('_', "").parse().map(Self::Cycle).map_err(|_| expected()),
        }
    }
}

/// The state after a power failure, and the result of recovery.
#[derive(Serialize)]
pub struct CrashReport {
    /// The cycle.
    pub at: u64,
    /// Transactions that had entered commit.
    pub entered_commit: usize,
    /// Transactions that had been acknowledged as durable.
    pub acknowledged: usize,
    /// The result of recovery; absent if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Recovered>,
    /// Why recovery failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Recovery's findings and actions.
#[derive(Serialize)]
pub struct Recovered {
    /// Log records read.
    pub records: u64,
    /// Committed transactions in the logs.
    pub committed: u64,
    /// The number of these that were replayed.
    pub replayed: u64,
    /// Words stored home.
    pub words: u64,
    /// Words of the pool that the hardware's recovery changed; absent without hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words_by_hardware: Option<u64>,
}

impl CrashReport {
    /// Recovers from a crash.
    pub fn of(
        crash: Crash,
        events: &[Announced],
        (prepared, machine, scheme, hardware): (&Prepared, &Description, SchemeName, &Entry),
    ) -> Self {
        let before = &events[..crash.events];
        let count = |of: fn(&Event) -> bool| before.iter().filter(|told| of(&told.event)).count();
        let recovered = recover(prepared, machine, scheme, hardware, crash.image);
        // If the hardware reports numbers, they take precedence.
        let numbered = |up_to: u64| {
            before
                .iter()
                .filter(|told| matches!(told.event, Event::Commit(n) if (1..=up_to).contains(&n)))
                .count()
        };
        Self {
            at: crash.at.number(),
            entered_commit: count(|event| matches!(event, Event::Commit(1..))),
            acknowledged: match crash.acknowledged {
                Some(up_to) => numbered(up_to),
                None => count(|event| matches!(event, Event::Acknowledged(1..))),
            },
            error: recovered.as_ref().err().map(|error| format!("{error:#}")),
            recovered: recovered.ok().map(|found| Recovered {
                records: found.report.records,
                committed: found.report.committed,
                replayed: found.report.replayed,
                words: found.report.words,
                words_by_hardware: hardware.make.map(|_| found.by_hardware),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_fails_at_cycles_and_shares() {
        let counted = Cycle::new(1000)..Cycle::new(3000);
        let at = |text: &str| text.parse::<CrashAt>().map(|at| at.cycle(&counted).number());
        assert_eq!(
            (at("7"), at("1_000"), at("50%"), at("0%"), at("12.5%")),
            (Ok(7), Ok(1000), Ok(2000), Ok(1000), Ok(1250))
        );
        for text in ["", "%", "soon", "101%", "-1", "-1%", "NaN%"] {
            assert!(at(text).unwrap_err().contains("50%"), "{text}");
        }
    }
}
