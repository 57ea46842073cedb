//! The places where claims are judged.

/// The place where a claim is judged, which no flag changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Site {
    /// By what the code does, which is the same on all machines.
    Code,
    /// On the processor at hand.
    Native,
    /// On the paper's simulated machine.
    Simulated,
}

/// The place where a claim is judged, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Venue {
    /// The place.
    pub site: Site,
    /// The reason, in a sentence.
    pub because: &'static str,
}

impl Venue {
    /// Returns the venue of a claim about a paper's own hardware: the paper's simulated machine. A claim without a figure is about the code.
    pub const fn of_hardware(figure: Option<&'static str>) -> Self {
        match figure {
            Some(_) => {
                Self { site: Site::Simulated, because: "The paper's hardware exists in simulation alone." }
            }
            None => Self::BY_CODE,
        }
    }

    /// Returns the venue of a claim about the speed of software: the paper's machine, simulated, although any processor can run the software.
    /// Measurements on this processor are shown beside it.
    pub const fn of_speed() -> Self {
        Self {
            site: Site::Simulated,
            because: "The speeds are of the paper's processor: what a flush costs beside an instruction and a miss differs between hosts, and \
                      what the processor at hand measures stands beside.",
        }
    }

    /// The venue of claims about the code.
    pub const BY_CODE: Self =
        Self { site: Site::Code, because: "What the code does is the same on every machine." };
}
