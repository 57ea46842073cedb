//! The line from which a failing history is repeated.

use std::fmt::{self, Write};

use super::crash::Decision;
use super::explorer::Broken;
use crate::Setting;

/// A line that [`Check::replay`](crate::Check::replay) cannot read, or that belongs to another check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadReplay {
    /// The line is malformed.
    Malformed(String),
    /// The line has another number of threads than the check.
    Threads {
        /// The line's number of threads.
        found: usize,
        /// The check's number of threads.
        threads: usize,
    },
}

impl fmt::Display for BadReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(line) => write!(
                f,
                "{line:?} is not the replay line of a finding: copy the text in quotation marks behind `replay:`"
            ),
            Self::Threads { found, threads } => {
                write!(f, "the finding has {found} threads, and this check {threads}: call threads({found})")
            }
        }
    }
}

impl std::error::Error for BadReplay {}

/// Everything besides the program that determines a failing history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    pub setting: Setting,
    pub threads: usize,
    /// The seed of the delays of stores.
    pub delays: Option<u64>,
    /// The threads that continue at the choice points.
    pub schedule: Vec<(u32, usize)>,
    /// When power failed, if it did.
    pub time: Option<u32>,
    /// For each power failure the decisions about what survived, and after how many operations of recovery the next failure came.
    pub crashes: Vec<(Vec<Decision>, usize)>,
}

impl Replay {
    /// Returns the replay of `broken`, in a setting with so many threads.
    pub fn new((setting, threads): (Setting, usize), broken: &Broken, delays: Option<u64>) -> Self {
        let time = (!broken.crashes.is_empty()).then_some(broken.time);
        let (schedule, crashes) = (broken.schedule.clone(), broken.crashes.clone());
        Self { setting, threads, delays, schedule, time, crashes }
    }

    /// Reads the line of a check with so many threads.
    ///
    /// # Errors
    /// Returns an error if it is not such a line.
    pub fn of(line: &str, threads: usize) -> Result<Self, BadReplay> {
        let replay = Self::parse(line).ok_or_else(|| BadReplay::Malformed(line.to_owned()))?;
        if replay.threads == threads {
            Ok(replay)
        } else {
            Err(BadReplay::Threads { found: replay.threads, threads })
        }
    }

    /// Formats the replay: `line 2 delays=7 schedule=0:1,5:0 crash=17 0x8=0x2,0x9=0x0@4 0x1=0x0@0` has the setting, the number of threads, and
    /// optional parts.
    pub fn to_line(&self) -> String {
        let mut text = format!("{} {}", self.setting, self.threads);
        if let Some(delays) = self.delays {
            let _ = write!(text, " delays={delays}");
        }
        let schedule: Vec<String> =
            self.schedule.iter().map(|(number, thread)| format!("{number}:{thread}")).collect();
        let _ = write!(text, " schedule={}", schedule.join(","));
        if let Some(time) = self.time {
            let _ = write!(text, " crash={time}");
            for (decisions, operations) in &self.crashes {
                let words: Vec<String> = decisions
                    .iter()
                    .map(|decision| format!("{:#x}={:#x}", decision.word, decision.value))
                    .collect();
                let _ = write!(text, " {}@{operations}", words.join(","));
            }
        }
        text
    }

    /// Parses a line of [`Replay::to_line`].
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split_whitespace().peekable();
        let setting = parts.next()?.parse().ok()?;
        let threads = parts.next()?.parse().ok()?;
        let mut take = |key: &str| parts.next_if(|part| part.starts_with(key)).map(|part| &part[key.len()..]);
        let delays = match take("delays=") {
            Some(seed) => Some(seed.parse().ok()?),
            None => None,
        };
        let pair = |pair: &str| {
            let (number, thread) = pair.split_once(':')?;
            Some((number.parse().ok()?, thread.parse().ok()?))
        };
        let schedule = list(take("schedule=")?).map(pair).collect::<Option<_>>()?;
        let time = match take("crash=") {
            Some(time) => Some(time.parse().ok()?),
            None => None,
        };
        let crash = |part: &str| {
            let (words, operations) = part.split_once('@')?;
            let decisions = list(words).map(decision).collect::<Option<_>>()?;
            Some((decisions, operations.parse().ok()?))
        };
        let crashes: Vec<_> = parts.map(crash).collect::<Option<_>>()?;
        let is_whole = time.is_some() != crashes.is_empty() && threads > 0;
        is_whole.then_some(Self { setting, threads, delays, schedule, time, crashes })
    }
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.is_empty())
}

fn decision(text: &str) -> Option<Decision> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (word, value) = text.split_once('=')?;
    let (word, value) = (u32::try_from(number(word)?).ok()?, number(value)?);
    Some(Decision { word, chosen: 0, of: 0, value, newest: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_everything() {
        let decision = |word, value| Decision { word, chosen: 0, of: 0, value, newest: 0 };
        let replay = Replay {
            setting: Setting::Word,
            threads: 2,
            delays: Some(7),
            schedule: vec![(0, 1), (5, 0)],
            time: Some(17),
            crashes: vec![(vec![decision(8, 2), decision(9, u64::MAX)], 4), (vec![], 0)],
        };
        let line = replay.to_line();
        assert_eq!(line, "word 2 delays=7 schedule=0:1,5:0 crash=17 0x8=0x2,0x9=0xffffffffffffffff@4 @0");
        assert_eq!(Replay::parse(&line), Some(replay.clone()));
        let stopped = Replay { delays: None, schedule: vec![], time: None, crashes: vec![], ..replay };
        assert_eq!(Replay::parse(&stopped.to_line()), Some(stopped));
    }

    #[test]
    fn what_is_no_such_line_is_refused() {
        for line in ["", "line", "line 0 schedule=", "line 1", "line 1 schedule=0", "page 1 schedule="] {
            assert_eq!(Replay::parse(line), None, "{line}");
        }
        for line in
            ["line 1 schedule= crash=3", "line 1 schedule= crash=3 8=1@0", "line 1 schedule= 0x8=0x1@0"]
        {
            assert_eq!(Replay::parse(line), None, "{line}");
        }
    }
}
