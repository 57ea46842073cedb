//! WrAP: Figs. 6 to 12 and claims W1 to W14, on the simulated machine.

mod claims;
mod structures;
mod synthetic;
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
    name: "wrap",
    letter: 'W',
    title: "Bridging the Programming Gap Between Persistent and Volatile Memory Using WrAP",
    citation: "E. Giles, K. Doshi, P. Varman, Computing Frontiers 2013",
    page: "docs/papers/wrap.md",
    setting: "The paper simulated traces of STL structures on one processor with one direct-mapped cache. Here a trace of \
              std::set and std::multiset and the plain programs of a B-tree and a B+ tree run on the simulated machine `wrap`, \
              which has the paper's times: a cache hit 1 cycle, DRAM 100, storage-class memory 440 and 1200. Non-transactional is plain stores; the undo log and WrAP are hardware \
              under the same plain stores between a transaction's boundaries (`undo-log`, `wrap-evaluated`; closed forms \
              and synthetic stores: `wrap-buffer-of-one`).",
    figures: &FIGURES,
    claims: &CLAIMS,
    natively: false,
    machine: Some(systems::MACHINE),
};

static FIGURES: [FigureSpec; 3] = [
    FigureSpec {
        id: synthetic::FIGURE,
        number: "Fig. 6",
        title: "Sequential stores",
        method: "A transaction stores to consecutive lines, with a CPU delay after each store. Time from opening to closing; \
                 cold: nothing is cached; hot: all lines were loaded before.",
        steps: synthetic::steps,
        run: synthetic::run,
        draw: synthetic::draw,
    },
    FigureSpec {
        id: structures::BY_SIZE,
        number: "Figs. 7 to 10",
        title: "Structures over the transaction size",
        method: "Set, MultiSet, B Tree and B+ Tree with 100 elements; each operation inserts, finds and deletes; 1 to 10 \
                 operations in a transaction, a cache of 8192 blocks, as many instructions of one cycle between accesses as \
                 native code has (docs/simulator.md, Calibration). The library's own structures beside.",
        steps: structures::steps_by_size,
        run: structures::run_by_size,
        draw: structures::draw_by_size,
    },
    FigureSpec {
        id: structures::BY_CACHE,
        number: "Figs. 11, 12",
        title: "Structures over the cache size",
        method: "The same with five operations in a transaction and caches of 128 to 8192 blocks; the largest log buffer and \
                 victim cache of any moment.",
        steps: structures::steps_by_cache,
        run: structures::run_by_cache,
        draw: structures::draw_by_cache,
    },
];

const fn claim(
    id: &'static str,
    figure: &'static str,
    judge: fn(&Claim, &Session, &Measurements) -> Result<Finding, Error>,
) -> ClaimSpec {
    ClaimSpec {
        id,
        figure: Some(figure),
        venue: Venue::of_hardware(Some(figure)),
        basis: Basis::Measured,
        judge,
    }
}

static CLAIMS: [ClaimSpec; 14] = [
    claim("W1", synthetic::FIGURE, claims::w1).by(Basis::ClosedForm),
    claim("W2", synthetic::FIGURE, claims::w2),
    claim("W3", synthetic::FIGURE, claims::w3).by(Basis::ClosedForm),
    claim("W4", synthetic::FIGURE, claims::w4),
    claim("W5", structures::BY_SIZE, claims::w5),
    claim("W6", structures::BY_SIZE, claims::w6),
    claim("W7", structures::BY_SIZE, claims::w7),
    claim("W8", structures::BY_CACHE, claims::w8),
    claim("W9", structures::BY_CACHE, claims::w9),
    claim("W10", synthetic::FIGURE, claims::w10).by(Basis::ClosedForm),
    claim("W11", structures::BY_CACHE, claims::w11),
    claim("W12", structures::BY_SIZE, claims::w12),
    claim("W13", structures::BY_CACHE, claims::w13),
    claim("W14", synthetic::FIGURE, claims::w14).by(Basis::Constant),
];
