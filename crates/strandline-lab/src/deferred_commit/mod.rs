//! Deferred Commit: Fig. 6, Tables 1 and 2, the barriers, and claims D1 to D14.

mod barriers;
mod claims;
mod curves;
mod fig6;
mod synthetic;
mod table1;
mod trace;

use crate::paper::{ClaimSpec, FigureSpec, Paper};

/// Threads (D14).
const THREADS: u64 = 4;
/// Strands of a thread (D14).
const STRANDS: u32 = 4;

/// The paper's figures and claims.
pub static PAPER: Paper = Paper {
    name: "deferred-commit",
    letter: 'D',
    title: "High-Performance Transactions for Persistent Memories",
    citation: "A. Kolli, S. Pelley, A. Saidi, P. M. Chen, T. F. Wenisch, ASPLOS 2016",
    setting: "The paper executed its transactions on an Intel Xeon E5645 at 2.4 GHz, DRAM standing in for persistent \
              memory, and recorded their persists and barriers with pin. Here the same library code runs natively for \
              the rate of volatile execution, on threads that may share cores (rates are per second of the threads' own \
              processor time), and with --machine on a simulated one too, whose rates then decide. It runs once more in a recorder, where its persist critical path is computed as it goes. \
              Recorded threads run beside one another, switching every sixteen memory operations on average.",
    figures: &FIGURES,
    claims: &CLAIMS,
    on_machines: true,
    machine: None,
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

const fn claim(
    id: &'static str,
    figure: &'static str,
    judge: fn(
        &crate::claim::Claim,
        &crate::session::Session,
        &crate::measurements::Measurements,
    ) -> Result<crate::paper::Finding, crate::session::Error>,
) -> ClaimSpec {
    ClaimSpec { id, figure: Some(figure), judge }
}

static CLAIMS: [ClaimSpec; 14] = [
    claim("D1", table1::FIGURE, claims::d1),
    claim("D2", table1::FIGURE, claims::d2),
    claim("D3", table1::FIGURE, claims::d3),
    claim("D4", curves::FIGURE, claims::d4),
    claim("D5", curves::FIGURE, claims::d5),
    claim("D6", curves::FIGURE, claims::d6),
    claim("D7", curves::FIGURE, claims::d7),
    claim("D8", curves::FIGURE, claims::d8),
    claim("D9", barriers::FIGURE, claims::d9),
    claim("D10", curves::FIGURE, claims::d10),
    claim("D11", curves::FIGURE, claims::d11),
    claim("D12", curves::FIGURE, claims::d12),
    claim("D13", table1::FIGURE, claims::d13),
    claim("D14", curves::FIGURE, claims::d14),
];
