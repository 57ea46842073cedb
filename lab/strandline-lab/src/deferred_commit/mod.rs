//! Deferred Commit: Fig. 6, Tables 1 and 2, the barriers, and claims D1 to D14.

mod barriers;
mod claims;
mod curves;
mod fig6;
mod synthetic;
mod table1;
mod trace;

use crate::paper::{ClaimSpec, FigureSpec, Paper};
use crate::venue::{Site, Venue};
use crate::verdict::Basis;

/// The paper's figures and claims.
pub static PAPER: Paper = Paper {
    name: "deferred-commit",
    letter: 'D',
    title: "High-Performance Transactions for Persistent Memories",
    citation: "A. Kolli, S. Pelley, A. Saidi, P. M. Chen, T. F. Wenisch, ASPLOS 2016",
    page: "docs/papers/deferred-commit.md",
    setting: "The paper executed its transactions on an Intel Xeon E5645 at 2.4 GHz, DRAM standing in for persistent \
              memory, and recorded their persists and barriers with pin. Here the same library code runs on that \
              processor simulated, four threads on cores of their own, for the rate of volatile execution; natively \
              beside, on threads that may share cores (rates are per second of the threads' own processor time). It runs \
              once more in a recorder, where its persist critical path is computed as it goes. Recorded threads run \
              beside one another, switching every sixteen memory operations on average.",
    figures: &FIGURES,
    claims: &CLAIMS,
    natively: true,
    machine: Some("xeon-e5645"),
};

static FIGURES: [FigureSpec; 3] = [
    FigureSpec {
        id: table1::FIGURE,
        number: "Table 1",
        title: "Persist critical paths",
        method: "Synthetic transactions of one word each, all apart or all in conflict, on threads that take turns; the \
                 critical path of what the schemes do, beside the paper's formula.",
        steps: table1::steps,
        run: table1::run,
        draw: table1::draw,
    },
    FigureSpec {
        id: barriers::FIGURE,
        number: "Figs. 2 to 5",
        title: "Which barriers are necessary",
        method: "Small histories of two threads are recorded, their persist graph is built under the model, and recovery \
                 and oracle run on its down-closed cuts: with all barriers, and with each one left out.",
        steps: barriers::steps,
        run: barriers::run,
        draw: barriers::draw,
    },
    FigureSpec {
        id: curves::FIGURE,
        number: "Fig. 6, Table 2",
        title: "Throughput over the persist latency",
        method: "Under epoch and strand persistency the slower of volatile execution and the persist critical path (persist \
                 epochs per transaction times latency) limits throughput; under eager sync their times add up. Four \
                 threads, four strands each, atomic persists of 8 bytes.",
        steps: fig6::steps,
        run: fig6::run,
        draw: fig6::draw,
    },
];

/// Claims judged by recorded executions.
const RECORDED: Venue = Venue {
    site: Site::Code,
    because: "Critical paths and barriers are of the recorded order of persists, which no machine's speed changes.",
};
/// Claims that are judged by rates of volatile execution as well.
const FOUR_CORES: Venue = Venue {
    site: Site::Simulated,
    because: "The rate is of four threads on cores of their own, which the paper's Xeon has and the processor at hand may not.",
};

const fn claim(
    id: &'static str,
    figure: &'static str,
    venue: Venue,
    judge: fn(
        &crate::claim::Claim,
        &crate::session::Session,
        &crate::measurements::Measurements,
    ) -> Result<crate::finding::Finding, crate::error::Error>,
) -> ClaimSpec {
    ClaimSpec { id, figure: Some(figure), venue, basis: Basis::Measured, judge }
}

static CLAIMS: [ClaimSpec; 14] = [
    claim("D1", table1::FIGURE, RECORDED, claims::d1).by(Basis::ClosedForm),
    claim("D2", table1::FIGURE, RECORDED, claims::d2).by(Basis::ClosedForm),
    claim("D3", table1::FIGURE, RECORDED, claims::d3).by(Basis::ClosedForm),
    claim("D4", curves::FIGURE, FOUR_CORES, claims::d4),
    claim("D5", curves::FIGURE, FOUR_CORES, claims::d5),
    claim("D6", curves::FIGURE, FOUR_CORES, claims::d6),
    claim("D7", curves::FIGURE, FOUR_CORES, claims::d7),
    claim("D8", curves::FIGURE, FOUR_CORES, claims::d8),
    claim("D9", barriers::FIGURE, RECORDED, claims::d9),
    claim("D10", curves::FIGURE, FOUR_CORES, claims::d10),
    claim("D11", curves::FIGURE, FOUR_CORES, claims::d11),
    claim("D12", curves::FIGURE, FOUR_CORES, claims::d12),
    claim("D13", table1::FIGURE, RECORDED, claims::d13).by(Basis::ClosedForm),
    claim("D14", curves::FIGURE, RECORDED, claims::d14).by(Basis::Constant),
];
