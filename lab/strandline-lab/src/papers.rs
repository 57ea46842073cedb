//! The list of papers. Only this file names the papers' modules.

use crate::error::Error;
use crate::paper::Paper;
use crate::{atom, blurred, compare, deferred_commit, loose_ordering, wrap};

/// All papers that can be reproduced.
pub const PAPERS: &[&Paper] = &[
    &blurred::PAPER,
    &loose_ordering::PAPER,
    &deferred_commit::PAPER,
    &atom::PAPER,
    &wrap::PAPER,
    &compare::PAPER,
];

// Defined here because `paper.rs` must not know the list.
impl Paper {
    /// Returns the paper with this name.
    ///
    /// # Errors
    /// Returns an error that lists the known papers if there is none.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        PAPERS.iter().copied().find(|paper| paper.name == name).ok_or_else(|| {
            let names: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
            Error::Usage(format!("there is no paper {name:?} here; choose from: {}", names.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::venue::{Site, Venue};

    #[test]
    fn every_claim_of_a_paper_is_judged_by_a_figure_that_exists() {
        for paper in PAPERS {
            let mut ids: Vec<_> = paper.data().map(|claim| claim.id.as_str()).collect();
            let mut judged: Vec<_> = paper.claims.iter().map(|claim| claim.id).collect();
            ids.sort_unstable();
            judged.sort_unstable();
            assert_eq!(ids, judged, "{}", paper.name);
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            assert!(root.join(paper.page).exists(), "{}", paper.page);
            for claim in paper.claims {
                let exists = |id| paper.figures.iter().any(|figure| figure.id == id);
                assert!(claim.figure.is_none_or(exists), "{}", claim.id);
                let Venue { site, because } = claim.venue;
                assert!(
                    because.ends_with('.') && because.matches(". ").count() == 0,
                    "{}: a sentence",
                    claim.id
                );
                let is_possible = match site {
                    Site::Code => true,
                    Site::Native => paper.natively && claim.figure.is_some(),
                    Site::Simulated => paper.machine.is_some() && claim.figure.is_some(),
                };
                assert!(is_possible, "{}", claim.id);
            }
        }
    }

    #[test]
    fn an_unknown_paper_lists_what_there_is() {
        let error = Paper::named("blured").unwrap_err().to_string();
        assert!(error.contains("blured") && error.contains("blurred"), "{error}");
    }
}
