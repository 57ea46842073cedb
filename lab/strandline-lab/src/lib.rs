//! The laboratory measures the figures and tables of the persistent-memory papers again, and judges the papers' claims by the measurements.
//!
//! A [`Paper`] is a list of figures, each with how it is measured and drawn, and of claims, each with how it is judged. Figures yield
//! [`Measurements`], named series of numbers, and claims are functions of these. The papers' numbers are in the data file `papers/claims.toml`. No
//! constant is tuned to make a figure match, and no verdict is written by a person. `docs/laboratory.md` explains how to add a paper.
//!
//! # The parts
//!
//! Each part uses only those above it, and no paper uses another; `tests/directions.rs` tests that.
//!
//! | files and folders | what is in them |
//! |---|---|
//! | `error` | why a run failed |
//! | `claim`, `verdict`, `venue` | the papers' claims as data, the rules that judge them, and where they are judged |
//! | `measurements`, `panel`, `finding` | what was measured, what is drawn from it, and what was found about a claim |
//! | `machine`, `noise` | the machine at hand, and how its noise is kept from deciding verdicts |
//! | `memo` | the results of earlier runs |
//! | `session`, `settings` | a run in progress, and its options |
//! | `paper` | a paper: figures, each with functions that measure and draw it, and claims, each with one that judges it |
//! | `reading` | what the papers' texts leave open |
//! | `reproduce` | measures a paper's figures and judges its claims |
//! | `results`, `report` | `results.json` and the pages |
//! | `ledger` | work divided among several machines: plans, and files of results |
//! | `sweep` | sweeps over the parameters of any machine |
//! | `cells` | software schemes at the points of a figure, natively and simulated |
//! | `blurred`, `loose_ordering`, `deferred_commit`, `atom`, `wrap`, `compare` | a paper each; the last compares all schemes |
//! | `papers` | the list of papers |

pub mod atom;
pub mod blurred;
pub mod cells;
mod claim;
pub mod compare;
pub mod deferred_commit;
mod error;
mod finding;
pub mod ledger;
pub mod loose_ordering;
pub mod machine;
mod measurements;
mod memo;
mod noise;
mod panel;
mod paper;
mod papers;
mod reading;
mod report;
mod reproduce;
mod results;
mod session;
mod settings;
pub mod sweep;
mod venue;
mod verdict;
pub mod wrap;

pub use claim::{Claim, Kind, Value, claims, readable};
pub use error::Error;
pub use finding::{At, Beside, Finding, Measured, Order, Setting};
pub use measurements::{Key, Measurements, Series, Spread};
pub use panel::{Curve, Form, Mark, Panel};
pub use paper::{ClaimSpec, FigureSpec, Paper};
pub use papers::PAPERS;
pub use reading::{Reading, readings};
pub use report::{Run, html, overview, scoreboard};
pub use reproduce::{Evaluation, reproduce, reproduce_with};
pub use results::json;
pub use session::{Effort, Pace, Session};
pub use settings::{Interval, Settings, Simulation, Together};
pub use venue::{Site, Venue};
pub use verdict::{
    Baseline, Basis, MARGIN, SEEDS, Score, TOLERANCE, Verdict, above, exact, headline, in_all, meets,
    mixed_headline, trend,
};

/// The examples of the architecture page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/architecture.md")]
struct Architecture;
