//! The description of a paper: its figures, with how each is measured and drawn, and its claims, with how each is judged.

use crate::claim::{Claim, Kind, claims};
use crate::error::Error;
use crate::finding::Finding;
use crate::measurements::Measurements;
use crate::panel::Panel;
use crate::reading::{Reading, readings};
use crate::session::Session;
use crate::venue::{Site, Venue};
use crate::verdict::Basis;

/// A paper whose evaluation is measured again.
#[derive(Debug)]
pub struct Paper {
    /// The name on the command line.
    pub name: &'static str,
    /// The letter that its claims' ids begin with.
    pub letter: char,
    /// The paper's title.
    pub title: &'static str,
    /// Authors, venue and year.
    pub citation: &'static str,
    /// The path of the page about it, relative to the project's first page.
    pub page: &'static str,
    /// The implementation, its machine, and their differences from the paper's.
    pub setting: &'static str,
    /// Its figures, in the paper's order.
    pub figures: &'static [FigureSpec],
    /// How its claims are judged: one entry for each claim of the data file.
    pub claims: &'static [ClaimSpec],
    /// True if its figures also run natively, besides on a simulated machine that can be chosen.
    pub natively: bool,
    /// The name of the simulated machine on which its figures run, if any. The keys of this machine can be varied.
    pub machine: Option<&'static str>,
}

impl Paper {
    /// Returns the paper's claims in the data file.
    pub fn data(&self) -> impl Iterator<Item = &'static Claim> + use<> {
        let letter = self.letter;
        claims().iter().filter(move |claim| claim.id.starts_with(letter))
    }

    /// Returns the readings of its text other than the default of its machine.
    pub fn readings(&self) -> impl Iterator<Item = &'static Reading> + use<> {
        let letter = self.letter;
        readings().iter().filter(move |reading| reading.paper == letter)
    }

    /// Returns the figures by which claims are judged, each with its site.
    pub(crate) fn judged(&self) -> Vec<(&'static str, Site)> {
        self.claims.iter().filter_map(|claim| Some((claim.figure?, claim.venue.site))).collect()
    }

    /// Returns the reason why no machine can be chosen for it, and what to do instead.
    pub fn no_choice_of_machine(&self) -> String {
        let own = match self.machine {
            Some(own) => format!(
                "its figures run on its own machine, {own}; --interval KEY=V1,V2 varies a key of that, and `strandline-lab simulate \
                 --machine FILE` runs its schemes on another one"
            ),
            None => "each of its figures has its own machines".into(),
        };
        format!("--machine cannot be used with {}: {own}", self.name)
    }

    /// Returns how the claim with this id is judged.
    pub fn claim(&self, id: &str) -> Option<&'static ClaimSpec> {
        self.claims.iter().find(|claim| claim.id == id)
    }
}

/// A figure, or a table.
#[derive(Debug)]
pub struct FigureSpec {
    /// The id that series and claims use.
    pub id: &'static str,
    /// The number in the paper.
    pub number: &'static str,
    /// The figure's subject, in a few words.
    pub title: &'static str,
    /// How it is measured here.
    pub method: &'static str,
    /// Returns how many measurements [`FigureSpec::run`] makes, to show progress.
    pub steps: fn(&Session) -> u64,
    /// Measures the figure, and adds its series.
    pub run: fn(&Session, &mut Measurements) -> Result<(), Error>,
    /// Draws it from the measurements.
    pub draw: fn(&Measurements) -> Vec<Panel>,
}

/// How one claim is judged.
#[derive(Debug)]
pub struct ClaimSpec {
    /// The claim's id in `papers/claims.toml`.
    pub id: &'static str,
    /// The figure that the claim needs; `None` for claims about the code.
    pub figure: Option<&'static str>,
    /// The place where it is judged.
    pub venue: Venue,
    /// True if the verdict depends on a run, or cannot come out otherwise.
    pub basis: Basis,
    /// Judges the claim by the measurements.
    pub judge: fn(&Claim, &Session, &Measurements) -> Result<Finding, Error>,
}

impl ClaimSpec {
    /// Sets the basis of a claim that a run does not decide.
    #[must_use]
    pub const fn by(mut self, basis: Basis) -> Self {
        self.basis = basis;
        self
    }

    /// Returns whether the claim is judged with [`SEEDS`](crate::verdict::SEEDS) seeds, because it compares numbers of a simulation.
    pub(crate) fn is_seeded(&self, claim: &Claim) -> bool {
        claim.kind == Kind::Trend && self.basis == Basis::Measured && self.venue.site == Site::Simulated
    }
}
