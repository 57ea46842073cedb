//! `bppm-counted`, ours: BPPM with the count-based commit of Loose-Ordering Consistency (Lu, Shu, Sun, Mutlu; section III-B), which needs no abort
//! records.
//!
//! # The protocol
//!
//! Like BPPM (`blurred.rs`), but a commit record holds in its ADDR field, which the paper leaves unused, the number of records of its transaction. It
//! is valid if its blocks and those of so many records before it carry the same torn bit: then all of them were written in this run and belong to it,
//! because a transaction's records are contiguous. An aborted transaction leaves its records as they are, written to memory or not: no commit record
//! includes them, and their blocks are not reused in this run. So there are no abort records, no back-pointers and no look-ahead. A commit writes
//! back only its own lines, and recovery reads each log once, completely.
//!
//! A crash may leave any of the running transaction's blocks, torn or whole. Without the commit record they are ignored; if the commit record is
//! there but another block is missing, the count does not match. A commit record of an earlier run that is not overwritten yet has a TxID at or below
//! the watermark.

use crate::native;
use strandline_core::log::ThreadLog;
use strandline_core::memory::{Memory, Step};
use strandline_core::scheme::Reading;
use strandline_core::scheme::{BULK_LOG, BULK_STEPS, BulkPersistence};
use strandline_core::scheme::{Logging, REDO_STEPS, Redo};
use strandline_core::scheme::{Mode, Of, SchemeDescriptor};
use strandline_core::transaction::{Concurrency, WriteSet};

/// `bppm-counted`.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::Abort;
/// use strandline_schemes::BPPM_COUNTED;
///
/// let mut worker = Worker::lease_of(view, &BPPM_COUNTED, Concurrency::Stm, None)?;
/// let given_up = worker.run(|tx| {
///     tx.write(tx.root(0), 1)?;
///     Err::<(), _>(Abort::User)
/// });
/// assert!(given_up.is_err());
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write(tx.root(0), 2))?;
/// // The aborted transaction has left no abort record to write back.
/// assert_eq!((worker.statistics().total - before).lines_written_back, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static BPPM_COUNTED: SchemeDescriptor = SchemeDescriptor {
    code: 7,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "bppm-counted", redundant: &[BULK_LOG] },
        Mode {
            concurrency: Concurrency::SingleWriter,
            name: "bppm-counted+single-writer",
            redundant: &[BULK_LOG],
        },
    ],
    source: "Strandline: Blurred Persistence with Loose-Ordering's counts",
    description: "bppm without abort records: a commit record counts its transaction's records",
    steps: &[
        &[
            Step::CommitWriteBack,
            Step::CommitFence,
            Step::CommitWriteBackPartial,
            Step::CommitFenceEarly,
            Step::RestartWriteBackPartial,
        ],
        BULK_STEPS,
        REDO_STEPS,
    ],
    commit_cost: Some(|_, _, log_lines| (log_lines, 1, 0)),
    ..native(&Of::<Redo<Counting, BulkPersistence>>::NEW)
};

/// Execution in the log with counted commit records: the location of a value is the position of its record.
#[derive(Default)]
pub struct Counting;

impl Logging for Counting {
    const READING: Reading = Reading::Counted;

    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, _: &WriteSet, transaction: u64) -> u64 {
        log.commit_counted(memory, transaction)
    }

    fn abort<M: Memory>(&mut self, _: &M, log: &mut ThreadLog) {
        log.abandon();
    }
}
