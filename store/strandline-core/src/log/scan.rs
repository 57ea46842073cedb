//! Reads a log after a crash (section III-C, step 1). All that a scan recognizes as a record was written in this life, because the log was durably
//! zeroed when the life began (`scheme/recovery.rs`).

use super::record::{ABORT_GROUP_RECORDS, RECORD_BLOCKS, Record, is_abort, is_commit};
use crate::memory::{Memory, PersistentAddress, Step};

/// One write of a committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The home address of the word.
    pub address: PersistentAddress,
    /// The word's new value; only the bytes in `mask` are valid.
    pub value: u64,
    /// Bit i is set if byte i of the value is valid.
    pub mask: u8,
}

/// A transaction that a scan found committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its TxID.
    pub transaction: u64,
    /// Its writes, in the order in which they were logged.
    pub writes: Vec<Write>,
}

fn blocks<M: Memory>(memory: &M, log: PersistentAddress, record: u64) -> [u64; 2] {
    let mut blocks = [0; 2];
    memory.load_range(log.word(record * RECORD_BLOCKS), &mut blocks);
    blocks
}

/// Returns record number `record` if both of its blocks carry the torn bit `phase`.
///
/// This loads the data block only if the metadata block shows that it matters. The fewer loads there are, the fewer decisions has a crash checker
/// that decides on each load what survived.
fn written<M: Memory>(memory: &M, log: PersistentAddress, record: u64, phase: bool) -> Option<Record> {
    let at = log.word(record * RECORD_BLOCKS);
    let metadata = memory.load(at.word(1));
    if Record::torn_bit([metadata; 2]) != Some(phase) {
        return None;
    }
    let blocks = [memory.load(at), metadata];
    Record::torn_bit(blocks).map(|_| Record::decode(blocks))
}

/// Reads the run with torn bit `phase` from the beginning of the log of `records` records at `log`, and collects the transactions that have a commit
/// record. Returns the number of records read.
///
/// A record is written if both its blocks carry the phase's bit. At an unwritten record the scan looks ahead [`ABORT_GROUP_RECORDS`] records, and
/// continues after the nearest written abort record; if there is none, it ends. It does not rely on back-pointers, because an abort record that was
/// stored over data may be torn.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::log::{Record, scan};
///
/// let data = |value| Record::Data { address: 4096, value, mask: 0xff };
/// let records = [data(1), Record::Commit { transaction: 5 }, data(2)].map(|record| record.encode(true));
/// let mut committed = Vec::new();
/// // The last record is of a transaction that did not commit.
/// assert_eq!(scan(&log_of(&records), PersistentAddress::NULL, 64, true, &mut committed), 3);
/// assert_eq!((committed.len(), committed[0].transaction), (1, 5));
/// // Nothing was written in the other phase.
/// assert_eq!(scan(&log_of(&records), PersistentAddress::NULL, 64, false, &mut committed), 0);
/// ```
pub fn scan<M: Memory>(
    memory: &M,
    log: PersistentAddress,
    records: u64,
    phase: bool,
    committed: &mut Vec<Committed>,
) -> u64 {
    let abort = |at: u64| {
        is_abort(memory.load(log.word(at * RECORD_BLOCKS + 1))) && written(memory, log, at, phase).is_some()
    };
    let mut pending = Vec::new();
    let mut at = 0;
    while at < records {
        match written(memory, log, at, phase) {
            Some(Record::Data { mask: 0, .. }) => {}
            Some(Record::Data { address, value, mask }) => {
                pending.push(Write { address: PersistentAddress::new(address), value, mask });
            }
            Some(Record::Commit { transaction } | Record::CountedCommit { transaction, .. }) => {
                committed.push(Committed { transaction, writes: std::mem::take(&mut pending) });
            }
            Some(Record::Abort { .. }) => pending.clear(),
            None => {
                let short = memory.omitted(Step::RecoveryLookAheadShort);
                let distance = if short { ABORT_GROUP_RECORDS / 2 } else { ABORT_GROUP_RECORDS };
                let ahead = at + 1..records.min(at + 1 + distance);
                let Some(bridge) = ahead.into_iter().find(|&ahead| abort(ahead)) else { break };
                pending.clear();
                at = bridge;
            }
        }
        at += 1;
    }
    at
}

/// Reads a log whose transactions were durable before their commit records were stored: a commit record whose blocks both carry the bit `phase`
/// commits the records since the last one, whatever their torn bits are. Returns the number of records read.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::log::{Record, scan_fenced};
///
/// let data = |value| Record::Data { address: 4096, value, mask: 0xff };
/// // Only the commit record's torn bits count.
/// let commit = Record::Commit { transaction: 5 }.encode(true);
/// let memory = log_of(&[data(1).encode(false), data(2).encode(true), commit]);
/// let mut committed = Vec::new();
/// scan_fenced(&memory, PersistentAddress::NULL, 64, true, &mut committed);
/// assert_eq!((committed[0].transaction, committed[0].writes.len()), (5, 2));
/// ```
pub fn scan_fenced<M: Memory>(
    memory: &M,
    log: PersistentAddress,
    records: u64,
    phase: bool,
    committed: &mut Vec<Committed>,
) -> u64 {
    let mut writes = Vec::new();
    for at in 0..records {
        let blocks = blocks(memory, log, at);
        match Record::decode(blocks) {
            Record::Commit { transaction } if Record::torn_bit(blocks) == Some(phase) => {
                committed.push(Committed { transaction, writes: std::mem::take(&mut writes) });
            }
            Record::Data { address, value, mask } if mask != 0 => {
                writes.push(Write { address: PersistentAddress::new(address), value, mask });
            }
            // This is filling, or remains of an earlier run behind the log's end. No commit record refers to it.
            _ => {}
        }
    }
    records
}

/// Reads a log of counted commit records once, both phases at a time: a commit record counts if its blocks, and those of the number of records that
/// it contains, carry the same torn bit. Returns the number of records read.
///
/// ```
/// # use strandline_core::example::*;
/// use strandline_core::log::{Record, scan_counted};
///
/// let data = |value| Record::Data { address: 4096, value, mask: 0xff };
/// let commit = |transaction| Record::CountedCommit { transaction, records: 2 };
/// let records = [data(1), data(2), commit(5), data(3), data(4), commit(6)];
/// let mut records = records.map(|record| record.encode(true));
/// // Of the second transaction a block never reached memory.
/// records[4][0] ^= 1;
/// let mut committed = Vec::new();
/// scan_counted(&log_of(&records), PersistentAddress::NULL, 64, &mut committed);
/// assert_eq!((committed.len(), committed[0].transaction), (1, 5));
/// ```
pub fn scan_counted<M: Memory>(
    memory: &M,
    log: PersistentAddress,
    records: u64,
    committed: &mut Vec<Committed>,
) -> u64 {
    // The records just read that carry one torn bit. Each is `None` if it writes nothing.
    let (mut streak, mut phase) = (Vec::new(), None);
    for at in 0..records {
        let blocks = blocks(memory, log, at);
        let torn = Record::torn_bit(blocks);
        if torn.is_none() || torn != phase {
            streak.clear();
            phase = torn;
        }
        if torn.is_none() {
            continue;
        }
        let mut write = None;
        match Record::decode(blocks) {
            Record::CountedCommit { transaction, records } => {
                if let Some(first) = (streak.len() as u64).checked_sub(records) {
                    let writes = streak.drain(first as usize..).flatten().collect();
                    committed.push(Committed { transaction, writes });
                    streak.clear();
                }
            }
            Record::Data { address, value, mask } if mask != 0 => {
                write = Some(Write { address: PersistentAddress::new(address), value, mask });
            }
            _ => {}
        }
        streak.push(write);
    }
    records
}

/// Returns the highest TxID of any commit record in the log: of either phase, complete or not, and also past the log's end; 0 if there is none. If a
/// commit record's torn bits differ, this returns the TxID that would remain if only its data block were zeroed. (The crash checker found this case.
/// In a run of phase 0, TxID 1 is encoded as a data block of zero, so that zeroing completes its commit record; and the watermark of a pool that
/// never persisted in bulk is 0.)
pub fn highest_transaction<M: Memory>(memory: &M, log: PersistentAddress, records: u64) -> u64 {
    let mut highest = 0;
    for at in (0..records).map(|record| log.word(record * RECORD_BLOCKS)) {
        let metadata = memory.load(at.word(1));
        if is_commit(metadata) {
            let blocks = [memory.load(at), metadata];
            let torn = Record::torn_bit(blocks).is_none();
            if let Record::Commit { transaction } | Record::CountedCommit { transaction, .. } =
                Record::decode(if torn { [0, metadata] } else { blocks })
            {
                highest = highest.max(transaction);
            }
        }
    }
    highest
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::memory::recorder::Recorder;
    use crate::memory::{Hosted, World};

    const RECORDS: u64 = 100;
    const DATA: Record = Record::Data { address: 4096, value: 7, mask: 0xff };
    const ABORT: Record = Record::Abort { back_pointer: 0 };

    /// Returns the TxIDs that a scan finds in a log of phase 1 with these records at these positions; the rest is unwritten.
    fn found(records: &[(u64, Record)]) -> Vec<u64> {
        let mut words = vec![0; (2 * RECORDS) as usize];
        for &(at, record) in records {
            words[2 * at as usize..][..2].copy_from_slice(&record.encode(true));
        }
        let world: Rc<dyn World> = Rc::new(Recorder::new(words, 8, 0, 1, None));
        let mut committed = Vec::new();
        scan(&Hosted::new(world, 0), PersistentAddress::new(0), RECORDS, true, &mut committed);
        committed.into_iter().map(|found| found.transaction).collect()
    }

    fn commit(transaction: u64) -> Record {
        Record::Commit { transaction }
    }

    /// B22: at an unwritten block, recovery looks 64 blocks ahead and no further.
    #[test]
    fn a_hole_is_bridged_by_an_abort_record_64_blocks_ahead_and_no_further() {
        let log =
            |abort| [(0, DATA), (1, commit(1)), (abort, ABORT), (abort + 1, DATA), (abort + 2, commit(2))];
        // The hole begins at record 2.
        assert_eq!(found(&log(2 + ABORT_GROUP_RECORDS)), [1, 2]);
        assert_eq!(found(&log(3 + ABORT_GROUP_RECORDS)), [1]);
    }

    /// Recovery zeroes the log word by word, and the words become durable in any order.
    #[test]
    fn a_torn_commit_record_names_what_zeroing_leaves_of_it() {
        let [data, metadata] = Record::Commit { transaction: 1 }.encode(false);
        let highest = |data| {
            let world: Rc<dyn World> = Rc::new(Recorder::new(vec![data, metadata], 8, 0, 1, None));
            highest_transaction(&Hosted::new(world, 0), PersistentAddress::new(0), 1)
        };
        let lost = 0x1235;
        assert_eq!((highest(data), highest(lost)), (1, 1));
    }

    /// Returns a log with three transactions: that with TxID 1 is complete, that with 2 lacks a block, and that with 3 is complete in the other
    /// phase.
    #[test]
    fn a_counted_commit_record_takes_as_many_records_as_it_says() {
        let counted = |transaction, records| Record::CountedCommit { transaction, records };
        let mut words = vec![0; (2 * RECORDS) as usize];
        let log = [
            (0, DATA, true),
            (1, DATA, true),
            (2, counted(1, 1), true),
            (3, DATA, true),
            (4, DATA, true),
            (5, counted(2, 2), true),
            (6, DATA, false),
            (7, counted(3, 1), false),
            (8, counted(4, 3), false),
        ];
        for (at, record, torn) in log {
            words[2 * at..][..2].copy_from_slice(&record.encode(torn));
        }
        words[2 * 4 + 1] ^= 1;
        let world: Rc<dyn World> = Rc::new(Recorder::new(words, 8, 0, 1, None));
        let mut committed = Vec::new();
        scan_counted(&Hosted::new(world, 0), PersistentAddress::new(0), RECORDS, &mut committed);
        let found: Vec<_> = committed.iter().map(|found| (found.transaction, found.writes.len())).collect();
        assert_eq!(found, [(1, 1), (3, 1)]);
    }

    #[test]
    fn what_lies_before_an_abort_record_is_dropped() {
        assert_eq!(found(&[(0, DATA), (1, ABORT), (2, DATA), (3, commit(5))]), [5]);
        // The nearest abort record counts, so that the scan finds a commit record between two of them.
        assert_eq!(found(&[(0, DATA), (3, ABORT), (4, DATA), (5, commit(6)), (9, ABORT)]), [6]);
        // A commit record that follows a hole without an abort record is past the log's end.
        assert_eq!(found(&[(0, DATA), (2, commit(1))]), []);
    }
}
