//! Where claims are judged.

/// Where a claim is judged, which no flag changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Site {
    /// Nowhere in particular: by what the code does, the same on all machines.
    Code,
    /// On the processor at hand.
    Native,
    /// On the paper's simulated machine.
    Simulated,
}

/// Where a claim is judged, and why there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Venue {
    /// Where.
    pub site: Site,
    /// The reason, in a sentence.
    pub because: &'static str,
}

impl Venue {
    /// What a paper's claim about its own hardware is judged by; a claim without a figure is about the code.
    pub const fn of_hardware(figure: Option<&'static str>) -> Self {
        match figure {
            Some(_) => {
                Self { site: Site::Simulated, because: "The paper's hardware exists in simulation alone." }
            }
            None => Self::BY_CODE,
        }
    }

    /// What a claim about how fast software runs is judged by, though any processor can run it: the paper's machine, simulated. What the
    /// processor at hand measures stands beside.
    pub const fn of_speed() -> Self {
        Self {
            site: Site::Simulated,
            because: "The speeds are of the paper's processor: what a flush costs beside an instruction and a miss differs between hosts, and \
                      what the processor at hand measures stands beside.",
        }
    }

    /// What holds of the code.
    pub const BY_CODE: Self =
        Self { site: Site::Code, because: "What the code does is the same on every machine." };
}
