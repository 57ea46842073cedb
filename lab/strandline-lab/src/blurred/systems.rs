//! The paper's systems, and their names and colours in figures.

/// The systems: scheme, the paper's name, colour. Systems that share a colour never appear in the same figure.
pub const SYSTEMS: [(&str, &str, usize); 9] = [
    ("base", "BASE", 0),
    ("mne-sync", "MNE", 1),
    ("mne-async", "MNE-ASYNC", 2),
    ("xil", "BP(XIL)", 3),
    ("vcbp", "BP(VCBP)", 4),
    ("vcbp-streamed", "BP(VCBP)-streamed (ours)", 2),
    ("bppm", "BPPM", 5),
    ("bppm-counted", "BPPM-counted (ours)", 6),
    ("np", "NP", 7),
];

/// Returns the paper's name for a scheme.
pub fn label(system: &str) -> &'static str {
    SYSTEMS.iter().find(|(scheme, ..)| *scheme == system).map_or("", |(_, label, _)| label)
}
