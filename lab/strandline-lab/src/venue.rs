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

    /// What holds of the code.
    pub const BY_CODE: Self =
        Self { site: Site::Code, because: "What the code does is the same on every machine." };
}
