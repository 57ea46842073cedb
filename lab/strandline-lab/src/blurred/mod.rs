//! Blurred Persistence: Figs. 7 to 14 and claims B1 to B22 (section V).

mod claims;
mod draw;
mod figures;
mod format;
mod recovery;
mod systems;
mod throughputs;

use crate::claim::Claim;
use crate::error::Error;
use crate::finding::Finding;
use crate::measurements::Measurements;
use crate::paper::{ClaimSpec, FigureSpec, Paper};
use crate::session::Session;
use crate::venue::{Site, Venue};
use crate::verdict::Basis;

/// The paper's figures and claims.
pub static PAPER: Paper = Paper {
    name: "blurred",
    letter: 'B',
    title: "Blurred Persistence in Transactional Persistent Memory",
    citation: "Y. Lu, J. Shu, L. Sun, MSST 2015",
    page: "docs/papers/blurred-persistence.md",
    setting: "The paper ran on a quad-core AMD Opteron at 2.4 GHz and added 150 ns to each memory flush operation. Here the \
              same schemes run twice, on one STM (word-based, encounter-time locking, retries at once, as TinySTM). On the paper's \
              machine, simulated, with its four cores and wbinvd, where nearly all claims are judged. And on this processor, \
              beside: each line that is written back costs 150 ns more, busy-waited, by clflush, the paper's instruction; with \
              it stands the best instruction there is. The paper's wbinvd is privileged: there bulk persistence writes its \
              lines back one by one and is charged once, as the single flush operation that it is in the paper; a second \
              series shows it charged for each line. Each claim says where it is judged and why.",
    figures: &FIGURES,
    claims: &CLAIMS,
    natively: true,
    machine: Some("opteron"),
};

macro_rules! native_figure {
    ($id:ident, $number:literal, $title:literal, $method:literal) => {
        FigureSpec {
            id: stringify!($id),
            number: $number,
            title: $title,
            method: $method,
            steps: |session| crate::cells::steps(stringify!($id), &figures::$id(session), session),
            run: |session, into| {
                crate::cells::measure(session, stringify!($id), &figures::$id(session), into)
            },
            draw: draw::$id,
        }
    };
}

static FIGURES: [FigureSpec; 8] = [
    native_figure!(
        fig7,
        "Fig. 7",
        "Single thread, five workloads",
        "Each workload at its default size, one operation in a transaction (two in the B+ tree, bplustree-sorted-words: the paper \
         says multiple), values of 8 bytes, one thread. Throughput is normalised to BASE; the last group is the mean of the \
         paper's five. Beside them, in no mean: bplustree, the library's own tree, which does not shift pairs, with one operation."
    ),
    native_figure!(
        fig8,
        "Fig. 8",
        "Threads: throughput, aborts, overhead removed",
        "Hash table and red-black tree over 1, 2, 4 and 8 threads: natively as far as this machine has cores for them, since threads \
         that share a core would measure its scheduler; on the simulated machine they share four by time slices."
    ),
    native_figure!(
        fig9,
        "Fig. 9",
        "Value size",
        "Hash table with 32,768 of 65,536 keys present (so that values of 4 KB fit), one thread. The overhead \
         removed is (BPPM - BASE) / (NP - BASE)."
    ),
    native_figure!(
        fig10,
        "Fig. 10",
        "Transaction size",
        "Hash table, one thread, 1 to 32 operations in a transaction (the paper does not say how many). I/O \
         throughput is transactions per second times operations in each."
    ),
    native_figure!(
        fig11,
        "Fig. 11",
        "Log size",
        "BPPM on each workload, one thread, logs of 0.1 to 2 MB. Curves are relative to the log of 0.1 MB."
    ),
    FigureSpec {
        id: "fig12",
        number: "Fig. 12",
        title: "Recovery time",
        method: "Hash table under BPPM: transactions fill the log to 95%, the pool is left as a killed process \
                 would leave it and opened again. The time is that of the four steps of recovery: scan, sort, replay \
                 (with write-back), truncate (zeroing and write-back).",
        steps: recovery::steps,
        run: recovery::run,
        draw: draw::fig12,
    },
    native_figure!(
        fig13,
        "Fig. 13",
        "Write latency",
        "Hash table, one thread, 35 to 2000 ns added to each line written back, never to evictions."
    ),
    native_figure!(
        fig14,
        "Fig. 14",
        "Idle time",
        "Hash table with values of 1024 bytes and 65,536 keys, one thread, which is idle after each transaction for \
         the given share of its time. On the simulated machine it has one core, which a truncating helper shares."
    ),
];

const RECOVERY: Venue = Venue {
    site: Site::Native,
    because: "The paper timed recovery on a real processor; nothing in it is emulated.",
};
const THREADS: Venue = Venue {
    site: Site::Simulated,
    because: "The claim is about one to eight threads on four cores, which the processor at hand may not have.",
};
const HELPER: Venue = Venue {
    site: Site::Simulated,
    because: "The claim is about a helper thread that competes for cores, which processor time does not show.",
};
const EMPTIED_CACHES: Venue = Venue {
    site: Site::Simulated,
    because: "The claim is about how often wbinvd empties the caches; no process can execute it, and writing lines back one by \
              one leaves the caches as they are.",
};

const fn claim(
    id: &'static str,
    figure: &'static str,
    venue: Venue,
    judge: fn(&Claim, &Session, &Measurements) -> Result<Finding, Error>,
) -> ClaimSpec {
    ClaimSpec { id, figure: Some(figure), venue, basis: Basis::Measured, judge }
}

const fn of_the_code(
    id: &'static str,
    judge: fn(&Claim, &Session, &Measurements) -> Result<Finding, Error>,
) -> ClaimSpec {
    ClaimSpec { id, figure: None, venue: Venue::BY_CODE, basis: Basis::Measured, judge }
}

static CLAIMS: [ClaimSpec; 22] = [
    claim("B1", "fig7", Venue::of_speed(), claims::b1),
    claim("B2", "fig7", Venue::of_speed(), claims::b2),
    claim("B3", "fig7", Venue::of_speed(), claims::b3),
    claim("B4", "fig7", Venue::of_speed(), claims::b4),
    claim("B5", "fig7", Venue::of_speed(), claims::b5),
    claim("B6", "fig7", Venue::of_speed(), claims::b6),
    claim("B7", "fig8", THREADS, claims::b7),
    claim("B8", "fig8", THREADS, claims::b8),
    claim("B9", "fig9", Venue::of_speed(), claims::b9),
    claim("B10", "fig10", Venue::of_speed(), claims::b10),
    claim("B11", "fig11", EMPTIED_CACHES, claims::b11),
    claim("B12", "fig12", RECOVERY, claims::b12),
    claim("B13", "fig13", Venue::of_speed(), claims::b13),
    claim("B14", "fig13", Venue::of_speed(), claims::b14),
    claim("B15", "fig13", Venue::of_speed(), claims::b15),
    claim("B16", "fig14", HELPER, claims::b16).by(Basis::Calibrated),
    of_the_code("B17", format::b17).by(Basis::Constant),
    claim("B18", "fig7", Venue::of_speed(), claims::b18),
    claim("B19", "fig7", Venue::of_speed(), claims::b19),
    claim("B20", "fig13", Venue::of_speed(), claims::b20),
    of_the_code("B21", format::b21).by(Basis::Constant),
    of_the_code("B22", format::b22).by(Basis::Constant),
];
