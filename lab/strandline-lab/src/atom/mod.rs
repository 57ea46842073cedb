//! ATOM: Figs. 5 to 8, Tables III and IV, and claims A1 to A16, on the simulated machine.

mod claims;
mod figures;
mod systems;

use crate::claim::Claim;
use crate::error::Error;
use crate::finding::Finding;
use crate::measurements::Measurements;
use crate::paper::{ClaimSpec, FigureSpec, Paper};
use crate::session::Session;
use crate::venue::Venue;
use crate::verdict::Basis;

/// The paper's figures and claims.
pub static PAPER: Paper = Paper {
    name: "atom",
    letter: 'A',
    title: "ATOM: Atomic Durability in Non-volatile Memory through Hardware Logging",
    citation: "A. Joshi, V. Nagarajan, S. Viglas, M. Cintra, HPCA 2017",
    page: "docs/papers/atom.md",
    setting: "The paper used gem5 in full-system mode with Ruby and Garnet. Here the library's structures run on this \
              project's simulator with Table I's figures (machine atom): 32 out-of-order cores, a thread on each, four \
              controllers. Software stores in place under locks between Atomic_Begin and Atomic_End, and flushes what it \
              modified, but for REDO. Instructions between memory accesses are charged and not executed; stores are of \
              8-byte words, and those to the pool alone are logged.",
    figures: &FIGURES,
    claims: &CLAIMS,
    natively: false,
    machine: Some(systems::MACHINE),
};

static FIGURES: [FigureSpec; 3] = [
    FigureSpec {
        id: figures::DESIGNS,
        number: "Figs. 5, 6 and 7, Table III",
        title: "The designs on six micro-benchmarks",
        method: "2048 entries of 512 or 4096 bytes, half of them present where they come and go (how many the paper does not \
                 say); one insertion, deletion or swap in a transaction, the same transactions under each design. \
                 Throughput in simulated time over BASE, cycles in which a store waits for the full store queue over \
                 BASE, log entries that controllers made themselves.",
        steps: figures::designs_steps,
        run: figures::run_designs,
        draw: figures::draw_designs,
    },
    FigureSpec {
        id: figures::LATENCIES,
        number: "Fig. 8",
        title: "Memory latency",
        method: "Red-black tree with entries of 512 bytes; reads and writes of memory take 1 to 10 times 24 and 36 cycles, a \
                 tenth of Table I's.",
        steps: figures::latencies_steps,
        run: figures::run_latencies,
        draw: figures::draw_latencies,
    },
    FigureSpec {
        id: figures::TPCC,
        number: "Table IV",
        title: "TPC-C New Order",
        method: "One warehouse, 32 terminals without thinking, New Order alone.",
        steps: figures::tpcc_steps,
        run: figures::run_tpcc,
        draw: figures::draw_tpcc,
    },
];

const fn claim(
    id: &'static str,
    figure: Option<&'static str>,
    judge: fn(&Claim, &Session, &Measurements) -> Result<Finding, Error>,
) -> ClaimSpec {
    ClaimSpec { id, figure, venue: Venue::of_hardware(figure), basis: Basis::Measured, judge }
}

const DESIGNS: Option<&str> = Some(figures::DESIGNS);
const TPCC: Option<&str> = Some(figures::TPCC);

static CLAIMS: [ClaimSpec; 16] = [
    claim("A1", DESIGNS, claims::a1),
    claim("A2", DESIGNS, claims::a2),
    claim("A3", DESIGNS, claims::a3),
    claim("A4", DESIGNS, claims::a4),
    claim("A5", DESIGNS, claims::a5),
    claim("A6", DESIGNS, claims::a6),
    claim("A7", DESIGNS, claims::a7),
    claim("A8", Some(figures::LATENCIES), claims::a8),
    claim("A9", TPCC, claims::a9),
    claim("A10", None, claims::a10).by(Basis::Constant),
    claim("A11", DESIGNS, claims::a11),
    claim("A12", DESIGNS, claims::a12),
    claim("A13", DESIGNS, claims::a13),
    claim("A14", TPCC, claims::a14),
    claim("A15", TPCC, claims::a15),
    claim("A16", None, claims::a16).by(Basis::Constant),
];
