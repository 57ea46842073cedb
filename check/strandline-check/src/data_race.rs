//! Data races of a program of one's own, as they are told.

use std::collections::BTreeMap;
use std::fmt;

use crate::Setting;
use crate::x86::own::Run;
use crate::x86::replay::Replay;
use crate::x86::{RacingAccess, Source};

/// Two accesses of different threads to a persistent word, at least one of them a store and not both atomic, that nothing orders: no
/// lock, no atomic operation on a common word. Which of them comes first is left to chance, and so is what survives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataRace {
    /// What the word is called.
    pub word: String,
    /// Where it lies.
    pub at: u64,
    /// The access that came first in the history in which the race was seen first.
    pub first: RacingAccess,
    /// The other one.
    pub second: RacingAccess,
    /// The line that shows this history again: [`Check::replay`](crate::Check::replay).
    pub replay: String,
}

impl fmt::Display for DataRace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "data race on {}: nothing orders", self.word)?;
        writeln!(f, "  {}", self.first)?;
        writeln!(f, "  {}", self.second)?;
        write!(f, "replay: .replay({:?})", self.replay)
    }
}

/// What tells races apart: their source lines, in either order, and what is done there.
type Place = (Source, bool);

/// The races of all runs, the first one of each pair of source lines.
#[derive(Default)]
pub(crate) struct DataRaces(BTreeMap<[Place; 2], DataRace>);

impl DataRaces {
    /// Takes in the races of one run. `name` says what words are called.
    pub fn add(&mut self, run: &Run, setting: Setting, threads: usize, name: impl Fn(u32) -> String) {
        for race in &run.races {
            let mut places = race.accesses.map(|access| (access.site.at, access.is_store));
            places.sort_unstable();
            self.0.entry(places).or_insert_with(|| {
                let [first, second] = race.accesses;
                let schedule = run.schedule.clone();
                let replay =
                    Replay { setting, threads, delays: None, schedule, time: None, crashes: Vec::new() };
                let (word, at) = (name(race.word), 8 * u64::from(race.word));
                DataRace { word, at, first, second, replay: replay.to_line() }
            });
        }
    }

    /// All of them, in the order of their source lines.
    pub fn found(self) -> Vec<DataRace> {
        self.0.into_values().collect()
    }
}
