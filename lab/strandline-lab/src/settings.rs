//! What a run is asked for.

use strandline_sim::{Description, Registry};

use crate::session::Effort;

/// Which machine is simulated where a paper's figures are measured natively too.
#[derive(Clone, Debug, Default)]
pub enum Simulation {
    /// The paper's.
    #[default]
    Papers,
    /// Another one. What the paper's has to judge is not judged then.
    On(Box<Description>),
    /// None.
    Nothing,
}

/// What to reproduce, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is measured: in full, or quickly.
    pub effort: Effort,
    /// Seeds the workloads' random numbers.
    pub seed: u64,
    /// Only these claims, and the figures that they need; none for all.
    pub claims: Vec<String>,
    /// Only these figures, without judging claims; none for all.
    pub figures: Vec<String>,
    /// Transactions to record where figures count recorded ones, instead of what the effort says.
    pub transactions: Option<u64>,
    /// What is simulated beside native measurements.
    pub simulation: Simulation,
    /// Whether claims are judged with all readings of the papers' texts as well.
    pub readings: bool,
    /// Open parameters of the papers' machines, which are varied one at a time: for which values do claims hold?
    pub intervals: Vec<Interval>,
    /// Keys of the papers' machines with other values (`key=value`), each list together: do claims hold with them?
    pub together: Vec<Together>,
    /// Keys of the paper's machine that have other values (`key=value`) in all that is measured.
    pub set: Vec<String>,
    /// The schemes and workloads that are compared beyond the papers.
    pub registry: Registry,
}

/// A key of a machine's description, and values for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The key in full, as in `persistence.write_back_completes`.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
}

/// Keys of a machine's description with their values (`key=value`), all of which are set at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Together(pub Vec<String>);

impl std::str::FromStr for Together {
    type Err = String;

    /// `KEY=VALUE,KEY=VALUE,…`.
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

    /// `KEY=v1,v2,…`.
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
