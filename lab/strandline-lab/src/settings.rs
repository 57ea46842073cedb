//! The options of a run.

use strandline_sim::{Description, Registry};

use crate::session::Effort;

/// The machine that is simulated besides native measurements of a paper's figures.
#[derive(Clone, Debug, Default)]
pub enum Simulation {
    /// The paper's machine.
    #[default]
    Papers,
    /// Another machine. Claims that the paper's machine judges are then not judged.
    On(Box<Description>),
    /// No machine.
    Nothing,
}

/// The papers to reproduce, and the settings of the run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is measured: in full, or quickly.
    pub effort: Effort,
    /// Seeds the workloads' random numbers.
    pub seed: u64,
    /// The claims to judge, with the figures that they need; empty for all.
    pub claims: Vec<String>,
    /// The figures to measure, without judging claims; empty for all.
    pub figures: Vec<String>,
    /// The number of transactions to record for figures that count recorded ones, instead of the effort's number.
    pub transactions: Option<u64>,
    /// The runs that are simulated beside native measurements.
    pub simulation: Simulation,
    /// True to judge claims also under all readings of the papers' texts.
    pub readings: bool,
    /// Parameters of the papers' machines to vary one at a time, in order to find the values for which claims hold.
    pub intervals: Vec<Interval>,
    /// Lists of keys of the papers' machines with other values (`key=value`). Claims are judged with each list as a whole.
    pub together: Vec<Together>,
    /// Keys of the paper's machine with other values (`key=value`) for all measurements.
    pub set: Vec<String>,
    /// The schemes and workloads that are compared besides the papers'.
    pub registry: Registry,
}

/// A key of a machine's description, and values for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The full key, as in `persistence.write_back_completes`.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
}

/// Keys of a machine's description with their values (`key=value`), which are set together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together(pub Vec<String>);

impl std::str::FromStr for Together {
    type Err = String;

    /// Parses `KEY=VALUE,KEY=VALUE,…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let set: Vec<String> = text.split(',').map(|pair| pair.trim().to_owned()).collect();
        let is_pair = |pair: &String| {
            pair.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
        };
        if set.iter().all(is_pair) { Ok(Self(set)) } else { Err("expected KEY=VALUE,KEY=VALUE,…".into()) }
    }
}

impl std::fmt::Display for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

impl std::str::FromStr for Interval {
    type Err = String;

    /// Parses `KEY=v1,v2,…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("expected KEY=VALUE,VALUE,…")?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err("expected KEY=VALUE,VALUE,…".into());
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.values.join(","))
    }
}
