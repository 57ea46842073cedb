//! The laboratory: the figures and tables of the persistent-memory papers, measured again, and their claims,
//! judged by what was measured.
//!
//! A [`Paper`] is a list of figures (how each is measured and drawn) and of claims (how each is judged). What
//! figures measure are [`Measurements`], series of numbers by name; claims are functions of these. The
//! papers' numbers are the data file `papers/claims.toml`. No constant is tuned so that a figure comes out,
//! and no verdict is typed. `docs/laboratory.md` explains how to add a paper.

pub mod atom;
pub mod blurred;
mod claim;
pub mod compare;
pub mod deferred_commit;
pub mod loose_ordering;
pub mod machine;
mod measurements;
pub mod native;
mod noise;
mod paper;
mod report;
mod results;
mod session;
mod simulated;
pub mod sweep;
mod verdict;
pub mod wrap;

pub use claim::{Claim, Kind, Value, claims};
pub use measurements::{Key, Measurements, Series, Spread};
pub use paper::{
    At, Beside, ClaimSpec, Curve, FigureSpec, Finding, Form, Mark, Measured, Order, PAPERS, Panel, Paper,
    Site, Venue,
};
pub use report::{Run, html, overview, scoreboard};
pub use results::json;
pub use session::{
    Effort, Error, Evaluation, Interval, Pace, Session, Settings, Simulation, reproduce, reproduce_with,
};
pub use verdict::{Baseline, MARGIN, TOLERANCE, Verdict, above, exact, headline, trend};

/// The examples of the architecture page, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/architecture.md")]
struct Architecture;
