//! Judges claims about the code: determines the log format and the set-up by encoding and reading real records.

use std::rc::Rc;

use strandline_core::file::Options;
use strandline_core::layout::Geometry;
use strandline_core::log::{RECORD_BLOCKS, Record, scan};
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, WORD_BYTES, World};
use strandline_core::{Abort, Concurrency, Domain, Runner, Transaction};
use strandline_schemes::{BPPM, laboratory};
use strandline_structures::SortedShape;
use strandline_workloads::{DEFAULT_WRITE_LATENCY_NS, Sizes};

use crate::claim::Claim;
use crate::error::Error;
use crate::finding::{Finding, Order};
use crate::measurements::Measurements;
use crate::session::Session;

const EMPTY: Record = Record::Data { address: 0, value: 0, mask: 0 };

/// Returns how many bits of the data block and of the metadata block differ between two records.
fn bits(a: [u64; 2], b: [u64; 2]) -> [u32; 2] {
    [(a[0] ^ b[0]).count_ones(), (a[1] ^ b[1]).count_ones()]
}

/// Judges B17 by the widths of the fields, counted in encoded records, and by what a real transaction's abort writes.
pub fn b17(claim: &Claim, session: &Session, _: &Measurements) -> Result<Finding, Error> {
    let zero = EMPTY.encode(false);
    let [data, tail] = bits(zero, Record::Data { address: 0, value: u64::MAX, mask: 0 }.encode(false));
    let [torn_data, torn] = bits(zero, EMPTY.encode(true));
    let [_, mask] = bits(zero, Record::Data { address: 0, value: 0, mask: 0xff }.encode(false));
    let [_, flag_dc] = bits(zero, Record::Abort { back_pointer: 0 }.encode(false));
    let [_, flag_ca] = bits(
        Record::Abort { back_pointer: 0 }.encode(false),
        Record::Commit { transaction: 0 }.encode(false),
    );
    // Counts the bits of an address that decoding returns.
    let kept = |bit: &u32| {
        let address = 1 << bit;
        Record::decode(Record::Data { address, value: 0, mask: 0 }.encode(false))
            == Record::Data { address, value: 0, mask: 0 }
    };
    let address = (0..64).take_while(kept).count() as u32;
    let metadata = torn + tail + mask + flag_dc + flag_ca + address;
    let reserved = u64::BITS.saturating_sub(metadata);
    let widths = [data, torn_data, torn, tail, mask, flag_dc, flag_ca, reserved, address];

    let aborted = aborted_transaction(session)?;
    let order = |text: &str, holds| Order { order: text.into(), holds: Some(holds) };
    let transaction = 0x1234_5678_9abc_def1;
    let committed = Record::decode(Record::Commit { transaction }.encode(true));
    let mut finding = Finding::exact(
        claim,
        widths.map(|width| Some(width.into())).to_vec(),
        "Records are encoded by the library (log::Record) and the bits that a field changes are counted; an address has as \
         many bits as survive encoding and decoding; RESV is what is left. For the rest, a transaction of 100 writes is \
         aborted on a real pool and its log is read.",
    );
    finding.orders = vec![
        order("an abort record for every 64 blocks of an aborted transaction", aborted.every_64_blocks),
        order("each points back to the last commit record", aborted.points_back),
        order("a commit record's data block holds the TxID", committed == Record::Commit { transaction }),
        order("per-thread logs of 1 MB by default", Geometry::default().log_bytes == 1 << 20),
        order("a log begins with its first record: no head pointer before it", aborted.begins_with_a_record),
    ];
    if finding.orders.iter().any(|order| order.holds != Some(true)) {
        finding.verdict = crate::verdict::Verdict::Contradicts;
    }
    Ok(finding)
}

struct Aborted {
    every_64_blocks: bool,
    points_back: bool,
    begins_with_a_record: bool,
}

/// Commits one write, aborts 100, commits one more, and reads the log.
fn aborted_transaction(session: &Session) -> Result<Aborted, Error> {
    const WRITES: u64 = 100;
    let place = session.place()?;
    let options = Options {
        geometry: Geometry { size: 4 << 20, logs: 1, log_bytes: 64 << 10, chunk_bytes: 64 << 10 },
        domain: Domain::Process,
        ..Options::default()
    };
    let pool = laboratory(Concurrency::Stm).create(place.folder().join("log"), &options)?;
    let mut worker = pool.worker_of(&BPPM)?;
    let block = worker.run(|tx| tx.alloc(8 * WRITES))?;
    worker.run(|tx| tx.write(block, 1))?;
    let given_up: strandline_core::Result<()> = worker.run(|tx| {
        for word in 0..WRITES {
            tx.write(block.word(word), word)?;
        }
        Err(Abort::User)
    });
    debug_assert!(given_up.is_err());
    worker.run(|tx| tx.write(block, 2))?;

    let log = pool.layout().log(worker.log_index());
    // The log is in its first run, whose torn bit is 1.
    let written = |at: u64| {
        let mut blocks = [0; 2];
        worker.memory().load_range(log.word(at * RECORD_BLOCKS), &mut blocks);
        (Record::torn_bit(blocks) == Some(true)).then(|| Record::decode(blocks))
    };
    let aborts: Vec<(u64, u64)> = (0..pool.layout().log_records())
        .map_while(|at| written(at).map(|record| (at, record)))
        .filter_map(|(at, record)| match record {
            Record::Abort { back_pointer } => Some((at, back_pointer)),
            _ => None,
        })
        .collect();
    let first = aborts.first().map_or(0, |(at, _)| *at);
    // Records fill up the line of a commit record, so the last commit record is the nearest one before the abort that is not inert.
    let last_commit = (0..first).rev().find(|&at| matches!(written(at), Some(Record::Commit { .. })));
    let end_of_commit = last_commit.map(|at| (at + 1).next_multiple_of(64 / (8 * RECORD_BLOCKS)));
    let blocks_apart = |pair: &[(u64, u64)]| (pair[1].0 - pair[0].0) * RECORD_BLOCKS;
    let apart: Vec<u64> = aborts.windows(2).map(blocks_apart).collect();
    Ok(Aborted {
        // Three abort records over the 100 records, and one after them.
        every_64_blocks: aborts.len() as u64 == WRITES * RECORD_BLOCKS / 64 + 1
            && apart.iter().rev().skip(1).all(|&apart| apart == 64)
            && apart.last().is_some_and(|&apart| apart <= 64),
        points_back: !aborts.is_empty() && aborts.iter().all(|(_, back)| Some(*back) == end_of_commit),
        begins_with_a_record: matches!(written(0), Some(Record::Data { .. })),
    })
}

/// Judges B21 by the set-up's constants in the code: the B+ tree of Fig. 7, and the machine of Fig. 8.
pub fn b21(claim: &Claim, session: &Session, _: &Measurements) -> Result<Finding, Error> {
    let SortedShape { bytes, keys, value_bytes, .. } = SortedShape::BLURRED;
    let machine = super::PAPER.machine.map(|machine| session.load(machine, &[])).transpose()?;
    let measured = [
        Sizes::default().value_bytes,
        Geometry::default().log_bytes,
        DEFAULT_WRITE_LATENCY_NS,
        bytes,
        keys,
        SortedShape::KEY_BYTES,
        value_bytes,
    ];
    let measured = measured.into_iter().map(|number| Some(number as f64));
    let measured = measured.chain([machine.map(|machine| machine.cores.count as f64)]).collect();
    Ok(Finding::exact(
        claim,
        measured,
        "The constants that this laboratory runs with: Sizes::default, Geometry::default, DEFAULT_WRITE_LATENCY_NS, \
         SortedShape::BLURRED, and the cores of the simulated machine that Fig. 8 is judged on.",
    )
    .note("That the latency is added to flush operations and never to evictions is how both are charged; no number shows it."))
}

/// Judges B22 by how far recovery's scan looks ahead, and by the size of one atomic write.
pub fn b22(claim: &Claim, _: &Session, _: &Measurements) -> Result<Finding, Error> {
    const RECORDS: u64 = 256;
    // The log has a committed transaction, a hole from record 2 on, an abort record after it, and a second transaction, which recovery finds only if
    // it finds the abort record.
    let bridged = |abort: u64| {
        let mut words = vec![0; (RECORD_BLOCKS * RECORDS) as usize];
        let mut put = |at: u64, record: Record| {
            words[(RECORD_BLOCKS * at) as usize..][..2].copy_from_slice(&record.encode(true));
        };
        let data = Record::Data { address: 4096, value: 7, mask: 0xff };
        put(0, data);
        put(1, Record::Commit { transaction: 1 });
        put(abort, Record::Abort { back_pointer: 2 });
        put(abort + 1, data);
        put(abort + 2, Record::Commit { transaction: 2 });
        let world: Rc<dyn World> = Rc::new(Recorder::new(words, 8, 0, 1, None));
        let mut committed = Vec::new();
        scan(&Hosted::new(world, 0), PersistentAddress::new(0), RECORDS, true, &mut committed);
        committed.len() == 2
    };
    let ahead = (3..RECORDS - 3).take_while(|&abort| bridged(abort)).count() as u64 * RECORD_BLOCKS;
    Ok(Finding::exact(
        claim,
        vec![Some(ahead as f64), Some(8.0 * WORD_BYTES as f64)],
        "Recovery's scan (log::scan) reads logs with a hole before an abort record, farther and farther away: this is the \
         farthest that it bridges. The second number is a constant of the code, the word of waist 2, which one aligned 64-bit \
         store writes: no run could find another. \
         That truncation sets the torn bits of holes is what the crash checker's mutant without it (RestartInert, \
         RestartWriteBack) is found by.",
    ))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::session::Effort;
    use crate::verdict::Verdict;

    #[test]
    fn the_format_is_the_papers() {
        let session = Session::for_tests(Effort::Trial);
        let paper = &super::super::PAPER;
        for id in ["B17", "B21", "B22"] {
            let claim = paper.data().find(|claim| claim.id == id).unwrap();
            let judge = paper.claim(id).unwrap().judge;
            let finding = judge(claim, &session, &Measurements::default()).unwrap();
            assert_eq!(finding.verdict, Verdict::Holds, "{finding:?}");
        }
    }
}
