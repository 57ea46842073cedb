//! Readings of what the papers' texts leave open, from the project's data file `papers/readings.toml`.

use std::sync::LazyLock;

/// A reading of a paper's text other than the default of the paper's machine.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Reading {
    /// The paper's letter.
    pub paper: char,
    /// Keys of the machine's description with their values (`key=value`).
    pub set: Vec<String>,
    /// The ids of the figures that it affects; `None` for all.
    #[serde(default, skip_serializing)]
    pub figures: Option<Vec<String>>,
    /// The section on which it is based.
    #[serde(rename = "where")]
    pub place: String,
    /// The text at that place, or what the paper omits.
    pub says: String,
}

#[derive(serde::Deserialize)]
struct File {
    reading: Vec<Reading>,
}

/// Returns all readings of all papers, in the order of the file.
pub fn readings() -> &'static [Reading] {
    static READINGS: LazyLock<Vec<Reading>> = LazyLock::new(|| {
        toml::from_str::<File>(include_str!("../papers/readings.toml"))
            .expect("the readings are part of this crate and tested")
            .reading
    });
    &READINGS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::PAPERS;
    use strandline_sim::file;

    /// Each reading is possible on its paper's machine, and changes it.
    #[test]
    fn readings_are_other_settings_of_their_papers_machines() {
        for reading in readings() {
            let paper = PAPERS.iter().find(|paper| paper.letter == reading.paper).expect("a paper");
            let machine = paper.machine.expect("its machine");
            let default = file::load(machine, &[""; 0]).unwrap();
            let other = file::load(machine, &reading.set).unwrap_or_else(|error| panic!("{error}"));
            assert_ne!(default, other, "{:?}", reading.set);
        }
        let mut sets: Vec<_> = readings().iter().map(|reading| (reading.paper, &reading.set)).collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), readings().len(), "each once");
    }
}
