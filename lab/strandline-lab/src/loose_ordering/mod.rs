//! Loose-Ordering Consistency: Figs. 7 to 13, Table 2, and claims L1 to L22, on the simulated machine.

mod claims;
mod figures;
mod systems;

use crate::paper::{ClaimSpec, FigureSpec, Paper};
use crate::venue::Venue;
use crate::verdict::Basis;

/// The paper's figures and claims.
pub static PAPER: Paper = Paper {
    name: "loose-ordering",
    letter: 'L',
    title: "Improving Performance and Endurance of Persistent Memory with Loose-Ordering Consistency",
    citation: "Y. Lu, J. Shu, L. Sun, O. Mutlu, IEEE TPDS 29(3), 2018 (ICCD 2014)",
    page: "docs/papers/loose-ordering.md",
    setting: "The paper used GEM5 with the Timing Simple CPU at 1 GHz, three cache levels and 8 banks of 168 cycles. Here \
              the same structures run as plain programs, S-WAL but in software, on this project's simulator with those \
              figures (machine loc). Instructions between accesses to the pool, loads and stores of stack and locals among \
              them, are not executed but charged as they were counted of the native program.",
    figures: &FIGURES,
    claims: &CLAIMS,
    natively: false,
    machine: Some(systems::MACHINE),
};

static FIGURES: [FigureSpec; 5] = [
    FigureSpec {
        id: figures::SYSTEMS,
        number: "Figs. 7, 8 and 9, Table 2",
        title: "The systems: throughput, memory writes, persistence sets",
        method: "Each workload runs the same transactions under each system; throughput in simulated time over that without \
                 transactions, lines written to memory over bytes that the program stored, and the blocks that a \
                 transaction writes.",
        steps: figures::systems_steps,
        run: figures::run_systems,
        draw: figures::draw_systems,
    },
    FigureSpec {
        id: figures::DEGREES,
        number: "Figs. 10 and 11",
        title: "Speculation degree",
        method: "LOC-WAL with windows of 1 to 32 transactions.",
        steps: figures::degrees_steps,
        run: figures::run_degrees,
        draw: figures::draw_degrees,
    },
    FigureSpec {
        id: figures::SIZES,
        number: "Fig. 12",
        title: "Transaction size",
        method: "B+ tree with 2 to 32 insertions or deletions in a transaction, each of which updates a leaf, over the same \
                 without transactions.",
        steps: figures::sizes_steps,
        run: figures::run_sizes,
        draw: figures::draw_sizes,
    },
    FigureSpec {
        id: figures::LATENCIES,
        number: "Fig. 13",
        title: "Memory latency",
        method: "The systems of the figure with memory reads and writes of 35 to 1000 ns, each over no transactions at the \
                 same latency.",
        steps: figures::latencies_steps,
        run: figures::run_latencies,
        draw: figures::draw_latencies,
    },
    FigureSpec {
        id: figures::STRUCTURES,
        number: "beside the paper",
        title: "Size of the structures",
        method: "The paper does not say how large its structures are. Small ones are written again and again within a \
                 speculation window; large ones miss the caches, with and without transactions.",
        steps: figures::structures_steps,
        run: figures::run_structures,
        draw: figures::draw_structures,
    },
];

const fn claim(
    id: &'static str,
    figure: Option<&'static str>,
    judge: fn(
        &crate::claim::Claim,
        &crate::session::Session,
        &crate::measurements::Measurements,
    ) -> Result<crate::finding::Finding, crate::error::Error>,
) -> ClaimSpec {
    ClaimSpec { id, figure, venue: Venue::of_hardware(figure), basis: Basis::Measured, judge }
}

const SYSTEMS: Option<&str> = Some(figures::SYSTEMS);
const DEGREES: Option<&str> = Some(figures::DEGREES);

static CLAIMS: [ClaimSpec; 22] = [
    claim("L1", SYSTEMS, claims::l1),
    claim("L2", SYSTEMS, claims::l2),
    claim("L3", SYSTEMS, claims::l3),
    claim("L4", SYSTEMS, claims::l4),
    claim("L5", SYSTEMS, claims::l5),
    claim("L6", SYSTEMS, claims::l6),
    claim("L7", SYSTEMS, claims::l7).by(Basis::Calibrated),
    claim("L8", SYSTEMS, claims::l8),
    claim("L9", SYSTEMS, claims::l9),
    claim("L10", DEGREES, claims::l10),
    claim("L11", DEGREES, claims::l11),
    claim("L12", Some(figures::SIZES), claims::l12),
    claim("L13", Some(figures::LATENCIES), claims::l13),
    claim("L14", SYSTEMS, claims::l14).by(Basis::Calibrated),
    claim("L15", None, claims::l15).by(Basis::Constant),
    claim("L16", None, claims::l16).by(Basis::Constant),
    claim("L17", SYSTEMS, claims::l17),
    claim("L18", SYSTEMS, claims::l18),
    claim("L19", None, claims::l19).by(Basis::Constant),
    claim("L20", None, claims::l20).by(Basis::Constant),
    claim("L21", None, claims::l21).by(Basis::Constant),
    claim("L22", DEGREES, claims::l22).by(Basis::Construction),
];
