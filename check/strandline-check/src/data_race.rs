//! Data races in checked programs, as a report presents them.

use std::collections::BTreeMap;
use std::fmt;

use crate::Setting;
use crate::x86::checked_program::Run;
use crate::x86::replay::Replay;
use crate::x86::{RacingAccess, Source};

/// A data race: two accesses of different threads to a persistent word, at least one of them a store and at least one of them not atomic, that
/// neither a lock nor an atomic operation on a common word orders. Chance decides which access comes first, and so what survives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataRace {
    /// The word's name in reports.
    pub word: String,
    /// The word's offset.
    pub at: u64,
    /// The access that came first in the first history that has the race.
    pub first: RacingAccess,
    /// The other access.
    pub second: RacingAccess,
    /// The line from which [`Check::replay`](crate::Check::replay) repeats this history.
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

/// The key of a race: the source line of one of its accesses, and whether that access stores. Two keys, in either order, are one race.
type Place = (Source, bool);

/// The races of all runs, one for each pair of places.
#[derive(Default)]
pub(crate) struct DataRaces(BTreeMap<[Place; 2], DataRace>);

impl DataRaces {
    /// Adds the races of one run. `name` returns the names of words.
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

    /// Returns all races, ordered by their source lines.
    pub fn found(self) -> Vec<DataRace> {
        self.0.into_values().collect()
    }
}
