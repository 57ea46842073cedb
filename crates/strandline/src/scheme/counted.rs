//! `bppm-counted`, ours: BPPM with the count-based commit of Loose-Ordering Consistency (Lu, Shu, Sun, Mutlu;
//! section III-B), which needs no abort records.
//!
//! # The protocol
//!
//! As BPPM (`blurred.rs`), but a commit record says in its ADDR field, which the paper leaves unused, how many
//! records its transaction has. It counts if its blocks and those of so many records before it carry the same torn
//! bit: then all of them were written in this run, and belong to it, because a transaction's records lie side by
//! side. An aborted transaction leaves its records as they are, written to memory or not: no commit record counts
//! them in, and their blocks are not used again in this run. So there are no abort records, no back-pointers and no
//! look-ahead, a commit writes nothing back but its own lines, and recovery reads each log once, whole.
//!
//! A crash leaves any of the running transaction's blocks behind, torn or whole. Without its commit record they mean
//! nothing; with it, but without one of the others, the count does not come out. A commit record of an earlier run
//! that is not overwritten yet names a TxID at or below the watermark.

use super::blurred::BulkPersistence;
use super::recovery::Reading;
use super::redo::{Logging, LoggingWay, Redo};
use crate::log::ThreadLog;
use crate::memory::Memory;

/// `bppm-counted`.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::{Abort, scheme::SchemeKind};
///
/// let mut worker = Worker::lease_of(view, SchemeKind::Counted, Concurrency::Stm, None)?;
/// let given_up = worker.run(|tx| {
///     tx.write(tx.root(0), 1)?;
///     Err::<(), _>(Abort::User)
/// });
/// assert!(given_up.is_err());
/// let before = worker.statistics().total;
/// worker.run(|tx| tx.write(tx.root(0), 2))?;
/// // What was aborted has left no abort record to be written back.
/// assert_eq!((worker.statistics().total - before).lines_written_back, 1);
/// # Ok::<(), strandline::Error>(())
/// ```
pub type Counted = Redo<Counting, BulkPersistence>;

/// Execution in the log with counted commit records: a value's place is its record's position.
#[derive(Default)]
pub struct Counting;

impl Logging for Counting {
    const WAY: LoggingWay = LoggingWay::Counted;
    const READING: Reading = Reading::Counted;

    #[inline(always)]
    fn commit<M: Memory>(&mut self, memory: &M, log: &mut ThreadLog, transaction: u64) -> u64 {
        log.commit_counted(memory, transaction)
    }

    fn abort<M: Memory>(&mut self, _: &M, log: &mut ThreadLog) {
        log.abandon();
    }
}
